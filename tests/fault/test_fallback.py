# SPDX-License-Identifier: Apache-2.0
"""Where a system call does not exist: the same containment by another way, or 125 and
nothing ran.

`deny` makes the calls fail for brig and all its processes.  Root works on an ordinary
user's workspace here.
"""
import json
import os
import re
import shutil
import socket
import subprocess
import time

import pytest

from fault import FULL_BASE, IS_ROOT, Scene, check, libc, mount, run_scene, support

MOUNT_CALLS = ["open_tree", "move_mount", "fsopen", "fsconfig", "fsmount", "mount_setattr"]
WITHOUT = ["open_tree_attr", "keyctl"]


@pytest.fixture(params=WITHOUT)
def without(request, deny):
    return [str(deny), request.param + "=ENOSYS", "--"]


class Under:
    """brig under a prefix, on a scene's workspace."""

    def __init__(self, who, prefix, account):
        self.who, self.prefix = who, prefix
        self.scene = Scene(who, "scene")
        if who.is_root:
            for top, dirs, files in os.walk(self.scene.dir):
                for name in [top] + [os.path.join(top, x) for x in dirs + files]:
                    os.lchown(name, *account)
        self.ws = self.scene.ws

    def brig(self, *args, **kw):
        saved, support.BRIG = support.BRIG, self.prefix[0]
        try:
            return self.who.brig(*self.prefix[1:], saved, *args, cwd=self.ws, **kw)
        finally:
            support.BRIG = saved

    def sh(self, text, *opts, **kw):
        return self.brig("run", "--json", "--workspace", self.ws, *opts, "--", "/bin/sh", "-c", text, **kw)

    def plain(self, text, *opts):
        """The same with every call there."""
        return self.who.brig("run", "--json", "--workspace", self.ws, *opts, "--", "/bin/sh", "-c", text, cwd=self.ws)


@pytest.fixture
def under(who, without, account):
    return Under(who, without, account)


# -- a way without ------------------------------------------------------------------

def test_scene(under):
    """Binds, masks, protected paths: the scene finds no hole."""
    out = run_scene(under.scene, under.prefix)
    assert out.ran and not out.problems(), (out, out.problems())
    assert out.json["missing"] == [x for x in out.json["missing"] if x in ("memory", "cpu", "pids")]


def flags_inside(result):
    """Mount point → what restricts it, as the kernel tells it inside."""
    assert result.code == 0, result
    table = {}
    for line in result.json["stdout"].splitlines():
        f = line.split()
        keep = tuple(x for x in ("ro", "nosuid", "nodev", "noexec") if x in f[5].split(","))
        table.setdefault(f[4], []).append((keep, f[f.index("-") + 1]))
    return table


def test_mount_table_is_the_same(under):
    opts = ["--ro", under.scene.ro, "--rw", under.scene.rw, "--mask", under.scene.ro / "masked"]
    show = "cat /proc/self/mountinfo"
    assert flags_inside(under.sh(show, *opts)) == flags_inside(under.plain(show, *opts))


def test_evidence(under):
    a, b = under.sh("true").json, under.plain("true").json
    assert a["ran"] and a["exit"] == 0
    assert a["enforced"] == b["enforced"] and a["missing"] == b["missing"]
    for key in ("no_new_privs", "cap_eff", "cap_bnd", "cap_prm", "seccomp"):
        assert a["evidence"][key] == b["evidence"][key]
    # one more than the filter of deny, which is around brig
    assert a["evidence"]["seccomp_filters"] == b["evidence"]["seccomp_filters"] + 1


def test_submounts_below_read_only_trees(under):
    if not IS_ROOT:
        pytest.skip("needs root: mounts below the tree")
    sub, deep = under.scene.ro / "sub", under.scene.ro / "sub/deep er"
    sub.mkdir()
    mount("tmpfs", sub, "tmpfs", 0, "mode=0777")
    try:
        deep.mkdir()
        mount("tmpfs", deep, "tmpfs", 0, "mode=0777")
        (deep / "f").write_text("x\n")
        (deep / "f").chmod(0o666)
        r = under.sh("for d in '%s' '%s'; do (: > \"$d/new\") 2>/dev/null && echo \"$d written\"; done; "
                     "(echo y > '%s/f') 2>/dev/null && echo changed; cat '%s/f'; true" % (sub, deep, deep, deep),
                     "--ro", under.scene.ro)
        assert r.json["stdout"] == "x\n", r
        show = "cat /proc/self/mountinfo"
        assert flags_inside(under.sh(show, "--ro", under.scene.ro)) == \
            flags_inside(under.plain(show, "--ro", under.scene.ro))
        # below a writable tree they are writable, but neither set-id nor devices count
        r = under.sh(": > '%s/new' && echo written; cat /proc/self/mountinfo" % deep, "--rw", under.scene.ro)
        assert r.json["stdout"].startswith("written\n"), r
    finally:
        for d in (deep, sub):
            if os.path.ismount(d):
                check(libc.umount2(os.fsencode(d), 2), "umount")


def test_protected_paths(under):
    r = under.sh("echo evil > .envrc; mv .git .x; rm -rf .git; echo evil > .zshrc; mkdir .vscode; "
                 "echo evil > .vscode/tasks.json; true")
    assert r.code == 0, r
    assert (under.ws / ".envrc").read_text() == "mine\n"
    assert (under.ws / ".git/config").read_text() == "[core]\n"
    assert not (under.ws / ".zshrc").exists() and not (under.ws / ".vscode").exists()
    assert {d["kind"] for d in r.json["denied"]} == {"path"}


GIT = ["--env", "GIT_AUTHOR_NAME=a", "--env", "GIT_AUTHOR_EMAIL=a@example.org", "--env", "GIT_COMMITTER_NAME=a", "--env",
       "GIT_COMMITTER_EMAIL=a@example.org"]


def test_repository_made_inside(under):
    """It stays: nothing can come later, as the mounts are read-only by then, one way or another."""
    support.need("git")
    shutil.rmtree(under.ws / ".git")
    r = under.sh("set -e; git init -q .; git add .envrc; git commit -q -m one; git worktree add -q wt; git gc -q", *GIT)
    assert r.code == 0 and r.json["denied"] == [], r.json
    assert (under.ws / ".git/config").exists() and (under.ws / ".git/hooks").is_dir()


GIVE = """
import os, socket, subprocess
subprocess.run(["git", "init", "-q", "."], check=True)
s = socket.socket(socket.AF_UNIX); s.connect("sock")
socket.send_fds(s, [b"x"], [os.open(".git/config", os.O_RDWR)])
s.recv(1)
"""


def test_repository_that_somebody_can_still_write(who, account):
    """The kernel refuses to make those mounts read-only: then it does not stay."""
    support.need("git")
    under = Under(who, [], account)
    shutil.rmtree(under.ws / ".git")
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(str(under.ws / "sock"))
        os.chmod(under.ws / "sock", 0o777)
        s.settimeout(20)
        s.listen(1)
        p = who.popen([*under.prefix, support.BRIG, "run", "--json", "--workspace", under.ws, "--", "/usr/bin/python3", "-c",
                       GIVE], cwd=under.ws, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        k, _ = s.accept()
        with k:
            _, fds, _, _ = socket.recv_fds(k, 1, 4)
    out, err = p.communicate(timeout=30)
    assert len(fds) == 1 and ".git/config" in [d["target"] for d in json.loads(out)["denied"]], (out, err)
    os.write(fds[0], b"[core]\n\tfsmonitor = evil\n")
    os.close(fds[0])
    assert not (under.ws / ".git/config").exists()


def test_pty(under):
    r = under.brig("run", "--pty", "--workspace", under.ws, "--", "/bin/sh", "-c",
                   "test -t 0 && test -t 1 && tty && ls /dev/pts && : > /dev/tty && echo terminal")
    assert r.code == 0, r
    assert "/dev/pts/0" in r.out and "terminal" in r.out, r


def test_hundred_binds(under):
    opts = []
    top = under.who.mkdir(under.scene.dir / "many")
    for i in range(100):
        d = under.who.mkdir(top / str(i))
        d.chmod(0o777)
        (d / "f").write_text("%d\n" % i)
        opts += ["--ro" if i % 2 else "--rw", d]
    r = under.sh("cd '%s'; for i in *; do (: > $i/new) 2>/dev/null && echo $i; done | sort -n | tr '\\n' ' '; "
                 "cat */f | wc -l" % top, *opts)
    assert r.code == 0, r
    assert r.json["stdout"].split() == [str(i) for i in range(0, 100, 2)] + ["100"], r


def test_network_and_processes(under):
    show = "tail -n +3 /proc/net/dev | cut -d: -f1; cat /proc/1/comm; hostname; id -u"
    assert under.sh(show).json["stdout"] == under.plain(show).json["stdout"]


def test_a_filter_that_does_not_know_a_newer_call(who, deny, account):
    """Many answer EPERM then, which is no word of the kernel's."""
    under = Under(who, [str(deny), "open_tree_attr=EPERM", "--"], account)
    show = "cat /proc/self/mountinfo"
    assert flags_inside(under.sh(show)) == flags_inside(under.plain(show))


@pytest.mark.parametrize("call", MOUNT_CALLS + [",".join(MOUNT_CALLS)])
def test_without_the_mount_calls(who, deny, call):
    """Refused, with the way that needs none; doctor says so too."""
    scene = Scene(who, "scene")
    out = run_scene(scene, [deny, call + "=ENOSYS", "--"])
    assert not out.ran and out.code == 125 and not out.problems(), out
    assert out.json["error"]["code"] == "KERNEL_TOO_OLD" and "--backend landlock" in out.json["error"]["fix"], out.err
    r = Under(who, [str(deny), call + "=ENOSYS", "--"], (who.uid, who.gid)).brig("doctor")
    assert r.code == 1 and "landlock" in r.out, r.out
    scene.clear()


def test_without_close_range(who, deny):
    """A kernel before 5.9 (with clone3 and openat2): descriptors must not leak, or nothing runs."""
    fd = os.open("/etc/shadow" if IS_ROOT else "/etc/passwd", os.O_RDONLY)
    try:
        scene = Scene(who, "scene")
        out = run_scene(scene, [deny, "close_range=ENOSYS", "--"], pass_fds=(fd,))
        assert not out.problems(), (out, out.problems())
        p = who.popen([str(deny), "close_range=ENOSYS", "--", support.BRIG, "run", "--workspace", who.ws, "--",
                       "/bin/ls", "/proc/self/fd"], pass_fds=(fd,), stdin=subprocess.DEVNULL,
                      stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        text, err = p.communicate(timeout=20)
        if p.returncode == 0:
            assert set(text.split()) <= {b"0", b"1", b"2", b"3"}, text
        else:
            assert p.returncode == 125 and text == b"" and err.startswith(b"brig: "), (p.returncode, err)
    finally:
        os.close(fd)


# -- flags and numbers of newer kernels: no ENOSYS tells of them ---------------------

def test_a_listener_before_it_could_wait_for_kills_only(who, inject):
    """The filter's flag of Linux 5.19: without it refused calls are counted all the same."""
    report = who.base / "report"
    support.BRIG, brig = inject, support.BRIG
    try:
        r = who.brig("-o", report, "-f", "job:seccomp:1:EINVAL", "--", brig, "run", "--json", "--workspace", who.ws,
                     "--", "/bin/sh", "-c", "unshare -r true; unshare -r true; true")
    finally:
        support.BRIG = brig
    assert "hit job seccomp 1" in report.read_text(), report.read_text()
    assert r.json["ran"] and r.json["exit"] == 0 and FULL_BASE <= set(r.json["enforced"]), r
    assert [(d["target"], d["count"]) for d in r.json["denied"]] == [("unshare", 2)], r.json["denied"]


@pytest.mark.parametrize("plain", [False, True], ids=["locked", "plain"])
def test_an_older_kernel_by_its_number(who, plain):
    """What cannot be tried is known by the version: how processes are counted (5.14), whose memory a dump
    of core ends (5.16).  Said to be older, the same is contained, and what cannot be is missing."""
    scene = Scene(who, "scene", plain=plain)
    out = run_scene(scene, ["setarch", "--uname-2.6"])
    assert out.ran and not out.problems(), (out, out.problems())
    limits = {"memory", "pids", "cpu"}
    assert ("pids" in out.json["missing"]) == ("memory" in out.json["missing"]), out.json
    if "pids" in out.json["missing"]:
        assert out.json["evidence"]["rlimit_nproc"] is None or out.json["evidence"]["rlimit_nproc"] == 0, out.json
        scene.clear()
        scene = Scene(who, "asked", plain=plain)
        out = run_scene(scene, ["setarch", "--uname-2.6"], opts=["--pids", "50"])
        assert not out.ran and out.code == 125 and out.json["error"]["code"] == "LIMIT_UNENFORCEABLE", out
    else:
        assert limits <= set(out.json["enforced"]), out.json
    scene.clear()


# -- Landlock: only when one insists on less ----------------------------------------

LESS = "user,mount,pid,net,seccomp,caps"


@pytest.mark.parametrize("call", ["landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self"])
@pytest.mark.parametrize("error", ["ENOSYS", "EOPNOTSUPP"])
def test_without_landlock(who, deny, call, error):
    scene = Scene(who, "scene")
    out = run_scene(scene, [deny, "%s=%s" % (call, error), "--"])
    assert not out.ran and out.code == 125 and not out.problems(), out
    assert out.json["error"]["code"] == "LANDLOCK_UNAVAILABLE" and "--require" in out.json["error"]["fix"]
    assert "LANDLOCK_UNAVAILABLE" in out.err
    scene.clear()
    if call != "landlock_create_ruleset":
        return
    scene = Scene(who, "less")
    out = run_scene(scene, [deny, "%s=%s" % (call, error), "--"], opts=["--require", LESS])
    assert out.ran and not out.problems(FULL_BASE - {"landlock"}), out
    assert "landlock" in out.json["missing"] and "landlock" not in out.json["enforced"]


# -- no way without ------------------------------------------------------------------

@pytest.mark.parametrize("call, codes", [
    ("clone3", {"KERNEL_TOO_OLD", "USERNS_DENIED"}),
    ("openat2", {"KERNEL_TOO_OLD", "BAD_PATH", "BAD_CWD", "BAD_WORKSPACE", "SETUP_FAILED", "MOUNT_FAILED",
                 "PROTECT_FAILED"}),
    ("pidfd_open", {"KERNEL_TOO_OLD", "SETUP_FAILED"}),
    ("unshare", {"NAMESPACE_DENIED"}),
    ("seccomp", {"SECCOMP_FAILED"}),
    ("capset", {"CAPS_FAILED"}),
    ("pivot_root", {"MOUNT_FAILED"}),
    ("prctl", None),
    ("execveat", None),
    ("signalfd4", None),
    ("socketpair", None),
])
@pytest.mark.parametrize("error", ["ENOSYS", "EPERM"])
def test_refused(who, deny, call, codes, error):
    scene = Scene(who, "scene")
    out = run_scene(scene, [deny, "%s=%s" % (call, error), "--"])
    assert not out.ran and out.code == 125 and not out.problems(), (out, out.problems())
    assert out.json and not out.json["ran"], out
    assert not out.complaints(), out
    if codes:
        assert out.json["error"]["code"] in codes, out
    lines = out.err.splitlines()
    assert len(lines) == 1 and re.match(r"brig: [A-Z_]+: .* \(.*\)$", lines[0]), out.err
    if codes == {"NAMESPACE_DENIED"}:  # by the filter, and there is a way without namespaces
        assert "filter" in out.json["error"]["fix"] and "--backend landlock" in out.json["error"]["fix"], out.err
    scene.clear()


# -- calls that claim success and do nothing (some containers' filters) --------------

@pytest.mark.parametrize("call", ["capset", "prctl", "landlock_restrict_self", "seccomp", "setresuid", "setresgid",
                                  "setgroups", "unshare", "setns", "unshare,setns", "sethostname", "pivot_root", "umount2", "move_mount", "fchdir", "chdir", "close_range", "fsconfig", "landlock_add_rule",
                                  "setsid",
                                  "mount_setattr", "open_tree_attr", "open_tree", "mkdirat", "mknodat", "keyctl", "prlimit64", "ioctl", "dup2", "symlinkat", "mount"])
def test_a_lie_is_not_evidence(who, deny, call):
    """Whatever is claimed: the run is contained, or refused."""
    fd = os.open("/etc/passwd", os.O_RDONLY)
    scene = Scene(who, "scene")
    try:
        out = run_scene(scene, [deny, call + "=0", "--"], pass_fds=(fd,), timeout=40)
    finally:
        os.close(fd)
    assert not out.violations, out
    if out.ran:
        assert FULL_BASE <= set(out.json["enforced"]), out
    else:
        assert out.code == 125 or not out.json["ran"], out


def test_mount_flags_are_read_back(who, deny):
    """A mount_setattr that was never made leaves trees writable: seen, and refused."""
    scene = Scene(who, "scene")
    out = run_scene(scene, [deny, "mount_setattr=0", "--"])
    assert not out.ran and out.code == 125, out
    assert out.json["error"]["code"] == "REQUIRE_UNMET" and "read-only" in out.json["error"]["message"], out


def test_mounts_are_not_tied_to_the_hosts(who, account):
    """What is mounted on the host later would arrive inside, without any of brig's flags.  Everything is shared
    where this runs."""
    under = Under(who, [], account)
    r = under.plain("cat /proc/self/mountinfo", "--ro", under.scene.ro)
    assert r.code == 0, r
    for line in r.json["stdout"].splitlines():
        f = line.split()
        assert not [x for x in f[6:f.index("-")] if x.startswith(("shared:", "master:"))], line


def has_mount(pid, path):
    try:
        with open("/proc/%d/mountinfo" % pid) as f:
            return any(line.split()[4].endswith(str(path)) for line in f)
    except OSError:
        return False


def test_a_place_that_is_moved_while_trees_are_placed(who, account):
    """A bind in the workspace is on a directory of its owner's, who may rename it, and what then has its name is
    not what was asked for."""
    support.need("strace")
    under = Under(who, [], account)
    w, ws = under.who, under.ws
    d, sub = w.mkdir(under.scene.dir / "shown"), w.mkdir(ws / "sub")
    w.write(d / "f", "mine\n")
    opts = ["--ro", "%s:%s" % (d, sub)]
    for i in range(80):
        opts += ["--ro", "%s:/zz/%d" % (w.mkdir(under.scene.dir / ("b/%d" % i)), i)]
    for top, dirs, _ in os.walk(under.scene.dir):
        os.lchown(top, *account)
    p = w.popen(["strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=move_mount", "-e",
                 "inject=move_mount:delay_enter=20000", support.BRIG, "run",
                 "--json", "--workspace", ws, *opts, "--", "/bin/sh", "-c",
                 ": > marker; (: > sub/new) && echo written; cat sub/f"],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        # it is placed, and the next ones are not
        assert support.wait_until(lambda: any(has_mount(pid, sub) for pid in support.descendants(p.pid)), 20)
        os.rename(sub, ws / "moved")
        sub.mkdir()
        os.lchown(sub, *account)
        out, err = p.communicate(timeout=60)
    finally:
        p.kill()
        p.wait()
    assert p.returncode == 125 and b"REQUIRE_UNMET" in err + out, (out, err)
    assert not (ws / "marker").exists() and not (sub / "new").exists()
