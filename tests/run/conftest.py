# SPDX-License-Identifier: Apache-2.0
"""The run tests: the real binary, as root and as an ordinary user.

Every test that takes `who` runs twice.  As root the ordinary user is the
account `brigtest`, made when it is absent; started by an ordinary user, the
root half says SKIP.  BRIG and BRIG_PROBE name the two binaries, BRIG_TEST_ACCOUNT
another account: two runs at a time need two, as limits, signals and directories
of one user are shared by all of his processes.

Tests that need a container engine have the mark `engine`.
"""
import json
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

# whoever started the tests in the background (nohup, a shell's &): brig does not pass on what it ignores
for _s in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2):
    if signal.getsignal(_s) is signal.SIG_IGN:
        signal.signal(_s, signal.default_int_handler if _s == signal.SIGINT else signal.SIG_DFL)

REPO = Path(__file__).resolve().parents[2]
ACCOUNT = os.environ.get("BRIG_TEST_ACCOUNT", "brigtest")
IS_ROOT = os.geteuid() == 0
ESC = "\x1b"


def pytest_configure(config):
    # a skip nobody sees is a test nobody runs: -rs always
    if "s" not in config.option.reportchars:
        config.option.reportchars += "s"


def pytest_itemcollected(item):
    # whoever has an engine among his fixtures, directly or not
    if {"engine", "podman"} & set(item.fixturenames):
        item.add_marker("engine")


NOT_ROOT = "not root: only the ordinary user's half runs"


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    # one line for the whole root half in the summary, not one per test
    report = (yield).get_result()
    if report.skipped and isinstance(report.longrepr, tuple) and NOT_ROOT in report.longrepr[2]:
        report.longrepr = (__file__, 0, report.longrepr[2])


def pytest_report_header():
    return "brig: %s, probe: %s, root: %s" % (BRIG, PROBE, IS_ROOT)


def _first(env, *places):
    if os.environ.get(env):
        return Path(os.environ[env]).resolve()
    for p in places:
        if p.is_file():
            return p
    return places[0]


BRIG = _first("BRIG", REPO / "build/brig")
PROBE = _first("BRIG_PROBE", REPO / "build/probe", REPO / "build/tests/probe")


def pytest_sessionstart(session):
    for p in (BRIG, PROBE):
        if not os.access(p, os.X_OK):
            pytest.exit("%s is not there: build it, or name it with BRIG / BRIG_PROBE" % p, 4)


class Done:
    """What a finished brig left: code, out, err, and the result object."""

    def __init__(self, code, out, err, seconds, js=None):
        self.code, self.raw, self.seconds = code, out, seconds
        self.out = out.decode("utf-8", "replace")
        self.err = err.decode("utf-8", "replace")
        self.json = js

    def __repr__(self):
        return "<exit %s, %.2f s\n out %r\n err %r>" % (
            self.code, self.seconds, self.out[-1500:], self.err[-1500:])

    def refused(self, code, name, *words):
        """Exactly one line that says what, where and how to fix it."""
        assert self.code == code, self
        assert self.out == "" or self.out.startswith('{"v":1'), self
        lines = self.err.splitlines()
        assert len(lines) == 1, self
        assert lines[0].startswith("brig"), self
        assert ESC not in self.err and self.err.isprintable() or self.err[:-1].isprintable(), self
        if name:
            assert lines[0].startswith("brig: %s: " % name), self
        assert lines[0].endswith(")") and " (" in lines[0], "no fix in: %r" % lines[0]
        for w in words:
            assert str(w) in lines[0], (w, self)
        return self


class Who:
    """One of the two users, with a workspace and a home of its own."""

    def __init__(self, name, uid, gid, base):
        self.name, self.uid, self.gid, self.base = name, uid, gid, base
        self.is_root = uid == 0
        self.home = self.mkdir(base / "home")
        self.ws = self.mkdir(base / "ws")
        self.env = {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
                    "HOME": str(self.home), "LANG": "C.UTF-8", "TERM": "xterm"}
        self.marker = self.ws / "marker"
        self.ids = []

    # files that belong to this user
    def own(self, path):
        if IS_ROOT:
            os.lchown(path, self.uid, self.gid)
        return path

    def mkdir(self, path, mode=0o755):
        path = Path(path)
        made = []
        p = path
        while not p.exists():
            made.append(p)
            p = p.parent
        for p in reversed(made):
            p.mkdir()
            p.chmod(mode)
            self.own(p)
        return path

    def write(self, path, text="", mode=0o644):
        path = Path(path)
        self.mkdir(path.parent)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        path.chmod(mode)
        self.own(path)
        return path

    def symlink(self, path, target):
        os.symlink(target, path)
        return self.own(path)

    # processes of this user
    def as_user(self):
        if not IS_ROOT:
            return {}
        return {"user": self.uid, "group": self.gid, "extra_groups": []}

    def popen(self, argv, env=None, cwd=None, **kw):
        full = dict(self.env)
        full.update(env or {})
        return subprocess.Popen([os.fspath(a) for a in argv], env=full,
                                cwd=cwd or self.ws, **self.as_user(), **kw)

    def host(self, *argv, check=True, **kw):
        """A command of this user outside any sandbox."""
        full = dict(self.env)
        full.update(kw.pop("env", {}))
        p = subprocess.run([os.fspath(a) for a in argv], env=full, cwd=kw.pop("cwd", self.ws),
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                           timeout=60, **self.as_user(), **kw)
        assert not check or p.returncode == 0, p
        return p

    def brig(self, *args, input=b"", env=None, cwd=None, timeout=60, pass_fds=(),
             stdin=None, **kw):
        """brig with exactly these arguments."""
        start = time.monotonic()
        p = self.popen([BRIG, *args], env, cwd, stdin=stdin or subprocess.PIPE,
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                       pass_fds=pass_fds, **kw)
        try:
            out, err = p.communicate(None if stdin else input, timeout)
        except subprocess.TimeoutExpired:
            p.kill()
            p.communicate()
            raise
        took = time.monotonic() - start
        js = None
        if out.startswith(b'{"v":1'):
            js = json.loads(out)
            if "id" in js:
                self.ids.append(js["id"])
        return Done(p.returncode, out, err, took, js)

    def run(self, *cmd, opts=(), **kw):
        """brig run --json -- CMD in this user's workspace."""
        return self.brig("run", "--json", "--workspace", self.ws, *opts, "--", *cmd, **kw)

    def sh(self, text, opts=(), **kw):
        """The same for shell text; returns the result object's stdout."""
        return self.run("/bin/sh", "-c", text, opts=opts, **kw)

    def ok(self, text, opts=(), **kw):
        """Shell text that must succeed; its standard output."""
        r = self.sh(text, opts, **kw)
        assert r.code == 0, (r.json or {}).get("stderr", r)
        return r.json["stdout"]

    def probe(self, *args, opts=(), **kw):
        """One check of the probe inside; must say that containment held."""
        r = self.run("/opt/probe", *args, opts=("--ro", "%s:/opt/probe" % self.probe_file, *opts), **kw)
        assert r.json and r.json["ran"], r
        assert r.code == 0 and r.json["stdout"].startswith("held: "), r.json
        return r

    def ran_marker(self):
        """A command that leaves a trace if it ever runs."""
        return ["sh", "-c", "echo the-command-ran; : > %s" % self.marker]


def descendants(pid):
    """All below a process, each before its own."""
    out = []
    try:
        for task in os.listdir("/proc/%d/task" % pid):
            with open("/proc/%d/task/%s/children" % (pid, task)) as f:
                for child in f.read().split():
                    out += [int(child), *descendants(int(child))]
    except (FileNotFoundError, ProcessLookupError):
        pass  # it ended meanwhile: some do nothing but hold a namespace
    return out


def survivors(needle):
    """Processes anywhere with this text in their environment or arguments."""
    found = []
    needle = needle.encode()
    for pid in os.listdir("/proc"):
        if not pid.isdigit() or int(pid) == os.getpid():
            continue
        try:
            with open("/proc/%s/environ" % pid, "rb") as f:
                env = f.read()
            with open("/proc/%s/cmdline" % pid, "rb") as f:
                cmd = f.read()
        except OSError:
            continue
        if needle in env or needle in cmd:
            found.append((int(pid), cmd))
    return found


def holds(group, ident):
    """Is a process of this sandbox in there?"""
    try:
        with open(os.path.join(group, "cgroup.procs")) as f:
            pids = f.read().split()
    except OSError:
        return False
    for pid in pids:
        try:
            with open("/proc/%s/environ" % pid, "rb") as f:
                if ("BRIG_SANDBOX=" + ident).encode() in f.read():
                    return True
        except OSError:
            pass
    return False


def cgroup_dirs(ident):
    """Control groups of this sandbox: those that carry its id, and version 1 slots, which
    stay, as long as they hold one of its processes."""
    found = []
    for top, dirs, _files in os.walk("/sys/fs/cgroup"):
        paths = [os.path.join(top, d) for d in dirs]
        found += [p for p in paths if ident in p or ("/brig-slot" in p and holds(p, ident))]
    return found


def wait_until(true, seconds=3.0, step=0.02):
    """Polls; True as soon as the condition holds, else its last value."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if true():
            return True
        time.sleep(step)
    return true()


def pid_file(path, seconds=3.0):
    """A number some process writes into a file."""
    assert wait_until(lambda: path.exists() and path.read_text().strip(), seconds), path
    return int(path.read_text())


@pytest.fixture(scope="session")
def base():
    """A world-traversable directory; everything below is removed at the end."""
    d = Path(tempfile.mkdtemp(prefix="brig-run-", dir="/tmp"))
    d.chmod(0o755)
    shutil.copy(PROBE, d / "probe")
    (d / "probe").chmod(0o755)
    yield d
    subprocess.run(["chmod", "-R", "u+rwX", str(d)], stderr=subprocess.DEVNULL)
    subprocess.run(["rm", "-rf", str(d)])


@pytest.fixture(scope="session")
def account():
    if not IS_ROOT:
        me = pwd.getpwuid(os.geteuid())
        return me.pw_uid, me.pw_gid
    try:
        e = pwd.getpwnam(ACCOUNT)
    except KeyError:
        subprocess.run(["useradd", "--system", "--shell", "/bin/sh", ACCOUNT], check=True)
        e = pwd.getpwnam(ACCOUNT)
    return e.pw_uid, e.pw_gid


_count = [0]


def make_who(name, base, account):
    _count[0] += 1
    uid, gid = account if name == "user" else (0, 0)
    d = base / ("%s-%d" % (name, _count[0]))
    d.mkdir()
    d.chmod(0o755)
    if IS_ROOT:
        os.chown(d, uid, gid)
    w = Who(name, uid, gid, d)
    w.probe_file = base / "probe"
    return w


@pytest.fixture(params=["root", "user"])
def who(request, base, account):
    if request.param == "root" and not IS_ROOT:
        pytest.skip(NOT_ROOT)
    w = make_who(request.param, base, account)
    yield w
    # whatever the test was about: nothing stays
    for ident in w.ids:
        assert wait_until(lambda: not survivors("BRIG_SANDBOX=" + ident)), survivors(ident)
        assert not cgroup_dirs(ident)
    assert wait_until(lambda: not survivors(str(w.base))), survivors(str(w.base))
    if not os.environ.get("BRIG_KEEP"):
        subprocess.run(["chmod", "-R", "u+rwX", str(w.base)], stderr=subprocess.DEVNULL)
        subprocess.run(["rm", "-rf", str(w.base)])


@pytest.fixture
def user(base, account):
    """Only the ordinary user."""
    return make_who("user", base, account)


def in_tmp(prefix, uid):
    """Names in /tmp that begin so and belong to this user: others may run brig meanwhile."""
    found = set()
    for e in os.scandir("/tmp"):
        try:
            if e.name.startswith(prefix) and e.stat(follow_symlinks=False).st_uid == uid:
                found.add(e.name)
        except FileNotFoundError:
            pass
    return found


def need(*programs):
    """SKIP with a reason when the host lacks a program."""
    for p in programs:
        if not shutil.which(p, path="/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/go/bin"):
            pytest.skip("%s is not installed on this host" % p)


@pytest.fixture(scope="session")
def engine(account):
    """A Docker engine of the tests' own, with an image of busybox."""
    import docker_engine  # here: other folders load this file by its path
    if not IS_ROOT:
        pytest.skip("not root: a Docker engine cannot be started")
    path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    for program in ("dockerd", "docker", "busybox"):
        if not shutil.which(program, path=path):
            pytest.skip("%s is not installed on this host" % program)
    e = docker_engine.Engine()
    why = e.start()
    if why:
        e.stop()
        pytest.skip(why)
    e.docker("import", "-", docker_engine.IMAGE, input=docker_engine.image_tar())
    yield e
    e.stop()
    docker_engine.forget_pool(account[0])
