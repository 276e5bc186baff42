# SPDX-License-Identifier: Apache-2.0
"""Every key of a configuration, as the kernel sees it inside a real sandbox."""
import json
import os
import subprocess
import time

import pytest

from conftest import BRIG, need
from test_config import conf, refused, sh, under

def limited(who, what):
    """This machine gives this user such a control group."""
    probes = {p["name"]: p for p in who.brig("doctor", "--json").json["backends"]["native"]["probes"]}
    return probes[what]["state"] == "ok"


def key_mode(who):
    # what the kernel shows of each: its own pid namespace, a filter only, nothing at all
    shows = "readlink /proc/self/ns/pid; grep ^Seccomp: /proc/self/status"
    ours = os.readlink("/proc/self/ns/pid")

    def look(name, extra=""):
        r = under(who, "sandbox: {mode: %s%s}\n" % (name, extra), "sh", "-c", shows)
        assert r.json["backend"] == name, r
        return r, (r.json["stdout"].split() if r.json["ran"] else None)

    r, (ns, _, filtered) = look("native")
    assert ns != ours and filtered == "2" and "pid" in r.json["enforced"]
    r, (ns, _, filtered) = look("none")
    assert ns == ours and filtered == "0" and set(r.json["enforced"]) <= {"memory", "pids", "cpu"}
    for name, own in (("landlock", False), ("bwrap", True)):
        r, seen = look(name)
        if who.is_root:  # root's own workspace is for native only
            assert r.code == 125 and r.json["error"]["code"] == "BAD_WORKSPACE" and seen is None
            continue
        assert (seen[0] != ours) is own and seen[2] == "2", r
        assert ("pid" in r.json["enforced"]) is own
    refused(who, "sandbox: {mode: seatbelt}\n", "UNSUPPORTED", "seatbelt")
    refused(who, "sandbox: {mode: wrapper}\n", "BAD_VALUE", "template")
    r = under(who, "sandbox: {mode: docker}\n", *who.ran_marker())
    assert r.code == 125 and "docker" in r.json["backend"] and not who.marker.exists()


def key_fallback(who):
    # there is no such backend on Linux
    refused(who, "sandbox: {mode: seatbelt}\n", "UNSUPPORTED", "seatbelt")
    r = under(who, "sandbox: {mode: seatbelt, fallback: [native]}\n", "true")
    assert r.code == 0 and r.json["backend"] == "native" and "mount" in r.json["enforced"]
    assert [d["target"] for d in r.json["denied"] if d["kind"] == "backend"] == ["seatbelt"], "a silent fallback"


def key_require(who):
    assert under(who, "sandbox: {limits: {memory: 0}}\n", "true").code == 0
    r = under(who, "sandbox: {limits: {memory: 0}, require: [memory]}\n", *who.ran_marker())
    assert r.code == 125 and r.json["ran"] is False and "memory" in r.json["error"]["message"], r
    assert r.json["error"]["code"] in ("REQUIRE_UNMET", "LIMIT_UNENFORCEABLE") and not who.marker.exists()


def key_workspace_path(who):
    d = who.mkdir(who.base / "elsewhere")
    r = who.brig("run", "--config", conf(who, "sandbox: {workspace: {path: %s}}\n" % d), "--", "sh", "-c",
                 "pwd; echo x > made", cwd="/")
    assert (r.code, r.out) == (0, "%s\n" % d), r
    assert (d / "made").exists()


def key_workspace_root(who):
    root = who.mkdir(who.base / "all")
    inside = who.mkdir(root / "one")
    who.symlink(root / "out", who.ws)
    text = "sandbox: {workspace: {root: %s}}\n" % root
    refused(who, text, "BAD_WORKSPACE", "outside", root)
    f = conf(who, text)
    assert who.brig("run", "--config", f, "--workspace", inside, "--", "true").code == 0
    r = who.brig("run", "--config", f, "--workspace", root / "out", "--", *who.ran_marker())
    assert r.code == 125 and not who.marker.exists(), "a link led out of the root"


def key_workspace_at(who):
    assert sh(who, "sandbox: {workspace: {at: /work}}\n", "pwd; echo x > made").json["stdout"] == "/work\n"
    assert (who.ws / "made").exists()


def key_workspace_access(who):
    r = sh(who, "sandbox: {workspace: {access: ro}}\n", "echo x > made")
    assert r.code != 0 and "Read-only" in r.json["stderr"] and not (who.ws / "made").exists()
    assert sh(who, "sandbox: {workspace: {access: rw}}\n", "echo x > made").code == 0
    assert (who.ws / "made").exists()


def key_workspace_protect(who):
    who.write(who.ws / "Makefile", "all:\n")
    assert sh(who, "sandbox: {workspace: {protect: [Makefile]}}\n", "echo x > Makefile").code != 0
    assert (who.ws / "Makefile").read_text() == "all:\n"
    assert sh(who, "sandbox: {}\n", "echo x > Makefile").code == 0
    who.write(who.ws / ".envrc", "old\n")
    assert sh(who, "sandbox: {}\n", "echo x > .envrc").code != 0
    assert sh(who, "sandbox: {workspace: {protect: [none]}}\n", "echo x > .envrc").code == 0


def key_workspace_allow_home(who):
    run = ["run", "--workspace", who.home, "--config"]
    r = who.brig(*run, conf(who, "sandbox: {workspace: {allow_home: false}}\n"), "--", *who.ran_marker())
    r.refused(125, "BAD_WORKSPACE", "home")
    assert who.brig(*run, conf(who, "sandbox: {workspace: {allow_home: true}}\n"), "--", "true").code == 0


def key_filesystem_read(who):
    d = who.mkdir(who.base / "tree")
    who.write(d / "file", "seen\n")
    assert sh(who, "sandbox: {}\n", "cat %s/file" % d).code != 0
    r = sh(who, "sandbox: {filesystem: {read: [%s, '%s:/data']}}\n" % (d, d),
           "cat %s/file /data/file; echo x > %s/file" % (d, d))
    assert r.json["stdout"] == "seen\nseen\n" and "Read-only" in r.json["stderr"]
    assert (d / "file").read_text() == "seen\n"
    # what the run adds comes on top, and the same tree twice is once
    r = sh(who, "sandbox: {filesystem: {read: [%s]}}\n" % d, "cat %s/file /more/file" % d,
           opts=["--ro", d, "--ro", "%s:/more" % d])
    assert r.json["stdout"] == "seen\nseen\n"
    refused(who, "sandbox: {filesystem: {read: [/no/such/tree]}}\n", "BAD_MOUNT", "conf.yaml:1:31: filesystem.read")


def key_filesystem_write(who):
    d = who.mkdir(who.base / "tree", 0o777)
    assert sh(who, "sandbox: {filesystem: {write: [%s]}}\n" % d, "echo x > %s/made" % d).code == 0
    assert (d / "made").read_text() == "x\n"
    assert sh(who, "sandbox: {filesystem: {read: [%s]}}\n" % d, "echo y > %s/made" % d).code != 0


def key_filesystem_mask(who):
    d = who.mkdir(who.base / "tree")
    who.write(d / "secret", "hidden\n")
    text = "sandbox: {filesystem: {read: [%s]%s}}\n"
    assert sh(who, text % (d, ""), "cat %s/secret" % d).json["stdout"] == "hidden\n"
    assert sh(who, text % (d, ", mask: [%s/secret]" % d), "cat %s/secret" % d).json["stdout"] == ""
    # a later layer can add to the list, and nothing takes away from it
    r = sh(who, text % (d, ", mask: [%s/secret]" % d), "cat %s/secret; ls /usr/share/doc" % d,
           opts=["--mask", "/usr/share/doc"])
    assert r.json["stdout"] == ""


def key_filesystem_tmp_size(who):
    fill = "head -c 3M /dev/zero > /tmp/x && echo fits"
    assert sh(who, "sandbox: {filesystem: {tmp_size: 8M}}\n", fill).json["stdout"] == "fits\n"
    assert "No space" in sh(who, "sandbox: {filesystem: {tmp_size: 1M}}\n", fill).json["stderr"]


def key_network_mode(who):
    mine = os.readlink("/proc/self/ns/net")
    assert sh(who, "sandbox: {network: {mode: none}}\n", "readlink /proc/self/ns/net").json["stdout"].strip() != mine
    for text in ("sandbox: {network: {mode: host}}\n", "sandbox: {network: host}\n"):
        assert sh(who, text, "readlink /proc/self/ns/net").json["stdout"].strip() == mine


def key_network_allow(who):
    """A listed name has an address inside, another has none; what is behind the
    address is tests/egress."""
    ask = "getent hosts a.example.com && echo known; getent hosts b.example.com || echo unknown; readlink /proc/self/ns/net"
    for opts, text in (([], "sandbox: {network: {allow: [a.example.com]}}\n"),
                       (["--allow", "a.example.com"], "sandbox: {network: host}\n")):
        r = sh(who, text, ask, opts=opts)
        out = r.json["stdout"].split()
        assert "known" in out and "unknown" in out and out[-1] != os.readlink("/proc/self/ns/net"), r
        assert out[0].startswith(("198.18.", "fd62:7269:6720:")), "a real address"
        assert [d["target"] for d in r.json["denied"] if d["kind"] == "net"] == ["b.example.com"], r.json["denied"]


def key_network_learn(who):
    """Names that no list has get an address; the checks behind it are in tests/egress."""
    if not (BRIG.parent / "brig-egress").exists():
        pytest.skip("brig-egress is not beside brig")
    look = "getent hosts host.example.invalid || echo none"
    r = sh(who, "sandbox: {network: {mode: allow, learn: false}}\n", look)
    assert r.json["stdout"] == "none\n" and "learned" not in r.json, r
    r = sh(who, "sandbox: {network: {learn: true}}\n", look)
    assert r.json["stdout"].split()[-1] == "host.example.invalid" and r.json["learned"] == [], r


def key_network_proxy_env(who):
    look = "env | grep -ci _proxy=; bash -c 'exec 3<>/dev/tcp/127.0.0.1/3128' 2>/dev/null && echo open; true"
    assert sh(who, "sandbox: {network: {mode: allow}}\n", look).json["stdout"] == "0\n"
    assert sh(who, "sandbox: {network: {mode: allow, proxy_env: true}}\n", look).json["stdout"] == "8\nopen\n"


def key_network_loopback(who):
    code = ("import socket\ns = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen()\n"
            "c = socket.create_connection(s.getsockname()); print('up')")
    need("python3")
    cmd = ["/usr/bin/python3", "-c", code]
    assert under(who, "sandbox: {network: {loopback: on}}\n", *cmd).json["stdout"] == "up\n"
    assert under(who, "sandbox: {network: {loopback: true}}\n", *cmd).json["stdout"] == "up\n"
    r = under(who, "sandbox: {network: {loopback: off}}\n", *cmd)
    assert r.code != 0 and "up" not in r.json["stdout"]


def key_env_set(who):
    r = sh(who, "sandbox: {env: {set: {A: 'x y', B: '', C: '1'}}}\n", 'echo "[$A][${B-unset}][$C]"', opts=["--env", "C=run"])
    assert r.json["stdout"] == "[x y][][run]\n"


def key_env_pass(who):
    env = {"MINE": "v", "TZ": "UTC"}
    show = 'echo "[${MINE-no}][${TZ-no}]"'
    assert sh(who, "sandbox: {}\n", show, env=env).json["stdout"] == "[no][UTC]\n"
    assert sh(who, "sandbox: {env: {pass: [MINE, ABSENT]}}\n", show, env=env).json["stdout"] == "[v][no]\n"
    assert sh(who, "sandbox: {env: {pass: []}}\n", show, env=env).json["stdout"] == "[no][no]\n"


def key_env_path_prepend(who):
    d = who.mkdir(who.base / "tools")
    who.write(d / "special-tool", "#!/bin/sh\necho found\n", 0o755)
    text = "sandbox: {filesystem: {read: [%s]}%s}\n"
    assert under(who, text % (d, ""), "special-tool").code == 127
    assert under(who, text % (d, ", env: {path_prepend: [%s]}" % d), "special-tool").json["stdout"] == "found\n"


def key_toolchains(who):
    d = who.mkdir(who.home / ".local/bin")
    who.write(d / "special-tool", "#!/bin/sh\necho found\n", 0o755)
    env = {"PATH": "%s:%s" % (d, who.env["PATH"])}
    assert under(who, "sandbox: {toolchains: [none]}\n", "special-tool", env=env).code == 127
    r = under(who, "sandbox: {toolchains: [auto]}\n", "special-tool", env=env)
    if r.code == 127:
        pytest.skip("toolchains are not in this build")
    assert r.json["stdout"] == "found\n"


def key_caches(who):
    cache = who.mkdir(who.home / ".cache/pip")
    who.write(cache / "wheel", "cached\n")
    show = "cat ~/.cache/pip/wheel"
    assert sh(who, "sandbox: {caches: private}\n", show).json["stdout"] == ""
    r = sh(who, "sandbox: {caches: shared}\n", show + "; echo x > ~/.cache/pip/wheel")
    if r.json["stdout"] == "":
        pytest.skip("shared caches are not in this build, or not for pip without python's toolchain")
    assert r.json["stdout"] == "cached\n" and (cache / "wheel").read_text() == "cached\n"


def key_limits_timeout(who):
    r = under(who, "sandbox: {limits: {timeout: 0.3}}\n", "sleep", "20")
    assert r.code == 124 and r.json["timed_out"] and r.seconds < 5


def key_limits_memory(who):
    text = "sandbox: {limits: {memory: 32M}}\n"
    if not limited(who, "memory limit"):
        refused(who, text, "LIMIT_UNENFORCEABLE")
        return
    r = under(who, text, "/usr/bin/python3", "-c", "x = bytearray(200_000_000); print('much')")
    assert r.json["oom"] and "much" not in r.json["stdout"]
    r = under(who, "sandbox: {limits: {memory: 400M}}\n", "/usr/bin/python3", "-c", "x = bytearray(200_000_000); print('much')")
    assert r.json["stdout"] == "much\n"


def key_limits_cpus(who):
    text = "sandbox: {limits: {cpus: 0.1}}\n"
    if not limited(who, "processor limit"):
        refused(who, text, "LIMIT_UNENFORCEABLE")
        return
    burn = "import time\nend = time.monotonic() + 1.5\nwhile time.monotonic() < end: pass\nprint(time.process_time())"
    used = float(under(who, text, "/usr/bin/python3", "-c", burn).json["stdout"])
    assert used < 0.6, "a tenth of a processor for 1.5 seconds"


def key_limits_pids(who):
    text = "sandbox: {limits: {pids: 8}}\n"
    if not limited(who, "process limit"):
        refused(who, text, "LIMIT_UNENFORCEABLE")
        return
    r = sh(who, text, "for i in 1 2 3 4 5 6 7 8 9 10 11 12; do sleep 1 & done; wait")
    assert "fork" in r.json["stderr"].lower() or r.code != 0, r
    assert sh(who, "sandbox: {limits: {pids: 64}}\n", "for i in 1 2 3 4 5 6 7 8 9 10; do sleep 0 & done; wait").code == 0


def key_limits_file_size(who):
    write = "head -c 3M /dev/zero > big; true"
    sh(who, "sandbox: {limits: {file_size: 1M}}\n", write)
    assert (who.ws / "big").stat().st_size <= 1 << 20
    sh(who, "sandbox: {limits: {file_size: 0}}\n", write)
    assert (who.ws / "big").stat().st_size == 3 << 20


def key_limits_output(who):
    r = sh(who, "sandbox: {limits: {output: 1000}}\n", "head -c 50000 /dev/zero | tr '\\0' x")
    assert r.json["truncated"]["stdout"] >= 48000 and len(r.json["stdout"]) < 2000


def key_limits_disk(who):
    refused(who, "sandbox: {limits: {disk: 1G}}\n", "LIMIT_UNENFORCEABLE", "conf.yaml:1:26: limits.disk")


def key_seccomp_profile(who):
    profile = who.write(who.base / "etc/profile.json", json.dumps({
        "defaultAction": "SCMP_ACT_ALLOW",
        "syscalls": [{"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO", "errnoRet": 1}]}))
    assert sh(who, "sandbox: {seccomp_profile: default}\n", "mkdir made").code == 0
    r = sh(who, "sandbox: {seccomp_profile: profile.json}\n", "mkdir other")
    assert r.code != 0 and "not permitted" in r.json["stderr"] and not (who.ws / "other").exists()
    profile.write_text("{}")
    refused(who, "sandbox: {seccomp_profile: profile.json}\n", "BAD_SECCOMP_PROFILE")


def key_read_only(who):
    assert sh(who, "sandbox: {read_only: true}\n", "touch /usr/x").code != 0
    refused(who, "sandbox: {read_only: false}\n", "UNSUPPORTED", "read_only")


def key_drop_caps(who):
    for text in ("sandbox: {drop_caps: [ALL]}\n", "sandbox: {drop_caps: [NET_RAW]}\n", "sandbox: {drop_caps: []}\n"):
        out = sh(who, text, "grep Cap /proc/self/status").json["stdout"]
        assert {x.split()[1].strip("0") for x in out.splitlines()} == {""}, out


def key_add_caps(who):
    refused(who, "sandbox: {add_caps: [NET_RAW]}\n", "UNSUPPORTED", "add_caps")


def docker_key(value):
    """Here: the backend is asked, at the socket of the file, and nothing runs without it.
    What the keys do in a container is in test_docker.py, on a real engine."""
    def check(who):
        sock = who.base / "no-engine.sock"
        docker = "socket: %s" % sock
        refused(who, "sandbox: {mode: docker, %s}\n" % (value % docker), "SETUP_FAILED", str(sock))
    return check


def key_image(who):
    refused(who, "sandbox: {mode: docker}\n", "BAD_OPTION", "needs an image")
    docker_key("image: x, docker: {%s}")(who)


def key_wrapper(who):
    text = "printf '%s|' \"a'b $(echo x)\" {cwd}"
    for template in ("['env', 'SEEN=yes', 'sh', '-c', '{command}']", "'env SEEN=yes sh -c {command}'"):
        r = under(who, "sandbox: {mode: wrapper, wrapper: %s}\n" % template, "sh", "-c",
                  "printf '%s|' \"$SEEN\"; " + text)
        assert r.json["ran"] and r.json["backend"] == "wrapper", r
        assert r.json["stdout"] == "yes|a'b x|{cwd}|", r
    refused(who, "sandbox: {mode: wrapper, wrapper: 'env'}\n", "BAD_VALUE", "{command}")


KEYS = {
    "mode": key_mode, "fallback": key_fallback, "require": key_require,
    "workspace.path": key_workspace_path, "workspace.root": key_workspace_root, "workspace.at": key_workspace_at,
    "workspace.access": key_workspace_access, "workspace.protect": key_workspace_protect,
    "workspace.allow_home": key_workspace_allow_home,
    "filesystem.read": key_filesystem_read, "filesystem.write": key_filesystem_write,
    "filesystem.mask": key_filesystem_mask, "filesystem.tmp_size": key_filesystem_tmp_size,
    "network.mode": key_network_mode, "network.allow": key_network_allow,
    "network.learn": key_network_learn, "network.proxy_env": key_network_proxy_env,
    "network.loopback": key_network_loopback,
    "env.set": key_env_set, "env.pass": key_env_pass, "env.path_prepend": key_env_path_prepend,
    "toolchains": key_toolchains, "caches": key_caches,
    "limits.timeout": key_limits_timeout, "limits.memory": key_limits_memory, "limits.cpus": key_limits_cpus,
    "limits.pids": key_limits_pids, "limits.file_size": key_limits_file_size, "limits.output": key_limits_output,
    "limits.disk": key_limits_disk,
    "seccomp_profile": key_seccomp_profile, "read_only": key_read_only, "drop_caps": key_drop_caps,
    "add_caps": key_add_caps, "wrapper": key_wrapper,
    "image": key_image, "runtime": docker_key("image: x, runtime: runsc, docker: {%s}"),
    "docker.socket": docker_key("image: x, docker: {%s}"),
    "docker.pool": docker_key("image: x, docker: {pool: 2, %s}"),
    "docker.idle": docker_key("image: x, docker: {idle: 2, %s}"),
    # other spellings, through the same doors
    "memory_limit_mb": lambda who: key_limits_memory_spelt(who), "cpu_quota": lambda who: key_cpu_spelt(who),
    "lock": lambda who: refused(who, "sandbox: {lock: [limits], limits: {timeout: 5}}\n", "LOCKED", opts=["--timeout", "6"]),
}


def key_limits_memory_spelt(who):
    text = "sandbox: {memory_limit_mb: 32}\n"
    if not limited(who, "memory limit"):
        refused(who, text, "LIMIT_UNENFORCEABLE")
        return
    assert under(who, text, "/usr/bin/python3", "-c", "x = bytearray(200_000_000); print('much')").json["oom"]


def key_cpu_spelt(who):
    text = "sandbox: {cpu_quota: 10000}\n"
    if not limited(who, "processor limit"):
        refused(who, text, "LIMIT_UNENFORCEABLE")
        return
    burn = "import time\nend = time.monotonic() + 1.5\nwhile time.monotonic() < end: pass\nprint(time.process_time())"
    assert float(under(who, text, "/usr/bin/python3", "-c", burn).json["stdout"]) < 0.6


@pytest.mark.parametrize("key", KEYS)
def test_key(who, key):
    KEYS[key](who)


def schema_keys():
    top = json.loads(subprocess.run([BRIG, "config", "schema"], stdout=subprocess.PIPE, check=True).stdout)
    found = set()
    for name, rule in top["$defs"]["sandbox"]["anyOf"][-1]["properties"].items():
        rule = rule["anyOf"][-1] if "anyOf" in rule else rule
        inner = rule.get("properties")
        found |= {"%s.%s" % (name, k) for k in inner} if inner is not None else {name}
    return found


def test_every_key_has_a_test():
    keys = schema_keys()
    assert len(keys) > 35
    assert keys - set(KEYS) == set(), "keys of the schema that no test shows the kernel obeying"
    assert set(KEYS) - keys == set(), "tests of keys that are gone"
