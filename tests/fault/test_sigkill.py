# SPDX-License-Identifier: Apache-2.0
"""The supervisor dies: of SIGKILL at any instant, with its terminal, with its
process group.  Nothing may stay, and what was planted is moved aside."""
import collections
import fcntl
import json
import os
import pty
import random
import shutil
import signal
import subprocess
import termios
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from fault import FULL_BASE, TREE_BASE, Scene, TreeScene, mounts, run_scene, stayed_in_tmp, support, wait_until

KILLS = int(os.environ.get("BRIG_KILLS", "1000"))  # per user
SPREAD = 0.006


def children(pid):
    try:
        with open("/proc/%d/task/%d/children" % (pid, pid)) as f:
            return [int(x) for x in f.read().split()]
    except OSError:
        return []


def comm(pid):
    try:
        with open("/proc/%d/comm" % pid) as f:
            return f.read().strip()
    except OSError:
        return ""


PHASES = ["prepares", "builds", "job waits", "command runs", "ended"]


def phase(p):
    """How far the supervisor has got, a moment before it is killed."""
    kids = children(p.pid)
    inner = [comm(c) for k in kids for c in children(k)]
    if any(c and not c.startswith("brig") for c in inner):
        return "command runs"
    if inner and any(comm(k) == "brig-init" for k in kids):
        return "job waits"
    if kids:
        return "builds"
    return "ended" if p.poll() is not None else "prepares"


def in_proc(needle):
    return support.survivors(needle)


def test_sigkill_at_any_instant(who, quarantine):
    mark = "31337.%d" % random.SystemRandom().randrange(10 ** 9)
    before, rng, got = mounts(), random.Random(31337), collections.Counter()
    begin = time.monotonic()
    for i in range(KILLS):
        # spread evenly, then shuffled by a jitter: every phase is hit often
        delay = (i % 100 + rng.random()) / 100 * SPREAD
        p = who.popen([support.BRIG, "run", "--workspace", who.ws, "--timeout", "30", "--", "/bin/sleep", mark],
                      stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        end = time.perf_counter() + delay
        if delay > 0.0003:
            time.sleep(delay - 0.0002)
        while time.perf_counter() < end:
            pass
        got[phase(p)] += 1
        p.kill()
        p.wait()
    last = time.monotonic()
    print("\n%s: %d kills in %.0f s: %s" % (who.name, KILLS, last - begin,
                                           ", ".join("%s %d" % (x, got[x]) for x in PHASES)))
    quarantine.assert_empty(3.0)
    assert wait_until(lambda: not in_proc(mark), max(0.1, 3 - (time.monotonic() - last))), in_proc(mark)
    assert mounts() == before
    print("%s: clean %.2f s after the last" % (who.name, time.monotonic() - last))
    if KILLS >= 500:
        for x in ("prepares", "builds", "command runs"):
            assert got[x] >= KILLS // 100, "the instants do not cover %r: %s" % (x, got)


@pytest.mark.parametrize("backend", ["landlock", "bwrap"])
def test_sigkill_of_a_tree_at_any_instant(who, quarantine, account, backend):
    """Where there is no pid namespace of brig's making the keeper ends all of it: what has
    a session of its own, the private directory, the groups; and sweeps."""
    if backend == "bwrap" and not shutil.which("bwrap"):
        pytest.skip("bubblewrap is not installed")
    if who.is_root:
        os.chown(who.ws, *account)  # these backends refuse what belongs to root
    mark = "31338.%d" % random.SystemRandom().randrange(10 ** 9)
    spread = {"landlock": 0.01, "bwrap": 0.03}[backend]
    rng, kills, ran = random.Random(31338), max(KILLS // 5, 20), 0
    before = set(os.listdir("/tmp"))
    for i in range(kills):
        delay = (i % 50 + rng.random()) / 50 * spread
        p = who.popen([support.BRIG, "run", "--workspace", who.ws, "--backend", backend, "--timeout", "30", "--", "/bin/sh",
                       "-c", "(setsid sleep %s >/dev/null 2>&1 &); echo x > .envrc; : > ran; exec sleep %s" % (mark, mark)],
                      stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        end = time.perf_counter() + delay
        if i % 10 == 9:  # now and then surely while it runs
            wait_until((who.ws / "ran").exists, 5)
        while time.perf_counter() < end:
            pass
        p.kill()
        p.wait()
        # to the next run it would be a file that was there before
        assert wait_until(lambda: not quarantine.reap() and not (who.ws / ".envrc").exists(), 5), "what was planted stayed"
        ran += (who.ws / "ran").exists()
        (who.ws / "ran").unlink(missing_ok=True)
    quarantine.assert_empty(5.0)
    assert wait_until(lambda: not in_proc(mark), 3), in_proc(mark)
    assert not stayed_in_tmp(before)
    print("\n%s, %s: %d kills, in %d of them the command ran" % (who.name, backend, kills, ran))
    assert ran >= kills // 20


# -- at every call, not only at any instant ----------------------------------------

def held_and_killed(who, inject, roles, plain=False, make=None, required=FULL_BASE):
    """Each call of these processes in turn: held there while the others (the
    command, when it is released) go on without it; then killed."""
    def one(name, fault):
        scene = make(name) if make else Scene(who, name, plain=plain)
        report = scene.dir / "report"
        what = [*(["-f", fault] if fault else ["-l"])]
        out = run_scene(scene, [inject, "-o", report, "-t", 20, *what, "--"], timeout=40)
        lines = report.read_text().splitlines()
        end = [x.split() for x in lines if x.startswith("end ")]
        out.code = int(end[0][2]) * (-1 if end[0][1] == "signal" else 1) if end else None
        scene.clear()
        return lines, out

    lines, out = one("list", None)
    assert out.ran and not out.problems(required), out
    calls = [x.split()[1:4] for x in lines if x.startswith("call ") and x.split()[1] in roles]
    # who waits awake (watch_linger()) makes these as often as there is time for: no two runs are alike
    again = {"poll", "sched_yield"}
    todo = [":".join([*c, "KILL"]) for c in calls if c[1] not in ("exit_group", "exit") and
            not (c[1] in again and int(c[2]) > 4)]
    begin, results = time.monotonic(), []
    with ThreadPoolExecutor(4 * (os.cpu_count() or 1)) as pool:
        for fault, (lines, out) in zip(todo, pool.map(lambda x: one("k%d" % x[0], x[1]), enumerate(todo))):
            if any(x.startswith("hit ") for x in lines):
                results.append((fault, out, [x for x in lines if x.startswith(("left", "hang"))]))
    print("\n%s: %s killed at each of %d calls, at %d of them the command ran, %.0f s" % (
        who.name, "/".join(roles), len(results), sum(o.ran for _, o, _ in results), time.monotonic() - begin))
    assert len(results) >= len(todo) * 0.95
    return results


def judge(results, wrong, quarantine):
    bad = ["%s (the command %s): %s" % (f, "ran" if o.ran else "never ran", left + wrong(o))
           for f, o, left in results if left + wrong(o)]
    groups = quarantine.brig_groups()
    if groups:
        bad.append("control groups: %s" % groups)
    assert not bad, "%d of %d:\n%s" % (len(bad), len(results), "\n".join(bad))


def test_supervisor_killed_at_every_call(who, inject, quarantine):
    """Nothing stays, and what the command planted is moved aside, by the custodian."""
    results = held_and_killed(who, inject, ["supervisor"])
    judge(results, lambda o: o.violations + ([] if o.code == -9 else ["exit %s" % o.code]), quarantine)


@pytest.mark.parametrize("plain", [False, True], ids=["locked", "plain"])
def test_another_process_killed_at_every_call(who, inject, quarantine, plain):
    """Before the release: 125.  After it: the result says what is known."""
    def wrong(o):
        p = o.problems()
        if o.ran and o.code == 137 and o.json and o.json["signal"] == 9:
            p.remove("the command ran, exit 137")
        # released, then killed before its execve: that looks like a command that was killed
        if not o.ran and o.code == 137 and o.json and o.json["signal"] == 9:
            p = [x for x in p if x not in ("nothing ran, exit 137", "nothing ran, ran:true")]
        return p

    roles = ["builder", "init", "job", "custodian", "netmaker", "idholder"]
    results = held_and_killed(who, inject, roles[:3] if plain else roles, plain)
    judge(results, wrong, quarantine)


# To inject the keeper is what the custodian is in the native backend.

@pytest.fixture(params=["landlock", "bwrap"])
def tree_scene(request, who, account):
    if request.param == "bwrap" and not shutil.which("bwrap"):
        pytest.skip("bubblewrap is not installed")

    def make(name):
        return TreeScene(who, name, request.param, account)

    before = set(os.listdir("/tmp"))
    yield make
    assert not stayed_in_tmp(before)


def test_tree_supervisor_killed_at_every_call(who, inject, quarantine, tree_scene):
    """The keeper ends the tree, sweeps, and removes the private directory and the groups."""
    results = held_and_killed(who, inject, ["supervisor"], True, tree_scene, TREE_BASE)
    judge(results, lambda o: o.violations + ([] if o.code == -9 else ["exit %s" % o.code]), quarantine)


def test_tree_others_killed_at_every_call(who, inject, quarantine, tree_scene):
    """Before the release: 125.  After it: the result says what is known."""
    def wrong(o):
        p = o.problems(TREE_BASE)
        if o.ran and o.code == 137 and o.json and o.json["signal"] == 9:
            p.remove("the command ran, exit 137")
        # released, then killed before its execve: that looks like a command that was killed
        if not o.ran and o.code == 137 and o.json and o.json["signal"] == 9:
            p = [x for x in p if x not in ("nothing ran, exit 137", "nothing ran, ran:true")]
        return p

    results = held_and_killed(who, inject, ["custodian", "job"], True, tree_scene, TREE_BASE)
    judge(results, wrong, quarantine)
    # it makes itself the keeper by these: not before that is anything released
    office = [o for f, o, _ in results if f.startswith("custodian:prctl:")]
    assert len(office) == 3 and not any(o.ran or (o.json and o.json["ran"]) for o in office), office


# -- a command that has planted a protected file -----------------------------------

PLANT = "echo evil > .envrc; mkdir -p .git/hooks; echo evil > .git/hooks/post-checkout; : > marker; exec sleep 600"


def plant(who, **kw):
    p = who.popen([support.BRIG, "run", "--workspace", who.ws, "--", "/bin/sh", "-c", PLANT],
                  stdin=kw.pop("stdin", subprocess.DEVNULL), stdout=kw.pop("stdout", subprocess.DEVNULL),
                  stderr=kw.pop("stderr", subprocess.DEVNULL), **kw)
    assert wait_until(who.marker.exists, 5)
    assert (who.ws / ".envrc").exists()
    return p


def swept(who):
    return not os.path.lexists(who.ws / ".envrc") and not os.path.lexists(who.ws / ".git/hooks/post-checkout")


def moved_aside(who):
    return [p for p in who.ws.rglob("*envrc*")]


def test_planted_files_are_moved_when_the_supervisor_is_killed(who):
    p = plant(who)
    p.kill()
    p.wait()
    assert wait_until(lambda: swept(who), 2), sorted(who.ws.rglob("*"))
    assert moved_aside(who), "moved aside, not deleted"


def test_kill_of_the_process_group(who):
    p = plant(who, start_new_session=True)
    os.killpg(p.pid, signal.SIGKILL)
    p.wait()
    assert wait_until(lambda: swept(who), 2), sorted(who.ws.rglob("*"))


def test_kill_of_the_whole_session(who):
    """As a service manager does it: every process of the session it can see."""
    p = plant(who, start_new_session=True)
    for pid in os.listdir("/proc"):
        try:
            if pid.isdigit() and os.getsid(int(pid)) == p.pid:
                os.kill(int(pid), signal.SIGKILL)
        except OSError:
            pass
    p.wait()
    assert wait_until(lambda: swept(who), 2), sorted(who.ws.rglob("*"))


@pytest.mark.parametrize("sig", [signal.SIGHUP, signal.SIGTERM, signal.SIGINT, signal.SIGQUIT])
def test_signals_that_end(who, sig):
    """Forwarded to the command; brig ends after it, and cleans up itself."""
    p = plant(who)
    p.send_signal(sig)
    assert p.wait(5) == 128 + sig
    assert swept(who), "brig has ended and the file is still there"


def test_terminal_closed(who):
    master, slave = pty.openpty()

    def lead():
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    os.fchown(slave, who.uid, who.gid)
    p = plant(who, stdin=slave, stdout=slave, stderr=slave, preexec_fn=lead)
    os.close(slave)
    os.close(master)
    assert p.wait(5) in (129, -signal.SIGHUP)
    assert wait_until(lambda: swept(who), 2), sorted(who.ws.rglob("*"))


def test_terminal_closed_with_pty(who):
    master, slave = pty.openpty()

    def lead():
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    os.fchown(slave, who.uid, who.gid)
    p = who.popen([support.BRIG, "run", "--pty", "--workspace", who.ws, "--", "/bin/sh", "-c", PLANT],
                  stdin=slave, stdout=slave, stderr=slave, preexec_fn=lead)
    os.close(slave)
    assert wait_until(who.marker.exists, 5)
    os.close(master)
    assert p.wait(5) in (129, -signal.SIGHUP)
    assert wait_until(lambda: swept(who), 2), sorted(who.ws.rglob("*"))


# -- the others die (docs/architecture.md, "What happens if each one dies") --------

def roles(p):
    """Pids of custodian, init and command of a running brig."""
    found = {}
    for k in children(p.pid):
        found["init" if comm(k) == "brig-init" else "custodian"] = k
    for c in children(found.get("init", 0)):
        found["command"] = c
    return found


def running(who):
    r, w = os.pipe()
    p = who.popen([support.BRIG, "run", "--status-fd", str(w), "--workspace", who.ws, "--", "/bin/sh", "-c", PLANT],
                  stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, pass_fds=(w,))
    os.close(w)
    assert wait_until(who.marker.exists, 5)
    assert wait_until(lambda: len(roles(p)) == 3, 2), roles(p)
    return p, os.fdopen(r), roles(p)


def test_custodian_killed(who):
    p, r, pids = running(who)
    os.kill(pids["custodian"], signal.SIGKILL)
    time.sleep(0.1)
    assert p.poll() is None, "the death of the custodian changes nothing"
    os.kill(pids["command"], signal.SIGTERM)
    assert p.wait(5) == 128 + signal.SIGTERM
    js = json.load(r)
    assert js["ran"] and js["signal"] == signal.SIGTERM and swept(who)


def test_init_killed(who):
    p, r, pids = running(who)
    os.kill(pids["init"], signal.SIGKILL)
    assert p.wait(5) == 128 + signal.SIGKILL
    js = json.load(r)
    assert js["ran"] and js["signal"] == signal.SIGKILL and swept(who)
    assert comm(pids["command"]) == ""


def test_supervisor_stopped_then_killed(who):
    p = plant(who)
    p.send_signal(signal.SIGSTOP)
    time.sleep(0.05)
    p.kill()
    p.wait()
    assert wait_until(lambda: swept(who), 2), sorted(who.ws.rglob("*"))


def test_custodian_stopped_cannot_hold_brig(who):
    """Somebody of the same user stops it: brig itself still ends."""
    p, r, pids = running(who)
    os.kill(pids["custodian"], signal.SIGSTOP)
    os.kill(pids["command"], signal.SIGTERM)
    assert p.wait(5) == 128 + signal.SIGTERM
    r.close()
    assert swept(who)
