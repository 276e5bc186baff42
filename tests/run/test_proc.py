# SPDX-License-Identifier: Apache-2.0
"""CONTAINMENT, class /proc and /sys, and the protection of pid 1."""
import os
import re
import subprocess

import pytest

from conftest import BRIG, wait_until

PROBES = ["pid1-files", "pid1-trace", "pid1-kill", "masked", "kernel-writes", "kernel-walk", "pids"]
# the list runc settled on
MASKED = ["acpi", "asound", "interrupts", "kcore", "keys", "latency_stats", "sched_debug", "scsi",
          "sysrq-trigger", "timer_list", "timer_stats"]


@pytest.mark.parametrize("check", PROBES)
def test_probe(who, check):
    who.probe(check)


@pytest.mark.parametrize("name", MASKED)
def test_masked(user, name):
    if not os.path.exists("/proc/" + name):
        pytest.skip("/proc/%s does not exist on this kernel" % name)
    r = user.sh("if [ -d /proc/{0} ]; then ls -A /proc/{0}; else head -c 100 /proc/{0}; fi".format(name))
    assert r.json["stdout"] == ""


@pytest.mark.parametrize("path", ["/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe",
                                  "/proc/sysrq-trigger", "/proc/sys/fs/binfmt_misc/register",
                                  "/proc/sys/vm/overcommit_memory", "/proc/sys/kernel/hostname",
                                  "/proc/sys/net/ipv4/ip_forward", "/sys/kernel/uevent_helper",
                                  "/sys/fs/cgroup/release_agent", "/sys/fs/cgroup/memory/release_agent",
                                  "/proc/sys/kernel/ns_last_pid"])
def test_not_writable(who, path):
    r = who.sh("(echo x > %s) 2>/dev/null && echo wrote; true" % path)
    assert r.json["stdout"] == ""


def test_sys_is_empty_or_absent(who):
    assert who.ok("ls -A /sys 2>/dev/null || true") == ""


def test_only_own_processes_are_visible(who):
    out = who.ok("ls /proc | grep -E '^[0-9]+$' | tr '\\n' ' '").split()
    assert out[0] == "1" and len(out) <= 6 and max(map(int, out)) < 12
    assert who.ok("cat /proc/1/comm").strip() == "brig-init"


def test_pid1_cmdline_tells_nothing(who):
    out = who.sh("tr '\\0' ' ' < /proc/1/cmdline; cat /proc/1/environ", env={"SECRET": "x"}).json["stdout"]
    assert re.fullmatch(r"(brig-init \d+ \d+ \d+ )?", out)


def test_pid1_is_not_dumpable(who):
    out = who.sh("stat -c %u /proc/1/environ /proc/self/environ; id -u").json["stdout"].split()
    # files of a process that may not be inspected belong to root, unmapped here
    assert out[0] == "65534" and out[1] == out[2]


def test_memory_and_files_of_init_are_hidden(who):
    r = who.sh("cat /proc/1/maps /proc/1/auxv /proc/1/stack 2>/dev/null | wc -c; ls /proc/1/fd /proc/1/root")
    assert r.json["stdout"].startswith("0\n") and "Permission denied" in r.json["stderr"]


def test_proc_is_fresh_not_the_hosts(who):
    marker = subprocess.Popen(["sleep", "30"])
    try:
        assert who.sh("cat /proc/%d/comm" % marker.pid).json["stdout"] == ""
        who.probe("signal", str(marker.pid))
        assert marker.poll() is None
    finally:
        marker.kill()
        marker.wait()


def test_cgroup_path_tells_nothing(who):
    """An own cgroup namespace: no path of the host's."""
    j = who.run("cat", "/proc/self/cgroup").json
    paths = {x.split(":", 2)[2] for x in j["stdout"].splitlines()}
    assert paths <= {"/", "/brig-" + j["id"]}, paths


def test_symlink_in_place_of_proc_self_fd(who):
    """/proc/self/fd/N/../.. and /proc/self/root stay inside."""
    out = who.ok("ls -A /proc/self/root/ | tr '\\n' ' '; ls -A / | tr '\\n' ' '")
    half = len(out) // 2
    assert out[:half] == out[half:]
    r = who.sh("cat /proc/self/cwd/../../../../../../../etc/shadow /proc/self/root/etc/shadow")
    assert r.json["stdout"] == "" and r.code != 0


def test_hostile_program_as_pid_one_is_impossible(who):
    pid, parent = who.ok("echo $$ $PPID").split()
    assert pid != "1" and parent == "1"


@pytest.mark.prompt
def test_freezing_init_does_not_stop_the_deadline(who):
    r = who.sh("kill -STOP 1; kill -TSTP 1; sleep 100", ["--timeout", "0.5"])
    assert r.code == 124 and r.seconds < 1.2


def test_neighbouring_sandboxes_do_not_see_each_other(who):
    ready = who.ws / "ready"
    p = who.popen([BRIG, "run", "--", "sh", "-c", "echo $$ > /tmp/x; : > ready; sleep 5"])
    try:
        assert wait_until(ready.exists)
        out = who.ok("ls /tmp | grep -v brig-run; ls /proc | grep -cE '^[0-9]+$'; grep -l sleep /proc/*/comm || true")
        assert int(out.split()[0]) <= 6 and "comm" not in out
    finally:
        p.terminate()
        p.wait()


def test_oom_score_cannot_be_lowered(who):
    # raising one's own is allowed; lowering it would make the host kill others
    r = who.sh("echo -1000 > /proc/self/oom_score_adj; echo -1 > /proc/self/oom_score_adj; cat /proc/self/oom_score_adj")
    assert int(r.json["stdout"]) >= 0
