# SPDX-License-Identifier: Apache-2.0
"""brig inside an ordinary container: Docker's default profile, an ordinary user, no added
capabilities.  There are no namespaces to be had there; the landlock backend needs none."""
import json

import pytest

from conftest import BRIG
from docker_engine import IMAGE


@pytest.fixture
def inside(engine):
    def run(*cmd, user="1000:1000", opts=()):
        # a directory of the user's to work in: the image's own belong to root
        return engine.docker("run", "--rm", "--network", "none", "-u", user, "-v", "%s:/opt/brig:ro" % BRIG,
                             "--tmpfs", "/work:uid=1000,mode=755,exec", "-w", "/work", "-e", "HOME=/home",
                             *opts, IMAGE, *cmd, check=False)
    return run


def landlock(inside, text, *opts, **kw):
    p = inside("/opt/brig", "run", "--backend", "landlock", "--json", *opts, "--", "sh", "-c", text, **kw)
    return p.returncode, json.loads(p.stdout)


def test_landlock_works(inside):
    code, j = landlock(inside, "echo hi > f && cat f; head -c 4 /opt/brig; echo x > /var/x; cat /proc/1/environ; "
                               "nc 127.0.0.1 1; id -u; grep Cap[PE] /proc/self/status; exit 4",
                       opts=("--tmpfs", "/var:mode=777"))
    assert code == 4 and j["exit"] == 4 and j["error"] is None and j["backend"] == "landlock"
    assert j["stdout"].split() == ["hi", "1000", "CapPrm:", "0" * 16, "CapEff:", "0" * 16], j["stdout"]
    assert {"landlock", "seccomp", "net", "caps", "no_new_privs"} <= set(j["enforced"])
    # the container's own filter is one, ours is on top of it
    assert j["evidence"]["seccomp_filters"] >= 2
    for place in ("/var/x", "/proc/1/environ", "/opt/brig"):
        line = [x for x in j["stderr"].splitlines() if place in x]
        assert line and "Permission denied" in line[0], j["stderr"]


def test_what_is_missing_is_said(inside):
    code, j = landlock(inside, "true")
    assert code == 0
    assert {"user", "mount", "pid", "ipc", "uts", "cgroup"} <= set(j["missing"])
    # control groups are read-only in there: a limit by default is missing, one that is asked for refused;
    # the one on processes needs no group
    assert {"memory", "cpu"} <= set(j["missing"])
    assert "pids" in j["enforced"] and j["evidence"]["rlimit_nproc"] > 0
    code, j = landlock(inside, "touch ran", "--memory", "100M")
    assert code == 125 and j["error"]["code"] == "LIMIT_UNENFORCEABLE" and not j["ran"] and j["error"]["fix"]
    code, j = landlock(inside, "touch ran", "--require", "pid,landlock")
    assert code == 125 and j["error"]["code"] == "REQUIRE_UNMET" and not j["ran"]


def test_refused_calls_are_listed(inside):
    """The container's filter answers first for what it refuses itself; ours for the rest."""
    code, j = landlock(inside, "touch f && chmod 4755 f; ls -l f")
    assert "rws" not in j["stdout"] and [d["target"] for d in j["denied"]] == ["chmod"], j


def test_the_whole_tree_ends(inside):
    code, j = landlock(inside, "(trap '' TERM; sleep 300 &) ; sleep 300", "--timeout", "0.5")
    assert code == 124 and j["timed_out"]


def test_native_names_the_cause(inside):
    p = inside("/opt/brig", "run", "--", "true")
    err = p.stderr.decode()
    assert p.returncode == 125 and err.startswith("brig: USERNS_DENIED: "), err
    assert "filter" in err and "container" in err and "--backend landlock" in err
    assert "5.13" not in err, "the kernel is not too old, and must not be blamed"


def test_doctor_recommends_landlock(inside):
    p = inside("/opt/brig", "doctor")
    out = p.stdout.decode()
    assert p.returncode == 1
    assert "system-call filter around brig hides clone3" in out
    assert "--backend landlock works here and enforces: net caps no_new_privs seccomp landlock" in out, out
    assert "user mount pid ipc uts cgroup" in out.split("works here")[1]
    j = json.loads(inside("/opt/brig", "doctor", "--json").stdout)
    assert j["ok"] is False and j["recommended"] == "landlock"
    assert j["backends"]["landlock"]["ok"] and not j["backends"]["native"]["ok"]
    assert j["backends"]["native"]["error"]["code"] == "USERNS_DENIED"
    # required by name what landlock cannot give: nothing is recommended
    assert json.loads(inside("/opt/brig", "doctor", "--json", "--require", "pid").stdout)["recommended"] is None
    assert inside("/opt/brig", "doctor", "--backend", "landlock").returncode == 0


def test_no_place_for_a_private_directory(inside):
    p = inside("/opt/brig", "run", "--backend", "landlock", "--", "true", opts=("-v", "/usr/share:/tmp:ro"))
    assert p.returncode == 125 and b"XDG_RUNTIME_DIR" in p.stderr, p.stderr


def test_root_of_the_container(inside):
    """Its root without a user namespace is the machine's: never that."""
    p = inside("/opt/brig", "run", "--backend", "landlock", "--json", "--", "id", "-u", user="0:0")
    j = json.loads(p.stdout)
    assert p.returncode == 0 and j["stdout"] == "1000\n"  # the owner of the workspace
    p = inside("/opt/brig", "run", "--backend", "landlock", "--json", "--workspace", "/opt2", "--", "id", "-u",
               user="0:0", opts=("--tmpfs", "/opt2:uid=0"))
    assert p.returncode == 125 and json.loads(p.stdout)["error"]["code"] == "BAD_WORKSPACE"
