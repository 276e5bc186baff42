# SPDX-License-Identifier: Apache-2.0
"""What works, with everybody's clients and without proxy variables; what is
refused; what is written down."""
import json
import os
import socket
import struct
import time

import pytest
from conftest import BUILD, lab, need, query, sanitized

URL = "https://allowed.test/"


def clients(ca):
    py = ("import urllib.request,ssl,sys;"
          f"c=ssl.create_default_context(cafile={ca!r});"
          "print(urllib.request.urlopen(sys.argv[1],context=c,timeout=10).read().decode())")
    node = "fetch(process.argv[1]).then(r=>r.text()).then(console.log)"
    nodeh = ("require('https').get(process.argv[1],r=>{r.on('data',d=>process.stdout.write(d))})"
             ".on('error',e=>{console.error(e.code);process.exit(1)})")
    return {
        "curl": ["curl", "-sS", "--cacert", ca],
        "curl6": ["curl", "-6", "-sS", "--cacert", ca],
        "wget": ["wget", "-qO-", "--tries=1", f"--ca-certificate={ca}"],
        "urllib": ["/usr/bin/python3", "-c", py],
        "node-fetch": ["node", "-e", node, "--"],
        "node-https": ["node", "-e", nodeh, "--"],
    }


@pytest.mark.parametrize("client", ["curl", "curl6", "wget", "urllib", "node-fetch", "node-https"])
def test_clients(world, sandbox, client):
    args = clients(world.ca)[client]
    need(args[0])
    s = sandbox(["allowed.test:443"])
    env = dict(PATH=os.environ["PATH"], NODE_EXTRA_CA_CERTS=world.ca, HOME="/nonexistent")
    p = s.run(*args, URL, env=env)
    if client == "node-fetch" and b"fetch is not defined" in p.err:
        pytest.skip("this node has no fetch")
    assert p.returncode == 0, p.err
    assert json.loads(p.out)["sni"] == "allowed.test"
    e = s.one(name="allowed.test")
    assert (e["verdict"], e["reason"], e["sni"], e["port"]) == \
        ("allowed", "tls", "allowed.test", 443)
    assert e["bytes_up"] > 100 and e["bytes_down"] > 100
    p = s.run(*args, "https://denied.test/", env=env)
    assert p.returncode != 0 and p.took < 3
    assert s.events(name="denied.test", reason="name-not-allowed", via="dns")
    assert "denied.test" not in s.asked()


def test_git(world, sandbox):
    need("git")
    s = sandbox(["allowed.test:443"])
    env = dict(PATH=os.environ["PATH"], GIT_SSL_CAINFO=world.ca, HOME="/nonexistent",
               GIT_TERMINAL_PROMPT="0")
    s.run("git", "ls-remote", "https://allowed.test/repo.git", env=env)
    assert any("/repo.git/info/refs" in x[1] for x in s.reached("https"))
    p = s.run("git", "ls-remote", "https://denied.test/repo.git", env=env)
    assert b"resolve" in p.err


def test_openssl(world, sandbox):
    s = sandbox(["allowed.test:443"])
    p = s.run("openssl", "s_client", "-quiet", "-CAfile", world.ca, "-verify_return_error",
              "-connect", "allowed.test:443", "-servername", "allowed.test",
              input=b"GET / HTTP/1.1\r\nHost: allowed.test\r\nConnection: close\r\n\r\n")
    assert b'"sni": "allowed.test"' in p.out


def test_bash_and_static(world, sandbox):
    s = sandbox(["allowed.test:80"])
    p = s.run("bash", "-c", "exec 3<>/dev/tcp/allowed.test/80; printf 'GET / HTTP/1.0\\r\\n"
              "Host: allowed.test\\r\\n\\r\\n' >&3; cat <&3")
    assert b'"hello": "allowed.test"' in p.out
    tool = str(BUILD / "tests" / "ownresolver")
    p = s.run(tool, "allowed.test", "80")
    assert p.returncode == 0 and b'"hello": "allowed.test"' in p.out
    assert s.run(tool, "denied.test", "80").returncode == 3
    assert s.run(tool, "allowed.test", "443").returncode == 5


@pytest.mark.prompt
def test_ssh_speaks_first(world, sandbox):
    """A server that speaks first is heard at once."""
    need("ssh")
    s = sandbox(["allowed.test:22"])
    t = time.monotonic()
    with s.connect("allowed.test", 22) as c:
        assert c.recv(100) == b"220 welcome\r\n"
        assert time.monotonic() - t < 1
        c.sendall(b"SSH-2.0-x\r\n")
        assert c.recv(100) == b"SSH-2.0-x\r\n"
    assert s.one(name="allowed.test")["reason"] == "opaque"
    # our echo server is no ssh server; what matters is that it was reached
    s.run("ssh", "-o", "BatchMode=yes", "-F", "/dev/null", "-o",
              "StrictHostKeyChecking=no", "-o", "ConnectTimeout=3", "allowed.test", "true",
              timeout=3)
    assert any("SSH-2.0-" in x[2] for x in s.reached("echo"))


def test_wildcard(world, sandbox):
    s = sandbox(["*.wild.test"])
    for name in ("a.wild.test", "b.c.wild.test"):
        assert b"hello" in s.say(name, 80, b"GET / HTTP/1.0\r\nHost: %s\r\n\r\n" % name.encode())
    assert s.resolve("wild.test") == (3, [])
    assert s.resolve("awild.test") == (3, [])


def test_ipv6_only_and_fallback(world, sandbox):
    s = sandbox(["six.test", "mixed.test"], connect_ms=9000)
    assert b"six.test" in s.say("six.test", 80, b"GET / HTTP/1.0\r\nHost: six.test\r\n\r\n")
    # its first address does not answer: the next one is tried in time
    assert b"mixed.test" in s.say("mixed.test", 80, b"GET / HTTP/1.0\r\nHost: mixed.test\r\n\r\n")


def test_answers_by_tcp(world, sandbox):
    """A truncated answer makes the resolver ask by TCP, which it must still be able
    to do confined."""
    s = sandbox(["big.test"])
    assert b"hello" in s.say("big.test", 80, b"GET / HTTP/1.0\r\nHost: big.test\r\n\r\n")
    assert ("tcp", "192.0.2.53", 53) in s.world.log()


def test_empty_list_denies_all(world, sandbox):
    s = sandbox([])
    assert s.resolve("allowed.test") == (3, [])
    assert s.asked() == set()


# --- the resolver ---------------------------------------------------------------

def test_addresses_are_stable(world, sandbox):
    s = sandbox(["allowed.test", "second.test", "*.wild.test"])
    first = {n: s.resolve(n) for n in ("allowed.test", "second.test", "x.wild.test")}
    assert len({a[0] for _, a in first.values()}) == 3
    for n, want in first.items():
        assert s.resolve(n) == want == s.resolve(n.upper(), tcp=True)
        assert s.resolve(n, server=lab.RESOLVER6) == want
        _, (six,) = s.resolve(n, 28)
        assert six.startswith("fd62:7269:6720::")


def test_no_ipv6_without_listeners(world, sandbox):
    s = sandbox(["allowed.test"], six=False, redirect=0)
    assert s.resolve("allowed.test", 28) == (0, [])
    assert b"hello" in s.say("allowed.test", 80, b"GET / HTTP/1.0\r\nHost: allowed.test\r\n\r\n")


def test_case_and_other_types(world, sandbox):
    s = sandbox(["allowed.test"])
    q = query("aLLoWeD.tEsT")
    r = s.ask(q)
    assert r[12:len(q)] == q[12:] and r[7] == 1
    for qtype in (2, 5, 6, 12, 15, 16, 33, 64, 65, 257):
        r = s.ask(query("allowed.test", qtype))
        assert r[3] & 15 == 0 and r[6:8] == b"\0\0", qtype
    r = s.ask(query("allowed.test", tail=b"\0\0\x29\x10\0\0\0\0\0\0\0", counts=(1, 0, 0, 1)))
    assert r[3] & 15 == 0 and r[7] == 1 and r[11] == 1
    r = s.ask(query("allowed.test", qclass=3))
    assert r[3] & 15 == 5
    # nothing but its own addresses was asked for outside
    assert s.asked() <= {"allowed.test"}


@pytest.mark.parametrize("raw", [
    b"\x07all\0wed\x04test\0", b"\x0callowed.test\0", b"\x0dallowed.test@\0",
    b"\x08 allowed\x04test\0", b"\x08\xd0\xb0llowed\x04test\0", b"\x03127\x010\x010\x011\0",
    b"\x0a2130706433\0", b"\x0a0x7f000001\0", b"\x07allowed\x04test\x04evil\0", b"\0",
    b"\x3f" + b"a" * 63 + b"\x04test\0"])
def test_odd_names(world, sandbox, raw):
    s = sandbox(["allowed.test"])
    r = s.ask(query("", raw=raw))
    assert r[3] & 15 == 3
    assert s.events(verdict="denied", via="dns")
    assert s.asked() == set()


def test_malformed_dns(world, sandbox):
    s = sandbox(["allowed.test"])
    good = query("allowed.test")
    for n in range(len(good)):
        s.ask(good[:n], timeout=0.02)
    for bad in (b"\xff" * 12, good[:12] + b"\xc0\x0c\0\1\0\1", b"\0" * 600, b"x" * 1400,
                query("allowed.test", counts=(9, 9, 9, 9)), query("allowed.test", flags=0x8180)):
        s.ask(bad, timeout=0.02)
        s.ask(bad, tcp=True, timeout=0.02)
    assert s.ask(b"\xff\xff", tcp=True, timeout=1) is None
    # many at once, and one that says nothing
    conns = [s.socket() for _ in range(60)]
    for c in conns:
        c.connect((lab.RESOLVER4, 53))
    for c in conns:
        c.close()
    assert s.resolve("allowed.test")[0] == 0


def test_tunnelling_goes_nowhere(world, sandbox):
    """Data in names that are not allowed: no packet leaves, memory is bounded, and
    the log does not grow with it."""
    s = sandbox(["allowed.test", "*.wild.test"])
    with s.socket(socket.SOCK_DGRAM) as u:
        u.connect((lab.RESOLVER4, 53))
        before = s.eg.memory_kb()
        for i in range(20000):
            u.send(query(f"{i:08x}{'d' * 50}.evil.test", 16))
            if i % 50 == 0:
                u.setblocking(False)
                try:
                    while True:
                        u.recv(600)
                except BlockingIOError:
                    pass
    time.sleep(1.2)
    assert s.resolve("allowed.test")[0] == 0
    s.eg.pump(0.1)
    assert s.events(reason="more-refused-names")
    assert len(s.eg.events_seen) < 600
    assert s.asked() <= {"allowed.test"}
    assert s.eg.memory_kb() - before < 2000
    assert sum(1 for _ in open(s.audit)) < 600


@pytest.mark.prompt
def test_search_domains_fail_fast(world, sandbox):
    s = sandbox(["allowed.test"])
    t = time.monotonic()
    for suffix in ("corp.example", "svc.cluster.local", "local"):
        assert s.resolve("allowed.test." + suffix) == (3, [])
    assert time.monotonic() - t < 0.5
    assert s.asked() == set()


def test_wildcard_names_are_bounded(world, sandbox):
    s = sandbox(["*.wild.test"])
    seen = set()
    before = s.eg.memory_kb()
    for i in range(6000):
        _, (a,) = s.resolve(f"n{i}.wild.test")
        assert a not in seen
        seen.add(a)
    assert s.eg.memory_kb() - before < 4000
    # one that was dropped no longer means anything
    with s.socket() as c:
        with pytest.raises(ConnectionError):
            c.connect(("198.18.1.0", 443))
            c.sendall(b"\x16")
            c.recv(1)
            c.sendall(b"\x16")
    assert s.one(name="198.18.1.0")["reason"] == "address-not-allowed"


# --- the log and the other side --------------------------------------------------

@pytest.mark.prompt
def test_audit_lines(world, sandbox):
    s = sandbox(["allowed.test", "down.test:7", "loop.test"], id="01ABCDEF",
                ports=(7, 80), flags=lab.TELL_OPEN)
    s.say("allowed.test", 80, b"GET / HTTP/1.0\r\nHost: allowed.test\r\n\r\n")
    s.say("allowed.test", 80, b"GET / HTTP/1.0\r\nHost: evil.test\r\n\r\n")
    s.say("loop.test", 80, b"GET / HTTP/1.0\r\nHost: loop.test\r\n\r\n")
    s.say("down.test", 7, b"x\r\n")
    # nobody answers EG_OPEN here: the lines come all the same, a little later
    time.sleep(0.15)
    s.resolve("denied.test")
    s.events(want=5)
    lines = [json.loads(x) for x in open(s.audit)]
    assert [(x["name"], x.get("port"), x["verdict"], x["reason"]) for x in lines] == [
        ("allowed.test", 80, "allowed", "http"),
        ("allowed.test", 80, "denied", "host-mismatch"),
        ("loop.test", 80, "denied", "private-address"),
        ("down.test", 7, "failed", "connect-failed"),
        ("denied.test", None, "denied", "name-not-allowed")]
    for x in lines:
        assert x["sandbox"] == "01ABCDEF" and x["time"].endswith("Z")
    assert lines[0]["up"] > 30 and lines[0]["down"] > 100 and "ms" in lines[0]
    assert lines[1]["sni"] == "evil.test" and lines[1]["up"] == 0
    assert lines[3]["errno"] == 111
    assert not any("pid" in x for x in lines)
    # EG_OPEN came for each connection, with the same number and the client's port
    ends = {e["serial"]: e for e in s.eg.events_seen if e["serial"]}
    assert {o["serial"] for o in s.eg.opened} == set(ends)
    for o in s.eg.opened:
        assert o["client_port"] == ends[o["serial"]]["client_port"] > 0


def audit_of(s, want, seconds=3):
    """The lines of connections, when there are as many."""
    end = time.monotonic() + seconds
    while True:
        lines = [json.loads(x) for x in open(s.audit)]
        if len([x for x in lines if "up" in x]) >= want or time.monotonic() > end:
            return [x for x in lines if "up" in x]
        s.eg.pump(0.01)


@pytest.mark.prompt
def test_who_is_in_the_line(world, sandbox):
    """What brig says about the process; before the end of the connection or after."""
    get = b"GET / HTTP/1.0\r\nHost: allowed.test\r\n\r\n"
    s = sandbox(["allowed.test"], ports=(80,), flags=lab.TELL_OPEN)
    s.eg.who = lambda d: (7, 1, b"curl", b'curl "x" \\ y')
    with s.connect("allowed.test", 80) as c:
        time.sleep(0.05)
        s.eg.pump()  # told while it is open
        c.sendall(get)
        while c.recv(4096):
            pass
    s.say("allowed.test", 80, get)  # told when it is over
    with s.connect("allowed.test", 80) as c:
        c.sendall(get.replace(b"allowed", b"denied"))
        lines = audit_of(s, 3)
        with pytest.raises(ConnectionResetError):
            c.recv(1)
    assert len(lines) == 3
    for x in lines:
        assert (x["pid"], x["comm"], x["command"]) == (7, "curl", 'curl "x" \\ y')
    assert lines[2]["verdict"] == "denied"
    s.eg.who = lambda d: (0, 3, b"", b"")
    s.say("allowed.test", 80, get)
    last = audit_of(s, 4)[-1]
    assert last["holders"] == 3 and "pid" not in last and "command" not in last
    # an answer that nobody asked for, and one for a connection that is long over
    s.eg.send("WHO", who=lab.who_of(4711, 1, 1, b"x", b"x"))
    s.eg.send("WHO", who=lab.who_of(1, 1, 1, b"x", b"x"))
    assert b"hello" in s.say("allowed.test", 80, get)


@pytest.mark.parametrize("bad", ["type", "size", "text"])
def test_nonsense_after_the_start_is_the_end(world, sandbox, bad):
    s = sandbox(["allowed.test"], flags=lab.TELL_OPEN)
    if bad == "type":
        s.eg.send("START")
    elif bad == "size":
        s.eg.send("WHO", size=12)
    else:
        s.eg.send("WHO", who=lab.who_of(1, 1, 1, b"a\x1b[2J", b"x"))
    assert s.eg.wait(2) == 256
    s.closed = True
    s.eg.status = 0


@pytest.mark.prompt
def test_a_refused_socket_stays_until_it_was_looked_at(world, sandbox):
    """The client of a refused connection is reset when brig has answered, or soon."""
    s = sandbox([], ports=(80,), flags=lab.TELL_OPEN)

    def refused():
        c = s.socket()
        start = time.monotonic()
        try:
            c.connect(("198.18.9.9", 80))
            c.recv(1)
        except ConnectionResetError:
            pass
        return time.monotonic() - start
    assert 0.05 < refused() < 0.5
    # a flood does not keep more open than there is room for
    socks = [s.socket() for _ in range(400)]
    for c in socks:
        c.setblocking(False)
        c.connect_ex(("198.18.9.9", 80))
    time.sleep(0.03)
    assert s.eg.count_fds() < 64 + 40
    for c in socks:
        c.close()
    assert len(audit_of(s, 401, 5)) == 401


@pytest.mark.prompt
def test_how_it_ended_is_not_the_verdict(world, sandbox):
    """A connection that was made was allowed, whoever hangs up and how."""
    s = sandbox(["allowed.test:22,80", "down.test:7"], idle_ms=400, ports=(7, 22, 80))
    c = s.connect("allowed.test", 22)
    assert c.recv(100)
    c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    c.close()  # with a reset
    e = s.one(port=22)
    assert (e["verdict"], e["ended"]) == ("allowed", "reset") and e["bytes_down"] > 0, e
    s.eg.forget()
    with s.connect("allowed.test", 22) as c:
        c.recv(100)
        time.sleep(0.8)
    e = s.one(port=22)
    assert (e["verdict"], e["ended"]) == ("allowed", "idle-timeout") and e["bytes_down"] > 0, e
    s.say("allowed.test", 80, b"GET / HTTP/1.0\r\nHost: allowed.test\r\n\r\n")
    assert s.one(port=80)["ended"] == ""
    assert s.say("down.test", 7, b"x\r\n") is None
    e = s.one(port=7)
    assert (e["verdict"], e["reason"], e["ended"]) == ("failed", "connect-failed", "")
    lines = {(x.get("port"), x.get("ended")) for x in audit_of(s, 4)}
    assert lines == {(22, "reset"), (22, "idle-timeout"), (80, None), (7, None)}


def test_learning(world, sandbox):
    """Every name on every port, and nothing else that is not on the list."""
    get = b"GET / HTTP/1.0\r\nHost: %s\r\n\r\n"
    s = sandbox(["10.9.9.9:80"], flags=lab.LEARN)
    assert b"hello" in s.say("denied.test", 80, get % b"denied.test")
    with s.connect("allowed.test", 22) as c:
        assert c.recv(50) == b"220 welcome\r\n"
    assert {(e["name"], e["port"], e["verdict"]) for e in s.events(want=2, verdict="allowed")} == {
        ("denied.test", 80, "allowed"), ("allowed.test", 22, "allowed")}
    # the checks stay
    assert s.say("denied.test", 80, get % b"other.test") is None
    assert s.one(reason="host-mismatch")
    assert s.say("loop.test", 80, get % b"loop.test") is None
    assert s.one(reason="private-address")
    assert s.resolve("localhost") == (3, []) and s.resolve("127.1") == (3, [])
    assert not [x for x in s.world.log() if x[0] == "trap"]


@pytest.mark.parametrize("direct, through", [
    ([], True), (["*"], False), (["allowed.test"], False), ([".test"], False), (["*.test"], False),
    (["ALLOWED.test:80"], False), (["allowed.test:443"], True), ([".allowed.test"], True),
    (["lowed.test"], True), (["192.0.2.0/24"], True), (["what is that", "allowed.test"], False)])
def test_no_proxy(world, sandbox, direct, through):
    get = b"GET / HTTP/1.0\r\nHost: allowed.test\r\n\r\n"
    s = sandbox(["allowed.test", "loop.test"], proxy=("203.0.113.2", 3128), direct=direct)
    assert b"hello" in s.say("allowed.test", 80, get)
    assert ("proxy", "CONNECT allowed.test:80 HTTP/1.1", None) in s.world.log() or not through
    assert any(x[0] == "proxy" for x in s.world.log()) == through
    assert s.asked() == (set() if through else {"allowed.test"})
    if "*" in direct:  # the checks of an address are made again
        assert s.say("loop.test", 80, get.replace(b"allowed", b"loop")) is None
        assert s.one(name="loop.test")["reason"] == "private-address"


def test_no_proxy_for_addresses(world, sandbox):
    get = b"GET / HTTP/1.0\r\nHost: 192.0.2.10\r\n\r\n"
    for item, through in (("192.0.2.0/24", False), ("192.0.2.10:80", False), ("192.0.2.11", True),
                          ("2001:db8::/32", True)):
        s = sandbox(["192.0.2.10:80"], proxy=("203.0.113.2", 3128), direct=[item], connect=3128)
        with s.socket() as c:
            c.connect(("127.0.0.1", 3128))
            c.sendall(b"CONNECT 192.0.2.10:80 HTTP/1.1\r\nHost: 192.0.2.10:80\r\n\r\n")
            # the lab's proxy knows names only
            assert (b" 200 " in c.recv(1000)) == (not through), item
            if not through:
                c.sendall(get)
                assert b"hello" in c.recv(4096)
        assert any(x[0] == "proxy" for x in s.world.log()) == through, item
        s.close()


def test_confined(world, sandbox):
    s = sandbox(["allowed.test"])
    status = dict(x.rstrip("\n").split(":\t", 1) for x in open(f"/proc/{s.eg.pid}/status")
                  if ":\t" in x)
    assert status["NoNewPrivs"] == "1" and status["CapEff"] == status["CapPrm"] == "0" * 16
    if not sanitized():
        assert status["Seccomp"] == "2"
    assert status["Threads"] == "1"
    if os.geteuid() == 0 and open("/proc/self/uid_map").read().split()[2] != "1":
        assert status["Uid"].split() == ["65534"] * 4
    try:
        assert open(f"/proc/{s.eg.pid}/environ", "rb").read().strip(b"\0") == b""
    except PermissionError:
        pass  # not dumpable: not even we may look


def test_control_nonsense(world):
    """Whatever is not in wire.h ends it, with a word about why."""
    def attempt(*steps):
        e = lab.Egress(str(BUILD / "brig-egress"), world.sandbox, [], start=False)
        try:
            for kind, kw in steps:
                if kind == "config":
                    e.config(**kw)
                else:
                    e.send(kind, **kw)
        except OSError:
            pass
        try:
            e.wait_ready(5)
        except RuntimeError:
            pass
        st = e.wait(2)
        e.close()
        return e.fatal, st

    null = os.open("/dev/null", os.O_RDWR)
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    tcp = socket.socket()
    ok = ("config", {})
    cases = [
        [("START", {})],
        [("ALLOW", dict(allow=lab.Allow(b"a.test")))],
        [ok, ok],
        [("config", dict(version=7))],
        [("config", dict(flags=0x80))],
        [("config", dict(max_conns=1 << 20))],
        [("config", dict(dns="nonsense"))[0:2], ("START", {})],
        [("config", dict(proxy=("", 80)))],
        [("config", dict(proxy=("bad name", 80)))],
        [("config", dict(id="a\nb"))],
        [ok, ("ALLOW", dict(allow=lab.Allow(b"bad name")))],
        [ok, ("ALLOW", dict(allow=lab.Allow(b"@registries")))],
        [ok, ("ALLOW", dict(allow=lab.Allow(b"a.test:0")))],
        [ok, ("ALLOW", dict(allow=lab.Allow(b"x" * 400)))],
        [ok, ("ALLOW", dict(allow=lab.Allow(b"a.test"), fd=null))],
        [ok, ("SOCKET", dict(socket=lab.Socket(1, 0)))],
        [ok, ("SOCKET", dict(socket=lab.Socket(3, 80), fd=null))],
        [ok, ("SOCKET", dict(socket=lab.Socket(3, 80), fd=udp.fileno()))],
        [ok, ("SOCKET", dict(socket=lab.Socket(3, 80), fd=tcp.fileno()))],
        [ok, ("SOCKET", dict(socket=lab.Socket(1, 0), fd=tcp.fileno()))],
        [ok, ("SOCKET", dict(socket=lab.Socket(99, 0), fd=udp.fileno()))],
        [ok, ("SOCKET", dict(socket=lab.Socket(1, 0), fd=[udp.fileno(), null]))],
        [ok, ("AUDIT", dict(fd=null)), ("AUDIT", dict(fd=null))],
        [ok, ("READY", {})],
        [ok, (77, {})],
        [ok, ("START", dict(size=12))],
        [ok, ("START", dict(raw=b"short"))],
        [ok, ("START", dict(raw=b"x" * 5000))],
    ]
    for steps in cases:
        fatal, st = attempt(*steps)
        assert st is not None and st >> 8 == 1, (steps, st)
        assert fatal and fatal[1], steps
    os.close(null)
    # after the start nothing may come
    e = lab.Egress(str(BUILD / "brig-egress"), world.sandbox, ["a.test"], ports=())
    e.send("START")
    assert e.wait(2) == 1 << 8
    e.close()


@pytest.mark.prompt
def test_ends_with_its_control_socket(world):
    e = lab.Egress(str(BUILD / "brig-egress"), world.sandbox, ["a.test"])
    assert e.alive()
    t = time.monotonic()
    e.ctl.close()
    assert e.wait(2) == 0
    assert time.monotonic() - t < 0.5


def test_upstream_proxy(world, sandbox):
    get = b"GET / HTTP/1.0\r\nHost: allowed.test\r\n\r\n"
    s = sandbox(["allowed.test:80,22", "ghost.test"], proxy=("203.0.113.2", 3128))
    assert b"hello" in s.say("allowed.test", 80, get)
    with s.connect("allowed.test", 22) as c:
        assert c.recv(50) == b"220 welcome\r\n"
    assert ("proxy", "CONNECT allowed.test:80 HTTP/1.1", None) in s.world.log()
    assert s.asked() == set()  # the proxy resolves
    assert s.say("ghost.test", 80, b"GET / HTTP/1.0\r\nHost: ghost.test\r\n\r\n") is None
    assert s.one(name="ghost.test")["reason"] == "upstream-proxy"
    # the checks are the same
    assert s.say("allowed.test", 80, get.replace(b"allowed", b"denied")) is None
    assert s.events(reason="host-mismatch")
    s.close()
    s = sandbox(["allowed.test"], proxy=("proxy.test", 3129), proxy_auth="user:secret")
    assert b"hello" in s.say("allowed.test", 80, get)
    s.close()
    s = sandbox(["allowed.test"], proxy=("203.0.113.2", 3129))
    assert s.say("allowed.test", 80, get) is None
    assert s.one(name="allowed.test")["reason"] == "upstream-proxy"
    s.close()
    s = sandbox(["allowed.test"], proxy=("203.0.113.2", 9))
    assert s.say("allowed.test", 80, get) is None
    assert s.one(name="allowed.test")["reason"] == "connect-failed"
