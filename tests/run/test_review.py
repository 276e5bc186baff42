# SPDX-License-Identifier: Apache-2.0
"""Attacks that worked once.  Each was found by trying; none may come back."""
import json
import os
import signal
import stat
import subprocess
import time

import pytest

from conftest import BRIG, descendants, need, survivors, wait_until

# B listens in the workspace and keeps the directory that A hands it; when A is
# gone it tries to get below brig's mounts through it.
RECEIVER = r"""
import os, socket, time
s = socket.socket(socket.AF_UNIX); s.bind("b.sock"); s.listen(1)
open("b.ready", "w").close()
c, _ = s.accept()
_, fds, _, _ = socket.recv_fds(c, 1, 2)
while not os.path.exists("a.gone"):
    time.sleep(0.02)
time.sleep(0.3)
def attempt(name, flags):
    try:
        fd = os.open(name, flags, 0o644, dir_fd=fds[0])
    except OSError as e:
        return os.strerror(e.errno)
    return "OPENED " + repr(os.read(fd, 40)) if flags == os.O_RDONLY else "OPENED"
print(attempt(".git/config", os.O_WRONLY | os.O_APPEND))
print(attempt(".git/hooks/post-index-change", os.O_WRONLY | os.O_CREAT))
print(attempt("secret.env", os.O_RDONLY))
"""
SENDER = r"""
import os, socket
s = socket.socket(socket.AF_UNIX); s.connect("b.sock")
socket.send_fds(s, [b"x"], [os.open(".", os.O_RDONLY | os.O_DIRECTORY)] +
                [os.open("open", os.O_CREAT | os.O_WRONLY)] * %d)
"""


@pytest.mark.parametrize("writer", [False, True], ids=["directory", "file-too"])
@pytest.mark.parametrize("backend", ["native", "bwrap"])
def test_a_directory_handed_to_another_sandbox_stays_covered(who, backend, writer):
    """Mounts of a sandbox that ended must not come off what they covered."""
    need("git")
    if who.is_root and backend == "bwrap":
        pytest.skip("bwrap refuses what belongs to root")
    who.host("git", "init", "-q", ".")
    who.write(who.ws / "secret.env", "API_KEY=topsecret")
    who.write(who.ws / "recv.py", RECEIVER)
    # who has a file open keeps the mounts from being made read-only
    who.write(who.ws / "send.py", SENDER % writer)
    mask = ["--mask", str(who.ws / "secret.env"), "--backend", backend]
    before = (who.ws / ".git/config").read_bytes()
    b = who.popen([BRIG, "run", "--workspace", who.ws, *mask, "--", "/usr/bin/python3", "recv.py"],
                  stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        assert wait_until(lambda: (who.ws / "b.ready").exists(), 10)
        a = who.run("/usr/bin/python3", "send.py", opts=mask)
        assert a.code == 0, a.json
        who.write(who.ws / "a.gone")
        out, err = b.communicate(timeout=20)
    finally:
        b.kill()
    lines = out.decode().splitlines()
    assert len(lines) == 3, (out, err)
    assert not any("OPENED" in x for x in lines), lines
    assert (who.ws / ".git/config").read_bytes() == before
    assert not (who.ws / ".git/hooks/post-index-change").exists()


DISARM = r"""
import resource, os, time, sys
for what in (resource.RLIMIT_NOFILE, resource.RLIMIT_NPROC):
    try:
        resource.prlimit(1, what, (0, 0)); print("prlimit WORKED")
    except PermissionError:
        print("refused")
for call in (lambda: os.sched_setscheduler(1, os.SCHED_IDLE, os.sched_param(0)),
             lambda: os.sched_setaffinity(1, {0}),
             lambda: os.setpriority(os.PRIO_PROCESS, 1, 19)):
    try:
        call(); print("WORKED")
    except PermissionError:
        print("refused")
"""


def test_pid_1_cannot_be_disarmed(who):
    r = who.run("/usr/bin/python3", "-c", DISARM)
    assert r.json["stdout"].split() == ["refused"] * 5, r.json


def test_orphans_do_not_keep_init_from_dying(who):
    """A flood of orphans to reap, and the supervisor killed meanwhile."""
    mark = "61616.%d" % os.getpid()
    p = who.popen([BRIG, "run", "--timeout", "0", "--pids", "100", "--workspace", who.ws, "--", "sh", "-c",
                   "sleep %s & while :; do (sh -c : &) ; done" % mark],
                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    assert wait_until(lambda: survivors(mark), 5)
    time.sleep(0.3)
    p.send_signal(signal.SIGKILL)
    p.wait()
    assert wait_until(lambda: not survivors(mark), 3), survivors(mark)


@pytest.mark.parametrize("fd", [0, 1, 2])
def test_a_directory_is_no_standard_stream(who, fd):
    d = os.open("/usr", os.O_RDONLY | os.O_DIRECTORY)
    try:
        streams = {0: "stdin", 1: "stdout", 2: "stderr"}
        kw = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        kw[streams[fd]] = d
        p = who.popen([BRIG, "run", "--workspace", who.ws, "--", *who.ran_marker()], **kw)
        assert p.wait(20) == 125
        assert not who.marker.exists()
    finally:
        os.close(d)


def test_machine_wide_aio_is_out_of_reach(who):
    code = "import ctypes; print(ctypes.CDLL(None, use_errno=True).syscall(206, 1 << 16, 0), ctypes.get_errno())"
    assert who.run("/usr/bin/python3", "-c", code).json["stdout"] == "-1 38\n"


@pytest.mark.parametrize("option", [26, 51])  # SO_ATTACH_FILTER, SO_ATTACH_REUSEPORT_CBPF
def test_machine_wide_programs_in_the_kernel_are_out_of_reach(who, option):
    """They share a store with the filters that every sandbox begins with."""
    code = ("import ctypes, socket\n"
            "insn = ctypes.create_string_buffer(bytes([6, 0, 0, 0, 0, 0, 0, 0]))\n"
            "class Prog(ctypes.Structure): _fields_ = [('n', ctypes.c_ushort), ('p', ctypes.c_void_p)]\n"
            "prog = bytes(Prog(1, ctypes.addressof(insn)))\n"
            "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
            "s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)\n"
            "try:\n"
            "    s.setsockopt(socket.SOL_SOCKET, %d, prog); print('attached')\n"
            "except OSError as e:\n"
            "    print(e.errno)" % option)
    r = who.run("/usr/bin/python3", "-c", code)
    assert r.json["stdout"] == "1\n", r.json
    assert [d["target"] for d in r.json["denied"]] == ["setsockopt"], r.json


@pytest.mark.parametrize("pty", [False, True])
def test_machine_wide_terminals_are_left_for_others(who, pty):
    code = ("import os, resource\n"
            "hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]\n"
            "resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))\n"
            "n = 0\n"
            "try:\n"
            "    while n < 600:\n"
            "        os.open('/dev/ptmx', os.O_RDWR | os.O_NOCTTY); n += 1\n"
            "except OSError as e:\n"
            "    print(e.errno)\n"
            "print(n)")
    r = who.run("/usr/bin/python3", "-c", code, opts=["--pty"] if pty else [])
    # ENOSPC; brig's own is one of them
    assert r.json["stdout"].split() == ["28", "127" if pty else "128"], r.json


def test_raised_priority_is_not_inherited(who):
    if not who.is_root:
        pytest.skip("only root can raise a priority to inherit")
    r = who.brig("run", "--workspace", who.ws, "--", "nice", preexec_fn=lambda: os.nice(-5 - os.nice(0)))
    assert r.out == b"0\n" or r.out == "0\n", r


FORKS = r"""
import os, time
n = 0
try:
    while n < 60:
        if os.fork() == 0:
            time.sleep(2); os._exit(0)
        n += 1
except OSError:
    pass
print(n)
"""


@pytest.mark.parametrize("opts", [(), ("--pids", "20"), ("--require", "pids", "--pids", "20")])
def test_a_limit_that_does_not_hold_root_is_not_claimed(who, opts):
    """In a namespace that root made for himself his id is the machine's: the kernel does not
    count that one's processes against RLIMIT_NPROC, which was taken for the limit."""
    need("unshare")
    p = who.popen(["unshare", "-Ur", BRIG, "run", "--json", "--workspace", who.ws, *opts, "--",
                   "/usr/bin/python3", "-c", FORKS], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
    r = json.loads(p.communicate(timeout=30)[0])
    if r["ran"] and "pids" in r["enforced"]:
        limit = r["evidence"]["rlimit_nproc"] or 20
        assert int(r["stdout"]) < limit, r
        assert not (who.is_root and r["evidence"]["rlimit_nproc"]), r
    else:
        assert "pids" in r["missing"] or r["error"], r


@pytest.mark.parametrize("backend", ["native", "landlock", "bwrap"])
def test_real_time_is_not_inherited(who, backend):
    """The deadline did not come: the supervisor waited behind the command for the processor."""
    if os.geteuid() != 0:
        pytest.skip("only root can take real time to inherit")
    if who.is_root and backend != "native":
        pytest.skip("it cannot show root's workspace to anybody")
    if backend == "bwrap":
        need("bwrap")
    code = ("import os, resource as r\n"
            "print(os.sched_getscheduler(0), r.getrlimit(r.RLIMIT_RTPRIO), r.getrlimit(13))")  # NICE
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    except PermissionError:
        pytest.skip("no real time to be had here")
    try:
        # a processor group may refuse who has real time
        r = who.run("/usr/bin/python3", "-c", code, opts=["--backend", backend, "--cpus", "0"])
        limited = who.sh(":", ["--backend", backend])
    finally:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    assert r.json["stdout"] == "0 (0, 0) (0, 0)\n", r.json
    assert limited.json["ran"] or "real-time" in limited.json["error"]["fix"], limited.json


def test_processors_are_the_callers(who):
    """Nothing brig does with its helper processes may narrow what the command may use."""
    inside = who.run("/usr/bin/python3", "-c", "import os; print(sorted(os.sched_getaffinity(0)))").json["stdout"]
    assert inside == "%s\n" % sorted(os.sched_getaffinity(0))


def test_planted_paths_are_said_without_json(who):
    r = who.brig("run", "--workspace", who.ws, "--", "sh", "-c", "echo evil > .envrc")
    assert r.code == 0
    assert "protected: .envrc: moved aside" in (r.err if isinstance(r.err, str) else r.err.decode())
    assert not (who.ws / ".envrc").exists()


ALLOW_ALL = '{"defaultAction": "SCMP_ACT_ALLOW"}'


def test_a_callers_profile_does_not_go_below_the_floor(who):
    """Most of all root's: the file would be set-uid root on the host."""
    profile = who.write(who.base / "all.json", ALLOW_ALL)
    r = who.sh("cp /bin/true t; chmod 4755 t; chmod 2755 t; mknod w c 0 0; ls -l t | cut -c1-10",
               ["--seccomp", str(profile)])
    assert r.json["ran"], r.json
    assert r.json["stdout"] == "-rwxr-xr-x\n", r.json
    assert os.stat(who.ws / "t").st_mode & 0o6000 == 0
    assert not (who.ws / "w").exists()


@pytest.mark.parametrize("own_profile", [False, True])
def test_no_whiteout_by_renaming(who, own_profile):
    """A device 0:0 in the place of the file: no right is asked for, by no layer."""
    code = ("import ctypes, os; open('t', 'w'); c = ctypes.CDLL(None, use_errno=True)\n"
            "print(c.renameat2(-100, b't', -100, b'moved', 4), ctypes.get_errno(), os.listdir('.'))")
    opts = ["--seccomp", who.write(who.base / "all.json", ALLOW_ALL)] if own_profile else []
    r = who.run("/usr/bin/python3", "-c", code, opts=opts)
    assert r.json["stdout"] == "-1 1 ['t']\n", r.json
    assert stat.S_ISREG(os.lstat(who.ws / "t").st_mode)


@pytest.mark.parametrize("command", ["sleep 100", "yes"])
def test_a_stuck_terminal_does_not_hold_the_deadline(who, command):
    """Input the command does not read, output that nobody takes."""
    rd, wr = os.pipe()
    source = subprocess.Popen(["yes"], stdout=subprocess.PIPE)
    try:
        p = who.popen([BRIG, "run", "--pty", "--timeout", "1", "--workspace", who.ws, "--", "sh", "-c", command],
                      stdin=source.stdout, stdout=wr, stderr=subprocess.DEVNULL)
        start = time.monotonic()
        assert p.wait(10) == 124
        assert time.monotonic() - start < 3
    finally:
        source.kill()
        source.wait()
        os.close(rd)
        os.close(wr)


def outside_uid(pid):
    with open("/proc/%d/status" % pid) as f:
        return next(int(line.split()[1]) for line in f if line.startswith("Uid:"))


def test_the_id_owner_cannot_reach_roots_supervisor(who):
    """Whoever has the id that the sandbox runs under may write some files below /proc of its
    processes: those count for nobody but them."""
    need("strace")
    if not who.is_root:
        pytest.skip("an ordinary user's supervisor is the user's own")
    # the first such message is the release: everything is confined and waits
    p = who.popen(["strace", "-qq", "-o", "/dev/null", "-e", "trace=sendto", "-e",
                   "inject=sendto:delay_enter=2500000:when=1", BRIG, "run",
                   "--workspace", who.ws, "--", "/bin/true"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    tried = []
    try:
        assert wait_until(lambda: len(descendants(p.pid)) >= 4, 10), descendants(p.pid)
        time.sleep(0.5)
        brig, *inside = descendants(p.pid)
        for pid in inside:
            uid = outside_uid(pid)
            if uid == 0:
                continue
            tried.append(pid)
            attempt = "import os; os.setresuid(%d, %d, %d); open('/proc/%d/oom_score_adj', 'w').write('900')" % (
                uid, uid, uid, pid)
            subprocess.run(["/usr/bin/python3", "-c", attempt], stderr=subprocess.DEVNULL)
        with open("/proc/%d/oom_score_adj" % brig) as f:
            assert f.read() == "0\n"
        out, err = p.communicate(timeout=20)
    finally:
        p.kill()
        p.wait()
    assert len(tried) == 2, "init and the command's process"
    assert p.returncode == 0, err


@pytest.mark.parametrize("numbers", [(3,), (40, 90, 700), tuple(range(30, 110)) + (900,)],
                         ids=["first", "gaps", "many"])
def test_the_id_owner_gets_nothing_of_the_callers(who, numbers):
    """Where there is no user namespace between, whoever has the id may get at descriptors of
    the command's process: what the caller left open is closed before it takes the id."""
    need("strace")
    if not who.is_root:
        pytest.skip("an ordinary user's supervisor is the user's own")
    os.chown(who.ws, 12345, 12345)
    secret = os.path.join(os.path.dirname(who.ws), "secret")
    with open(secret, "w") as f:
        f.write("x")
    leave_open = "".join("exec %d<'%s'; " % (n, secret) for n in numbers) + 'exec "$@"'

    def holders(pid):
        return [n for n in os.listdir("/proc/%d/fd" % pid) if os.readlink("/proc/%d/fd/%s" % (pid, n)) == secret]

    p = who.popen(["strace", "-qq", "-o", "/dev/null", "-e", "inject=sendto:delay_enter=1500000:when=1",
                   "bash", "-c", leave_open, "bash", BRIG, "run", "--backend", "landlock", "--workspace", who.ws,
                   "--", "/bin/true"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        assert wait_until(lambda: len(descendants(p.pid)) >= 3, 10), descendants(p.pid)
        time.sleep(0.5)
        brig, *rest = descendants(p.pid)
        assert len(holders(brig)) == len(numbers), "they came along"
        theirs = [pid for pid in rest if outside_uid(pid) == 12345]
        assert len(theirs) == 1 and holders(theirs[0]) == []
        _, err = p.communicate(timeout=20)
    finally:
        p.kill()
        p.wait()
    assert p.returncode == 0, err


@pytest.mark.parametrize("backend", ["native", "landlock", "bwrap"])
def test_many_protected_paths_in_a_protected_directory(who, backend):
    """Brig closes what it opened for the many again, below others that it needs."""
    if who.is_root and backend != "native":
        pytest.skip("it cannot show root's workspace to anybody")
    if backend == "bwrap":
        need("bwrap")
    names = ["d/f%d" % i for i in range(150)] + ["zz/g%d" % i for i in range(3)]
    for name in names:
        os.makedirs(os.path.join(who.ws, os.path.dirname(name)), exist_ok=True)
        with open(os.path.join(who.ws, name), "w"):
            pass
    if who.is_root:
        for top, _, files in os.walk(who.ws):
            for f in ["", *files]:
                os.chown(os.path.join(top, f), 12345, 12345)
    options = [w for name in [*names, "d"] for w in ("--protect", name)]
    r = who.sh("echo x >other && echo fine; echo x >zz/g1; echo x >d/f1; echo x >d/new; exit 0",
               opts=[*options, "--backend", backend])
    assert r.code == 0 and "fine" in r.json["stdout"], r
    with open(os.path.join(who.ws, "zz/g1")) as f:
        assert f.read() == ""


def test_root_that_may_not_trace(who):
    """As in many containers."""
    need("setpriv")
    if not who.is_root:
        pytest.skip("about root's capabilities")
    r = who.popen(["setpriv", "--bounding-set", "-sys_ptrace", "--inh-caps", "-sys_ptrace", BRIG, "run",
                   "--workspace", who.ws, "--", "/bin/true"], stderr=subprocess.PIPE)
    _, err = r.communicate(timeout=20)
    assert r.returncode == 0, err


def lives(pid):
    """Not as a zombie: pid 1 of a container may not care for those."""
    try:
        with open("/proc/%d/stat" % pid) as f:
            return f.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_signal_ends_the_planning(who):
    """It may take long, where files are slow."""
    need("strace")
    # the second random number is part of the plan
    p = who.popen(["strace", "-qq", "-o", "/dev/null", "-e", "trace=getrandom", "-e",
                   "inject=getrandom:delay_enter=3000000:when=2", BRIG, "run", "--workspace", who.ws, "--",
                   "/bin/true"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        assert wait_until(lambda: descendants(p.pid), 10)
        time.sleep(0.3)
        brig, *others = descendants(p.pid)
        os.kill(brig, signal.SIGTERM)
        out, err = p.communicate(timeout=20)
    finally:
        p.kill()
        p.wait()
    assert p.returncode in (-signal.SIGTERM, 128 + signal.SIGTERM), (p.returncode, err)
    assert wait_until(lambda: not any(map(lives, others)), 5)


def test_more_trees_than_one_record_carries(who):
    """As root each is opened outside and handed to the builder."""
    binds = []
    for i in range(150):
        d = who.base / ("many%d" % i)
        d.mkdir()
        who.write(d / "n", "%d\n" % i)
        binds += ["--ro", "%s:/mnt/b%d" % (d, i)]
    r = who.sh("i=0; while [ $i -lt 150 ]; do read n < /mnt/b$i/n; [ \"$n\" = $i ] || echo $i is $n; "
               "i=$((i + 1)); done; echo x > /mnt/b149/n", binds)
    assert r.json["stdout"] == "", r.json["stdout"]
    assert "Read-only" in r.json["stderr"], r.json


@pytest.mark.parametrize("backend", ["native", "landlock"])
def test_root_that_cannot_read_its_id_map_is_still_root(who, backend):
    """Taken for root of a container, the command had host uid 0."""
    need("strace")
    if not who.is_root:
        pytest.skip("only root could become root")
    # a workspace of an ordinary user, which every backend can show
    os.chown(who.ws, 1234, 1234)
    p = subprocess.run(["strace", "-qq", "-o", "/dev/null", "-P", "/proc/self/uid_map", "-e", "trace=openat", "-e",
                        "inject=openat:error=EACCES", BRIG, "run", "--backend", backend, "--workspace", who.ws, "--",
                        "sh", "-c", "id -u; cat /proc/self/uid_map"],
                       stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=20)
    if p.returncode == 125:
        assert p.stdout == "", p
    else:
        assert p.returncode == 0, p
        assert p.stdout.split()[0] == "1234", p
        if backend == "native":
            assert p.stdout.split()[1:] == ["1234", "1234", "1"], p


@pytest.mark.parametrize("owner", [0, 1234])
@pytest.mark.parametrize("backend", ["native", "landlock", "bwrap"])
def test_root_with_a_false_id_map_is_still_root(who, backend, owner):
    """A text mounted over root's id map, with a second proc beside it, so that a sandbox may mount
    its own: taken for root of a container, the command had host uid 0, and the evidence agreed."""
    if not who.is_root:
        pytest.skip("only root could become root")
    os.chown(who.ws, owner, owner)
    false_map, proc = who.base / "false_map", who.base / "proc"
    false_map.write_text("0 1000 1\n")
    proc.mkdir()
    p = subprocess.run(["unshare", "-m", "--propagation", "private", "sh", "-c",
                        'mount -t proc proc "$1" && mount --bind "$2" /proc/$$/uid_map || exit 99; shift 2; exec "$@"',
                        "sh", proc, false_map, BRIG, "run", "--json", "--backend", backend, "--workspace", who.ws, "--",
                        "sh", "-c", "cat /proc/self/uid_map; touch here; stat -c %u here"],
                       stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=20)
    assert p.returncode in (0, 125), p
    made = who.ws / "here"
    if p.returncode == 125:
        assert not made.exists(), p
        return
    said = json.loads(p.stdout)
    assert said["evidence"].get("uid_outside", 0) != 0 or backend == "landlock", said
    if backend == "landlock":
        assert owner != 0 and said["stdout"].split()[-1] == str(owner), said


LANDLOCK = ["--backend", "landlock"]
OWNER = 12345


def lend(who):
    """Root's landlock wants a workspace of somebody else's."""
    if who.is_root:
        os.chown(who.ws, OWNER, OWNER)


def lend_with_roots(who):
    """And with a directory of root's in one of that user's, who may move it, but not remove it."""
    if not who.is_root:
        pytest.skip("an ordinary user's brig has the user's own rights")
    lend(who)
    (who.ws / "proj" / "roots" / "precious").mkdir(parents=True)
    os.chmod(who.ws / "proj" / "roots", 0o700)
    os.chown(who.ws / "proj", OWNER, OWNER)


def test_root_does_not_remove_what_the_command_could_only_move(who):
    """A directory of root's inside one of the user's can be moved to HOME: brig, as root, must not remove it there."""
    lend_with_roots(who)
    j = who.sh("touch $HOME/x && mv proj $HOME/ && echo $HOME", LANDLOCK).json
    assert j["exit"] == 0, j
    home = j["stdout"].strip()
    try:
        assert os.path.isdir(home + "/proj/roots/precious")
        assert not os.path.exists(home + "/x")
        assert [d["target"] for d in j["denied"]] == [home], j["denied"]
    finally:
        subprocess.run(["rm", "-rf", home], check=True)


def test_what_is_left_is_told_of_wherever_it_is(who):
    """Somebody moves the private directory away, with something in it that brig must not remove."""
    lend_with_roots(who)
    p = who.popen([BRIG, "run", "--json", "--workspace", who.ws, *LANDLOCK, "--", "sh", "-c",
                   "mv proj $HOME/; echo $HOME >home.new; mv home.new home; sleep 1"], stdout=subprocess.PIPE)
    assert wait_until(lambda: (who.ws / "home").exists(), 10)
    home = (who.ws / "home").read_text().strip()
    os.rename(home, home + ".away")
    j = json.loads(p.communicate(timeout=20)[0])
    try:
        assert os.path.isdir(home + ".away/proj/roots/precious")
        assert [d["target"] for d in j["denied"]] == [home], j["denied"]
    finally:
        subprocess.run(["rm", "-rf", home + ".away"], check=True)


def test_root_does_not_follow_the_command_into_a_mount(who):
    """A mount point in what was moved home keeps its content and its mode, and brig ends."""
    if not who.is_root:
        pytest.skip("an ordinary user's brig has the user's own rights")
    lend(who)
    (who.ws / "proj" / "data").mkdir(parents=True)
    os.chown(who.ws / "proj", OWNER, OWNER)
    script = ('mount -t tmpfs -o mode=755,uid=%d t "$1/proj/data" && mkdir "$1/proj/data/keep" && '
              'chown %d "$1/proj/data/keep" && '
              '"$0" run --json --backend landlock --workspace "$1" -- sh -c \'mv proj $HOME/; echo $HOME\' >"$2"; '
              'h=$(find /tmp/brig-01* -name data -type d); ls "$h"; stat -c %%a "$h"' % (OWNER, OWNER))
    out = who.base / "out"
    p = subprocess.run(["unshare", "-m", "--propagation", "private", "sh", "-c", script, BRIG, who.ws, out],
                       stdout=subprocess.PIPE, text=True, timeout=20, env=who.env)
    home = json.loads(out.read_text())["stdout"].strip()
    try:
        assert p.stdout.split() == ["keep", "755"]
    finally:
        subprocess.run(["rm", "-rf", home], check=True)


def test_nobody_can_foresee_the_private_directory(who):
    """Who knows the id, as everybody does once a control group has it, does not know the name."""
    lend(who)
    a, b = (who.sh("echo $HOME", LANDLOCK).json for _ in range(2))
    for j in (a, b):
        secret = os.path.basename(j["stdout"].strip()).removeprefix("brig-%s-" % j["id"])
        assert len(secret) == 16 and int(secret, 16) >= 0, j["stdout"]
    assert a["stdout"][-17:] != b["stdout"][-17:]


@pytest.mark.parametrize("answer", ["renameat=EPERM", "unlinkat=EACCES"])
def test_a_private_directory_that_cannot_be_emptied_is_told_of(who, answer):
    """And does not keep brig for ever."""
    lend(who)
    p = who.popen([BRIG.parent / "tests/deny", answer, "--", BRIG, "run", "--json", "--workspace", who.ws, *LANDLOCK,
                   "--", "sh", "-c", "mkdir -p $HOME/a/b/c/d $HOME/e/f; echo $HOME"], stdout=subprocess.PIPE)
    j = json.loads(p.communicate(timeout=20)[0])
    home = j["stdout"].strip()
    assert j["exit"] == 0 and [d["target"] for d in j["denied"]] == [home], j
    subprocess.run(["rm", "-rf", home], check=True)
