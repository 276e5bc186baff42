# SPDX-License-Identifier: Apache-2.0
"""Every way around the network policy, tried from inside the whole of `brig run`, as
root and as an ordinary user: nothing gets out, and what was tried is written down."""
import json
import os
import socket
import struct
import textwrap
import threading
import time

import pytest
from conftest import lab, need
from whole import Whole, caller, user  # noqa: F401 (fixtures)

# Shared by the programs that run inside.
INSIDE = '''
import json, os, socket, struct, subprocess, sys, time
tried = {}
def attempt(name, f):
    t = time.monotonic()
    try:
        r = f()
        if isinstance(r, (bytes, bytearray)):
            r = bytes(r[:60]).decode("latin-1")
    except BaseException as e:
        r = "refused: " + type(e).__name__
    tried[name] = [r, time.monotonic() - t]
def tcp(addr, port, data=b"", family=socket.AF_INET, timeout=4):
    with socket.socket(family) as s:
        s.settimeout(timeout)
        s.connect((addr, port))
        s.sendall(data)
        got = s.recv(100)
        if not got:
            raise ConnectionError
        return got
def datagram(addr, port, data=b"x", family=socket.AF_INET, kind=socket.SOCK_DGRAM, proto=0):
    with socket.socket(family, kind, proto) as s:
        s.settimeout(0.4)
        s.connect((addr, port))
        s.send(data)
        return s.recv(100)
def query(name, kind=1):
    raw = b"".join(bytes([len(x)]) + x for x in name.split(b".")) if name else b""
    return b"\\x42\\x42\\1\\0\\0\\1\\0\\0\\0\\0\\0\\0" + raw + b"\\0" + struct.pack("!HH", kind, 1)
def dns(name, kind=1):
    """Refused unless there is an address in the answer."""
    r = datagram("198.18.0.1", 53, query(name, kind))
    if not struct.unpack("!H", r[6:8])[0]:
        raise OSError(r[3] & 15)
    return r[-4:]
def curl(*args):
    p = subprocess.run(["curl", "-sS", "-g", "-m", "4", *args], stdout=subprocess.PIPE,
                       stderr=subprocess.PIPE)
    if p.returncode:
        raise OSError(p.returncode)
    return p.stdout
'''


def run_inside(caller, code, *options, limit=60):
    """The program's own list of what it tried, and brig's result."""
    caller.file("inside.py", INSIDE + textwrap.dedent(code) + "\nprint(json.dumps(tried))\n")
    r = caller.run(*options, "--timeout", str(limit), "--", "/usr/bin/python3", "inside.py")
    assert r["exit"] == 0, r["stderr"]
    return json.loads(r["stdout"]), r


def all_refused(tried):
    through = {k: v for k, (v, _) in tried.items() if not str(v).startswith("refused")}
    assert through == {}
    slow = {k: s for k, (_, s) in tried.items() if s > 5}
    assert slow == {}


# --- nothing at all -----------------------------------------------------------------

NONE = '''
GET = b"GET / HTTP/1.0\\r\\nHost: allowed.test\\r\\n\\r\\n"
for a in ("192.0.2.10", "203.0.113.2", "203.0.113.1", "10.9.9.9", "169.254.169.254",
          "198.18.0.1", "198.18.1.0", "100.64.1.1", "255.255.255.255"):
    attempt("tcp " + a, lambda: tcp(a, 80, GET))
for a in ("2001:db8::10", "2001:db8:ffff::2", "fd62:7269:6720::1", "::ffff:192.0.2.10",
          "64:ff9b::c000:20a"):
    attempt("tcp " + a, lambda: tcp(a, 80, GET, socket.AF_INET6))
for a, p in (("192.0.2.53", 53), ("198.18.0.1", 53), ("192.0.2.10", 443), ("192.0.2.10", 123),
             ("224.0.0.251", 5353)):
    attempt("udp %s %d" % (a, p), lambda: datagram(a, p, query(b"allowed.test")))
def broadcast():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        s.sendto(b"x", ("255.255.255.255", 67))
attempt("broadcast", broadcast)
def multicast6():
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as s:
        s.sendto(b"x", ("ff02::1", 5353, 0, 1))
        raise OSError("on lo only")
attempt("multicast v6", multicast6)
def fastopen():
    with socket.socket() as s:
        s.sendto(GET, 0x20000000, ("192.0.2.10", 80))
attempt("fast open", fastopen)
attempt("icmp", lambda: datagram("192.0.2.10", 0, b"\\x08\\0\\0\\0\\0\\0\\0\\0", proto=1))
attempt("icmp raw", lambda: datagram("192.0.2.10", 0, b"\\x08\\0\\xf7\\xff\\0\\0\\0\\0",
                                     kind=socket.SOCK_RAW, proto=1))
attempt("raw ip", lambda: datagram("192.0.2.10", 0, b"x" * 40, kind=socket.SOCK_RAW, proto=255))
attempt("packet", lambda: socket.socket(17, socket.SOCK_RAW, 0x0300).send(b"x" * 60))
attempt("vsock", lambda: socket.socket(40, socket.SOCK_STREAM).connect((2, 80)))
attempt("sctp", lambda: socket.socket(2, socket.SOCK_STREAM, 132).connect(("192.0.2.10", 80)))
attempt("mptcp", lambda: socket.socket(2, socket.SOCK_STREAM, 262).connect(("192.0.2.10", 80)))
attempt("udplite", lambda: datagram("192.0.2.53", 53, proto=136))
attempt("bluetooth", lambda: socket.socket(31, socket.SOCK_RAW, 1))
for n in ("allowed.test", "denied.test", "example.com", "x" * 60 + ".allowed.test"):
    attempt("name " + n, lambda: socket.getaddrinfo(n, 80))
attempt("curl", lambda: curl("http://allowed.test/"))
attempt("curl literal", lambda: curl("http://192.0.2.10/"))
attempt("curl proxy", lambda: curl("-x", "http://203.0.113.2:3128", "http://allowed.test/"))
attempt("curl socks", lambda: curl("-x", "socks5h://203.0.113.2:1080", "http://allowed.test/"))
attempt("curl doh", lambda: curl("--doh-url", "https://192.0.2.10/q", "http://allowed.test/"))
def new_route():
    import fcntl
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    fcntl.ioctl(s, 0x890B, b"\\0" * 120)
attempt("a route", new_route)
def interface():
    import fcntl
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    fcntl.ioctl(s, 0x8914, struct.pack("16sH22x", b"eth0", 1))
attempt("an interface", interface)
attempt("host's namespace", lambda: os.readlink("/proc/1/root/proc/1/ns/net") and
        open("/proc/2/ns/net"))
'''


class Capture:
    """Every packet on every interface of the lab's host, loopback included."""

    def __enter__(self):
        self.packets = []
        self.s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        self.s.settimeout(0.05)
        self.on = True
        self.t = threading.Thread(target=self.run)
        self.t.start()
        return self

    def run(self):
        while self.on:
            try:
                data, where = self.s.recvfrom(65536)
            except TimeoutError:
                continue
            # neighbour discovery and router solicitation are the kernel's own
            own = data[12:14] == b"\x86\xdd" and data[20] in (0, 58) or data[12:14] == b"\x08\x06"
            if not own:
                self.packets.append((where[0], data[:60]))

    def __exit__(self, *exc):
        time.sleep(0.1)
        self.on = False
        self.t.join()
        self.s.close()


def test_none_sends_no_packet(world, caller):
    """40 and more different attempts; a capture on the host's side sees none."""
    need("curl")
    world.forget()
    with Capture() as c:
        tried, r = run_inside(caller, NONE, "--net", "none")
    assert len(tried) >= 40
    all_refused(tried)
    assert c.packets == [] and world.log() == []
    # and the capture would have seen one
    with Capture() as c:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.sendto(b"x", ("203.0.113.2", 9))
    assert len(c.packets) >= 1


# --- with a list --------------------------------------------------------------------

BYPASS = '''
GET = b"GET / HTTP/1.0\\r\\nHost: %s\\r\\n\\r\\n"
good = GET % b"allowed.test"
here = socket.gethostbyname("allowed.test")
assert b"200 OK" in tcp(here, 80, good)
for url in ("http://127.0.0.1/", "http://127.1/", "http://2130706433/", "http://0x7f000001/",
            "http://0177.0.0.1/", "http://[::1]/", "http://[::ffff:127.0.0.1]/", "http://0/",
            "http://169.254.169.254/", "http://[::ffff:169.254.169.254]/", "http://10.9.9.9/",
            "http://192.0.2.10/", "http://0xc000020a/", "http://3221225994/",
            "http://[2001:db8::10]/", "http://[64:ff9b::c000:20a]/", "http://100.64.1.1/",
            "http://allowed.test@192.0.2.10/", "http://allowed.test@denied.test/",
            "http://allowed.test.denied.test/", "http://denied.test/", "http://allowed.test:81/",
            "http://192.0.2.10.nip.test/", "http://203.0.113.1/", "http://[fe80::1%25lo]/",
            "http://loop.test/", "http://meta.test/", "http://private.test/", "http://zero.test/",
            "http://mapped.test/", "http://nat64.test/", "http://cgnat.test/", "http://own.test/"):
    attempt(url, lambda: curl(url))
for n in (b"denied.test", b"allowed.test@evil", b"all\\0wed.test", b" allowed.test",
          b"allowed.test.evil", b"\\xd0\\xb0llowed.test", b"xn--llowed-8wf.test", b"a" * 63 + b".test",
          b"127.0.0.1", b"0x7f000001", b""):
    attempt("dns %r" % n, lambda: dns(n))
for kind in (16, 15, 33, 65, 64):
    attempt("dns type %d" % kind, lambda: dns(b"allowed.test", kind))
for i in range(50):
    attempt("tunnel %d" % i, lambda: dns(b"%050d.evil.test" % i, 16))
attempt("dns elsewhere", lambda: datagram("192.0.2.53", 53, query(b"allowed.test")))
attempt("dns elsewhere by tcp", lambda: tcp("192.0.2.53", 53, b"\\0\\x1e" + query(b"allowed.test")))
for what, a, p in (("quic", here, 443), ("quic to the server", "192.0.2.10", 443), ("ntp", here, 123),
                   ("udp", here, 80)):
    attempt(what, lambda: datagram(a, p, b"\\xc0" + b"x" * 1200))
attempt("icmp", lambda: datagram(here, 0, b"\\x08\\0\\0\\0\\0\\0\\0\\0", proto=1))
attempt("raw", lambda: datagram("192.0.2.10", 0, b"x", kind=socket.SOCK_RAW, proto=1))
attempt("another synthetic", lambda: tcp("198.18.77.7", 80, good))
attempt("another synthetic v6", lambda: tcp("fd62:7269:6720::77", 80, good, socket.AF_INET6))
for name, data in (("host", GET % b"denied.test"), ("host dot", GET % b"allowed.test."),
                   ("host at", GET % b"allowed.test@denied.test"),
                   ("host nul", GET % b"allowed.test\\0denied.test"),
                   ("host port", GET % b"allowed.test:81"), ("no host", b"GET / HTTP/1.0\\r\\n\\r\\n"),
                   ("two hosts", b"GET / HTTP/1.1\\r\\nHost: allowed.test\\r\\nHost: denied.test\\r\\n\\r\\n"),
                   ("absolute", b"GET http://denied.test/ HTTP/1.1\\r\\nHost: allowed.test\\r\\n\\r\\n"),
                   ("connect", b"CONNECT denied.test:443 HTTP/1.1\\r\\nHost: allowed.test\\r\\n\\r\\n"),
                   ("h2c", b"PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n"),
                   ("ssh on 80", b"SSH-2.0-x\\r\\n"), ("binary on 80", b"\\0" * 50)):
    attempt("http " + name, lambda: tcp(here, 80, data))
def hello(sni):
    import ssl
    c = ssl.create_default_context()
    c.check_hostname = False
    c.verify_mode = ssl.CERT_NONE
    o = ssl.MemoryBIO()
    try:
        c.wrap_bio(ssl.MemoryBIO(), o, server_hostname=sni).do_handshake()
    except ssl.SSLWantReadError:
        return o.read()
assert tcp(here, 443, hello("allowed.test"))[:1] == b"\\x16"
def in_pieces(data, size):
    with socket.create_connection((here, 443), 4) as s:
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for i in range(0, len(data), size):
            s.sendall(data[i:i + size])
            time.sleep(0.001)
        got = s.recv(100)
        if not got:
            raise ConnectionError
        return got
assert in_pieces(hello("allowed.test"), 11)[:1] == b"\\x16"
attempt("sni", lambda: tcp(here, 443, hello("denied.test")))
attempt("sni in pieces", lambda: in_pieces(hello("denied.test"), 11))
attempt("no sni", lambda: tcp(here, 443, hello(None)))
attempt("sni dot", lambda: tcp(here, 443, hello("allowed.test").replace(b"allowed.test", b"allowed.tes.")))
attempt("sni nul", lambda: tcp(here, 443, hello("allowed.test").replace(b"allowed.test", b"allowed\\0test")))
h = hello("denied.test")
ech = b"\\xfe\\x0d\\0\\x28" + b"\\0" * 40
at = 43 + 1 + h[43]
at += 2 + struct.unpack("!H", h[at:at + 2])[0]
at += 1 + h[at]
n = struct.unpack("!H", h[at:at + 2])[0]
b = h[5:at] + struct.pack("!H", n + len(ech)) + h[at + 2:] + ech
b = b[:1] + struct.pack("!I", len(b) - 4)[1:] + b[4:]
attempt("ech", lambda: tcp(here, 443, b"\\x16\\3\\1" + struct.pack("!H", len(b)) + b))
attempt("huge hello", lambda: tcp(here, 443, b"\\x16\\3\\1\\x40\\0\\1\\0\\x80\\0" + b"\\3\\3" + b"x" * 40000))
attempt("bad hello", lambda: tcp(here, 443, b"\\x16\\3\\1\\0\\0"))
for _ in range(3):  # what a name means may change while we look
    try:
        got = tcp(socket.gethostbyname("rebind.test"), 80, GET % b"rebind.test")
        assert b"200 OK" in got, got
    except OSError:
        pass
    time.sleep(1.1)
'''

EXPECTED = {  # name in the audit log: reason
    "denied.test": "name-not-allowed", "loop.test": "private-address",
    "meta.test": "private-address", "private.test": "private-address",
    "zero.test": "private-address", "mapped.test": "private-address",
    "nat64.test": "private-address", "cgnat.test": "private-address",
    "own.test": "own-address", "198.18.77.7": "address-not-allowed",
}
REASONS = {"sni-mismatch", "sni-missing", "host-mismatch", "host-missing", "http-invalid",
           "connect-inside", "http2-cleartext", "not-tls-or-http", "hello-invalid",
           "private-address", "own-address", "address-not-allowed", "name-not-allowed"}


def test_every_way_around(world, caller):
    need("curl")
    world.forget()
    names = ["allowed.test:80,443", "rebind.test:80"] + [
        n + ":80" for n, r in EXPECTED.items() if n.endswith(".test") and r != "name-not-allowed"]
    tried, r = run_inside(caller, BYPASS, *[x for n in names for x in ("--allow", n)])
    assert len(tried) >= 129
    all_refused(tried)
    # what the servers saw is what was allowed
    log = world.log()
    assert {x[1] for x in log if x[0] == "tcp"} <= {"192.0.2.10", "192.0.2.53"}, log
    assert {x[2] for x in log if x[0] == "tcp"} <= {80, 443}, log
    assert {x[2] for x in log if x[0] == "http"} <= {"allowed.test", "rebind.test"}
    assert {x[1] for x in log if x[0] == "sni"} <= {"allowed.test"}
    assert {x[1] for x in log if x[0] == "dns"} <= {n.split(":")[0] for n in names}
    assert not [x for x in log if x[0] == "trap"]
    # and it is written down
    lines = caller.audit()
    for name, reason in EXPECTED.items():
        assert any(x["name"] == name and x["reason"] == reason and x["verdict"] == "denied"
                   for x in lines), name
    assert REASONS <= {x["reason"] for x in lines}
    assert any(x["name"] == "rebind.test" and x["reason"] == "private-address" for x in lines)
    assert any(x.get("ech") for x in lines if x["reason"] == "sni-mismatch")
    assert {"denied.test", "allowed.test:443"} <= {d["target"] for d in r["denied"]}


def test_proxy_tricks(world, caller):
    """brig's own proxies, which a client inside may use: the same policy."""
    code = '''
    ports = [int(x.split()[1].split(":")[1], 16) for x in open("/proc/net/tcp") if
             x.split()[3] == "0A" and x.split()[1].startswith("0100007F")]
    assert len(ports) == 2, ports
    def head(port, data):
        return tcp("127.0.0.1", port, data)
    def is_http(p):
        try:
            return head(p, b"GET / HTTP/1.0\\r\\n\\r\\n")[:4] == b"HTTP"
        except OSError:
            return False
    http = next(p for p in ports if is_http(p))
    socks = next(p for p in ports if p != http)
    def connect(target):
        r = head(http, b"CONNECT %s HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n" % target)
        if b" 200 " not in r:
            raise OSError(r)
        return r
    assert b" 200 " in connect(b"allowed.test:80")
    for t in (b"denied.test:80", b"allowed.test:22", b"127.0.0.1:80", b"127.1:80", b"2130706433:80",
              b"[::1]:80", b"[::ffff:192.0.2.10]:80", b"192.0.2.10:80", b"169.254.169.254:80",
              b"allowed.test@denied.test:80", b"allowed.test.:80", b"allowed.test:0",
              b"allowed.test:70000", b"allowed.test:80:80", b"a" * 300 + b".test:80",
              b"allowed.test\\0.denied.test:80", b"198.18.1.0:80", b"loop.test:80"):
        attempt("CONNECT %r" % t[:40], lambda: connect(t))
    def socks5(request):
        with socket.create_connection(("127.0.0.1", socks), 4) as s:
            s.sendall(b"\\5\\1\\0")
            s.recv(2)
            s.sendall(request)
            r = s.recv(10)
            if len(r) < 2 or r[1]:
                raise OSError(r)
            return r
    def named(n, port=80, cmd=1):
        return b"\\5" + bytes([cmd]) + b"\\0\\3" + bytes([len(n)]) + n + struct.pack("!H", port)
    assert socks5(named(b"allowed.test"))
    for n in (b"denied.test", b"allowed.test.", b"127.1", b"192.0.2.10", b"allowed.test\\0.x",
              b"allowed.test@denied.test", b"loop.test"):
        attempt("SOCKS %r" % n, lambda: socks5(named(n)))
    attempt("SOCKS port", lambda: socks5(named(b"allowed.test", 22)))
    attempt("SOCKS bind", lambda: socks5(named(b"allowed.test", cmd=2)))
    attempt("SOCKS udp", lambda: socks5(named(b"allowed.test", cmd=3)))
    attempt("SOCKS address", lambda: socks5(b"\\5\\1\\0\\1" + bytes([127, 0, 0, 1]) + b"\\0P"))
    attempt("SOCKS 4", lambda: socks5(b"\\4\\1\\0P" + bytes([192, 0, 2, 10]) + b"\\0"))
    '''
    world.forget()
    tried, _ = run_inside(caller, code, "--proxy-env", "--allow", "allowed.test:80", "--allow", "loop.test:80")
    all_refused(tried)
    assert {x[1] for x in world.log() if x[0] == "tcp"} <= {"192.0.2.10"}
    lines = caller.audit()
    assert {"connect", "socks"} <= {x["via"] for x in lines if x["verdict"] == "denied"}


def test_an_empty_list(world, caller):
    code = '''
    for n in ("allowed.test", "denied.test", "localhost.test"):
        attempt("name " + n, lambda: socket.getaddrinfo(n, 80))
    for a in ("198.18.0.1", "198.18.1.0", "192.0.2.10"):
        for p in (22, 80, 443, 8080):
            attempt("%s %d" % (a, p), lambda: tcp(a, p, b"GET / HTTP/1.0\\r\\n\\r\\n"))
    '''
    world.forget()
    tried, r = run_inside(caller, code, "--net", "allow")
    all_refused(tried)
    assert world.log() == [] and "allowed.test" in [d["target"] for d in r["denied"]]


# --- what is no list ----------------------------------------------------------------

@pytest.mark.parametrize("entry,word", [
    ("a@b.test", "character"), ("a b.test", "character"), ("allowed.test.", "dot"),
    ("\u0430llowed.test", "ASCII"), ("a" * 300 + ".test", "253"), ("a" * 64 + ".test", "63"),
    ("allowed.test:0", "port"), ("allowed.test:70000", "port"), ("allowed.test:-1", "port"),
    ("allowed.test:80,", "port"), ("", "empty"), (":443", "host name"), ("*", "'*'"),
    ("a.*.test", "'*'"), ("http://allowed.test/", "port"), ("127.1", "address"),
    ("0x7f000001", "address"), ("[::1", "']'"), ("10.0.0.0/33", ""), ("allowed..test", ""),
    ("-a\tb.test", "character")])
def test_bad_entries(user, entry, word):
    p = user.popen("run", "--allow", entry, "--", "true")
    _, err = p.communicate(timeout=10)
    assert p.returncode == 2, (p.returncode, err)  # a wrong command line
    assert err.startswith(b"brig: ") and word.encode() in err and len(err) < 1500, err
    assert b"\x1b" not in err and err.count(b"\n") == 1


def test_bad_entry_with_nul(user):
    """Only a file can contain one."""
    config = os.path.join(user.dir, "conf.yaml")
    with open(config, "w") as f:
        f.write('sandbox: {network: {allow: ["allowed.test\\0.denied.test"]}}\n')
    p = user.popen("run", "--config", config, "--", "true")
    _, err = p.communicate(timeout=10)
    assert p.returncode == 125 and err.startswith(b"brig: "), err


# --- time ---------------------------------------------------------------------------

def test_nothing_hangs(world, user):
    """Servers that are down, silent or nowhere, heads that do not end, connections
    made and forgotten: each ends within the time limits, and others still work."""
    code = '''
    import threading
    def ended(name, port, data, limit=14):
        """Seconds until we were cut off."""
        t = time.monotonic()
        try:
            with socket.create_connection((name, port), limit) as s:
                s.settimeout(limit)
                for part in data:
                    s.sendall(part)
                while s.recv(100):
                    pass
        except TimeoutError:
            return "hangs"
        except OSError:
            pass
        return round(time.monotonic() - t, 1)
    out = {}
    jobs = {"down": ("down.test", 7, [b"x\\r\\n"]), "hole": ("hole.test", 80, [b"GET / HTTP/1.0\\r\\nHost: hole.test\\r\\n\\r\\n"]),
            "never": ("never.test", 80, [b"GET / HTTP/1.0\\r\\nHost: never.test\\r\\n\\r\\n"]),
            "ghost": ("ghost.test", 80, [b"GET / HTTP/1.0\\r\\nHost: ghost.test\\r\\n\\r\\n"]),
            "silent": ("allowed.test", 80, []), "slow": ("allowed.test", 80, [b"GET / HTTP/1.1\\r\\nHo"]),
            "slow tls": ("allowed.test", 443, [b"\\x16\\3\\1\\2\\0\\1"])}
    threads = [threading.Thread(target=lambda k=k, a=a: out.update({k: ended(*a)})) for k, a in jobs.items()]
    for t in threads:
        t.start()
    a = socket.gethostbyname("allowed.test")
    flood = []
    for i in range(500):
        try:
            s = socket.socket()
            s.settimeout(3)
            s.connect((a, 80))
        except OSError:
            pass
        flood.append(s)
        if len(flood) > 200:
            flood.pop(0).close()
    for s in flood:
        s.close()
    time.sleep(0.3)
    assert b"200 OK" in tcp(a, 80, b"GET / HTTP/1.0\\r\\nHost: allowed.test\\r\\n\\r\\n")
    for t in threads:
        t.join()
    tried = out
    '''
    tried, r = run_inside(user, code, *[x for n in (
        "down.test:7", "hole.test:80", "never.test:80", "ghost.test:80", "allowed.test:80,443")
        for x in ("--allow", n)])
    assert "hangs" not in tried.values(), tried
    assert tried["down"] < 2 and tried["ghost"] < 2, tried
    assert max(tried.values()) < 12, tried
    reasons = {x["name"]: x["reason"] for x in user.audit() if x["verdict"] == "failed"}
    assert reasons["down.test"] == "connect-failed" and reasons["hole.test"] == "connect-timeout"
    assert reasons["never.test"] == reasons["ghost.test"] == "resolve-failed"
