# SPDX-License-Identifier: Apache-2.0
"""The allow-list with the other backends, in the lab's world."""
import json
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest
from conftest import ROOT, lab, need
from test_brig import Caller, egress_processes


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
