# SPDX-License-Identifier: Apache-2.0
"""Other programs' sandboxes, none at all, and which backend follows when one cannot run."""
import json
import os
import signal
import stat
import subprocess

import pytest

from conftest import BRIG, IS_ROOT
from test_backends import OPTS

# -- wrapper -------------------------------------------------------------------

ODD = "a'b\"c $(id) `id` {cwd}"


@pytest.mark.parametrize("template", ["env {command}", "sh -c '{command}'", "sh -c \"exec {command}\"",
                                      "sh -c 'exec {command}' ignored", "  env   {command}  "])
def test_wrapper_is_byte_identical(user, template):
    bare = user.host("printf", "%s\n", ODD, "", "\\", "x\ny").stdout
    r = user.brig("run", "--workspace", user.ws, "--backend", "wrapper", "--wrapper", template,
                  "--", "printf", "%s\n", ODD, "", "\\", "x\ny")
    assert r.raw == bare and r.code == 0


@pytest.mark.parametrize("template", ["true", "echo '{command}", "echo `{command}`", "echo $({command})",
                                      "cat <<X\n{command}\nX", "echo x{command}", "sh -c \"echo '{command}'\"",
                                      "echo \\{command}", "true # {command}", "sh -c 'cd {cwd}; ls' {command}"])
def test_wrapper_templates_that_could_break(user, template):
    r = user.run(*user.ran_marker(), opts=["--backend", "wrapper", "--wrapper", template])
    assert r.code == 125 and r.json["error"]["code"] == "BAD_VALUE" and r.json["error"]["fix"]
    assert not user.marker.exists()


def test_wrapper_refusals(user):
    assert user.run("true", opts=["--backend", "wrapper"]).code == 125
    r = user.run("true", opts=["--backend", "wrapper", "--wrapper", "nsjail"])
    if r.code:
        assert "install" in r.json["error"]["fix"]
    for o in (["--mask", "/usr"], ["--ro", "/etc/hosts"]):
        assert user.run("true", opts=[*OPTS["wrapper"], *o]).code == 125


# nsjail is in no Debian release, so that this is a stand-in: it knows the options that the template
# uses as nsjail's own help describes them, refuses all others, and executes without a search along PATH.
FAKE_NSJAIL = """#!/usr/bin/python3
import getopt, json, os, sys
opts, rest = getopt.getopt(sys.argv[1:], "M:QT:B:R:c:D:t:eN", ["mode=", "really_quiet", "keep_env", "time_limit=",
    "disable_rlimits", "chroot=", "tmpfsmount=", "bindmount=", "bindmount_ro=", "cwd=", "disable_clone_newnet"])
here = sys.argv.index("--")
assert rest == sys.argv[here + 1:] and rest[0].startswith("/"), rest
json.dump(opts, open(%r, "w"))
d = dict(opts)
if "--keep_env" not in d: os.environ.clear()
os.chdir(d["--cwd"])
os.execv(rest[0], rest)
"""


def test_wrapper_nsjail_template(user):
    told = user.base / "told.json"
    user.write(user.base / "bin/nsjail", FAKE_NSJAIL % str(told), 0o755)
    user.mkdir(user.ws / "sub")
    path = ["--env", "PATH=%s/bin:/usr/bin:/bin" % user.base, "--env", "KEPT=yes"]
    opts = ["--backend", "wrapper", "--wrapper", "nsjail", *path, "--cwd", "sub"]
    r = user.run("printf", "%s\n", ODD, "", "x\ny", opts=opts)
    bare = user.host("printf", "%s\n", ODD, "", "x\ny").stdout
    assert r.code == 0 and r.json["stdout"].encode() == bare
    given = json.loads(told.read_text())
    where = str(user.ws / "sub")
    assert given == [["-M", "o"], ["-Q", ""], ["--keep_env", ""], ["--time_limit", "0"], ["--disable_rlimits", ""],
                     ["--chroot", "/"], ["-T", "/tmp"], ["-B", where], ["--cwd", where]]
    # without the network only when nobody asked for it, and the environment is the command's
    r = user.sh("pwd; echo $KEPT; exit 5", [*opts, "--net", "host"])
    assert (r.code, r.json["stdout"]) == (5, "%s\nyes\n" % where)
    assert ["--disable_clone_newnet", ""] in json.loads(told.read_text())
    # what nsjail would take for two names is refused
    user.mkdir(user.ws / "a:b")
    r = user.run(*user.ran_marker(), opts=[*opts[:-1], "a:b"])
    assert r.code == 125 and r.json["error"]["code"] == "BAD_WORKSPACE" and not user.marker.exists()


def test_wrapper_hostile_directory_name(user):
    d = user.mkdir(user.ws / "$(touch pwned) `id` 'q")
    r = user.sh("pwd", ["--backend", "wrapper", "--wrapper", "env -C {cwd} {command}", "--cwd", d.name])
    assert r.json["stdout"] == "%s\n" % d and not (user.ws / "pwned").exists()


# -- none, and what is listed to follow ------------------------------------------

def test_none_is_written_down(user):
    log = user.home / "state/brig/audit.log"
    env = {"XDG_STATE_HOME": str(user.home / "state")}
    r = user.run("echo", ODD, opts=OPTS["none"], env=env)
    assert r.code == 0
    line = json.loads(log.read_text().splitlines()[-1])
    assert line["argv"] == ["echo", ODD] and line["id"] == r.json["id"] and line["uid"] == user.uid
    assert (line["backend"], line["cwd"]) == ("none", str(user.ws))
    assert stat.S_IMODE(log.stat().st_mode) == 0o600 and stat.S_IMODE(log.parent.stat().st_mode) == 0o700


@pytest.mark.parametrize("how", ["link", "fifo", "directory"])
def test_none_without_a_log_does_not_run(user, how):
    d = user.mkdir(user.home / "state/brig", 0o700)
    target = user.write(user.home / "elsewhere", "")
    if how == "link":
        user.symlink(d / "audit.log", target)
    elif how == "fifo":
        os.mkfifo(d / "audit.log")
        user.own(d / "audit.log")
    else:
        user.mkdir(d / "audit.log")
    r = user.run(*user.ran_marker(), opts=OPTS["none"], env={"XDG_STATE_HOME": str(user.home / "state")})
    assert r.code == 125 and r.json["error"]["code"] == "IO_FAILED" and not r.json["ran"]
    assert not user.marker.exists() and target.read_text() == ""


def test_none_is_never_a_fallback(user):
    r = user.run(*user.ran_marker(), opts=["--backend", "seatbelt", "--fallback", "none"])
    assert r.code == 2 and "never a fallback" in r.err and not user.marker.exists()


def test_fallback_only_when_listed_and_never_silent(user):
    assert user.run(*user.ran_marker(), opts=["--backend", "seatbelt"]).code == 125
    assert not user.marker.exists()
    r = user.sh("echo in", ["--backend", "seatbelt", "--fallback", "landlock"])
    assert r.json["stdout"] == "in\n" and r.json["backend"] == "landlock"
    assert r.json["denied"][0]["kind"] == "backend" and r.json["denied"][0]["target"] == "seatbelt"


def test_no_fallback_for_who_was_told_to_stop(user):
    """The signal ended the set-up, and the next backend ran the command."""
    def pending():
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
        os.kill(os.getpid(), signal.SIGTERM)
    p = user.popen([BRIG, "run", "--json", "--fallback", "landlock", "--", *user.ran_marker()], preexec_fn=pending,
                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    r = json.loads(p.communicate(timeout=30)[0])
    assert p.returncode == 125 and not r["ran"] and "interrupted" in r["error"]["message"], r
    assert r["backend"] == "native" and r["denied"] == [] and not user.marker.exists()


def test_no_fallback_for_a_command_that_is_not_there(user):
    """It chooses its own name.  And the first sandbox that there is has the last word."""
    r = user.run("/no/such/thing", opts=["--fallback", "landlock"])
    assert r.code == 127 and r.json["backend"] == "native" and r.json["denied"] == [], r
    r = user.run("/no/such/thing", opts=["--backend", "seatbelt", "--fallback", "landlock,native"])
    assert r.code == 127 and r.json["backend"] == "landlock" and len(r.json["denied"]) == 1, r


@pytest.mark.skipif(not IS_ROOT, reason="only root can give a process root's group")
def test_evidence_of_one_that_ran_nothing_is_not_the_next_ones(user):
    """What the kernel had shown of the first backend's process stood in the result, as the second one's."""
    argv = [str(BRIG), "run", "--json", "--", "true"]
    for extra, backend in ([], "native"), (["--fallback", "landlock"], "landlock"):
        p = subprocess.run(argv[:2] + extra + argv[2:], env=user.env, cwd=user.ws, user=user.uid, group=0,
                           extra_groups=[], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, timeout=30)
        r = json.loads(p.stdout)
        assert r["backend"] == backend and r["ran"] == (backend != "native"), r
        seen = set((r["evidence"] or {}).get("namespaces", {}).values())
        assert (seen == {"0"}) == r["ran"], r
