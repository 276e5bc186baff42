# SPDX-License-Identifier: Apache-2.0
"""CONTAINMENT, class Resources: the sandbox's own limit is hit, nobody else's."""
import json
import os
import re
import signal
import subprocess
import tempfile
import time

import pytest

from conftest import BRIG, cgroup_dirs, wait_until


def limited(who, what):
    """SKIP where this machine gives this user no such control group."""
    probes = {p["name"]: p for p in who.brig("doctor", "--json").json["backends"]["native"]["probes"]}
    p = probes[what]
    if p["state"] != "ok":
        pytest.skip("%s for %s: %s" % (what, who.name, p["detail"][:120]))


# -- memory -------------------------------------------------------------------

def test_memory_bomb(who):
    limited(who, "memory limit")
    r = who.run("/opt/probe", "memory-bomb", "200",
                opts=["--memory", "64M", "--ro", "%s:/opt/probe" % who.probe_file])
    j = r.json
    assert j["ran"] and j["oom"] is True, j
    assert j["evidence"]["cgroup"].count("memory") == 1 and "memory" in j["enforced"]
    mem = [d for d in j["denied"] if d["kind"] == "memory"]
    assert len(mem) == 1 and mem[0]["count"] >= 1 and "--memory" in mem[0]["fix"]
    m = re.search(r"stopped after (\d+) MB", j["stdout"]) if isinstance(j["stdout"], str) else None
    if m:
        assert 30 <= int(m.group(1)) <= 64
    assert j["usage"]["max_rss_kb"] <= 66 * 1024
    assert cgroup_dirs(j["id"]) == []


SOCKETS = r"""
import socket
full, tx, held = [], socket.socket(socket.AF_INET, socket.SOCK_DGRAM), 0
for _ in range(500):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.bind(("127.0.0.1", 0)); s.setblocking(False); full.append(s)
    for _ in range(25):
        tx.sendto(b"x" * 16000, s.getsockname())
for s in full:
    try:
        while True: held += len(s.recv(16000))
    except BlockingIOError: pass
print(held >> 20)
"""


def test_memory_counts_what_sockets_hold(who):
    """With version 1 groups ten times the limit went into them."""
    limited(who, "memory limit")
    j = who.run("/usr/bin/python3", "-c", SOCKETS, opts=["--memory", "64M"]).json
    assert "memory" in j["enforced"], j
    assert j["oom"] or int(j["stdout"]) <= 64, j


ELSEWHERE = """
set -e
for c in memory cpu pids; do mkdir "$1/$c"; mount -t cgroup -o $c cgroup "$1/$c"; done
umount -R -l /sys/fs/cgroup
mount -t cgroup2 cgroup2 /sys/fs/cgroup
shift
exec "$@"
"""


def test_version_1_groups_in_an_unusual_place(who):
    """Version 2 is where everybody looks, and the controllers are in version 1, elsewhere: the command is in its
    groups, which are made before it then."""
    if not who.is_root:
        pytest.skip("mounts hierarchies: %s may not" % who.name)
    lines = [x.split(":")[1] for x in open("/proc/self/cgroup").read().splitlines()]
    if not {"memory", "cpu", "pids"} <= set(lines):
        pytest.skip("no version 1 hierarchy with memory, cpu and pids each alone")
    place = who.mkdir(who.home / "hierarchies")
    p = subprocess.run(["unshare", "-m", "--propagation", "private", "sh", "-c", ELSEWHERE, "sh", place, BRIG, "run",
                        "--json", "--workspace", who.ws, "--", "cat", "/proc/self/cgroup"],
                       capture_output=True, timeout=60)
    j = json.loads(p.stdout)
    assert j["ran"] and not j["missing"], (j, p.stderr)
    assert {"memory", "cpu"} <= set(j["evidence"]["cgroup"]) and {"memory", "cpu", "pids"} <= set(j["enforced"]), j
    assert cgroup_dirs(j["id"]) == []


def test_memory_too_small_to_start(who):
    """The kernel kills all that share the victim's memory: that must never be brig."""
    limited(who, "memory limit")
    j = who.run("/bin/true", *["x" * 100_000] * 12, opts=["--memory", "1M"]).json
    assert (j["exit"], j["signal"], j["oom"]) == (None, 9, True), j
    assert cgroup_dirs(j["id"]) == []


def test_memory_below_the_limit_is_fine(who):
    limited(who, "memory limit")
    j = who.run("/usr/bin/python3", "-c", "x = bytearray(20_000_000); print(len(x))",
                opts=["--memory", "64M"]).json
    assert (j["exit"], j["oom"], j["stdout"]) == (0, False, "20000000\n")
    assert j["usage"]["max_rss_kb"] > 20000


def test_memory_counts_shm_tmp_and_memfd(who):
    limited(who, "memory limit")
    for args in (["fill-memfd", "200"], ["fill", "200", "/dev/shm"], ["fill", "200", "/tmp"]):
        r = who.run("/opt/probe", *args, opts=["--memory", "48M", "--tmp-size", "300M", "--ro",
                                               "%s:/opt/probe" % who.probe_file])
        # stopped, and by that limit: the probe says so, or was killed with its children
        assert r.json["ran"] and (r.json["oom"] or r.json["stdout"].startswith("held: ")), r.json
        assert not r.json["stdout"].startswith("ESCAPED"), r.json["stdout"]


def test_memory_refused_where_it_cannot_be_enforced(user):
    probes = {p["name"]: p for p in user.brig("doctor", "--json").json["backends"]["native"]["probes"]}
    if probes["memory limit"]["state"] == "ok":
        pytest.skip("control groups are delegated to the ordinary user here")
    r = user.run(*user.ran_marker(), opts=["--memory", "64M"])
    r.refused(125, "LIMIT_UNENFORCEABLE", "--memory cannot be enforced here")
    assert r.json["ran"] is False and not user.marker.exists()
    assert r.json["error"]["fix"] and not r.json["error"]["fix"].endswith("echo PID")
    r = user.run(*user.ran_marker(), opts=["--cpus", "0.5"])
    r.refused(125, "LIMIT_UNENFORCEABLE", "--cpus cannot be enforced here")
    r = user.run(*user.ran_marker(), opts=["--require", "memory"])
    r.refused(125, "LIMIT_UNENFORCEABLE", "memory")
    assert not user.marker.exists()
    # not asked for by name: it runs, and says what is missing
    j = user.sh("echo ran").json
    assert j["stdout"] == "ran\n" and j["missing"] == ["memory", "cpu"]
    # no limit wanted: nothing is missing
    assert user.sh(":", ["--memory", "0", "--cpus", "0"]).json["missing"] == []


def test_unenforceable_fix_is_whole(user):
    """The command in the fix can be copied: not cut in the middle of a path."""
    r = user.run("true", opts=["--memory", "64M"])
    if r.code == 0:
        pytest.skip("control groups are delegated to the ordinary user here")
    fix = r.json["error"]["fix"]
    assert len(fix) < 500 and re.search(r"(\.procs|/tasks|delegat\w*|systemd\S*)\b", fix), fix


# -- processes ----------------------------------------------------------------

def test_fork_bomb(who):
    r = who.probe("fork-bomb", "200", opts=["--pids", "20"])
    n = int(re.search(r"stopped after (\d+) processes", r.json["stdout"]).group(1))
    assert 10 <= n <= 20
    assert "pids" in r.json["enforced"]


def test_fork_bomb_default_limit(who):
    r = who.probe("fork-bomb", "1000")
    n = int(re.search(r"stopped after (\d+) processes", r.json["stdout"]).group(1))
    assert 200 <= n <= 256


def test_fork_bomb_reported(who):
    """A limit that was hit is in `denied` when the kernel counts it."""
    r = who.probe("fork-bomb", "200", opts=["--pids", "20"])
    if r.json["evidence"]["cgroup"].count("pids"):
        d = [x for x in r.json["denied"] if x["kind"] == "pids"]
        assert len(d) == 1 and d[0]["count"] >= 1 and "--pids" in d[0]["fix"]
    else:
        assert r.json["evidence"]["rlimit_nproc"] == 20


def test_threads_count_too(who):
    r = who.run("/usr/bin/python3", "-c", "import threading,time\n"
                "n=0\n"
                "try:\n"
                "  while n<100:\n"
                "    threading.Thread(target=time.sleep,args=(5,),daemon=True).start(); n+=1\n"
                "except RuntimeError: pass\n"
                "import os; os.write(1, b'%d\\n' % n); os._exit(0)", opts=["--pids", "20"])
    assert 10 <= int(r.json["stdout"]) <= 20


def test_two_sandboxes_do_not_share_the_process_limit(who):
    """Both under one user: one at its limit must not starve the other."""
    p = who.popen([BRIG, "run", "--pids", "30", "--ro", "%s:/opt/probe" % who.probe_file, "--", "sh", "-c",
                   "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do sleep 3 & done; "
                   ": > ready; wait"])
    try:
        assert wait_until((who.ws / "ready").exists)
        out = who.ok("for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do sleep 0.2 & done; wait; echo fine",
                     ["--pids", "20"])
        assert out == "fine\n"
    finally:
        p.terminate()
        p.wait()


def test_recursive_fork_bomb_meets_its_deadline(who):
    # the shell that was started first must not be the one that cannot fork
    r = who.sh("(f() { f | f & }; f) & exec sleep 100", ["--pids", "60", "--timeout", "1.5"])
    assert r.json["ran"] and r.code == 124
    assert r.seconds < 4
    assert who.ok("echo calm") == "calm\n"


BOMBS = {"processor": "while :; do :; done & while :; do :; done & while :; do :; done & wait",
         "processes": "f() { f | f & }; f; sleep 100",
         "memory": "while :; do head -c 40000000 /dev/zero | tail >/dev/null; done",
         "tmp": "while :; do cat /dev/zero >/tmp/x; cat /dev/zero >/dev/shm/x; done 2>/dev/null"}


def test_neighbours_do_not_notice(who):
    """Four sandboxes at their limits; others start and end beside them."""
    bombs = [who.popen([BRIG, "run", "--timeout", "30", "--tmp-size", "16M", "--pids", "50", "--", "sh", "-c", text],
                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
             for text in BOMBS.values()]
    try:
        time.sleep(1)
        for i in range(10):
            r = who.sh("echo $((6 * 7)) >/tmp/x; cat /tmp/x; sleep 0.01 & wait")
            assert r.code == 0 and r.json["stdout"] == "42\n" and not r.json["denied"], (i, r.json)
            assert r.seconds < 5, (i, r.seconds)
        assert [b.poll() for b in bombs] == [None] * len(bombs), list(BOMBS)
    finally:
        for b in bombs:
            b.terminate()
            b.wait(10)


def test_zombies_do_not_pile_up(who):
    who.probe("orphans", "1500", opts=["--pids", "30"])


# -- files --------------------------------------------------------------------

@pytest.mark.parametrize("where", ["/tmp", "/var/tmp", "/dev/shm", "HOME"])
def test_private_trees_are_limited(who, where):
    place = str(who.home) if where == "HOME" else where
    r = who.probe("fill", "8", place, opts=["--tmp-size", "1M"])
    assert re.search(r"is full after [01] MB", r.json["stdout"])


def test_private_trees_share_one_limit(who):
    r = who.sh("head -c 700000 /dev/zero > /tmp/a; head -c 700000 /dev/zero > /dev/shm/b || echo full",
               ["--tmp-size", "1M"])
    assert r.json["stdout"] == "full\n"


def test_tmp_size_that_fits(who):
    assert who.ok("head -c 3000000 /dev/zero > /tmp/a && wc -c < /tmp/a", ["--tmp-size", "4M"]) == "3000000\n"


def test_inodes_are_limited(who):
    who.probe("fill-inodes", "60000", opts=["--tmp-size", "1M", "--timeout", "30"])


def test_root_and_dev_take_no_data(who):
    r = who.sh("for d in / /dev /etc /run /var /home; do (head -c 100000 /dev/zero > $d/fill) 2>/dev/null "
               "&& echo wrote $d; done; echo end")
    assert r.json["stdout"] == "end\n"


def test_file_size(who):
    who.probe("file-size", "3", str(who.ws), opts=["--file-size", "2M"])
    r = who.sh("head -c 3000000 /dev/zero > big; wc -c < big", ["--file-size", "2M"])
    assert r.json["stdout"] == "%d\n" % (2 << 20)
    assert (who.ws / "big").stat().st_size == 2 << 20
    assert who.ok("head -c 3000000 /dev/zero > big2; wc -c < big2", ["--file-size", "0"]) == "3000000\n"


def test_file_size_of_the_command_not_of_brig(who):
    """brig writes files of its own while it builds the sandbox."""
    assert who.sh("echo ran", opts=["--file-size", "1"]).json["stdout"] == "ran\n"


def test_smallest_number_of_processes(who):
    """The helper that makes the network is none of the command's, with covered paths and without."""
    for ws in (False, True):
        if ws:
            who.mkdir(who.ws / ".git/hooks")
        assert who.sh("echo ran", opts=["--pids", "2"]).json["stdout"] == "ran\n"


def test_file_size_stops_with_a_signal(who):
    r = who.run("dd", "if=/dev/zero", "of=big", "bs=1M", "count=3", opts=["--file-size", "1M"])
    assert (r.code, r.json["signal"]) == (128 + 25, 25)


# -- time and output ----------------------------------------------------------

@pytest.mark.prompt
def test_processor_limit(who):
    limited(who, "processor limit")
    j = who.run("/usr/bin/python3", "-c", "import time\nend = time.monotonic() + 1.5\n"
                "while time.monotonic() < end: pass\nprint(time.process_time())",
                opts=["--cpus", "0.2"]).json
    assert 0.1 <= float(j["stdout"]) <= 0.6, j["stdout"]
    assert 100 <= j["usage"]["cpu_ms"] <= 700, j["usage"]


@pytest.mark.prompt
def test_processor_time_is_known_after_a_timeout(who):
    j = who.sh("while :; do :; done", ["--timeout", "0.6"]).json
    assert j["timed_out"] and 250 <= j["usage"]["cpu_ms"] <= 1000, j["usage"]


@pytest.mark.prompt
def test_processor_time_of_what_was_left_running(who):
    j = who.sh("(while :; do :; done) & sleep 0.5").json
    assert 200 <= j["usage"]["cpu_ms"] <= 1000, j["usage"]


def test_processor_time_of_one_whom_nobody_waits_for(who):
    """His parent ignores SIGCHLD: only the group has counted him."""
    j = who.run("/opt/probe", "unreaped", "500", opts=["--ro", "%s:/opt/probe" % who.probe_file]).json
    assert j["exit"] == 0, j
    v2 = os.path.exists("/sys/fs/cgroup/cgroup.controllers")
    if "cpu" not in j["enforced"] or not (v2 or os.path.samefile("/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpuacct")):
        pytest.skip("no group here counts processor time and has the command in it")
    assert 450 <= j["usage"]["cpu_ms"] <= 3000, j["usage"]


def test_output_flood_does_not_grow_brig(who):
    p = who.popen([BRIG, "run", "--json", "--max-output", "4K", "--timeout", "1.5", "--", "yes"],
                  stdout=subprocess.PIPE)
    peak = 0
    while p.poll() is None:
        try:
            with open("/proc/%d/status" % p.pid) as f:
                m = re.search(r"VmHWM:\s+(\d+) kB", f.read())
            peak = max(peak, int(m.group(1)) if m else 0)
        except OSError:
            pass
        time.sleep(0.05)
    j = json.loads(p.stdout.read())
    p.stdout.close()
    assert p.returncode == 124 and len(j["stdout"]) == 4096
    assert j["truncated"]["stdout"] > 10_000_000
    assert 0 < peak < 16 * 1024, peak


def test_output_probe_is_complete(who):
    r = who.brig("run", "--ro", "%s:/opt/probe" % who.probe_file, "--", "/opt/probe", "output", "10")
    assert r.code == 0 and len(r.raw) == 10 << 20


def test_slow_reader_does_not_lose_output(who):
    p = who.popen([BRIG, "run", "--", "sh", "-c", "seq 1 200000"], stdout=subprocess.PIPE)
    time.sleep(0.4)
    out = p.communicate(timeout=20)[0]
    assert p.returncode == 0 and out.endswith(b"\n200000\n") and out.count(b"\n") == 200000


def test_descriptor_flood(who):
    r = who.run("/usr/bin/python3", "-c", "import os\nfds=[]\n"
                "try:\n  while True: fds.append(os.open('/dev/null', 0))\n"
                "except OSError as e: print(e.errno)", opts=["--timeout", "20"])
    assert r.json["stdout"] == "24\n"


def test_caller_with_few_descriptors(who):
    import resource
    r = who.run("echo", "ok", preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (48, 48)))
    assert r.code == 0 and r.json["stdout"] == "ok\n", r
    r = who.brig("run", "--", "echo", "ok",
                 preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (6, 6)))
    assert r.code in (0, 125), r
    if r.code == 125:
        assert r.err.count("\n") == 1 and r.err.startswith("brig: ")


def test_no_cgroup_is_left_by_a_crowd(who):
    ps = [who.popen([BRIG, "run", "--json", "--timeout", "3", "--", "sh", "-c", "sleep 0.1"],
                    stdout=subprocess.PIPE) for _ in range(10)]
    ids = [json.loads(p.communicate(timeout=20)[0])["id"] for p in ps]
    assert len(set(ids)) == 10
    for i in ids:
        assert cgroup_dirs(i) == []


# -- version 1 groups are slots that are used again ---------------------------------

def version_1(who):
    limited(who, "memory limit")
    if os.path.exists("/sys/fs/cgroup/cgroup.controllers"):
        pytest.skip("slots are version 1's")


def test_files_of_a_run_before_are_not_in_the_next_ones_limit(who):
    """A tmpfs of the host's keeps them, and they count for the group that wrote them."""
    version_1(who)
    with tempfile.TemporaryDirectory(dir="/dev/shm") as shm:
        os.chmod(shm, 0o777)
        r = who.brig("run", "--json", "--workspace", shm, "--at", "/workspace", "--memory", "200M", "--", "sh", "-c",
                     "head -c 100M /dev/zero >big")
        assert r.json["exit"] == 0, r
        for _ in range(3):
            r = who.sh("exit 7", ["--memory", "64M"])
            assert r.json["exit"] == 7 and "memory" in r.json["enforced"], r


def test_the_keeper_of_a_killed_brig_leaves_the_next_run_alone(who):
    """It has the slots until its tree is gone: the next run takes others."""
    version_1(who)
    if not who.is_root:
        pytest.skip("root's groups")
    os.chown(who.ws, 12345, 12345)
    words = [BRIG, "run", "--backend", "landlock", "--workspace", who.ws, "--"]
    def children(pid):
        return [int(x) for x in open("/proc/%d/task/%d/children" % (pid, pid)).read().split()]

    first = who.popen([*words, "sh", "-c", ": >up; exec sleep 100"])
    assert wait_until((who.ws / "up").exists)
    kids = children(first.pid)
    assert len(kids) == 1, "the keeper"
    command = children(kids[0])
    assert len(command) == 1, command
    os.kill(kids[0], signal.SIGSTOP)
    try:
        first.kill()
        first.wait()
        # nobody is in the slot any more, and the keeper has not cleaned up
        os.kill(command[0], signal.SIGKILL)
        time.sleep(0.2)
        second = who.popen([*words, "sh", "-c", ": >up2; sleep 1; exit 3"])
        assert wait_until((who.ws / "up2").exists)
    finally:
        os.kill(kids[0], signal.SIGCONT)
    assert second.wait(20) == 3
    assert wait_until(lambda: not os.path.exists("/proc/%d" % kids[0]), 5)
