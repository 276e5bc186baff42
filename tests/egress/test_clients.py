# SPDX-License-Identifier: Apache-2.0
"""Everybody's clients against real servers, through the whole of `brig run --allow`,
without a proxy variable, as root and as an ordinary user."""
import json
import os
import shutil
import subprocess
import textwrap

import pytest
from conftest import BUILD, need
from test_brig import ACCOUNT
from whole import Whole, caller, services, sshd, user  # noqa: F401 (fixtures)

GET = "GET / HTTP/1.1\\r\\nHost: allowed.test\\r\\nConnection: close\\r\\n\\r\\n"

URLLIB = """
import ssl, sys, urllib.request
c = ssl.create_default_context(cafile=sys.argv[1])
print(urllib.request.urlopen("https://allowed.test/", context=c, timeout=10).read().decode())
"""
RAW = """
import socket
s = socket.create_connection(("allowed.test", 80), 10)
s.sendall(b"GET / HTTP/1.0\\r\\nHost: allowed.test\\r\\n\\r\\n")
print(s.makefile("rb").read().split(b"\\r\\n\\r\\n", 1)[1].decode())
"""
FETCH = "fetch('https://allowed.test/').then(r => r.text()).then(console.log)"
NODE = "require('%s').get('%s://allowed.test/', r => r.pipe(process.stdout))"

# name: (ports, command; {ca} and {tool} are put in, does it use TLS)
CLIENTS = {
    "curl": ("443", ["curl", "-sS", "--cacert", "{ca}", "https://allowed.test/"]),
    "curl-http": ("80", ["curl", "-sS", "http://allowed.test/"]),
    "curl-6": ("443", ["curl", "-6", "-sS", "--cacert", "{ca}", "https://allowed.test/"]),
    "wget": ("443", ["wget", "-qO-", "--tries=1", "--ca-certificate={ca}",
                     "https://allowed.test/"]),
    "urllib": ("443", ["/usr/bin/python3", "-c", URLLIB, "{ca}"]),
    "raw-socket": ("80", ["/usr/bin/python3", "-c", RAW]),
    "node-fetch": ("443", ["node", "-e", FETCH]),
    "node-http": ("80", ["node", "-e", NODE % ("http", "http")]),
    "node-https": ("443", ["node", "-e", NODE % ("https", "https")]),
    "bash": ("80", ["bash", "-c", "exec 3<>/dev/tcp/allowed.test/80; printf '%s' >&3; "
                    "sed '1,/^\\r$/d' <&3" % GET]),
    "openssl": ("443", ["bash", "-c", "printf '%s' | openssl s_client -quiet -CAfile {ca} "
                        "-verify_return_error -servername allowed.test -connect "
                        "allowed.test:443 2>/dev/null | sed '1,/^\\r$/d'" % GET]),
    "static-c": ("80", ["bash", "-c", "{tool} allowed.test 80 | sed '1,/^\\r$/d'"]),
}


@pytest.mark.parametrize("client", CLIENTS)
def test_client(world, caller, client):
    ports, args = CLIENTS[client]
    need(args[0])
    tool = str(BUILD / "tests" / "ownresolver")
    config = os.path.join(caller.dir, "conf.yaml")
    with open(config, "w") as f:
        f.write("sandbox: {env: {set: {NODE_EXTRA_CA_CERTS: %s}}, filesystem: {read: [%s, %s]}}\n"
                % (world.ca, world.ca, tool))
    world.forget()
    args = [a.replace("{ca}", world.ca).replace("{tool}", tool) for a in args]
    r = caller.run("--config", config, "--allow", "allowed.test:" + ports, "--", *args)
    if client == "node-fetch" and "fetch is not defined" in r["stderr"]:
        pytest.skip("this node has no fetch")
    assert r["exit"] == 0, r
    assert json.loads(r["stdout"])["hello"] == "allowed.test", r
    assert r["denied"] == []
    seen = "https" if ports == "443" else "http"
    assert [x[2] for x in world.log() if x[0] == seen] == ["allowed.test"]
    line, = [x for x in caller.audit() if x["name"] == "allowed.test"]
    assert line["port"] == int(ports) and line["down"] > 100, line
    # a client that ends with its connection open is told as a reset
    assert line["reason"] == ("tls" if ports == "443" else "http"), line


def test_no_proxy_variables(caller):
    """None of the above was led by the environment."""
    r = caller.run("--allow", "allowed.test", "--", "env")
    assert r["exit"] == 0 and "PATH=" in r["stdout"]
    assert [x for x in r["stdout"].lower().split("\n") if "proxy" in x.split("=")[0]] == []


def test_git(world, services, caller):
    """Clone, commit, push, over HTTPS; the server's repository has the commit."""
    need("git")
    top = os.path.join(world.dir, "git")
    bare = os.path.join(top, "repo.git")
    shutil.rmtree(top, ignore_errors=True)
    env = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1",
           "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@a", "GIT_COMMITTER_NAME": "a",
           "GIT_COMMITTER_EMAIL": "a@a"}

    def git(*args, cwd=top):
        return subprocess.run(["git", *args], cwd=cwd, env=env, check=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE).stdout.decode()
    os.makedirs(top)
    git("init", "-q", "--bare", "-b", "main", bare)
    git("config", "http.receivepack", "true", cwd=bare)
    git("init", "-q", "-b", "main", "seed")
    with open(os.path.join(top, "seed", "file"), "wb") as f:
        f.write(os.urandom(300000))
    git("add", "file", cwd=top + "/seed")
    git("commit", "-qm", "first", cwd=top + "/seed")
    git("push", "-q", bare, "main", cwd=top + "/seed")
    r = caller.run("--ro", world.ca, "--allow", "allowed.test:944", "--", "sh", "-ec",
                   textwrap.dedent("""
        export GIT_SSL_CAINFO=%s GIT_TERMINAL_PROMPT=0
        git clone -q https://allowed.test:944/repo.git copy
        cd copy && ls && head -c 300000 /dev/urandom > more && git add more
        git -c user.name=b -c user.email=b@b commit -qm second
        git push -q origin main
        ! timeout 5 git ls-remote https://denied.test:944/repo.git""" % world.ca))
    assert (r["exit"], r["stdout"]) == (0, "file\n"), r["stderr"]
    assert git("log", "--format=%s", "main", cwd=bare).split() == ["second", "first"]
    assert [d["target"] for d in r["denied"]] == ["denied.test"]


def test_ssh_and_scp(world, sshd, caller):
    """A command, and files in both directions, from a port of 1024 or above."""
    need("ssh", "scp")
    caller.file("key", sshd["key"], 0o600)
    caller.file("known", sshd["known"])
    drop = os.path.join(world.dir, "drop-" + caller.who)
    os.mkdir(drop)
    os.chown(drop, caller.test_uid, caller.test_uid)
    r = caller.run("--allow", "allowed.test:2222", "--", "bash", "-ec", textwrap.dedent("""
        o="-F /dev/null -o BatchMode=yes -o UserKnownHostsFile=known -o ConnectTimeout=5 -i key"
        o="$o -o User=%s"
        ssh $o -p 2222 allowed.test 'echo far $(id -un)'
        head -c 3000000 /dev/urandom > one
        scp -q $o -P 2222 one allowed.test:%s/two
        scp -q $o -P 2222 allowed.test:%s/two three
        cmp one three && echo same""" % (ACCOUNT, drop, drop)))
    assert (r["exit"], r["stdout"]) == (0, "far %s\nsame\n" % ACCOUNT), r["stderr"]
    assert os.path.getsize(os.path.join(drop, "two")) == 3000000
    lines = [x for x in caller.audit() if x["port"] == 2222]
    assert len(lines) == 3 and {x["reason"] for x in lines} == {"opaque"}, lines


def test_database(world, services, caller):
    """An opaque protocol in which the server speaks second."""
    code = textwrap.dedent("""
        import socket, struct
        s = socket.create_connection(("allowed.test", 5432), 5)
        body = struct.pack("!I", 196608) + b"user\\0me\\0\\0"
        s.sendall(struct.pack("!I", len(body) + 4) + body)
        f = s.makefile("rb")
        assert f.read(9) == b"R\\0\\0\\0\\x08\\0\\0\\0\\0", "no answer"
        assert f.read(6) == b"Z\\0\\0\\0\\5I"
        for n in (10, 100000):
            s.sendall(b"Q" + struct.pack("!I", n + 4) + b"x" * n)
            assert f.read(1) == b"D"
            print(f.read(struct.unpack("!I", f.read(4))[0] - 4).decode())
            f.read(6)
        s.sendall(b"X\\0\\0\\0\\4")""")
    r = caller.run("--allow", "allowed.test:5432", "--", "/usr/bin/python3", "-c", code)
    assert r["exit"] == 0 and r["stdout"] == "10\n100000\n", r
    line, = [x for x in caller.audit() if x["port"] == 5432]
    assert line["reason"] == "opaque", line


GO = """package main

import (
	"fmt"
	"io"
	"net"
	"os"
)

func main() {
	c, err := net.Dial("tcp", os.Args[1])
	if err != nil {
		fmt.Println(err)
		os.Exit(3)
	}
	fmt.Fprintf(c, "GET / HTTP/1.0\\r\\nHost: allowed.test\\r\\n\\r\\n")
	b, _ := io.ReadAll(c)
	os.Stdout.Write(b)
}
"""


@pytest.fixture(scope="session")
def go_client(tmp_path_factory):
    """A static program with Go's own resolver; the toolchain is not required."""
    go = shutil.which("go") or "/usr/local/go/bin/go"
    if not os.path.exists(go):
        pytest.skip("no Go toolchain on this host: ownresolver.c is the static client")
    d = tmp_path_factory.mktemp("go")
    (d / "main.go").write_text(GO)
    p = subprocess.run([go, "build", "-o", str(d / "client"), "main.go"], cwd=d,
                       env=dict(os.environ, CGO_ENABLED="0", GOFLAGS="-mod=mod", GO111MODULE="off"),
                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert p.returncode == 0, p.stdout
    return str(d / "client")


def test_go(world, caller, go_client):
    exe = os.path.join(caller.ws, "client")
    shutil.copy(go_client, exe)
    os.chmod(exe, 0o755)
    r = caller.run("--allow", "allowed.test:80", "--", "./client", "allowed.test:80")
    assert r["exit"] == 0 and '"hello": "allowed.test"' in r["stdout"], r
    r = caller.run("--allow", "allowed.test:80", "--", "./client", "denied.test:80")
    assert r["exit"] == 3 and "no such host" in r["stdout"] and r["took"] < 5, r
    assert [d["target"] for d in r["denied"]] == ["denied.test"]


# --- nftables ---------------------------------------------------------------------

NETLINK, NETFILTER, EPROTONOSUPPORT = 16, 12, 93


def test_without_nftables(world, user):
    """Ports below 1024 need none; a list with others cannot be kept, and says so."""
    if os.uname().machine != "x86_64":
        pytest.skip("the filter of this test is for x86_64")
    user.refuse = (NETLINK, NETFILTER, EPROTONOSUPPORT)
    r = user.run("--ro", world.ca, "--allow", "allowed.test:80,443,22", "--", "bash", "-c", """
        curl -sS --cacert %s https://allowed.test/ >/dev/null && echo tls
        curl -sS http://allowed.test/ >/dev/null && echo http
        exec 3<>/dev/tcp/allowed.test/22; head -1 <&3""" % world.ca)
    assert r["stdout"].split() == ["tls", "http", "220", "welcome"], r
    p = user.popen("run", "--allow", "allowed.test:8080", "--", "true")
    out, err = p.communicate(timeout=20)
    assert p.returncode == 125 and b"nftables" in err and b"1024" in err, err
    user.refuse = None
    r = user.run("--allow", "allowed.test:8080,7000", "--", "bash", "-c", """
        curl -sS http://allowed.test:8080/ >/dev/null && echo http
        exec 3<>/dev/tcp/allowed.test/7000; head -1 <&3""")
    assert r["stdout"].split() == ["http", "220", "welcome"], r


# --- speed ------------------------------------------------------------------------

def test_not_paced(world, caller, sandbox):
    """Whatever the host uses for the network, what stays on the machine is not paced:
    the client's socket by its route, brig-egress's by its own wish."""
    code = ("import socket; s = socket.create_connection(('allowed.test', 22), 5); "
            "print(s.getsockopt(6, 13, 16).rstrip(b'\\0').decode())")
    r = caller.run("--allow", "allowed.test:22", "--", "/usr/bin/python3", "-c", code)
    assert (r["exit"], r["stdout"]) == (0, "reno\n"), r["stderr"]
    s = sandbox(["allowed.test:22"], connect=3128)
    with s.socket() as c:
        c.connect(("127.0.0.1", 3128))
        c.sendall(b"CONNECT allowed.test:22 HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b" 200 " in c.recv(100)
        out = s.run("ss", "-tinH", "sport = :3128").out.decode()
    assert " reno " in out, out


# --- size -------------------------------------------------------------------------

def test_big_transfers(world, user):
    """100 MB down and up through real curl, to the last byte."""
    need("curl")
    r = user.run("--allow", "allowed.test:80", "--", "bash", "-ec", """
        curl -sS http://allowed.test/big/100000000 | wc -c
        head -c 30000000 /dev/zero | curl -sS -T - http://allowed.test/ |
            grep -o '"got": [0-9]*'""")
    assert r["exit"] == 0 and r["stdout"].split() == ["100000000", '"got":', "30000000"], r
