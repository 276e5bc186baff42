# SPDX-License-Identifier: Apache-2.0
"""CONTAINMENT, class Processes: nothing outside visible, nothing shared."""
import ctypes
import fcntl
import json
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import time

import pytest

from conftest import BRIG, IS_ROOT, NOT_ROOT, REPO, descendants, make_who, need, survivors, wait_until

LIBC = ctypes.CDLL(None, use_errno=True)


@pytest.mark.parametrize("check", ["caps", "lockdown", "core-limit"])
def test_probe(who, check):
    who.probe(check)


def test_environment_by_probe(who):
    who.probe("env", "BRIG_SANDBOX", "HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TERM", "USER",
              env={"SECRET": "x"})


def test_host_process_is_out_of_reach(who):
    p = who.popen(["sleep", "60"])  # same user, the strongest case
    try:
        who.probe("signal", str(p.pid))
        r = who.sh("kill -9 %d; kill -9 -1; kill -TERM -%d; true" % (p.pid, p.pid))
        assert r.json["ran"]
        time.sleep(0.05)
        assert p.poll() is None
    finally:
        p.kill()
        p.wait()


def namespaces(pid):
    return {kind: os.readlink("/proc/%d/ns/%s" % (pid, kind)) for kind in ("mnt", "ipc", "net", "uts", "pid")}


def below(pid, name):
    """A descendant by its name, or None."""
    for child in descendants(pid):
        try:
            with open("/proc/%d/comm" % child) as f:
                if f.read().strip() == name:
                    return child
        except OSError:
            pass  # it ended meanwhile
    return None


@pytest.mark.skipif(not IS_ROOT, reason=NOT_ROOT)
@pytest.mark.parametrize("locked", [False, True])
@pytest.mark.parametrize("opts", [[], ["--net", "host"]])
def test_init_is_where_the_command_is(who, opts, locked):
    """Its process makes namespaces that init, which was there before, has to join."""
    if locked:  # a protected path that is there: the mounts are locked in a second namespace
        who.host("touch", who.ws / ".envrc")
    p = who.popen([BRIG, "run", *opts, "--", "sleep", "60"], stderr=subprocess.DEVNULL)
    try:
        assert wait_until(lambda: below(p.pid, "sleep"), 10)
        init, command, ours = (namespaces(pid) for pid in (below(p.pid, "brig-init"), below(p.pid, "sleep"), os.getpid()))
        assert init == command
        assert {k for k in ours if ours[k] == init[k]} == ({"net"} if opts else set())
    finally:
        p.terminate()
        p.wait()
        who.host("rm", "-f", who.ws / ".envrc")


def test_kill_all_does_not_reach_brig(who):
    r = who.sh("trap '' TERM; kill -TERM -1; kill -KILL -1; echo still; exit 12")
    assert r.code in (12, 137) and r.json["ran"]


def test_abstract_socket(who):
    name = "brig-test-%d-%s" % (os.getpid(), who.name)
    s = socket.socket(socket.AF_UNIX)
    s.bind("\0" + name)
    s.listen(1)
    try:
        who.probe("abstract", name)
    finally:
        s.close()


def test_abstract_socket_with_the_hosts_network(who):
    """--net host keeps the network namespace; the name must still be closed (Landlock scope)."""
    name = "brig-test-host-%d-%s" % (os.getpid(), who.name)
    s = socket.socket(socket.AF_UNIX)
    s.bind("\0" + name)
    s.listen(1)
    try:
        who.probe("abstract", name, opts=["--net", "host"])
    finally:
        s.close()


def test_sysv_shared_memory(who):
    key = 0x0b516 + os.getpid()
    ident = LIBC.shmget(key, 4096, 0o1666)
    assert ident >= 0, os.strerror(ctypes.get_errno())
    try:
        who.probe("sysv", str(key))
        assert who.ok("tail -n +2 /proc/sysvipc/shm | wc -l").strip() == "0"
    finally:
        LIBC.shmctl(ident, 0, None)


def test_posix_message_queue(who):
    name = b"/brig-test-%d" % os.getpid()
    fd = LIBC.mq_open(name, os.O_CREAT | os.O_RDWR, 0o666, None)
    if fd < 0:
        pytest.skip("mq_open on the host: %s" % os.strerror(ctypes.get_errno()))
    try:
        who.probe("mq", name.decode())
    finally:
        os.close(fd)
        LIBC.mq_unlink(name)


def test_posix_shared_memory(who):
    name = "brig-test-%d" % os.getpid()
    with open("/dev/shm/" + name, "w") as f:
        f.write("host")
    os.chmod("/dev/shm/" + name, 0o666)
    try:
        who.probe("shm", name)
    finally:
        os.unlink("/dev/shm/" + name)


def test_pathname_socket_outside_the_workspace(who):
    path = who.base / "host.sock"
    s = socket.socket(socket.AF_UNIX)
    s.bind(str(path))
    s.listen(1)
    os.chmod(path, 0o777)
    try:
        who.probe("unix-path", str(path))
    finally:
        s.close()


def test_pathname_socket_in_the_workspace(who):
    """Known: it can be connected to (SECURITY.md, "Unix sockets in shown trees").  A mask hides it."""
    path = who.ws / "host.sock"
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(str(path))
        s.listen(1)
        os.chmod(path, 0o777)
        code = "import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1]); print('connected')"
        assert who.run("/usr/bin/python3", "-c", code, path).json["stdout"] == "connected\n"
        r = who.run("/usr/bin/python3", "-c", code, path, opts=["--mask", path])
        assert r.json["ran"] and r.code != 0 and r.json["stdout"] == "", r.json


def test_session_keyring_is_not_shared(who):
    """A key in the caller's session keyring: neither listed nor possessed inside."""
    code = r"""
import ctypes, os, sys, subprocess
c = ctypes.CDLL(None, use_errno=True)
c.syscall.restype = ctypes.c_long
if c.syscall(250, 1, b"brig-test-ring") < 0: sys.exit(77)   # join a new session keyring
key = c.syscall(248, b"user", b"brig-test-secret", b"x", 1, -3)  # add_key to it
if key < 0: sys.exit(77)
assert b"brig-test-secret" in open("/proc/keys", "rb").read()
assert c.syscall(250, 10, -3, b"user", b"brig-test-secret", 0) == key  # KEYCTL_SEARCH finds it
p = subprocess.run(sys.argv[1:], stdout=subprocess.PIPE)
sys.stdout.buffer.write(p.stdout)
"""
    # The default filter knows no keyctl, and /proc/keys is masked: neither shows whose keyring it is.
    profile = who.write(who.base / "all.json", '{"defaultAction": "SCMP_ACT_ALLOW"}')
    search = ("import ctypes\nc = ctypes.CDLL(None, use_errno=True)\nc.syscall.restype = ctypes.c_long\n"
              "print(c.syscall(250, 10, -3, b'user', b'brig-test-secret', 0), ctypes.get_errno())\n")
    p = who.popen(["/usr/bin/python3", "-c", code, BRIG, "run", "--json", "--seccomp", profile, "--",
                   "/usr/bin/python3", "-c", search], stdout=subprocess.PIPE)
    out, _ = p.communicate(timeout=20)
    if p.returncode == 77:
        pytest.skip("this kernel has no keyrings")
    assert json.loads(out)["stdout"] == "-1 126\n", out  # ENOKEY
    p = who.popen(["/usr/bin/python3", "-c", code, BRIG, "run", "--json", "--", "sh", "-c",
                   "cat /proc/keys | wc -c; id"], stdout=subprocess.PIPE)
    out, _ = p.communicate(timeout=20)
    if p.returncode == 77:
        pytest.skip("this kernel has no keyrings")
    j = json.loads(out)
    assert j["stdout"].startswith("0\n") and b"brig-test-secret" not in out


def test_double_fork_leaves_no_survivor(who):
    r = who.probe("survivor", who.ws / "made", "1")
    time.sleep(1.2)
    assert not (who.ws / "made").exists()
    assert not survivors("BRIG_SANDBOX=" + r.json["id"])


def test_survivor_at_timeout(who):
    r = who.sh("/opt/probe survivor %s/made 1; sleep 100" % who.ws,
               ["--timeout", "0.4", "--ro", "%s:/opt/probe" % who.probe_file])
    assert r.code == 124
    time.sleep(1.0)
    assert not (who.ws / "made").exists()


def test_descendants_die_even_when_stopped_or_traced(who):
    r = who.sh("for i in 1 2 3 4 5; do setsid sh -c 'kill -STOP $$' & done; "
               "strace -o /dev/null sleep 100 & sleep 0.2; exit 2")
    assert r.code == 2 and r.seconds < 3
    assert wait_until(lambda: not survivors("BRIG_SANDBOX=" + r.json["id"]))


def test_orphans_are_reaped(who):
    who.probe("orphans", "300")
    assert who.ok("for i in 1 2 3 4 5 6 7 8 9; do (true &) ; done; sleep 0.2; "
                  "cat /proc/[0-9]*/stat | grep -c ' Z ' || true") == "0\n"


def test_limits_of_the_command(who):
    out = who.ok("ulimit -c; ulimit -f; ulimit -n")
    core, fsize, files = out.split()
    # 1 byte of core is what stops a pipe handler; sh shows it in blocks
    assert core == "0" and fsize == str(1 << 21) and int(files) >= 256
    assert "Max core file size        1" in who.ok("cat /proc/self/limits")


def test_core_dump_leaves_nothing(who):
    r = who.sh("ulimit -c unlimited 2>/dev/null; sh -c 'kill -SEGV $$'; ls -A")
    assert r.json["stdout"] == "" and os.listdir(who.ws) == []


def test_signal_dispositions_are_default(who):
    """Ignored and blocked signals of the caller do not come along."""
    def spoil():
        for s in (signal.SIGINT, signal.SIGTERM, signal.SIGPIPE, signal.SIGUSR1, signal.SIGALRM, signal.SIGVTALRM,
                  signal.SIGRTMIN, signal.SIGRTMAX):
            signal.signal(s, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGUSR2, signal.SIGSEGV, signal.SIGRTMIN + 1])
    r = who.run("grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status", preexec_fn=spoil)
    masks = dict(x.split(":\t") for x in r.json["stdout"].splitlines())
    assert masks == {"SigBlk": "0" * 16, "SigIgn": "0" * 16}


def test_caller_that_ignores_sigchld(who):
    """Daemons do; the kernel then reaps brig's children before brig can."""
    r = who.sh("grep SigIgn /proc/self/status; exit 3", timeout=5,
               preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))
    assert r.code == 3, r
    assert r.json["stdout"] == "SigIgn:\t%s\n" % ("0" * 16)


COUNTS = """
import os, signal, time
signal.signal(signal.SIGCONT, lambda *_: open("continued", "w").close())
if os.fork() == 0: signal.signal(signal.SIGTSTP, lambda *_: open("asked", "w").close())
name = "count.%d" % os.getpid()
for i in range(10 ** 9):
    if os.path.exists("end"): os._exit(21)
    with open("new" + name, "w") as f: f.write(str(i))
    os.rename("new" + name, name)
    time.sleep(0.01)
"""


@pytest.mark.parametrize("backend", ["native", "landlock", "bwrap"])
def test_stop_and_continue(user, backend):
    """Ctrl-Z on brig stops the command with it, its children, and who has a handler for that; SIGCONT goes on."""
    if backend == "bwrap":
        need("bwrap")
    p = user.popen([BRIG, "run", "--backend", backend, "--", "/usr/bin/python3", "-c", COUNTS])

    def state():
        with open("/proc/%d/stat" % p.pid) as f:
            return f.read().rsplit(")", 1)[1].split()[0]

    def counts():
        return sorted(x.read_text() for x in user.ws.glob("count.*"))
    try:
        assert wait_until(lambda: len(counts()) == 2, 5)
        p.send_signal(signal.SIGTSTP)
        assert wait_until(lambda: state() == "T", 5)
        assert (user.ws / "asked").exists() and not (user.ws / "continued").exists()
        before = counts()
        time.sleep(0.3)
        assert counts() == before and len(before) == 2, "it goes on"
        p.send_signal(signal.SIGCONT)
        assert wait_until(lambda: all(a != b for a, b in zip(counts(), before)), 5), "it does not go on"
        assert (user.ws / "continued").exists()
        user.write(user.ws / "end")
        assert p.wait(5) == 21
    finally:
        p.kill()
        p.wait()


@pytest.mark.parametrize("backend", ["native", "landlock", "bwrap"])
def test_continued_before_it_has_stopped(user, backend):
    """What stops brig a moment later took the SIGCONT away, and nobody sends another one."""
    if backend == "bwrap":
        need("bwrap")
    for gap in (0.0005, 0.004):
        p = user.popen([BRIG, "run", "--backend", backend, "--", "sh", "-c", "touch ready; sleep 0.3; rm ready; exit 5"])
        try:
            assert wait_until((user.ws / "ready").exists, 5)
            p.send_signal(signal.SIGTSTP)
            time.sleep(gap)
            p.send_signal(signal.SIGCONT)
            assert p.wait(5) == 5
        finally:
            p.kill()
            p.wait()


def test_signals_are_for_the_whole_group(who):
    """As a terminal does it: also for a child that its parent waits for."""
    if tuple(map(int, os.uname().release.split("-")[0].split(".")[:2])) < (6, 9):
        pytest.skip("before Linux 6.9 only the command itself can be told")
    p = who.popen([BRIG, "run", "--", "sh", "-c", "trap : INT; /usr/bin/python3 -c 'import signal, time, sys\n"
                   "signal.signal(signal.SIGINT, lambda *_: sys.exit(7)); open(\"ready\", \"w\"); time.sleep(20)'; exit $?"])
    assert wait_until((who.ws / "ready").exists, 5)
    p.send_signal(signal.SIGINT)
    assert p.wait(5) == 7


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signal_before_the_release(who, sig):
    """It waits for brig already: nothing runs, and nothing is said to be wrong with the machine."""
    def wait_for_brig():
        signal.pthread_sigmask(signal.SIG_BLOCK, [sig])
        os.kill(os.getpid(), sig)
    r = who.run(*who.ran_marker(), preexec_fn=wait_for_brig)
    assert r.code == 125 and r.json["ran"] is False and not who.marker.exists(), r
    r.refused(125, "SETUP_FAILED", "interrupted before the command was released", "start it again")


def test_umask_and_priority(who):
    def spoil():
        os.umask(0)
        os.nice(5)
    r = who.run("sh", "-c", "umask; nice; touch f; stat -c %a f", preexec_fn=spoil)
    umask, nice, mode = r.json["stdout"].split()
    assert int(nice) == min(os.nice(0) + 5, 19), "the caller's choice"
    assert (umask, mode) in (("0000", "666"), ("0022", "644"))


@pytest.mark.parametrize("mask", [0o077, 0o777])
def test_strict_umask_of_the_caller(who, mask):
    r = who.sh("cat /etc/passwd | wc -l; : > /tmp/x; umask", preexec_fn=lambda: os.umask(mask))
    assert r.code == 0 and r.json["stdout"] == "3\n%04o\n" % mask, r


@pytest.mark.parametrize("what,value", [("RLIMIT_STACK", 128 << 10), ("RLIMIT_FSIZE", 0), ("RLIMIT_NOFILE", 24),
                                        ("RLIMIT_AS", 64 << 20), ("RLIMIT_NPROC", 1), ("RLIMIT_CPU", 5)])
def test_tight_limits_of_the_caller(who, what, value):
    """It runs or is refused with one line; brig itself never crashes or hangs."""
    which = getattr(resource, what)
    r = who.brig("run", "--", "/bin/echo", "fine", timeout=10,
                 preexec_fn=lambda: resource.setrlimit(which, (value, value)))
    if r.code == 0:
        assert (r.out, r.err) == ("fine\n", "")
    else:
        assert r.code == 125 and r.err.startswith("brig: ") and r.err.count("\n") == 1, r


def test_supplementary_groups_do_not_help(who):
    if not IS_ROOT:
        pytest.skip("needs root to make a file of another group")
    f = who.write(who.base / "dir/secret", "group secret", 0o640)
    os.chown(f, 54321, 4)
    p = subprocess.run([BRIG, "run", "--json", "--workspace", str(who.ws), "--ro", str(f.parent), "--", "sh", "-c",
                        "id -G; cat %s" % f], stdout=subprocess.PIPE, env=who.env, cwd=who.ws,
                       user=who.uid, group=who.gid, extra_groups=[4, 6] if who.is_root else [])
    j = json.loads(p.stdout)
    assert j["ran"] and "group secret" not in j["stdout"] and "0" not in j["stdout"].split()


def test_supplementary_groups_of_root_are_dropped(base, account):
    """Also where nothing is shown through an id map: the workspace is somebody's."""
    if not IS_ROOT:
        pytest.skip(NOT_ROOT)
    w = make_who("user", base, account)
    f = w.write(w.base / "dir/secret", "group secret", 0o640)
    os.chown(f, 54321, 4)
    p = subprocess.run([BRIG, "run", "--json", "--workspace", w.ws, "--ro", f.parent, "--", "sh", "-c",
                        "id -G; cat %s" % f], stdout=subprocess.PIPE, env=w.env, cwd=w.ws, extra_groups=[4, 6])
    j = json.loads(p.stdout)
    assert j["ran"] and j["stdout"] == "%d\n" % w.gid and "Permission denied" in j["stderr"], j


# Its output goes into a pipe that is full: then it can be looked at.
LOOK_AT = r"""
import os, subprocess, sys, time
r, w = os.pipe()
os.set_blocking(w, False)
try:
    while True:
        os.write(w, b"x" * 4096)
except BlockingIOError:
    pass
os.set_blocking(w, True)
p = subprocess.Popen([sys.argv[1], "--help"], stdout=w, stderr=w)
for _ in range(500):
    with open("/proc/%d/status" % p.pid) as f:
        lines = dict(x.split(":\t", 1) for x in f.read().splitlines() if ":\t" in x)
    with open("/proc/%d/syscall" % p.pid) as f:
        if lines["Name"] == os.path.basename(sys.argv[1])[:15] and f.read().split()[:2] in (["1", "0x1"], ["1", "0x2"]):
            break
    time.sleep(0.01)
else:
    sys.exit("it does not write: %s" % lines)
print(lines["Uid"], lines["CapEff"], lines["NoNewPrivs"])
p.kill()
"""


@pytest.mark.parametrize("program", ["/usr/bin/su", "/usr/bin/mount"])
def test_setuid_programs_do_not_raise(who, program):
    """What they run as, while they run."""
    if not (os.path.exists(program) and os.stat(program).st_mode & 0o4000 and os.uname().machine == "x86_64"):
        pytest.skip("no set-uid %s here" % program)
    out = who.run("/usr/bin/python3", "-c", LOOK_AT, program).json
    assert out["exit"] == 0, out
    *ids, caps, no_new_privs = out["stdout"].split()
    assert len(set(ids)) == 1 and ids[0] != "0" and int(caps, 16) == 0 and no_new_privs == "1", out["stdout"]


def test_brig_inside_brig_is_refused_cleanly(who):
    r = who.sh("/opt/brig run -- echo nested; echo code $?", ["--ro", "%s:/opt/brig" % BRIG])
    assert r.json["stdout"] == "code 125\n"
    assert r.json["stderr"].count("\n") == 1
    # the true cause, not "your --cwd is wrong"
    assert r.json["stderr"].split(": ")[1] in ("USERNS_DENIED", "KERNEL_TOO_OLD", "UNSUPPORTED"), r.json["stderr"]


def test_file_locks_on_system_files_are_not_a_channel(who):
    """CONTAINMENT fact 3 is known; a lock taken inside must at least end with the run."""
    who.ok("flock /usr/bin/env true")
    with open("/usr/bin/env") as f:
        fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)


@pytest.mark.parametrize("backend", ["native", "bwrap"])
def test_a_file_system_is_let_go(who, backend):
    """The mounts of a sandbox end with it, though nobody waits for that: what the workspace was on can be
    unmounted.  Several times, as it was a matter of luck once."""
    if not IS_ROOT:
        pytest.skip(NOT_ROOT)
    if backend == "bwrap":
        need("bwrap")
        if who.is_root:
            pytest.skip("bwrap refuses what belongs to root")
    top = who.mkdir(who.base / "fs")
    for _ in range(6):
        r = subprocess.run(["unshare", "-m", "--propagation", "private", "/usr/bin/python3",
                            REPO / "tests/tools/unmounted.py", top, str(who.uid), str(who.gid),
                            BRIG, "run", "--backend", backend, "--", "/bin/true"],
                           env=who.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert r.returncode == 0, r.stderr
        assert r.stdout != "never\n"
