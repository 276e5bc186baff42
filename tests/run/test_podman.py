# SPDX-License-Identifier: Apache-2.0
"""The docker backend on Podman's Docker-compatible socket: a service of the tests' own, with its
own storage, and runc (crun refuses machines with both versions of control groups)."""
import json
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

import docker_engine
from docker_engine import unmount_below
from conftest import BRIG, IS_ROOT, make_who, survivors, wait_until

SEARCH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Podman:
    def __init__(self):
        self.dir = Path(tempfile.mkdtemp(prefix="brig-pm-", dir="/tmp"))
        self.dir.chmod(0o755)
        self.socket = self.dir / "podman.sock"
        self.env = {"PATH": SEARCH, "HOME": str(self.dir), "XDG_CONFIG_HOME": str(self.dir)}
        self.words = ["podman", "--root", self.dir / "root", "--runroot", self.dir / "run", "--tmpdir",
                      self.dir / "tmp", "--storage-driver", "vfs", "--cgroup-manager", "cgroupfs",
                      "--events-backend", "file", "--runtime", shutil.which("runc", path=SEARCH)]
        self.log = open(self.dir / "log", "wb")
        self.proc = None

    def podman(self, *args, input=None):
        return subprocess.run([*self.words, *args], env=self.env, input=input, capture_output=True, timeout=60)

    def start(self):
        p = self.podman("import", "-", docker_engine.IMAGE, input=docker_engine.image_tar())
        if p.returncode:
            return "podman does not work here: %s" % p.stderr.decode()[-300:]
        self.proc = subprocess.Popen([*self.words, "system", "service", "-t", "0", "unix://%s" % self.socket],
                                     env=self.env, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log,
                                     start_new_session=True, cwd=self.dir)  # conmon leaves "oom" where it is
        if not wait_until(self.socket.exists, 60):
            return "podman's service does not start here: " + (self.dir / "log").read_text()[-300:]
        self.socket.chmod(0o666)
        # a bare container, without brig: is it Podman itself that cannot run here?
        p = self.podman("run", "--rm", "--network", "none", "--ulimit", "nofile=1024:1024", "--ulimit",
                        "nproc=1024:1024", docker_engine.IMAGE, "true")
        return "podman runs no container here: %s" % p.stderr.decode()[-300:] if p.returncode else None

    def containers(self):
        return self.podman("ps", "-aq").stdout.decode().split()

    def stop(self):
        if self.proc and self.proc.poll() is None:
            self.podman("rm", "-af", "-t", "0")
            self.proc.terminate()
            try:
                self.proc.wait(20)
            except subprocess.TimeoutExpired:
                self.proc.kill()
                self.proc.wait()
        unmount_below(self.dir)
        self.log.close()
        shutil.rmtree(self.dir, ignore_errors=True)


@pytest.fixture(scope="module")
def podman():
    if not IS_ROOT:
        pytest.skip("not root: Podman's service is started as root")
    for program in ("podman", "runc", "busybox"):
        if not shutil.which(program, path=SEARCH):
            pytest.skip("%s is not installed on this host" % program)
    e = Podman()
    why = e.start()
    if why:
        e.stop()
        pytest.skip(why)
    yield e
    e.stop()


@pytest.fixture
def pm(podman, base, account):
    w = make_who("user", base, account)
    w.as_user = lambda: {}  # root's brig, an ordinary user's workspace

    def run(*cmd, opts=()):
        p = subprocess.run([BRIG, "run", "--json", "--backend", "docker", "--docker-socket", podman.socket,
                            "--image", docker_engine.IMAGE, "--workspace", w.ws, *opts, "--", *cmd],
                           capture_output=True, cwd=w.ws, env=w.env, stdin=subprocess.DEVNULL)
        return p.returncode, json.loads(p.stdout)
    run.who, run.engine = w, podman
    yield run
    assert wait_until(lambda: not podman.containers(), 10), "a container stayed"


def groups_are_v1():
    return not os.path.exists("/sys/fs/cgroup/cgroup.controllers")


def test_one_call(pm):
    code, j = pm("sh", "-c", "id -u; echo hi > made; cat /proc/self/status; exit 3")
    assert code == 3 and j["ran"] and j["backend"] == "docker" and j["error"] is None, j
    assert j["stdout"].split()[0] == str(pm.who.uid)
    assert "CapEff:\t%s\n" % ("0" * 16) in j["stdout"] and "Seccomp:\t2\n" in j["stdout"]
    assert (pm.who.ws / "made").stat().st_uid == pm.who.uid
    assert j["evidence"]["source"] == "kernel"
    for layer in ("mount", "pid", "net", "ipc", "uts", "caps", "no_new_privs", "seccomp", "memory", "pids", "cpu"):
        assert layer in j["enforced"], j


def test_what_it_has_not_got_is_missing(pm):
    """On version 1 control groups Podman gives no cgroup namespace."""
    code, j = pm("cat", "/proc/self/cgroup")
    assert code == 0 and {"user", "landlock"} <= set(j["missing"])
    own = os.readlink("/proc/self/ns/cgroup").split("[")[1][:-1]
    if groups_are_v1():
        assert j["evidence"]["namespaces"]["cgroup"] == own
        assert "cgroup" in j["missing"] and "cgroup" not in j["enforced"]
        code, j = pm("touch", "ran", opts=("--require", "cgroup,pid"))
        assert code == 125 and j["error"]["code"] == "REQUIRE_UNMET" and "cgroup" in j["error"]["message"]
        assert not (pm.who.ws / "ran").exists()
    else:
        assert j["evidence"]["namespaces"]["cgroup"] != own and "cgroup" in j["enforced"]


def test_containment(pm):
    code, j = pm("sh", "-c", "mount -t tmpfs none /tmp; chmod 4755 /tmp; nc 127.0.0.1 1; touch /var/x; echo end")
    assert j["stdout"] == "end\n" and j["stderr"].count("\n") == 4, j["stderr"]
    assert "Read-only file system" in j["stderr"]


def test_the_end(pm):
    m = "7%d.25" % (time.monotonic_ns() % 89999 + 10000)
    code, j = pm("sh", "-c", "(trap '' TERM; sleep %s &); sleep %s" % (m, m), opts=("--timeout", "1"))
    assert code == 124 and j["timed_out"] and wait_until(lambda: not survivors("sleep\0" + m), 5)


def test_limits(pm):
    code, j = pm("sh", "-c", "x=0123456789; while :; do x=$x$x; done", opts=("--memory", "64M"))
    assert code != 0 and "memory" in j["enforced"], j


def test_another_runtime_is_refused(pm):
    code, j = pm("touch", "ran", opts=("--runtime", "runsc"))
    assert code == 125 and not j["ran"] and not (pm.who.ws / "ran").exists()


def test_image_that_is_not_there(pm):
    p = subprocess.run([BRIG, "run", "--backend", "docker", "--docker-socket", pm.engine.socket, "--image",
                        "nothing-of-this-name:1", "--workspace", pm.who.ws, "--", "true"], capture_output=True,
                       cwd=pm.who.ws, env=pm.who.env)
    assert p.returncode == 125 and b"SETUP_FAILED" in p.stderr
