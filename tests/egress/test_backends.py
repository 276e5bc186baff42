# SPDX-License-Identifier: Apache-2.0
"""The allow-list with the other backends, in the lab's world."""
import json
import os
import pwd
import shutil
import signal
import subprocess
import sys
import time

import pytest
from conftest import BUILD, ROOT, lab, need
from test_brig import ACCOUNT, Caller, egress_processes


class Any(Caller):
    """brig with a backend, as an ordinary user or as root."""

    def __init__(self, world, backend, root=False):
        super().__init__(world)
        self.backend, self.root = list(backend), root
        if root:
            self.uid = 0  # the workspace stays the ordinary user's
            self.log = os.path.join(self.dir, "log")
            os.mkdir(self.log)

    def enter(self):
        if self.root:  # root's audit log is not the machine's
            lab.unshare(lab.NEWNS)
            lab.mount("none", "/", lab.MS_REC | lab.MS_PRIVATE)
            lab.mount(self.log, "/var/log", lab.MS_BIND)
        super().enter()

    def audit(self):
        if not self.root:
            return super().audit()
        with open(os.path.join(self.log, "brig/audit.log")) as f:
            return [json.loads(x) for x in f]

    def run(self, *args):
        return super().run(*self.backend, *args)


@pytest.fixture(params=["user", "root"])
def bwrap(request, world):
    need("bwrap", "curl")
    return Any(world, ["--backend", "bwrap"], request.param == "root")


EVERY_WAY = """
    curl -sS --cacert %(ca)s https://allowed.test/ >/dev/null && echo tls
    curl -sS http://a.wild.test/ >/dev/null && echo wildcard
    curl -sSm 5 http://allowed.test:8080/ >/dev/null && echo high
    curl -sSm 3 http://denied.test/ >/dev/null 2>&1 || echo denied
    curl -sSm 3 http://192.0.2.10/ >/dev/null 2>&1 || echo literal-refused
    curl -sSm 3 --connect-to denied.test:443:allowed.test:443 -k https://denied.test/ >/dev/null 2>&1 || echo sni-refused
    bash -c 'exec 3<>/dev/tcp/192.0.2.53/53' 2>/dev/null || echo dns-server-unreachable
    (echo q > /dev/udp/192.0.2.53/53) 2>/dev/null || echo udp-refused"""
ALL_OF_IT = ["tls", "wildcard", "high", "denied", "literal-refused", "sni-refused", "dns-server-unreachable", "udp-refused"]
LIST = ["--allow", "allowed.test:443,8080", "--allow", "*.wild.test:80"]


def check_result(r, brig):
    """Denials, audit lines and result fields are as with native."""
    by_target = {d["target"]: d for d in r["denied"] if d["kind"] == "net"}
    d = by_target["denied.test"]
    assert d["rule"] == "not in allow-list" and d["fix"] == "--allow denied.test", r["denied"]
    lines = [x for x in brig.audit() if x["sandbox"] == r["id"]]
    assert any(x["name"] == "allowed.test" and x["verdict"] == "allowed" for x in lines), lines
    assert any(x["name"] == "denied.test" and x["verdict"] == "denied" for x in lines), lines


def test_bwrap_every_way(world, bwrap):
    world.forget()
    r = bwrap.run("--ro", world.ca, *LIST, "--", "sh", "-c", EVERY_WAY % {"ca": world.ca})
    assert r["stdout"].split() == ALL_OF_IT, json.dumps(r)
    assert r["backend"] == "bwrap" and {"net", "net-names"} <= set(r["enforced"]), r
    check_result(r, bwrap)
    assert ("denied.test",) not in [x[1:2] for x in world.log()], "a refused name was asked for outside"


def test_bwrap_own_servers(world, bwrap):
    """The ports of the list from 1024 on are free for the command's own server."""
    r = bwrap.run("--allow", "allowed.test:8080", "--", "sh", "-c", """
        mkdir own && cd own && echo mine > index.html
        /usr/bin/python3 -m http.server 8080 --bind 127.0.0.1 >/dev/null 2>&1 &
        for i in 1 2 3 4 5 6 7 8 9 10; do curl -sm 2 http://127.0.0.1:8080/ && break; sleep 0.2; done
        curl -sSm 5 http://allowed.test:8080/ >/dev/null && echo far
        kill $!""")
    assert r["stdout"].split() == ["mine", "far"], r


# ---- docker ------------------------------------------------------------------

sys.path.insert(0, str(ROOT / "tests" / "run"))
import docker_engine  # noqa: E402
from containment import host_image  # noqa: E402

IMAGE = "brig-egress-test:1"


@pytest.fixture(scope="session")
def engine(world):
    if os.geteuid() != 0:
        pytest.skip("not root: a Docker engine cannot be started")
    path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    for program in ("dockerd", "docker"):
        if not shutil.which(program, path=path):
            pytest.skip("%s is not installed on this host" % program)
    e = docker_engine.Engine()
    why = e.start()
    if why:
        e.stop()
        pytest.skip(why)
    e.docker("import", "-", IMAGE, input=host_image())
    yield e
    e.stop()
    docker_engine.forget_pool(pwd.getpwnam(ACCOUNT).pw_uid)


class Container(Any):
    def __init__(self, world, engine, root):
        super().__init__(world, ["--backend", "docker", "--image", IMAGE, "--ro", "/usr",
                                 "--docker-socket", str(engine.socket)], root)
        self.engine = engine


@pytest.fixture(params=["user", "root"])
def docker(request, world, engine):
    """Afterwards no container and no egress process is left."""
    need("curl")
    before, processes = set(engine.containers()), set(egress_processes())
    yield Container(world, engine, request.param == "root")
    end = time.monotonic() + 10
    while time.monotonic() < end and not set(egress_processes()) <= processes:
        time.sleep(0.05)
    assert set(egress_processes()) <= processes
    assert set(engine.containers()) <= before, engine.docker("ps", "-a").stdout.decode()


def test_docker_every_way(world, docker):
    world.forget()
    r = docker.run("--ro", world.ca, *LIST, "--", "sh", "-c", EVERY_WAY % {"ca": world.ca})
    assert r["stdout"].split() == ALL_OF_IT, json.dumps(r)
    assert r["backend"] == "docker" and {"net", "net-names", "caps"} <= set(r["enforced"]), r
    check_result(r, docker)
    assert ("denied.test",) not in [x[1:2] for x in world.log()], "a refused name was asked for outside"


def test_docker_python_without_settings(world, docker):
    """Another client than curl, IPv4 as the resolver gives it, no proxy variables."""
    r = docker.run("--ro", world.ca, "--allow", "allowed.test:443", "--", "/usr/bin/python3", "-c", """
import json, os, ssl, sys, urllib.request
assert not [v for v in os.environ if 'proxy' in v.lower()]
c = ssl.create_default_context(cafile=sys.argv[1])
print(json.load(urllib.request.urlopen('https://allowed.test/', context=c, timeout=5))['sni'])
try:
    urllib.request.urlopen('https://denied.test/', context=c, timeout=5)
except OSError as e:
    print('refused')
""", world.ca)
    assert r["stdout"].split() == ["allowed.test", "refused"], json.dumps(r)
    assert r["took"] < 10 and "denied.test" in {d["target"] for d in r["denied"]}, r


def test_docker_two_at_once_do_not_share(world, docker):
    """Two containers with different lists, each while the other runs."""
    text = """for i in 1 2 3 4 5 6 7 8; do
        curl -sSm 3 http://$0/ >/dev/null 2>&1 && echo $0; sleep 0.1
        curl -sSm 3 http://$1/ >/dev/null 2>&1 && echo $1; done; true"""
    mine = ["a.wild.test", "allowed.test"]
    running = [docker.popen("run", "--json", *docker.backend, "--allow", "%s:80" % n, "--", "sh", "-c", text, *mine)
               for n in mine]
    results = [json.loads(p.communicate(timeout=60)[0]) for p in running]
    for name, other, r in zip(mine, reversed(mine), results):
        assert r["stdout"].split() == [name] * 8, json.dumps(r)
        assert {d["target"] for d in r["denied"]} == {other}, json.dumps(r)


def waiting(engine, before, count=1, timeout=20):
    """Containers that wait in a pool, by their id."""
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        now = set(engine.docker("ps", "-q", "--no-trunc").stdout.decode().split()) - before
        if len(now) >= count:
            time.sleep(0.7)  # running, and then armed
            return now
        time.sleep(0.1)
    raise AssertionError("no container waits")


def test_docker_pool_lists_are_the_calls_own(world, docker):
    before = set(docker.engine.containers())
    pool = ["--pool", "1", "--pool-idle", "8"]
    text = "for n in allowed.test a.wild.test; do curl -sSm 3 http://$n/ >/dev/null 2>&1 && echo $n; done; true"
    for name, other in (("allowed.test", "a.wild.test"), ("a.wild.test", "allowed.test"), ("allowed.test", "a.wild.test")):
        had = set(docker.engine.containers()) - before
        r = docker.run(*pool, "--allow", "%s:80" % name, "--", "sh", "-c", text)
        assert r["stdout"].split() == [name], json.dumps(r)
        assert {d["target"] for d in r["denied"]} == {other} and "net-names" in r["enforced"], json.dumps(r)
        if had:  # it was that container, and it is not used again
            end = time.monotonic() + 10
            while had & set(docker.engine.containers()) and time.monotonic() < end:
                time.sleep(0.1)
            assert not had & set(docker.engine.containers())
            assert r["usage"]["setup_us"] < 200000, r["usage"]
        waiting(docker.engine, before)
    # one that waits for calls without a network is not used for one with a list
    r = docker.run(*pool, "--", "sh", "-c", text)
    assert r["stdout"] == "" and "net-names" not in r["enforced"] + r["missing"], json.dumps(r)
    end = time.monotonic() + 30
    while set(docker.engine.containers()) - before and time.monotonic() < end:
        time.sleep(0.3)


@pytest.mark.parametrize("how", ["end", "timeout", "kill"])
def test_docker_ends_with_the_run(world, docker, how):
    before, containers = set(egress_processes()), set(docker.engine.containers())
    text = "getent hosts denied.test; echo up; sleep %s" % (0 if how == "end" else 60)
    p = docker.popen("run", *docker.backend, "--timeout", "2" if how == "timeout" else "60", "--allow", "allowed.test",
                     "--", "sh", "-c", text)
    assert p.stdout.readline() == b"up\n", p.communicate()
    if how != "end":
        assert set(egress_processes()) - before, "it was never started"
    if how == "kill":
        p.send_signal(signal.SIGKILL)
    p.communicate(timeout=30)
    end = time.monotonic() + 5
    while set(egress_processes()) - before and time.monotonic() < end:
        time.sleep(0.05)
    assert set(egress_processes()) <= before
    if how == "kill":  # the container ended by itself; the next brig removes it
        new = set(docker.engine.containers()) - containers
        end = time.monotonic() + 10
        while time.monotonic() < end and any(
                docker.engine.docker("inspect", "-f", "{{.State.Running}}", c).stdout == b"true\n" for c in new):
            time.sleep(0.1)
        for c in new:
            assert docker.engine.docker("inspect", "-f", "{{.State.Running}}", c).stdout == b"false\n"
        assert docker.run("--", "true")["exit"] == 0


def test_docker_own_servers(world, docker):
    """Root's form leaves ports from 1024 on to the command; the other takes those of the list."""
    r = docker.run("--allow", "allowed.test:8080", "--", "sh", "-c", """
        cd /tmp && echo mine > index.html
        for p in 8080 8081; do
            /usr/bin/python3 -m http.server $p --bind 127.0.0.1 >/dev/null 2>&1 & id=$!
            for i in 1 2 3 4 5 6 7 8; do curl -sm 2 http://127.0.0.1:$p/ 2>/dev/null | grep mine && break; sleep 0.2; done
            kill $id 2>/dev/null
        done
        curl -sSm 5 http://allowed.test:8080/ >/dev/null && echo far""")
    assert r["stdout"].split() == (["mine"] if docker.root else []) + ["mine", "far"], json.dumps(r)


def test_docker_gvisor_is_refused(world, engine):
    if "runsc" not in engine.runtimes:
        pytest.skip("runsc is not installed on this host")
    brig = Container(world, engine, False)
    before = set(engine.containers())
    r = brig.run("--runtime", "runsc", "--allow", "allowed.test:80", "--", "true")
    assert not r["ran"] and r["error"]["code"] == "UNSUPPORTED" and "runsc" in r["error"]["message"], r
    assert "--backend native" in r["error"]["fix"] and set(engine.containers()) <= before


# ---- landlock ----------------------------------------------------------------

@pytest.fixture(params=["user", "root"])
def landlock(request, world):
    need("curl")
    if lab.libc.syscall(444, 0, 0, 1) < 4:
        pytest.skip("this kernel's Landlock knows no ports")
    return Any(world, ["--backend", "landlock"], request.param == "root")


def test_landlock_every_way(world, landlock):
    """By the proxies, which the variables name; and not a step beside them."""
    world.forget()
    r = landlock.run("--ro", world.ca, *LIST, "--", "sh", "-c", """
        curl -sS --cacert %(ca)s https://allowed.test/ >/dev/null && echo tls
        curl -sS http://a.wild.test/ >/dev/null && echo wildcard
        curl -sSm 5 http://allowed.test:8080/ >/dev/null && echo high
        curl -sS -x "$BRIG_SOCKS_PROXY" --cacert %(ca)s https://allowed.test/ >/dev/null && echo socks
        curl -sSm 3 https://denied.test/ >/dev/null 2>&1 || echo denied
        curl -sSm 3 --noproxy '*' http://192.0.2.10/ >/dev/null 2>&1 || echo direct-refused
        curl -sSm 3 --noproxy '*' http://allowed.test/ >/dev/null 2>&1 || echo no-dns
        p=${HTTPS_PROXY##*:}
        curl -sSm 3 --noproxy '*' http://192.0.2.10:$p/ >/dev/null 2>&1 || echo same-port-elsewhere-refused
        curl -sSm 3 --noproxy '*' http://127.0.0.2:$p/ >/dev/null 2>&1 || echo same-port-loopback-refused
        curl -sSm 3 --noproxy '*' http://127.0.0.1:80/ >/dev/null 2>&1 || echo loopback-refused
        curl -sSm 3 -x http://127.0.0.1:$p/ https://allowed.test/ 2>&1 | grep -o 407
        """ % {"ca": world.ca})
    assert r["stdout"].split() == ["tls", "wildcard", "high", "socks", "denied", "direct-refused", "no-dns",
                                   "same-port-elsewhere-refused", "same-port-loopback-refused",
                                   "loopback-refused", "407"], json.dumps(r)
    assert r["backend"] == "landlock" and "net" in r["enforced"] and "net-names" in r["missing"], json.dumps(r)
    by_target = {d["target"]: d for d in r["denied"] if d["kind"] == "net"}
    assert by_target["denied.test:443"]["fix"] == "--allow denied.test:443", json.dumps(r)
    assert by_target["192.0.2.10:80"]["fix"].startswith("a program that heeds"), json.dumps(r)
    lines = [x for x in landlock.audit() if x["sandbox"] == r["id"]]
    assert {x["via"] for x in lines} == {"connect", "socks"}, lines
    assert {x["name"] for x in lines if x["verdict"] == "allowed"} == {"allowed.test", "a.wild.test"}, lines


def test_landlock_python_and_every_other_socket(world, landlock):
    r = landlock.run("--allow", "allowed.test:80", "--", "/usr/bin/python3", "-c", r"""
import ctypes, mmap, os, socket, struct, time, urllib.request
print('got', urllib.request.urlopen('http://allowed.test/', timeout=5).status)
def tried(name, fn, *a):
    try:
        fn(*a)
        print('OPEN', name)
    except OSError as e:
        print(name, e.errno)
for name, a in (('udp', (2, 2)), ('raw', (2, 3)), ('ipv6', (10, 1)), ('unix', (1, 1)), ('netlink', (16, 3)),
                ('packet', (17, 3)), ('vsock', (40, 1)), ('mptcp', (2, 1, 262)), ('sctp', (2, 1, 132))):
    tried(name, socket.socket, *a)
tried('listen', socket.socket().listen)
s = socket.socket()
tried('bind', s.bind, ('127.0.0.1', 0))
tried('fastopen', s.sendto, b'x', 0x20000000, ('192.0.2.10', 80))
# what would send the packets another way, or data with the first one
for name, level, opt in (('device', 1, 25), ('ifindex', 1, 62), ('route', 0, 4), ('unicast', 0, 50),
                         ('early', 6, 30), ('nocookie', 6, 34)):
    tried(name, s.setsockopt, level, opt, b'lo\0\0')
for level, opt in ((1, 9), (6, 1), (0, 1)):
    s.setsockopt(level, opt, 1)
tried('unspec', lambda: ctypes.CDLL(None).connect(s.fileno(), bytes(16), 16) and (_ for _ in ()).throw(OSError(0, '')))
port = int(os.environ['HTTPS_PROXY'].rsplit(':', 1)[1])
# the address is changed while the supervisor looks at it: what it looked at counts. By another process: a thread
# of this one would wait for the interpreter with one of the two written, all the time
c, good, bad = ctypes.CDLL(None), *(struct.pack('!HH4s8x', 0x0200, port, socket.inet_aton(a)) for a in ('127.0.0.1', '192.0.2.10'))
buf = mmap.mmap(-1, 4096)
buf[:16] = good
at = ctypes.addressof(ctypes.c_char.from_buffer(buf))
flip = os.fork()
while not flip:
    buf[:16] = bad; buf[:16] = good
peers, refused, tries, until = set(), 0, 0, time.monotonic() + 15
while tries < 300 or (not (peers and refused) and time.monotonic() < until):
    tries += 1
    s = socket.socket()
    if c.connect(s.fileno(), ctypes.c_void_p(at), 16) == 0:
        peers.add(s.getpeername()[0])
    else:
        refused += 1
    s.close()
os.kill(flip, 9); os.waitpid(flip, 0)
print('both', bool(peers and refused))
print('peers', peers)
""")
    lines = r["stdout"].split("\n")
    assert "got 200" in lines and not [x for x in lines if x.startswith("OPEN")], json.dumps(r)
    assert [x.split()[0] for x in lines[1:10]] == ["udp", "raw", "ipv6", "unix", "netlink", "packet", "vsock", "mptcp", "sctp"], json.dumps(r)
    assert "listen 13" in lines and "bind 13" in lines and "fastopen 1" in lines, json.dumps(r)
    for name in ("device", "ifindex", "route", "unicast", "early", "nocookie"):
        assert name + " 1" in lines, json.dumps(r)
    assert "both True" in lines and "peers {'127.0.0.1'}" in lines, json.dumps(r)


def test_landlock_many_at_once(world, landlock):
    """More connections than a queue holds, all blocking, before the process is even started."""
    r = landlock.run("--pids", "0", "--allow", "allowed.test:80", "--timeout", "30", "--", "/usr/bin/python3", "-c", """
import socket, threading, os
port = int(os.environ['HTTPS_PROXY'].rsplit(':', 1)[1])
done = []
def one():
    try:
        s = socket.create_connection(('127.0.0.1', port), 10)
        done.append(s)
    except OSError as e:
        done.append(e)
t = [threading.Thread(target=one) for i in range(400)]
[x.start() for x in t]; [x.join() for x in t]
print(len(done), len([x for x in done if isinstance(x, socket.socket)]))
""")
    total, made = map(int, r["stdout"].split())
    assert total == 400 and made >= 256 and r["took"] < 20, json.dumps(r)


def test_landlock_proxy_is_not_for_others(world, landlock):
    """Another user of the machine, who finds the port, gets nothing."""
    p = landlock.popen("run", *landlock.backend, "--allow", "allowed.test:80,443", "--", "sh", "-c",
                       'echo "$HTTPS_PROXY $BRIG_SOCKS_PROXY"; sleep 20')
    http, socks = (x.decode() for x in p.stdout.readline().split())
    assert "@127.0.0.1:" in http and len(http.split("@")[0]) > 30
    world.forget()

    def as_nobody(*words):
        return subprocess.run(["curl", "-sSm", "5", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              preexec_fn=lambda: os.setresuid(65534, 65534, 65534))
    http_port, socks_port = http.rsplit(":", 1)[1], socks.rsplit(":", 1)[1]
    tries = [("-x", "http://127.0.0.1:%s" % http_port), ("-x", "http://brig:guess@127.0.0.1:%s" % http_port),
             ("-x", "socks5h://127.0.0.1:%s" % socks_port), ("-x", "socks5h://brig:guess@127.0.0.1:%s" % socks_port)]
    try:
        for t in tries:
            q = as_nobody(*t, "-p", "http://allowed.test/")
            assert q.returncode != 0 and q.stdout == b"", (t, q)
        q = as_nobody("-x", "http://127.0.0.1:%s" % http_port, "http://allowed.test/")
        assert b"proxy-password" in q.stdout, q
        assert world.log() == [], "something left for somebody else"
        # with the password it is the proxy
        q = as_nobody("-x", http, "http://allowed.test/")
        assert q.returncode == 0 and q.stdout, q
    finally:
        p.send_signal(signal.SIGTERM)
        p.communicate(timeout=20)


def test_landlock_required_names_are_refused(world, landlock):
    r = landlock.run("--require", "net-names,seccomp", "--allow", "allowed.test:80", "--", "true")
    assert not r["ran"] and r["error"]["code"] == "REQUIRE_UNMET" and "net-names" in r["error"]["message"], json.dumps(r)


def test_landlock_own_variables_stay(world, landlock):
    r = landlock.run("--env", "HTTPS_PROXY=http://mine.test:1", "--allow", "allowed.test:80", "--", "sh", "-c",
                     "echo $HTTPS_PROXY; echo ${https_proxy%%:*}")
    assert r["stdout"].split() == ["http://mine.test:1", "http"], json.dumps(r)
    none = landlock.run("--", "env")
    assert "proxy" not in none["stdout"].lower(), none["stdout"]


# ---- all of them -------------------------------------------------------------

@pytest.mark.parametrize("backend", ["bwrap", "landlock"])
@pytest.mark.parametrize("how", ["end", "timeout", "kill", "killkeeper"])
def test_the_process_ends_with_the_run(world, backend, how):
    need(*(["bwrap"] if backend == "bwrap" else []))
    brig = Any(world, ["--backend", backend])
    before = set(egress_processes())
    text = "curl -sm 3 http://denied.test/ >/dev/null; echo up; sleep %s" % (0 if how == "end" else 30)
    p = brig.popen("run", *brig.backend, "--timeout", "2" if how == "timeout" else "30", "--allow", "allowed.test",
                   "--", "sh", "-c", text)
    assert p.stdout.readline() == b"up\n", p.communicate()
    if how.startswith("kill"):
        assert set(egress_processes()) - before, "it was never started"
        if how == "killkeeper":
            keeper = [int(c) for c in open("/proc/%d/task/%d/children" % (p.pid, p.pid)).read().split()
                      if open("/proc/%s/comm" % c).read() == "brig-keeper\n"]
            os.kill(keeper[0], signal.SIGKILL)
        else:
            p.send_signal(signal.SIGKILL)
    p.communicate(timeout=30)
    end = time.monotonic() + 5
    while set(egress_processes()) - before and time.monotonic() < end:
        time.sleep(0.05)
    assert set(egress_processes()) <= before


@pytest.mark.parametrize("backend", ["native", "bwrap", "landlock"])
def test_without_the_helper_nothing_runs(world, backend, tmp_path):
    need(*(["bwrap"] if backend == "bwrap" else []))
    brig = Any(world, ["--backend", backend])
    exe = os.path.join(brig.dir, "brig")
    shutil.copy(str(BUILD / "brig"), exe)
    p = subprocess.run([exe, "run", "--json", *brig.backend, "--allow", "allowed.test", "--", "true"], cwd=brig.ws,
                       env={"PATH": "/usr/bin:/bin", "HOME": brig.home}, preexec_fn=brig.enter, stdin=subprocess.DEVNULL,
                       stdout=subprocess.PIPE)
    j = json.loads(p.stdout)
    assert p.returncode == 125 and not j["ran"] and "brig-egress" in j["error"]["message"], j
    assert "install" in j["error"]["fix"]
