# SPDX-License-Identifier: Apache-2.0
"""Protected paths where two runs are at work at once, under other names, and where there is no room."""
import json
import os
import resource
import shlex
import shutil
import subprocess
import time

import pytest

from conftest import BRIG, need
from test_protect import denied_paths, moved_to

BACKENDS = ["native", "bwrap"]


def start(who, script, *opts):
    """A run that goes on, in the background."""
    return who.popen([BRIG, "run", "--json", "--workspace", who.ws, *opts, "--", "/usr/bin/python3", "-c", script],
                     stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def result(p):
    out, err = p.communicate(timeout=30)
    assert out, err
    j = json.loads(out)
    assert j["ran"] and j["exit"] == 0, j
    return j


def wait_for(path):
    end = time.monotonic() + 20
    while not os.path.lexists(path):
        assert time.monotonic() < end, path
        time.sleep(0.02)


# -- two runs at once ---------------------------------------------------------

GIVE = """
import os, socket, subprocess, time
subprocess.run(["git", "init", "-q", "."], check=True)
fds = [os.open(".git/hooks", os.O_RDONLY)] + [os.open(".git/config", os.O_RDWR)] * %d
s = socket.socket(socket.AF_UNIX)
open("made", "w").close()
while True:
    try: s.connect("sock"); break
    except OSError: time.sleep(0.02)
socket.send_fds(s, [b"x"], fds)
s.recv(1)
"""

TAKE = """
import os, socket, time
s = socket.socket(socket.AF_UNIX); s.bind("sock"); s.listen(1)
k, _ = s.accept()
_, fds, _, _ = socket.recv_fds(k, 1, 4)
k.close()
while not os.path.exists("over"): time.sleep(0.02)
os.unlink("sock")
said = []
for what in (lambda: os.write(os.open("post-checkout", os.O_CREAT | os.O_WRONLY, 0o755, dir_fd=fds[0]), b"evil"),
             lambda: os.mkdir("evil", dir_fd=fds[0]),
             lambda: os.pwrite(fds[1], b"[core]\\n\\tfsmonitor = evil\\n", 0)):
    try: what(); said.append("done")
    except (OSError, IndexError) as e: said.append(type(e).__name__ + str(getattr(e, "errno", "")))
print(*said)
"""


@pytest.mark.parametrize("writer", [False, True], ids=["directory", "file-too"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_descriptors_handed_to_another_run(who, backend, writer):
    """A repository that one run makes, and the next one has a descriptor of that is not read-only there."""
    need("git")
    if who.is_root and backend == "bwrap":
        pytest.skip("bwrap refuses what belongs to root")
    giver = start(who, GIVE % writer, "--backend", backend)
    wait_for(who.ws / "made")
    taker = start(who, TAKE, "--backend", backend)
    given = result(giver)
    config, hooks = who.ws / ".git/config", who.ws / ".git/hooks"
    if writer:
        # what can still be written may not stay
        assert denied_paths(given) == [".", ".git/config", ".git/hooks"], given
        assert not config.exists() and not hooks.exists()
    else:
        assert given["denied"] == [] and config.exists() and hooks.is_dir(), given
    (who.ws / "over").touch()
    said = result(taker)["stdout"].split()
    if writer:  # (root's workspace has ids that end with its run: nothing can be made there)
        assert said[2] == "done" and set(said[:2]) <= {"done", "OSError75"}, said
    else:
        assert said == ["OSError30", "OSError30", "IndexError"], said
    assert not (hooks / "post-checkout").exists() and not (hooks / "evil").exists()
    assert not config.exists() or "fsmonitor" not in config.read_text()


@pytest.mark.parametrize("backend", BACKENDS)
def test_repository_made_while_nothing_is_handed_on(who, backend):
    """Sealing takes nothing from whoever just works: the repository is whole, and can be used afterwards."""
    need("git")
    if who.is_root and backend != "native":
        pytest.skip("these backends refuse what belongs to root")
    r = who.sh("git init -q . || exit 1; exec 5>f; sleep 100 & sleep 0.2", ["--backend", backend])
    assert r.code == 0 and r.json["denied"] == [], r.json
    assert (who.ws / ".git/config").exists() and (who.ws / ".git/hooks").is_dir()
    who.host("git", "status")


# Nothing is there when FIRST ends, so nothing of it is judged.  What it gave SECOND is given on to
# THIRD, where there is a repository by then, read-only.
FIRST = """
import os, socket, time
s = socket.socket(socket.AF_UNIX)
while True:
    try: s.connect("second"); break
    except OSError: time.sleep(0.02)
socket.send_fds(s, [b"x"], [os.open(".", os.O_RDONLY)] + [os.open("f", os.O_CREAT | os.O_WRONLY)] * %d)
s.recv(1)
"""

SECOND = """
import os, socket, subprocess, time
s = socket.socket(socket.AF_UNIX); s.bind("second"); s.listen(1)
k, _ = s.accept()
_, fds, _, _ = socket.recv_fds(k, 1, 4)
k.send(b"x")
os.unlink("second")
while not os.path.exists("first-over"): time.sleep(0.02)
subprocess.run(["git", "init", "-q", "."], check=True)
s = socket.socket(socket.AF_UNIX)
open("made", "w").close()
while True:
    try: s.connect("third"); break
    except OSError: time.sleep(0.02)
socket.send_fds(s, [b"x"], fds)
s.recv(1)
"""

THIRD = """
import os, socket, time
s = socket.socket(socket.AF_UNIX); s.bind("third"); s.listen(1)
k, _ = s.accept()
_, fds, _, _ = socket.recv_fds(k, 1, 4)
k.send(b"x")
os.unlink("third")
while not os.path.exists("over"): time.sleep(0.02)
for d in (None, fds[0]):
    try: print(os.write(os.open(".git/hooks/post-checkout", os.O_CREAT | os.O_WRONLY, 0o755, dir_fd=d), b"evil"))
    except OSError as e: print(e.errno)
"""


@pytest.mark.parametrize("writer", [False, True], ids=["directory", "file-too"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_descriptors_that_outlive_two_runs(who, backend, writer):
    """What a run has handed to another one is of no use when it is over, or it is said that it is."""
    need("git")
    if who.is_root and backend == "bwrap":
        pytest.skip("bwrap refuses what belongs to root")
    second = start(who, SECOND, "--backend", backend)
    wait_for(who.ws / "second")
    first = result(start(who, FIRST % writer, "--backend", backend))
    (who.ws / "first-over").touch()
    wait_for(who.ws / "made")
    third = start(who, THIRD, "--backend", backend)
    assert result(second)["denied"] == []
    (who.ws / "over").touch()
    said = result(third)["stdout"].split()
    assert said[0] == "30"
    if writer:  # the kernel takes nothing from who has a file open, and so it is told
        assert [d["target"] for d in first["denied"]] == ["."], first
        assert "another run" in first["denied"][0]["fix"]
    else:
        assert first["denied"] == [] and said == ["30", "30"], (first, said)
        assert not (who.ws / ".git/hooks/post-checkout").exists()


def test_descriptors_handed_to_another_workspace(who):
    """Without Landlock nothing keeps who gets one out of the workspace that it is of."""
    if who.is_root:
        pytest.skip("bwrap refuses what belongs to root")
    other = who.mkdir(who.base / "other")
    taker = who.popen([BRIG, "run", "--json", "--backend", "bwrap", "--workspace", other, "--", "/usr/bin/python3", "-c",
                       TAKE_ELSEWHERE], cwd=other, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                      stderr=subprocess.PIPE)
    wait_for(other / "sock")
    given = result(start(who, GIVE_ELSEWHERE % other, "--backend", "bwrap", "--ro", other))
    (other / "over").touch()
    assert result(taker)["stdout"] == "30\n"
    assert given["denied"] == [] and not (who.ws / ".envrc").exists()


GIVE_ELSEWHERE = """
import os, socket
s = socket.socket(socket.AF_UNIX); s.connect("%s/sock")
socket.send_fds(s, [b"x"], [os.open(".", os.O_RDONLY)]); s.recv(1)
"""

TAKE_ELSEWHERE = """
import os, socket, time
s = socket.socket(socket.AF_UNIX); s.bind("sock"); s.listen(1)
k, _ = s.accept()
_, fds, _, _ = socket.recv_fds(k, 1, 4)
k.send(b"x")
while not os.path.exists("over"): time.sleep(0.02)
try: print(os.write(os.open(".envrc", os.O_CREAT | os.O_WRONLY, dir_fd=fds[0]), b"evil"))
except OSError as e: print(e.errno)
"""


MAKER = """
import os, time
%s
open("made", "w").close()
while not os.path.exists("over"): time.sleep(0.02)
"""


@pytest.mark.parametrize("backend,made", [("native", "link"), ("bwrap", "link"), ("landlock", "link"),
                                          ("landlock", "file")])
def test_found_while_another_run_is_at_work(who, backend, made):
    """What one run has made and moves aside at its end, the other one does not make again."""
    if who.is_root and backend != "native":
        pytest.skip("these backends refuse what belongs to root")
    who.write(who.ws / "env.txt", "evil\n")
    make = 'os.symlink("env.txt", ".envrc")' if made == "link" else 'open(".envrc", "w").write("evil")'
    first = start(who, MAKER % make, "--backend", "native")
    wait_for(who.ws / "made")
    second = start(who, 'open("on", "w").close()\nimport time, os\nwhile not os.path.exists("go"): time.sleep(0.02)',
                   "--backend", backend)
    wait_for(who.ws / "on")
    (who.ws / "over").touch()
    assert denied_paths(result(first)) == [".envrc"]
    assert not os.path.lexists(who.ws / ".envrc")
    (who.ws / "go").touch()
    j = result(second)
    assert not os.path.lexists(who.ws / ".envrc"), j
    assert denied_paths(j) == [".envrc"] and len(moved_to(who, j)) == 1


AGAIN = """
import glob, os, time
open("on", "w").close()
while not os.path.exists("go"): time.sleep(0.02)
(away,) = glob.glob(".envrc.brig-denied-*")
%s
"""


@pytest.mark.parametrize("again", ["moved-back", "made-anew"])
@pytest.mark.parametrize("backend,made", [("native", "link"), ("bwrap", "link"), ("landlock", "link"),
                                          ("landlock", "file")])
def test_made_again_while_another_run_is_at_work(who, backend, made, again):
    """Nor does its command: what it found was not there before, and is not what it found."""
    if who.is_root and backend != "native":
        pytest.skip("these backends refuse what belongs to root")
    who.write(who.ws / "env.txt", "evil\n")
    make = 'os.symlink("env.txt", ".envrc")' if made == "link" else 'open(".envrc", "w").write("evil")'
    first = start(who, MAKER % make, "--backend", "native")
    wait_for(who.ws / "made")
    second = start(who, AGAIN % ('os.rename(away, ".envrc")' if again == "moved-back" else make), "--backend", backend)
    wait_for(who.ws / "on")
    (who.ws / "over").touch()
    assert denied_paths(result(first)) == [".envrc"]
    (who.ws / "go").touch()
    j = result(second)
    assert not os.path.lexists(who.ws / ".envrc"), j
    assert ".envrc" in denied_paths(j) and moved_to(who, j)


@pytest.mark.parametrize("backend", ["native", "landlock"])
def test_what_is_left_alone_stays_whoever_is_at_work(who, backend):
    """Links and files of the user's are where they were after two runs at once."""
    if who.is_root and backend != "native":
        pytest.skip("these backends refuse what belongs to root")
    who.symlink(who.ws / ".envrc", "env.txt")
    who.write(who.ws / ".claude/settings.json", "{}")
    who.write(who.ws / ".bashrc", "mine")
    first = start(who, MAKER % "", "--backend", backend)
    wait_for(who.ws / "made")
    assert who.sh("cat .bashrc .claude/* >/dev/null; ls -la", ["--backend", backend]).json["denied"] == []
    (who.ws / "over").touch()
    assert result(first)["denied"] == []
    assert os.readlink(who.ws / ".envrc") == "env.txt" and (who.ws / ".claude/settings.json").exists()


@pytest.mark.parametrize("when", ["first-ends-first", "second-ends-first"])
def test_a_link_that_both_have_found(who, when):
    """It may be removed and made again by both, and is put back by whoever does not find it."""
    who.symlink(who.ws / ".envrc", "env.txt")
    wait = 'import os, time\nopen("%s", "w").close()\nwhile not os.path.exists("%s"): time.sleep(0.02)\n'
    anew = 'os.unlink(".envrc"); os.symlink("env.txt", ".envrc")\n'
    first = start(who, wait % ("one", "go1") + anew)
    wait_for(who.ws / "one")
    second = start(who, wait % ("two", "go2") + 'os.unlink(".envrc")\n')
    wait_for(who.ws / "two")
    said = []
    for name, p in [("go1", first), ("go2", second)][::1 if when == "first-ends-first" else -1]:
        (who.ws / name).touch()
        said += [d["fix"] for d in result(p)["denied"]]
        assert os.readlink(who.ws / ".envrc") == "env.txt", said
    assert len(said) == 1 and "put back" in said[0], said


@pytest.mark.parametrize("backend", ["native", "landlock"])
def test_alone_again_it_is_put_back(who, backend):
    """The mark of a run ends with it."""
    if who.is_root and backend != "native":
        pytest.skip("these backends refuse what belongs to root")
    who.symlink(who.ws / ".envrc", "env.txt")
    assert who.sh(":", ["--backend", backend]).json["denied"] == []
    r = who.sh("rm .envrc", ["--backend", backend])
    assert os.readlink(who.ws / ".envrc") == "env.txt"
    (d,) = r.json["denied"]
    assert d["target"] == ".envrc" and "put back" in d["fix"]


def test_the_mark_is_in_nobodys_way(who):
    """flock(1) and locks on the directory are the command's, and its user's, as before."""
    code = """
import fcntl, os
fd = os.open(".", os.O_RDONLY)
fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
print("locked")
"""
    assert who.run("/usr/bin/python3", "-c", code).json["stdout"] == "locked\n"


# -- other names --------------------------------------------------------------

def test_other_name_that_was_there_and_is_gone(who):
    """Written by a second name, which is then removed: one name, and not the content of before."""
    f = who.write(who.ws / ".envrc", "mine\n")
    os.link(f, who.ws / "envrc.sample")
    r = who.sh("echo evil > envrc.sample; rm envrc.sample")
    assert denied_paths(r.json) == [".envrc"]
    assert not f.exists()
    # and with nothing done to it, it stays
    os.rename(who.ws / moved_to(who, r.json)[0], f)
    os.link(f, who.ws / "envrc.sample")
    assert who.sh("cat envrc.sample >/dev/null").json["denied"] == [] and f.exists()


@pytest.mark.parametrize("kind", ["link", "chain", "absolute", "hard-link"])
def test_hook_that_is_kept_elsewhere(who, kind):
    """.git/hooks/pre-commit leads to a script of the repository: that is what git would run."""
    need("git")
    who.host("git", "init", "-q", ".")
    script = who.write(who.ws / "tools/pre-commit", "#!/bin/sh\ntrue\n", 0o755)
    hook = who.ws / ".git/hooks/pre-commit"
    if kind == "hard-link":
        os.link(script, hook)
    elif kind == "chain":
        who.symlink(who.ws / "hook", "tools/pre-commit")
        who.symlink(hook, "../../hook")
    else:
        who.symlink(hook, script if kind == "absolute" else "../../tools/pre-commit")
    r = who.sh("echo evil >> .git/hooks/pre-commit; echo evil >> tools/pre-commit; mv tools/pre-commit x; "
               "mv tools away; rm -f hook; ln -s x hook; echo end")
    assert r.json["stdout"] == "end\n"
    if kind == "hard-link":
        # the other name is the command's to write; the hook may not be what it then is
        assert denied_paths(r.json) == [".git/hooks/pre-commit"] and not hook.exists()
    else:
        assert hook.read_text() == "#!/bin/sh\ntrue\n"
        assert denied_paths(r.json) == (["hook"] if kind == "chain" else [])


def test_link_in_a_protected_directory_to_what_is_not_there(who):
    who.write(who.ws / ".vscode/settings.json", "{}")
    who.symlink(who.ws / ".vscode/tasks.json", "../later.json")
    r = who.sh("echo evil > later.json")
    assert denied_paths(r.json) == ["later.json"]
    assert not (who.ws / ".vscode/tasks.json").exists()


def test_links_in_circles(who):
    for d in (".vscode", "a", "b"):
        who.mkdir(who.ws / d)
    who.symlink(who.ws / ".vscode/a", "../a")
    who.symlink(who.ws / "a/b", "../b")
    who.symlink(who.ws / "b/back", "../.vscode")
    who.symlink(who.ws / "b/self", "self")
    for i in range(60):
        who.symlink(who.ws / ".vscode" / ("l%d" % i), "../f%d" % i)
        who.write(who.ws / ("f%d" % i), "mine\n")
    r = who.sh("echo evil > f59; echo evil > f0; echo evil >b/x; cat f0 f59; ls b")
    assert r.json["stdout"] == "mine\nmine\nback\nself\n"


# -- no room ------------------------------------------------------------------

FILL = """
import os
open(".envrc", "w").write("evil\\n")
os.mkdir(".vscode"); open(".vscode/tasks.json", "w").write("evil\\n")
for size in (4096, 512):
    try:
        with open("big%d" % size, "wb", 0) as f:
            while True: f.write(b"x" * size)
    except OSError: pass
for l in (60, 45, 30, 12, 4, 2, 1):
    for i in range(100000):
        try: os.close(os.open((str(i) + "_" * l)[:max(l, len(str(i)))], os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        except FileExistsError: continue
        except OSError: break
try: os.rename(".envrc", ".envrc.brig-denied-01234567890123456789012345"); print("there is room")
except OSError: print("full")
"""


def small_disk(who, before, fill, after, opts=(), uid=None):
    """Runs a script in a small file system's workspace: the result, and what `after` said."""
    if not shutil.which("mkfs.ext4") or not os.path.exists("/dev/loop-control"):
        pytest.skip("no file system of our own to be had")
    if os.getuid() != 0:
        pytest.skip("mounting one takes root")
    img, at = who.base / "img", who.base / "mnt"
    subprocess.run(["truncate", "-s", "4M", img], check=True)
    subprocess.run(["mkfs.ext4", "-q", "-m", "0", "-b", "1024", "-N", "4000", img], check=True)
    at.mkdir()
    fill = who.write(who.base / "fill.py", fill, 0o644)
    run = ["setpriv", "--reuid", str(who.uid), "--regid", str(who.gid), "--clear-groups"] if uid is None else []
    run += [BRIG, "run", "--json", *opts, "--ro", fill, "--", "/usr/bin/python3", fill]
    script = ("set -e; mount -o loop '%s' '%s'; mkdir '%s/ws'; cd '%s/ws'; %s; chown %d:%d .; %s; %s" %
              (img, at, at, at, before, *((who.uid, who.gid) if uid is None else (uid, uid)),
               shlex.join(os.fspath(x) for x in run), after))
    p = subprocess.run(["unshare", "-m", "--propagation", "private", "sh", "-c", script], env=who.env,
                       capture_output=True, text=True, timeout=120)
    assert p.returncode == 0, p.stderr
    line, said = p.stdout.split("\n", 1)
    return json.loads(line), said


def test_full_disk(who):
    """To move aside takes room for a longer name.  Where there is none, what was planted is removed."""
    j, names = small_disk(who, ":", FILL, "ls -A")
    assert j["stdout"] == "full\n", j
    assert not {".envrc", ".vscode"} & set(names.split()), names
    assert denied_paths(j) == [".envrc", ".vscode"], j
    assert any("deleted" in d["fix"] for d in j["denied"]), j


@pytest.mark.parametrize("backend", BACKENDS)
def test_so_many_shared_indexes_take_no_longer(who, backend):
    """Each was looked at and moved: a command can make as many as it has time for.  And the run
    whose command had ended in time was said to have been stopped."""
    need("git")
    if who.is_root and backend == "bwrap":
        pytest.skip("bwrap refuses what belongs to root")
    who.host("git", "init", "-q", ".")
    who.host("/usr/bin/python3", "-c", "import os\nfor i in range(150000):\n"
             "    if i % 60000 == 0: open('.git/seed%d' % i, 'w'); seed = '.git/seed%d' % i\n"
             "    os.link(seed, '.git/sharedindex.%d' % i)")
    who.host("git", "update-index", "--refresh")
    r = who.run("true", opts=["--backend", backend, "--timeout", "1"])
    assert r.code == 0 and r.json["exit"] == 0 and not r.json["timed_out"], r
    assert r.seconds < 3.5, r.seconds
    shutil.rmtree(who.ws / ".git")


def test_full_disk_where_files_are_put_back(who):
    """What the command wrote does not stay for want of room, nor half of what was there before."""
    if who.is_root:
        pytest.skip("landlock refuses what belongs to root")
    fill = FILL.replace('os.mkdir(".vscode"); open(".vscode/tasks.json", "w").write("evil\\n")', "")
    assert fill != FILL
    j, found = small_disk(who, "yes mine | head -n 1000 >.envrc; chown %d .envrc" % who.uid, fill,
                          "cat .envrc 2>&1 || true", ["--backend", "landlock"])
    assert j["stdout"] == "full\n", j
    assert found == "mine\n" * 1000 or "No such file" in found, (j, found)
    told = {d["target"]: d["fix"] for d in j["denied"]}
    assert ("was put back" if "mine" in found else "could not be put back") in told[".envrc"], j


def test_full_disk_and_what_is_not_the_commands(who, account):
    """Root removes nothing that a command could only move into the way."""
    if not who.is_root:
        pytest.skip("root's brig on an ordinary user's workspace")
    uid, gid = account
    fill = FILL.replace('os.mkdir(".vscode")', 'os.rename("data", ".vscode")')
    j, left = small_disk(who, "mkdir -p data/mnt data/roots; echo x > data/roots/precious; chown %d:%d data; "
                         "mount -t tmpfs -o mode=755 tmpfs data/mnt; echo x > data/mnt/precious" % (uid, gid),
                         fill, "find .vscode* -type f", uid=uid)
    assert j["stdout"] == "full\n", j
    assert sorted(left.split()) == [".vscode/mnt/precious", ".vscode/roots/precious"], (j, left)
    assert {"target": ".vscode", "count": 1}.items() <= {d["target"]: d for d in j["denied"]}[".vscode"].items()
    assert any("could not be moved aside" in d["rule"] for d in j["denied"] if d["target"] == ".vscode"), j


@pytest.mark.parametrize("kind", ["fifo", "directory", "socket"])
def test_an_index_that_is_no_file(who, kind):
    """Nothing ran, and nobody said why."""
    need("git")
    who.host("git", "init", "-q", ".")
    make = {"fifo": "mkfifo .git/index", "directory": "mkdir .git/index",
            "socket": "python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\".git/index\")'"}[kind]
    who.host("sh", "-c", make)
    r = who.run("sh", "-c", "echo ran")
    assert r.json["ran"] and r.json["stdout"] == "ran\n", r.json
    assert denied_paths(r.json) == [".git/index"], r.json


@pytest.mark.parametrize("backend", ["native", "landlock"])
def test_few_descriptors(who, backend):
    """Where there are too few to look at everything afterwards nothing runs, and nothing is moved."""
    need("git")
    if who.is_root and backend != "native":
        pytest.skip("these backends refuse what belongs to root")
    commit = "git -C %s -c user.name=a -c user.email=a@b commit -q --allow-empty -m x"
    who.host("sh", "-c", "git init -q . && git config alias.x y && for i in 1 2 3 4 5 6; do git init -q s$i; " +
             commit % "s$i" + "; done; git add . 2>/dev/null")
    ran = set()
    for n in range(20, 130, 3):
        r = who.run("true", opts=["--backend", backend],
                    preexec_fn=lambda n=n: resource.setrlimit(resource.RLIMIT_NOFILE, (n, n)))
        assert r.code in (0, 125), r
        if r.code == 0:
            ran.add(n)
            assert r.json["denied"] == []
    assert 128 in ran and 20 not in ran, ran
    who.host("sh", "-c", "test -z \"$(find . -name '*brig-denied*')\"")


@pytest.mark.parametrize("how", ["where-they-are", "moved"])
def test_no_rights_left_where_files_are_put_back(who, how):
    """Directories without any permission: what is in them is put back as anywhere else."""
    if who.is_root:
        pytest.skip("the landlock backend refuses what belongs to root")
    files = {".envrc": "mine\n", ".vscode/tasks.json": "{}\n", ".config/fish/config.fish": "set\n", ".config/other": "o\n"}
    for name, text in files.items():
        who.write(who.ws / name, text)
    r = who.sh("echo evil >>.envrc; echo evil >.vscode/new; echo evil >.config/fish/config.fish; mkdir d; " +
               ("" if how == "where-they-are" else "mv .config d/c; ") + "chmod 000 .config d/c d . 2>/dev/null; true",
               ["--backend", "landlock"])
    assert who.ws.stat().st_mode & 0o777 == 0
    who.ws.chmod(0o755)
    (who.ws / ".config").chmod(0o755)
    for name, text in files.items():
        assert (who.ws / name).read_text() == text, name
    assert not (who.ws / ".vscode/new").exists()
    assert {".envrc", ".vscode", ".config/fish"} <= set(denied_paths(r.json)), r.json


@pytest.mark.parametrize("after", [":", "mkdir .git .config", "ln -s g .git; ln -s c .config"],
                         ids=["gone", "directories", "links"])
@pytest.mark.parametrize("backend", ["native", "landlock"])
def test_planted_and_moved_with_all_around_it(who, backend, after):
    """A directory on the way is moved away after something was made in it: it comes back without that."""
    need("git")
    if who.is_root and backend != "native":
        pytest.skip("the landlock backend refuses what belongs to root")
    who.host("git", "init", "-q", ".")
    who.write(who.ws / ".config/other", "o\n")
    r = who.sh("echo ../evil >.git/commondir; mkdir .config/fish; echo evil >.config/fish/config.fish; "
               "mv .git g; mv .config c; %s; true" % after, ["--backend", backend])
    assert (who.ws / ".config/other").exists()
    assert not (who.ws / ".git/commondir").exists() and not (who.ws / ".config/fish").exists()
    assert {".git/commondir", ".config/fish"} <= set(denied_paths(r.json)), r.json
    who.host("git", "status")


def test_settings_are_put_back_before_indexes_are_read(who):
    """An index is judged by the repository's settings as they will be, not as the command left them."""
    need("git")
    if who.is_root:
        pytest.skip("the landlock backend refuses what belongs to root")
    who.host("git", "init", "-q", ".")
    r = who.sh("export GIT_CONFIG_NOSYSTEM=1; git init -q sub && cd sub && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m x && "
               "git config core.fsmonitor evil && cd .. && git add sub 2>/dev/null && "
               "git config core.repositoryformatversion 1 && printf '[extensions]\\nobjectformat=sha256\\n' >>.git/config",
               ["--backend", "landlock"])
    assert r.code == 0, r.json
    assert denied_paths(r.json) == [".git/config", "sub/.git/config"], r.json
    assert (who.ws / ".git/index").exists() and not (who.ws / "sub/.git/config").exists()


def test_removed_with_all_in_it(who):
    """What is not there any more cannot be moved back, and that is not what is said."""
    if who.is_root:
        pytest.skip("the landlock backend refuses what belongs to root")
    who.write(who.ws / ".config/fish/config.fish", "set\n")
    who.write(who.ws / ".config/other", "o\n")
    r = who.sh("rm -r .config", ["--backend", "landlock"])
    assert (who.ws / ".config/fish/config.fish").read_text() == "set\n"
    said = {d["target"]: d["fix"] for d in r.json["denied"]}
    assert "could not be put back" in said[".config"] and "put back as it was" in said[".config/fish"]


@pytest.mark.parametrize("backend", [*BACKENDS, "landlock"])
def test_every_name_to_move_it_to_is_taken(user, backend):
    """The command knows its run's id.  What it planted stayed, as there was no name left for it."""
    need("git")
    user.host("git", "init", "-q", ".")
    before = (user.ws / ".git/config").read_text()
    user.write(user.ws / ".envrc", "mine\n")
    r = user.run("/usr/bin/python3", "-c", """import contextlib, os, shutil
for name in ".envrc", ".vscode", ".git/config", ".git/hooks", ".git":
    for end in [""] + [".%02d" % i for i in range(100)] + ["-%08x" % i for i in range(100)]:
        with contextlib.suppress(OSError):
            os.mkdir(name + ".brig-denied-" + os.environ["BRIG_SANDBOX"] + end)
def plant(path):
    with contextlib.suppress(OSError):
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        with open(path, "w") as f: f.write("evil")
for path in ".envrc", ".vscode/x", ".git/config", ".git/hooks/x": plant(path)
with contextlib.suppress(OSError):
    os.rename(".git", "elsewhere")
for path in ".git/config", ".git/hooks/x": plant(path)
""", opts=["--backend", backend])
    assert r.code == 0 and r.json["exit"] == 0, r
    assert (user.ws / ".git/config").read_text() == before and (user.ws / ".envrc").read_text() == "mine\n", r
    assert not (user.ws / ".git/hooks/x").exists() and not (user.ws / ".vscode").exists(), r


REPLACE_LINK = "os.remove('.bashrc'); os.symlink('evil', '.bashrc')"
REPLACE_GIT = ("os.rename('.git', 'away'); shutil.copytree('away', '.git')\n"
               "with open('.git/config', 'a') as f: f.write('[core] fsmonitor = evil\\n')")


@pytest.mark.parametrize("backend, act", [("native", REPLACE_LINK), ("bwrap", REPLACE_LINK), ("landlock", REPLACE_LINK),
                                          ("landlock", REPLACE_GIT)])
def test_found_where_another_run_had_replaced_it(user, backend, act):
    """The first puts back what was there; the second one put back what the first one's command had left there."""
    need("git")
    user.host("git", "init", "-q", ".")
    user.symlink(user.ws / ".bashrc", "real")
    opts = ["--backend", backend]
    first = start(user, "import os, shutil, time\n" + act + "\nopen('begun', 'w')\n"
                  "while not os.path.exists('go'): time.sleep(0.02)\n", *opts)
    wait_for(user.ws / "begun")
    second = start(user, "import os, time\nopen('found', 'w')\nwhile not os.path.exists('end'): time.sleep(0.02)\n", *opts)
    wait_for(user.ws / "found")
    user.write(user.ws / "go")
    result(first)
    user.write(user.ws / "end")
    result(second)
    link, config = user.ws / ".bashrc", user.ws / ".git/config"
    assert not link.is_symlink() or os.readlink(link) == "real"
    assert not config.exists() or "evil" not in config.read_text()
