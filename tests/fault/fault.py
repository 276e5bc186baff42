# SPDX-License-Identifier: Apache-2.0
"""What the fault tests share.

The users, workspaces and result objects are those of tests/run; this adds a
place where everything that is left behind is seen to be ours: a mount
namespace and control groups of the test process alone, and the role of
subreaper, so that an orphan of brig becomes a child of the test process.
"""
import ctypes
import fcntl
import importlib.util
import json
import os
import shutil
import signal
import subprocess
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]
_spec = importlib.util.spec_from_file_location("brig_run_support", REPO / "tests/run/conftest.py")
support = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(support)

IS_ROOT = support.IS_ROOT
wait_until, make_who = support.wait_until, support.make_who
FULL_BASE = {"user", "mount", "pid", "net", "ipc", "uts", "cgroup", "caps", "no_new_privs", "seccomp", "landlock"}

libc = ctypes.CDLL(None, use_errno=True)
MS_REC, MS_PRIVATE, MS_SHARED, CLONE_NEWNS, PR_SET_CHILD_SUBREAPER = 1 << 14, 1 << 18, 1 << 20, 0x20000, 36


def check(result, what):
    if result != 0:
        raise OSError(ctypes.get_errno(), what)


def mount(source, target, kind, flags=0, data=None):
    enc = [None if x is None else os.fsencode(x) for x in (source, target, kind)]
    check(libc.mount(*enc, ctypes.c_ulong(flags), None if data is None else data.encode()), str(target))


def tool(name):
    """deny or inject: from the build, else compiled here."""
    made = REPO / "build" / name
    src = REPO / "tests/tools" / (name + ".c")
    for place in (made, REPO / "build/tests" / name):
        if os.access(place, os.X_OK) and place.stat().st_mtime >= src.stat().st_mtime:
            return place
    out = support_dir() / name
    if not out.exists():
        subprocess.run(["cc", "-std=gnu17", "-O2", "-Wall", "-D_GNU_SOURCE", "-static", "-o", str(out), str(src)],
                       check=True)
    return out


_dir = []


def support_dir():
    return _dir[0]


class Quarantine:
    """What the test process keeps to itself, and what is in it."""

    def __init__(self):
        check(libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "subreaper")
        self.groups = []
        self.known = set(self.all_groups())
        if IS_ROOT:
            # shared, so that a mount brig failed to keep to itself would show up here
            check(libc.unshare(CLONE_NEWNS), "a mount namespace")
            mount("none", "/", None, MS_REC | MS_PRIVATE)
            mount("none", "/", None, MS_REC | MS_SHARED)
            self.enter_groups()

    @staticmethod
    def is_free_slot(path):
        """Version 1 groups are slots that stay: nobody is in one, and nobody has it locked."""
        if not os.path.basename(path).startswith("brig-slot"):
            return False
        fd = os.open(path, os.O_RDONLY)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return not Path(path, "tasks").read_text()
        except BlockingIOError:
            return False
        finally:
            os.close(fd)

    def all_groups(self):
        found = [os.path.join(top, d) for top, dirs, _ in os.walk("/sys/fs/cgroup") for d in dirs
                 if d.startswith("brig-")]
        return [d for d in found if not self.is_free_slot(d)]

    def enter_groups(self):
        """Version 1 only: there a process may live beside the groups below it."""
        for line in open("/proc/self/cgroup"):
            _, names, path = line.strip().split(":", 2)
            for name in names.split(","):
                top = Path("/sys/fs/cgroup") / name
                if name in ("memory", "cpu", "pids") and (top / "cgroup.procs").exists():
                    own = top / path.lstrip("/") / ("fault-%d" % os.getpid())
                    own.mkdir()
                    (own / "cgroup.procs").write_text(str(os.getpid()))
                    self.groups.append(own)

    def leave(self):
        for own in self.groups:
            (own.parent / "cgroup.procs").write_text(str(os.getpid()))
            wait_until(lambda: not (own / "cgroup.procs").read_text())
            for left in own.glob("brig-*"):
                left.rmdir()
            own.rmdir()

    def brig_groups(self):
        if self.groups:
            found = [str(d) for own in self.groups for d in own.glob("**/brig-*")]
            return [d for d in found if not self.is_free_slot(d)]
        return [d for d in self.all_groups() if d not in self.known]

    @staticmethod
    def reap():
        """Collects orphans that are dead; who is alive, with a name."""
        left = []
        while True:
            try:
                pid, _ = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return left
            if pid == 0:
                break
        for tid in os.listdir("/proc/self/task"):
            with open("/proc/self/task/%s/children" % tid) as f:
                for pid in f.read().split():
                    try:
                        with open("/proc/%s/comm" % pid) as c:
                            left.append((int(pid), c.read().strip()))
                    except OSError:
                        pass
        return left

    def members(self):
        """Processes in our groups besides ourselves (a second way to see orphans)."""
        found = set()
        for own in self.groups:
            for f in own.glob("**/cgroup.procs"):
                try:
                    found.update(int(p) for p in f.read_text().split())
                except OSError:
                    pass
        return found - {os.getpid()}

    def assert_empty(self, seconds=3.0):
        """No process and no group within this time.  What is found is removed,
        so that only one test fails for it."""
        wait_until(lambda: not self.reap(), seconds)
        orphans = self.reap()
        for pid, _ in orphans:
            os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not self.reap(), 1)
        wait_until(lambda: not self.members() and not self.brig_groups(), 1)
        members, groups = self.members(), self.brig_groups()
        for g in groups if self.groups else []:
            os.rmdir(g)
        assert not orphans, "orphans: %s" % orphans
        assert not members, "processes in our groups: %s" % members
        assert not groups, "control groups: %s" % groups


def stayed_in_tmp(before):
    """Private directories that are new since `before` and stay.  Somebody else's, of a run beside this one, goes in
    time; ours would not."""
    def new():
        return [x for x in set(os.listdir("/tmp")) - before if x.startswith("brig-01")]

    wait_until(lambda: not new(), 40)
    return new()


def mounts():
    return sorted(Path("/proc/self/mountinfo").read_text().splitlines())


# -- one run that tests containment itself ------------------------------------

# Leaves `marker` when it ran, and a word in `violations` for each thing that
# worked and must not.
SCENE = """
: > marker
no() { echo "$1" >> violations; }
(echo evil > .envrc) 2>/dev/null && no envrc
(echo evil >> .git/config) 2>/dev/null && no gitconfig
(echo evil > .git/hooks/pre-commit) 2>/dev/null && no hook
(echo evil > "$RO/file") 2>/dev/null && no ro
(echo evil > "$RO/new") 2>/dev/null && no ro-new
[ -n "$(ls -A "$RO/masked" 2>/dev/null)" ] && no mask
(: > /usr/brig-was-here) 2>/dev/null && no usr
(: > /brig-was-here) 2>/dev/null && no root
[ -e "$SECRET" ] && no secret
(echo fine > "$RW/out") 2>/dev/null || no rw-not-writable
echo evil > .bashrc
exit 0
"""


# For the backends that make no mounts: Landlock does not hide that a file is there.
TREE_SCENE = SCENE.replace('[ -e "$SECRET" ]', '(cat "$SECRET" >/dev/null) 2>/dev/null')
TREE_BASE = {"net", "caps", "no_new_privs", "seccomp"}


# The same with an allow-list.  That a name is asked for starts the egress process;
# whatever fails there or on the way, nothing may be reached that is not on the list.
NET_SCENE = """
no() { echo "$1" >> violations; }
bash -c "exec 3<>/dev/tcp/127.0.0.1/$TRAP" 2>/dev/null && no host-loopback
bash -c "exec 3<>/dev/tcp/192.0.2.99/80" 2>/dev/null && no other-address
tail -n +3 /proc/net/dev | grep -qv '^ *lo:' && no interface
grep -qv '^Iface' /proc/net/route && no route
timeout 1 getent hosts denied.invalid >/dev/null && no name
""" + SCENE


class Scene:
    """A workspace with protected files, a read-only, a masked and a writable tree.  Plain: with nothing in it
    that brig would have to cover, so that the mounts need no lock and the command's process is made early."""

    def __init__(self, w, name, extra=(), text=SCENE, plain=False):
        self.who, self.plain = w, plain
        self.dir = w.mkdir(w.base / name)
        self.ws = w.mkdir(self.dir / "ws")
        if not plain:
            w.write(self.ws / ".envrc", "mine\n")
            w.write(self.ws / ".git/config", "[core]\n")
            w.write(self.ws / ".git/HEAD", "ref: refs/heads/main\n")
            w.mkdir(self.ws / ".git/hooks")
            w.mkdir(self.ws / ".git/objects")
            w.mkdir(self.ws / ".git/refs")
        self.ro, self.rw = w.mkdir(self.dir / "ro"), w.mkdir(self.dir / "rw")
        w.write(self.ro / "file", "fixed\n")
        w.write(self.ro / "masked/secret", "hidden\n")
        self.secret = w.write(self.dir / "secret", "hidden\n")
        script = "\n".join(x for x in text.splitlines() if "masked" not in x and ".envrc" not in x
                           and ".git" not in x) if plain else text
        self.args = ["run", "--workspace", self.ws, "--ro", self.ro, "--rw", self.rw,
                     *([] if plain else ["--mask", self.ro / "masked"]),
                     "--env", "RO=%s" % self.ro, "--env", "RW=%s" % self.rw, "--env", "SECRET=%s" % self.secret,
                     *extra, "--", "/bin/sh", "-c", script]

    def ran(self):
        return (self.ws / "marker").exists()

    def violations(self, js):
        """Everything that shows containment did not hold."""
        v = []
        if (self.ws / "violations").exists():
            v += (self.ws / "violations").read_text().split()
        mine = () if self.plain else ((self.ws / ".envrc", "mine\n"), (self.ws / ".git/config", "[core]\n"))
        for path, text in (*mine, (self.ro / "file", "fixed\n"), (self.ro / "masked/secret", "hidden\n")):
            if not path.exists() or path.read_text() != text:
                v.append("changed: %s" % path.relative_to(self.dir))
        if (self.ws / ".git/hooks/pre-commit").exists() or (self.ro / "new").exists():
            v.append("created")
        if os.path.lexists(self.ws / ".bashrc"):
            said = [d for d in (js or {}).get("denied", []) if "could not be" in d["rule"]]
            if not said:
                v.append(".bashrc stayed and nothing was said")
        return v

    def clear(self):
        shutil.rmtree(self.dir, ignore_errors=True)


class ManyScene(Scene):
    """One with so many trees of the caller's that two processes place them."""

    def __init__(self, w, name, plain):
        super().__init__(w, name, plain=plain)
        binds = []
        for i in range(12):
            d = w.mkdir(self.dir / ("more/%d" % i))
            w.write(d / "file", "fixed\n")
            binds += ["--ro", d]
        at = self.args.index("--")
        self.args[at:at] = binds
        self.args[-1] = "for d in %s/*; do (: > $d/new) 2>/dev/null && echo written >> violations; " \
                        "[ -s $d/file ] || echo absent >> violations; done\n%s" % (self.dir / "more", self.args[-1])

    def violations(self, js):
        made = [x for x in (self.dir / "more").glob("*/new")]
        return super().violations(js) + ["created: %s" % x for x in made]


class TreeScene(Scene):
    """One for the backends with a keeper, which refuse what belongs to root."""

    def __init__(self, w, name, backend, account, extra=()):
        super().__init__(w, name, ["--backend", backend, *extra], TREE_SCENE, plain=True)
        if w.is_root:
            for top, dirs, files in os.walk(self.dir):
                for x in [top] + [os.path.join(top, f) for f in dirs + files]:
                    os.lchown(x, *account)


class Outcome:
    """How one run of a scene ended."""

    def __init__(self, code, js, err, scene):
        self.code, self.json, self.err = code, js, err
        self.ran = scene.ran()
        self.violations = scene.violations(js)

    def __repr__(self):
        j = self.json or {}
        return "<exit %s, marker %s, json %s, missing %s, error %s, stderr %r, violations %s>" % (
            self.code, self.ran, j.get("ran"), j.get("missing"), j.get("error"), self.err[-300:], self.violations)

    def problems(self, required=FULL_BASE):
        """Empty when it was a whole, confined run or a refusal that ran nothing."""
        p = list(self.violations)
        if self.ran:
            if self.code != 0:
                p.append("the command ran, exit %s" % self.code)
            if not self.json:
                p.append("the command ran, no result object")
            elif not self.json["ran"]:
                p.append("the command ran, ran:false")
            elif not required <= set(self.json["enforced"]):
                p.append("ran without %s" % (required - set(self.json["enforced"])))
        else:
            if self.code not in (125, 126, 127, 2):
                p.append("nothing ran, exit %s" % self.code)
            if self.json and self.json["ran"]:
                p.append("nothing ran, ran:true")
        return p

    def complaints(self):
        """What is wrong with the words of a refusal: each names a cause and a fix."""
        if self.ran:
            return []
        if not self.json:
            return [] if self.err else ["not a word"]
        e = self.json["error"]
        if not self.json["ran"] and not (e and e["code"] and e["message"] and e["fix"]):
            return ["no fix: %s: %s" % (e["code"], e["message"]) if e else "no error"]
        return []


def run_scene(scene, prefix=(), timeout=20, opts=(), **kw):
    """The scene under brig under a prefix; the result object through a pipe."""
    r, w = os.pipe()
    args = [scene.args[0], "--status-fd", w, *opts, *scene.args[1:]]
    try:
        p = scene.who.popen([str(a) for a in (*prefix, support.BRIG, *args)], cwd=scene.ws,
                            pass_fds=(w, *kw.pop("pass_fds", ())), stdin=subprocess.DEVNULL,
                            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, **kw)
    except BaseException:
        os.close(r)
        os.close(w)
        raise
    os.close(w)
    try:
        _, err = p.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        p.kill()
        p.communicate()
        os.close(r)
        raise AssertionError("brig hangs: no end within %s s" % timeout)
    with os.fdopen(r) as f:
        text = f.read()
    return Outcome(p.returncode, json.loads(text) if text.strip() else None, err.decode("utf-8", "replace"), scene)
