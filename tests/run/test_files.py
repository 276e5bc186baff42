# SPDX-License-Identifier: Apache-2.0
"""CONTAINMENT, class Files: what is absent, read-only, impossible to leave."""
import json
import os
import stat
import subprocess

import pytest

from conftest import BRIG, IS_ROOT, make_who, need

PROBES = ["hidden", "readonly", "remount", "fds", "fd-walk", "mknod", "setuid-bits",
          "file-caps", "devices"]


@pytest.mark.parametrize("check", PROBES)
def test_probe(who, check):
    who.probe(check)


@pytest.mark.parametrize("check", ["mknod", "setuid-bits", "file-caps"])
@pytest.mark.parametrize("where", ["/tmp", "/dev/shm", "rw"])
def test_probe_in_other_writable_trees(who, check, where):
    d = who.mkdir(who.base / "rw")
    place = "/mnt/rw" if where == "rw" else where
    who.probe(check, place, opts=["--rw", "%s:/mnt/rw" % d])
    assert os.listdir(d) == []


def test_probe_lists_are_known(user):
    """A check added to the probe must be wired into a test file here."""
    listed = {x.split()[0] for x in subprocess.run([user.probe_file, "list"], stdout=subprocess.PIPE,
                                                   text=True, check=True).stdout.splitlines()}
    here = os.path.dirname(__file__)
    text = "".join(open(os.path.join(here, f)).read() for f in os.listdir(here) if f.startswith("test_"))
    missing = {x for x in listed if '"%s"' % x not in text and "probe %s" % x not in text}
    assert missing == set()


def test_homes_are_hidden(who):
    who.probe("homes", str(who.home))
    who.probe("writable", str(who.ws), "/tmp", "/dev/shm", "/var/tmp", str(who.home))


def test_other_users_home_and_secret_files(who):
    secret = who.write(who.home / ".ssh/id_ed25519", "PRIVATE", 0o600)
    beside = who.write(who.base / "beside", "neighbour")
    who.probe("absent", str(secret), str(beside), "/etc/shadow", "/root/.ssh", "/root/.bashrc",
              "/var/lib/docker", "/run/docker.sock", "/sys/kernel", "/boot", "/srv", "/opt/nothing")
    out = who.ok("ls -A %s; ls -A %s" % (who.home, who.base))
    assert out.split() == ["home", "ws"]


def test_root_directory_holds_only_what_is_planned(who):
    names = set(who.ok("ls -A /").split())
    assert names <= {"bin", "dev", "etc", "home", "lib", "lib32", "lib64", "libx32", "nix", "proc",
                     "root", "run", "sbin", "sys", "tmp", "usr", "var"}
    assert {"usr", "etc", "proc", "dev", "tmp"} <= names


def test_etc_names_nobody_of_this_machine(who):
    passwd = who.ok("cat /etc/passwd")
    assert [x.split(":")[0] for x in passwd.splitlines()] == ["root", "sandbox", "nobody"]
    assert set(who.ok("cat /etc/hostname 2>/dev/null; uname -n").split()) == {"sandbox"}
    who.probe("hostname", os.uname().nodename)
    assert os.uname().nodename not in who.ok("cat /etc/hosts /proc/sys/kernel/hostname").split()


def test_leaked_descriptors_do_not_arrive(who):
    """CVE-2024-21626, CVE-2016-9962: whatever the caller left open stays out."""
    fds = [os.open(p, os.O_RDONLY) for p in ("/", "/etc", "/proc/self/ns/mnt", "/proc")]
    try:
        who.probe("fds", pass_fds=fds)
        who.probe("fd-walk", pass_fds=fds)
        who.probe("pid1-files", pass_fds=fds)
    finally:
        for fd in fds:
            os.close(fd)


def test_stdin_that_is_a_directory_of_the_host(who):
    """stdio is the command's own, but a directory there must not lead out."""
    fd = os.open("/", os.O_RDONLY)
    try:
        r = who.brig("run", "--json", "--", "sh", "-c", "ls /proc/self/fd/0/etc/shadow /proc/self/fd/0/root",
                     stdin=fd)
    finally:
        os.close(fd)
    assert r.code != 0, "the host's root is in reach through stdin"


def test_nothing_odd_is_left_on_the_host(who):
    """After a command that tried everything: plain files of the right owner."""
    script = r"""
    cp /bin/sh a; chmod 4755 a; chmod u+s a; chmod 6777 a; chmod g+s a
    mkdir d; chmod 2775 d; chmod 1777 d
    mknod n c 1 3; mknod b b 8 0; mknod w c 0 0
    mkfifo fifo
    ln -s /etc/shadow link
    python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("sock")' || /usr/bin/python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("sock")'
    setcap cap_net_raw+ep a
    umask 0; install -m 6755 /bin/sh inst
    setfattr -n trusted.overlay.opaque -v y d
    echo done
    """
    r = who.sh(script)
    assert r.json["stdout"].endswith("done\n")
    found = {}
    for top, dirs, files in os.walk(who.ws):
        for name in dirs + files:
            st = os.lstat(os.path.join(top, name))
            found[name] = st
            assert not (stat.S_ISCHR(st.st_mode) or stat.S_ISBLK(st.st_mode)), name
            if not stat.S_ISDIR(st.st_mode):
                assert not st.st_mode & (stat.S_ISUID | stat.S_ISGID), name
            assert (st.st_uid, st.st_gid) == (who.uid, who.gid), name
            if stat.S_ISREG(st.st_mode):
                assert "security.capability" not in os.listxattr(os.path.join(top, name))
    assert {"a", "d", "fifo", "link"} <= set(found)
    assert stat.S_ISFIFO(found["fifo"].st_mode)
    assert found["d"].st_mode & stat.S_ISVTX, "the sticky bit is harmless and stays"


def test_existing_setuid_file_gains_nothing(who):
    """A setuid file that was there before: no_new_privs and one-id maps."""
    if not IS_ROOT:
        pytest.skip("needs root to make a file that is setuid root")
    f = who.write(who.ws / "su", b"", 0o755)
    with open("/usr/bin/id", "rb") as src:
        f.write_bytes(src.read())
    os.chown(f, 0, 0)
    f.chmod(0o4755)
    out = who.ok("./su -u; ./su -ru; id -u").split()
    assert len(set(out)) == 1 and out[0] != "0"
    who.own(f)


def test_hard_links_to_the_system(who):
    r = who.sh("ln /usr/bin/id stolen; ln /etc/passwd p; ln -L /bin/sh s; ls")
    assert "stolen" not in r.json["stdout"].split()
    assert os.listdir(who.ws) == []


def test_symlink_out_leads_nowhere(who):
    who.symlink(who.ws / "shadow", "/etc/shadow")
    who.symlink(who.ws / "home", str(who.home))
    who.write(who.home / "key", "SECRET")
    r = who.sh("cat shadow; cat home/key; ls home")
    assert r.code == 0 and r.json["stdout"] == ""
    assert r.json["stderr"].count("No such file") == 2


def test_binary_of_the_host_cannot_be_overwritten(who):
    """CVE-2019-5736: neither init's image nor any program can be written."""
    r = who.sh("for f in /proc/1/exe /proc/self/exe /bin/sh /usr/bin/env; do"
               " (: > $f) 2>/dev/null && echo wrote $f; done; echo end")
    assert r.json["stdout"] == "end\n"


def test_times_and_attributes_of_the_system_are_fixed(who):
    r = who.sh("touch /usr/bin/env; chmod 755 /usr/bin; rm -f /usr/bin/env; mv /usr/bin/env /tmp/; "
               "test -x /usr/bin/env && echo there")
    assert r.json["stdout"] == "there\n"


def test_tmp_is_private_and_fresh(who):
    mine = who.write(who.base / "tmpfile", "x")
    assert who.ok("ls -A /tmp | grep -v '^brig-run' | wc -l").strip() == "0"
    assert not os.path.exists("/tmp/brig-left-by-test")
    who.ok("echo x > /tmp/brig-left-by-test; echo y > /dev/shm/brig-left-by-test")
    assert not os.path.exists("/tmp/brig-left-by-test")
    assert not os.path.exists("/dev/shm/brig-left-by-test")
    assert who.ok("ls -A /dev/shm /tmp | grep -c left-by-test || true") == "0\n"
    assert mine.exists()


def test_home_is_private_and_empty(who):
    who.write(who.home / ".bashrc", "echo evil")
    assert who.ok("ls -A $HOME; echo x > $HOME/new; cat $HOME/new") == "x\n"
    assert sorted(os.listdir(who.home)) == [".bashrc"]


def test_mount_table_shows_nothing_of_the_host(who):
    """Sources of binds are paths of the file system they come from, but no
    mount of the host is listed and everything but the writable trees is ro."""
    table = who.ok("cat /proc/self/mountinfo")
    for line in table.splitlines():
        f = line.split()
        point, opts = f[4], f[5].split(",")
        assert "nosuid" in opts, line
        if point not in ("/tmp", "/var/tmp", "/dev/shm", str(who.ws), str(who.home), "/dev/pts",
                         "/proc") and not point.startswith("/dev/"):
            assert "ro" in opts, line
        if not point.startswith("/dev/") and point != "/dev":
            assert "nodev" in opts, line


def test_root_on_a_workspace_of_an_ordinary_user(base, account):
    """root runs brig on somebody's tree: the command is that somebody."""
    if not IS_ROOT:
        pytest.skip("needs root")
    w = make_who("user", base, account)
    p = subprocess.run([BRIG, "run", "--json", "--workspace", str(w.ws), "--", "sh", "-c",
                        "id -u; touch made; cp /bin/sh s; chmod u+s s; ls /root /home"],
                       stdout=subprocess.PIPE, cwd=w.ws, timeout=30)
    j = json.loads(p.stdout)
    assert j["stdout"].split()[0] == str(w.uid) and j["evidence"]["uid_outside"] == w.uid
    st = os.stat(w.ws / "made")
    assert (st.st_uid, st.st_gid) == (w.uid, w.gid)
    assert not os.stat(w.ws / "s").st_mode & 0o6000


def test_capsh_agrees(who):
    need("capsh")
    out = who.ok("capsh --print")
    assert "Current: =\n" in out and "Bounding set =\n" in out
    assert "no-new-privs=1" in out
