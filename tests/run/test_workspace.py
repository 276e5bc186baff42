# SPDX-License-Identifier: Apache-2.0
"""The workspace: binds, masks, working directory, and hostile names."""
import json
import os
import subprocess
import threading
import time

import pytest

from conftest import BRIG, IS_ROOT


# -- what is where ------------------------------------------------------------

def test_workspace_is_writable_and_persists(who):
    who.write(who.ws / "in", "from outside\n")
    assert who.ok("cat in; echo from inside > out") == "from outside\n"
    st = os.stat(who.ws / "out")
    assert (who.ws / "out").read_text() == "from inside\n"
    assert (st.st_uid, st.st_gid) == (who.uid, who.gid)


def test_default_workspace_is_the_current_directory(who):
    r = who.brig("run", "--", "pwd")
    assert (r.code, r.out) == (0, "%s\n" % who.ws)


def test_same_path_inside(who):
    assert who.ok("pwd; test -w . && echo w") == "%s\nw\n" % who.ws


def test_at(who):
    who.write(who.ws / "f", "x")
    out = who.ok("pwd; ls; test -e %s && echo both; true" % who.ws, ["--at", "/workspace"])
    assert out == "/workspace\nf\n"
    assert who.ok("pwd", ["--at", "/a/deep/place/"]) == "/a/deep/place\n"
    assert who.ok("pwd; ls -A", ["--at", "/tmp"], env={"HOME": "/home/agent"}) == "/tmp\nf\n"
    assert who.ok("pwd", ["--at", "/tmp/ws"]) == "/tmp/ws\n"
    assert who.ok("pwd", ["--at", "/home/agent/work"]) == "/home/agent/work\n"


def test_cwd(who):
    who.mkdir(who.ws / "a/b")
    who.symlink(who.ws / "inner", "a")
    assert who.ok("pwd", ["--cwd", "a/b"]) == "%s/a/b\n" % who.ws
    assert who.ok("pwd", ["--cwd", str(who.ws / "a")]) == "%s/a\n" % who.ws
    assert who.ok("pwd -P", ["--cwd", "inner/b"]) == "%s/a/b\n" % who.ws
    assert who.ok("pwd", ["--at", "/w", "--cwd", "/w/a"]) == "/w/a\n"
    assert who.ok("pwd", ["--at", "/w", "--cwd", str(who.ws / "a")]) == "/w/a\n"
    # the caller's own place inside the workspace
    assert who.ok("pwd", cwd=who.ws / "a/b") == "%s/a/b\n" % who.ws
    assert who.ok("pwd", cwd=who.base) == "%s\n" % who.ws


def test_relative_workspace(who):
    who.mkdir(who.ws / "proj")
    r = who.brig("run", "--json", "--workspace", "proj", "--", "pwd")
    assert r.json["stdout"] == "%s/proj\n" % who.ws


def test_ro_and_rw(who):
    ro, rw = who.mkdir(who.base / "ro"), who.mkdir(who.base / "rw")
    who.write(ro / "f", "read\n")
    r = who.sh("cat /data/f; echo x > /data/f; echo x > /data/g; rm /data/f; chmod 777 /data/f; "
               "echo y > %s/new; mv /data/f /data/h" % rw, ["--ro", "%s:/data" % ro, "--rw", rw])
    assert r.json["stdout"] == "read\n"
    assert os.listdir(ro) == ["f"] and (ro / "f").read_text() == "read\n"
    assert (rw / "new").read_text() == "y\n"


def test_bind_of_a_single_file(who):
    f = who.write(who.base / "one.txt", "one\n")
    assert who.ok("cat %s /x/y" % f, ["--ro", f, "--ro", "%s:/x/y" % f]) == "one\none\n"
    r = who.sh("echo two > /x/y", ["--rw", "%s:/x/y" % f])
    assert r.code == 0 and f.read_text() == "two\n"


def test_bind_through_a_symlink_keeps_its_name(who):
    real = who.mkdir(who.base / "real")
    who.write(real / "f", "x")
    link = who.symlink(who.base / "alias", real)
    assert who.ok("cat %s/f" % link, ["--ro", link]) == "x"


def test_colon_in_a_name(who):
    d = who.mkdir(who.base / "a:b")
    who.write(d / "f", "colon")
    assert who.ok("cat /c/f", ["--ro", "%s:/c" % str(d).replace(":", "\\:")]) == "colon"


def test_overlapping_binds(who):
    a, b = who.mkdir(who.base / "a"), who.mkdir(who.base / "b")
    who.write(a / "f", "a")
    who.mkdir(a / "sub")
    who.write(b / "f", "b")
    for opts in (["--ro", "%s:/m" % a, "--rw", "%s:/m/sub" % b], ["--rw", "%s:/m/sub" % b, "--ro", "%s:/m" % a]):
        r = who.sh("cat /m/f /m/sub/f; echo x > /m/sub/new; echo x > /m/new", opts)
        assert r.json["stdout"] == "ab" and "Read-only" in r.json["stderr"]
        assert (b / "new").exists() and not (a / "new").exists()
        (b / "new").unlink()


def test_working_directory_that_was_renamed(who):
    """Its name is the one it has, not the one it was entered by."""
    who.mkdir(who.base / "before")
    who.write(who.base / "before/f", "here\n")
    p = who.popen(["/bin/sh", "-c", 'cd "$1/before" && mv "$1/before" "$1/after" && mkdir "$1/before" && '
                   'exec "$2" run -- /bin/sh -c "pwd; cat f"', "sh", str(who.base), BRIG],
                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    out, err = p.communicate(timeout=30)
    assert out == "%s/after\nhere\n" % who.base, (out, err)


def test_deep_workspace(who):
    deep = who.base
    for _ in range(4):
        deep = deep / ("d" * 100)
    who.mkdir(deep)
    r = who.brig("run", "--workspace", deep, "--", "/bin/sh", "-c", "pwd; echo x > f")
    assert r.code == 0 and r.out == "%s\n" % deep and (deep / "f").exists(), r


def test_workspace_below_a_link(who):
    """The link is resolved once, before anything is decided."""
    real = who.mkdir(who.base / "real")
    who.mkdir(real / "ws")
    link = who.symlink(who.base / "alias", real)
    r = who.brig("run", "--workspace", link / "ws", "--", "/bin/pwd")
    assert r.code == 0 and r.out == "%s/ws\n" % real, r


@pytest.mark.parametrize("mask", ["one", "all"])
def test_processors_are_the_callers(who, mask):
    """brig moves its own processes about; the command may use what its caller may."""
    allowed = sorted(os.sched_getaffinity(0))
    use = allowed[:1] if mask == "one" else allowed
    show = "grep Cpus_allowed_list /proc/self/status; (grep Cpus_allowed_list /proc/self/status)"
    list_ = ",".join(map(str, use))
    p = who.popen(["taskset", "-c", list_, BRIG, "run", "--workspace", str(who.ws), "--", "/bin/sh", "-c", show],
                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    out, err = p.communicate(timeout=30)
    want = subprocess.run(["taskset", "-c", list_, "grep", "Cpus_allowed_list", "/proc/self/status"],
                          capture_output=True, text=True, check=True).stdout
    assert out == want * 2, (out, err)


def test_read_only_part_of_the_workspace(who):
    who.write(who.ws / "vendor/lib", "x")
    r = who.sh("echo y > vendor/lib; rm -rf vendor; mv vendor v2; echo z > free; cat vendor/lib",
               ["--ro", str(who.ws / "vendor")])
    assert r.json["stdout"] == "x" and (who.ws / "free").exists()
    assert (who.ws / "vendor/lib").read_text() == "x"


def test_bind_cannot_cover_private_home(who):
    """A bind of a parent does not bring the real home with it."""
    who.write(who.home / "secret", "s")
    who.write(who.base / "other/f", "f")
    out = who.ok("ls -A %s; ls %s" % (who.home, who.base), ["--ro", str(who.base)])
    assert "secret" not in out and "other" in out


def test_mask(who):
    who.write(who.ws / "secrets/key", "k")
    who.write(who.ws / ".env", "PASSWORD=x")
    r = who.sh("ls -A secrets; cat .env; echo x > .env; echo x > secrets/new; ls -A",
               ["--mask", str(who.ws / "secrets"), "--mask", str(who.ws / ".env")])
    assert "key" not in r.json["stdout"] and "PASSWORD" not in r.json["stdout"]
    assert (who.ws / ".env").read_text() == "PASSWORD=x"
    assert os.listdir(who.ws / "secrets") == ["key"]
    r = who.sh("ls -A /usr/share/doc; ls /usr/share | grep -c .", ["--mask", "/usr/share/doc"])
    assert r.json["stdout"].count("\n") == 1 and int(r.json["stdout"]) > 5


def test_mask_of_what_is_not_there(who):
    """A mask that hides nothing is a mistake in a name: it must not pass silently."""
    r = who.run(*who.ran_marker(), opts=["--mask", str(who.ws / "typo")])
    assert r.code == 125 and not who.marker.exists(), r
    assert "typo" in r.err and not (who.ws / "typo").exists()


def test_mask_wins_over_bind(who):
    d = who.mkdir(who.base / "d")
    who.write(d / "f", "x")
    assert who.sh("cat /m/f", ["--ro", "%s:/m" % d, "--mask", "/m/f"]).json["stdout"] == ""


def test_submounts_are_shown(who):
    """A tree with a mount below it: the mount comes along, with its own rules."""
    if not IS_ROOT:
        pytest.skip("needs root to mount on the host (in a namespace of its own)")
    script = ('mount -t tmpfs -o mode=777 none "$1/sub" && echo deep > "$1/sub/f" && '
              'exec setpriv --reuid %d --regid %d --clear-groups "$2" run --json --workspace "$1" -- '
              'sh -c "cat sub/f; echo new > sub/g; cat sub/g; mount | grep -c sub"' % (who.uid, who.gid))
    who.mkdir(who.ws / "sub")
    p = subprocess.run(["unshare", "-m", "sh", "-c", script, "sh", str(who.ws), str(BRIG)],
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=who.env, cwd=who.ws, timeout=20)
    j = json.loads(p.stdout)
    assert j["ran"], j
    assert j["stdout"].startswith("deep\n"), j


def test_read_only_submounts_stay_read_only(who):
    """--ro of a tree makes the mounts below it read-only as well."""
    if not IS_ROOT:
        pytest.skip("needs root to mount on the host (in a namespace of its own)")
    tree = who.mkdir(who.base / "tree/sub").parent
    script = ('mount -t tmpfs -o mode=777 none "$1/sub" && exec setpriv --reuid %d --regid %d --clear-groups '
              '"$2" run --json --workspace "$3" --ro "$1" -- sh -c "echo x > $1/sub/f && echo wrote; true"'
              % (who.uid, who.gid))
    p = subprocess.run(["unshare", "-m", "sh", "-c", script, "sh", str(tree), str(BRIG), str(who.ws)],
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=who.env, cwd=who.ws, timeout=20)
    j = json.loads(p.stdout)
    assert j["ran"] and "wrote" not in j["stdout"], j


def test_a_hundred_binds(who):
    opts = []
    for i in range(100):
        d = who.mkdir(who.base / ("b/%d" % i))
        who.write(d / "f", "%d\n" % i)
        opts += ["--ro", "%s:/binds/%d" % (d, i)]
    start = time.monotonic()
    out = who.ok("cat /binds/*/f | sort -n | tail -1; ls /binds | wc -l", opts)
    assert out == "99\n100\n"
    assert time.monotonic() - start < 2


@pytest.mark.parametrize("n", [1, 7, 8, 9, 60])
def test_binds_of_every_kind(who, n):
    """Directories and files, of the caller's and of the system's, at places of every kind.  From eight on two
    processes make the tree."""
    opts, want = [], {}
    for i in range(n):
        d = who.mkdir(who.base / ("k/%d" % i))
        f = who.write(d / "f", "%d\n" % i)
        kind = i % 6
        src, dst = [(d, "/binds/%d" % i), (f, "/etc/brig-test/%d" % i), (d, "/tmp/deep/er/%d" % i), (f, "/file%d" % i),
                    (d, d), (d, "/run/x%d/y" % i)][kind]
        opts += ["--rw" if i % 5 == 3 else "--ro", "%s:%s" % (src, dst)]
        want[str(dst if src == f else dst + "/f" if isinstance(dst, str) else dst / "f")] = (i, i % 5 == 3)
    # where what is shown lies decides when it is opened; in the place of something of brig's own
    opts += ["--ro", "/usr/share/common-licenses:/licenses", "--ro", "/usr/bin/env:/opt/env", "--ro",
             "%s:/etc/hosts" % who.write(who.base / "hosts", "mine\n")]
    script = "for f in %s; do read v < $f; { echo w >> $f; } 2>/dev/null && w=rw || w=ro; echo $f $v $w; done; " \
             "ls /licenses | wc -l; /opt/env true && cat /etc/hosts" % " ".join(want)
    r = who.sh(script, opts)
    lines = r.json["stdout"].splitlines()
    assert lines[:len(want)] == ["%s %d %s" % (k, v, "rw" if rw else "ro") for k, (v, rw) in want.items()], r.json
    assert lines[len(want):] == [str(len(os.listdir("/usr/share/common-licenses"))), "mine"], r.json
    for name, (i, rw) in want.items():
        assert (who.base / ("k/%d/f" % i)).read_text() == ("%d\nw\n" if rw else "%d\n") % i
    table = who.ok("cat /proc/self/mountinfo", opts).splitlines()
    for x in table:
        f = x.split()
        if f[4].startswith(("/binds", "/etc/brig-test", "/tmp/deep", "/file", "/run/x", str(who.base / "k"))):
            assert {"nosuid", "nodev"} <= set(f[5].split(",")), x
            # nothing that is mounted on the host's from now on arrives
            assert not any(t.startswith(("shared:", "master:")) for t in f[6:f.index("-")]), x
    who.probe("fds", opts=opts)


def test_many_binds_on_top_of_each_other(who):
    """Then the mounts are locked, and their order is that of the paths."""
    opts = []
    for i in range(12):
        d = who.mkdir(who.base / ("deep/%d" % i))
        who.mkdir(d / "next")
        who.write(d / "f", "%d\n" % i)
        opts += ["--ro", "%s:/deep%s" % (d, "/next" * i)]
    out = who.ok("d=/deep; while [ -e $d/f ]; do cat $d/f; d=$d/next; done", opts)
    assert out.split() == [str(i) for i in range(12)]


@pytest.mark.parametrize("n", [0, 12])
@pytest.mark.parametrize("place", ["/etc/ssl/certs", "/etc/services", "/etc", "/usr/share/doc"])
@pytest.mark.parametrize("option", ["--ro", "--rw"])
def test_binds_over_the_systems_own(who, place, option, n):
    """What the caller puts over a tree of the system's has the flags that he asked for, and is looked at for those.
    It comes last, when the other was there and looked at already."""
    file = place == "/etc/services"
    src = who.write(who.base / "mine", "mine\n") if file else who.mkdir(who.base / "mine")
    if not file:
        who.write(src / "f", "mine\n")
    opts = [option, "%s:%s" % (src, place)]
    for i in range(n):
        opts += ["--ro", "%s:/more/%d" % (who.mkdir(who.base / ("more/%d" % i)), i)]
    at = place if file else place + "/f"
    r = who.sh("cat %s; { echo more >> %s; } 2>/dev/null && echo written; for d in /more/*/; do (: > $d/new) && echo bad; "
               "done 2>/dev/null; true" % (at, at), opts)
    assert r.code == 0 and r.json["missing"] == [x for x in r.json["missing"] if x in ("memory", "cpu")], r.json
    assert r.json["stdout"] == ("mine\nwritten\n" if option == "--rw" else "mine\n"), r.json
    assert (src if file else src / "f").read_text() == ("mine\nmore\n" if option == "--rw" else "mine\n")


@pytest.mark.parametrize("n", [1, 10])
def test_binds_in_a_private_home_that_is_on_a_bind(who, n):
    """The bind comes first, then HOME on it, then directories in that, then what is put there."""
    top = who.mkdir(who.base / "top")
    for name in ("home", "ws"):
        who.mkdir(top / name)
    who.write(top / "seen", "top\n")
    opts = ["--ro", "%s:%s" % (top, who.base)]
    for i in range(n):
        for kind, dst in (("in", "%s/deep/er/%d" % (who.home, i)), ("out", "/out/%d" % i)):
            d = who.mkdir(who.base / ("src/%s%d" % (kind, i)))
            who.write(d / "f", "%s%d\n" % (kind, i))
            opts += ["--ro", "%s:%s" % (d, dst)]
    out = who.ok("cat %s/seen; cat %s/deep/er/*/f /out/*/f; echo x > %s/mine && ls %s; : > marker" % (
        who.base, who.home, who.home, who.home), opts)
    assert out.split() == ["top"] + ["in%d" % i for i in range(n)] + ["out%d" % i for i in range(n)] + ["deep", "mine"]
    assert (who.ws / "marker").exists() and not (top / "home/mine").exists() and not os.listdir(who.home)


def test_many_binds_one_of_which_is_not_as_it_was(who):
    """One of many sources is another directory by the time it is cloned: nothing runs, or what was there is shown."""
    opts = []
    for i in range(40):
        d = who.mkdir(who.base / ("s/%d" % i))
        who.write(d / "f", "mine\n")
        opts += ["--ro", "%s:/s/%d" % (d, i)]
    other = who.mkdir(who.base / "other")
    who.write(other / "f", "other\n")
    a, b = who.base / "s/39", who.base / "kept"
    refused = 0
    for wait in range(40):
        p = who.popen([BRIG, "run", "--json", "--workspace", str(who.ws), *map(str, opts), "--", "/bin/cat", "/s/39/f"],
                      stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        time.sleep(wait * 0.0001)
        os.rename(a, b)
        os.rename(other, a)
        out, err = p.communicate(timeout=30)
        os.rename(a, other)
        os.rename(b, a)
        j = json.loads(out)
        if j["ran"]:
            # before it was looked at for the first time it may have been either
            assert j["stdout"] in ("mine\n", "other\n"), j
        else:
            assert j["error"]["code"] in ("SOURCE_CHANGED", "MOUNT_FAILED", "BAD_MOUNT"), j
            refused += 1
    assert refused < 40


# -- hostile content ----------------------------------------------------------

NAMES = [b"new\nline", b"esc\x1b[31m", b"\xff\xfe\x80", b"-rf", b" space ", b"quote'\"`$(id)", b"a" * 255,
         "snow☃".encode(), b"\\x41", b"*?[x]"]


def test_odd_names_round_trip(who):
    for n in NAMES:
        with open(os.path.join(bytes(who.ws), n), "wb") as f:
            f.write(n)
        who.own(os.path.join(bytes(who.ws), n))
    code = "import os\nfor n in os.listdir(b'.'):\n assert open(n,'rb').read() == n\n open(n + b'' if len(n) > 250 else n + b'.out','wb').write(n)\nprint(len(os.listdir(b'.')))"
    r = who.run("/usr/bin/python3", "-c", code)
    assert r.code == 0, r.json
    names = set(os.listdir(bytes(who.ws)))
    assert set(NAMES) <= names and b"new\nline.out" in names and b"\xff\xfe\x80.out" in names


@pytest.mark.parametrize("name", [b"ws\nnew", b"ws\x1b[1m", b"ws\xff\xfe", b"ws with space", b"ws\\040", b"ws,a:b"])
def test_workspace_with_an_odd_name(who, name):
    d = os.path.join(bytes(who.base), name)
    os.mkdir(d)
    who.own(d)
    r = who.brig(b"run", b"--json", b"--workspace", d, b"--", b"sh", b"-c", b"pwd; echo x > f; ls", cwd=d)
    assert r.code == 0, r
    assert open(os.path.join(d, b"f")).read() == "x\n"
    if name.isascii():
        assert r.json["stdout"] == "%s\nf\n" % d.decode()


def test_bind_and_cwd_with_odd_names(who):
    src = os.path.join(bytes(who.base), b"odd\nsrc\xff")
    os.mkdir(src)
    who.own(src)
    with open(src + b"/f", "w") as f:
        f.write("odd")
    who.own(src + b"/f")
    sub = os.path.join(bytes(who.ws), b"sub\nd\xff")
    os.mkdir(sub)
    who.own(sub)
    r = who.brig(b"run", b"--json", b"--ro", src + b":/odd\ndst\xfe", b"--cwd", b"sub\nd\xff", b"--", b"sh", b"-c",
                 b"cat '/odd\ndst\xfe/f'; touch here")
    assert r.code == 0 and r.json["stdout"] == "odd", r
    assert os.listdir(sub) == [b"here"]


def test_deep_tree(who):
    code = """
import os
for i in range(3000):
    os.mkdir("d"); os.chdir("d")
open("bottom", "w").close()
print("made")
"""
    # not deeper: Landlock looks at every directory above, each time
    assert who.run("/usr/bin/python3", "-c", code).json["stdout"] == "made\n"
    # brig can use the workspace again, and protect and sweep do not mind
    assert who.ok("ls; rm -rf d; ls") == "d\n"


def test_very_deep_tree(user):
    """That was there before: neither looked through nor a reason to wait, read-only or moved aside."""
    make = "import os\nfor i in range(20000): os.mkdir('d'); os.chdir('d')"
    user.host("/usr/bin/python3", "-c", make)
    user.mkdir(user.ws / ".vscode")
    (user.ws / "d").rename(user.ws / ".vscode/d")
    r = user.sh("ls -A; touch .vscode/d/new; ls .vscode")
    assert r.json["stdout"].split() == [".vscode", "d"] and "Read-only" in r.json["stderr"] and r.seconds < 10, r.json
    (user.ws / ".vscode/d").rename(user.ws / "d")
    (user.ws / ".vscode").rmdir()
    r = user.sh("mv d .idea")
    assert [d["target"] for d in r.json["denied"]] == [".idea"] and r.seconds < 10, r
    assert os.listdir(user.ws) == [".idea.brig-denied-%s" % r.json["id"]]
    user.host("rm", "-rf", *user.ws.iterdir())


def test_unreadable_things_in_the_workspace(who):
    who.mkdir(who.ws / "closed").chmod(0)
    os.mkfifo(who.ws / "fifo")
    who.own(who.ws / "fifo")
    with open(who.ws / "sparse", "wb") as f:
        f.truncate(1 << 40)
    who.own(who.ws / "sparse")
    start = time.monotonic()
    assert who.ok("ls") == "closed\nfifo\nsparse\n"
    assert time.monotonic() - start < 2
    (who.ws / "closed").chmod(0o755)


def test_workspace_swapped_while_starting(who):
    """CVE-2021-30465: a racer that swaps the source for a link never wins."""
    target = who.mkdir(who.base / "secret")
    who.write(target / "key", "SECRET")
    race = who.mkdir(who.base / "race")
    stop = []

    def swap():
        while not stop:
            try:
                os.rename(race, str(race) + ".x")
                os.symlink(target, race)
                os.unlink(race)
                os.rename(str(race) + ".x", race)
            except OSError:
                pass
    t = threading.Thread(target=swap)
    t.start()
    codes = set()
    try:
        for _ in range(60):
            r = who.brig("run", "--json", "--workspace", race, "--", "sh", "-c", "cat key; ls")
            codes.add(r.code)
            assert "SECRET" not in r.out and "key" not in ((r.json or {}).get("stdout") or "")
            r = who.brig("run", "--json", "--workspace", who.ws, "--rw", "%s:/m" % race, "--", "sh", "-c", "ls /m")
            assert r.code in (0, 125, 2)
    finally:
        stop.append(1)
        t.join()
    assert codes <= {0, 125}


def test_cwd_swapped_for_a_link_out(who):
    """The working directory is resolved again inside, beneath the workspace."""
    who.mkdir(who.ws / "d")
    stop = []

    def swap():
        while not stop:
            try:
                os.rename(who.ws / "d", who.ws / "d.x")
                os.symlink("/usr", who.ws / "d")
                os.unlink(who.ws / "d")
                os.rename(who.ws / "d.x", who.ws / "d")
            except OSError:
                pass
    t = threading.Thread(target=swap)
    t.start()
    try:
        for _ in range(60):
            r = who.run("pwd", "-P", opts=["--cwd", "d"])
            assert r.code in (0, 125), r
            if r.code == 0:
                assert r.json["stdout"].startswith(str(who.ws)), r.json["stdout"]
    finally:
        stop.append(1)
        t.join()


def test_workspace_on_other_file_systems(who):
    for place in ("/dev/shm", "/var/tmp"):
        d = os.path.join(place, "brig-test-%d" % os.getpid())
        os.mkdir(d)
        os.chmod(d, 0o755)
        who.own(d)
        try:
            r = who.brig("run", "--json", "--workspace", d, "--at", "/w", "--", "sh", "-c", "echo x > f; pwd", cwd=d)
            assert r.code == 0 and r.json["stdout"] == "/w\n", (place, r)
            st = os.stat(d + "/f")
            assert (st.st_uid, st.st_gid) == (who.uid, who.gid)
        finally:
            subprocess.run(["rm", "-rf", d])
