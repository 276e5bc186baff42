# SPDX-License-Identifier: Apache-2.0
"""The whole of it: brig run with an allow-list, in the lab's world."""
import json
import os
import pwd
import signal
import subprocess
import tempfile
import time

import pytest
from conftest import BUILD, lab, need

BRIG = str(BUILD / "brig")
ACCOUNT = os.environ.get("BRIG_TEST_ACCOUNT", "brigtest")


class Caller:
    """brig as an ordinary user, with the world's resolver in resolv.conf."""

    def __init__(self, world):
        # an ordinary user is root here, of a user namespace with one id
        with open("/proc/self/uid_map") as f:
            if os.geteuid() != 0 or f.read().split()[2] == "1":
                pytest.skip("not root: resolv.conf cannot be replaced for brig")
        try:
            self.uid = pwd.getpwnam(ACCOUNT).pw_uid
        except KeyError:
            subprocess.run(["useradd", "--system", "--shell", "/bin/sh", ACCOUNT], check=True)
            self.uid = pwd.getpwnam(ACCOUNT).pw_uid
        self.dir = tempfile.mkdtemp(dir=world.dir)
        os.chmod(self.dir, 0o755)
        self.resolv = os.path.join(self.dir, "resolv.conf")
        with open(self.resolv, "w") as f:
            f.write("nameserver %s\noptions timeout:2 attempts:1\n" % lab.DNS_SERVER)
        for name in ("ws", "home"):
            os.mkdir(os.path.join(self.dir, name))
            os.chown(os.path.join(self.dir, name), self.uid, self.uid)
        self.ws, self.home = os.path.join(self.dir, "ws"), os.path.join(self.dir, "home")

    def enter(self):
        lab.unshare(lab.NEWNS)
        lab.mount("none", "/", lab.MS_REC | lab.MS_PRIVATE)
        lab.mount(self.resolv, "/etc/resolv.conf", lab.MS_BIND)
        os.setgroups([])
        os.setresgid(self.uid, self.uid, self.uid)
        os.setresuid(self.uid, self.uid, self.uid)

    def popen(self, *args, **kw):
        env = {"PATH": "/usr/bin:/bin", "HOME": self.home, "LANG": "C.UTF-8"}
        return subprocess.Popen([BRIG, *args], cwd=self.ws, env=env, preexec_fn=self.enter,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, **kw)

    def run(self, *args):
        start = time.monotonic()
        p = self.popen("run", "--json", *args)
        out, err = p.communicate(timeout=60)
        assert out, err
        j = json.loads(out)
        j["took"] = time.monotonic() - start
        return j

    def audit(self):
        path = os.path.join(self.home, ".local/state/brig/audit.log")
        with open(path) as f:
            return [json.loads(x) for x in f]


@pytest.fixture
def brig(world):
    return Caller(world)


def test_must_show(world, brig):
    """Everybody's client, no proxy variables: allowed works, denied fails fast and is listed."""
    need("node")
    js = ("fetch(process.argv[1]).then(r=>r.text()).then(t=>{console.log(t);process.exit(0)})"
          ".catch(e=>{console.log('failed: '+(e.cause&&e.cause.code));process.exit(3)})")
    config = os.path.join(brig.dir, "conf.yaml")
    with open(config, "w") as f:
        f.write("sandbox: {env: {set: {NODE_EXTRA_CA_CERTS: %s}}, filesystem: {read: [%s]}}\n" % (world.ca, world.ca))
    opts = ["--config", config, "--allow", "allowed.test:443"]
    ok = brig.run(*opts, "--", "node", "-e", js, "--", "https://allowed.test/")
    if "fetch is not defined" in ok["stderr"]:
        pytest.skip("this node has no fetch")
    assert ok["exit"] == 0 and json.loads(ok["stdout"])["sni"] == "allowed.test", ok
    assert ok["denied"] == [] and "net" in ok["enforced"]
    no = brig.run(*opts, "--", "node", "-e", js, "--", "https://denied.test/")
    assert no["exit"] == 3 and no["took"] < 3, no
    assert {"kind": "net", "target": "denied.test", "rule": "not in allow-list", "fix": "--allow denied.test",
            "count": no["denied"][0]["count"]} == no["denied"][0]
    lines = brig.audit()
    mine = [x for x in lines if x["name"] == "allowed.test"]
    assert len(mine) == 1 and mine[0]["down"] > 100, mine
    assert (mine[0]["verdict"], mine[0]["reason"]) == ("allowed", "tls"), mine
    assert all(x["verdict"] == "denied" for x in lines if x["name"] == "denied.test")
    assert {x["sandbox"] for x in lines} == {ok["id"], no["id"]}


def test_every_client_and_every_way_around(world, brig):
    need("curl")
    r = brig.run("--ro", world.ca, "--allow", "allowed.test:443", "--allow", "*.wild.test:80", "--", "sh", "-c", """
        curl -sS --cacert %s https://allowed.test/ >/dev/null && echo tls
        curl -sS http://a.wild.test/ >/dev/null && echo wildcard
        curl -sSm 3 http://wild.test/ >/dev/null 2>&1 || echo apex-refused
        curl -sSm 3 http://192.0.2.10/ >/dev/null 2>&1 || echo literal-refused
        curl -sSm 3 http://0xc000020a/ >/dev/null 2>&1 || echo odd-literal-refused
        curl -sSm 3 --resolve allowed.test:443:192.0.2.10 --cacert %s https://allowed.test/ >/dev/null 2>&1 || echo own-address-refused
        curl -sSm 3 --connect-to denied.test:443:allowed.test:443 -k https://denied.test/ >/dev/null 2>&1 || echo sni-refused
        bash -c 'exec 3<>/dev/tcp/192.0.2.53/53' 2>/dev/null || echo dns-server-unreachable
        echo q > /dev/udp/192.0.2.53/53 2>/dev/null || echo udp-refused""" % (world.ca, world.ca))
    assert r["stdout"].split() == ["tls", "wildcard", "apex-refused", "literal-refused", "odd-literal-refused",
                                   "own-address-refused", "sni-refused", "dns-server-unreachable", "udp-refused"], r
    assert {"wild.test", "allowed.test:443"} <= {d["target"] for d in r["denied"]}, r["denied"]


def test_ports_from_1024_and_own_servers(world, brig):
    """Through nftables, without the nft program; the same port is free for the command's own server."""
    r = brig.run("--allow", "allowed.test:8080", "--", "sh", "-c", """
        curl -sSm 5 http://allowed.test:8080/ >/dev/null && echo far
        mkdir own && cd own && echo mine > index.html
        /usr/bin/python3 -m http.server 8080 --bind 127.0.0.1 >/dev/null 2>&1 &
        for i in 1 2 3 4 5 6 7 8 9 10; do curl -sm 2 http://127.0.0.1:8080/ && break; sleep 0.2; done
        curl -sSm 5 http://allowed.test:8080/ >/dev/null && echo far again
        kill $!""")
    assert r["stdout"].split("\n")[:3] == ["far", "mine", "far again"], r


def test_an_empty_list_allows_nothing(world, brig):
    world.forget()
    r = brig.run("--net", "allow", "--", "curl", "-sSm", "3", "http://allowed.test/")
    assert r["exit"] != 0 and [d["target"] for d in r["denied"]] == ["allowed.test"], r
    assert world.log() == [], "something left"


def test_none_sends_nothing(world, brig):
    """40 attempts, and not one packet on the wire."""
    def packets():
        out = subprocess.run(["ip", "-j", "-s", "link", "show", "v0"], stdout=subprocess.PIPE, check=True).stdout
        return json.loads(out)[0]["stats64"]["tx"]["packets"]

    world.forget()
    before = packets()
    r = brig.run("--", "bash", "-c", """
        for a in 192.0.2.10 192.0.2.53 203.0.113.1 198.18.0.1 169.254.169.254 10.0.0.1 255.255.255.255 224.0.0.1; do
            for p in 22 53 80 443; do (exec 3<>/dev/tcp/$a/$p) 2>/dev/null && echo OPEN $a $p; done
            echo x > /dev/udp/$a/53 && echo SENT $a
        done 2>/dev/null
        for n in allowed.test denied.test localhost.allowed.test example.com; do
            getent hosts $n && echo NAME $n
            curl -sm 1 https://$n/ && echo GOT $n
        done; true""")
    assert r["exit"] == 0 and r["stdout"] == "", r
    assert world.log() == [] and packets() == before


def egress_processes():
    """Those of the lab: they run in its host's network, which is the calling process's."""
    found, here = [], os.readlink("/proc/self/ns/net")
    for pid in os.listdir("/proc"):
        try:
            with open("/proc/%s/comm" % pid) as f:
                if f.read().strip() == "brig-egress" and int(open("/proc/%s/stat" % pid).read().split()[3]) > 0 \
                        and os.readlink("/proc/%s/ns/net" % pid) == here:
                    found.append(int(pid))
        except (OSError, ValueError):
            continue
    return found


@pytest.mark.parametrize("how", ["end", "timeout", "kill"])
def test_the_process_ends_with_the_run(world, brig, how):
    before = set(egress_processes())
    text = "getent hosts denied.test; sleep %s" % (0 if how == "end" else 30)
    p = brig.popen("run", "--timeout", "1" if how == "timeout" else "30", "--allow", "allowed.test", "--", "sh", "-c", text)
    if how == "kill":
        end = time.monotonic() + 5
        while not set(egress_processes()) - before and time.monotonic() < end:
            time.sleep(0.02)
        assert set(egress_processes()) - before, "it was never started"
        p.send_signal(signal.SIGKILL)
    p.communicate(timeout=30)
    end = time.monotonic() + 5
    while set(egress_processes()) - before and time.monotonic() < end:
        time.sleep(0.05)
    assert set(egress_processes()) <= before


def test_no_connection_without_its_line(world, brig):
    """An audit log that cannot be written means no network, said in the result."""
    state = os.path.join(brig.home, ".local")
    with open(state, "w"):
        pass
    world.forget()
    r = brig.run("--allow", "allowed.test:80", "--", "curl", "-sSm", "6", "http://allowed.test/")
    assert r["exit"] != 0 and world.log() == [], r
    assert any("audit" in d["rule"] for d in r["denied"]), r["denied"]
