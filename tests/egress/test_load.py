# SPDX-License-Identifier: Apache-2.0
"""Time limits, caps, long streams and many connections."""
import hashlib
import os
import socket
import threading
import time

import pytest
from conftest import exchange, sanitized

GET = b"GET / HTTP/1.0\r\nHost: allowed.test\r\n\r\n"


def reset_within(c, seconds):
    """Seconds until the connection is gone."""
    t = time.monotonic()
    c.settimeout(seconds)
    try:
        while c.recv(4096):
            pass
    except ConnectionError:
        pass
    return time.monotonic() - t


@pytest.mark.prompt
def test_upstream_down(world, sandbox):
    s = sandbox(["down.test:7", "hole.test", "never.test", "ghost.test"], ports=(7, 80),
                connect_ms=1500)
    for name, port, reason, most in (
            ("down.test", 7, "connect-failed", 0.5), ("hole.test", 80, "connect-timeout", 2.2),
            ("never.test", 80, "resolve-failed", 2.2), ("ghost.test", 80, "resolve-failed", 0.5)):
        t = time.monotonic()
        assert s.say(name, port, GET.replace(b"allowed.test", name.encode())) is None
        assert time.monotonic() - t < most, name
        e = s.one(name=name)
        assert (e["verdict"], e["reason"]) == ("failed", reason)


@pytest.mark.prompt
def test_slow_heads(world, sandbox):
    """A head that does not come to its end, on each kind of port."""
    s = sandbox(["allowed.test:22,80,443"], head_ms=700, connect=3128, socks=1080)
    _, (addr,) = s.resolve("allowed.test")
    starts = [((addr, 80), b""), ((addr, 80), b"GET / HTT"), ((addr, 443), b"\x16\x03\x01"),
              ((addr, 22), b"GET / HTT"), (("127.0.0.1", 3128), b"CONNECT all"),
              (("127.0.0.1", 3128), b""), (("127.0.0.1", 1080), b"\x05")]
    conns = []
    for where, first in starts:
        c = s.socket()
        c.connect(where)
        c.sendall(first)
        conns.append(c)
    stop = time.monotonic() + 0.6
    while time.monotonic() < stop:  # a byte now and then does not help
        for c, (_, first) in zip(conns, starts):
            if first[:3] == b"GET":
                c.sendall(b"x")
        time.sleep(0.15)
    for c in conns:
        assert reset_within(c, 3) < 2
        c.close()
    assert len(s.events(want=7, reason="head-timeout")) == 7
    assert s.eg.count_fds() < 40


@pytest.mark.prompt
def test_idle(world, sandbox):
    s = sandbox(["allowed.test:22"], idle_ms=500)
    with s.connect("allowed.test", 22) as c:
        c.recv(100)
        for _ in range(4):
            time.sleep(0.3)
            c.sendall(b"EHLO\r\n")
            assert c.recv(100) == b"EHLO\r\n"
        assert 0.3 < reset_within(c, 3) < 1.5
    assert s.events(port=22)


def test_caps(world, sandbox):
    s = sandbox(["allowed.test"], max_conns=20, head_ms=3000)
    _, (addr,) = s.resolve("allowed.test")
    conns, gone = [], 0
    for _ in range(60):
        c = s.socket(timeout=2)
        try:
            c.connect((addr, 80))
            conns.append(c)
        except ConnectionError:
            gone += 1
    time.sleep(0.3)
    assert s.eg.count_fds() < 20 + 40
    for c in conns:
        c.setblocking(False)
        try:
            c.recv(1)
        except BlockingIOError:
            pass
        except ConnectionError:
            gone += 1
    assert gone == 40
    time.sleep(1.2)
    assert sum(e["count"] for e in s.events(reason="connection-limit")) == 40
    for c in conns:
        c.close()
    time.sleep(0.1)
    assert b"hello" in s.say("allowed.test", 80, GET)


def test_rate(world, sandbox):
    """More than allowed per second wait their turn."""
    s = sandbox(["allowed.test"], conns_per_s=20)
    t = time.monotonic()
    for _ in range(50):
        assert b"hello" in s.say("allowed.test", 80, GET)
    assert 1.0 < time.monotonic() - t < 6


def test_half_open_flood(world, sandbox):
    """Connections that are made and forgotten, many more than there may be."""
    s = sandbox(["allowed.test"], max_conns=64, conns_per_s=2000, head_ms=1000)
    _, (addr,) = s.resolve("allowed.test")
    before = s.eg.memory_kb()
    conns = []
    for i in range(1500):
        c = s.socket(timeout=3)
        try:
            c.connect((addr, 443))
            c.send(b"\x16\x03\x01\x02\x00\x01")
        except OSError:
            pass
        conns.append(c)
        if len(conns) > 400:
            conns.pop(0).close()
    assert s.eg.count_fds() < 64 + 40
    assert s.eg.memory_kb() - before < 3000
    for c in conns:
        c.close()
    time.sleep(1.5)
    assert b"hello" in s.say("allowed.test", 80, GET)


def test_long_streams(world, sandbox):
    """Both directions at once, to the last byte; then half-closed."""
    s = sandbox(["allowed.test:22"])
    size = 30 << 20
    data = os.urandom(1 << 20)
    want, got = hashlib.sha256(b"X\0"), hashlib.sha256()
    with s.connect("allowed.test", 22) as c:
        assert c.recv(13) == b"220 welcome\r\n"

        def send():
            c.sendall(b"X\0")
            for _ in range(size >> 20):
                c.sendall(data)
                want.update(data)
            c.shutdown(socket.SHUT_WR)
        t = threading.Thread(target=send)
        t.start()
        n = 0
        while True:
            more = c.recv(1 << 16)
            if not more:
                break
            got.update(more)
            n += len(more)
            if n < 1 << 20:
                time.sleep(0.01)  # the other side waits
        t.join()
    assert n == size + 2 and got.digest() == want.digest()
    e = s.one(port=22)
    assert e["bytes_up"] == size + 2 and e["bytes_down"] == size + 15
    assert e["verdict"] == "allowed"


def test_half_close(world, sandbox):
    """The other side hears the end, answers, and is heard."""
    s = sandbox(["allowed.test:80"])
    with s.connect("allowed.test", 80) as c:
        c.sendall(GET)
        c.shutdown(socket.SHUT_WR)
        out = b""
        while True:
            more = c.recv(4096)
            if not more:
                break
            out += more
    assert b"hello" in out
    assert s.one(port=80)["verdict"] == "allowed"


def test_download(world, sandbox):
    s = sandbox(["allowed.test"])
    got = s.say("allowed.test", 80,
                b"GET /big/20000000 HTTP/1.0\r\nHost: allowed.test\r\n\r\n", timeout=30)
    assert len(got.split(b"\r\n\r\n", 1)[1]) == 20000000


def test_client_that_does_not_read(world, sandbox):
    """What a client does not take waits at the server, not in memory."""
    s = sandbox(["allowed.test"])
    before = s.eg.memory_kb()
    conns = []
    for _ in range(20):
        c = s.connect("allowed.test", 80)
        c.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        c.sendall(b"GET /big/100000000 HTTP/1.0\r\nHost: allowed.test\r\n\r\n")
        conns.append(c)
    time.sleep(1)
    assert s.eg.memory_kb() - before < 20 * 160 + 2000
    for c in conns:
        c.close()
    assert len(s.events(want=20)) >= 20


@pytest.mark.parametrize("count", [10000])
def test_many_connections(world, sandbox, count):
    """One after the other: no memory and no descriptor stays behind."""
    s = sandbox(["allowed.test", "*.wild.test"], conns_per_s=100000)
    _, (addr,) = s.resolve("allowed.test")
    where = (addr, 80)
    bad = GET.replace(b"allowed", b"denied.")

    def some(n):
        for i in range(n):
            with s.socket() as c:
                c.connect(where)
                if i % 4:  # three of four are refused, which is quicker here
                    assert exchange(c, bad) is None
                else:
                    assert b"hello" in exchange(c, GET)
            if i % 50 == 0:
                s.eg.forget()
    some(300)
    fds, memory = s.eg.count_fds(), s.eg.memory_kb()
    some(count)
    time.sleep(0.2)
    assert s.eg.count_fds() <= fds
    if not sanitized():  # which keeps what was freed
        assert s.eg.memory_kb() - memory < 300
