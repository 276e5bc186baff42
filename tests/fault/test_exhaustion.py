# SPDX-License-Identifier: Apache-2.0
"""Resources used up before brig starts: a whole confined run, or 125 and
nothing ran; never a hang."""
import errno
import os
import resource
import signal
import subprocess

import pytest

from fault import FULL_BASE, IS_ROOT, Scene, check, libc, mount, run_scene, support

K, M = 1024, 1024 * 1024
wordless = []


def sound(out, what):
    """A whole confined run, or a refusal; the words of it are judged together at the end."""
    wordless.extend("%s: %s" % (what, c) for c in out.complaints())
    assert not out.problems(), "%s: %r: %s" % (what, out, out.problems())


def limited(what, value):
    def set_it():
        resource.setrlimit(what, (value, value))
    return set_it


def test_few_descriptors(who):
    """Up to the number that suffices: each step in between fails somewhere else."""
    ran = {}
    for n in [*range(3, 48), 56, 64, 80, 96, 128]:
        # the pipe of the result object has to fit, or nobody hears of it
        scene = Scene(who, "fd%d" % n)
        try:
            out = run_scene(scene, preexec_fn=limited(resource.RLIMIT_NOFILE, n))
        except (OSError, subprocess.SubprocessError) as e:
            # the limit hits before the exec of brig
            assert n < 8, e
            continue
        sound(out, "RLIMIT_NOFILE %d" % n)
        ran[n] = out.ran
    assert not ran[8] and ran[128], ran
    print("\n%s: RLIMIT_NOFILE from %d on suffices" % (who.name, min(n for n in ran if ran[n])))


def test_descriptor_table_full_of_inherited_ones(who):
    kept = [os.open("/dev/null", os.O_RDONLY) for _ in range(200)]
    try:
        for free in (0, 1, 2, 4, 8, 12, 16, 24, 32, 48):
            scene = Scene(who, "inherit%d" % free)
            out = run_scene(scene, pass_fds=kept, preexec_fn=limited(resource.RLIMIT_NOFILE, max(kept) + 4 + free))
            sound(out, "%d free descriptors" % free)
    finally:
        for fd in kept:
            os.close(fd)


# Descriptors that were sent and not received: as many as it is told, until its input ends.
ON_THEIR_WAY = r"""
import socket, sys
kept = []
for _ in range(int(sys.argv[1]) // 50):
    kept.append(socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM))
    socket.send_fds(kept[-1][0], [b"x"], [0] * 50)
print("sent", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("backend", ["native", "landlock"])
def test_descriptors_on_their_way(base, account, backend, quarantine):
    """They count against one limit for all programs of a user: beyond it brig cannot hand
    over the filter's listener, and says so."""
    w = support.make_who("user", base, account)
    with w.popen(["/usr/bin/python3", "-c", ON_THEIR_WAY, "200"], cwd="/", stdin=subprocess.PIPE,
                 stdout=subprocess.PIPE) as p:
        assert p.stdout.readline() == b"sent\n"
        out = run_scene(Scene(w, "sent", plain=True), opts=["--backend", backend],
                        preexec_fn=limited(resource.RLIMIT_NOFILE, 150))
        p.stdin.close()
    assert out.code == 125 and not out.ran, out
    assert out.json["error"]["code"] == "SETUP_FAILED", out.json["error"]
    assert "Too many references" in out.json["error"]["message"], out.json["error"]
    assert "ulimit -n" in out.json["error"]["fix"], out.json["error"]
    sound(out, "descriptors on their way")
    out = run_scene(Scene(w, "received", plain=True), opts=["--backend", "native"],
                    preexec_fn=limited(resource.RLIMIT_NOFILE, 150))
    assert out.ran, out
    quarantine.assert_empty()


def test_many_at_once(base, account, quarantine):
    """A run at work has nothing on its way that would count against the next one."""
    w = support.make_who("user", base, account)
    runs, words = [], []
    try:
        for i in range(30):
            ws = w.mkdir(w.base / ("many%d" % i))
            runs.append(w.popen([support.BRIG, "run", "--workspace", ws, "--", "/bin/sh", "-c", "echo here; read x"],
                                cwd="/", stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                preexec_fn=limited(resource.RLIMIT_NOFILE, 48)))
            # ends after the deadline of brig at the latest
            words.append(runs[-1].stdout.readline())
        said = [p.communicate(b"now\n", timeout=20)[1] for p in runs]
    finally:
        for p in runs:
            if p.poll() is None:
                p.kill()
    assert words == [b"here\n"] * 30, (words, said)
    assert [p.returncode for p in runs] == [0] * 30, said
    quarantine.assert_empty()


def test_little_address_space(who):
    ran = {}
    for size in (256 * K, 512 * K, M, 1280 * K, 1536 * K, 1792 * K, 2 * M, 3 * M, 4 * M, 6 * M, 8 * M, 16 * M, 64 * M):
        scene = Scene(who, "as%d" % size)
        try:
            out = run_scene(scene, preexec_fn=limited(resource.RLIMIT_AS, size))
        except (OSError, subprocess.SubprocessError, MemoryError):
            continue  # the kernel did not even execute brig
        if out.code in (-signal.SIGKILL, -signal.SIGSEGV) and not out.ran and out.json is None:
            # the kernel could not set up brig's own image, or its stack
            assert size <= 2 * M, out
            continue
        if out.json and out.json["ran"]:
            # let go, confined; the limit then hits the command itself (the
            # kernel cannot even load a shell into so little)
            assert FULL_BASE <= set(out.json["enforced"]), out
            assert not [v for v in out.violations if v != "rw-not-writable"], out
        else:
            sound(out, "RLIMIT_AS %d" % size)
        ran[size] = out.ran
    assert ran and ran[64 * M], ran
    print("\n%s: RLIMIT_AS: %s" % (who.name, {k // K: v for k, v in ran.items()}))


@pytest.mark.parametrize("size", [0, 1, 100, 4096, 16384])
def test_file_size_limit(who, size):
    """brig stores init in a tmpfs: that write fails, and no signal may kill anyone unsaid."""
    scene = Scene(who, "fsize")
    out = run_scene(scene, preexec_fn=limited(resource.RLIMIT_FSIZE, size))
    if out.json and out.json["ran"]:
        assert FULL_BASE <= set(out.json["enforced"]), out
        assert not [v for v in out.violations if v != "rw-not-writable"], out
    else:
        sound(out, "RLIMIT_FSIZE %d" % size)


@pytest.mark.parametrize("what", ["RLIMIT_STACK", "RLIMIT_DATA", "RLIMIT_MEMLOCK", "RLIMIT_SIGPENDING",
                                  "RLIMIT_MSGQUEUE", "RLIMIT_CORE", "RLIMIT_RTPRIO", "RLIMIT_NICE"])
@pytest.mark.parametrize("value", [0, 4 * K, 256 * K])
def test_other_limits(who, what, value):
    if not hasattr(resource, what):
        pytest.skip("python does not know %s" % what)
    if what == "RLIMIT_SIGPENDING":
        value //= 4 * K
    scene = Scene(who, "limit")
    try:
        out = run_scene(scene, preexec_fn=limited(getattr(resource, what), value))
    except (OSError, subprocess.SubprocessError, MemoryError):
        return  # the kernel did not even execute brig
    if out.code in (-signal.SIGKILL, -signal.SIGSEGV) and not out.ran and out.json is None:
        assert what in ("RLIMIT_STACK", "RLIMIT_DATA"), out
        return
    if out.json and out.json["ran"] and not out.ran:
        assert what in ("RLIMIT_STACK", "RLIMIT_DATA") and FULL_BASE <= set(out.json["enforced"]), out
        return
    sound(out, "%s %d" % (what, value))


def test_process_limit_of_the_user(base, account, quarantine):
    """RLIMIT_NPROC counts every process of the user; brig needs four of its own."""
    w = support.make_who("user", base, account)
    ran = {}
    if not IS_ROOT:
        pytest.skip("the number of processes of one's own account is not known here")
    for n in range(0, 12):
        scene = Scene(w, "np%d" % n)
        out = run_scene(scene, preexec_fn=limited(resource.RLIMIT_NPROC, n))
        if out.ran:
            # confined; the command's own forks may fail, which is its affair
            assert FULL_BASE <= set(out.json["enforced"]) and not out.violations, out
        else:
            sound(out, "RLIMIT_NPROC %d" % n)
        ran[n] = out.ran
    assert not ran[0] and not ran[1], ran
    assert ran[11], ran
    print("\nRLIMIT_NPROC: %s" % ran)
    quarantine.assert_empty()


def test_no_space_in_the_workspace_and_tmp(who):
    if not IS_ROOT:
        pytest.skip("needs root: a small file system of its own")
    scene = Scene(who, "full")
    small = who.mkdir(who.base / "small")
    mount("tmpfs", small, "tmpfs", 0, "size=64k,mode=0755,uid=%d,gid=%d" % (who.uid, who.gid))
    try:
        fill = os.open(small / "fill", os.O_WRONLY | os.O_CREAT, 0o644)
        try:
            while True:
                os.write(fill, b"x" * 4096)
        except OSError as e:
            assert e.errno == errno.ENOSPC
        finally:
            os.close(fill)
        # TMPDIR is full: brig needs none
        out = run_scene(scene, env={"TMPDIR": str(small), "XDG_RUNTIME_DIR": str(small)})
        assert out.ran and not out.problems(), out
        # the workspace is full: the command runs and fails by itself
        r = who.brig("run", "--json", "--workspace", small, "--", "/bin/sh", "-c", "echo more > new")
        assert r.json["ran"] and r.code != 0 and r.code != 125, r
        assert FULL_BASE <= set(r.json["enforced"])
    finally:
        check(libc.umount2(os.fsencode(small), 2), "umount")


def test_result_object_cannot_be_written(who):
    """stdout is full: said on stderr, and no hang."""
    with open("/dev/full", "wb") as full:
        p = who.popen([support.BRIG, "run", "--json", "--workspace", who.ws, "--", "/bin/echo", "x"],
                      stdin=subprocess.DEVNULL, stdout=full, stderr=subprocess.PIPE)
        _, err = p.communicate(timeout=20)
    assert err.startswith(b"brig: "), err


@pytest.mark.parametrize("closed", [(0,), (1,), (2,), (0, 1), (1, 2), (0, 1, 2)])
def test_standard_descriptors_closed(who, closed):
    """What brig opens must not land on 0, 1 or 2 and reach the command."""
    def close_them():
        for fd in closed:
            os.close(fd)

    r, w = os.pipe()
    w2 = os.dup2(w, 50)
    os.close(w)
    p = who.popen([support.BRIG, "run", "--status-fd", "50", "--workspace", who.ws, "--", "/bin/sh", "-c",
                   "ls -l /proc/self/fd > fds; : > marker"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                  stderr=subprocess.DEVNULL, pass_fds=(50,), preexec_fn=close_them)
    os.close(w2)
    assert p.wait(20) in (0, 125)
    with os.fdopen(r) as f:
        text = f.read()
    if p.returncode == 0:
        assert who.marker.exists() and '"ran":true' in text
        names = (who.ws / "fds").read_text()
        # what ls itself opened, the file, and nothing of brig's
        for target in (line.split(" -> ")[1] for line in names.splitlines() if " -> " in line):
            assert target in ("/dev/null", str(who.ws / "fds")) or \
                target.startswith("/proc/") and target.endswith("/fd"), names
    else:
        assert not who.marker.exists() and '"ran":false' in text


def test_every_refusal_says_what_and_how_to_fix_it():
    assert not wordless, "%d refusals:\n%s" % (len(wordless), "\n".join(wordless))
