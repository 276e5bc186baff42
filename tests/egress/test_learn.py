# SPDX-License-Identifier: Apache-2.0
"""brig run --learn, --proxy-env, addresses of the list, the operator's proxy, and who it was."""
import json
import os
import subprocess

import pytest
from conftest import lab, need
from test_brig import Caller


class Root(Caller):
    """brig as root; its log is not the machine's."""

    def __init__(self, world):
        super().__init__(world)
        self.uid = 0
        for name in (self.ws, self.home):
            os.chown(name, 0, 0)

    def enter(self):
        lab.unshare(lab.NEWNS)
        lab.mount("none", "/", lab.MS_REC | lab.MS_PRIVATE)
        lab.mount(self.resolv, "/etc/resolv.conf", lab.MS_BIND)
        lab.mount(self.home, "/var/log", lab.MS_BIND)

    def audit(self):
        with open(os.path.join(self.home, "brig/audit.log")) as f:
            return [json.loads(x) for x in f]


@pytest.fixture
def brig(world):
    c = Caller(world)
    world.forget()
    return c


@pytest.fixture(params=[Caller, Root])
def both(world, request):
    return request.param(world)


def config(brig, text):
    path = os.path.join(brig.dir, "conf.yaml")
    with open(path, "w") as f:
        f.write(text)
    return ["--config", path]


def human(brig, *args):
    p = brig.popen("run", *args)
    out, err = p.communicate(timeout=60)
    return p.returncode, out.decode(), err.decode()


def connections(brig):
    return [x for x in brig.audit() if "up" in x]


# --- learning ---------------------------------------------------------------------

def test_learn(world, brig):
    """Names and ports that were used; a second run with that list needs nothing more."""
    need("curl")
    cmd = ["sh", "-c", """
        curl -sS --cacert %s https://allowed.test/ >/dev/null && echo tls
        curl -sSm 5 http://other.test/ >/dev/null && echo plain
        curl -sSm 5 http://allowed.test:8080/ >/dev/null && echo high
        bash -c 'exec 3<>/dev/tcp/allowed.test/22; head -c 3 <&3' && echo banner""" % world.ca]
    r = brig.run("--learn", "--ro", world.ca, "--", *cmd)
    assert r["exit"] == 0 and r["stdout"].split() == ["tls", "plain", "high", "220banner"], r
    assert r["learned"] == ["allowed.test:22", "allowed.test:443", "allowed.test:8080", "other.test:80"], r
    assert r["not_learned"] == [] and r["learn_lost"] == 0 and r["denied"] == []
    allow = [x for a in r["learned"] for x in ("--allow", a)]
    again = brig.run(*allow, "--ro", world.ca, "--", *cmd)
    assert again["stdout"] == r["stdout"] and again["denied"] == [], again
    assert "learned" not in again
    # it is written down that this run was one of learning
    started = [x for x in brig.audit() if x.get("event") == "learn"]
    assert [x["id"] for x in started] == [r["id"]] and started[0]["argv"] == cmd


def test_learn_for_a_person(world, brig):
    code, out, err = human(brig, "--learn", "--", "sh", "-c",
                           "curl -sSm 5 http://other.test/ >/dev/null; curl -sm 5 http://192.0.2.10/; true")
    assert code == 0 and "EVERY public host name" in err and "--learn" in err.splitlines()[0]
    assert "  --allow other.test:80\n" in err and '  network:\n    allow:\n      - "other.test:80"\n' in err
    assert "192.0.2.10:80  address-not-allowed" in err and "--allow 192.0.2.10:80" in err
    # the YAML is what a policy file takes
    text = err[err.index("  network:\n"):err.index("brig: not learned")]
    conf = config(brig, "sandbox:\n" + text)
    again = brig.run(*conf, "--", "curl", "-sSm", "5", "http://other.test/")
    assert again["exit"] == 0, again
    code, _, err = human(brig, "--learn", "--", "true")
    assert code == 0 and "no connection was made" in err


def test_no_learning_through_the_operators_proxy(world, brig):
    """It would resolve what the command chooses, unseen."""
    r = with_env(brig, {"HTTPS_PROXY": "http://203.0.113.2:3128"}, "--learn", "--", "true")
    assert not r["ran"] and r["error"]["code"] == "UNSUPPORTED" and "HTTPS_PROXY" in r["error"]["fix"], r


def test_learning_keeps_the_checks(world, brig):
    """Private addresses, another SNI or Host, addresses without a name: refused, and told why."""
    r = brig.run("--learn", "--", "sh", "-c", """
        curl -sm 5 http://loop.test/ && echo LOOP
        curl -sm 5 http://private.test/ && echo PRIVATE
        curl -sm 5 http://192.0.2.10/ && echo LITERAL
        curl -sm 5 'http://[2001:db8::10]/' && echo LITERAL6
        curl -sm 5 -H 'Host: other.test' http://allowed.test/ && echo HOST
        curl -skm 5 --connect-to other.test:443:allowed.test:443 https://other.test/ && echo SNI
        curl -sm 5 http://ghost.test/ && echo GHOST
        curl -sm 5 http://169.254.169.254/ && echo META
        getent hosts printer && echo BARE
        echo x > /dev/udp/192.0.2.53/53; true""")
    assert r["exit"] == 0 and r["stdout"] == "", r
    no = {x["target"]: x["reason"] for x in r["not_learned"]}
    assert r["learned"] == [], r
    assert no["192.0.2.10:80"] == no["[2001:db8::10]:80"] == no["169.254.169.254:80"] == "address-not-allowed"
    assert no["loop.test:80"] == "private-address" and no["ghost.test:80"] == "resolve-failed"
    assert no["allowed.test:80"] == "host-mismatch" and no["allowed.test:443"] == "sni-mismatch", no
    assert not [x for x in world.log() if x[0] not in ("dns",)], world.log()


def test_a_listed_address_is_learned(world, brig):
    r = brig.run("--learn", "--allow", "192.0.2.10:80", "--", "curl", "-sSm", "5", "http://192.0.2.10/")
    assert r["exit"] == 0 and r["learned"] == ["192.0.2.10:80"], r


@pytest.mark.parametrize("text, word", [
    ("lock: [network.learn]\n", "network.learn"),
    ("sandbox: {network: {mode: none}}\nlock: [network.mode]\n", "network.mode"),
    ("sandbox: {network: {mode: allow, allow: [allowed.test]}}\nlock: [network.allow]\n", "network.allow"),
    ("sandbox: {network: {allow: []}}\nlock: [network]\n", "network."),
])
def test_policy_forbids_learning(world, brig, text, word):
    conf = config(brig, text)
    r = brig.run(*conf, "--learn", "--", "touch", "ran")
    assert r["ran"] is False and r["error"]["code"] == "LOCKED" and word in r["error"]["message"], r
    assert r["error"]["fix"] and not os.path.exists(os.path.join(brig.ws, "ran"))
    assert human(brig, *conf, "--learn", "--", "true")[0] == 125
    assert world.log() == []


def test_learning_does_not_go_with_others(world, brig):
    for args in (["--net", "none"], ["--net", "host"]):
        code, _, err = human(brig, "--learn", *args, "--", "true")
        assert code != 0 and "--learn" in err, err
    code, _, err = human(brig, "--learn", "--backend", "landlock", "--", "true")
    assert code == 125 and ("learn" in err or "allow-list" in err), err


def test_no_learning_without_its_line(world, brig):
    with open(os.path.join(brig.home, ".local"), "w"):
        pass
    r = brig.run("--learn", "--", "touch", "ran")
    assert r["ran"] is False and r["error"]["code"] == "IO_FAILED", r
    assert not os.path.exists(os.path.join(brig.ws, "ran"))


# --- proxies inside -----------------------------------------------------------------

PROXIES = {"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"}


def variables(text):
    return {x.split("=")[0].upper() for x in text.split("\n")} & PROXIES


def test_proxy_variables_only_if_asked(world, brig):
    need("curl")
    r = brig.run("--allow", "allowed.test", "--", "sh", "-c",
                 "env; for p in 3128 1080; do bash -c \"exec 3<>/dev/tcp/127.0.0.1/$p\" 2>/dev/null && echo OPEN; done; true")
    assert variables(r["stdout"]) == set() and "OPEN" not in r["stdout"], r
    r = brig.run("--proxy-env", "--allow", "allowed.test", "--ro", world.ca, "--", "sh", "-c", """
        env | grep -i _proxy=
        curl -sS --cacert %s -w '%%{proxy_used}\\n' https://allowed.test/ -o /dev/null && echo https
        curl -sS http://allowed.test/ -o /dev/null && echo http
        env -u http_proxy -u HTTP_PROXY curl -sS http://allowed.test/ -o /dev/null && echo socks
        curl -sSm 5 --cacert %s https://denied.test/ -o /dev/null 2>&1 || echo refused
        unset http_proxy https_proxy all_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY
        curl -sS http://allowed.test/ -o /dev/null && echo direct""" % (world.ca, world.ca))
    assert variables(r["stdout"]) == PROXIES, r
    words = r["stdout"].split("\n")
    assert [w for w in words if w in ("https", "http", "socks", "refused", "direct")] == \
        ["https", "http", "socks", "refused", "direct"], r
    assert [x["via"] for x in connections(brig) if x["verdict"] == "allowed"] == \
        ["connect", "connect", "socks", "direct"], connections(brig)
    assert [x["via"] for x in connections(brig) if x["name"] == "denied.test"] == ["connect"]
    # as a setting, and a variable that was set by name stays
    conf = config(brig, "sandbox: {network: {allow: [allowed.test], proxy_env: true}}\n")
    r = brig.run(*conf, "--env", "HTTP_PROXY=mine", "--", "env")
    assert variables(r["stdout"]) == PROXIES and "HTTP_PROXY=mine\n" in r["stdout"]
    # without a list there is nothing to proxy
    assert brig.run("--proxy-env", "--", "true")["error"]["code"] == "BAD_OPTION"
    conf = config(brig, "sandbox: {network: {proxy_env: true}}\n")
    assert variables(brig.run(*conf, "--", "env")["stdout"]) == set()
    conf = config(brig, "lock: [network.proxy_env]\n")
    assert brig.run(*conf, "--allow", "allowed.test", "--proxy-env", "--", "true")["error"]["code"] == "LOCKED"


# --- addresses ------------------------------------------------------------------------

def test_addresses_are_called_directly(world, brig):
    """Both families, ports below 1024 and above, networks, and nothing beside them."""
    need("curl")
    r = brig.run("--allow", "192.0.2.10:80,8080", "--allow", "[2001:db8::/32]:80,8080",
                 "--allow", "10.9.9.0/24:80", "--", "sh", "-c", """
        curl -sSm 5 http://192.0.2.10/ >/dev/null && echo four
        curl -sSm 5 http://192.0.2.10:8080/ >/dev/null && echo four-high
        curl -sSm 5 'http://[2001:db8::10]/' >/dev/null && echo six
        curl -sSm 5 'http://[2001:db8::10]:8080/' >/dev/null && echo six-high
        curl -sm 3 http://192.0.2.11/ && echo NEIGHBOUR
        curl -sm 3 http://192.0.2.10:22/ && echo PORT
        curl -sm 3 http://10.9.8.1/ && echo BESIDE
        echo x > /dev/udp/192.0.2.10/80; true""")
    assert r["stdout"].split() == ["four", "four-high", "six", "six-high"], r
    assert {(x["name"], x["port"], x["via"]) for x in connections(brig)} >= {
        ("192.0.2.10", 80, "direct"), ("192.0.2.10", 8080, "direct"), ("2001:db8::10", 80, "direct"),
        ("2001:db8::10", 8080, "direct")}
    private = brig.run("--allow", "10.9.9.0/24:80", "--", "curl", "-sSm", "5", "http://10.9.9.9/")
    assert ("tcp", "10.9.9.9", 80) in world.log(), (private, world.log())


def test_without_nftables_for_low_ports(world, brig):
    """Only ports from 1024 need it."""
    r = brig.run("--allow", "192.0.2.10:80", "--", "curl", "-sSm", "5", "http://192.0.2.10/")
    assert r["exit"] == 0, r


def test_everything_by_address_but_not_what_is_special(world, brig):
    r = brig.run("--allow", "0.0.0.0/0:80", "--", "sh", "-c", """
        curl -sSm 5 http://192.0.2.10/ >/dev/null && echo public
        for a in 169.254.169.254 10.9.9.9 100.64.1.1 168.63.129.16 203.0.113.1; do
            curl -sm 3 http://$a/ && echo REACHED $a; done
        mkdir own && cd own && echo mine > index.html
        /usr/bin/python3 -m http.server 8000 --bind 127.0.0.1 >/dev/null 2>&1 &
        for i in 1 2 3 4 5 6 7 8 9 10; do curl -sm 2 http://127.0.0.1:8000/ && break; sleep 0.2; done; kill $!""")
    assert r["stdout"].split() == ["public", "mine"], r
    assert {d["target"] for d in r["denied"]} >= {"169.254.169.254:80", "10.9.9.9:80", "100.64.1.1:80"}, r["denied"]
    assert not [x for x in world.log() if x[0] == "trap"], world.log()


def test_loopback_and_our_own_ranges(world, brig):
    for entry in ("198.18.0.0/15:80", "198.19.3.4:80", "[fd62:7269:6720::5]:80"):
        r = brig.run("--allow", entry, "--", "true")
        assert r["ran"] is False and r["error"]["code"] == "BAD_VALUE" and "range" in r["error"]["message"], r
    # inside, 127.x is the sandbox's own, whatever the list says
    r = brig.run("--allow", "127.0.0.1:80,8080", "--allow", "[::1]:80", "--", "sh", "-c",
                 "curl -sm 3 http://127.0.0.1/ && echo HOST; curl -sm 3 'http://[::1]/' && echo HOST;"
                 "curl -sm 3 http://127.0.0.1:8080/ && echo HOST; true")
    assert r["exit"] == 0 and r["stdout"] == "" and not [x for x in world.log() if x[0] == "trap"], r


def test_port_53_by_tcp(world, brig):
    """The resolver has port 53 at its address; at others it is a port like any."""
    r = brig.run("--allow", "192.0.2.53:53", "--allow", "allowed.test:80", "--", "sh", "-c",
                 "bash -c 'exec 3<>/dev/tcp/192.0.2.53/53' && echo open; curl -sSm 5 http://allowed.test/ >/dev/null && echo names")
    assert r["stdout"].split() == ["open", "names"], r


# --- the operator's proxy ----------------------------------------------------------------

def with_env(brig, env, *args):
    p = subprocess.Popen([os.environ.get("BRIG", str(brig_path())), "run", "--json", *args], cwd=brig.ws,
                         env={"PATH": "/usr/bin:/bin", "HOME": brig.home, "LANG": "C.UTF-8", **env},
                         preexec_fn=brig.enter, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE)
    out, err = p.communicate(timeout=60)
    assert out, err
    return json.loads(out)


def brig_path():
    from test_brig import BRIG
    return BRIG


GET = ["--allow", "allowed.test:80", "--", "curl", "-sSm", "8", "http://allowed.test/"]


@pytest.mark.parametrize("env, through", [
    ({}, False),
    ({"HTTPS_PROXY": "http://203.0.113.2:3128"}, True),
    ({"https_proxy": "203.0.113.2:3128"}, True),
    ({"ALL_PROXY": "http://203.0.113.2:3128/", "NO_PROXY": "localhost,other.test"}, True),
    ({"HTTPS_PROXY": "http://203.0.113.2:3128", "NO_PROXY": "localhost, allowed.test"}, False),
    ({"HTTPS_PROXY": "http://203.0.113.2:3128", "no_proxy": ".test"}, False),
    ({"HTTPS_PROXY": "http://203.0.113.2:3128", "NO_PROXY": "*"}, False),
])
def test_operators_proxy(world, brig, env, through):
    r = with_env(brig, env, *GET)
    assert r["exit"] == 0, r
    assert any(x[0] == "proxy" for x in world.log()) == through, world.log()


@pytest.mark.parametrize("value", ["https://203.0.113.2:3128", "socks5://203.0.113.2:1080", "http://203.0.113.2:99999",
                                   "http://:3128", "http://user:%s@203.0.113.2:3128" % ("p" * 200)])
def test_a_proxy_that_cannot_be_used_is_not_left_out(world, brig, value):
    r = with_env(brig, {"HTTPS_PROXY": value}, *GET)
    assert r["ran"] is False and r["error"]["code"] == "BAD_VALUE" and "HTTPS_PROXY" in r["error"]["message"], r
    assert "http://" in r["error"]["fix"] and "ppp" not in json.dumps(r) and world.log() == []


# --- who it was ----------------------------------------------------------------------------

def test_who_it_was(world, both):
    """pid, name and arguments as they are inside."""
    brig = both
    r = brig.run("--allow", "allowed.test:80,8080", "--allow", "192.0.2.10:80", "--proxy-env", "--", "sh", "-c", r"""
        unset HTTP_PROXY HTTPS_PROXY ALL_PROXY http_proxy https_proxy all_proxy
        cat > slow.py <<'X'
import os, socket, sys, time
s = socket.create_connection((sys.argv[1], int(sys.argv[2])))
print(os.getpid(), flush=True)
time.sleep(0.3)
s.sendall(b"GET / HTTP/1.0\r\nHost: " + sys.argv[1].encode() + b"\r\n\r\n")
s.recv(10)
X
        for t in 'allowed.test 80' 'allowed.test 8080' '192.0.2.10 80'; do /usr/bin/python3 slow.py $t; done
        /usr/bin/python3 -c 'import socket,time; s=socket.create_connection(("192.0.2.10",80)); time.sleep(.2)' "$(printf 'a\033[2Jb\nc')"
        """)
    pids = [int(x) for x in r["stdout"].split()]
    lines = connections(brig)
    assert len(pids) == 3 and len(lines) == 4, (r, lines)
    for pid, line, target in zip(pids, lines, ("allowed.test 80", "allowed.test 8080", "192.0.2.10 80")):
        assert line["pid"] == pid and line["comm"] == "python3", line
        assert line["command"] == "/usr/bin/python3 slow.py " + target, line
    assert lines[3]["command"].endswith("a?[2Jb?c"), lines[3]


def test_who_was_refused(world, both):
    brig = both
    r = brig.run("--allow", "allowed.test:80", "--", "sh", "-c",
                 "curl -sm 5 -H 'Host: evil.test' http://allowed.test/; echo $?")
    line = connections(brig)[0]
    assert line["verdict"] == "denied" and line["comm"] == "curl" and line["pid"] > 1, (r, line)


def test_two_holders_are_not_one(world, brig):
    """A socket that two processes have open: nobody can tell who used it."""
    brig.run("--allow", "allowed.test:22", "--", "bash", "-c",
             "cat > a.py <<'X'\nimport os,socket,time\n"
             "s=socket.socket(); os.fork(); os.set_inheritable(s.fileno(), True)\n"
             "try: s.connect(('allowed.test',22))\nexcept OSError: pass\ntime.sleep(.4)\nX\n/usr/bin/python3 a.py; sleep .1")
    lines = connections(brig)
    assert len(lines) == 1 and lines[0]["holders"] == 2 and "pid" not in lines[0], lines


def test_a_process_that_hides(world, brig):
    """One that cannot be looked at may hold the socket, too: that is said."""
    brig.run("--allow", "allowed.test:22", "--", "/usr/bin/python3", "-c", """
import ctypes, os, socket, time
if os.fork() == 0:
    ctypes.CDLL(None).prctl(4, 0)
    time.sleep(.6)
    os._exit(0)
time.sleep(.2)
s = socket.create_connection(('allowed.test', 22))
time.sleep(.3)""")
    line, = connections(brig)
    assert line["pid"] > 1 and line["unseen"] == 1, line


def test_a_flood_of_connections_is_bounded(world, brig):
    """Many connections and many descriptors: the run is as fast as without looking, each has its line."""
    r = brig.run("--pids", "200", "--allow", "allowed.test:22", "--", "/usr/bin/python3", "-c", """
import resource, socket, time, os
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 20000), hard))
hold = []
try:
    while len(hold) < 15000: hold.append(os.open('/dev/null', os.O_RDONLY))
except OSError: pass
for fd in hold[-50:]: os.close(fd)
a = socket.getaddrinfo('allowed.test', 22, socket.AF_INET)[0][4]
start = time.monotonic()
for i in range(150):
    with socket.create_connection(a) as s: s.recv(3)
print(time.monotonic() - start, len(hold))""")
    took, held = r["stdout"].split()
    assert r["exit"] == 0 and float(took) < 5 and int(held) > 1000, r
    assert len(connections(brig)) == 150
