# SPDX-License-Identifier: Apache-2.0
"""Every system call of brig's processes, failed one at a time.

A first run lists the calls of each process up to the command's execve (and, of
the supervisor, the custodian and init, to their end).  Then each of them fails
once, alone: role, name and occurrence pick exactly one call.  Either the
command still ran whole and confined, or nothing ran.
"""
import collections
import os
import shutil
import socket
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from fault import FULL_BASE, NET_SCENE, SCENE, TREE_BASE, ManyScene, Scene, TreeScene, run_scene, stayed_in_tmp, support
from harmless import HARMLESS, HARMLESS_NET, LATE, LOST, RACY, SOMETIMES

# How many runs at a time, and how long one may take.  They wait for the kernel (the end
# of namespaces) twice as long as they compute.
JOBS = 3 * (os.cpu_count() or 1)
HANG = 20

# Also with ENOMEM: calls that want memory or a descriptor.
MEMORY = {"brk", "clone", "clone3", "dup2", "fcntl", "fsmount", "fsopen", "ioctl", "landlock_create_ruleset", "mkdir",
          "mkdirat", "mmap", "mprotect", "open", "open_tree", "openat", "openat2", "pipe2", "signalfd4", "socket",
          "socketpair", "pidfd_open", "keyctl", "seccomp", "mount_setattr", "move_mount", "sendmsg"}
# Also with EINTR: calls that wait.
WAITS = {"poll", "ppoll", "read", "recvmsg", "wait4", "write", "sendmsg", "sendto"}

# A failure of these cannot be injected or belongs to nobody in brig.
SKIPPED = {
    "exit_group": "an exit that fails is followed by another",
    "exit": "the same",
    "arch_prctl": "the C library's first call: without thread pointer there is no main()",
    "set_tid_address": "the C library's, cannot fail",
}

# Calls of the supervisor in a tree that are made long before there is one.
SAME = {"readlink", "lstat", "stat", "newfstatat", "geteuid", "getegid", "brk", "getcwd", "faccessat2", "open"}

seen = {}
wordless = []


class Injected:
    def __init__(self, fault, outcome, report):
        self.fault, self.o = fault, outcome
        self.role, self.call, self.n, self.errno = fault
        self.hit = any(line.startswith("hit ") for line in report)
        self.left = [line for line in report if line.startswith(("left ", "hang"))]
        end = [line.split() for line in report if line.startswith("end ")]
        self.end = tuple(end[0][1:]) if end else None
        # the exit code of inject says nothing; brig's is in its report
        outcome.code = int(end[0][2]) if end and end[0][1] == "exit" else "signal %s" % end[0][2] if end else None

    def __repr__(self):
        return "%s:%s:%s:%s %r %s" % (*self.fault, self.o, self.left)


def one(inject, w, name, fault, extra, text=SCENE, plain=False, scene=None):
    scene = scene or Scene(w, name, extra, text, plain)
    report = scene.dir / "report"
    prefix = [inject, "-o", report, "-t", HANG, *(["-f", ":".join(fault)] if fault else ["-l"]), "--"]
    outcome = run_scene(scene, prefix, timeout=HANG + 20)
    lines = report.read_text().splitlines()
    if not os.environ.get("BRIG_KEEP"):
        scene.clear()
    return lines if fault is None else Injected(fault, outcome, lines), outcome


def calls_of(lines):
    return [tuple(x.split()[1:4]) for x in lines if x.startswith("call ")]


def listed(once, sound):
    """All calls of a few whole runs, and which of them there were in each: how often a loop
    looks again is another number every time.  once(i) gives lines and an outcome."""
    every = []
    for i in range(3):
        lines, outcome = once(i)
        assert sound(outcome), outcome
        every.append(calls_of(lines))
    calls = list(dict.fromkeys(c for run in every for c in run))
    return calls, set.intersection(*map(set, every))


def not_reached(results, steady):
    """Those whose call did not come, though it comes in every run."""
    return [r for r in results if not r.hit and (r.role, r.call, r.n) in steady]


def plan(calls):
    todo = []
    for role, call, n in calls:
        if call in SKIPPED:
            continue
        todo.append((role, call, n, "EPERM"))
        if call in MEMORY:
            todo.append((role, call, n, "ENOMEM"))
        if call in WAITS:
            todo.append((role, call, n, "EINTR"))
    return todo


def problems(r, required):
    found = list(r.left)
    p = r.o.problems(required)
    if not r.o.ran and (r.role, r.call) in LOST:
        # init ended after the release and before the command's first step
        p = [x for x in p if x not in ("nothing ran, exit 137", "nothing ran, ran:true")]
    if r.o.ran and (r.role, r.call) in LOST:
        # the command ran, confined; only how it ended is not known
        p = [x for x in p if x not in ("the command ran, exit 137", "the command ran, no result object")]
        if "the command ran, exit 125" in p and not r.o.json:
            p.remove("the command ran, exit 125")
    return found + p


@pytest.mark.parametrize("plain", [False, True], ids=["locked", "plain"])
def test_every_call_fails_once(who, inject, quarantine, plain):
    start = time.monotonic()
    # Root asks for every limit by name, so that each of them is required; an
    # ordinary user has no control group here.
    extra = ["--memory", "64M", "--pids", "64", "--cpus", "0.5"] if who.is_root else []
    required = FULL_BASE | ({"memory", "pids", "cpu"} if who.is_root else set())
    calls, steady = listed(lambda i: one(inject, who, "list%d" % i, None, extra, plain=plain),
                           lambda o: o.ran and not o.problems(required))
    # the others do the same in both
    todo = [x for x in plan(calls) if not plain or x[0] in ("builder", "job", "init")]
    results = []
    with ThreadPoolExecutor(JOBS) as pool:
        for r, _ in pool.map(lambda x: one(inject, who, "i%d" % x[0], x[1], extra, plain=plain), enumerate(todo)):
            results.append(r)
    bad = [(r, problems(r, required)) for r in results if problems(r, required)]
    wordless.extend((r, r.o.complaints()) for r in results if r.o.complaints())
    missed = not_reached(results, steady)
    ran = collections.Counter()
    for r in results:
        if r.hit:
            # a call that is repeated after EINTR is no failure
            if r.errno != "EINTR":
                seen.setdefault((r.role, r.call), set()).add("ran" if r.o.ran else "refused")
            ran["ran" if r.o.ran else "refused"] += 1
    print("\n%s: %d calls, %d failed one at a time (%d refused, %d harmless, %d not reached), %.0f s" % (
        who.name, len(calls), len(results), ran["refused"], ran["ran"], len(missed), time.monotonic() - start))
    # a failure may end a run sooner; anything more means the list is wrong
    assert len(missed) <= len(results) // 20, missed
    groups = quarantine.brig_groups()
    for g in groups:
        os.rmdir(g)
    # one that could not be removed stays; of a run that hung all were killed
    expected = sum(1 for r in results if r.call == "rmdir")
    if len(groups) > expected and not any(r.left for r in results):
        ids = {g.split("brig-")[-1] for g in groups}
        bad.append(("control groups", (groups, [r for r in results if r.o.json and r.o.json["id"] in ids])))
    assert not bad, "%d of %d:\n%s" % (len(bad), len(results), "\n".join("%r: %s" % b for b in bad))


# What the builder does about a tree.
MOUNTING = {"mkdirat", "mknodat", "move_mount", "open_tree_attr", "open_tree", "openat2", "fstat"}


@pytest.mark.parametrize("plain", [False, True], ids=["locked", "plain"])
def test_calls_about_many_trees_fail_once(who, inject, quarantine, plain):
    def run(x):
        i, fault = x
        return one(inject, who, None, fault, None, scene=ManyScene(who, "m%d" % i, plain), plain=plain)

    lines, outcome = run((0, None))
    assert outcome.ran and not outcome.problems(FULL_BASE), outcome
    todo = [x for x in plan(calls_of(lines)) if x[0] == "builder" and x[1] in MOUNTING]
    with ThreadPoolExecutor(JOBS) as pool:
        results = [r for r, _ in pool.map(run, enumerate(todo, 1))]
    bad = [(r, problems(r, FULL_BASE)) for r in results if problems(r, FULL_BASE)]
    bad += [(r, r.o.complaints()) for r in results if r.o.complaints()]
    missed = [r for r in results if not r.hit]
    for r in results:
        if r.hit and r.errno != "EINTR":
            seen.setdefault((r.role, r.call), set()).add("ran" if r.o.ran else "refused")
    print("\n%s, many trees: %d failed one at a time, %d refused, %d not reached" % (
        who.name, len(results), len([r for r in results if not r.o.ran]), len(missed)))
    assert len(missed) < len(results) // 2 and len(results) > 60, (len(results), missed)
    assert not bad, "%d of %d:\n%s" % (len(bad), len(results), "\n".join("%r: %s" % b for b in bad))


@pytest.mark.parametrize("backend", ["landlock", "bwrap"])
def test_every_call_of_a_tree_fails_once(who, inject, quarantine, account, backend):
    """The backends with a keeper: the supervisor, the keeper (to inject: a custodian) and the
    command's process up to its execve.  Whole and confined, or nothing ran; nothing stays."""
    if backend == "bwrap" and not shutil.which("bwrap"):
        pytest.skip("bubblewrap is not installed")
    start = time.monotonic()
    extra = ["--memory", "64M", "--pids", "64", "--cpus", "0.5"] if who.is_root else []
    required = TREE_BASE | ({"memory", "pids", "cpu"} if who.is_root else set()) | (
        {"landlock"} if backend == "landlock" else {"user", "mount", "pid"})
    before = set(os.listdir("/tmp"))

    def run(x):
        i, fault = x
        return one(inject, who, None, fault, None, scene=TreeScene(who, "t%s" % i, backend, account, extra))

    calls, steady = listed(lambda i: run(("list%d" % i, None)), lambda o: o.ran and not o.problems(required))
    # the C library's and the configuration's are the same in the test above
    todo = [x for x in plan(calls) if x[0] in ("custodian", "job") or x[1] not in SAME]
    with ThreadPoolExecutor(JOBS) as pool:
        results = [r for r, _ in pool.map(run, enumerate(todo, 1))]
    # what the keeper cannot tell is not known: the command ran, confined, and how it ended is lost
    lost = [r for r in results if (r.role, r.call, r.o.code) == ("custodian", "write", 137)]
    bad = [(r, p) for r in results for p in [problems(r, required)]
           if p and not (r in lost and p == ["the command ran, exit 137"])]
    bad += [(r, r.o.complaints()) for r in results if r.o.complaints()]
    missed = not_reached(results, steady)
    print("\n%s, %s: %d failed one at a time, %d refused, %d not reached, %.0f s" % (
        who.name, backend, len(results), len([r for r in results if not r.o.ran]), len(missed), time.monotonic() - start))
    assert len(missed) <= len(results) // 20, missed
    groups = quarantine.brig_groups()
    for g in groups:
        os.rmdir(g)
    if len(groups) > sum(1 for r in results if r.call == "rmdir") and not any(r.left for r in results):
        ids = {g.split("brig-")[-1] for g in groups}
        bad.append(("control groups", (groups, [r for r in results if r.o.json and r.o.json["id"] in ids])))
    # one that could not be removed stays, and is reported
    said = ["brig-" + r.o.json["id"] for r in results
            if r.o.json and any("could not be removed" in d["rule"] for d in r.o.json["denied"])]
    made = set(stayed_in_tmp(before | set(said)))
    for x in said:
        shutil.rmtree("/tmp/" + x, ignore_errors=True)
    if made:
        bad.append(("private directories", made))
    assert not bad, "%d of %d:\n%s" % (len(bad), len(results), "\n".join("%r: %s" % b for b in bad))


# How brig-egress confines itself before it reads a byte from inside.
CONFINES = {"prctl", "seccomp", "landlock_create_ruleset", "landlock_restrict_self", "setresuid", "setresgid",
            "setgroups", "capset", "prlimit64", "setrlimit", "close_range", "dup2", "umask"}


# Calls of the others that are about the network; files and memory fail in the test above.
SOCKETS = {"socket", "socketpair", "setsockopt", "bind", "listen", "getsockname", "sendto", "sendmsg", "recvfrom",
           "recvmsg", "ioctl", "setns", "unshare", "epoll_create1", "epoll_ctl", "clone", "vfork"}


@pytest.fixture
def trap():
    """A server on the machine's loopback that nobody inside may reach."""
    with socket.socket() as s:
        # below what the kernel gives out by itself: one of brig's own listeners inside, or the
        # connection itself, could have the same number and be taken for it
        for port in range(20000, 20200):
            try:
                s.bind(("127.0.0.1", port))
                break
            except OSError:
                continue
        s.listen(64)
        s.setblocking(False)
        yield s.getsockname()[1]
        with pytest.raises(BlockingIOError):
            s.accept()


def test_every_call_for_an_allow_list_fails_once(who, inject, quarantine, trap):
    """The calls that a run with an allow-list makes besides: of the process that sets
    up the network, where brig-egress confines itself, and wherever there are more of
    a kind than without.  No failure opens the network further."""
    if not (support.BRIG.parent / "brig-egress").exists():
        pytest.skip("brig-egress is not beside brig")
    start = time.monotonic()
    extra = ["--allow", "allowed.invalid:443,8443", "--allow", "192.0.2.7:80", "--env", "TRAP=%d" % trap]
    plain, _ = one(inject, who, "plain", None, [])
    every, steady = listed(
        lambda i: one(inject, who, "netlist%d" % i, None, extra, NET_SCENE),
        lambda o: o.ran and not o.problems(FULL_BASE) and any(d["target"] == "denied.invalid" for d in o.json["denied"]))
    before = collections.Counter(c[:2] for c in calls_of(plain))
    now = collections.Counter(c[:2] for c in every)
    calls = [c for c in every if c[0] == "netmaker" or (c[0] == "egress" and c[1] in CONFINES) or
             (now[c[:2]] > before[c[:2]] and c[0] in ("supervisor", "builder") and c[1] in SOCKETS)]
    roles = collections.Counter(c[0] for c in calls)
    assert roles["netmaker"] > 20 and roles["egress"] > 5 and roles["supervisor"] > 5, roles
    todo = [t for t in plan(calls) if t[3] != "EINTR"]
    results = []
    with ThreadPoolExecutor(JOBS) as pool:
        for r, _ in pool.map(lambda x: one(inject, who, "n%d" % x[0], x[1], extra, NET_SCENE), enumerate(todo)):
            results.append(r)
    bad = [(r, problems(r, FULL_BASE)) for r in results if problems(r, FULL_BASE)]
    ran = sorted({(r.role, r.call) for r in results if r.hit and r.o.ran and r.errno != "EINTR" and r.role != "egress"})
    missed = not_reached(results, steady)
    print("\n%s: %d calls for an allow-list, %d failures, %d refused, %d not reached, %.0f s" % (
        who.name, len(calls), len(results), len([r for r in results if not r.o.ran]), len(missed),
        time.monotonic() - start))
    assert not bad, "%d of %d:\n%s" % (len(bad), len(results), "\n".join("%r: %s" % b for b in bad))
    words = [(r, r.o.complaints()) for r in results if r.o.complaints()]
    assert not words, words
    new = [k for k in ran if k not in HARMLESS and k not in HARMLESS_NET]
    assert not new, "the command ran although these failed; say in harmless.py why that is right: %s" % new
    # what brig-egress does differs a little from run to run
    assert len(missed) <= len(results) // 10, missed


def test_every_refusal_says_what_and_how_to_fix_it():
    if not seen:
        pytest.skip("the injection itself did not run")
    assert not wordless, "%d refusals:\n%s" % (len(wordless), "\n".join("%s:%s:%s:%s %s" % (*r.fault, c)
                                                                       for r, c in wordless))


def test_harmless_calls_are_known():
    if not seen:
        pytest.skip("the injection itself did not run")
    new = sorted(k for k, v in seen.items() if "ran" in v and k not in HARMLESS and k not in LATE)
    known = [k for k in HARMLESS if k[0] not in RACY and k not in SOMETIMES]
    stale = sorted(k for k, v in seen.items() if "ran" not in v and k in known)
    gone = sorted(k for k in known if k not in seen) if support.IS_ROOT else []
    assert not new, "the command ran although these failed; say in harmless.py why that is right: %s" % new
    assert not stale, "listed as harmless, but brig refuses: %s" % stale
    assert not gone, "listed as harmless, but no longer made: %s" % gone
