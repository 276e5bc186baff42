# SPDX-License-Identifier: Apache-2.0
"""CONTAINMENT, class System calls, and what `denied` reports of them."""
import json
import os
import re

import pytest

from conftest import REPO, need

PROBES = ["syscalls", "clone-flags", "int80", "families", "protocols", "personality"]
# one by one as well, so that a failure names the call
CALLS = re.findall(r'^\t\{ "([^"]+)", (?:SYS|NR)_', (REPO / "tests/probe/calls.c").read_text(), re.M)
CALLS += ["number -1", "number 1000"]


@pytest.mark.parametrize("check", PROBES)
def test_probe(who, check):
    who.probe(check)


def test_the_list_of_calls_was_found():
    assert len(CALLS) > 55 and "mount" in CALLS and "io_uring_setup" in CALLS


@pytest.mark.parametrize("call", CALLS)
def test_call_is_refused(user, call):
    user.probe("syscall", call)


def denied(j, target):
    hits = [d for d in j["denied"] if d["target"] == target]
    assert len(hits) == 1, j["denied"]
    assert list(hits[0]) == ["kind", "target", "rule", "fix", "count"]
    assert hits[0]["kind"] == "syscall" and hits[0]["rule"] and hits[0]["fix"]
    return hits[0]["count"]


def test_denied_counts_unshare(who):
    r = who.sh("unshare -r true; unshare -r true; unshare -m true; echo end")
    assert r.json["stdout"] == "end\n"
    assert r.json["stderr"].count("Operation not permitted") == 3
    assert denied(r.json, "unshare") == 3


def test_denied_counts_mount(who):
    need("perl")
    # 165 is mount, 166 umount2, on x86_64
    r = who.run("perl", "-e", "for (1..7) { syscall(165, 0, 0, 0, 0, 0) == -1 or exit 9; "
                              "$!{EPERM} or exit 8; } print 'x'")
    assert r.json["stdout"] == "x"
    assert denied(r.json, "mount") == 7


def test_denied_counts_keyctl_bpf_ptrace_stays_quiet(who):
    need("perl")
    r = who.run("perl", "-e", "syscall(250, 0, -3, 0); syscall(321, 0, 0, 0); syscall(321, 0, 0, 0); "
                              "syscall(250, 0, -3, 0); syscall(250, 0, -3, 0); syscall(101, 0, 0, 0, 0);")
    assert denied(r.json, "keyctl") == 3
    assert denied(r.json, "bpf") == 2
    assert sorted(d["target"] for d in r.json["denied"]) == ["bpf", "keyctl"]


def test_nothing_denied_in_ordinary_work(who):
    r = who.sh("ls -l /usr/bin > list; sort list | wc -l; cp list copy; mv copy c2; rm c2; git init -q . ; ls")
    assert r.json["denied"] == [], r.json["denied"]


def test_many_refusals_do_not_stall(who):
    """Each refused call is answered by the supervisor: none is lost, none hangs."""
    need("perl")
    r = who.run("perl", "-e", "for (1..20000) { syscall(165, 0, 0, 0, 0, 0) } print 'end'",
                opts=["--timeout", "20"])
    assert r.json["stdout"] == "end"
    assert denied(r.json, "mount") == 20000


def test_refusals_by_a_process_that_dies_at_once(who):
    need("perl")
    r = who.run("perl", "-e", "for (1..50) { my $p = fork; if (!$p) { alarm 0; kill 9, getppid if 0; "
                              "syscall(165,0,0,0,0,0); kill 9, $$ } } 1 while wait > 0; print 'end'")
    assert r.code == 0 and r.json["stdout"] == "end"


def test_errno_values(who):
    """EPERM for the dangerous, ENOSYS for what libc falls back from."""
    need("perl")
    script = """
    sub t { my ($n, @a) = @_; $! = 0; my $r = syscall($n, @a); return $r == -1 ? $!+0 : 'ok' }
    print join ' ', t(435, 0, 0), t(425, 1, 0), t(323, 0), t(437, -1, 0, 0, 0), t(165, 0, 0, 0, 0, 0),
        t(272, 0x10000000), t(304, -1, 0, 0), t(246, 0, 0, 0, 0), t(9999), t(41, 40, 1, 0), t(41, 44, 1, 0);
    """
    out = who.run("perl", "-e", script).json["stdout"].split()
    enosys, eperm, eafnosupport = "38", "1", "97"
    assert out == [enosys, enosys, enosys, enosys, eperm, eperm, eperm, eperm, enosys,
                   eafnosupport, eafnosupport]


def test_ptrace_inside_works(who):
    """Fact 10: debuggers and leak checkers need it."""
    need("strace")
    r = who.sh("strace -f -e trace=execve -o trace sh -c 'exec true'; grep -c execve trace")
    assert r.code == 0 and int(r.json["stdout"]) >= 2, r.json


# -- --seccomp ----------------------------------------------------------------

def test_own_profile_is_used(who):
    need("perl")
    p = who.write(who.base / "p.json", json.dumps({
        "defaultAction": "SCMP_ACT_ALLOW",
        "syscalls": [{"names": ["getpriority"], "action": "SCMP_ACT_ERRNO", "errnoRet": 99}]}))
    code = "my $r = syscall(140, 0, 0); print $r, ' ', $!+0"
    assert who.run("perl", "-e", code).json["stdout"].split()[0] != "-1"
    r = who.run("perl", "-e", code, opts=["--seccomp", p])
    assert r.json["stdout"] == "-1 99"
    assert r.json["evidence"]["seccomp"] == 2 and "seccomp" in r.json["enforced"]


def test_dockers_own_shape_of_profile(who):
    p = who.write(who.base / "p.json", json.dumps({
        "defaultAction": "SCMP_ACT_ALLOW", "defaultErrnoRet": 1,
        "archMap": [{"architecture": "SCMP_ARCH_X86_64", "subArchitectures": ["SCMP_ARCH_X86", "SCMP_ARCH_X32"]}],
        "syscalls": [
            {"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO", "errnoRet": 13, "args": [],
             "comment": "", "includes": {}, "excludes": {}},
            {"names": ["rmdir"], "action": "SCMP_ACT_ERRNO", "includes": {"caps": ["CAP_SYS_ADMIN"]}},
        ]}))
    r = who.sh("mkdir x; mkdir /tmp/y; echo end", ["--seccomp", p])
    assert r.json["stdout"] == "end\n" and r.json["stderr"].count("Permission denied") == 2


INSTALLED = "/usr/share/containers/seccomp.json"


def test_real_work_under_an_installed_profile(who):
    """The file that Podman's packages bring: what it allows to a process without capabilities."""
    need("git", "gcc")
    if not os.path.exists(INSTALLED):
        pytest.skip("no %s: Podman is not installed" % INSTALLED)
    r = who.sh("set -e; python3 -c 'import subprocess, threading; t = threading.Thread(target=print, args=(6 * 7,)); "
               "t.start(); t.join(); subprocess.run([\"true\"], check=True)'; git init -q -b main .; "
               "git -c user.name=a -c user.email=a@b commit -q --allow-empty -m one; git log --oneline | wc -l; "
               "echo 'int main(void) { return 5; }' > m.c; gcc -o m m.c; ./m || echo $?; "
               "perl -e 'syscall(321, 0, 0, 0) < 0 and print $! + 0, qq(\n)'",
               ["--seccomp", INSTALLED, "--pids", "100"])
    assert r.code == 0 and r.json["stdout"] == "42\n1\n5\n1\n", r.json
    assert r.json["evidence"]["seccomp"] == 2 and "seccomp" in r.json["enforced"]


def test_profile_that_kills(who):
    p = who.write(who.base / "p.json", json.dumps({
        "defaultAction": "SCMP_ACT_ALLOW",
        "syscalls": [{"names": ["getpriority"], "action": "SCMP_ACT_KILL_PROCESS"}]}))
    need("perl")
    r = who.run("perl", "-e", "syscall(140, 0, 0); print 'alive'", opts=["--seccomp", p])
    assert (r.code, r.json["signal"], r.json["stdout"]) == (128 + 31, 31, "")
