# SPDX-License-Identifier: Apache-2.0
"""What README.md and docs/integration.md show: it works as it stands there."""
import json
import re
import shutil
import subprocess

import pytest

from conftest import BRIG, REPO, need

README = (REPO / "README.md").read_text()
INTEGRATION = (REPO / "docs/integration.md").read_text()


def blocks(text, language):
    return re.findall(r"^```%s\n(.*?)^```$" % language, text, re.M | re.S)


def python(who, code):
    """As a program of this user's that finds brig on PATH; what it printed as JSON."""
    p = who.popen(["/usr/bin/python3", "-c", code], env={"PATH": "%s:%s" % (BRIG.parent, who.env["PATH"])},
                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    out, err = p.communicate(timeout=60)
    assert p.returncode == 0, err.decode()
    return json.loads(out)


def test_what_it_looks_like(user):
    """The command and the object in README; but for what depends on the machine."""
    need("unshare")
    script = re.search(r"\$ brig run --json -- sh -c '(.*?)'\n", README, re.S)[1]
    shown = json.loads(blocks(README, "json")[0])
    got = user.brig("run", "--json", "--", "sh", "-c", script).json
    for d in got["denied"]:
        assert d.pop("fix")
    for key in set(shown) - {"enforced", "missing", "evidence"}:
        assert got[key] == shown[key], key
    assert set(shown["evidence"]) <= set(got["evidence"])
    assert set(shown["enforced"]) <= set(got["enforced"]) and set(got["missing"]) <= set(shown["missing"])
    assert not (user.ws / ".envrc").exists()


def test_defaults(user):
    got = {x["name"]: x["value"] for x in json.loads(user.brig("explain", "--json").out)["settings"]}
    told = re.search(r"no network, (\d+) seconds, (\w+) of memory, ([\d.]+) processors and (\d+) processes", README)
    assert told.groups() == (got["timeout"], got["memory"], got["cpus"], got["pids"]) and got["net"] == "none"


@pytest.mark.parametrize("text", [README, INTEGRATION], ids=["README", "integration"])
def test_tool_call(user, text):
    code = next(x for x in blocks(text, "python") if "def tool_call" in x)
    ask = "\nprint(json.dumps(tool_call(%r, %r)))"
    r = python(user, code + ask % (["sh", "-c", "echo out; exit 3"], str(user.ws)))
    assert (r["ran"], r["exit"], r["stdout"]) == (True, 3, "out\n")


def test_an_object_for_a_wrong_command_line(user):
    """What both say: an object whenever brig comes to its end."""
    for opts, code in ((["--memroy", "1G"], 2), (["--memory", "12X"], 2), (["--hold"], 125), (["--env-fd", "77"], 125)):
        r = user.brig("run", *opts, "--json", "--", "true")
        assert r.code == code and r.json["ran"] is False and r.json["error"]["message"], (opts, r)
        assert (r.json["error"]["phase"] == "options") == (opts[0] != "--env-fd"), r.json["error"]


def test_status_fd(user):
    code = next(x for x in blocks(INTEGRATION, "python") if "--status-fd" in x)
    r = python(user, "workspace = %r\n" % str(user.ws) + code.replace('"make"', '"sh", "-c", "exit 4"') +
               "\nprint(json.dumps([result, p.returncode]))")
    assert r[0]["exit"] == r[1] == 4


def test_deciding(user):
    """Every way that a run can end is one of its branches."""
    branches = next(x for x in blocks(INTEGRATION, "python") if "timed_out" in x)
    code = re.sub(r":( +)#.*", r": print(1)", branches.replace('r["exit"]', ""))
    code = "import json, sys\nr = json.loads(sys.argv[1])\n" + re.sub(
        r"print\(1\)", lambda m, n=iter(("refused", "time", "oom", "signal", "exit")): "print(%r)" % next(n), code)
    ends = {"exit": ["sh", "-c", "exit 9"], "signal": ["sh", "-c", "kill -9 $$"], "refused": ["no-such-program"],
            "time": ["sleep", "9"]}
    for want, cmd in ends.items():
        js = user.run(*cmd, opts=["--timeout", "0.5"]).raw
        p = subprocess.run(["/usr/bin/python3", "-c", code, js], capture_output=True, text=True)
        assert p.stdout.strip() == want, (want, p, code)


def test_libbrig(user):
    if not shutil.which("gcc") or not (BRIG.parent / "libbrig.a").exists():
        pytest.skip("gcc or libbrig.a is not here")
    src, exe = user.write(user.base / "example.c", blocks(INTEGRATION, "c")[0]), user.base / "example"
    link = re.search(r"Link with `(.*?)`", INTEGRATION)[1].split()
    p = subprocess.run(["gcc", "-Wall", "-Werror", "-I", REPO / "include", src, "-o", exe, "-L", BRIG.parent, *link],
                       capture_output=True, text=True)
    assert p.returncode == 0, p.stderr
    assert json.loads(user.host(exe).stdout)["stdout"] == "sandbox\n"


def test_make_run(user):
    """Any brig command line, and nothing but its output: a program may read it."""
    if not (BRIG.parent / "build.ninja").exists() or not shutil.which("dpkg-query"):
        pytest.skip("this brig was not built here by make")
    user.write(user.base / "bin/ninja", "#!/bin/sh\necho ninja: no work to do.\n", 0o755)
    p = user.popen(["make", "-C", REPO, "--no-print-directory", "run", "BUILD=%s" % BRIG.parent, "ARGS=explain --json"],
                   env={"PATH": "%s/bin:%s" % (user.base, user.env["PATH"])}, stdin=subprocess.DEVNULL,
                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    out, err = p.communicate(timeout=60)
    assert p.returncode == 0 and b"no work to do" in err, err
    assert json.loads(out)["v"] == 1
