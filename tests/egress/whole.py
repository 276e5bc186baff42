# SPDX-License-Identifier: Apache-2.0
"""brig itself in the lab, as an ordinary user or as root, for several test files."""
import ctypes
import json
import os
import signal
import struct
import subprocess
import tempfile

import pytest
from conftest import ROOT, lab
from test_brig import Caller

USERS = ["user", "root"]


class Whole(Caller):
    """A caller who may also be root, and to whom a system call may be refused."""

    def __init__(self, world, who):
        super().__init__(world)
        self.who, self.world, self.refuse = who, world, None
        self.test_uid = self.uid
        if who == "root":
            self.uid = 0
            for d in (self.ws, self.home):
                os.chown(d, 0, 0)

        self.log = os.path.join(self.home, ".local/state/brig" if self.uid else "log/brig")
        if who == "root":
            os.mkdir(os.path.join(self.home, "log"))

    def enter(self):
        if not self.uid:  # root's log is the host's: not in this mount namespace
            lab.unshare(lab.NEWNS)
            lab.mount("none", "/", lab.MS_REC | lab.MS_PRIVATE)
            lab.mount(os.path.join(self.home, "log"), "/var/log", lab.MS_BIND)
        super().enter()
        if self.refuse:
            refuse_socket(*self.refuse)

    def fresh(self):
        """Forget what was seen and written down so far."""
        self.world.forget()
        path = os.path.join(self.log, "audit.log")
        if os.path.exists(path):
            os.truncate(path, 0)

    def audit(self):
        with open(os.path.join(self.log, "audit.log")) as f:
            return [json.loads(x) for x in f]

    def file(self, name, text, mode=0o644):
        path = os.path.join(self.ws, name)
        with open(path, "w") as f:
            f.write(text)
        os.chown(path, self.uid, self.uid)
        os.chmod(path, mode)
        return path


def refuse_socket(family, protocol, errnum):
    """socket(family, any, protocol) fails, as where the kernel's module is missing."""
    def ins(code, jt, jf, k):
        return struct.pack("HBBI", code, jt, jf, k)
    load, equal, ret = 0x20, 0x15, 0x06
    prog = b"".join([
        ins(load, 0, 0, 0), ins(equal, 0, 5, 41),           # x86_64's socket()
        ins(load, 0, 0, 16), ins(equal, 0, 3, family),
        ins(load, 0, 0, 32), ins(equal, 0, 1, protocol),
        ins(ret, 0, 0, 0x50000 | errnum), ins(ret, 0, 0, 0x7fff0000)])
    text = ctypes.create_string_buffer(prog, len(prog))
    fprog = ctypes.create_string_buffer(
        struct.pack("HxxxxxxQ", len(prog) // 8, ctypes.addressof(text)))
    lab.check(lab.libc.prctl(38, 1, 0, 0, 0), "no_new_privs")
    lab.check(lab.libc.prctl(22, 2, fprog, 0, 0), "seccomp")


@pytest.fixture(params=USERS)
def caller(world, request):
    return Whole(world, request.param)


@pytest.fixture
def user(world):
    return Whole(world, "user")


@pytest.fixture(scope="session")
def services(world):
    """git over HTTPS on 944, a database on 5432."""
    p = world.internet.popen(
        ["/usr/bin/python3", str(ROOT / "tests/tools/egress_services.py"), world.dir],
        stdout=subprocess.PIPE)
    assert p.stdout.readline() == b"ready\n"
    yield p
    p.kill()
    p.wait()


@pytest.fixture(scope="session")
def sshd(world):
    """A real sshd, run by the test user for himself, on a port of its own."""
    exe = "/usr/sbin/sshd"
    if not os.path.exists(exe):
        pytest.skip("openssh-server is not installed on this host")
    uid = Whole(world, "user").uid
    with open("/etc/passwd") as f:  # whatever shell the test user has: this one here
        users = [x.split(":") for x in f.read().split("\n") if x]
    d = tempfile.mkdtemp(dir=world.dir)
    for name in ("host", "client"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f",
                        os.path.join(d, name)], check=True)
    with open(os.path.join(d, "conf"), "w") as f:
        f.write("Port 2222\nHostKey %s/host\nAuthorizedKeysFile %s/client.pub\nPidFile none\n"
                "StrictModes no\nUsePAM no\nPasswordAuthentication no\n"
                "Subsystem sftp internal-sftp\n" % (d, d))
    with open(os.path.join(d, "passwd"), "w") as f:
        for u in users:
            f.write(":".join(u[:5] + ["/", "/bin/sh"] if u[2] == str(uid) else u) + "\n")
    os.chmod(os.path.join(d, "passwd"), 0o644)
    for path in [d] + [os.path.join(d, x) for x in os.listdir(d)]:
        os.chown(path, uid, uid)
    with open(os.path.join(d, "client")) as f:
        key = f.read()
    with open(os.path.join(d, "host.pub")) as f:
        known = "[allowed.test]:2222 " + f.read()

    def pre():
        lab.libc.prctl(1, signal.SIGKILL)
        world.internet.enter()
        lab.unshare(lab.NEWNS)
        lab.mount("none", "/", lab.MS_REC | lab.MS_PRIVATE)
        lab.mount(os.path.join(d, "passwd"), "/etc/passwd", lab.MS_BIND)
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    p = subprocess.Popen([exe, "-D", "-e", "-f", os.path.join(d, "conf")], preexec_fn=pre,
                         stderr=subprocess.PIPE, env={"PATH": "/usr/bin:/bin"})
    line = p.stderr.readline()
    assert b"listening" in line, line
    yield {"key": key, "known": known}
    p.kill()
    p.wait()
