# SPDX-License-Identifier: Apache-2.0
"""The docker backend on a real engine, with runc and with gVisor."""
import json
import os
import pty
import re
import secrets
import select
import shutil
import signal
import subprocess
import time

import pytest

from conftest import BRIG, IS_ROOT, survivors, wait_until
from docker_engine import IMAGE, image_tar

@pytest.fixture(params=["runc", "runsc"])
def runtime(request, engine):
    if request.param not in engine.runtimes:
        pytest.skip("runsc is not installed on this host")
    return request.param


@pytest.fixture
def dk(who, engine):
    """brig run --backend docker as this user; afterwards no container is left."""
    def run(*cmd, opts=(), json_out=True, **kw):
        env = dict(kw.pop("env", {}), DOCKER_HOST=engine.host)
        return who.brig("run", *(["--json"] if json_out else []), "--backend", "docker", "--image",
                        kw.pop("image", IMAGE), "--workspace", who.ws, *opts, "--", *cmd,
                        env=env, **kw)
    run.who, run.engine = who, engine
    before = set(engine.containers())
    yield run
    assert set(engine.containers()) <= before, engine.docker("ps", "-a").stdout.decode()


def words(dk, extra=(), image=IMAGE):
    return [BRIG, "run", "--backend", "docker", "--image", image, "--workspace", dk.who.ws, *extra]


def sh(dk, text, *opts, **kw):
    return dk("sh", "-c", text, opts=opts, **kw)


# ---- one call ----------------------------------------------------------------

def test_must_show(dk, runtime):
    r = dk("id", opts=("--runtime", runtime))
    assert r.code == 0, r
    j = r.json
    assert j["v"] == 1 and j["ran"] and j["exit"] == 0 and j["backend"] == "docker"
    assert j["error"] is None and "uid=0" not in j["stdout"] and "gid=0" not in j["stdout"]
    for layer in ("mount", "pid", "net", "ipc", "uts", "cgroup", "caps", "no_new_privs", "seccomp"):
        assert layer in j["enforced"], j
    assert j["evidence"]["seccomp"] == 2 and j["evidence"]["no_new_privs"] == 1
    assert j["evidence"]["cap_eff"] == "0" and j["evidence"]["cap_bnd"] == "0"
    assert "user" in j["missing"] and "landlock" in j["missing"]
    if runtime == "runc":
        assert j["evidence"]["source"] == "kernel"
        assert {"memory", "pids", "cpu"} <= set(j["enforced"])
        own = {n: os.readlink("/proc/self/ns/" + n) for n in ("pid", "net", "ipc", "uts")}
        for n, link in own.items():
            assert j["evidence"]["namespaces"][n] not in ("0", link.split("[")[1][:-1])
    else:
        assert "gVisor" in j["evidence"]["source"]
        # this registration ignores control groups, and the result says so
        assert {"memory", "pids", "cpu"} <= set(j["missing"])


def test_the_example_that_operators_write(who, engine, runtime):
    """Every key of it from a file, as the kernel shows it inside."""
    runtime = {"runsc": "runsc-cg"}.get(runtime, runtime)
    f = who.write(who.base / "etc/conf.yaml", """
sandbox:
  mode: docker
  image: %s
  runtime: %s
  memory_limit_mb: 512
  cpu_quota: 0.5
  network: none
  read_only: true
  drop_caps: [ALL]
  add_caps: []
  seccomp_profile: default
  docker: {socket: %s}
""" % (IMAGE, runtime, engine.socket))
    r = who.brig("run", "--json", "--config", f, "--workspace", who.ws, "--", "sh", "-c",
                 "touch /var/x; grep CapEff /proc/self/status; ip -o link | wc -l; echo hi > kept")
    j = r.json
    assert j["ran"] and j["backend"] == "docker", r
    assert {"memory", "cpu", "net", "caps", "seccomp"} <= set(j["enforced"]), j
    assert "touch: /var/x: Read-only file system" in j["stderr"]
    lines = j["stdout"].split()
    assert lines[1].strip("0") == "" and lines[2] == "1", j
    assert (who.ws / "kept").read_text() == "hi\n" and not j["denied"]
    if runtime == "runc":
        loose = f.read_text().replace("read_only: true", "read_only: false").replace("add_caps: []", "add_caps: [NET_RAW]")
        f.write_text(loose)
        r = who.brig("run", "--json", "--config", f, "--workspace", who.ws, "--", "sh", "-c",
                     "touch /var/x && echo written; grep CapBnd /proc/self/status")
        assert "written" in r.json["stdout"] and "0000000000002000" in r.json["stdout"], r.json
        assert "caps" not in r.json["enforced"]


def test_pool_and_idle_from_a_file(who, engine):
    f = who.write(who.base / "etc/conf.yaml", "sandbox: {mode: docker, image: '%s', docker: {socket: '%s', pool: 1, idle: 3}}\n"
                  % (IMAGE, engine.socket))
    before = set(engine.containers())
    r = who.brig("run", "--json", "--config", f, "--workspace", who.ws, "--", "true")
    assert r.code == 0, r
    assert wait_until(lambda: len(set(engine.containers()) - before) == 1, 20), "nobody waits for the next call"
    assert wait_until(lambda: not set(engine.containers()) - before, 30), "it is kept beyond its idle life"


def test_gvisor_with_control_groups(dk, engine):
    if "runsc-cg" not in engine.runtimes:
        pytest.skip("runsc is not installed on this host")
    r = dk("dmesg", opts=("--runtime", "runsc-cg", "--memory", "1G", "--pids", "256"))
    assert {"memory", "pids", "cpu"} <= set(r.json["enforced"]), r.json
    if r.json["evidence"]["seccomp"] != 2:
        assert "gVisor" in r.json["stdout"]


def test_limit_that_is_ignored_is_refused(dk, engine):
    if "runsc" not in engine.runtimes:
        pytest.skip("runsc is not installed on this host")
    r = dk("true", opts=("--runtime", "runsc", "--memory", "512M"))
    r.refused(125, "LIMIT_UNENFORCEABLE", "memory")
    assert r.json["ran"] is False


def test_inside(dk, runtime):
    """What is enforced is seen from inside, too."""
    r = sh(dk, "grep -E 'Cap|Seccomp:|NoNewPrivs' /proc/self/status; "
               "touch /var/x 2>&1; cat /proc/net/dev; touch here && echo workspace-ok; pwd; "
               "touch /tmp/t && echo tmp-ok; touch $HOME/t && echo home-ok; env; hostname",
           "--runtime", runtime)
    out = r.json["stdout"]
    for line in out.splitlines():
        if line.startswith("Cap"):
            assert line.split()[1].strip("0") == "", out
    assert "Seccomp:\t2" in out
    assert "Read-only file system" in out and "/var/x" in out
    links = [line.split(":")[0].strip() for line in out.splitlines() if line.count(":") == 1
             and line.split(":")[1].split()[:1] == ["0"] and not line.startswith(("Cap", "Sec"))]
    assert set(links) <= {"lo"}
    assert "workspace-ok" in out and (dk.who.ws / "here").stat().st_uid == dk.who.uid
    assert str(dk.who.ws) in out and "tmp-ok" in out and "home-ok" in out
    assert "\nsandbox\n" in out and "BRIG_SANDBOX=" + r.json["id"] in out


def test_files_of_every_kind_in_the_workspace(dk, runtime):
    """Also root's own workspace, and through gVisor's file server: what is made there belongs to
    the workspace's owner, and to nobody else meanwhile."""
    old = dk.who.write(dk.who.ws / "old", "old\n")
    r = sh(dk, "mkdir -p d/e && echo x > d/e/f && ln -s f d/e/l && mv d/e/f d/g && echo more >> old && chmod 600 d/g "
               "&& touch gone && rm gone && ln d/g d/h && id -u && stat -c %u d/g old", "--runtime", runtime)
    assert r.code == 0, r.json
    ids = r.json["stdout"].split()
    assert len(set(ids)) == 1 and ids[0] != "0", "inside, all of it is the command's own"
    for p in (old, dk.who.ws / "d", dk.who.ws / "d/e", dk.who.ws / "d/g", dk.who.ws / "d/e/l", dk.who.ws / "d/h"):
        st = p.lstat()
        assert (st.st_uid, st.st_gid) == (dk.who.uid, dk.who.gid), p
    assert old.read_text() == "old\nmore\n" and not (dk.who.ws / "gone").exists()
    assert sorted(os.listdir(dk.who.ws)) == ["d", "old"]


def test_containment(dk, runtime):
    for text in ("mount -t tmpfs none /tmp", "chmod 4755 here", "cat /proc/1/mem",
                 "mknod c c 0 0", "echo x > /proc/sysrq-trigger", "echo x > /proc/sys/kernel/core_pattern",
                 "nc 1.1.1.1 80 </dev/null", "kill -9 1 && false"):
        r = sh(dk, ": > here; %s" % text, "--runtime", runtime, "--timeout", "10")
        assert r.json["ran"] and r.code != 0 or text.startswith("kill"), (text, r.json)
    r = sh(dk, "ls -la /.brig; nc -U /.brig/ctl </dev/null; echo done", "--runtime", runtime)
    assert "done" in r.json["stdout"]


def test_memory(dk):
    r = sh(dk, "dd if=/dev/zero of=/dev/null bs=20M count=1 && echo fits; "
               "dd if=/dev/zero of=/dev/null bs=200M count=1 && echo too much", "--memory", "64M")
    assert r.json["stdout"] == "fits\n", r.json
    assert r.json["oom"] is True, r.json
    assert [d for d in r.json["denied"] if d["kind"] == "memory"]


def test_memory_of_the_command_itself(dk):
    r = dk("dd", "if=/dev/zero", "of=/dev/null", "bs=300M", "count=1", opts=("--memory", "64M"))
    assert r.json["oom"] is True and r.json["signal"] == 9, r.json


def test_pids(dk):
    r = sh(dk, "for i in $(seq 40); do sleep 5 & done 2>&1; echo", "--pids", "20")
    assert "can't fork" in r.json["stdout"] + r.json["stderr"], r.json
    assert [d for d in r.json["denied"] if d["kind"] == "pids"]


def test_cpu(dk):
    r = sh(dk, "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done", "--cpus", "0.2", "--timeout", "30")
    u = r.json["usage"]
    assert u["cpu_ms"] < 0.5 * u["wall_ms"], u


def test_file_size_and_tmp(dk):
    r = sh(dk, "dd if=/dev/zero of=big bs=1M count=3; ls -l big; dd if=/dev/zero of=/tmp/x bs=1M count=60",
           "--file-size", "1M", "--tmp-size", "64M")
    assert (dk.who.ws / "big").stat().st_size <= 1 << 20
    r = sh(dk, "dd if=/dev/zero of=/tmp/x bs=1M count=60", "--tmp-size", "64M")
    assert "No space" in r.json["stderr"], r.json


# ---- streams -----------------------------------------------------------------

def test_streams(dk, runtime):
    r = sh(dk, "echo out; echo err >&2; cat; exit 7", "--runtime", runtime, input=b"typed")
    assert (r.code, r.json["stdout"], r.json["stderr"]) == (7, "out\ntyped", "err\n")
    r = sh(dk, "echo out; echo err >&2; cat; exit 7", "--runtime", runtime, input=b"typed", json_out=False)
    assert (r.code, r.out) == (7, "out\ntyped") and r.err.startswith("err\n")
    assert len(r.err.splitlines()) == 1


def test_much_data_both_ways(dk, runtime):
    data = os.urandom(3 << 20)
    r = dk("cat", opts=("--runtime", runtime), input=data, json_out=False)
    assert r.code == 0 and r.raw == data
    r = sh(dk, "yes | head -c 9000000", "--runtime", runtime, "--max-output", "1000")
    assert len(r.json["stdout"]) == 1000 and r.json["truncated"]["stdout"] == 9000000 - 1000


def test_input_that_nobody_reads(dk, runtime):
    r = dk("true", opts=("--runtime", runtime), input=b"x" * (1 << 20))
    assert r.code == 0


def test_exec_failures(dk, runtime):
    dk("no-such-program", opts=("--runtime", runtime)).refused(127, "NOT_FOUND", "no-such-program")
    dk("/etc", opts=("--runtime", runtime)).refused(126, "EXEC_FAILED")
    r = dk("true", opts=("--cwd", "gone", "--runtime", runtime))
    assert r.code in (2, 125) and not r.json["ran"]


def test_script_without_interpreter_line(dk):
    dk.who.write(dk.who.ws / "s", "echo from $0 $1\n", 0o755)
    r = dk("./s", "arg")
    assert r.json["stdout"].split() == ["from", "./s", "arg"]


def test_deaths_by_signal(dk, runtime):
    r = sh(dk, "kill -TERM $$", "--runtime", runtime)
    assert r.code == 128 + 15 and r.json["signal"] == 15


def test_timeout(dk, runtime):
    r = sh(dk, "trap '' TERM; sleep 100 & sleep 100", "--timeout", "1", "--runtime", runtime)
    assert r.code == 124 and r.json["timed_out"] and 900 < r.json["usage"]["wall_ms"] < 6000


def test_timeout_with_a_reader_that_is_stuck(dk, runtime):
    rd, wr = os.pipe()
    p = dk.who.popen(words(dk, ("--timeout", "1", "--runtime", runtime, "--", "yes")),
                     env={"DOCKER_HOST": dk.engine.host}, stdout=wr, stdin=subprocess.DEVNULL)
    os.close(wr)
    try:
        assert p.wait(20) == 124
    finally:
        p.kill()
        os.close(rd)


def test_signals_reach_the_command(dk, runtime):
    p = dk.who.popen(words(dk, ("--runtime", runtime, "--", "sh", "-c",
                                "trap 'echo got; exit 3' TERM; echo ready; while :; do sleep 0.1; done")),
                     env={"DOCKER_HOST": dk.engine.host}, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
    assert p.stdout.readline() == b"ready\n"
    p.send_signal(signal.SIGTERM)
    assert p.stdout.read() == b"got\n" and p.wait(10) == 3


def test_stop_and_continue(dk, runtime):
    """Ctrl-Z: the command stops as well, not only who keeps its deadline."""
    p = dk.who.popen(words(dk, ("--runtime", runtime, "--", "sh", "-c",
                                "i=0; while [ ! -e end ]; do i=$((i+1)); echo $i > new; mv new count; sleep 0.02; done")),
                     env={"DOCKER_HOST": dk.engine.host}, stdin=subprocess.DEVNULL)
    count, end = dk.who.ws / "count", dk.who.ws / "end"

    def state():
        with open("/proc/%d/stat" % p.pid) as f:
            return f.read().rsplit(")", 1)[1].split()[0]
    try:
        assert wait_until(count.exists, 20)
        p.send_signal(signal.SIGTSTP)
        assert wait_until(lambda: state() == "T", 5)
        time.sleep(0.3)  # its signals take a way that is longer
        before = count.read_text()
        time.sleep(0.3)
        assert count.read_text() == before
        p.send_signal(signal.SIGCONT)
        assert wait_until(lambda: count.read_text() != before, 10)
        dk.who.write(end)
        assert p.wait(20) == 0
    finally:
        p.kill()
        p.wait()


@pytest.mark.parametrize("ignored", [False, True])
def test_continued(dk, ignored):
    """A moment after it was to stop, before it has; and by a SIGCONT that the caller ignores."""
    p = dk.who.popen(["/usr/bin/python3", "-c", "import os, signal, sys\n"
                      "if %r: signal.signal(signal.SIGCONT, signal.SIG_IGN)\n"
                      "os.execv(sys.argv[1], sys.argv[1:])" % ignored,
                      *words(dk, ("--", "sh", "-c", "touch ready; sleep 1; exit 5"))],
                     env={"DOCKER_HOST": dk.engine.host}, stdin=subprocess.DEVNULL)
    try:
        assert wait_until((dk.who.ws / "ready").exists, 20)
        p.send_signal(signal.SIGTSTP)
        time.sleep(0.3 if ignored else 0.003)
        p.send_signal(signal.SIGCONT)
        assert p.wait(8) == 5
    finally:
        p.kill()
        p.wait()


def test_an_end_at_the_deadline_is_one_or_the_other(dk):
    """Init hears of both at once.  There was an exit code, and it was said to have been stopped as well."""
    p = dk.who.popen(words(dk, ("--json", "--timeout", "2", "--", "sh", "-c",
                                "touch ready; while [ ! -e end ]; do sleep 0.02; done; exit 5")),
                     env={"DOCKER_HOST": dk.engine.host}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    assert wait_until((dk.who.ws / "ready").exists, 20)
    parent = None
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/cwd/ready" % pid), open("/proc/%s/status" % pid) as f:
                if os.path.samefile("/proc/%s/cwd" % pid, dk.who.ws):
                    text = f.read()
                    if "Name:\tsh\n" in text:
                        parent = int(re.search(r"PPid:\t(\d+)", text).group(1))
        except OSError:
            pass
    assert parent
    os.kill(parent, signal.SIGSTOP)
    dk.who.write(dk.who.ws / "end")
    time.sleep(2.2)
    os.kill(parent, signal.SIGCONT)
    out = p.communicate(timeout=20)[0]
    j = json.loads(out)
    assert (p.returncode, j["exit"], j["signal"], j["timed_out"]) == (124, None, 9, True), j


def test_signal_while_the_container_is_made(dk):
    p = dk.who.popen(words(dk, ("--", "sleep", "5")), env={"DOCKER_HOST": dk.engine.host},
                     stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
    time.sleep(0.1)
    p.send_signal(signal.SIGTERM)
    out, err = p.communicate(timeout=20)
    assert p.returncode in (125, 128 + 15, -15), (p.returncode, err)


def test_terminal(dk, runtime):
    master, slave = pty.openpty()
    import fcntl
    import struct
    import termios
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("4H", 33, 101, 0, 0))
    before = termios.tcgetattr(slave)
    p = dk.who.popen(words(dk, ("--pty", "--runtime", runtime, "--", "sh", "-c",
                                "stty size; tty; read x; echo got:$x; read y; stty size")),
                     env={"DOCKER_HOST": dk.engine.host}, stdin=slave, stdout=slave, stderr=slave)
    seen = b""

    def until(what):
        nonlocal seen
        end = time.monotonic() + 15
        while what not in seen and time.monotonic() < end:
            if select.select([master], [], [], 0.2)[0]:
                seen += os.read(master, 4096)
        assert what in seen, seen
    until(b"33 101")
    until(b"/dev/pts/")
    os.write(master, b"hello\r")
    until(b"got:hello")
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("4H", 40, 120, 0, 0))
    p.send_signal(signal.SIGWINCH)
    time.sleep(0.3)
    os.write(master, b"\r")
    until(b"40 120")
    assert p.wait(10) == 0
    assert termios.tcgetattr(slave) == before
    os.close(master)
    os.close(slave)


# ---- paths -------------------------------------------------------------------

def test_protected_paths(dk):
    w = dk.who
    w.write(w.ws / ".git/config", "[core]\n")
    w.mkdir(w.ws / ".git/hooks")
    r = sh(dk, "echo x > .git/hooks/pre-commit; echo x >> .git/config; rm -rf .git; mkdir a; mv .git b; "
               "echo x > .envrc; echo fine > other")
    assert (w.ws / ".git/config").read_text() == "[core]\n"
    assert not (w.ws / ".git/hooks/pre-commit").exists() and not (w.ws / ".envrc").exists()
    assert (w.ws / "other").read_text() == "fine\n"
    assert [d for d in r.json["denied"] if d["kind"] == "path" and ".envrc" in d["target"]]


def test_binds_and_masks(dk):
    w = dk.who
    w.write(w.base / "ro/file", "shown")
    w.write(w.ws / "secret/key", "hidden")
    w.write(w.ws / "one", "hidden too")
    w.write(w.base / "rw/f", "")
    r = sh(dk, "cat /opt/ro/file; echo x > /opt/ro/file; ls secret; cat one; echo ok > /opt/rw/new; ls /etc",
           "--ro", "%s:/opt/ro" % (w.base / "ro"), "--rw", "%s:/opt/rw" % (w.base / "rw"),
           "--mask", w.ws / "secret", "--mask", w.ws / "one", "--mask", "/etc")
    assert r.json["stdout"].startswith("shown") and "hidden" not in r.json["stdout"], r.json
    assert "key" not in r.json["stdout"] and "hosts" not in r.json["stdout"]
    assert (w.base / "ro/file").read_text() == "shown" and (w.base / "rw/new").read_text() == "ok\n"


def test_secrets_by_descriptor(dk):
    rd, wr = os.pipe()
    os.write(wr, b"TOKEN=s3cret\0OTHER=x y\0")
    os.close(wr)
    r = sh(dk, "echo $TOKEN $OTHER", "--env-fd", str(rd), pass_fds=(rd,))
    os.close(rd)
    assert r.json["stdout"] == "s3cret x y\n"


# ---- what goes wrong ---------------------------------------------------------

def test_missing_image(dk):
    r = dk("true", image="no-such-image:9")
    r.refused(125, "SETUP_FAILED", "no-such-image:9", "docker pull")
    assert r.json["ran"] is False


def test_no_image(dk):
    r = dk.who.brig("run", "--backend", "docker", "--", "true", env={"DOCKER_HOST": dk.engine.host})
    r.refused(125, "BAD_OPTION", "--image")


def test_unknown_runtime(dk):
    dk("true", opts=("--runtime", "kata-none")).refused(125, "UNSUPPORTED", "kata-none", "runc")


@pytest.mark.prompt
def test_no_socket(who):
    r = who.brig("run", "--json", "--backend", "docker", "--image", "x", "--", "true",
                 env={"DOCKER_HOST": "unix:///nowhere/docker.sock"})
    r.refused(125, "SETUP_FAILED", "/nowhere/docker.sock", "DOCKER_HOST")
    assert r.seconds < 1 and r.json["ran"] is False


@pytest.mark.prompt
def test_dead_engine(who):
    import socket
    s = socket.socket(socket.AF_UNIX)
    s.bind(str(who.base / "dead.sock"))
    s.close()
    os.chmod(who.base / "dead.sock", 0o666)
    r = who.brig("run", "--backend", "docker", "--image", "x", "--docker-socket", who.base / "dead.sock",
                 "--", "true")
    r.refused(125, "SETUP_FAILED", "not running")
    assert r.seconds < 1


def test_socket_without_permission(user):
    import socket
    s = socket.socket(socket.AF_UNIX)
    path = user.base / "closed.sock"
    s.bind(str(path))
    s.listen(1)
    if not IS_ROOT:
        pytest.skip("not root: cannot make a socket of somebody else's")
    os.chown(path, 0, 0)
    os.chmod(path, 0o600)
    r = user.brig("run", "--backend", "docker", "--image", "x", "--docker-socket", path, "--", "true")
    r.refused(125, "SETUP_FAILED", "Permission denied", "group")
    s.close()


def test_remote_host_is_refused(who):
    r = who.brig("run", "--backend", "docker", "--image", "x", "--", "true",
                 env={"DOCKER_HOST": "tcp://10.0.0.1:2375"})
    r.refused(125, "UNSUPPORTED", "unix")


def test_net_allow_is_refused_where_it_cannot_be_had(dk):
    """Containers of another kernel are out of reach; tests/egress has the rest."""
    if "runsc" not in dk.engine.runtimes:
        pytest.skip("runsc is not installed on this host")
    r = dk("true", opts=("--net", "allow", "--runtime", "runsc"))
    assert r.code == 125 and not r.json["ran"] and r.json["error"]["code"] == "UNSUPPORTED"


def test_image_with_a_volume(dk):
    name = "brig-volume:1"
    if dk.engine.docker("image", "inspect", name, check=False).returncode:
        dk.engine.docker("import", "--change", "VOLUME /data", "-", name, input=image_tar())
    dk("true", image=name).refused(125, "UNSUPPORTED", "/data")


def test_health_check_of_the_image_does_not_run(dk):
    name = "brig-health:1"
    if dk.engine.docker("image", "inspect", name, check=False).returncode:
        dk.engine.docker("import", "--change", "HEALTHCHECK --interval=1s CMD touch %s/evil" % dk.who.ws,
                         "--change", 'ENTRYPOINT ["/bin/sh", "-c", "touch evil"]', "-", name,
                         input=image_tar())
    r = dk("sleep", "2", image=name)
    assert r.code == 0 and not (dk.who.ws / "evil").exists()


def test_helper_missing(who):
    lone = who.mkdir(who.base / "lone") / "brig"
    shutil.copy(BRIG, lone)
    lone.chmod(0o755)
    p = who.host(lone, "run", "--backend", "docker", "--image", "x", "--", "true", check=False)
    assert p.returncode == 125 and b"brig-docker is missing" in p.stderr and b"install" in p.stderr


# ---- leftovers ---------------------------------------------------------------

def test_sigkill_of_brig(dk, runtime):
    p = dk.who.popen(words(dk, ("--runtime", runtime, "--", "sh", "-c", "echo on; sleep 1000")),
                     env={"DOCKER_HOST": dk.engine.host}, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
    assert p.stdout.readline() == b"on\n"
    mine = dk.engine.containers()
    assert len(mine) >= 1
    p.kill()
    p.wait()
    # everything inside ends by itself, at once
    def running():
        return dk.engine.docker("ps", "-q").stdout.split()
    assert wait_until(lambda: not running(), 5)
    # and the next start removes what is left
    assert dk("true").code == 0
    assert dk.engine.containers() == []


def test_others_are_left_alone(dk):
    dk.engine.docker("create", "--name", "theirs", "--label", "brig.owner=1 x 1 1 1 1", IMAGE, "true")
    try:
        assert dk("true").code == 0
        assert len(dk.engine.containers()) == 1
    finally:
        dk.engine.docker("rm", "-f", "theirs")


# ---- the pool ----------------------------------------------------------------

POOL = ("--pool", "2", "--pool-idle", "60")


def parked(engine):
    return engine.docker("ps", "-q", "--no-trunc").stdout.decode().split()


def keepers(engine):
    """Keepers of this engine's containers, by their label, and of no other."""
    text = engine.docker("ps", "-a", "--format", '{{.Label "brig.owner"}}').stdout.decode()
    owners = {int(line.split()[4]) for line in text.splitlines() if len(line.split()) == 6}
    return [pid for pid, cmd in survivors("brig-pool") if pid in owners and cmd.startswith(b"brig-pool")]


@pytest.fixture
def pool(dk):
    """A pool that is full; its keeper ends with the test."""
    def fill(*opts, size=2):
        assert dk("true", opts=(*POOL, *opts)).code == 0
        assert wait_until(lambda: len(parked(dk.engine)) == size, 15), parked(dk.engine)
        time.sleep(0.5)
    yield fill

    def all_gone():
        # again each time: a keeper may just be starting, and the engine may still
        # be making a container that one had asked for
        for pid in keepers(dk.engine):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        return dk("true").code == 0 and not dk.engine.containers()
    assert wait_until(all_gone, 20)


def test_pool_is_used(dk, pool, runtime):
    pool("--runtime", runtime)
    ids = parked(dk.engine)
    r = sh(dk, "id; echo $TOKEN; pwd; cat", *POOL, "--runtime", runtime, "--env", "TOKEN=abc", input=b"Typed")
    assert r.code == 0 and r.json["stdout"].endswith("abc\n%s\nTyped" % dk.who.ws), r.json
    # a container that has to be made takes more than that on a machine with nothing else to do
    assert r.json["usage"]["setup_us"] < 200000, r.json
    assert r.json["evidence"]["source"] == ("kernel" if runtime == "runc" else "inside, on gVisor")
    assert "seccomp" in r.json["enforced"] and "caps" in r.json["enforced"]
    # one container of the two is gone, a fresh one comes
    assert wait_until(lambda: len(parked(dk.engine)) == 2 and len(set(parked(dk.engine)) & set(ids)) == 1, 15)


def test_pool_results(dk, pool, runtime):
    pool("--runtime", runtime)
    opts = (*POOL, "--runtime", runtime)
    assert dk("no-such", opts=opts).code == 127
    assert wait_until(lambda: len(parked(dk.engine)) == 2, 15)
    r = dk("sleep", "100", opts=(*opts, "--timeout", "1"))
    assert r.code == 124 and r.json["timed_out"]
    r = sh(dk, "exit 9", *opts)
    assert r.code == 9


def test_no_secret_waits_in_a_pool(dk, pool):
    r = sh(dk, "true", *POOL, "--env", "TOKEN=v3rysecret")
    pool()
    for c in parked(dk.engine):
        text = dk.engine.docker("inspect", c).stdout.decode()
        assert "v3rysecret" not in text and "TOKEN" not in text
    assert not survivors("v3rysecret")


def test_two_callers_never_share(dk, pool):
    pool()
    for _ in range(2):
        ps = [dk.who.popen(words(dk, (*POOL, "--json", "--", "sh", "-c",
                                      "[ -e /tmp/mark ] && echo SHARED; : > /tmp/mark; sleep 0.5")),
                           env={"DOCKER_HOST": dk.engine.host}, stdout=subprocess.PIPE,
                           stdin=subprocess.DEVNULL) for _ in range(5)]
        results = [json.loads(p.communicate(timeout=60)[0]) for p in ps]
        assert all(r["exit"] == 0 for r in results), results
        assert not any("SHARED" in r["stdout"] for r in results)


def test_policies_do_not_mix(dk, pool):
    pool()
    # those that wait have the default limit, in which this would fit
    r = dk("dd", "if=/dev/zero", "of=/dev/null", "bs=300M", "count=1", opts=(*POOL, "--memory", "128M"))
    assert r.json["oom"] is True and r.json["usage"]["setup_us"] > 50000, r.json


def test_new_protected_file_is_protected_in_a_warm_call(dk, pool):
    pool()
    dk.who.write(dk.who.ws / ".envrc", "mine\n")
    r = sh(dk, "echo x > .envrc; rm -f .envrc", *POOL)
    assert (dk.who.ws / ".envrc").read_text() == "mine\n", r.json


def test_caller_killed(dk, pool):
    pool()
    m = "1000.%d" % secrets.randbelow(10 ** 9)  # others sleep as well
    p = dk.who.popen(words(dk, (*POOL, "--", "sh", "-c", "echo on; sleep %s" % m)),
                     env={"DOCKER_HOST": dk.engine.host}, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
    assert p.stdout.readline() == b"on\n"
    assert survivors(m)
    p.kill()
    p.wait()
    assert wait_until(lambda: not survivors(m), 5), survivors(m)
    assert wait_until(lambda: len(dk.engine.containers()) == 2, 15)


def test_keeper_killed(dk, pool):
    pool()
    assert keepers(dk.engine)
    for pid in keepers(dk.engine):
        os.kill(pid, signal.SIGKILL)
    assert wait_until(lambda: not parked(dk.engine), 10)
    assert dk("true").code == 0
    assert wait_until(lambda: dk.engine.containers() == [], 5)


def test_idle_life(dk, runtime):
    opts = ("--pool", "1", "--pool-idle", "4", "--runtime", runtime)
    assert dk("true", opts=opts).code == 0
    assert wait_until(lambda: len(parked(dk.engine)) == 1, 10)
    mine = keepers(dk.engine)
    assert len(mine) == 1
    assert wait_until(lambda: dk.engine.containers() == [], 15)
    assert wait_until(lambda: mine[0] not in [pid for pid, _ in survivors("brig-pool")], 5)


def test_keeper_holds_nothing_of_the_caller(dk):
    """Its standard streams close with brig, although the keeper lives on."""
    p = dk.who.popen(words(dk, ("--pool", "1", "--pool-idle", "4", "--", "true")),
                     env={"DOCKER_HOST": dk.engine.host, "CANARY": "c4nary"}, stdout=subprocess.PIPE,
                     stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
    out, err = p.communicate(timeout=20)
    assert p.returncode == 0
    assert wait_until(lambda: len(parked(dk.engine)) == 1, 10)
    assert keepers(dk.engine)
    for pid in keepers(dk.engine):
        with open("/proc/%d/environ" % pid, "rb") as f:
            assert f.read() == b""
        for fd in os.listdir("/proc/%d/fd" % pid):
            try:
                assert "pipe:" not in os.readlink("/proc/%d/fd/%s" % (pid, fd))
            except FileNotFoundError:
                pass
    assert wait_until(lambda: dk.engine.containers() == [], 15)


def test_forged_last_word(dk, runtime):
    """A command that writes frames to pid 1's own descriptors is not believed."""
    forge = ("printf '\\016\\000\\000\\000\\040\\000\\000\\000%s' > /proc/1/fd/1; "
             "printf '\\016\\000\\000\\000\\040\\000\\000\\000%s' > /proc/1/fd/3; "
             "sleep 1; echo x > .envrc; exit 5" % (("\\000" * 32,) * 2))
    r = sh(dk, forge, "--runtime", runtime)
    assert r.json["exit"] != 0, r.json
    assert not (dk.who.ws / ".envrc").exists()
