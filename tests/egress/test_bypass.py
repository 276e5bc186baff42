# SPDX-License-Identifier: Apache-2.0
"""Ways around the list: each is refused, with the right reason, and nothing that
must not be reached is reached."""
import os
import socket
import ssl
import struct
import subprocess
import time

import pytest
from conftest import REDIRECT, exchange, lab, need, query

GET = b"GET / HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n"


def client_hello(name, version=None):
    ctx = ssl.create_default_context()
    ctx.check_hostname = False
    ctx.verify_mode = ssl.CERT_NONE
    if version:
        ctx.maximum_version = version
    i, o = ssl.MemoryBIO(), ssl.MemoryBIO()
    obj = ctx.wrap_bio(i, o, server_hostname=name)
    try:
        obj.do_handshake()
    except ssl.SSLWantReadError:
        pass
    return o.read()


def split_records(hello, size):
    body = hello[5:]
    out = b""
    for at in range(0, len(body), size):
        part = body[at:at + size]
        out += b"\x16\x03\x01" + struct.pack("!H", len(part)) + part
    return out


def with_extension(hello, ext):
    """The hello with one more extension at its end."""
    b = bytearray(hello[5:])
    at = 4 + 2 + 32
    at += 1 + b[at]
    at += 2 + struct.unpack("!H", b[at:at + 2])[0]
    at += 1 + b[at]
    n = struct.unpack("!H", b[at:at + 2])[0]
    b[at:at + 2] = struct.pack("!H", n + len(ext))
    b += ext
    b[1:4] = struct.pack("!I", len(b) - 4)[1:]
    return b"\x16\x03\x01" + struct.pack("!H", len(b)) + bytes(b)


# --- where to ---------------------------------------------------------------------

@pytest.mark.parametrize("name,reason", [
    ("loop.test", "private-address"), ("zero.test", "private-address"),
    ("meta.test", "private-address"), ("azure.test", "private-address"),
    ("private.test", "private-address"), ("cgnat.test", "private-address"),
    ("mapped.test", "private-address"), ("nat64.test", "private-address"),
    ("own.test", "own-address")])
def test_private_addresses(world, sandbox, name, reason):
    s = sandbox([name])
    t = time.monotonic()
    assert s.say(name, 80, GET % name.encode()) is None
    assert time.monotonic() - t < 2
    assert s.one(name=name)["reason"] == reason
    assert s.reached() == []


def test_private_ok_and_listed(world, sandbox):
    s = sandbox(["private.test", "meta.test", "loop.test", "cgnat.test"], flags=lab.PRIVATE_OK)
    assert b"hello" in s.say("private.test", 80, GET % b"private.test")
    assert b"hello" in s.say("cgnat.test", 80, GET % b"cgnat.test")
    for name in ("meta.test", "loop.test"):
        assert s.say(name, 80, GET % name.encode()) is None
    s.close()
    # an address that is written down may be led to, on that port
    s = sandbox(["private.test:80,443", "10.9.9.9:80"])
    assert b"hello" in s.say("private.test", 80, GET % b"private.test")
    assert s.say("private.test", 443, client_hello("private.test")) is None
    s.close()
    s = sandbox(["private.test", "10.0.0.0/8"])
    assert b"hello" in s.say("private.test", 80, GET % b"private.test")
    s.close()
    # a network wider than what is special in it does not speak of it
    s = sandbox(["private.test", "loop.test", "own.test", "meta.test", "0.0.0.0/0"])
    for name in ("private.test", "loop.test", "own.test", "meta.test"):
        assert s.say(name, 80, GET % name.encode()) is None
    assert s.reached() == []


def test_mixed_answers(world, sandbox):
    """Of an answer with private and public addresses only the public are used."""
    s = sandbox(["half.test"])
    assert b"hello" in s.say("half.test", 80, GET % b"half.test")
    assert {x[1] for x in s.reached()} == {"192.0.2.10"}


def test_rebinding(world, sandbox):
    s = sandbox(["rebind.test"])
    results = []
    for _ in range(4):
        results.append(s.say("rebind.test", 80, GET % b"rebind.test"))
        time.sleep(1.1)
    assert None in results
    assert {x[1] for x in s.reached()} <= {"192.0.2.10"}
    assert s.events(name="rebind.test", reason="private-address")


@pytest.mark.parametrize("url", [
    "http://127.0.0.1/", "http://127.1/", "http://2130706433/", "http://0x7f000001/",
    "http://0177.0.0.1/", "http://[::1]/", "http://[::ffff:127.0.0.1]/", "http://0/",
    "http://169.254.169.254/", "http://[::ffff:169.254.169.254]/", "http://10.9.9.9/",
    "http://192.0.2.10/", "http://[2001:db8::10]/", "http://[64:ff9b::7f00:1]/",
    "http://allowed.test@192.0.2.10/", "http://192.0.2.10.nip.test/", "http://100.64.1.1/"])
def test_literals(world, sandbox, url):
    need("curl")
    s = sandbox(["allowed.test"])
    p = s.run("curl", "-sS", "-g", "-m", "5", url)
    assert p.returncode != 0 and p.took < 4, p.out
    assert s.reached() == []


def test_no_udp_no_quic_no_icmp(world, sandbox):
    s = sandbox(["allowed.test"])
    _, (addr,) = s.resolve("allowed.test")
    for target in ((addr, 443), (addr, 53), ("192.0.2.10", 443), ("192.0.2.53", 53),
                   ("8.8.8.8", 53)):
        with s.socket(socket.SOCK_DGRAM, timeout=0.5) as u:
            with pytest.raises(OSError):
                u.connect(target)
                u.send(query("allowed.test"))
                u.recv(100)
    with s.socket() as c, pytest.raises(OSError):
        c.connect(("192.0.2.10", 443))
    p = s.run("ping", "-c1", "-W1", "192.0.2.10") if os.path.exists("/bin/ping") else None
    assert p is None or p.returncode != 0
    assert s.reached() == []


def test_unknown_synthetic_addresses(world, sandbox):
    s = sandbox(["allowed.test"])
    s.resolve("allowed.test")
    for family, addr in ((socket.AF_INET, "198.18.9.9"), (socket.AF_INET, "198.19.255.254"),
                         (socket.AF_INET6, "fd62:7269:6720::9"),
                         (socket.AF_INET6, "fd62:7269:6720:0:1::100"),
                         (socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
        with s.socket(family=family) as c:
            with pytest.raises(ConnectionError):
                c.connect((addr, 80))
                c.sendall(GET % b"allowed.test")
                assert c.recv(1)
        assert s.events(reason="address-not-allowed", name=addr)
    assert s.reached() == []


def test_ports(world, sandbox):
    s = sandbox(["allowed.test:80", "second.test:443"])
    assert s.say("allowed.test", 443, client_hello("allowed.test")) is None
    assert s.one(name="allowed.test", port=443)["reason"] == "port-not-allowed"
    with s.socket() as c, pytest.raises(ConnectionRefusedError):
        c.connect((s.resolve("allowed.test")[1][0], 81))


# --- TLS --------------------------------------------------------------------------

@pytest.mark.parametrize("sni,reason", [
    ("denied.test", "sni-mismatch"), (None, "sni-missing"), ("x.allowed.test", "sni-mismatch"),
    ("second.test", "sni-mismatch")])
def test_sni(world, sandbox, sni, reason):
    s = sandbox(["allowed.test", "second.test"])
    assert s.say("allowed.test", 443, client_hello(sni)) is None
    e = s.one(name="allowed.test")
    assert (e["reason"], e["sni"], e["bytes_up"]) == (reason, sni or "", 0)
    assert s.reached() == []


def test_sni_spellings(world, sandbox):
    s = sandbox(["allowed.test"])
    good = client_hello("allowed.test")
    for other in (b"ALLOWED.tesT",):
        with s.connect("allowed.test", 443) as c:
            c.sendall(good.replace(b"allowed.test", other))
            assert c.recv(5)[:1] == b"\x16"
    for other in (b"allowed.tes.", b"allowed\0test", b"allowed@test", b"allowed tes\xff"):
        assert s.say("allowed.test", 443, good.replace(b"allowed.test", other)) is None
    assert len(s.events(want=4, reason="sni-mismatch")) == 4


@pytest.mark.parametrize("size", [1, 7, 100])
def test_sni_split(world, sandbox, size):
    """In records and segments of any size it is the same hello."""
    s = sandbox(["allowed.test"])
    for name, ok in (("allowed.test", True), ("denied.test", False)):
        hello = split_records(client_hello(name), size)
        with s.connect("allowed.test", 443) as c:
            c.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            try:
                for at in range(0, len(hello), 97):
                    c.sendall(hello[at:at + 97])
                    time.sleep(0.001)
                assert (c.recv(1) == b"\x16") == ok
            except ConnectionError:
                assert not ok
    assert len(s.events(reason="sni-mismatch", sni="denied.test")) == 1


def test_ech(world, sandbox):
    s = sandbox(["allowed.test"])
    ech = b"\xfe\x0d" + struct.pack("!H", 40) + b"\0" * 40
    for name, ok in (("allowed.test", True), ("denied.test", False)):
        with s.connect("allowed.test", 443) as c:
            c.sendall(with_extension(client_hello(name), ech))
            try:
                assert (c.recv(1) == b"\x16") == ok
            except ConnectionError:
                assert not ok
    bad = s.one(reason="sni-mismatch")
    assert bad["ech"] == 1


def test_bad_hellos(world, sandbox):
    s = sandbox(["allowed.test"])
    good = client_hello("allowed.test")
    big = split_records(
        with_extension(good, b"\0\x15" + struct.pack("!H", 16300) + b"\0" * 16300), 9000)
    cases = [(big, "hello-too-big"), (good[:5] + b"\x02" + good[6:], "hello-invalid"),
             (b"\x16\x03\x01\x00\x00", "hello-invalid"), (b"\x16\x03\x01\xff\xff", "hello-invalid"),
             (split_records(with_extension(good, b"\0\x15" + struct.pack("!H", 9000) + b"\0" * 9000), 2),
              "hello-too-big"),
             (with_extension(good, b"\0\0\0\x0e\0\x0c\0\0\x09evil.test"), "hello-invalid"),
             (b"\x80\x2e\x01\x03\x01" + b"\0" * 40, "not-tls-or-http"),
             (b"hello\r\n", "not-tls-or-http"), (b"\0" * 100, "not-tls-or-http")]
    for data, reason in cases:
        s.eg.forget()
        assert s.say("allowed.test", 443, data) is None
        assert s.one(name="allowed.test")["reason"] == reason
    assert s.reached() == []


def test_second_hello(world, sandbox):
    """After a HelloRetryRequest the name must still be the same."""
    s = sandbox(["allowed.test:444"], ports=(444,))
    p = s.run("curl", "-sS", "--cacert", world.ca, "https://allowed.test:444/")
    assert b'"sni": "allowed.test"' in p.out
    first = client_hello("allowed.test")
    ccs = b"\x14\x03\x03\x00\x01\x01"
    for name, ok in (("allowed.test", True), ("denied.test", False)):
        s.eg.forget()
        with s.connect("allowed.test", 444) as c:
            c.sendall(first)
            assert c.recv(4096)[:1] == b"\x16"
            try:
                c.sendall(ccs + client_hello(name))
                c.settimeout(2)
                got = c.recv(4096)
                assert ok and got
            except ConnectionError:
                assert not ok
            except TimeoutError:
                assert ok
        if not ok:
            assert s.one(name="allowed.test", sni="denied.test")["reason"] == "sni-mismatch"
    assert "denied.test" not in [x[1] for x in s.reached("sni")]


# --- HTTP -------------------------------------------------------------------------

@pytest.mark.parametrize("request_,reason", [
    (b"GET / HTTP/1.1\r\nHost: denied.test\r\n\r\n", "host-mismatch"),
    (b"GET / HTTP/1.1\r\nHost: allowed.test.\r\n\r\n", "host-mismatch"),
    (b"GET / HTTP/1.1\r\nHost: allowed.test:81\r\n\r\n", "host-mismatch"),
    (b"GET / HTTP/1.1\r\nHost: allowed.test@denied.test\r\n\r\n", "host-mismatch"),
    (b"GET / HTTP/1.1\r\nHost: 192.0.2.10\r\n\r\n", "host-mismatch"),
    (b"GET / HTTP/1.1\r\nHost:\r\n\r\n", "host-mismatch"),
    (b"GET / HTTP/1.0\r\n\r\n", "host-missing"),
    (b"GET http://denied.test/ HTTP/1.1\r\nHost: allowed.test\r\n\r\n", "host-mismatch"),
    (b"GET http://allowed.test/ HTTP/1.1\r\nHost: denied.test\r\n\r\n", "host-mismatch"),
    (b"CONNECT denied.test:443 HTTP/1.1\r\nHost: allowed.test\r\n\r\n", "connect-inside"),
    (b"GET / HTTP/1.1\r\nHost: allowed.test\r\nHost: denied.test\r\n\r\n", "http-invalid"),
    (b"GET / HTTP/1.1\r\nHost: allowed.test\r\n denied.test\r\n\r\n", "http-invalid"),
    (b"GET / HTTP/1.1\nHost: denied.test\n\n", "http-invalid"),
    (b"\r\nGET / HTTP/1.1\r\nHost: denied.test\r\n\r\n", "http-invalid"),
    (b"GET / HTTP/1.1\r\nHost: allowed.test\0denied.test\r\n\r\n", "http-invalid"),
    (b"POST / HTTP/1.1\r\nHost: allowed.test\r\nContent-Length: 1\r\n"
     b"Transfer-Encoding: chunked\r\n\r\n", "http-invalid"),
    (b"GET /\r\n", "http-invalid"),
    (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "http2-cleartext"),
    (b"GET /" + b"a" * 17000, "http-too-big"),
    (b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 3000, "http-too-big"),
])
def test_http_heads(world, sandbox, request_, reason):
    s = sandbox(["allowed.test"])
    assert s.say("allowed.test", 80, request_) is None
    e = s.one(name="allowed.test")
    assert (e["reason"], e["bytes_up"]) == (reason, 0)
    assert s.reached() == []


def test_keep_alive(world, sandbox):
    """Every request is looked at, not only the first."""
    s = sandbox(["allowed.test"])
    ok = b"GET /%d HTTP/1.1\r\nHost: allowed.test\r\n\r\n"
    with s.connect("allowed.test", 80) as c:
        f = c.makefile("rb")

        def answer():
            head = b""
            while not head.endswith(b"\r\n\r\n"):
                head += f.readline()
            n = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
            return f.read(n)
        for i in range(3):
            c.sendall(ok % i)
            assert b'"/%d"' % i in answer()
        c.sendall(b"POST /p HTTP/1.1\r\nHost: allowed.test\r\nContent-Length: 70000\r\n\r\n" +
                  (b"GET / HTTP/1.1\r\nHost: denied.test\r\n\r\n" * 2000)[:70000])
        assert b'"got": 70000' in answer()
        c.close()
        f.close()
    with s.connect("allowed.test", 80) as c:
        body = b"5\r\nhello\r\n3;x=y\r\nabc\r\n0\r\nT: v\r\n\r\n"
        got = exchange(c, b"POST /c HTTP/1.1\r\nHost: allowed.test\r\n"
                       b"Transfer-Encoding: chunked\r\n\r\n" + body + ok % 1 +
                       b"GET /evil HTTP/1.1\r\nHost: denied.test\r\n\r\n")
        assert got is None
    assert s.events(reason="host-mismatch", sni="denied.test")
    assert not any("evil" in str(x) or x[2] == "denied.test" for x in s.reached("http"))


def test_websocket(world, sandbox):
    s = sandbox(["allowed.test"])
    up = (b"GET %s HTTP/1.1\r\nHost: allowed.test\r\nUpgrade: websocket\r\n"
          b"Connection: Upgrade\r\nSec-WebSocket-Key: eA==\r\nSec-WebSocket-Version: 13\r\n\r\n")
    frames = b"\x82\x05hello" * 1000
    with s.connect("allowed.test", 80) as c:
        c.sendall(up % b"/ws")
        assert b"101" in c.recv(4096)
        c.sendall(frames)
        got = b""
        while len(got) < len(frames):
            got += c.recv(65536)
        assert got == frames
    # a server that does not switch leaves the checks on
    s.eg.forget()
    with s.connect("allowed.test", 80) as c:
        c.sendall(up % b"/no" + b"GET /evil HTTP/1.1\r\nHost: denied.test\r\n\r\n")
        with pytest.raises(ConnectionError):
            while c.recv(4096):
                pass
    assert s.events(reason="host-mismatch")
    assert not any(x[2] == "denied.test" for x in s.reached("http"))


def test_other_protocols(world, sandbox):
    """Ports that are not web's carry anything, but HTTP and TLS there are held to
    the name as well."""
    s = sandbox(["allowed.test:22"])
    for data in (b"EHLO me\r\n", b"\0\0\0\x08\x04\xd2\x16\x2f", b"get key\r\n", b"*1\r\n"):
        with s.connect("allowed.test", 22) as c:
            c.sendall(data)
            got = b""
            while len(got) < 13 + len(data):
                got += c.recv(100)
            assert got == b"220 welcome\r\n" + data
    assert len(s.events(want=4, reason="opaque")) == 4
    s.eg.forget()
    with s.connect("allowed.test", 22) as c:
        c.recv(100)
        c.sendall(b"GET / HTTP/1.1\r\nHo")
        time.sleep(0.4)
        c.sendall(b"st: denied.test\r\n\r\n")
        with pytest.raises(ConnectionError):
            assert c.recv(100)
    assert s.one(port=22)["reason"] == "host-mismatch"
    with s.connect("allowed.test", 22) as c:
        c.recv(100)
        c.sendall(client_hello("denied.test"))
        with pytest.raises(ConnectionError):
            assert c.recv(100)
    with s.connect("allowed.test", 22) as c:  # a word, and no line end
        c.recv(100)
        c.sendall(b"word")
        c.shutdown(socket.SHUT_WR)
        assert c.recv(100) == b"word"


# --- proxies ----------------------------------------------------------------------

def through_connect(s, target, data=b"", extra=b""):
    with s.socket() as c:
        c.connect(("127.0.0.1", 3128))
        c.sendall(b"CONNECT %s HTTP/1.1\r\nHost: x\r\n%s\r\n" % (target, extra))
        c.settimeout(8)
        head = b""
        while b"\r\n\r\n" not in head:
            more = c.recv(4096)
            if not more:
                break
            head += more
        status = int(head.split(b" ")[1]) if head else 0
        return status, exchange(c, data) if data and status == 200 else None


def test_connect_proxy(world, sandbox):
    s = sandbox(["allowed.test:80,443", "192.0.2.11:80", "loop.test"], connect=3128)
    assert b"hello" in through_connect(s, b"allowed.test:80", GET % b"allowed.test")[1]
    assert b"hello" in through_connect(s, b"ALLOWED.test:80", GET % b"allowed.test")[1]
    assert b"hello" in through_connect(s, b"192.0.2.11:80", GET % b"anything.test")[1]
    # inside the tunnel the checks are the same
    assert through_connect(s, b"allowed.test:80", GET % b"denied.test")[1] is None
    assert through_connect(s, b"allowed.test:443", client_hello("denied.test"))[1] is None
    for target, status in (
            (b"denied.test:443", 403), (b"allowed.test:22", 403), (b"192.0.2.10:80", 403),
            (b"192.0.2.11:443", 403), (b"127.0.0.1:80", 403), (b"127.1:80", 400),
            (b"2130706433:80", 400), (b"0x7f000001:80", 400), (b"[::1]:80", 403),
            (b"[::ffff:192.0.2.11]:80", 403), (b"[::ffff:127.0.0.1]:80", 403),
            (b"169.254.169.254:80", 403), (b"allowed.test@denied.test:443", 400),
            (b"allowed.test.:443", 400), (b"allowed.test", 400), (b"allowed.test:0", 400),
            (b"allowed.test:70000", 400), (b"allowed.test:443:443", 400),
            (b"loop.test:80", 403), (b"a" * 300 + b".test:80", 400),
            (b"198.18.1.0:80", 403)):
        s.eg.forget()
        got = through_connect(s, target)[0]
        assert got == status, target
        assert s.events(via="connect")[0]["verdict"] == "denied", target
    assert {x[1] for x in s.reached()} <= {"192.0.2.10", "192.0.2.11"}


def test_http_proxy_requests(world, sandbox):
    need("curl")
    s = sandbox(["allowed.test"], connect=3128)
    p = s.run("curl", "-sS", "-x", "http://127.0.0.1:3128", "-d", "x" * 5000,
              "http://allowed.test/a?b", "http://allowed.test/c")
    assert p.returncode == 0 and b'"path": "/a?b"' in p.out and b'"path": "/c"' in p.out
    assert p.out.count(b'"got": 5000') == 2
    p = s.run("curl", "-sS", "-x", "http://127.0.0.1:3128", "http://denied.test/")
    assert b"brig: name-not-allowed" in p.out
    p = s.run("curl", "-sS", "-x", "http://127.0.0.1:3128", "-H", "Host: denied.test",
              "http://allowed.test/")
    assert b"brig: host-mismatch" in p.out
    # a second request in the same breath is not passed on
    with s.socket() as c:
        c.connect(("127.0.0.1", 3128))
        exchange(c, b"GET http://allowed.test/one HTTP/1.1\r\nHost: allowed.test\r\n\r\n"
                 b"GET http://denied.test/two HTTP/1.1\r\nHost: denied.test\r\n\r\n")
    for bad in (b"GET / HTTP/1.1\r\nHost: allowed.test\r\n\r\n", b"nonsense\r\n\r\n",
                b"GET https://allowed.test/ HTTP/1.1\r\nHost: allowed.test\r\n\r\n",
                b"\x05\x01\x00", client_hello("allowed.test")):
        with s.socket() as c:
            c.connect(("127.0.0.1", 3128))
            got = exchange(c, bad)
            assert got is None or got.startswith(b"HTTP/1.1 4")
    assert not any("two" in str(x) for x in s.reached("http"))


def test_socks(world, sandbox):
    s = sandbox(["allowed.test:80", "192.0.2.11:80"], socks=1080)

    def ask(request, data=None, greeting=b"\x05\x01\x00"):
        with s.socket() as c:
            c.connect(("127.0.0.1", 1080))
            c.sendall(greeting)
            c.settimeout(8)
            try:
                if c.recv(2) != b"\x05\x00":
                    return "refused"
                c.sendall(request)
                r = c.recv(10)
                return exchange(c, data) if data and r[1] == 0 else r[1] if r else None
            except ConnectionError:
                return None

    def name(n, port=80, cmd=1):
        return b"\x05" + bytes([cmd]) + b"\0\x03" + bytes([len(n)]) + n + struct.pack("!H", port)

    def four(a, port=80):
        return b"\x05\x01\0\x01" + socket.inet_aton(a) + struct.pack("!H", port)

    assert b"hello" in ask(name(b"allowed.test"), GET % b"allowed.test")
    assert b"hello" in ask(four("192.0.2.11"), GET % b"x.test")
    assert b"hello" in ask(name(b"192.0.2.11"), GET % b"x.test")
    assert ask(name(b"allowed.test"), GET % b"denied.test") is None
    for req, code in (
            (name(b"denied.test"), 2), (name(b"allowed.test", 443), 2), (four("192.0.2.10"), 2),
            (four("127.0.0.1"), 2), (four("169.254.169.254"), 2), (name(b"127.1"), 2),
            (name(b"allowed.test\0.denied.test"), 2), (name(b"allowed.test."), 2),
            (name(b"allowed.test", cmd=2), 7), (name(b"allowed.test", cmd=3), 7),
            (b"\x05\x01\0\x04" + socket.inet_pton(socket.AF_INET6, "::ffff:192.0.2.11") + b"\0P", 2)):
        assert ask(req) == code, req
    assert ask(b"", greeting=b"\x05\x01\x02") == "refused"
    assert ask(b"", greeting=b"\x04\x01\0\x50\x7f\0\0\1\0") is None or True
    assert {x[1] for x in s.reached()} <= {"192.0.2.10", "192.0.2.11"}


# --- ports above 1023 and literal addresses, by redirection ------------------------

RULES = """
table inet brig {
  chain out {
    type nat hook output priority -100;
    ip daddr 198.18.0.0/15 tcp dport 1024-65535 redirect to :%d
    ip6 daddr fd62:7269:6720::/64 tcp dport 1024-65535 redirect to :%d
    ip daddr 192.0.2.11 tcp dport 1-65535 redirect to :%d
  }
}
""" % (REDIRECT, REDIRECT, REDIRECT)


def test_redirect(world, sandbox):
    need("nft")
    s = sandbox(["allowed.test:7000,8443", "192.0.2.11:80,7000"])
    p = world.sandbox.run(["nft", "-f", "-"], input=RULES.encode())
    if p.returncode:
        pytest.skip("nftables: %s" % p.err.decode().strip().splitlines()[0])
    with world.sandbox.inside():
        lab.ip("route", "add", "local", "192.0.2.11/32", "dev", "lo")
    try:
        with s.connect("allowed.test", 7000) as c:
            assert c.recv(100) == b"220 welcome\r\n"
        _, (six,) = s.resolve("allowed.test", 28)
        with s.socket(family=socket.AF_INET6) as c:
            c.connect((six, 7000))
            assert c.recv(100) == b"220 welcome\r\n"
        for port in (80, 7000):
            with s.socket() as c:
                c.connect(("192.0.2.11", port))
                if port == 80:
                    assert b"hello" in exchange(c, GET % b"whatever.test")
                else:
                    assert c.recv(100) == b"220 welcome\r\n"
        assert s.say("allowed.test", 7001, b"x\r\n") is None
        assert s.events(reason="port-not-allowed", port=7001)
        with s.socket() as c, pytest.raises(ConnectionError):
            c.connect(("192.0.2.11", 443))
            assert c.recv(1)
        # straight to the port that others are redirected to
        with s.socket() as c, pytest.raises(ConnectionError):
            c.connect(("127.0.0.1", REDIRECT))
            assert c.recv(1)
        # the agent's own servers
        with world.sandbox.inside():
            own = socket.create_server(("127.0.0.1", 8000))
        with s.socket() as c:
            c.connect(("127.0.0.1", 8000))
        own.close()
    finally:
        world.sandbox.run(["nft", "delete", "table", "inet", "brig"])
        with world.sandbox.inside():
            subprocess.run(["ip", "route", "del", "local", "192.0.2.11/32", "dev", "lo"])
