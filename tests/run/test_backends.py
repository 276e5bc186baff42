# SPDX-License-Identifier: Apache-2.0
"""The same containment checks for every backend, and what is special to each."""
import json
import os
import pty
import secrets
import shutil
import signal
import stat
import subprocess
import time

import pytest

import containment
from conftest import ACCOUNT, BRIG, IS_ROOT, REPO, cgroup_dirs, in_tmp, make_who, survivors, wait_until

CASES = [pytest.param(b, c, id="%s-%s" % (b, c[0]),
                      marks=[pytest.mark.engine] if isinstance(how, containment.Container) else [])
         for b, how in containment.BACKENDS.items() for c in containment.CHECKS]


def box_of(backend, base, account):
    b = containment.BACKENDS[backend]
    why = b.absent()
    if why:
        pytest.skip("%s: %s" % (backend, why))
    if b.shell:
        if not IS_ROOT:
            pytest.skip("%s: needs root to run as an account with a shell" % backend)
        account = containment.login_account(ACCOUNT)
    w = make_who("user", base, account)
    w.brig_path = BRIG
    return containment.Box(w, backend)


@pytest.mark.parametrize("backend,case", CASES)
def test_containment(backend, case, base, account):
    name, _group, _what, fn = case
    box = box_of(backend, base, account)
    word, detail = containment.verdict(name, backend, fn, box)
    assert word != containment.FAILED, "%s: %s" % (name, detail)
    if detail == containment.NO_GROUP:
        pytest.skip("not root: %s" % detail)  # the table is about what root's brig does then
    # the published table says the same
    told = containment.published(REPO / "docs/containment.md").get((name, backend))
    assert told == word, "docs/containment.md says %r, it is %r: run tools/containment.py" % (told, word)


def test_nothing_is_admitted_that_holds():
    told = containment.published(REPO / "docs/containment.md")
    for key in containment.BY_DESIGN:
        assert told.get(key) == containment.MISSING, key
    assert containment.FAILED not in told.values()


BACKENDS = ["landlock", "bwrap", "none", "wrapper"]
OPTS = {"landlock": ["--backend", "landlock"], "bwrap": ["--backend", "bwrap"],
        "none": ["--backend", "none"],
        # exec: a shell around the command would take its signals for itself
        "wrapper": ["--backend", "wrapper", "--wrapper", "exec env {command}"]}


def need_backend(name):
    if name == "bwrap" and containment.BACKENDS["bwrap"].absent():
        pytest.skip(containment.BACKENDS["bwrap"].absent())


@pytest.fixture(params=BACKENDS)
def backend(request):
    need_backend(request.param)
    return request.param


@pytest.fixture(params=["root", "user"])
def caller(request, base, account):
    """Root with an ordinary user's workspace, and that user."""
    if request.param == "root" and not IS_ROOT:
        pytest.skip("not root: only the ordinary user's half runs")
    w = make_who("user", base, account)
    if request.param == "root":
        w.as_user = lambda: {}
        w.env["XDG_STATE_HOME"] = str(w.home)
    w.is_root = request.param == "root"
    yield w
    for ident in w.ids:
        assert wait_until(lambda: not survivors("BRIG_SANDBOX=" + ident)), survivors(ident)
    # brig itself and its keeper: their arguments name the workspace
    assert wait_until(lambda: not survivors(str(w.base))), survivors(str(w.base))
    assert not [x for x in os.listdir("/tmp") if any(i in x for i in w.ids)]


# -- the contract, whatever the backend ----------------------------------------

def test_exit_codes(caller, backend):
    o = OPTS[backend]
    assert caller.sh("exit 7", o).code == 7
    assert caller.sh("exit 125", o).json["error"] is None
    r = caller.sh("kill -SEGV $$", o)
    assert r.code == 128 + signal.SIGSEGV
    if backend in ("landlock", "none", "bwrap"):
        assert r.json["signal"] == signal.SIGSEGV and r.json["exit"] is None
    assert caller.sh("sleep 9", [*o, "--timeout", "0.2"]).code == 124


def test_not_found_and_not_executable(caller, backend):
    if backend == "wrapper":
        pytest.skip("the wrapper's own exit code stands for the command's")
    o = OPTS[backend]
    r = caller.run("no-such-program", opts=o)
    assert r.code == 127 and r.json["error"]["code"] == "NOT_FOUND" and not r.json["ran"]
    caller.write(caller.ws / "data", "x", 0o644)
    r = caller.run("./data", opts=o)
    assert r.code == 126 and r.json["error"]["code"] == "EXEC_FAILED"
    caller.write(caller.ws / "script", "echo script $1\n", 0o755)
    assert caller.run("./script", "word", opts=o).json["stdout"] == "script word\n"


def test_streams_and_stdin(caller, backend):
    r = caller.run("sh", "-c", "cat; echo err >&2", opts=OPTS[backend], input=b"in\n")
    assert (r.json["stdout"], r.json["stderr"]) == ("in\n", "err\n")
    p = caller.brig("run", "--workspace", caller.ws, *OPTS[backend], "--", "sh", "-c",
                    "cat; echo err >&2", input=b"through\n")
    err = p.err.replace("\r", "")
    if backend == "none":  # said aloud, every time
        first, err = err.split("\n", 1)
        assert first.startswith("brig: warning: mode none")
    assert (p.out, err) == ("through\n", "err\n")


def test_argv_and_env_arrive_as_they_are(caller, backend):
    odd = ["a'b\"c", "$(id)", "`id`", "{cwd}", "", " ", "new\nline", "\\", "-x", "*"]
    r = caller.run("/usr/bin/python3", "-c", "import sys; sys.stdout.write('\\0'.join(sys.argv[1:]))",
                   *odd, opts=OPTS[backend])
    assert r.json["stdout"].split("\0") == odd
    r = caller.sh("printf '%s' \"$ODD\"", [*OPTS[backend], "--env", "ODD=a=b\n'\"$x"])
    assert r.json["stdout"] == "a=b\n'\"$x"


def test_cwd(caller, backend):
    caller.mkdir(caller.ws / "sub dir")
    r = caller.sh("pwd", [*OPTS[backend], "--cwd", "sub dir"])
    assert r.json["stdout"] == "%s/sub dir\n" % caller.ws


def test_pty(caller, backend):
    """A terminal of its own; what is typed reaches the command alone."""
    o = OPTS[backend]
    master, slave = pty.openpty()
    p = caller.popen([BRIG, "run", "--pty", "--workspace", caller.ws, *o, "--", "sh", "-c",
                      "trap 'echo int; exit 3' INT; test -t 0 && echo a-tty; "
                      "while :; do sleep 0.05; done"],
                     stdin=slave, stdout=slave, stderr=slave, start_new_session=True)
    os.close(slave)
    seen = b""
    end = time.monotonic() + 10
    sent = False
    while time.monotonic() < end and p.poll() is None:
        try:
            seen += os.read(master, 1000)
        except OSError:
            break
        if b"a-tty" in seen and not sent:
            os.write(master, b"\x03")
            sent = True
        if b"int\r\n" in seen:
            break
    assert p.wait(5) == 3, seen
    os.close(master)


def test_signals_are_forwarded(caller, backend):
    p = caller.popen([BRIG, "run", "--workspace", caller.ws, *OPTS[backend], "--", "sh", "-c",
                      "trap 'echo got; exit 9' TERM; echo ready; while :; do sleep 0.05; done"],
                     stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
    assert p.stdout.readline() == b"ready\n"
    p.terminate()
    out = p.stdout.read()
    assert p.wait(5) == 9 and out == b"got\n"
    p.stdout.close()


def test_setup_failure_is_not_the_commands(caller, backend):
    """A working directory that is gone at run time: 125, and nothing ran."""
    r = caller.run(*caller.ran_marker(), opts=[*OPTS[backend], "--cwd", "nowhere"])
    assert r.code == 125 and not caller.marker.exists()


def test_required_layers_are_not_dropped_silently(caller, backend):
    r = caller.run(*caller.ran_marker(), opts=[*OPTS[backend], "--require", "landlock,pid"])
    assert r.code == 125 and r.json["error"]["code"] in ("REQUIRE_UNMET", "LANDLOCK_UNAVAILABLE")
    assert not r.json["ran"] and not caller.marker.exists()


def test_evidence_supports_what_is_claimed(caller, backend):
    j = caller.sh(":", OPTS[backend]).json
    assert j["backend"] == backend
    assert not set(j["enforced"]) & set(j["missing"])
    assert {"user", "mount", "pid", "net", "ipc", "uts", "cgroup", "caps", "no_new_privs",
            "seccomp", "landlock"} <= set(j["enforced"]) | set(j["missing"])
    if backend in ("none", "wrapper"):
        assert set(j["enforced"]) <= {"memory", "pids", "cpu"}
    else:
        assert j["evidence"]["uid_outside"] == caller.uid
        assert j["evidence"]["seccomp"] == 2 and j["evidence"]["no_new_privs"] == 1


# -- refused system calls: told by the kernel, counted exactly -------------------

TELLS = ["landlock", "bwrap"]


def refused(j):
    assert all(d["rule"] and d["fix"] for d in j["denied"])
    return {d["target"]: d["count"] for d in j["denied"] if d["kind"] == "syscall"}


@pytest.mark.parametrize("name", TELLS)
def test_refused_calls_are_listed(caller, name):
    need_backend(name)
    o = OPTS[name]
    r = caller.sh("unshare -r true; unshare -r true; unshare -m true; echo end", o)
    assert r.json["stdout"] == "end\n" and r.json["stderr"].count("Operation not permitted") == 3
    assert refused(r.json) == {"unshare": 3}
    # x86_64: 165 mount, 250 keyctl, 321 bpf, 302 prlimit64 of pid 1; 323 userfaultfd and 435
    # clone3 are refused without a word, as programs fall back from them
    r = caller.run("perl", "-e", "for (1..700) { syscall(165, 0, 0, 0, 0, 0) == -1 && $!{EPERM} or exit 9 } "
                   "syscall(250, 0, -3, 0); syscall(321, 0, 0, 0); syscall(321, 0, 0, 0); "
                   "syscall(302, 1, 7, 0, 0) == -1 && $!{EPERM} or exit 7; syscall(323, 0); "
                   "syscall(435, 0, 0); print 'x'", opts=o)
    assert r.json["stdout"] == "x", r.json
    assert refused(r.json) == {"mount": 700, "keyctl": 1, "bpf": 2, "prlimit64": 1}


@pytest.mark.parametrize("name", TELLS)
def test_refused_calls_of_those_who_die(caller, name):
    """Processes that are killed while they wait for the answer, by themselves and by the end."""
    need_backend(name)
    r = caller.run("perl", "-e", "for (1..60) { my $p = fork; if (!$p) { syscall(165,0,0,0,0,0) for 1..5; "
                   "kill 9, $$ } } 1 while wait > 0; print 'end'", opts=OPTS[name])
    assert r.code == 0 and r.json["stdout"] == "end" and refused(r.json) == {"mount": 300}
    r = caller.run("perl", "-e", "for (1..8) { if (!fork) { syscall(165,0,0,0,0,0) while 1 } } sleep 9",
                   opts=[*OPTS[name], "--timeout", "0.3"])
    assert r.code == 124 and r.seconds < 6 and refused(r.json)["mount"] > 8


@pytest.mark.parametrize("name", TELLS)
def test_ordinary_work_is_not_refused(caller, name):
    need_backend(name)
    r = caller.sh("ls -l /usr/bin > list; sort list | wc -l; cp list copy; mv copy c2; git init -q . && ls", OPTS[name])
    assert r.code == 0 and r.json["denied"] == [], (r, r.json["denied"])


OUTER = """
import ctypes, os, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
code = ctypes.create_string_buffer(struct.pack("HBBI", 6, 0, 0, 0x7fff0000))  # allow
prog = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", 1, ctypes.addressof(code)))
assert libc.prctl(38, 1, 0, 0, 0) == 0
fd = libc.syscall(317, 1, 8, prog)  # with a listener
assert fd >= 0, ctypes.get_errno()
if os.fork() == 0:
    os.execv(sys.argv[1], sys.argv[1:])
os.wait()  # and whoever listens lives
"""


def test_refused_inside_somebody_elses_supervisor(user):
    """A process may have one supervisor of its calls: where a container manager is it, the
    verdicts are the same, and nobody is told of them."""
    p = subprocess.run(["/usr/bin/python3", "-c", OUTER, BRIG, "run", "--json", "--workspace", user.ws, *LL,
                        "--", "sh", "-c", "unshare -r true; echo end"], capture_output=True,
                       env=user.env, cwd=user.ws, **user.as_user())
    j = json.loads(p.stdout)
    assert j["stdout"] == "end\n" and "not permitted" in j["stderr"] and j["denied"] == []
    assert {"seccomp", "net", "landlock"} <= set(j["enforced"])


def test_directory_as_stdin_is_refused(caller, backend):
    fd = os.open("/", os.O_RDONLY)
    try:
        r = caller.run("true", opts=OPTS[backend], stdin=fd)
    finally:
        os.close(fd)
    assert r.code == 125 and r.json["error"]["code"] == "BAD_FD"


def test_many_survivors(caller, backend):
    """A crowd that forks on while it is being ended."""
    m = "6%d.%d" % (secrets.randbelow(899) + 100, secrets.randbelow(899999))
    r = caller.sh("for i in 1 2 3 4 5 6 7 8; do (setsid sh -c 'trap \"\" TERM; "
                  "while :; do (sleep %s &) ; sleep 0.02; done' >/dev/null 2>&1 &); done; sleep 0.5" % m,
                  OPTS[backend])
    assert r.code == 0
    assert wait_until(lambda: not survivors(m), 5), survivors(m)


def test_keeper_killed(user):
    """The second lock: when the keeper dies, its tree falls to brig, which ends it."""
    m = "5%d.%d" % (secrets.randbelow(899) + 100, secrets.randbelow(899999))
    p = user.popen([BRIG, "run", "--workspace", user.ws, "--backend", "landlock", "--", "sh", "-c",
                    "(setsid sleep %s &); sleep %s" % (m, m)], stdin=subprocess.DEVNULL)
    # released and started: before that all of them have brig's own arguments
    assert wait_until(lambda: len(survivors("sleep\0" + m)) == 2, 5)
    with open("/proc/%d/task/%d/children" % (p.pid, p.pid)) as f:
        keeper = int(f.read().split()[0])
    os.kill(keeper, signal.SIGKILL)
    assert p.wait(10) == 128 + signal.SIGKILL
    assert wait_until(lambda: not survivors(m), 5), survivors(m)


def test_killed_again_and_again(user, backend):
    """SIGKILL of brig at any instant leaves no process and no directory."""
    before = in_tmp("brig-01", user.uid)
    for i in range(30):
        m = "4%d.%d" % (i + 100, secrets.randbelow(899999))
        p = user.popen([BRIG, "run", "--workspace", user.ws, *OPTS[backend], "--", "sh", "-c",
                        "(setsid sleep %s &); touch $TMPDIR/x; sleep %s" % (m, m)],
                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(secrets.randbelow(40 if backend != "bwrap" else 150) / 10000)
        p.kill()
        p.wait()
        assert wait_until(lambda: not survivors(m), 5), survivors(m)
    assert wait_until(lambda: in_tmp("brig-01", user.uid) <= before), in_tmp("brig-01", user.uid) - before


@pytest.mark.parametrize("backend", ["landlock", "bwrap"])
def test_memory_too_small_to_start(caller, backend):
    """The kernel kills all that share the victim's memory: that must never be brig."""
    need_backend(backend)
    r = caller.run("/bin/true", *["x" * 100_000] * 12, opts=[*OPTS[backend], "--memory", "1M"])
    if r.code == 125 and r.json["error"]["code"] == "LIMIT_UNENFORCEABLE":
        pytest.skip("no memory limit to be had: " + r.json["error"]["message"])
    # Brig lives to tell: the command died of it.  Or, born in a version 2 group, bubblewrap
    # before there was one; a group of version 1 is entered by the command alone.
    alone = backend == "landlock" or not os.path.exists("/sys/fs/cgroup/cgroup.controllers")
    assert r.code == (137 if alone else 125), r
    assert r.json["oom"] if alone else not r.json["ran"], r.json


# A keeper that has brig's memory; one that is a copy of it, with another C library or on
# an older kernel; and where clone3() is refused, as container managers do.
HOW = ["same", "copied", "old", "no clone3"]


@pytest.fixture(params=HOW)
def variant(request, caller):
    other = BRIG.parent / "brig-docker"
    if request.param == "copied":
        if not other.exists():
            pytest.skip("brig-docker is not built")
        caller.prefix = [other]
    elif request.param == "old":
        if not shutil.which("setarch"):
            pytest.skip("setarch is not installed")
        caller.prefix = ["setarch", "--uname-2.6", BRIG]
    elif request.param == "no clone3":
        caller.prefix = [BRIG.parent / "tests/deny", "clone3=ENOSYS", "--", BRIG]
    else:
        caller.prefix = [BRIG]
    return caller


def file_text(path):
    try:
        with open(path) as f:
            return f.read()
    except OSError:
        return ""  # it ended just now


@pytest.mark.parametrize("backend", ["landlock", "bwrap"])
def test_every_kind_of_keeper(variant, backend):
    """Status, output, layers, and nothing left: at the end, at the deadline, after SIGKILL."""
    need_backend(backend)
    w = variant

    def run(*args, kill=None):
        p = w.popen([*w.prefix, "run", "--json", "--workspace", w.ws, *OPTS[backend], *args], stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        if kill:
            assert wait_until(kill, 5)
            p.kill()
        return p.communicate(timeout=30)[0], p.returncode

    before = set(os.listdir("/tmp"))
    out, code = run("--", "sh", "-c", "echo hi; touch $TMPDIR/x; exit 7")
    j = json.loads(out)
    assert (code, j["exit"], j["stdout"]) == (7, 7, "hi\n"), j
    assert {"caps", "no_new_privs", "seccomp", "net"} <= set(j["enforced"])
    # whoever enters the groups does
    limits = {"memory", "cpu"}
    assert limits & set(j["enforced"]) == limits & set(w.run("/bin/true").json["enforced"]), j
    assert cgroup_dirs(j["id"]) == []
    m = "7%d.%d" % (secrets.randbelow(899) + 100, secrets.randbelow(899999))
    crowd = "(setsid sleep %s >/dev/null 2>&1 &); touch $TMPDIR/x; sleep %s" % (m, m)
    out, code = run("--timeout", "0.4", "--", "sh", "-c", crowd)
    assert code == 124 and json.loads(out)["timed_out"]
    assert not survivors(m), survivors(m)
    groups = set()

    def crowded():
        found = survivors("sleep\0" + m)
        for pid, _ in found:
            groups.update(x for x in file_text("/proc/%d/cgroup" % pid).replace("\n", "/").split("/")
                          if x.startswith("brig-01"))
        return len(found) == 2

    run("--", "sh", "-c", crowd, kill=crowded)
    assert wait_until(lambda: not survivors(m), 5), survivors(m)
    assert bool(groups) == bool(limits & set(j["enforced"]))
    assert wait_until(lambda: not [x for x in groups if cgroup_dirs(x)], 20)
    out, code = run("--", "/nonexistent")
    assert code == 127 and json.loads(out)["error"]["code"] == "NOT_FOUND"
    assert wait_until(lambda: not [x for x in set(os.listdir("/tmp")) - before if x.startswith("brig-01")])


@pytest.mark.parametrize("profile", [False, True], ids=["own filter", "caller's profile"])
def test_bwrap_groups_are_the_commands(caller, profile):
    """Made while bubblewrap is at work, and entered by the gate; not when somebody else's
    filter, which is loaded before it, may be in its way: then bubblewrap is in there as well."""
    need_backend("bwrap")
    opts = [*OPTS["bwrap"]]
    if profile:
        file = caller.ws.parent / "p.json"
        file.write_text(json.dumps({"defaultAction": "SCMP_ACT_ALLOW"}))
        opts += ["--seccomp", file]
    r = caller.run("cat", "/proc/self/cgroup", opts=[*opts, "--memory", "64M"])
    if r.code == 125 and r.json["error"]["code"] == "LIMIT_UNENFORCEABLE":
        pytest.skip("no memory limit to be had: " + r.json["error"]["message"])
    if os.path.exists("/sys/fs/cgroup/cgroup.controllers"):
        pytest.skip("version 2: bubblewrap is born in the group")
    j = r.json
    lines = dict(line.split(":", 2)[1:] for line in j["stdout"].split())
    # as seen in a namespace that bubblewrap has made: from where that was
    assert lines["memory"] == ("/" if profile else "/brig-" + j["id"]), lines
    assert "memory" in j["enforced"] and cgroup_dirs(j["id"]) == []


@pytest.mark.parametrize("backend", ["landlock", "bwrap"])
def test_plan_refused_beside_the_command(caller, backend):
    """The command's process is there already when the plan turns out to be impossible."""
    need_backend(backend)
    more, code = {"landlock": (["--tmp-size", "1M"], "UNSUPPORTED"),
                  "bwrap": (["--mask", str(caller.ws / "nothing")], "BAD_MOUNT")}[backend]
    before = in_tmp("brig-01", caller.uid)
    for _ in range(10):
        r = caller.run("/bin/sh", "-c", ": > ran", opts=[*OPTS[backend], *more])
        assert r.code == 125 and r.json["error"]["code"] == code and not r.json["ran"], r
    assert not (caller.ws / "ran").exists()
    assert wait_until(lambda: in_tmp("brig-01", caller.uid) <= before), in_tmp("brig-01", caller.uid) - before


REAPER = """
import ctypes, os, subprocess, sys
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # orphans come to us, as to pid 1 of a container
left = 0
for _ in range(30):
    subprocess.run(sys.argv[1:], stdin=subprocess.DEVNULL, check=True)
    try:
        while True:
            os.waitpid(-1, 0)
            left += 1
    except ChildProcessError:
        pass
print(left)
"""


@pytest.mark.parametrize("backend", ["native", "landlock", "bwrap"])
def test_deadline_of_one_who_takes_his_own_output(caller, backend):
    """What poll() saw is gone by the time it is read: the supervisor must not wait for more."""
    need_backend(backend)
    p = caller.popen([BRIG, "run", "--json", "--workspace", caller.ws, "--backend", backend, "--timeout", "2",
                      "--ro", caller.probe_file, "--", caller.probe_file, "steal-output"],
                     stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    try:
        out, _ = p.communicate(timeout=15)
    finally:
        p.kill()
    assert p.returncode == 124 and json.loads(out)["timed_out"], out


@pytest.mark.parametrize("backend", ["native", *BACKENDS])
def test_nobody_is_left_to_be_reaped(caller, backend):
    """Pid 1 of a container is mostly a program that does not expect children."""
    if backend != "native":
        need_backend(backend)
    opts = ["--backend", "native"] if backend == "native" else OPTS[backend]
    out = caller.host("/usr/bin/python3", "-c", REAPER, BRIG, "run", "--workspace", caller.ws, *opts, "--",
                      "/bin/true").stdout
    assert int(out) == 0


def test_the_cause_is_what_failed(user):
    """A step of the command's process fails, and it is gone when the supervisor looks at it:
    what it said is the cause, not that it is gone."""
    if not shutil.which("strace"):
        pytest.skip("strace is not installed")
    p = subprocess.run(["strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=landlock_restrict_self,pidfd_open", "-e",
                        "inject=landlock_restrict_self:error=EPERM", "-e", "inject=pidfd_open:delay_enter=300000", BRIG,
                        "run", "--workspace", user.ws, *LL, "--", "/bin/true"], env=user.env, stdin=subprocess.DEVNULL,
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, **user.as_user())
    assert p.returncode == 125, p
    assert p.stderr.startswith(b"brig: LANDLOCK_UNAVAILABLE: restricting the command"), p.stderr


def root_in_a_users_workspace(base, account):
    if not IS_ROOT:
        pytest.skip("not root")
    if not shutil.which("strace"):
        pytest.skip("strace is not installed")
    w = make_who("user", base, account)
    w.as_user = lambda: {}
    return w


def test_what_the_caller_left_open_is_not_the_owners(base, account):
    """Root's descriptors, in the process that has taken the workspace owner's id and waits
    for its release."""
    w = root_in_a_users_workspace(base, account)
    secret = os.open("/etc/shadow", os.O_RDONLY)
    # the release is held back; the process that waits for it is the keeper's child
    p = subprocess.Popen(["strace", "-qq", "-o", "/dev/null", "-e", "trace=sendto", "-e",
                          "inject=sendto:delay_enter=3000000:when=1", BRIG, "run", "--workspace", w.ws, *LL, "--",
                          "/bin/true"], env=w.env, pass_fds=[secret], stdin=subprocess.DEVNULL)

    def waiting():
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open("/proc/%s/status" % pid) as f:
                    text = f.read()
                if "Seccomp:\t2" in text and "Uid:\t%d\t" % account[0] in text and in_tree_of(int(pid), p.pid):
                    return pid
            except OSError:
                continue
        return None

    def in_tree_of(pid, top):
        while pid > 1 and pid != top:
            with open("/proc/%d/stat" % pid) as f:
                pid = int(f.read().rsplit(")", 1)[1].split()[1])
        return pid == top

    try:
        assert wait_until(lambda: waiting() is not None, 10)
        pid = waiting()
        held = [os.readlink("/proc/%s/fd/%s" % (pid, n)) for n in os.listdir("/proc/%s/fd" % pid)]
        assert p.wait(20) == 0
    finally:
        p.kill()
        p.wait()
        os.close(secret)
    assert held and "/etc/shadow" not in held, held


def test_nobody_traces_roots_memory(base, account):
    """Before it executes, the command's process of root's brig shares memory with a root
    process: the user it has become must not be able to trace it.  /proc shows a process
    that may not be traced as root's."""
    if not IS_ROOT:
        pytest.skip("not root")
    w = make_who("user", base, account)
    look = ("import os, sys, time\n"
            "end, mine = time.time() + 2, sys.argv[1].encode()\n"
            "while time.time() < end:\n"
            "  for p in os.listdir('/proc'):\n"
            "    try:\n"
            "      if p.isdigit() and os.stat('/proc/%s/mem' % p).st_uid == os.getuid():\n"
            "        cmd = open('/proc/%s/cmdline' % p, 'rb').read().split(b'\\0')\n"
            "        if cmd[1:2] == [b'run'] and mine in cmd: sys.exit(1)\n"
            "    except OSError: pass\n")
    watcher = w.popen(["/usr/bin/python3", "-c", look, w.ws])
    w.as_user = lambda: {}
    while watcher.poll() is None:
        for b in ("landlock", "bwrap"):
            assert w.sh(":", OPTS[b]).code == 0
    assert watcher.wait() == 0


# -- landlock ------------------------------------------------------------------

LL = OPTS["landlock"]


def test_landlock_root_workspace_is_refused(base):
    if not IS_ROOT:
        pytest.skip("not root")
    w = make_who("root", base, (0, 0))
    for b in ("landlock", "bwrap"):
        r = w.run(*w.ran_marker(), opts=["--backend", b])
        assert r.code == 125 and r.json["error"]["code"] == "BAD_WORKSPACE"
        assert "chown" in r.json["error"]["fix"] and not w.marker.exists()


@pytest.mark.parametrize("opts,word", [
    (["--at", "/work"], "another place"), (["--ro", "/etc/hosts:/etc/other"], "another name"),
    (["--mask", "/usr/share"], "--mask"), (["--tmp-size", "1G"], "--tmp-size")])
def test_landlock_refuses_what_needs_mounts(user, opts, word):
    r = user.run(*user.ran_marker(), opts=[*LL, *opts])
    assert r.code == 125 and word in r.json["error"]["message"] and r.json["error"]["fix"]
    assert not user.marker.exists()


def test_landlock_read_only_inside_writable_is_refused(user):
    sub = user.mkdir(user.ws / "lib")
    r = user.run("true", opts=[*LL, "--ro", sub])
    assert r.code == 125 and r.json["error"]["code"] == "UNSUPPORTED"


def test_landlock_binds(user):
    shown, rw = user.base / "shown", user.mkdir(user.base / "rw")
    user.write(shown / "f", "text\n")
    r = user.sh("cat %s/f; echo x > %s/f; echo y > %s/g" % (shown, shown, rw),
                [*LL, "--ro", shown, "--rw", rw])
    assert r.json["stdout"] == "text\n" and (shown / "f").read_text() == "text\n"
    assert (rw / "g").read_text() == "y\n"


def test_landlock_private_directory(user):
    r = user.sh("cd $TMPDIR && echo $HOME $TMPDIR && stat -c %a . && mkdir -p a/b && chmod 000 a && "
                "mkfifo p && ln -s / l && : > \"$(printf 'n\\nl')\"", LL)
    home, tmp = r.json["stdout"].split()[:2]
    assert r.code == 0 and home == tmp and r.json["stdout"].split()[2] == "700"
    assert not os.path.exists(tmp), "removed, whatever was in it"
    assert user.sh("echo $HOME $TMPDIR", [*LL, "--env", "HOME=/x", "--env", "TMPDIR=/y"]
                   ).json["stdout"] == "/x /y\n"


def test_landlock_deep_tree_is_removed(user):
    # from the bottom up: Landlock looks at every level above what is made
    r = user.run("/usr/bin/python3", "-c", "import os\nos.chdir(os.environ['TMPDIR'])\nos.mkdir('d')\n"
                 "for i in range(20000):\n os.mkdir('n'); os.rename('d', 'n/d'); os.rename('n', 'd')\n"
                 "print('made')", opts=LL)
    assert r.json["stdout"] == "made\n" and not r.json["denied"]
    ident = r.json["id"]
    assert not os.path.exists("/tmp/brig-" + ident)


def test_landlock_no_socket_by_any_way(user):
    code = ("import socket\n"
            "for f in (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK):\n"
            "  for t in (socket.SOCK_STREAM, socket.SOCK_DGRAM):\n"
            "    try: socket.socket(f, t); print('made', f, t)\n"
            "    except OSError as e: assert e.errno == 97, e\n"
            "try: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM); print('dgram pair')\n"
            "except OSError: pass\n"
            "socket.socketpair()\nprint('ok')")
    assert user.run("/usr/bin/python3", "-c", code, opts=LL).json["stdout"] == "ok\n"


def test_landlock_with_the_hosts_network(user):
    r = user.run("/usr/bin/python3", "-c", "import socket\nsocket.socket()\n"
                 "try: socket.socket(socket.AF_UNIX); print('unix')\nexcept OSError: print('ok')",
                 opts=[*LL, "--net", "host"])
    assert r.json["stdout"] == "ok\n" and "net" in r.json["missing"]


def test_landlock_own_profile_keeps_the_floor(user):
    p = user.write(user.base / "open.json", json.dumps({"defaultAction": "SCMP_ACT_ALLOW"}))
    r = user.sh("touch f; chmod u+s f; stat -c %A f", [*LL, "--seccomp", p])
    assert r.json["ran"], r
    assert r.json["evidence"]["seccomp_filters"] >= 3 and "s" not in r.json["stdout"]
    assert "net" in r.json["enforced"]


def test_landlock_puts_protected_files_back(user):
    user.write(user.ws / ".envrc", "good\n", 0o640)
    user.write(user.ws / ".vscode/tasks.json", "{}\n")
    r = user.sh("echo evil > .envrc; echo evil > .vscode/new; chmod 000 .vscode", LL)
    assert (user.ws / ".envrc").read_text() == "good\n"
    assert stat.S_IMODE((user.ws / ".envrc").stat().st_mode) == 0o640
    assert os.listdir(user.ws / ".vscode") == ["tasks.json"]
    assert {d["target"] for d in r.json["denied"]} == {".envrc", ".vscode"}
    assert user.sh("cat .envrc", LL).json["denied"] == []


def test_landlock_asked_limit_without_group(user):
    r = user.run(*user.ran_marker(), opts=[*LL, "--memory", "100M"])
    if r.code == 0:
        assert "memory" in r.json["enforced"]
    else:
        assert r.code == 125 and r.json["error"]["code"] == "LIMIT_UNENFORCEABLE"
        assert not user.marker.exists()


def test_landlock_where_there_are_no_user_namespaces(user):
    """Root of a container without more namespaces: what this backend is for."""
    def inside(backend):
        script = ("echo 0 > /proc/sys/user/max_user_namespaces; exec %s run --json --workspace %s "
                  "--backend %s -- sh -c 'echo in > f; cat f /etc/shadow; grep Cap[PE] /proc/self/status; exit 4'"
                  % (BRIG, user.ws, backend))
        return subprocess.run(["unshare", "-Ur", "sh", "-c", script], capture_output=True,
                              env=user.env, cwd=user.ws, **user.as_user())
    if inside("native").returncode != 125:
        pytest.skip("user namespaces cannot be switched off here")
    r = inside("landlock")
    assert r.returncode == 4, r
    j = json.loads(r.stdout)
    assert j["stdout"].split() == ["in", "CapPrm:", "0" * 16, "CapEff:", "0" * 16]
    assert "landlock" in j["enforced"] and "caps" in j["enforced"]
    assert "user" in j["missing"] and j["evidence"]["cap_eff"] == "0"


# -- bwrap ---------------------------------------------------------------------

BW = OPTS["bwrap"]


def need_bwrap():
    if containment.BACKENDS["bwrap"].absent():
        pytest.skip(containment.BACKENDS["bwrap"].absent())


def test_bwrap_shows_the_same_tree_as_native(user):
    need_bwrap()
    shown = user.base / "shown"
    user.write(shown / "f", "x")
    opts = ["--ro", "%s:/opt/data" % shown, "--at", "/work"]
    text = "cd /; for d in / /etc /opt/data /work /var /home; do ls -1 $d; done; cat /etc/passwd /etc/hosts; id; hostname"
    a = user.sh(text, [*opts, "--backend", "native"]).json["stdout"]
    b = user.sh(text, [*opts, *BW]).json["stdout"]
    assert a == b


def test_bwrap_set_up_failure(user):
    need_bwrap()
    p = user.mkdir(user.base / "bin")
    user.write(p / "bwrap", "#!/bin/sh\necho bwrap: no permission to do that >&2\nexit 1\n", 0o755)
    r = user.run(*user.ran_marker(), opts=BW, env={"PATH": "%s:/usr/bin:/bin" % p})
    assert r.code == 125 and r.json["error"]["code"] == "SETUP_FAILED", r.json
    assert "no permission to do that" in r.json["error"]["message"] and not user.marker.exists()


def test_bwrap_that_lies(user):
    """A bubblewrap that runs the program without any sandbox: nothing is released."""
    need_bwrap()
    p = user.mkdir(user.base / "bin")
    user.write(p / "bwrap", "#!/bin/sh\nwhile [ \"$1\" != -- ]; do shift; done; shift; exec \"$@\"\n", 0o755)
    r = user.run(*user.ran_marker(), opts=BW, env={"PATH": "%s:/usr/bin:/bin" % p})
    assert r.code == 125 and r.json["error"]["code"] == "NAMESPACE_DENIED", r.json
    assert not user.marker.exists()
    # one that makes the namespaces and forgets the filter
    user.write(p / "bwrap", "#!/bin/sh\nwhile [ \"$1\" != -- ]; do shift; done; shift; "
               "exec unshare -Urpf --mount-proc \"$@\"\n", 0o755)
    r = user.run(*user.ran_marker(), opts=BW, env={"PATH": "%s:/usr/bin:/bin" % p})
    assert r.code == 125 and r.json["error"]["code"] == "REQUIRE_UNMET", r.json
    assert not user.marker.exists()


def test_bwrap_masks(user):
    need_bwrap()
    user.write(user.ws / "secret/key", "k")
    user.write(user.ws / "file", "k")
    r = user.sh("ls -A secret; cat file", [*BW, "--mask", user.ws / "secret", "--mask", user.ws / "file"])
    assert r.json["stdout"] == ""
    assert user.run("true", opts=[*BW, "--mask", user.ws / "nothing"]).code == 125


def below(pid):
    """Names of the processes that this one started, and of theirs."""
    names, todo = [], [pid]
    while todo:
        pid = todo.pop()
        try:
            with open("/proc/%d/task/%d/children" % (pid, pid)) as f:
                todo += [int(x) for x in f.read().split()]
            with open("/proc/%d/comm" % pid) as f:
                names.append(f.read().strip())
        except OSError:
            pass
    return names


def test_bwrap_secrets_are_not_on_its_command_line(user):
    need_bwrap()
    p = user.popen([BRIG, "run", "--workspace", user.ws, *BW, "--env", "TOKEN", "--", "sleep", "30"],
                   env={"TOKEN": "s3cr3t-%s" % os.getpid()}, stdin=subprocess.DEVNULL)
    try:
        assert wait_until(lambda: "bwrap" in below(p.pid), 10), below(p.pid)
        out = subprocess.run(["ps", "-ww", "-eo", "args"], capture_output=True, text=True).stdout
        assert "s3cr3t-%s" % os.getpid() not in out
    finally:
        p.kill()
        p.wait()


def protect_many(who, n, length):
    """As many protected files, by names of this length."""
    names = ["%0*d" % (length, i) for i in range(n)]
    for name in names:
        who.write(who.ws / name, "")
    return [x for name in names for x in ("--protect", name)]


@pytest.mark.parametrize("many", [False, True], ids=["few", "many"])
def test_bwrap_that_never_asks(user, many):
    """It has a pipe to read its arguments from, and does not: nobody waits for that."""
    need_bwrap()
    p, word = user.mkdir(user.base / "bin"), "1000.%d" % os.getpid()
    user.write(p / "bwrap", "#!/bin/sh\nexec sleep %s\n" % word, 0o755)
    more = protect_many(user, 400, 190) if many else []
    brig = user.popen([BRIG, "run", "--workspace", user.ws, *BW, *more, "--", *user.ran_marker()],
                      env={"PATH": "%s:/usr/bin:/bin" % p}, stdin=subprocess.DEVNULL)
    assert wait_until(lambda: "sleep" in below(brig.pid), 10), below(brig.pid)
    brig.send_signal(signal.SIGTERM)
    assert brig.wait(5) == 125 and not user.marker.exists()
    assert wait_until(lambda: not survivors(word), 5), survivors(word)


def test_bwrap_with_many_descriptors(caller):
    """More than a pipe holds of arguments, and as many descriptors as there may be."""
    need_bwrap()
    for n, length in ((400, 190), (700, 20), (868, 20), (880, 20)):
        r = caller.run("sh", "-c", "echo in; echo x > %0*d" % (length, n - 1),
                       opts=[*BW, *protect_many(caller, n, length)])
        assert r.json["stdout"] == "in\n" and r.code != 0 and "Read-only" in r.json["stderr"], (n, r)


def test_bwrap_takes_so_many_words(user):
    """Its own limit, told before it starts, with a way out."""
    need_bwrap()
    for args in (["--", "true", *map(str, range(9000))],
                 [*(w for i in range(3000) for w in ("--env", "V%d=" % i)), "--", "true"]):
        user.brig("run", *BW, "--workspace", user.ws, *args).refused(
            125, "UNSUPPORTED", "words for bubblewrap, which takes 9000", "--backend native")
    r = user.brig("run", *BW, "--workspace", user.ws, "--", "sh", "-c", "echo $#", "sh",
                  *map(str, range(8500)))
    assert r.code == 0 and r.out == "8500\n", r


def test_bwrap_missing(user):
    r = user.run("true", opts=BW, env={"PATH": "/nonexistent"})
    assert r.code == 125 and "install" in r.json["error"]["fix"]
