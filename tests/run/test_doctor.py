# SPDX-License-Identifier: Apache-2.0
"""brig doctor, and fail-closed behaviour where a layer is not to be had."""
import fcntl
import json
import os
import pty
import re
import select
import shutil
import struct
import subprocess
import termios
import time

import pytest

from conftest import BRIG, ESC, IS_ROOT, in_tmp, make_who, need, wait_until

LAYERS = ["user", "mount", "pid", "net", "ipc", "uts", "cgroup", "caps", "no_new_privs", "seccomp", "landlock"]


def test_doctor_here(who):
    r = who.brig("doctor")
    assert r.code == 0 and r.err == ""
    assert ESC not in r.out, "plain when piped"
    assert "can be enforced here." in r.out and "would refuse" not in r.out
    # a default that is not enforced is said, never left out
    missing = who.sh(":").json["missing"]
    assert ("missing" in r.out) == bool(missing) and all(x in r.out.splitlines()[-1] for x in missing)
    assert "a real sandbox" in r.out and "failed" not in r.out


def test_doctor_json_shape(who):
    r = who.brig("doctor", "--json")
    assert r.code == 0 and r.out.count("\n") == 1
    j = json.loads(r.out)
    assert (j["v"], j["ok"]) == (1, True)
    assert list(j["backends"])[0] == "native"
    assert {"landlock", "bwrap", "wrapper", "seatbelt", "none"} < set(j["backends"])
    for b in j["backends"].values():
        assert list(b) == list(j["backends"]["native"])
    assert j["backends"]["seatbelt"]["ok"] is False
    n = j["backends"]["native"]
    assert n["ok"] is True and n["unmet"] == [] and n["error"] is None
    assert n["required"] == LAYERS
    assert set(LAYERS) <= set(n["enforced"])
    names = [p["name"] for p in n["probes"]]
    assert len(names) == len(set(names)) >= 10
    for p in n["probes"]:
        assert list(p) == ["name", "state", "detail", "fix", "layers"]
        assert p["state"] in ("ok", "limited", "failed")
        assert p["state"] == "ok" or p["fix"], "what does not work comes with a fix: %s" % p
    for name in ("user namespace", "mount namespace", "fresh /proc", "system-call filter", "landlock"):
        assert next(p for p in n["probes"] if p["name"] == name)["state"] == "ok"


def test_doctor_leaves_nothing(who):
    uid = 65534 if who.is_root else who.uid  # root gives the trial's directory away
    before = in_tmp("brig-doctor", uid)
    who.brig("doctor")
    # another test's is there for a moment
    assert wait_until(lambda: in_tmp("brig-doctor", uid) <= before)


def test_doctor_agrees_with_run(who):
    n = json.loads(who.brig("doctor", "--json").out)["backends"]["native"]
    # doctor tries all there is, a list of names included
    assert who.sh(":", opts=["--allow", "allowed.test:443"]).json["enforced"] == n["enforced"]
    assert who.sh(":").json["enforced"] == [x for x in n["enforced"] if x != "net-names"]


def test_doctor_require(who):
    assert who.brig("doctor", "--require", "user,pid,seccomp").code == 0
    n = json.loads(who.brig("doctor", "--json").out)["backends"]["native"]
    r = who.brig("doctor", "--require", "memory")
    assert r.code == (0 if "memory" in n["enforced"] else 1)
    if r.code:
        assert "Not enforceable: memory" in r.out
    r = who.brig("doctor", "--require", "bogus")
    r.refused(2, "BAD_VALUE", "bogus")


def test_doctor_other_backends(who):
    r = who.brig("doctor", "--backend", "docker", env={"DOCKER_HOST": "unix://%s/none.sock" % who.base})
    assert r.code == 1 and "docker backend" in r.out and "none.sock" in r.out and r.err == ""
    r = who.brig("doctor", "--backend", "vmware")
    assert r.code == 2 and "vmware" in r.err and r.err.count("\n") == 1


@pytest.mark.parametrize("backend", ["landlock", "bwrap", "seatbelt"])
def test_doctor_of_a_backend(who, backend):
    """The backend that was asked about decides the exit code, and agrees with a run."""
    r = who.brig("doctor", "--backend", backend, "--json")
    b = json.loads(r.out)["backends"][backend]
    assert r.code == (0 if b["ok"] else 1)
    if backend == "seatbelt":
        assert r.code == 1 and b["probes"][0]["detail"] == "not macOS"
    elif b["ok"] and not who.is_root:
        opts = ["--backend", backend, *(["--allow", "allowed.test:443"] if "net-names" in b["enforced"] else [])]
        assert who.sh(":", opts=opts).json["enforced"] == b["enforced"]


def test_doctor_with_run_only_options(user):
    """Options that mean nothing to doctor are not taken silently."""
    for opts in (["--memory", "12X"], ["--memory", "64M"], ["--net", "host"], ["--workspace", "/"], ["--pty"],
                 ["--status-fd", "2"], ["--ro", "/usr"], ["--json", "--name", "x"]):
        r = user.brig("doctor", *opts)
        assert r.code == 2 and r.out == "" and r.err.count("\n") == 1, (opts, r)
        assert opts[-2 if len(opts) > 1 else 0] in r.err, (opts, r)


# -- colour -------------------------------------------------------------------

def on_pty(who, *args, env=None, columns=0):
    master, slave = pty.openpty()
    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("4H", 0, columns, 0, 0))
    p = who.popen([BRIG, *args], env=env, stdin=slave, stdout=slave, stderr=slave)
    os.close(slave)
    out = b""
    while True:
        if not select.select([master], [], [], 10)[0]:
            break
        try:
            data = os.read(master, 65536)
        except OSError:
            break
        if not data:
            break
        out += data
    p.wait()
    os.close(master)
    return out.decode()


def test_a_cause_for_each_limit(user):
    """Where there is no group to be had, each limit has its own cause; a fix that several have is told once."""
    probes = {p["name"]: p for p in json.loads(user.brig("doctor", "--json").out)["backends"]["native"]["probes"]}
    memory, cpu = probes["memory limit"], probes["processor limit"]
    if "ok" in (memory["state"], cpu["state"]):
        pytest.skip("an ordinary user has control groups here")
    assert "cpu" not in memory["detail"] and "memory" not in cpu["detail"], (memory, cpu)
    text = user.brig("doctor").out
    assert text.count(memory["fix"]) == 1
    r = user.run("true", opts=["--memory", "1G"])
    assert r.code == 125 and "cpu" not in r.json["error"]["message"], r.json


def test_fits_the_terminal(user):
    """Details are broken between words; what is there to be copied is not."""
    plain = user.brig("doctor").out.splitlines()
    fixes = [x for x in plain if x.startswith(" " * 11) and x[11:12] != " "]
    lines = on_pty(user, "doctor", env={"NO_COLOR": "1"}, columns=80).replace("\r\n", "\n").splitlines()
    probes = lines[1:lines.index("")]
    long = [x for x in probes if len(x) > 80 and x not in fixes]
    assert not [x for x in long if " " in x[32:]], long
    assert any(x.startswith(" " * 32) for x in probes), probes
    assert all(x in lines for x in fixes)


@pytest.mark.parametrize("args,at", [("doctor", 11), ("explain", 2), ("help run", 31), ("help doctor", 19)])
def test_lines_are_broken_between_words(user, args, at):
    """On a narrow terminal, under where they began; and nothing is lost."""
    env = {"NO_COLOR": "1", "DOCKER_HOST": "unix://%s" % ("/no such place" * 6)}
    narrow = on_pty(user, *args.split(), env=env, columns=64).replace("\r\n", "\n")
    plain = user.brig(*args.split(), env=env).out
    if args == "doctor":  # its fixes are not broken, and it took another time
        narrow, plain = (x[x.index("\nOther backends"):] for x in (narrow, plain))
    lines = narrow.splitlines()
    assert max(map(len, plain.splitlines())) > 64 >= max(map(len, lines)), lines
    assert re.sub(r"\s+", " ", narrow) == re.sub(r"\s+", " ", plain)
    rest = [x for x in lines if x not in plain.splitlines() and re.match(" {%d}\\S" % at, x)]
    assert rest, lines


@pytest.mark.parametrize("verb", ["doctor", "explain"])
def test_colour(who, verb):
    assert ESC + "[" in on_pty(who, verb)
    assert ESC not in on_pty(who, verb, env={"NO_COLOR": "1"})
    assert ESC not in on_pty(who, verb, env={"TERM": "dumb"})
    assert ESC + "[" in on_pty(who, verb, env={"NO_COLOR": ""}), "empty NO_COLOR means nothing"
    assert ESC not in who.brig(verb).out
    assert ESC not in on_pty(who, verb, "--json")


# -- no user namespaces -------------------------------------------------------

ROOT_ID = ["unshare", "-Ur"]
OWN_ID = ["unshare", "--map-user=1000", "--map-group=1000", "--keep-caps"]
DROP = "setpriv --inh-caps=-all --ambient-caps=-all --bounding-set=-all"


def forbidden(who, *args, sysctl="max_user_namespaces", how=ROOT_ID):
    """In a throw-away user namespace where this kind of namespace is forbidden.

    Either as the root of that namespace (a container's root), or under an
    ordinary id and without any capability."""
    p = who.popen([*how, "sh", "-c",
                   "echo 0 > /proc/sys/user/%s || exit 99; exec %s \"$@\"" % (sysctl, "" if how is ROOT_ID else DROP),
                   "sh", BRIG, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    out, err = p.communicate(timeout=30)
    if p.returncode == 99:
        pytest.skip("cannot set user.%s in a user namespace: %s" % (sysctl, err.decode()))
    return p.returncode, out.decode(), err.decode()


@pytest.mark.parametrize("how", [ROOT_ID, OWN_ID], ids=["as-root", "as-1000"])
def test_no_user_namespaces_run(who, how):
    code, out, err = forbidden(who, "run", "--json", "--", *who.ran_marker(), how=how)
    assert code == 125 and not who.marker.exists() and "the-command-ran" not in out
    j = json.loads(out)
    assert j["ran"] is False and j["enforced"] == []
    assert j["error"]["code"] == "USERNS_DENIED"
    assert "max_user_namespaces is 0" in j["error"]["message"]
    assert "sysctl -w user.max_user_namespaces=" in j["error"]["fix"]
    assert err.count("\n") == 1 and err.startswith("brig: USERNS_DENIED: ")


def test_no_user_namespaces_shell(who):
    code, _out, err = forbidden(who, "shell")
    assert code == 125 and "USERNS_DENIED" in err


def test_no_user_namespaces_with_fewer_requirements(who):
    """Never unconfined instead, whatever is said to be required."""
    for req in ("seccomp", "caps", "landlock"):
        code, out, err = forbidden(who, "run", "--require", req, "--", *who.ran_marker())
        assert code == 125 and not who.marker.exists() and "the-command-ran" not in out, (req, out, err)


def test_no_user_namespaces_doctor(who):
    code, out, err = forbidden(who, "doctor")
    assert code == 1
    assert "brig would refuse to run here" in out and "max_user_namespaces" in out
    code, out, err = forbidden(who, "doctor", "--json")
    assert code == 1
    j = json.loads(out)
    n = j["backends"]["native"]
    assert j["ok"] is False and n["ok"] is False and "user" in n["unmet"]
    assert n["error"]["code"] == "USERNS_DENIED"
    p = next(p for p in n["probes"] if p["name"] == "user namespace")
    assert p["state"] == "failed" and "sysctl" in p["fix"]
    # what fails because of that names no other cause, and no other fix
    for p in n["probes"]:
        if p["name"] in ("mounting", "fresh /proc", "id-mapped mounts") or p["name"].endswith(" namespace"):
            assert p["name"] == "user namespace" or (p["detail"], p["fix"]) == ("needs a user namespace", None), p


@pytest.mark.skipif(not IS_ROOT, reason="chroot takes root")
def test_a_chroot_is_named(who):
    """The kernel refuses to whoever is in one, and says no more than EPERM."""
    top = who.mkdir(who.base / "top")
    who.mkdir(top / "ws")
    shutil.copy(BRIG, top / "brig")
    enter = ["chroot", "--userspec=%d:%d" % (who.uid, who.gid), "--groups=", top, "/brig"]
    p = subprocess.run([*enter, "run", "--workspace", "/ws", "--", "/brig"], env=who.env, stdin=subprocess.DEVNULL,
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=30)
    assert p.returncode == 125 and p.stderr.count("\n") == 1, p
    assert p.stderr.startswith("brig: USERNS_DENIED: ") and "in a chroot" in p.stderr, p
    assert "--backend landlock" in p.stderr and "brig doctor shows" not in p.stderr, p


# As these systems have it: a file that says so, and a kernel that refuses.  First the clone
# itself, then (Ubuntu) only what the new namespace is for.
SYSTEMS = {"apparmor_restrict_unprivileged_userns": ("1", "AppArmor", "do not turn the restriction off"),
           "unprivileged_userns_clone": ("0", "kernel.unprivileged_userns_clone is 0", "sysctl -w")}


def on_a_system(who, name, how, *args):
    if not IS_ROOT:
        pytest.skip("needs root to show another /proc/sys/kernel, in a mount namespace of its own")
    drop = ["setpriv", "--reuid", str(who.uid), "--regid", str(who.gid), "--clear-groups"]
    p = subprocess.run(["unshare", "-m", "--propagation", "private", "sh", "-c",
                        'mount -t tmpfs none /proc/sys/kernel && echo "$1" > "/proc/sys/kernel/$0" && shift && exec "$@"',
                        name, SYSTEMS[name][0], *drop, *how, BRIG, *args], env=who.env, cwd=who.ws, stdin=subprocess.DEVNULL,
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=30)
    return p.returncode, p.stdout, p.stderr


@pytest.mark.parametrize("name", SYSTEMS)
def test_the_systems_own_restriction_is_named(who, name):
    deny = [BRIG.parent / "tests/deny", "clone3=EPERM", "--"]
    _, cause, fix = SYSTEMS[name]
    code, out, err = on_a_system(who, name, deny, "run", "--json", "--", *who.ran_marker())
    assert code == 125 and not who.marker.exists() and json.loads(out)["error"]["code"] == "USERNS_DENIED"
    assert cause in err and fix in err and err.count("\n") == 1, err
    code, out, err = on_a_system(who, name, deny, "doctor", "--json")
    j = json.loads(out)["backends"]["native"]
    p = next(p for p in j["probes"] if p["name"] == "user namespace")
    assert code == 1 and p["state"] == "failed" and cause in p["detail"] and fix in p["fix"], p


def test_a_namespace_without_powers_is_the_systems_restriction(who):
    """Ubuntu: the namespace is made, and its maps are refused."""
    inject = BRIG.parent / "tests/inject"
    report = who.base / "report"
    _, _, err = on_a_system(who, "apparmor_restrict_unprivileged_userns", [inject, "-l", "-o", report, "--"],
                            "run", "--", "true")
    # Who writes the maps: the builder its own, for root the supervisor.  Which of its writes that
    # is depends on who comes first.
    role = "supervisor" if who.is_root else "builder"
    writes = [x.split()[1:] for x in report.read_text().splitlines() if x.startswith("call %s write " % role)]
    said = []
    for _, _, number, *_ in writes:
        _, _, err = on_a_system(who, "apparmor_restrict_unprivileged_userns",
                                [inject, "-o", report, "-f", "%s:write:%s:EPERM" % (role, number), "--"],
                                "run", "--", *who.ran_marker())
        assert not who.marker.exists(), (number, err)
        said.append(err)
        if "USERNS_DENIED" in err:
            break
    assert "USERNS_DENIED" in said[-1] and "AppArmor" in said[-1], said


def test_an_older_kernel_is_named(who):
    """Below the floor doctor says so, whatever else works; and nothing that came later is relied on."""
    p = who.popen(["setarch", "--uname-2.6", BRIG, "doctor", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    out, err = p.communicate(timeout=30)
    n = json.loads(out)["backends"]["native"]
    kernel = next(p for p in n["probes"] if p["name"] == "kernel")
    assert kernel["state"] == "failed" and "older than 5.13" in kernel["detail"] and "5.13" in kernel["fix"], kernel
    p = who.popen(["setarch", "--uname-2.6", BRIG, "doctor"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    out, err = p.communicate(timeout=30)
    assert b"older than 5.13" in out and b"use Linux 5.13 or later" in out


@pytest.mark.parametrize("kind", ["mnt", "pid", "net", "ipc", "uts", "cgroup"])
def test_other_namespaces_forbidden(who, kind):
    sysctl = "max_%s_namespaces" % kind
    code, out, err = forbidden(who, "run", "--json", "--", *who.ran_marker(), sysctl=sysctl, how=OWN_ID)
    assert code == 125 and not who.marker.exists() and "the-command-ran" not in out
    j = json.loads(out)
    assert j["ran"] is False and j["error"]["fix"] and err.count("\n") == 1
    # the cause is named, not the user namespace
    assert "user namespace" not in err, err
    assert sysctl in j["error"]["fix"] and sysctl in err, err
    code, _out, _err = forbidden(who, "doctor", sysctl=sysctl, how=OWN_ID)
    assert code == 1


@pytest.mark.prompt  # it takes the processors from its neighbours
def test_cause_is_told_on_a_busy_machine_too(user):
    """The supervisor may look at the command's process when that has already died because
    there is no network for it: what it says is why, whatever it finds gone."""
    busy = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(2 * os.cpu_count())]
    try:
        for _ in range(60):
            code, _out, err = forbidden(user, "run", "--", *user.ran_marker(), sysctl="max_net_namespaces", how=OWN_ID)
            assert code == 125 and "network namespace" in err and not user.marker.exists(), err
    finally:
        for p in busy:
            p.kill()
            p.wait()


def test_required_layer_without_evidence(who):
    """Landlock away (a kernel without it, here: the limit on its layers) means 125."""
    r = who.brig("run", "--net", "host", "--require", "user,net", "--json", "--", *who.ran_marker())
    assert r.code == 125 and r.json["error"]["code"] == "REQUIRE_UNMET"
    assert not who.marker.exists() and r.json["ran"] is False
    assert "net" in r.json["missing"] and "net" not in r.json["enforced"]
    assert r.json["evidence"]["namespaces"]["net"] in os.readlink("/proc/self/ns/net")


def test_nested_in_a_root_of_a_user_namespace(who):
    """As root of a user namespace (a rootless container): works or is refused, never half."""
    p = who.popen(["unshare", "-Ur", BRIG, "run", "--json", "--", "sh", "-c", "id -u"], stdout=subprocess.PIPE,
                  stderr=subprocess.PIPE)
    out, err = p.communicate(timeout=20)
    j = json.loads(out)
    if p.returncode == 125:
        assert j["ran"] is False and j["error"]["fix"] and err.count(b"\n") == 1
    else:
        # RLIMIT_NPROC does not hold the machine's root, whose id it is when root made the namespace
        may = {"memory", "cpu"} | ({"pids"} if who.is_root else set())
        assert p.returncode == 0 and j["stdout"].strip() != "0" and set(j["missing"]) <= may, j


def test_proc_not_mounted(who):
    """Without /proc outside there is no evidence: refused."""
    p = who.popen(["unshare", "-Urm", "sh", "-c", 'mount -t tmpfs none /proc && exec "$@"', "sh", BRIG, "run", "--",
                   *who.ran_marker()], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    out, err = p.communicate(timeout=20)
    assert p.returncode == 125 and not who.marker.exists() and b"the-command-ran" not in out
    assert err.count(b"\n") == 1 and err.startswith(b"brig: ")


# -- under the policy in force ------------------------------------------------------


def under(who, text, *opts, env=None):
    f = who.write(who.base / "policy.yaml", "version: 1\nsandbox: {%s}\n" % text)
    return f, who.brig("doctor", "--config", f, *opts, env=env)


def test_doctor_is_about_the_policy(who):
    f, r = under(who, "mode: landlock, limits: {timeout: 20}")
    assert r.code == 0 and "landlock backend" in r.out.splitlines()[0], r
    assert r.out.splitlines()[1] == "Policy: %s" % f
    f, r = under(who, "network: {mode: host}")
    assert r.code == 0 and r.out.splitlines()[-1].endswith(": " + " ".join(who.sh(":", ["--config", f]).json["missing"])), r
    f, r = under(who, "network: {mode: host}", "--require", "net")
    assert r.code == 1 and "Not enforceable: net" in r.out, r


def test_a_policy_that_cannot_be_enforced(who):
    """What brig run refuses, doctor says: a limit by name, a directory that is not there."""
    f, r = under(who, "filesystem: {read: [/no/such/place]}", "--json")
    j = json.loads(r.out)
    assert (r.code, j["ok"], j["policy"]) == (1, False, [str(f)]), r
    n = j["backends"]["native"]
    assert n["error"]["code"] == "BAD_MOUNT" and n["unmet"] == [], n
    who.sh(":", ["--config", f]).refused(125, "BAD_MOUNT")
    f, r = under(who, "limits: {memory: 64M}")
    run = who.sh(":", ["--config", f])
    assert (r.code == 0) == run.json["ran"], (r, run)
    assert run.json["ran"] or "refuse to run here." in r.out and "Not enforceable:" not in r.out, r


@pytest.mark.parametrize("text", ["workspace: {root: %s}", "workspace: {path: %s}, lock: [workspace.path]"])
def test_a_policy_that_says_where_workspaces_are(who, text):
    """The trial had its directory in /tmp: nothing could ever be enforced under such a policy."""
    place = who.mkdir(who.base / "workspaces")
    f, r = under(who, text % place)
    assert r.code == 0 and "failed" not in r.out, r
    assert os.listdir(place) == []
    place.rmdir()
    f, r = under(who, text % place, "--json")
    n = json.loads(r.out)["backends"]["native"]
    assert r.code == 1 and str(place) in n["error"]["message"] and n["unmet"] == [], r


def test_a_place_of_somebody_else(base, account):
    """Whose it is can put something else where root has made its directory, which root then gave away."""
    need("strace")
    if not IS_ROOT:
        pytest.skip("not root: there is nothing that it gives away")
    who = make_who("root", base, account)
    place, bait = who.mkdir(who.base / "workspaces"), who.write(who.base / "bait")
    os.chown(place, *account)
    f = who.write(who.base / "policy.yaml", "version: 1\nsandbox: {workspace: {root: %s}}\n" % place)
    p = who.popen(["strace", "-o", "/dev/null", "-e", "trace=chown,fchown", "-e",
                   "inject=chown,fchown:delay_enter=500000:when=1", BRIG, "doctor", "--config", f,
                   "--backend", "native"], stdout=subprocess.DEVNULL)
    assert wait_until(lambda: os.listdir(place), 10)
    time.sleep(0.2)
    theirs = place / os.listdir(place)[0]
    theirs.rename(place / "moved")
    theirs.symlink_to(bait)
    p.wait(30)
    assert bait.stat().st_uid == 0


def test_a_fallback_is_no_answer_about_a_backend(user):
    """Another one ran the trial, and what it enforced was said to be what this one does."""
    f, r = under(user, "fallback: [landlock]", "--json", env={"PATH": "/nonexistent"})
    b = json.loads(r.out)["backends"]["bwrap"]
    assert r.code == 0 and not b["ok"] and b["enforced"] == [] and "bubblewrap" in b["error"]["message"], b


def test_a_policy_that_cannot_be_read(who):
    f, r = under(who, "limts: 1")
    r.refused(2, "BAD_CONFIG", "%s:2:11" % f)
    f, r = under(who, "limts: 1", "--json")
    j = json.loads(r.out)
    assert (r.code, j["ok"], j["error"]["code"], j["backends"]) == (2, False, "BAD_CONFIG", {}), r
    r = who.brig("doctor", "--profile", "no-such-profile")
    assert r.code == 2 and "no-such-profile" in r.err, r
