# SPDX-License-Identifier: Apache-2.0
"""Configuration files: what they say is what the kernel enforces, and a file
that is wrong, or somebody else's, starts nothing.

The last part has one test per key of the schema.  A key without a test fails
`test_every_key_has_a_test`.
"""
import json
import os
import shutil
import subprocess
import time

import pytest

from conftest import BRIG, ESC, IS_ROOT, REPO, Done, need

VERBS = {"run": 125, "shell": 125, "explain": 2, "config-check": 2, "config-show": 2}


def conf(who, text, name="conf.yaml", mode=0o644):
    return who.write(who.base / "etc" / name, text, mode)


def under(who, text, *cmd, opts=(), **kw):
    """brig run --json with this configuration."""
    return who.run(*cmd, opts=["--config", conf(who, text), *opts], **kw)


def sh(who, text, script, opts=(), **kw):
    r = under(who, text, "/bin/sh", "-c", script, opts=opts, **kw)
    assert r.json and r.json["ran"], r
    return r


def refused(who, text, name, *words, opts=(), code=125):
    """Nothing runs, and one line says why."""
    r = under(who, text, *who.ran_marker(), opts=opts)
    r.refused(code, name, *words)
    assert r.json["ran"] is False and r.json["error"]["code"] == name, r
    assert not who.marker.exists(), "the command ran"
    return r


def verb(who, which, *opts, **kw):
    words = {"run": ["run", "--workspace", who.ws, *opts, "--", *who.ran_marker()],
             "shell": ["shell", "--workspace", who.ws, *opts],
             "explain": ["explain", "--workspace", who.ws, *opts, "--", *who.ran_marker()],
             "config-show": ["config", "show", "--effective", *opts],
             "config-check": ["config", "check", *[o for o in opts if o != "--config"]]}[which]
    return who.brig(*words, **kw)


# -- must show -----------------------------------------------------------------

DOCKER = """\
sandbox:
  mode: docker
  image: agent-tools:latest
  runtime: runsc
  memory_limit_mb: 512
  cpu_quota: 50000
  network: none
  read_only: true
  drop_caps: [ALL]
  add_caps: []
  seccomp_profile: default
"""


@pytest.mark.parametrize("form", ["yaml", "json", "tool", "profile"])
def test_docker_example(who, form):
    text, opts = DOCKER, []
    if form == "json":
        text = json.dumps({"sandbox": {
            "mode": "docker", "image": "agent-tools:latest", "runtime": "runsc", "memory_limit_mb": 512,
            "cpu_quota": 0.5, "network": "none", "read_only": True, "drop_caps": ["ALL"], "add_caps": [],
            "seccomp_profile": "default"}}, indent="\t")
    elif form != "yaml":
        text = "%ss:\n  shell:\n" % form + "".join("    " + x + "\n" for x in DOCKER.splitlines())
        opts = ["--" + form, "shell"]
    r = who.brig("explain", "--json", "--workspace", who.ws, "--config", conf(who, text), *opts)
    assert r.code == 0 and r.err == "", r
    j = json.loads(r.out)
    assert (j["backend"], j["runtime"], j["image"]) == ("docker", "runsc", "agent-tools:latest")
    assert j["limits"]["memory"] == 512 << 20 and j["limits"]["cpu_milli"] == 500
    assert j["network"]["mode"] == "none" and j["read_only"] is True
    assert j["drop_caps"] == ["ALL"] and j["add_caps"] == []


def test_misspelt_key(who):
    f = conf(who, "version: 1\nsandbox:\n  limits: {}\n  netwrok: none\n")
    for which, code in VERBS.items():
        r = verb(who, which, "--config", f)
        r.refused(code, "BAD_CONFIG", "%s:4:3: sandbox.netwrok: unknown key" % f, "did you mean 'network'?")
        assert not who.marker.exists()


def test_node_under_home(who):
    """An nvm-style program on PATH works while the rest of HOME is not there."""
    bindir = who.mkdir(who.home / ".nvm/versions/node/v20.1.0/bin")
    who.write(bindir / "node", "#!/bin/sh\necho node-ran \"$@\"\n", 0o755)
    who.write(who.home / ".ssh/id_ed25519", "PRIVATE", 0o600)
    who.write(who.home / "notes.txt", "private")
    env = {"PATH": "%s:%s" % (bindir, who.env["PATH"])}
    if not json.loads(who.brig("explain", "--json", "--workspace", who.ws, env=env).out)["toolchains"]:
        pytest.skip("toolchains are not in this build")
    r = who.run("node", "-e", "1", env=env)
    assert (r.code, r.json["stdout"]) == (0, "node-ran -e 1\n"), r
    out = who.sh("ls -A ~; cat ~/.ssh/id_ed25519; cat ~/notes.txt", env=env).json
    assert "PRIVATE" not in out["stdout"] and "private" not in out["stdout"]
    assert set(out["stdout"].split()) <= {".nvm"}, out


# -- bad input -----------------------------------------------------------------

def laughs():
    lines = ["a0: &a0 lol"]
    for i in range(1, 11):
        lines.append("a%d: &a%d [%s]" % (i, i, ", ".join(["*a%d" % (i - 1)] * 9)))
    return "\n".join(lines) + "\nsandbox: {env: {pass: *a10}}\n"


BAD = {
    "nested-key": ("sandbox:\n  limits:\n    memroy: 1G\n", ":3:5: sandbox.limits.memroy: ", "did you mean 'memory'?"),
    "unused-profile": ("profiles:\n  never: {sandbox: {limts: {}}}\n", ":2:21: profiles.never.sandbox.limts: ",
                       "did you mean 'limits'?"),
    "unused-tool": ("tools:\n  never:\n    sandbox:\n      mode: [a]\n", ":4:13: tools.never.sandbox.mode: "),
    "top": ("sandbx: {}\n", ":1:1: sandbx: ", "did you mean 'sandbox'?"),
    "wrong-type": ("sandbox:\n  limits: {memory: [1]}\n", ":2:20: sandbox.limits.memory: ", "a size such as"),
    "wrong-type-list": ("sandbox:\n  filesystem: {read: {a: b}}\n", ":2:22: ", "a list of words, found a mapping"),
    "not-a-mapping": ("- sandbox\n", ":1:1: ", "expected a mapping"),
    "duplicate": ("sandbox:\n  mode: native\n  mode: native\n", ":3:3: ", "'mode' for the second time", "line 2"),
    "tab": ("sandbox:\n\tmode: native\n", ":2:1: ", "a tab where spaces belong"),
    "bomb": (laughs(), ": "),
    "circle": ("a: &a [*a]\n", ":1:8: ", "inside what it stands for"),
    "nested": ("sandbox: " + "[" * 500000, ":1:", "deeply"),
    "10MB": ("# x\n" * 2621440, "larger than 1M"),
    "not-utf8": (b"sandbox:\n  image: caf\xe9\n", ":2:13: ", "not UTF-8"),
    "utf16": ("sandbox: {}\n".encode("utf-16"), "NUL"),
    "nul": (b"sandbox: {}\0\n", ":1:12: ", "NUL"),
    "missing-include": ("version: 1\ninclude: [no-such.yaml]\n", ":2:11: include: ", "no-such.yaml", "No such file"),
    "include-loop": ("include: conf.yaml\n", ":1:10: include: ", "includes itself"),
    "contradictory": ("sandbox:\n  network:\n    mode: none\n    allow: [a.example.com]\n", ":4:13: sandbox.network: ",
                      "mode none together with an allow-list"),
    "range-small": ("sandbox: {limits: {memory: 1K}}\n", ":1:28: sandbox.limits.memory: ", "too small", "at least 1M"),
    "range-large": ("sandbox: {limits: {pids: 99999999}}\n", ":1:26: ", "too large"),
    "range-negative": ("sandbox: {limits: {timeout: -1}}\n", ":1:29: ", "not a valid value"),
    "fallback-none": ("sandbox: {fallback: [none]}\n", ":1:22: ", "never a fallback"),
    "merge-key": ("x: &x {}\nsandbox:\n  <<: *x\n", ":3:3: ", "merge keys"),
    "tag": ("sandbox: !!map {}\n", ":1:10: ", "tags"),
    "second-document": ("version: 1\n---\nversion: 1\n", ":2:1: ", "second document"),
    "version": ("version: 9\n", ":1:10: version: ", "version: 1"),
    "escape-in-key": ('sandbox: {"\\e[31mred": 1}\n', ":1:11: ", "unknown key"),
    "long-key": ("sandbox: {? x%s : 1}\n" % ("\u00e4" * 300), ":1:13: ", "unknown key"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input(who, case):
    text, *words = BAD[case]
    f = conf(who, text)
    for which, code in VERBS.items():
        start = time.monotonic()
        r = verb(who, which, "--config", f)
        assert time.monotonic() - start < 5, "it took too long to refuse"
        if which == "config-check":
            # every error on a line of its own; the first one is enough here
            assert r.code == code and r.out == "", r
            first = r.err.splitlines()[0]
        else:
            r.refused(code, "BAD_CONFIG")
            first = r.err
        for w in words:
            assert w in first, (w, first)
        assert str(f) in first and ESC not in r.err
        assert not who.marker.exists(), "the command ran"
    j = under(who, text, *who.ran_marker()).json
    assert j["ran"] is False and j["error"]["code"] == "BAD_CONFIG"
    assert isinstance(j["error"]["message"], str), "the message is cut inside a character"


def test_large_file(who):
    """Close to every limit, and still a configuration like any other."""
    lines = ["tools:"]
    for i in range(900):
        lines += ["  t%d:" % i, "    sandbox:", "      limits: {timeout: %d, output: 64K}" % (i + 1),
                  "      env: {set: {%s}}" % ", ".join("V%d: '%d'" % (k, k) for k in range(18))]
    lines.append("sandbox: {env: {set: {LAST: seen}}}")
    text = "\n".join(lines) + "\n"
    assert 200_000 < len(text) < 1 << 20
    r = under(who, text, "/bin/sh", "-c", "echo $LAST $V17", opts=["--tool", "t7"])
    assert r.json["stdout"] == "seen 17\n" and r.seconds < 5, r


def test_locked_key_loosened(who):
    f = conf(who, "sandbox: {limits: {memory: 512M}}\nlock: [limits.memory, network]\n")
    for opts, words in ((["--memory", "513M"], ["limits.memory", "'513M'"]),
                        (["--memory", "0"], ["limits.memory", "'0'"]),
                        (["--net", "host"], ["network.mode", "'host'"]),
                        (["--allow", "a.example.com"], ["network.allow", "a.example.com"])):
        for which in ("run", "explain", "config-show"):
            r = verb(who, which, "--config", f, *opts)
            r.refused(VERBS[which], "LOCKED", "command line", "%s:2:" % f, *words)
        assert not who.marker.exists()


def test_lock_binds_profiles_of_the_same_file(who):
    f = conf(who, "lock: [limits]\nprofiles: {slow: {sandbox: {limits: {timeout: 600}}}}\n")
    r = who.brig("run", "--workspace", who.ws, "--config", f, "--profile", "slow", "--", *who.ran_marker())
    r.refused(125, "LOCKED", "limits.timeout", "%s:1:8" % f)
    assert not who.marker.exists()
    # `config check` finds it without being told the profile
    who.brig("config", "check", f).refused(2, "LOCKED", "limits.timeout")




def test_locked_workspace_and_a_link_in_it(who):
    """What a command may leave in the workspace must not lead the next run out of it."""
    who.write(who.base / "victim/project/key", "topsecret\n")
    who.symlink(who.ws / "a", who.base / "victim")
    f = conf(who, "sandbox: {workspace: {path: %s}}\nlock: [workspace]\n" % who.ws)
    r = who.brig("run", "--config", f, "--workspace", who.ws / "a/project", "--", "cat", "key")
    assert r.code == 125 and "topsecret" not in r.out


def test_locked_bind_and_a_link_in_it(who, etc):
    d = who.mkdir(who.base / "data")
    who.write(who.base / "victim/key", "topsecret\n")
    who.symlink(d / "a", who.base / "victim")
    f = conf(who, "sandbox: {filesystem: {read: [%s/a/key]}}\n" % d)
    r = etc.brig(who, "sandbox: {filesystem: {read: [%s]}}\nlock: [filesystem]\n" % d, "run", "--workspace", who.ws,
                 "--config", f, "--", "cat", d / "a/key")
    assert r.code == 125 and "topsecret" not in r.out


def test_contradiction_on_the_command_line(who):
    who.brig("run", "--net", "none", "--allow", "a.example.com", "--", *who.ran_marker()).refused(
        2, "BAD_OPTION", "--net none")
    assert not who.marker.exists()


@pytest.mark.parametrize("opt", ["--profile", "--tool", "--tenant"])
@pytest.mark.parametrize("name", ["../x", "a/b", "", ".hidden", "a b", "x" * 65, "*"])
def test_names_that_are_no_names(who, opt, name):
    r = who.brig("run", opt, name, "--", *who.ran_marker())
    assert r.code == 2 and r.err.startswith("brig: BAD_"), r
    assert not who.marker.exists()


def test_unknown_profile_and_tenant(who):
    who.brig("run", "--profile", "nosuch", "--", *who.ran_marker()).refused(
        125, "BAD_CONFIG", "nosuch", "strict, default, dev, offline-build")
    who.brig("run", "--tenant", "nosuch", "--", *who.ran_marker()).refused(125, "BAD_CONFIG", "tenants_dir")
    f = conf(who, "tenants_dir: t\n")
    who.mkdir(who.base / "etc/t")
    who.brig("run", "--config", f, "--tenant", "nosuch", "--", *who.ran_marker()).refused(
        125, "BAD_CONFIG", "t/nosuch.yaml")
    assert not who.marker.exists()


def test_check_lists_all_errors(who):
    f = conf(who, "sandbox:\n  netwrok: none\n  limits: {memory: 1, pids: x}\n"
                  "tools:\n  a: {sandbox: {image: [1]}}\nlock: [nosuch]\ntop: 1\n")
    r = who.brig("config", "check", f)
    assert r.code == 2 and r.out == ""
    lines = r.err.splitlines()
    assert [x.split(": ")[2].rsplit(":", 2)[-2:] for x in lines] == [
        ["2", "3"], ["3", "20"], ["3", "29"], ["5", "24"], ["6", "8"], ["7", "1"]], lines
    assert all(x.startswith("brig: BAD_CONFIG: ") and x.endswith(")") for x in lines)


def test_check_says_ok(who):
    one = conf(who, "sandbox: {}\n", "one.yaml")
    f = conf(who, "include: one.yaml\nprofiles: {a: {sandbox: {limits: {timeout: 1}}}}\n")
    r = who.brig("config", "check", f)
    assert (r.code, r.err) == (0, "") and r.out == "%s: ok\n%s: ok\n" % (one, f)


# -- whose file is it? ---------------------------------------------------------

def untrusted(who, f, *words):
    for which in ("run", "explain", "config-show"):
        verb(who, which, "--config", f).refused(VERBS[which], "UNTRUSTED_CONFIG", *words)
    assert not who.marker.exists()


def test_file_that_others_can_write(who):
    untrusted(who, conf(who, "sandbox: {}\n", mode=0o666), "other users can write it")
    untrusted(who, conf(who, "sandbox: {}\n", "other.yaml", mode=0o602), "other users can write it")
    f = conf(who, "sandbox: {}\n", "group.yaml", mode=0o664)
    if who.is_root:
        untrusted(who, f, "other users can write it")
    else:
        assert verb(who, "explain", "--config", f).code == 0, "an ordinary user's group is his own"


def test_directory_that_others_can_write(base):
    if not IS_ROOT:
        pytest.skip("not root: only root's policy has to come from safe directories")
    from conftest import make_who
    who = make_who("root", base, (0, 0))
    f = conf(who, "sandbox: {}\n", "deep/er/c.yaml")
    assert verb(who, "explain", "--config", f).code == 0
    for d in (f.parent, f.parent.parent):
        for mode in (0o777, 0o775, 0o1777):
            d.chmod(mode)
            if mode == 0o1777:  # sticky and root's own: nobody can replace what is in it
                assert verb(who, "explain", "--config", f).code == 0
            else:
                untrusted(who, f, "others can write its directory %s " % d)
        d.chmod(0o755)
        os.chown(d, 12345, 12345)
        untrusted(who, f, "others can write its directory %s " % d)
        os.chown(d, 0, 0)
    assert verb(who, "explain", "--config", f).code == 0
    # a link in a safe place that leads to an unsafe one
    d = f.parent
    link = who.symlink(who.base / "etc/link.yaml", f)
    assert verb(who, "explain", "--config", link).code == 0
    d.chmod(0o777)
    untrusted(who, link, "others can write its directory")
    # an include is a policy, too
    main = conf(who, "include: deep/er/c.yaml\n", "main.yaml")
    untrusted(who, main, "others can write its directory")


def test_foreign_file(who):
    if not IS_ROOT:
        pytest.skip("not root: cannot make another user's file")
    f = conf(who, "sandbox: {}\n")
    os.chown(f, 12345, 12345)
    untrusted(who, f, "belongs to another user")
    os.chown(f, 0, 0)
    assert verb(who, "explain", "--config", f).code == 0, "root's files are good for everybody"


def test_symlinked_config(who):
    f = conf(who, "sandbox: {limits: {pids: 77}}\n", "real.yaml")
    link = who.symlink(who.base / "etc/conf.yaml", "real.yaml")
    r = who.brig("config", "show", "--effective", "--config", link)
    assert r.code == 0 and "pids: 77" in r.out and str(f.parent) in r.out
    dangling = who.symlink(who.base / "etc/dangling.yaml", "nowhere")
    verb(who, "run", "--config", dangling).refused(125, "BAD_CONFIG", "No such file")


def test_dangling_link_is_not_no_file(who):
    """A policy that was put there and cannot be read is not the same as none."""
    xdg = who.mkdir(who.base / "xdg/brig").parent
    who.symlink(xdg / "brig/config.yaml", "/nowhere/policy.yaml")
    r = verb(who, "run", env={"XDG_CONFIG_HOME": str(xdg)})
    r.refused(125, "BAD_CONFIG", "No such file")
    assert not who.marker.exists()


def test_special_files(who):
    fifo = who.base / "fifo"
    os.mkfifo(fifo)
    who.own(fifo)
    for f in (fifo, who.base, "/dev/zero", "/dev/null"):
        for which in ("run", "explain"):
            r = verb(who, which, "--config", f, timeout=10)
            assert r.code == VERBS[which] and r.seconds < 5
            assert "not a regular file" in r.err or "belongs to" in r.err or "can write" in r.err, r
    assert not who.marker.exists()
    verb(who, "run", "--config", "-").refused(125, "BAD_CONFIG", "--config")
    assert verb(who, "run", "--config", "").code == 2
    # `config import` reads other people's files: it must not hang either
    assert who.brig("config", "import", "nanobot", fifo, timeout=10).code == 2


def test_unreadable_file(user):
    f = conf(user, "sandbox: {}\n", mode=0o000)
    if os.geteuid() == 0 or not os.access(f, os.R_OK):
        verb(user, "run", "--config", f).refused(125, "BAD_CONFIG", "Permission denied")
        # found by itself, it is not skipped either
        xdg = user.mkdir(user.base / "xdg/brig").parent
        user.write(xdg / "brig/config.yaml", "sandbox: {}\n", 0o000)
        verb(user, "run", env={"XDG_CONFIG_HOME": str(xdg)}).refused(125, "BAD_CONFIG", "Permission denied")


# -- which files apply ---------------------------------------------------------

def timeouts(who, *opts, **kw):
    r = who.brig("config", "show", "--effective", *opts, **kw)
    assert r.code == 0, r
    return next(x.split() for x in r.out.splitlines() if x.strip().startswith("timeout:"))


def test_where_the_users_file_is(who):
    who.write(who.home / ".config/brig/config.yaml", "sandbox: {limits: {timeout: 11}}\n")
    xdg = who.mkdir(who.base / "xdg/brig").parent
    who.write(xdg / "brig/config.yaml", "sandbox: {limits: {timeout: 12}}\n")
    f = conf(who, "sandbox: {limits: {timeout: 13}}\n")
    assert timeouts(who)[1] == "11"
    assert timeouts(who, env={"XDG_CONFIG_HOME": str(xdg)})[1] == "12"
    assert timeouts(who, env={"XDG_CONFIG_HOME": "relative"})[1] == "11", "a relative one counts as not set"
    t = timeouts(who, "--config", f, env={"XDG_CONFIG_HOME": str(xdg)})
    assert t[1] == "13" and t[-1] == "%s:1:29" % f
    r = who.brig("config", "show", env={"XDG_CONFIG_HOME": str(xdg)})
    assert r.out.split() == ["user", str(xdg / "brig/config.yaml")]
    # and it is in force
    r = who.brig("run", "--json", "--workspace", who.ws, "--", "sleep", "5", cwd=who.ws,
                 env={"XDG_CONFIG_HOME": str(who.write(who.base / "x2/brig/config.yaml",
                                                       "sandbox: {limits: {timeout: 0.3}}\n").parents[1])})
    assert r.code == 124 and r.json["timed_out"], r


def test_relative_config(who):
    """Paths in a file are relative to the file, however it was named."""
    d = who.mkdir(who.base / "etc/data")
    who.write(d / "file", "from the data\n")
    conf(who, "sandbox: {filesystem: {read: [data]}, env: {path_prepend: [bin]}}\n")
    for name, cwd in (("conf.yaml", who.base / "etc"), ("../etc/conf.yaml", who.base / "etc"),
                      ("etc/conf.yaml", who.base)):
        r = who.brig("run", "--workspace", who.ws, "--config", name, "--", "sh", "-c",
                     "cat %s/file; echo $PATH" % d, cwd=cwd)
        out = r.out.splitlines()
        assert out[0] == "from the data", r
        assert out[1].split(":")[0] == str(who.base / "etc/bin")


class Etc:
    """brig where /etc/brig/config.yaml has this text, without touching the host's."""

    def __init__(self, base):
        need("unshare", "setpriv", "mount")
        self.dir = base / "etc-copy"
        if not self.dir.exists():
            subprocess.run(["cp", "-a", "--reflink=auto", "/etc", self.dir], check=True, stderr=subprocess.DEVNULL)
        p = subprocess.run(["unshare", "-m", "true"], stderr=subprocess.PIPE)
        if p.returncode:
            pytest.skip("no mount namespace for a private /etc: %s" % p.stderr.decode().strip())

    def brig(self, who, text, *args, **kw):
        shutil.rmtree(self.dir / "brig", ignore_errors=True)
        if text is not None:
            (self.dir / "brig").mkdir(mode=0o755)
            (self.dir / "brig/config.yaml").write_text(text)
        drop = [] if who.is_root else ["setpriv", "--reuid=%d" % who.uid, "--regid=%d" % who.gid, "--clear-groups"]
        env = dict(who.env, **kw.pop("env", {}))
        p = subprocess.run(["unshare", "-m", "sh", "-c", 'mount --bind "$0" /etc && exec "$@"', self.dir, *drop,
                            BRIG, *[os.fspath(a) for a in args]], env=env, cwd=who.ws, stdin=subprocess.DEVNULL,
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
        js = json.loads(p.stdout) if p.stdout.startswith(b'{"v":1') else None
        return Done(p.returncode, p.stdout, p.stderr, 0, js)


@pytest.fixture
def etc(base):
    if not IS_ROOT:
        pytest.skip("not root: /etc/brig cannot be replaced for a test")
    return Etc(base)


def test_system_file(who, etc):
    run = ["run", "--json", "--workspace", who.ws, "--"]
    r = etc.brig(who, "sandbox: {limits: {timeout: 0.3}}\n", *run, "sleep", "5")
    assert r.code == 124, r
    # the user's own file comes later, unless the key is locked
    own = str(who.write(who.base / "x/brig/config.yaml", "sandbox: {limits: {timeout: 7}}\n").parents[1])
    show = ["config", "show", "--effective"]
    r = etc.brig(who, "sandbox: {limits: {timeout: 3}}\n", *show, env={"XDG_CONFIG_HOME": own})
    assert "timeout: 7" in r.out, r
    r = etc.brig(who, "sandbox: {limits: {timeout: 3}}\nlock: [limits]\n", *run, *who.ran_marker(),
                 env={"XDG_CONFIG_HOME": own})
    r.refused(125, "LOCKED", "limits.timeout", "/etc/brig/config.yaml:2:8", "config.yaml:1:29")
    assert not who.marker.exists()
    # --config replaces the user's file, never the system's
    f = conf(who, "sandbox: {mode: none}\n")
    r = etc.brig(who, "lock: [mode]\n", "run", "--json", "--config", f, "--", *who.ran_marker())
    r.refused(125, "LOCKED", "mode", "'none'")
    r = etc.brig(who, "sandbox: {netwrok: none}\n", *run, *who.ran_marker())
    r.refused(125, "BAD_CONFIG", "/etc/brig/config.yaml:1:11", "network")
    assert not who.marker.exists()
    assert etc.brig(who, None, *run, "true").code == 0


def test_init_as_root_writes_the_system_file(etc, base):
    from conftest import make_who
    who = make_who("root", base, (0, 0))
    r = etc.brig(who, None, "config", "init")
    assert (r.code, r.out) == (0, "wrote /etc/brig/config.yaml\n"), r
    text = (etc.dir / "brig/config.yaml").read_text()
    assert "#sandbox:" in text
    r = etc.brig(who, text, "config", "check")
    assert (r.code, r.out) == (0, "/etc/brig/config.yaml: ok\n"), r
    r = etc.brig(who, "version: 1\n", "config", "init")
    assert r.code == 2 and (etc.dir / "brig/config.yaml").read_text() == "version: 1\n", r


def test_tenant(who):
    who.write(who.base / "etc/tenants/acme.yaml",
              "sandbox: {limits: {timeout: 0.3}, env: {set: {WHO: acme}}}\nlock: [limits]\n"
              "tools: {fetch: {sandbox: {env: {set: {TOOL: fetch}}}}}\n")
    f = conf(who, "tenants_dir: tenants\nsandbox: {env: {set: {WHO: all, ALL: x}}}\n")
    opts = ["--config", f, "--tenant", "acme"]
    assert who.sh("sleep 5", opts).code == 124
    assert who.ok("echo $WHO $ALL $TOOL", [*opts, "--tool", "fetch"]) == "acme x fetch\n"
    who.run(*who.ran_marker(), opts=[*opts, "--timeout", "5"]).refused(125, "LOCKED", "tenant acme")
    # a tenant's file is a policy file like any other
    (who.base / "etc/tenants/acme.yaml").chmod(0o666)
    who.run(*who.ran_marker(), opts=opts).refused(125, "UNTRUSTED_CONFIG", "acme.yaml")
    assert not who.marker.exists()


# -- profiles and tools --------------------------------------------------------

def test_profile_strict(who):
    r = who.sh("touch x; echo code $?; id -u", opts=["--profile", "strict"])
    assert "code 1" in r.json["stdout"] and not (who.ws / "x").exists(), r
    assert "Read-only" in r.json["stderr"]
    j = json.loads(who.brig("explain", "--json", "--profile", "strict", "--workspace", who.ws).out)
    assert j["network"] == {"mode": "none", "allow": [], "loopback": False}


def test_profile_default_is_no_profile(who):
    def settings(*opts):
        j = json.loads(who.brig("explain", "--json", "--workspace", who.ws, *opts).out)
        return [x for x in j["settings"] if x["name"] != "profile"]
    assert settings() == settings("--profile", "default")


def test_mode_none_is_never_quiet(who):
    """Without a sandbox: a choice of its own, loud, or not in this build at all."""
    for how in (["--config", conf(who, "sandbox: {mode: none}\n")], ["--backend", "none"]):
        r = who.brig("run", "--workspace", who.ws, *how, "--", "sh", "-c", "echo it-ran")
        if r.code == 125:
            assert r.err.splitlines()[-1].startswith("brig: UNSUPPORTED: the none backend"), r
            assert r.out == ""
            continue
        assert r.out == "it-ran\n" and "none" in r.err, "no word about the missing sandbox"
    locked = conf(who, "lock: [mode]\n", "lock.yaml")
    who.brig("run", "--config", locked, "--backend", "none", "--", *who.ran_marker()).refused(125, "LOCKED", "mode")
    assert not who.marker.exists()


# -- the environment -----------------------------------------------------------

INJECTING = ["LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT", "BASH_ENV", "ENV", "PYTHONSTARTUP", "PYTHONPATH",
             "NODE_OPTIONS", "PERL5OPT", "RUBYOPT", "GIT_EXEC_PATH", "GIT_SSH_COMMAND", "GIT_CONFIG_COUNT",
             "GIT_EXTERNAL_DIFF", "JAVA_TOOL_OPTIONS", "BASH_FUNC_ls%%", "GCONV_PATH", "PROMPT_COMMAND"]


def test_nothing_is_inherited(who):
    out = who.ok("env", env={"SECRET_THING": "x", "FOO": "y", "LD_PRELOAD": "", "HTTP_PROXY": "http://p"})
    names = {x.split("=")[0] for x in out.splitlines() if "=" in x}
    assert names <= {"PATH", "HOME", "USER", "LOGNAME", "SHELL", "BRIG_SANDBOX", "LANG", "TERM", "PWD", "OLDPWD",
                     "SHLVL", "_", "TZ", "LC_ALL"}, names


@pytest.mark.parametrize("name", INJECTING)
def test_injection_is_the_operators(who, name):
    for opts in (["--env", name + "=/x"], ["--env", name]):
        r = who.run(*who.ran_marker(), opts=opts, env={name: "/x"})
        r.refused(125, "BAD_VALUE", "--env", "operator")
    rd, wr = os.pipe()
    os.write(wr, b"GOOD=1\0" + name.encode() + b"=/x\0")
    os.close(wr)
    r = who.run(*who.ran_marker(), opts=["--env-fd", str(rd)], pass_fds=(rd,))
    os.close(rd)
    r.refused(125, "BAD_VALUE", "--env-fd", "operator")
    assert not who.marker.exists()
    # the operator's file may
    r = under(who, 'sandbox: {env: {set: {"%s": "/from/file"}}}\n' % name, "/usr/bin/env")
    assert r.code == 0 and "%s=/from/file" % name in r.json["stdout"], r
    r = under(who, 'sandbox: {env: {pass: ["%s"]}}\n' % name, "/usr/bin/env", env={name: "/from/caller"})
    assert r.code == 0 and "%s=/from/caller" % name in r.json["stdout"], r


def test_secrets_are_not_shown(who):
    f = conf(who, "sandbox:\n  env: {pass: [PASSED_TOKEN], set: {API_TOKEN: topsecret1, PLAIN: sk-topsecret2}}\n"
                  "lock: [env.set]\n")
    env = {"PASSED_TOKEN": "topsecret3", "FOURTH": "topsecret4"}
    for args in (["explain"], ["explain", "--json"], ["explain", "--for-model"], ["config", "show", "--effective"]):
        r = who.brig(*args, "--config", f, env=env)
        assert r.code == 0 and "topsecret" not in r.out + r.err, r
        if args[-1] != "--for-model":
            assert "API_TOKEN" in r.out
    j = json.loads(who.brig("explain", "--json", "--config", f, env=env).out)
    assert set(j["env_secrets"]) == {"API_TOKEN", "PLAIN", "PASSED_TOKEN"}
    assert "(secret)" in who.brig("explain", "--config", f, env=env).out
    # errors: a lock, a wrong type, a wrong name, something malformed
    for text, opts in (("lock: [env]\n", ["--env", "X=topsecret5"]),
                       ("lock: [env]\n", ["--env", "FOURTH"]),
                       ("sandbox: {env: {set: {X: [topsecret6]}}}\n", []),
                       ("sandbox: {env: {set: [X=topsecret7]}}\n", []),
                       ("sandbox: {env: {pass: [X=topsecret8]}}\n", []),
                       ("sandbox: {env: {set: {X: topsecret9, X: topsecret9}}}\n", []),
                       ("sandbox: {env: {set: {X: \"topsecret9\n", []),
                       ("sandbox: {env: {set: {X: topsecret9: 1}}}\n", [])):
        r = under(who, text, *who.ran_marker(), opts=opts, env=env)
        assert r.code == 125 and "topsecret" not in r.out + r.err, (text, r)
    assert not who.marker.exists()


def test_env_fd_and_locks(who):
    rd, wr = os.pipe()
    os.write(wr, b"A=1\0")
    os.close(wr)
    f = conf(who, "lock: [env]\n")
    r = who.run(*who.ran_marker(), opts=["--config", f, "--env-fd", str(rd)], pass_fds=(rd,))
    os.close(rd)
    r.refused(125, "LOCKED", "--env-fd")
    assert not who.marker.exists()


# -- init, show, import --------------------------------------------------------

def test_init(who):
    f = who.base / "etc/new.yaml"
    who.mkdir(f.parent)
    r = who.brig("config", "init", f)
    assert (r.code, r.out, r.err) == (0, "wrote %s\n" % f, ""), r
    text = f.read_text()
    assert who.brig("config", "check", f).out == "%s: ok\n" % f
    f.write_text(text + "# mine\n")
    r = who.brig("config", "init", f)
    r.refused(2, "IO_FAILED", "exists")
    assert f.read_text() == text + "# mine\n"
    link = who.symlink(who.base / "etc/link.yaml", who.base / "elsewhere")
    assert who.brig("config", "init", link).code == 2
    assert not (who.base / "elsewhere").exists(), "written through a link"
    assert who.brig("config", "init", "-").out == text
    # nothing in it is on
    j = json.loads(who.brig("explain", "--json", "--config", f).out)
    assert {x["name"] for x in j["settings"] if x["layer"] != "built-in"} == {"config", "json"}


def test_init_of_an_ordinary_user(user):
    r = user.brig("config", "init")
    f = user.home / ".config/brig/config.yaml"
    assert r.out == "wrote %s\n" % f and f.stat().st_uid == user.uid
    assert user.brig("config", "check").out == "%s: ok\n" % f
    assert user.run("true").code == 0


def uncomment(text):
    """Every setting taken in: '#', spaces, a key, a colon."""
    import re
    return "\n".join(x[1:] if re.match(r"# *[a-z_]+:( |$)", x) else x for x in text.splitlines()) + "\n"


def test_init_with_everything_on(who):
    f = conf(who, uncomment(who.brig("config", "init", "-").out))
    r = who.brig("config", "check", f)
    assert (r.code, r.err) == (0, ""), r


def test_effective_policy_loads_again(who):
    text = "sandbox:\n  mode: native\n  filesystem: {read: [/opt], mask: [/usr/share/doc], tmp_size: 1M}\n" \
           "  network: {loopback: off}\n  limits: {timeout: 5, cpus: 0.5}\n  wrapper: [a, '{command}']\n" \
           "  toolchains: [none]\n  image: 'x: y # z'\n"
    first = who.brig("config", "show", "--effective", "--config", conf(who, text))
    again = who.brig("config", "show", "--effective", "--config", conf(who, first.out, "again.yaml"))
    assert first.code == again.code == 0, again

    def values(out):
        return [x.rsplit("# ", 1)[0].rstrip() for x in out.splitlines()]
    assert values(first.out) == values(again.out)


NANOBOT = {
    "agents": {"defaults": {"workspace": "~/.nanobot/workspace", "model": "some/model", "maxTokens": 8192}},
    "channels": {"telegram": {"enabled": True, "token": "123:topsecret", "allowFrom": []}},
    "providers": {"openrouter": {"apiKey": "sk-topsecret"}},
    "tools": {"exec": {"timeout": 60, "sandbox": "bwrap"}, "restrictToWorkspace": True,
              "web": {"search": {"apiKey": "topsecret", "maxResults": 5}}},
}


def imported(who, program, data, **kw):
    src = who.write(who.base / "in.json", data if isinstance(data, (str, bytes)) else json.dumps(data, indent=2))
    r = who.brig("config", "import", program, src, **kw)
    assert r.code == 0 and r.err == "" and "topsecret" not in r.out, r
    f = conf(who, r.out, "imported.yaml")
    assert who.brig("config", "check", f).code == 0
    j = json.loads(who.brig("explain", "--json", "--workspace", kw.get("ws", who.ws), "--config", f).out or "{}")
    return r.out, j, f


def nanobot(**exec_and_tools):
    d = json.loads(json.dumps(NANOBOT))
    d["tools"].update(exec_and_tools)
    return d


def test_import_nanobot(who):
    ws = who.mkdir(who.home / ".nanobot/workspace")
    who.write(who.base / "in.json", json.dumps(NANOBOT, indent="\t"))
    r = who.brig("config", "import", "nanobot", who.base / "in.json")
    assert r.code == 0 and "topsecret" not in r.out, r
    f = conf(who, r.out)
    j = json.loads(who.brig("explain", "--json", "--config", f, cwd="/").out)
    assert j["backend"] == "bwrap" and j["workspace"]["source"] == str(ws)
    assert j["limits"]["timeout_ms"] == 60000
    # restricted to the workspace: no caller may point elsewhere
    who.brig("explain", "--config", f, "--workspace", who.ws).refused(125, "BAD_WORKSPACE", "outside")
    assert who.brig("explain", "--config", f, "--workspace", ws).code == 0


@pytest.mark.parametrize("sandbox, backend", [("", "native"), ("none", "native"), (None, "native"),
                                              ("docker", "docker"), ("bwrap", "bwrap")])
def test_import_nanobot_modes(who, sandbox, backend):
    d = nanobot(exec={"sandbox": sandbox}, restrictToWorkspace=False)
    del d["agents"]
    out, j, _ = imported(who, "nanobot", d)
    assert j["backend"] == backend
    assert "none" not in [x.split()[-1] for x in out.splitlines() if x.strip().startswith("mode:")]


@pytest.mark.parametrize("wrapper", ["firejail --quiet -- sh -c {command}", ["firejail", "--", "sh", "-c", "{command}"]])
def test_import_nanobot_wrapper(who, wrapper):
    d = nanobot(exec={"commandWrapper": wrapper})
    del d["agents"]
    _, j, f = imported(who, "nanobot", d)
    assert j["backend"] == "wrapper"
    s = {x["key"]: x["value"] for x in j["settings"]}
    assert s["wrapper"] == ([wrapper] if isinstance(wrapper, str) else wrapper)


def test_import_refuses_what_it_cannot_carry_over(who):
    for program, data, words in (
            ("nanobot", nanobot(exec={"sandbox": "firecracker"}), ["does not know"]),
            ("nanobot", nanobot(exec={"sandbox": "bwrap", "commandWrapper": "x {command}"}), ["both"]),
            ("nanobot", nanobot(exec={"commandWrapper": "x"}), ["{command}"]),
            ("nanobot", nanobot(exec={"timeout": "soon"}), ["timeout"]),
            ("nanobot", nanobot(exec={"sandbox": ["bwrap"]}), ["sandbox"]),
            ("nanobot", nanobot(restrictToWorkspace="maybe"), ["restrictToWorkspace"]),
            ("nanobot", {"agents": {}}, ["tools"]),
            ("nanobot", [], ["tools"]),
            ("astrbot", {"provider_settings": {"computer_use_runtime": "vm"}}, ["local_sandboxed"]),
            ("astrbot", {}, ["computer_use_runtime"])):
        src = who.write(who.base / "in.json", json.dumps(data))
        r = who.brig("config", "import", program, src)
        r.refused(2, "BAD_CONFIG", src, *words)
        assert r.out == ""
    src = who.write(who.base / "in.json", '{"tools": {"exec": ')
    who.brig("config", "import", "nanobot", src).refused(2, "BAD_CONFIG", "in.json:")
    who.brig("config", "import", "nanobot", who.base / "no-such").refused(2, "BAD_CONFIG", "No such file")
    who.brig("config", "import", "other", src).refused(2, "BAD_OPTION", "nanobot|astrbot")


@pytest.mark.parametrize("runtime, backend", [("none", "native"), ("local", "native"), ("local_sandboxed", "native"),
                                              ("sandbox", "docker")])
def test_import_astrbot(who, runtime, backend):
    root = who.mkdir(who.base / "astrbot-workspaces")
    data = {"config_version": 2, "platform": [{"id": "qq", "token": "topsecret"}],
            "provider_settings": {"enable": True, "computer_use_runtime": runtime, "default_personality": "助手"}}
    # the program writes its file with a byte-order mark
    text = b"\xef\xbb\xbf" + json.dumps(data, indent=2, ensure_ascii=False).encode()
    _, j, f = imported(who, "astrbot", text)
    assert j["backend"] == backend
    out, _, f = imported(who, "astrbot", text, env={"ASTRBOT_LOCAL_WORKSPACE_ROOT": str(root)})
    assert 'root: "%s"' % root in out
    inside = who.mkdir(root / "session")
    assert who.brig("explain", "--config", f, "--workspace", inside).code == 0
    who.brig("explain", "--config", f, "--workspace", who.ws).refused(125, "BAD_WORKSPACE", "outside")


# -- the JSON Schema -----------------------------------------------------------

def fits(value, rule, defs):
    """The few keywords that the schema uses; another one is an error here."""
    types = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}
    known = {"$schema", "$defs", "title", "description", "default", "type", "enum", "const", "anyOf", "items",
             "properties", "additionalProperties", "$ref"}
    assert set(rule) <= known, set(rule) - known
    if "$ref" in rule and not fits(value, defs[rule["$ref"].rsplit("/", 1)[1]], defs):
        return False
    if "anyOf" in rule and not any(fits(value, r, defs) for r in rule["anyOf"]):
        return False
    if "enum" in rule and not any(value == e and type(value) is type(e) for e in rule["enum"]):
        return False
    if "const" in rule and value != rule["const"]:
        return False
    want = rule.get("type", [])
    want = [want] if isinstance(want, str) else want
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if want and not any(number if w == "number" else isinstance(value, types[w]) for w in want):
        return False
    if isinstance(value, list):
        return all(fits(v, rule.get("items", {}), defs) for v in value)
    if isinstance(value, dict):
        more = rule.get("additionalProperties", True)
        for k, v in value.items():
            r = rule.get("properties", {}).get(k, more)
            if r is False or (r is not True and not fits(v, r, defs)):
                return False
    return True


def goldens():
    return sorted(p for p in (REPO / "tests/golden").iterdir() if p.is_dir())


def test_schema_and_loader_agree(user):
    yaml = pytest.importorskip("yaml", reason="python3-yaml is not installed: the schema is not compared")
    schema = json.loads(user.brig("config", "schema").out)
    # what only the loader can know: text below the YAML, numbers' ranges, names, locks
    beyond = ("bad-allow", "bad-cap", "bad-duplicate", "bad-env", "bad-fallback", "bad-layer", "bad-name",
              "bad-profile", "bad-range", "bad-tab", "bad-wrapper", "bad-include", "bad-type-env")
    n = 0
    for d in goldens():
        good = (d / "expected.yaml").exists()
        rejected = []
        for f in d.glob("*.yaml"):
            if f.name == "expected.yaml":
                continue
            text = f.read_text()
            try:
                # that reader knows no tabs in JSON
                data = json.loads(text) if text.startswith("{\"") else yaml.safe_load(text)
            except yaml.YAMLError:
                data = "malformed"
            if data is not None and not fits(data, schema, schema["$defs"]):
                rejected.append(f.name)
            n += 1
        if good:
            assert not rejected, (d.name, rejected)
        elif d.name.startswith("bad-") and not d.name.startswith(beyond):
            assert rejected, "%s: the schema takes what the loader refuses" % d.name
    assert n > 150
    assert fits(yaml.safe_load(uncomment(user.brig("config", "init", "-").out)), schema, schema["$defs"])


def test_schema_by_a_real_validator(user):
    jsonschema = pytest.importorskip("jsonschema", reason="python3-jsonschema is not installed: the schema is only "
                                                          "checked by the reader above")
    yaml = pytest.importorskip("yaml")
    schema = json.loads(user.brig("config", "schema").out)
    jsonschema.Draft202012Validator.check_schema(schema)
    v = jsonschema.Draft202012Validator(schema)
    for d in goldens():
        if (d / "expected.yaml").exists():
            for f in d.glob("*.yaml"):
                text = f.read_text()
                if f.name == "expected.yaml":
                    continue
                data = json.loads(text) if text.startswith("{\"") else yaml.safe_load(text)
                if data is not None:
                    v.validate(data)


# -- ways around a lock ------------------------------------------------------------

def test_import_reads_characters_as_json_writes_them(who):
    """json.dumps() writes an emoji as two escapes, which YAML does not know."""
    ws = who.mkdir(who.home / "w\U0001f600")
    d = {"tools": {"exec": {"sandbox": "bwrap"}}, "agents": {"defaults": {"workspace": str(ws)}}}
    text = json.dumps(d)
    assert "\\ud83d\\ude00" in text
    who.write(who.base / "in.json", text)
    r = who.brig("config", "import", "nanobot", who.base / "in.json")
    assert r.code == 0 and "\U0001f600" in r.out, r


def test_a_locked_mode_has_no_other_fallback(who):
    f = conf(who, "sandbox: {mode: native}\nlock: [mode]\n")
    who.brig("run", "--config", f, "--fallback", "wrapper", "--wrapper", "sh -c {command}", "--",
             *who.ran_marker()).refused(125, "LOCKED", "fallback")


def test_a_locked_list_of_variables_holds_for_single_ones(who):
    f = conf(who, "sandbox: {env: {pass: [LANG]}}\nlock: [env.pass]\n")
    who.brig("run", "--config", f, "--env", "SECRET", "--", *who.ran_marker(), env={"SECRET": "hunter2"}).refused(
        125, "LOCKED", "env.pass")
    r = who.brig("run", "--config", f, "--env", "LANG", "--", "sh", "-c", "echo $LANG", env={"LANG": "C"})
    assert r.code == 0 and r.out == "C\n", r
