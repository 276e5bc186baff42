# SPDX-License-Identifier: Apache-2.0
"""CONTAINMENT, class Network, as far as --net none and host go."""
import os
import socket

import pytest

from conftest import BRIG, need, wait_until

PROBES = ["only-lo", "no-route", "unreachable", "fastopen"]


@pytest.fixture
def listener():
    """A TCP service of the host on 127.0.0.1."""
    s = socket.socket()
    s.bind(("127.0.0.1", 0))
    s.listen(5)
    yield s.getsockname()[1]
    s.close()


@pytest.mark.parametrize("check", PROBES)
def test_probe(who, check):
    who.probe(check)


@pytest.mark.parametrize("check", PROBES)
def test_probe_without_loopback(user, check):
    user.probe(check, opts=["--loopback", "off"])


def test_host_listener_is_unreachable(who, listener):
    who.probe("host-port", str(listener))


def test_host_listener_by_every_spelling(who, listener):
    code = """
import socket, sys
port = int(sys.argv[1])
for host, fam in (("127.0.0.1", 2), ("127.1.2.3", 2), ("0.0.0.0", 2), ("::1", 10), ("::ffff:127.0.0.1", 10), ("::", 10)):
    s = socket.socket(fam)
    s.settimeout(2)
    try:
        s.connect((host, port))
        print("reached", host)
    except OSError as e:
        pass
print("end")
"""
    assert who.run("/usr/bin/python3", "-c", code, str(listener)).json["stdout"] == "end\n"


def test_own_server_and_client(who):
    who.probe("loopback")
    code = """
import http.server, threading, urllib.request
s = http.server.HTTPServer(("127.0.0.1", 8080), type("H", (http.server.BaseHTTPRequestHandler,), {
    "do_GET": lambda h: (h.send_response(200), h.end_headers(), h.wfile.write(b"hello"))[0],
    "log_message": lambda *a: None}))
threading.Thread(target=s.serve_forever, daemon=True).start()
print(urllib.request.urlopen("http://127.0.0.1:8080/").read().decode())
print(urllib.request.urlopen("http://localhost:8080/").read().decode())
"""
    assert who.run("/usr/bin/python3", "-c", code).json["stdout"] == "hello\nhello\n"


# The interface is brought up by the builder, the job or the process that only makes
# namespaces: when there are groups to enter, none, mounts to lock, and with memory of their own.
@pytest.mark.parametrize("opts", [[], ["--memory", "0", "--cpus", "0"], ["--mask"],
                                  ["--memory", "0", "--cpus", "0", "--mask"]],
                         ids=["plain", "no-groups", "locked", "locked-no-groups"])
def test_loopback_is_up_whoever_makes_it(who, opts):
    (who.ws / "hidden").mkdir()
    who.probe("loopback", opts=[*opts, str(who.ws / "hidden")] if "--mask" in opts else opts)


def test_own_server_on_ipv6_and_udp(who):
    code = """
import socket
a = socket.socket(socket.AF_INET6); a.bind(("::1", 9000)); a.listen()
socket.create_connection(("::1", 9000)).close()
u = socket.socket(type=socket.SOCK_DGRAM); u.bind(("127.0.0.1", 9001))
v = socket.socket(type=socket.SOCK_DGRAM); v.sendto(b"x", ("127.0.0.1", 9001))
print(u.recv(9))
l, r = socket.socketpair(); l.send(b"pair"); print(r.recv(9))
p = socket.socket(socket.AF_UNIX); p.bind("/tmp/s"); p.listen()
c = socket.socket(socket.AF_UNIX); c.connect("/tmp/s"); print("unix")
"""
    r = who.run("/usr/bin/python3", "-c", code)
    assert r.json["stdout"] == "b'x'\nb'pair'\nunix\n", r.json


def test_server_inside_is_not_reachable_outside(who):
    p = who.popen([BRIG, "run", "--", "/usr/bin/python3", "-c",
                   "import socket,time; s=socket.socket(); s.bind(('0.0.0.0', 18080)); s.listen(); "
                   "open('ready','w'); time.sleep(5)"])
    try:
        assert wait_until((who.ws / "ready").exists)
        with pytest.raises(OSError):
            socket.create_connection(("127.0.0.1", 18080), 1)
    finally:
        p.terminate()
        p.wait()


def test_two_sandboxes_do_not_share_loopback(who):
    p = who.popen([BRIG, "run", "--", "/usr/bin/python3", "-c",
                   "import socket,time; s=socket.socket(); s.bind(('127.0.0.1', 18081)); s.listen(); "
                   "open('ready','w'); time.sleep(5)"])
    try:
        assert wait_until((who.ws / "ready").exists)
        who.probe("host-port", "18081")
    finally:
        p.terminate()
        p.wait()


def test_loopback_off_refuses(who):
    r = who.run("/usr/bin/python3", "-c",
                "import socket\n"
                "s = socket.socket()\n"
                "try:\n  s.bind(('127.0.0.1', 8080)); s.listen(); print('bound')\n"
                "except OSError as e: print('bind', e.errno)\n"
                "try:\n  socket.create_connection(('127.0.0.1', 8080), 2); print('connected')\n"
                "except OSError as e: print('connect', e.errno)\n", opts=["--loopback", "off"])
    assert "bound" not in r.json["stdout"] and "connected" not in r.json["stdout"], r.json["stdout"]
    assert who.ok("cat /sys/class/net/lo/flags 2>/dev/null; grep -c . /proc/net/if_inet6 || true",
                  ["--loopback", "off"]).strip() in ("", "0")


def test_no_name_is_resolved(who):
    code = """
import socket
for name in ("example.com", "metadata.google.internal", "host.docker.internal"):
    try: print(socket.getaddrinfo(name, 80))
    except OSError: print("no")
print(socket.gethostbyname("localhost"))
"""
    assert who.run("/usr/bin/python3", "-c", code).json["stdout"] == "no\nno\nno\n127.0.0.1\n"
    who.probe("absent", "/etc/resolv.conf", "/run/systemd/resolve")


def test_interfaces_cannot_be_made(who):
    r = who.sh("ip link add dummy0 type dummy; ip link set lo down; ip addr add 10.9.9.9/24 dev lo; "
               "ip route add default via 127.0.0.1; ip tuntap add mode tun; grep -c : /proc/net/dev")
    assert r.json["stdout"] == "1\n"


def test_proc_net_shows_nothing_of_the_host(who, listener):
    hexport = "%04X" % listener
    assert who.ok("cat /proc/net/tcp /proc/net/tcp6 | grep -c ':%s' || true" % hexport) == "0\n"
    assert who.ok("wc -l < /proc/net/unix").strip() in ("1", "0")


def test_net_host_is_named_as_what_it_is(who, listener):
    r = who.run("/usr/bin/python3", "-c",
                "import socket; socket.create_connection(('127.0.0.1', %d), 2); print('reached')" % listener,
                opts=["--net", "host"])
    j = r.json
    assert j["stdout"] == "reached\n" and r.code == 0
    assert "net" not in j["enforced"] and "net" in j["missing"]
    assert "warning" in r.err and "--net host" in r.err and r.err.count("\n") == 1
    assert os.readlink("/proc/self/ns/net") == "net:[%s]" % j["evidence"]["namespaces"]["net"]


def test_net_host_with_net_required_is_refused(who):
    r = who.brig("run", "--net", "host", "--require", "net", "--", *who.ran_marker())
    assert r.code == 125 and not who.marker.exists()
    assert "REQUIRE_UNMET" in r.err and "net" in r.err


def test_net_host_other_families_stay_closed(who):
    who.probe("families", opts=["--net", "host"])
    who.probe("protocols", opts=["--net", "host"])


def test_curl_and_git_fail_quickly(who):
    need("git")
    r = who.sh("git ls-remote https://192.0.2.1/x; echo code $?", ["--timeout", "10"])
    assert "code 128\n" in r.json["stdout"] and r.seconds < 5


def test_ping_socket(who):
    r = who.run("/usr/bin/python3", "-c", "import socket\n"
                "for t in (socket.SOCK_RAW, socket.SOCK_DGRAM):\n"
                "  try: s = socket.socket(socket.AF_INET, t, socket.IPPROTO_ICMP); s.sendto(b'\\x08\\0\\0\\0\\0\\0\\0\\0', ('192.0.2.1', 0)); print('sent')\n"
                "  except OSError as e: print('no')")
    assert r.json["stdout"] == "no\nno\n"
