# SPDX-License-Identifier: Apache-2.0
"""Wrong input: one clear line, the right code, nothing run, nothing left."""
import json
import os
import socket
import subprocess
import tempfile
import time

import pytest

from conftest import BRIG, ESC, IS_ROOT


@pytest.fixture(autouse=True)
def quiet(request):
    """No marker, no file in the workspace, no mount on the host."""
    with open("/proc/self/mountinfo") as f:
        before = f.read()
    yield
    with open("/proc/self/mountinfo") as f:
        assert f.read() == before


def bad(who, opts, code, name, *words, **kw):
    """Refused, with and without --json, and the command never ran."""
    left = sorted(os.listdir(who.ws))
    given = [] if kw.pop("own_workspace", False) else ["--workspace", who.ws]
    for extra in ([], ["--json"]):
        r = who.brig("run", *extra, *given, *opts, "--", *who.ran_marker(), **kw)
        r.refused(code, name, *words)
        assert "the-command-ran" not in r.out
        assert not who.marker.exists()
        if code == 125 and r.json:
            assert r.json["ran"] is False
            assert not name or r.json["error"]["code"] == name
    assert sorted(os.listdir(who.ws)) == left
    return r


# -- the command line ---------------------------------------------------------

def test_unknown_option_suggests(who):
    bad(who, ["--memroy", "64M"], 2, None, "memroy", "unknown option", "did you mean --memory?")
    bad(who, ["--time-out=1"], 2, None, "time-out", "did you mean --timeout?")
    bad(who, ["--zzzzzz"], 2, None, "zzzzzz", "see brig help run")
    bad(who, ["-x"], 2, None, "-x", "unknown option", "after --")
    bad(who, ["--" + "x" * 5000], 2, None, "unknown option")


def test_unknown_verb(who):
    r = who.brig("rnu", "--", *who.ran_marker())
    r.refused(2, None, "no verb 'rnu'", "brig help")
    assert not who.marker.exists()


@pytest.mark.parametrize("option", ["workspace", "ro", "memory", "timeout", "env-fd", "require",
                                    "seccomp", "name", "net"])
def test_missing_value(who, option):
    r = who.brig("run", "--" + option)
    r.refused(2, "BAD_OPTION", "--%s: needs a value (--%s " % (option, option))


@pytest.mark.parametrize("option", ["workspace", "at", "cwd", "ro", "rw", "mask", "env", "seccomp",
                                    "name", "protect", "memory", "pids", "timeout", "net", "require"])
def test_empty_value(who, option):
    bad(who, ["--%s=" % option], 2, "BAD_VALUE", "--" + option)


def test_flag_with_a_value(who):
    bad(who, ["--pty=yes"], 2, None, "pty", "takes no value")


def test_no_command(who):
    for args in (["run"], ["run", "--"], ["run", "--json"]):
        r = who.brig(*args)
        r.refused(2, "BAD_OPTION", "no command", "brig run -- true")
    who.brig("run", "--", "").refused(2, "BAD_OPTION", "empty")


def test_huge_arguments(who):
    """2 MiB of argv: either it runs whole or it is refused in one line."""
    big = ["x" * 100_000] * 20
    try:
        r = who.run("sh", "-c", 'echo $#', "sh", *big)
    except OSError as e:
        pytest.skip("the host's own limit on arguments: %s" % e)
    assert r.code == 0 and r.json["stdout"] == "20\n", r
    # an environment on top that execve inside cannot take any more
    rd, wr = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(rd)
        try:
            for i in range(9):
                os.write(wr, b"BIG%d=" % i + b"y" * 100_000 + b"\0")
        finally:
            os._exit(0)
    os.close(wr)
    r = who.brig("run", "--json", "--env-fd", str(rd), "--", "true", *big, pass_fds=(rd,))
    os.close(rd)
    os.waitpid(pid, 0)
    assert r.code in (0, 126), r
    if r.code == 126:
        r.refused(126, "EXEC_FAILED", "true", "too long")


def test_long_lists_take_no_time(who):
    """Each word of a list was compared with all before it, and each argument counted:
    seconds for what an agent may well pass on."""
    def quick(*args, **kw):
        start = time.monotonic()
        r = who.brig("run", "--json", "--workspace", str(who.ws), *args, **kw)
        assert time.monotonic() - start < 2, "%.1f s" % (time.monotonic() - start)
        return r

    try:
        r = quick("--", "sh", "-c", "echo $#", "sh", *map(str, range(100_000)))
    except OSError as e:
        pytest.skip("the host's own limit on arguments: %s" % e)
    assert r.code == 0 and r.json["stdout"] == "100000\n", r
    env = [w for i in range(20_000) for w in ("--env", "V%d=%d" % (i % 15_000, i))]
    r = quick(*env, "--", "sh", "-c", 'env | grep -c ^V; echo $V14999 $V0')
    assert r.code == 0 and r.json["stdout"] == "15000\n14999 15000\n", r
    with tempfile.TemporaryFile() as f:
        f.write(b"".join(b"N%d=%d\0" % (i, i) for i in range(60_000)))
        f.seek(0)
        r = quick("--env-fd", str(f.fileno()), "--", "sh", "-c", "echo $N59999",
                  pass_fds=(f.fileno(),))
    assert r.code == 0 and r.json["stdout"] == "59999\n", r
    masks = [w for i in range(20_000) for w in ("--mask", "/tmp/m%d" % i)]
    quick(*masks, "--", "true").refused(125, "MOUNT_FAILED", "/tmp/m0", "No such file")


# -- the workspace ------------------------------------------------------------

def test_workspace_missing(who):
    bad(who, ["--workspace", "/no/such/dir"], 125, "BAD_WORKSPACE", "/no/such/dir",
        "No such file", "--workspace DIR", own_workspace=True)


def test_workspace_is_a_symlink(who):
    link = who.symlink(who.base / "link", who.ws)
    for end in ("", "/", "/.", "//./"):  # none of which makes it the directory itself
        bad(who, ["--workspace", "%s%s" % (link, end)], 125, "BAD_WORKSPACE", "symbolic link",
            "--workspace %s" % who.ws, own_workspace=True)
    for end in ("/", "/.", "/./"):
        assert who.brig("run", "--workspace", "%s%s" % (who.ws, end), "--", "pwd").out == "%s\n" % who.ws


@pytest.mark.parametrize("words", [["version", "x"], ["version", "--x"], ["help", "run", "x"]], ids=" ".join)
def test_a_word_too_many(user, words):
    r = user.brig(*words)
    assert r.code == 2 and not r.out and "'%s' is one word too many" % words[-1] in r.err and r.err.count("\n") == 1


def test_workspace_is_a_file_or_fifo(who):
    f = who.write(who.base / "file", "x")
    bad(who, ["--workspace", f], 125, "BAD_WORKSPACE", "Not a directory", own_workspace=True)
    fifo = who.base / "fifo"
    os.mkfifo(fifo)
    bad(who, ["--workspace", fifo], 125, "BAD_WORKSPACE", "Not a directory", own_workspace=True)


@pytest.mark.parametrize("path", ["/", "//", "/.", "/usr/.."])
def test_workspace_is_the_root(who, path):
    bad(who, ["--workspace", path], 125, "BAD_WORKSPACE", "whole machine", own_workspace=True)


@pytest.mark.parametrize("path", ["/usr", "/etc", "/usr/lib", "/proc", "/proc/self", "/dev", "/sys",
                                  "/boot", "/var", "/run", "/dev/shm"])
def test_workspace_is_a_system_directory(who, path):
    bad(who, ["--workspace", path], 125, "BAD_WORKSPACE", own_workspace=True)


def test_workspace_is_home(who):
    bad(who, ["--workspace", who.home], 125, "BAD_WORKSPACE", "home directory itself",
        "--allow-home", own_workspace=True)
    # the same through a link on the way, a relative name and the cwd
    bad(who, ["--workspace", "../home"], 125, "BAD_WORKSPACE", "home directory itself",
        own_workspace=True)
    bad(who, [], 125, "BAD_WORKSPACE", "home directory itself", own_workspace=True, cwd=who.home)
    r = who.brig("run", "--json", "--workspace", who.home, "--allow-home", "--",
                 "sh", "-c", "pwd; : > made")
    assert r.code == 0 and r.json["stdout"] == "%s\n" % who.home
    assert (who.home / "made").exists()


def test_workspace_contains_home(who):
    bad(who, ["--workspace", who.base], 125, "BAD_WORKSPACE", "contains the home directory",
        "--allow-home", own_workspace=True)
    # a HOME that is a symlink is followed to what it means
    real = who.mkdir(who.base / "real/home")
    link = who.symlink(who.base / "homelink", real)
    bad(who, ["--workspace", real.parent], 125, "BAD_WORKSPACE", "contains the home directory",
        own_workspace=True, env={"HOME": str(link)})


def test_home_that_does_not_exist_in_the_workspace(who):
    """HOME below the workspace, absent: refused as the home check or run; no riddle."""
    r = who.sh("echo fine", env={"HOME": str(who.ws / "absent")})
    if r.code == 125:
        assert r.json["error"]["code"] == "BAD_WORKSPACE", r
    else:
        assert r.json["stdout"] == "fine\n"
    assert not (who.ws / "absent").exists()


def test_workspace_unreadable(user):
    if not IS_ROOT:
        closed = user.mkdir(user.base / "closed")
        closed.chmod(0)
    else:
        closed = user.base / "closed"
        closed.mkdir(mode=0o700)
    bad(user, ["--workspace", closed], 125, "BAD_WORKSPACE", "closed", "Permission denied",
        own_workspace=True)
    below = "%s/below" % closed
    bad(user, ["--workspace", below], 125, "BAD_WORKSPACE", "closed/below", own_workspace=True)


def test_workspace_that_only_root_may_enter(who):
    """Root can look at it, and the command could not: said before anything runs, with what to do about it."""
    if not who.is_root:
        pytest.skip("an ordinary user cannot look at it either: above")
    closed = who.mkdir(who.base / "closed", 0o755)
    closed.chmod(0)
    r = bad(who, ["--workspace", closed], 125, "BAD_CWD", "closed", "Permission denied", "allowed to enter it",
            own_workspace=True)
    assert "inside the workspace" not in r.err


def test_workspace_owned_by_another_user(user):
    """Readable but not writable: it runs, and cannot be written."""
    if not IS_ROOT:
        pytest.skip("needs root to make a directory of somebody else's")
    other = user.base / "other"
    other.mkdir(mode=0o755)
    (other / "f").write_text("read me")
    os.chmod(other / "f", 0o644)
    r = user.brig("run", "--json", "--workspace", other, "--", "sh", "-c", "cat f; touch g")
    assert r.json["ran"] and r.json["stdout"] == "read me" and r.code == 1
    assert "Permission denied" in r.json["stderr"]


def test_deleted_cwd(who):
    gone = who.mkdir(who.base / "gone")
    p = who.popen(["sh", "-c", 'rmdir "$PWD"; exec "$@"', "sh", BRIG, "run", "--json", "--",
                   *who.ran_marker()], cwd=gone, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    out, err = p.communicate(timeout=10)
    assert p.returncode == 125 and err.count(b"\n") == 1
    assert err.startswith(b"brig: BAD_WORKSPACE: ") and b"deleted" in err
    assert not who.marker.exists()
    # with a workspace that exists, a deleted cwd does not matter
    gone = who.mkdir(who.base / "gone2")
    p = who.popen(["sh", "-c", 'rmdir "$PWD"; exec "$@"', "sh", BRIG, "run", "--workspace", who.ws,
                   "--", "pwd"], cwd=gone, stdout=subprocess.PIPE)
    assert p.communicate(timeout=10)[0] == b"%s\n" % bytes(who.ws) and p.returncode == 0


@pytest.mark.parametrize("at", ["relative", "/a/../b", "/", "/usr", "/proc/x", "/dev", "/etc/x", "/sys"])
def test_at_somewhere_impossible(who, at):
    r = bad(who, ["--at", at], 125, None)
    assert r.json["error"]["code"] in ("BAD_WORKSPACE", "BAD_VALUE")


# -- the working directory ----------------------------------------------------

@pytest.mark.parametrize("cwd", ["/", "/tmp", "/usr", "..", "../..", "sub/../..", "/etc", "link-out",
                                 "link-abs", "/proc/self/cwd"])
def test_cwd_outside(who, cwd):
    who.mkdir(who.ws / "sub")
    who.symlink(who.ws / "link-out", "../home")
    who.symlink(who.ws / "link-abs", "/usr")
    bad(who, ["--cwd", cwd], 125, "BAD_CWD", cwd, "outside the workspace", "--workspace")


def test_cwd_with_dots_while_others_mount(who):
    """Where anybody mounts meanwhile, brig's own processes among them, the kernel cannot tell at once whether
    ".." stays inside."""
    who.mkdir(who.ws / "a/b")
    churn = subprocess.Popen(["/usr/bin/python3", "-c", "import subprocess\nwhile True:\n"
                              " subprocess.run(['unshare', '-Urm', 'true'], stderr=subprocess.DEVNULL)"])
    try:
        for _ in range(60):
            r = who.brig("run", "--cwd", "a/../a/b/../../a", "--", "pwd")
            assert r.code == 0 and r.out == "%s/a\n" % who.ws, r
            r = who.brig("run", "--cwd", "a/../..", "--", "pwd")
            assert r.code == 125 and "outside the workspace" in r.err, r
    finally:
        churn.kill()
        churn.wait()


def test_cwd_parent_spelled_absolute(who):
    bad(who, ["--cwd", "%s/../home" % who.ws], 125, "BAD_CWD", "outside")
    bad(who, ["--cwd", "%sx" % who.ws], 125, "BAD_CWD", "outside")


def test_cwd_missing_or_a_file(who):
    who.write(who.ws / "f", "x")
    bad(who, ["--cwd", "nope"], 125, "BAD_CWD", "nope", "No such file")
    bad(who, ["--cwd", "f"], 125, "BAD_CWD", "Not a directory")


# -- binds and masks ----------------------------------------------------------

@pytest.mark.parametrize("option", ["--ro", "--rw"])
def test_bind_sources(who, option):
    bad(who, [option, "/no/such"], 125, "BAD_MOUNT", option, "/no/such", "never skipped")
    bad(who, [option, ":/x"], 125, "BAD_MOUNT", "empty path", "SRC:DST")
    bad(who, [option, "/usr:"], 125, "BAD_MOUNT", "empty path")
    bad(who, [option, "/"], 125, "BAD_MOUNT", "cannot be replaced or shared")
    bad(who, [option, "/:/host"], 125, "BAD_MOUNT", "cannot be replaced or shared")
    bad(who, [option, "/usr:relative"], 125, "BAD_MOUNT", "absolute path")
    bad(who, [option, "/usr:/a/../b"], 125, "BAD_MOUNT", "absolute path")
    bad(who, [option, "/usr:/proc"], 125, "BAD_MOUNT", "/proc")
    bad(who, [option, "/usr:/dev/x"], 125, "BAD_MOUNT", "/dev")
    bad(who, [option, "/usr:/"], 125, "BAD_MOUNT", "'/'")


@pytest.mark.parametrize("opts", [["--at", "/x" * 2050], ["--ro", "/usr:" + "/x" * 2050]])
def test_a_path_too_long_is_not_want_of_memory(who, opts):
    bad(who, opts, 125, "BAD_MOUNT", "path inside", "too long")


@pytest.mark.parametrize("home", ["/a\nroot:x:0:0::/:/bin/sh", "/a:b"])
def test_home_does_not_write_lines_of_passwd(who, home):
    r = who.run("cat", "/etc/passwd", env={"HOME": home})
    assert [line.split(":")[0] for line in r.json["stdout"].splitlines()] == ["root", "sandbox", "nobody"], r.json
    assert {line.count(":") for line in r.json["stdout"].splitlines()} == {6}, r.json


@pytest.mark.parametrize("src", ["/proc", "/proc/1", "/proc/self/root"])
def test_the_hosts_proc_cannot_be_shown_elsewhere(who, src):
    """It would show every process of the host while `pid` is said to be enforced."""
    for option in ("--ro", "--rw"):
        bad(who, [option, "%s:/elsewhere" % src], 125, "BAD_MOUNT", src)


@pytest.mark.parametrize("path", ["/proc", "/proc/1", "/proc/sys/kernel", "/sys", "/sys/fs/cgroup", "/dev"])
def test_the_hosts_proc_is_no_workspace_under_another_name(who, path):
    """The same, and to write to: the caller's own processes have files there."""
    bad(who, ["--workspace", path, "--at", "/work"], 125, "BAD_WORKSPACE", "is the kernel's", own_workspace=True)


def test_a_second_proc_is_no_workspace(who):
    if not who.is_root:
        pytest.skip("mounting one takes root")
    r = subprocess.run(["unshare", "-m", "--propagation", "private", "sh", "-c",
                        'mount -t proc proc "$0" && exec "$@"', who.mkdir(who.base / "proc"), BRIG, "run",
                        "--workspace", who.base / "proc", "--", "true"], env=who.env, capture_output=True, text=True)
    assert r.returncode == 125 and "is the kernel's" in r.stderr, r


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_second_proc_among_other_trees(who, place):
    """By its file system, wherever it is mounted and whatever is named before it."""
    if not who.is_root:
        pytest.skip("mounting one takes root")
    trees = [who.mkdir(who.base / x) for x in "ab"]
    proc = who.mkdir(who.base / "proc")
    trees.insert(place, proc)
    r = subprocess.run(["unshare", "-m", "--propagation", "private", "sh", "-c",
                        'mount -t proc proc "$0" && exec "$@"', proc, BRIG, "run", "--workspace", who.ws,
                        *[x for t in trees for x in ("--ro", t)], "--", *who.ran_marker()], env=who.env,
                       stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert r.returncode == 125 and b"BAD_MOUNT: --ro %s" % os.fsencode(proc) in r.stderr, r
    assert not who.marker.exists()


def test_same_target_twice(who):
    a, b = who.mkdir(who.base / "a"), who.mkdir(who.base / "b")
    bad(who, ["--ro", "%s:/x" % a, "--ro", "%s:/x" % b], 125, "BAD_MOUNT", "two binds", "/x")
    bad(who, ["--ro", "%s:/x" % a, "--rw", "%s:/x/" % b], 125, "BAD_MOUNT", "two binds")
    bad(who, ["--ro", "%s:%s" % (a, who.ws)], 125, "BAD_MOUNT", "two binds", who.ws)


def test_target_inside_a_read_only_tree_that_lacks_it(who):
    d = who.mkdir(who.base / "d")
    r = bad(who, ["--ro", "%s:/usr/lib/brig-no-such-place" % d], 125, "MOUNT_FAILED",
            "/usr/lib/brig-no-such-place")
    assert not os.path.exists("/usr/lib/brig-no-such-place")
    assert r.json["error"]["fix"]


@pytest.mark.parametrize("mask", ["relative", "/", "/proc/cpuinfo", "/a/../b", "/dev/null"])
def test_impossible_masks(who, mask):
    bad(who, ["--mask", mask], 125, "BAD_MOUNT", "--mask", mask)


def test_masks_that_hide_where_the_command_works(who):
    """It was said that the command may not enter its directory, with advice about that directory's mode."""
    who.mkdir(who.ws / "sub/deep")
    for mask in (who.ws, who.base, "%s/" % who.ws):
        bad(who, ["--mask", mask], 125, "BAD_MOUNT", "--mask", "would hide the workspace", "--workspace")
    bad(who, ["--mask", who.ws / "sub", "--cwd", "sub/deep"], 125, "BAD_MOUNT", "would hide the working directory", "--cwd")
    bad(who, ["--at", "/w", "--mask", "/w"], 125, "BAD_MOUNT", "would hide the workspace")
    assert who.run("ls", opts=["--mask", who.ws / "sub"]).code == 0
    assert who.run("ls", opts=["--mask", who.ws / "sub/deep", "--cwd", "sub"]).code == 0


@pytest.mark.parametrize("opts,why", [(["--ro", "/usr:/etc/passwd/x"], "is a file"),
                                      (["--ro", "/usr/bin/env:/etc/ssl/certs"], "or a file that of a directory"),
                                      (["--rw", "/usr/share:/etc/services"], "or a file that of a directory")])
def test_places_of_another_kind(who, opts, why):
    """A file on the way, a file where a directory is: said is that, and not what this machine can do."""
    bad(who, opts, 125, "MOUNT_FAILED", opts[1].split(":")[1], why, "give another place")


@pytest.mark.parametrize("path", ["/abs", "../up", "a/../../b", "."])
def test_impossible_protect(who, path):
    bad(who, ["--protect", path], 125, "BAD_VALUE", "--protect", path)


# -- descriptors --------------------------------------------------------------

def test_descriptors_that_are_not_open(who):
    bad(who, ["--env-fd", "77"], 125, "BAD_FD", "--env-fd 77", "open")
    r = who.brig("run", "--status-fd", "77", "--", *who.ran_marker())
    r.refused(125, "BAD_FD", "--status-fd 77")
    assert not who.marker.exists()
    for option in ("--env-fd", "--status-fd"):
        for value in ("-1", "x", "1.5", "99999999999999999999", "0x10"):
            bad(who, [option, value], 2, "BAD_VALUE", option, value, "descriptor")


def test_env_fd_that_cannot_be_read(who):
    with open("/dev/null", "wb") as f:
        r = who.brig("run", "--env-fd", str(f.fileno()), "--", *who.ran_marker(), pass_fds=(f.fileno(),))
    r.refused(125, "BAD_FD", "--env-fd", "is not open for reading", "for reading before starting brig")
    assert not who.marker.exists()


def test_status_fd_that_cannot_be_written(who):
    with open("/dev/null", "rb") as f:
        r = who.brig("run", "--status-fd", str(f.fileno()), "--", *who.ran_marker(),
                     pass_fds=(f.fileno(),))
    r.refused(125, "BAD_FD", "not open for writing")
    assert not who.marker.exists()


@pytest.mark.parametrize("redirect", [">&-", "1</dev/null"])
def test_json_with_nowhere_to_go(who, redirect):
    """The command ran, and its result went to /dev/null, without a word where standard output was closed."""
    def run(*args):
        return who.host("sh", "-c", 'exec "$@" ' + redirect, "sh", BRIG, *args, check=False)
    p = run("run", "--json", "--", *who.ran_marker())
    assert p.returncode == 125 and p.stderr.count(b"\n") == 1, p
    assert p.stderr.startswith(b"brig: BAD_FD: ") and b"standard output" in p.stderr, p
    assert not who.marker.exists()
    p = run("explain", "--json")
    assert p.returncode == 125 and b"standard output" in p.stderr, p
    assert run("run", "--", *who.ran_marker()).returncode == 0 and who.marker.exists()
    p = run("run", "--json", "--status-fd", "2", "--", "echo", "out")
    assert p.returncode == 0 and json.loads(p.stderr)["stdout"] == "out\n", p


@pytest.mark.parametrize("data,word", [(b"NOEQUALS\0", "no '='"), (b"=x\0", "no name"),
                                       (b"A B=x\0", "A B"), (b"\x1b[31m=x\0", "control character")])
def test_env_fd_with_nonsense(who, data, word):
    for extra in ([], ["--json"]):
        rd, wr = os.pipe()
        os.write(wr, data)
        os.close(wr)
        r = who.brig("run", *extra, "--env-fd", str(rd), "--", *who.ran_marker(), pass_fds=(rd,))
        os.close(rd)
        r.refused(125, "BAD_VALUE", "--env-fd", word)
        assert "NOEQUALS" not in str(r.err)  # it may be a secret that lost its name
        assert not who.marker.exists()


def test_env_fd_too_large(who):
    with open("/dev/zero", "rb") as f:
        r = who.brig("run", "--env-fd", str(f.fileno()), "--", *who.ran_marker(),
                     pass_fds=(f.fileno(),))
    r.refused(125, "BAD_FD", "--env-fd", "1M")
    assert not who.marker.exists()


def test_env_names(who):
    bad(who, ["--env", "=value"], 125, "BAD_VALUE", "no name")
    r = bad(who, ["--env", "BAD NAME=s3cret"], 125, "BAD_VALUE", "BAD NAME")
    assert "s3cret" not in r.err + r.out, "a value may be a secret"
    bad(who, ["--env", "NOT_SET_ANYWHERE"], 125, "BAD_VALUE", "NOT_SET_ANYWHERE", "not set")


# -- numbers ------------------------------------------------------------------

@pytest.mark.parametrize("option", ["--memory", "--tmp-size", "--file-size", "--max-output"])
@pytest.mark.parametrize("value", ["-1", "1e9", "12X", "abc", "1 M", "1.M", "0x10", "1MM", "+5", "NaN",
                                   "999999999999999999999999", "9999999999999G"])
def test_sizes(user, option, value):
    user.brig("run", option, value, "--", *user.ran_marker()).refused(
        2, "BAD_VALUE", option, value, "a size such as")
    assert not user.marker.exists()


@pytest.mark.parametrize("value", ["abc", "-1", "1.5", "4194305", "99999999999999999999999", "1e3", " 5"])
def test_pids_malformed(user, value):
    user.brig("run", "--pids", value, "--", *user.ran_marker()).refused(
        2, "BAD_VALUE", "--pids", "whole number")
    assert not user.marker.exists()


def test_pids_edges(who):
    bad(who, ["--pids", "1"], 2, "BAD_VALUE", "--pids", "at least 2")
    j = who.sh("echo ok", ["--pids", "0"]).json
    assert j["stdout"] == "ok\n" and "pids" not in j["missing"]


@pytest.mark.parametrize("option,value", [("--timeout", "-1"), ("--timeout", "1s"), ("--timeout", "."),
                                          ("--timeout", "1e999"), ("--cpus", "-0.5"),
                                          ("--cpus", "one"), ("--timeout", "99999999999999999999")])
def test_decimals(user, option, value):
    user.brig("run", option, value, "--", *user.ran_marker()).refused(
        2, "BAD_VALUE", option, value, "decimal number")


def test_limits_too_small_to_start_anything(who):
    bad(who, ["--memory", "4096"], 2, "BAD_VALUE", "--memory", "at least 1M")
    bad(who, ["--cpus", "0.001"], 2, "BAD_VALUE", "--cpus", "at least 0.01")
    bad(who, ["--tmp-size", "0"], 2, "BAD_VALUE", "--tmp-size", "64K")


@pytest.mark.parametrize("option,value", [("--timeout", "0.0001"), ("--cpus", "0.0001"), ("--memory", "0.1"),
                                          ("--file-size", "0.5")])
def test_a_limit_above_zero_never_becomes_no_limit(who, option, value):
    """0 means none: a tiny value must not be rounded down to it."""
    r = who.brig("explain", "--json", option, value)
    if r.code == 0:
        key = {"--timeout": "timeout_ms", "--cpus": "cpu_milli", "--memory": "memory", "--file-size": "file_size"}[option]
        assert json.loads(r.out)["limits"][key] > 0, "no limit at all"
    else:
        assert r.code in (2, 125) and option in r.err


def test_enormous_output_limit_is_not_allocated(who):
    r = who.sh("printf hello", ["--max-output", "8388607T"])
    assert r.code == 0 and r.json["stdout"] == "hello"
    r = who.run("head", "-c", "3000000", "/dev/zero", opts=["--max-output", "1T"])
    assert r.code == 0 and r.json["truncated"]["stdout"] == 0


# -- words --------------------------------------------------------------------

def test_require_bogus(who):
    bad(who, ["--require", "bogus"], 2, "BAD_VALUE", "'bogus' is not a layer", "landlock")
    bad(who, ["--require", "user,,pid"], 2, "BAD_VALUE", "an empty value")
    bad(who, ["--require", "user,"], 2, "BAD_VALUE", "an empty value")
    bad(who, ["--require", "USER"], 2, "BAD_VALUE", "'USER'")
    bad(who, ["--net", "maybe"], 2, "BAD_VALUE", "'maybe'", "none|allow|host")
    bad(who, ["--loopback", "up"], 2, "BAD_VALUE", "'up'", "off|on")


@pytest.mark.parametrize("opts,word", [
    (["--hold"], "--hold"),
])
def test_unsupported(who, opts, word):
    bad(who, opts, 125, "UNSUPPORTED", word, "not available in this version")


@pytest.mark.parametrize("opts,code,word", [
    (["--image", "x"], "BAD_OPTION", "--image"), (["--runtime", "runsc"], "BAD_OPTION", "--runtime"),
    (["--wrapper", "x {command}"], "BAD_OPTION", "--wrapper"),
    (["--tenant", "t"], "BAD_CONFIG", "tenants_dir"), (["--config", "f"], "BAD_CONFIG", "No such file"),
    (["--profile", "p"], "BAD_CONFIG", "no profile 'p'"),
])
def test_meant_for_something_else(who, opts, code, word):
    bad(who, opts, 125, code, word)


@pytest.mark.parametrize("opt", ["--profile", "--tenant", "--tool"])
@pytest.mark.parametrize("name", ["../x", "a/b", ".", "a b", "x" * 65, "\x1b[2J"])
def test_names_of_layers(user, opt, name):
    bad(user, [opt, name], 2, "BAD_VALUE", opt, "not a name")


def test_unsupported_result_object(who):
    """A program that asked for JSON gets JSON when the run is refused."""
    r = who.brig("run", "--json", "--hold", "--", *who.ran_marker())
    assert r.code == 125 and r.json is not None, r
    assert r.json["ran"] is False and r.json["error"]["code"] == "UNSUPPORTED"


def test_status_fd_closed_result_object(who):
    r = who.brig("run", "--json", "--status-fd", "77", "--", *who.ran_marker())
    assert r.code == 125 and r.json is not None, r
    assert r.json["ran"] is False and r.json["error"]["code"] == "BAD_FD"


def test_backend_unknown(who):
    bad(who, ["--backend", "vmware"], 2, "BAD_VALUE", "'vmware'", "native|")


# -- the system-call profile --------------------------------------------------

def profile(who, text):
    return who.write(who.base / "profile.json", text)


@pytest.mark.parametrize("text,word", [
    ("", ""), ("not json", ""), ("[]", ""), ("{", ""), ('{"defaultAction": 5}', ""),
    ('{"defaultAction": "SCMP_ACT_BOGUS"}', "SCMP_ACT_BOGUS"),
    ('{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": ["no_such_call"], '
     '"action": "SCMP_ACT_ERRNO"}]}', "no_such_call"),
    ('{"defaultAction": "SCMP_ACT_ALLOW"} trailing', ""),
    ("\0" * 100, ""),
])
def test_seccomp_profile_malformed(who, text, word):
    bad(who, ["--seccomp", profile(who, text)], 125, "BAD_SECCOMP_PROFILE", "profile.json", word)


def test_seccomp_profile_is_not_a_file(who):
    bad(who, ["--seccomp", "/no/such.json"], 125, "BAD_SECCOMP_PROFILE", "/no/such.json")
    bad(who, ["--seccomp", who.base], 125, "BAD_SECCOMP_PROFILE", who.base)
    fifo = who.base / "fifo"
    os.mkfifo(fifo)
    who.own(fifo)
    start = time.monotonic()
    bad(who, ["--seccomp", fifo], 125, "BAD_SECCOMP_PROFILE", "regular file")
    assert time.monotonic() - start < 2, "a FIFO must not hang brig"
    sock = socket.socket(socket.AF_UNIX)
    sock.bind(str(who.base / "sock"))
    bad(who, ["--seccomp", who.base / "sock"], 125, "BAD_SECCOMP_PROFILE", "sock")
    sock.close()
    bad(who, ["--seccomp", "/dev/zero"], 125, "BAD_SECCOMP_PROFILE", "/dev/zero")


def test_seccomp_profile_that_forbids_everything(who):
    p = profile(who, '{"defaultAction": "SCMP_ACT_ERRNO", "syscalls": []}')
    r = who.brig("run", "--json", "--seccomp", p, "--", *who.ran_marker(), timeout=5)
    assert r.code == 125 and not who.marker.exists(), r
    assert r.json["ran"] is False and r.json["error"]["fix"] and r.err.count("\n") == 1


@pytest.mark.parametrize("opts,code,name", [
    (["--memroy", "1G"], 2, "BAD_OPTION"), (["--workspace"], 2, "BAD_OPTION"), (["--memory", "12X"], 2, "BAD_VALUE"),
    (["--workspace", "/"], 125, "BAD_WORKSPACE"), (["--cwd", ".."], 125, "BAD_CWD"), (["--ro", "/no/such"], 125, "BAD_MOUNT"),
    (["--env-fd", "77"], 125, "BAD_FD"), (["--status-fd", "77"], 125, "BAD_FD"),
    (["--seccomp", "/no.json"], 125, "BAD_SECCOMP_PROFILE"), (["--hold"], 125, "UNSUPPORTED")])
def test_shell_refuses_what_run_refuses(user, opts, code, name):
    before = sorted(os.listdir(user.ws))
    r = user.brig("shell", *opts, input=b"touch ran\n")
    r.refused(code, name)
    assert r.out == "" and sorted(os.listdir(user.ws)) == before


# -- hostile names ------------------------------------------------------------

HOSTILE = ["a\x1b[31mred", "two\nlines", "tab\there", "c1\x9b31m", "del\x7f"]


def plain_line(r):
    """One line that no terminal takes for anything but text."""
    assert r.err.count("\n") == 1, r
    for c in r.err[:-1]:
        assert ord(c) >= 0x20 and not 0x7f <= ord(c) < 0xa0, r.err


@pytest.mark.parametrize("text", HOSTILE)
def test_control_characters_do_not_reach_the_terminal(who, text):
    odd = who.base / text
    for opts in (["--workspace", odd], ["--ro", odd], ["--cwd", text], ["--seccomp", odd],
                 ["--net", text], ["--memory", text], ["--require", text], ["--mask", text],
                 ["--" + text], ["--env", " %s=x" % text], ["--at", text], ["--protect", "../" + text]):
        r = who.brig("run", *opts, "--", *who.ran_marker())
        assert r.code in (2, 125), (opts, r)
        plain_line(r)
    r = who.brig("run", "--", text)
    assert r.code == 127
    plain_line(r)
    r = who.brig(text)
    assert r.code == 2
    plain_line(r)


@pytest.mark.parametrize("verb", ["shell", "doctor", "help"])
@pytest.mark.parametrize("text", HOSTILE)
def test_control_characters_after_other_verbs(user, verb, text):
    r = user.brig(verb, text)
    assert r.code == 2
    plain_line(r)


def test_name_with_control_characters(who):
    """A label goes to ps, logs and audit: it is escaped in JSON, never raw."""
    r = who.sh(":", ["--name", "evil\x1b[2J\nname"])
    assert b"\x1b" not in r.raw and r.raw.count(b"\n") == 1
    assert r.json is None or r.json["name"] == "evil\x1b[2J\nname"
    r = who.brig("explain", "--name", "evil\x1b[2J\nname")
    assert ESC not in r.out + r.err


def test_invalid_utf8_words(who):
    for opts in ([b"--workspace", b"/no/\xff\xfe"], [b"--cwd", b"\xff"], [b"--net", b"\xff"]):
        r = who.brig(b"run", *opts, b"--json", b"--", b"true")
        assert r.code in (2, 125) and r.err.count("\n") == 1
        assert "\ufffd" not in r.err, r
    r = who.brig(b"run", b"--json", b"--", b"/no/\xff")
    assert r.code == 127
    json.loads(r.raw)
