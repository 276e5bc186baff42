# SPDX-License-Identifier: Apache-2.0
"""brig explain: the policy and the plan, and nothing else happens."""
import json
import os

import pytest

from conftest import ESC

KEYS = ["v", "backend", "fallback", "image", "runtime", "read_only", "drop_caps", "add_caps", "seccomp",
        "settings", "require", "workspace", "identity", "network", "limits", "env", "env_secrets",
        "toolchains", "masked", "protect", "plan", "backend_plan", "command"]


def explain(who, *args, **kw):
    r = who.brig("explain", "--json", "--workspace", who.ws, *args, **kw)
    assert r.code == 0 and r.err == "", r
    return json.loads(r.out)


def test_json_shape(who):
    j = explain(who, "--", "make", "all")
    assert list(j) == KEYS
    assert (j["v"], j["backend"], j["command"]) == (1, "native", ["make", "all"])
    assert j["workspace"] == {"source": str(who.ws), "path": str(who.ws), "writable": True, "cwd": str(who.ws)}
    assert j["network"] == {"mode": "none", "allow": [], "loopback": True}
    assert j["limits"] == {"timeout_ms": 60000, "memory": 1 << 30, "cpu_milli": 1000, "pids": 256,
                           "tmp_size": 256 << 20, "file_size": 1 << 30, "max_output": 1 << 20}
    assert j["identity"]["uid_outside"] != 0 and j["identity"]["uid_inside"] != 0
    assert j["identity"]["id_mapped_mounts"] is who.is_root
    for op in j["plan"]:
        assert op["op"] in ("dir", "symlink", "file", "bind", "tmpfs", "proc", "devpts", "mask", "read-only", "pin")
        assert op["path"].startswith("/")


def test_origins(who):
    j = explain(who, "--memory", "64M", "--timeout", "5")
    s = {x["name"]: x for x in j["settings"]}
    assert (s["memory"]["value"], s["memory"]["origin"]) == ("64M", "command line")
    assert (s["pids"]["value"], s["pids"]["origin"]) == ("256", "built-in")
    assert s["memory"]["key"] == "limits.memory"
    assert j["limits"]["memory"] == 64 << 20 and j["limits"]["timeout_ms"] == 5000


def test_plan_shows_binds(who):
    d = who.mkdir(who.base / "d")
    j = explain(who, "--ro", "%s:/data" % d, "--mask", "/usr/share/doc", "--at", "/w", "--net", "host")
    binds = {x["path"]: x for x in j["plan"] if x["op"] == "bind"}
    assert binds["/data"] == {"op": "bind", "path": "/data", "source": str(d), "writable": False}
    assert binds["/w"]["writable"] is True and binds["/w"]["source"] == str(who.ws)
    assert binds["/usr"]["writable"] is False
    assert {"op": "mask", "path": "/usr/share/doc"} in j["plan"]
    assert j["network"]["mode"] == "host" and "net" not in j["require"]


def test_every_writable_bind_is_known(who):
    j = explain(who)
    writable = {x["path"] for x in j["plan"] if x["op"] == "bind" and x["writable"]}
    assert {x for x in writable if not x.startswith("/dev/")} == {str(who.ws)}


def test_secrets_are_not_shown(who):
    rd, wr = os.pipe()
    os.write(wr, b"FROM_FD=topsecret3\0")
    os.close(wr)
    for form in ([], ["--json"], ["--for-model"]):
        if form == []:
            args = ["--env-fd", str(rd)]
        else:
            args = []
        r = who.brig("explain", *form, "--env", "TOKEN=topsecret1", "--env", "PASSED", *args,
                     env={"PASSED": "topsecret2", "OTHER": "topsecret4"}, pass_fds=(rd,))
        assert r.code == 0 and "topsecret" not in r.out + r.err
    os.close(rd)
    j = explain(who, "--env", "TOKEN=topsecret1")
    assert "TOKEN" in j["env"] and all("=" not in x for x in j["env"])


def test_runs_and_makes_nothing(who):
    for form in ([], ["--json"], ["--for-model"]):
        r = who.brig("explain", *form, "--", *who.ran_marker())
        assert r.code == 0 and not who.marker.exists()
        assert "the-command-ran\n" not in r.out
    assert os.listdir(who.ws) == []


def test_text(who):
    r = who.brig("explain", "--memory", "64M", "--env", "A=b")
    assert r.code == 0 and ESC not in r.out and r.out.endswith("\n")
    lines = r.out.splitlines()
    memory = next(x for x in lines if x.split()[:1] == ["limits.memory"])
    assert memory.split() == ["limits.memory", "64M", "command", "line"]
    assert any(x.split() == ["limits.pids", "256", "built-in"] for x in lines)
    assert any("Must hold" in x for x in lines) and str(who.ws) in r.out


def test_text_says_where_the_command_works(who):
    who.mkdir(who.ws / "sub")
    text = who.brig("explain", "--cwd", "sub").out
    assert "Workspace\n  %s, read-write\n  working directory %s/sub\n" % (who.ws, who.ws) in text, text
    text = who.brig("explain", "--cwd", "sub", "--at", "/w", "--access", "ro").out
    assert "Workspace\n  %s is shown at /w, read-only\n  working directory /w/sub\n" % who.ws in text, text


def test_for_model(who):
    d = who.mkdir(who.base / "data")
    r = who.brig("explain", "--for-model", "--ro", d, "--timeout", "30", "--memory", "64M", "--pids", "50")
    assert r.code == 0 and ESC not in r.out
    assert len(r.out) < 3000, "it goes into a prompt"
    for part in (str(who.ws), "%s is available read-only" % d, "no network", "127.0.0.1", "30 seconds", "64M",
                 "50 processes", ".git/hooks"):
        assert part in r.out, part
    assert "network is available" in who.brig("explain", "--for-model", "--net", "host").out
    assert "127.0.0.1" not in who.brig("explain", "--for-model", "--loopback", "off").out


def test_for_model_tells_the_truth_about_limits(who):
    """No limit is not "memory none"; a fraction of a second is not 0 seconds."""
    out = who.brig("explain", "--for-model", "--timeout", "0.5", "--pids", "0").out
    assert "after 0 seconds" not in out and "0 processes" not in out
    out = who.brig("explain", "--for-model", "--timeout", "0").out
    assert "stopped after" not in out


def test_protect_list(who):
    who.write(who.ws / ".envrc", "x")
    who.symlink(who.ws / ".bashrc", "x")
    how = {x["path"]: x["how"] for x in explain(who, "--protect", "ci")["protect"]}
    assert how[".envrc"].startswith("read-only") and how[".bashrc"].startswith("link")
    assert how[".vscode"].startswith("absent") and how["ci"].startswith("absent")


def test_the_same_refusals_as_run(who):
    for opts, code, name in ((["--ro", "/no/such"], 125, "BAD_MOUNT"), (["--memory", "12X"], 2, "BAD_VALUE"),
                             (["--workspace", "/"], 125, "BAD_WORKSPACE"), (["--cwd", ".."], 125, "BAD_CWD"),
                             (["--hold"], 125, "UNSUPPORTED"), (["--seccomp", "/no.json"], 125, "BAD_SECCOMP_PROFILE")):
        who.brig("explain", *opts).refused(code, name)


def test_explain_is_what_run_does(who):
    """The plan's binds are the mounts the command then sees."""
    d = who.mkdir(who.base / "d")
    opts = ["--ro", "%s:/data" % d, "--mask", "/usr/share/doc"]
    planned = {x["path"] for x in explain(who, *opts)["plan"] if x["op"] in ("bind", "tmpfs", "proc", "devpts")}
    seen = {x.split()[4] for x in who.ok("cat /proc/self/mountinfo", opts).splitlines()}
    assert planned <= seen | {"/dev/pts"}, planned - seen


@pytest.mark.parametrize("name", ["evil\x1b[31m", "two\nlines"])
def test_hostile_names_are_shown_escaped(who, name):
    d = who.mkdir(who.base / name)
    for form in ([], ["--for-model"]):
        r = who.brig("explain", *form, "--ro", d)
        assert r.code == 0 and ESC not in r.out, (form, r.out)
        assert "two\nlines" not in r.out, form
    r = who.brig("explain", "--workspace", d, "--", "echo", name)
    assert r.code == 0 and ESC not in r.out
    r = who.brig("explain", "--for-model", "--workspace", d)
    assert r.code == 0 and ESC not in r.out and "two\nlines" not in r.out


def test_protect_with_control_characters(who):
    r = who.brig("explain", "--protect", "a\x1b[31m")
    assert r.code == 0 and ESC not in r.out
    r = who.brig("explain", "--env", "N\x7fAME=x")
    assert "\x7f" not in r.out


def test_an_allow_list_requires_its_network(who):
    """Whatever else was listed: without a network of its own a list of names is no limit."""
    for backend in ("native", "bwrap", "landlock"):
        r = who.brig("explain", "--json", "--backend", backend, "--allow", "allowed.test:443", "--require", "seccomp",
                     "--workspace", who.ws, "--", "true")
        assert json.loads(r.out)["require"] == ["net", "seccomp"], r.out
        r = who.brig("explain", "--json", "--backend", backend, "--require", "seccomp", "--workspace", who.ws, "--", "true")
        assert json.loads(r.out)["require"] == ["seccomp"], r.out
