# SPDX-License-Identifier: Apache-2.0
"""A storm of forks under every tier: the limit holds, and nothing is left after the deadline.

Every run is inside a version 1 pids group of 300 that the test makes, so that a failure
cannot take the machine with it.  No storm is ever started outside of such a group."""
import json
import os
import re
import secrets
import signal
import subprocess
import time

import pytest

import containment
from conftest import BRIG, IS_ROOT, make_who, survivors, wait_until

CAP = 300
PIDS = "/sys/fs/cgroup/pids"
TIERS = {"native": ["--backend", "native"], "landlock": ["--backend", "landlock"],
         "bwrap": ["--backend", "bwrap"], "none": ["--backend", "none"],
         "wrapper": ["--backend", "wrapper", "--wrapper", "exec env {command}"]}
TREES = ["landlock", "none", "wrapper"]  # without a pid namespace
TIMEOUT = 1.0
GRACE = 2.0  # seconds from the deadline until nothing is left


class Capped:
    """A pids group of the test's own."""

    def __init__(self):
        self.dir = "%s/storm-%s" % (PIDS, secrets.token_hex(6))
        os.mkdir(self.dir)
        with open(self.dir + "/pids.max", "w") as f:
            f.write("%d" % CAP)
        with open(self.dir + "/pids.max") as f:
            assert f.read() == "%d\n" % CAP
        # who opened it is what counts: whoever enters may be an ordinary user by then
        self.enter_fd = os.open(self.dir + "/tasks", os.O_WRONLY)

    def enter(self):
        os.write(self.enter_fd, b"0")

    def members(self):
        found = []
        for top, _, _ in os.walk(self.dir):
            try:
                with open(top + "/cgroup.procs") as f:
                    found += [int(x) for x in f.read().split()]
            except OSError:
                pass  # brig has removed it
        return found

    def end(self):
        """Kills whoever is in there, and removes it with the slots below it."""
        os.close(self.enter_fd)
        for _ in range(200):
            for top, _, _ in os.walk(self.dir, topdown=False):
                try:
                    with open(top + "/pids.max", "w") as f:
                        f.write("0")
                except OSError:
                    pass
            for pid in self.members():
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            try:
                for top, _, _ in os.walk(self.dir, topdown=False):
                    os.rmdir(top)
                return
            except OSError:
                time.sleep(0.02)
        raise AssertionError("processes of a storm cannot be ended: %r" % self.members())


@pytest.fixture
def capped():
    if not IS_ROOT or not os.path.exists(PIDS + "/cgroup.procs"):
        pytest.skip("a storm takes a version 1 pids group, made by root, around it")
    group = Capped()
    yield group
    group.end()


@pytest.fixture(params=["root", "user"])
def caller(request, base, account):
    if not IS_ROOT:
        pytest.skip("not root: a storm takes a pids group around it")
    w = make_who("user", base, account)
    if request.param == "root":
        w.as_user = lambda: {}
        w.env["XDG_STATE_HOME"] = str(w.home)
    w.is_root = request.param == "root"
    yield w
    assert wait_until(lambda: not survivors(str(w.base))), survivors(str(w.base))


def need_tier(name):
    if name == "bwrap" and containment.BACKENDS["bwrap"].absent():
        pytest.skip(containment.BACKENDS["bwrap"].absent())


def command(who, tier, *opts):
    """brig's words, as far as the probe; none and wrapper hide nothing, and refuse to be asked to show it."""
    show = [] if tier in ("none", "wrapper") else ["--ro", who.probe_file]
    return [BRIG, "run", "--json", "--workspace", who.ws, *TIERS[tier], *show, "--env", "PROBE_UNCONFINED=1", *opts,
            "--", who.probe_file]


@pytest.mark.prompt
@pytest.mark.parametrize("kind", ["plain", "sessions", "comet", "nest"])
@pytest.mark.parametrize("tier", TIERS)
def test_nothing_is_left_of_a_storm(caller, capped, tier, kind):
    need_tier(tier)
    begin = time.monotonic()
    p = caller.popen([*command(caller, tier, "--timeout", str(TIMEOUT)), "storm", kind], stdin=subprocess.DEVNULL,
                     stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=capped.enter)
    most = 0
    try:
        while time.monotonic() - begin < TIMEOUT + GRACE + 1 and p.poll() is None:
            most = max(most, len(capped.members()))
            time.sleep(0.05)
        left = wait_until(lambda: not capped.members(), 0.2) or capped.members()
        took = time.monotonic() - begin
        assert left is True, (len(left), took, most)
        out, err = p.communicate(timeout=10)
    finally:
        p.kill()
        p.wait()
    j = json.loads(out)
    print(tier, kind, "most", most, "took %.2f" % took)
    assert p.returncode == 124 and j["timed_out"], (j, err)
    assert took < j["usage"]["setup_us"] / 1e6 + TIMEOUT + GRACE, took


@pytest.mark.parametrize("tier", TREES)
def test_a_limit_on_processes_holds(caller, capped, tier):
    """As many processes as the policy says, whatever else the user runs; and it is claimed on evidence.  Without
    a group a limit that nobody named leaves room for what the user starts later: 1,024 processes."""
    crowd = [caller.popen(["sleep", "30"], stdin=subprocess.DEVNULL) for _ in range(7)]
    try:
        for opts, low, high in (((), 200, 256), (("--pids", "20"), 17, 20)):
            p = caller.popen([*command(caller, tier, *opts), "fork-bomb", "280"], stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE, preexec_fn=capped.enter)
            j = json.loads(p.communicate(timeout=30)[0])
            assert "pids" in j["enforced"] and "pids" not in j["missing"], j
            if not opts and "pids" not in j["evidence"]["cgroup"]:
                assert 1024 <= j["evidence"]["rlimit_nproc"] < 1024 + 256, j
                continue
            assert "pids" in j["evidence"]["cgroup"] or j["evidence"]["rlimit_nproc"] >= high, j
            n = int(re.search(r"stopped after (\d+) processes", j["stdout"]).group(1))
            assert low <= n <= high, n
    finally:
        for p in crowd:
            p.kill()
            p.wait()


def test_no_limit_for_root_without_a_group(base, account):
    """Root of the machine is not held by RLIMIT_NPROC: without a group it is missing, and refused by name."""
    if not IS_ROOT:
        pytest.skip("not root")
    w = make_who("user", base, account)
    w.as_user = lambda: {}
    w.env["XDG_STATE_HOME"] = str(w.home)
    nothing = ["unshare", "--mount", "--propagation", "private", "sh", "-c",
               "mount -t tmpfs tmpfs /sys/fs/cgroup && exec \"$@\"", "sh"]

    def run(*opts):
        p = w.popen([*nothing, BRIG, "run", "--json", "--workspace", w.ws, *opts, "--", *w.ran_marker()],
                    stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        return json.loads(p.communicate(timeout=30)[0])

    j = run(*TIERS["none"])
    assert j["ran"] and "pids" in j["missing"] and "pids" not in j["enforced"], j
    w.marker.unlink()
    for more in (["--pids", "20"], ["--require", "pids"]):
        j = run(*TIERS["none"], *more)
        assert not j["ran"] and j["error"]["code"] == "LIMIT_UNENFORCEABLE", j
        assert not w.marker.exists()
    # there the command has an ordinary user's id
    j = run(*TIERS["landlock"], "--pids", "20")
    assert j["ran"] and "pids" in j["enforced"] and j["evidence"]["rlimit_nproc"] >= 20, j


def test_nothing_is_claimed_where_no_fork_works(caller, capped):
    """A full group around brig refuses every trial: how many processes the user has is not known then."""
    if caller.is_root:
        pytest.skip("root has a group of its own")
    with open(capped.dir + "/pids.max", "w") as f:
        f.write("3")
    p = caller.popen([BRIG, "run", "--json", "--backend", "landlock", "--pids", "10", "--workspace", caller.ws, "--",
                      "/bin/true"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                     preexec_fn=capped.enter)
    out, err = p.communicate(timeout=30)
    assert p.returncode == 125 and not json.loads(out)["ran"], (out, err)


def test_runs_of_one_user_do_not_take_each_others_processes(caller):
    """The kernel counts them together: a limit that nobody named leaves room."""
    if caller.is_root:
        pytest.skip("root has groups")
    words = [BRIG, "run", "--json", "--backend", "landlock", "--workspace", caller.ws, "--", "sh", "-c",
             "i=0; while [ $i -lt 30 ]; do sleep 1 & i=$((i + 1)); done; wait; /bin/true"]
    runs = [caller.popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(12)]
    for r in runs:
        out, err = r.communicate(timeout=60)
        assert json.loads(out)["exit"] == 0, (out, err)
