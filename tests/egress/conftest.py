# SPDX-License-Identifier: Apache-2.0
"""brig-egress in the lab of three network namespaces (tests/tools/egress_lab.py)."""
import os
import shutil
import socket
import struct
import sys
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "tools"))
import egress_lab as lab  # noqa: E402

BUILD = Path(os.environ.get("BRIG_BUILD", ROOT / "build"))
EXE = str(BUILD / "brig-egress")
REDIRECT = 19999


@pytest.fixture(scope="session")
def world():
    for p in ("ip", "openssl"):
        if not shutil.which(p):
            pytest.skip("%s is not installed on this host" % p)
    try:
        lab.move_to_host()
    except OSError as e:
        pytest.skip("no network namespace here: %s" % e)
    d = tempfile.mkdtemp(prefix="brig-egress-")
    os.chmod(d, 0o755)
    w = lab.World(d)
    yield w
    w.close()
    shutil.rmtree(d)


class Sandbox:
    """A sandbox's network with an egress process, and clients in it."""

    def __init__(self, world, allow, **kw):
        self.world = world
        self.audit = os.path.join(tempfile.mkdtemp(dir=world.dir), "audit")
        kw.setdefault("ports", (22, 80, 443))
        kw.setdefault("redirect", REDIRECT)
        kw.setdefault("conns_per_s", 5000)
        self.eg = lab.Egress(EXE, world.sandbox, allow, audit=self.audit, **kw)
        assert self.eg.fatal is None, self.eg.fatal
        self.closed = False
        world.forget()

    def close(self):
        self.eg.close()
        self.closed = True

    def run(self, *args, **kw):
        return self.world.sandbox.run(list(args), **kw)

    def socket(self, kind=socket.SOCK_STREAM, family=socket.AF_INET, timeout=15):
        with self.world.sandbox.inside():
            s = socket.socket(family, kind)
        s.settimeout(timeout)
        return s

    def ask(self, query, tcp=False, server=lab.RESOLVER4, timeout=3):
        """A DNS message in, the answer out (None: none came)."""
        family = socket.AF_INET6 if ":" in server else socket.AF_INET
        with self.socket(socket.SOCK_STREAM if tcp else socket.SOCK_DGRAM, family, timeout) as s:
            s.connect((server, 53))
            try:
                if tcp:
                    s.sendall(struct.pack("!H", len(query)) + query)
                    f = s.makefile("rb")
                    head = f.read(2)
                    return f.read(struct.unpack("!H", head)[0]) if head else None
                s.send(query)
                return s.recv(4096)
            except (TimeoutError, ConnectionError):
                return None

    def resolve(self, name, qtype=1, **kw):
        """(rcode, [addresses])"""
        r = self.ask(query(name, qtype), **kw)
        count, = struct.unpack("!H", r[6:8])
        if not count:
            return r[3] & 15, []
        size = 4 if qtype == 1 else 16
        family = socket.AF_INET if qtype == 1 else socket.AF_INET6
        return r[3] & 15, [socket.inet_ntop(family, r[-size:])]

    def connect(self, name, port, timeout=15):
        rcode, addrs = self.resolve(name)
        assert rcode == 0 and addrs, (name, rcode)
        s = self.socket(timeout=timeout)
        s.connect((addrs[0], port))
        return s

    def say(self, name, port, data, timeout=15):
        """Connects, sends, and reads to the end; None when it was reset."""
        try:
            with self.connect(name, port, timeout) as s:
                return exchange(s, data)
        except ConnectionError:
            return None

    def events(self, *a, **kw):
        return self.eg.events(*a, **kw)

    def one(self, **match):
        """The one event with these values, and nothing else for its name."""
        found = self.events(**match)
        assert len(found) == 1, (match, self.eg.events_seen)
        return found[0]

    def reached(self, kind="tcp"):
        return [x for x in self.world.log() if x[0] == kind]

    def asked(self):
        """Names that were asked for outside."""
        return {x[1] for x in self.world.log() if x[0] == "dns"}


def exchange(s, data):
    try:
        s.sendall(data)
        out = bytearray()
        while True:
            more = s.recv(65536)
            if not more:
                return bytes(out)
            out += more
    except (ConnectionError, TimeoutError) as e:
        return None if isinstance(e, ConnectionError) else "timeout"


def query(name, qtype=1, qclass=1, flags=0x0100, tail=b"", counts=(1, 0, 0, 0), raw=None):
    if raw is None:
        raw = b"".join(bytes([len(x)]) + x for x in name.encode("latin-1").split(b".")) + b"\0"
    return (struct.pack("!HHHHHH", 0x4242, flags, *counts) + raw +
            struct.pack("!HH", qtype, qclass) + tail)


@pytest.fixture
def sandbox(world):
    """Starts sandboxes; each must still be alive at the end, and ends at once."""
    made = []

    def start(allow, **kw):
        s = Sandbox(world, allow, **kw)
        made.append(s)
        return s
    yield start
    for s in made:
        if not s.closed:
            assert s.eg.alive(), "egress ended: %s" % s.eg.status
            s.close()
        assert s.eg.status == 0


def sanitized():
    with open(EXE, "rb") as f:
        return b"__asan_init" in f.read()


def need(*programs):
    for p in programs:
        if not shutil.which(p):
            pytest.skip("%s is not installed on this host" % p)
