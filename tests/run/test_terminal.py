# SPDX-License-Identifier: Apache-2.0
"""CONTAINMENT, class Terminals; --pty and brig shell on a real pty."""
import fcntl
import json
import os
import pty
import re
import resource
import select
import signal
import socket
import struct
import subprocess
import termios
import time

import pytest

from conftest import BRIG, need, wait_until


READ = {"x86_64": "0", "aarch64": "63"}.get(os.uname().machine)


class Terminal:
    """brig (or anything) as the session leader on a pty of ours."""

    def __init__(self, who, argv, rows=24, cols=80, env=None, **streams):
        self.master, self.slave = pty.openpty()
        self.size(rows, cols, None)
        self.before = termios.tcgetattr(self.slave)

        def lead():
            os.setsid()
            fcntl.ioctl(self.slave, termios.TIOCSCTTY, 0)

        if who.uid != os.geteuid():
            os.fchown(self.slave, who.uid, who.gid)
        streams = {"stdin": self.slave, "stdout": self.slave, "stderr": self.slave, **streams}
        self.p = who.popen(argv, env=env, preexec_fn=lead, **streams)
        self.text = b""

    def size(self, rows, cols, sig=signal.SIGWINCH):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))
        if sig and self.p.poll() is None:
            self.p.send_signal(sig)

    def type(self, text):
        os.write(self.master, text.encode())

    def read(self, seconds=0.1):
        end = time.monotonic() + seconds
        while True:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.master], [], [], left)[0]:
                return
            try:
                data = os.read(self.master, 65536)
            except OSError:
                return
            self.text += data

    def expect(self, pattern, seconds=5):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            m = re.search(pattern.encode(), self.text)
            if m:
                self.text = self.text[m.end():]
                return m
            self.read(0.05)
        raise AssertionError("no %r in %r" % (pattern, self.text))

    def wait(self, seconds=5):
        end = time.monotonic() + seconds
        while self.p.poll() is None and time.monotonic() < end:
            self.read(0.02)
        self.read(0.02)
        return self.p.poll()

    def close(self):
        if self.p.poll() is None:
            self.p.kill()
            self.p.wait()
        self.after = termios.tcgetattr(self.slave)
        os.close(self.master)
        os.close(self.slave)


@pytest.fixture
def terminal(who):
    made = []

    def start(*argv, **kw):
        made.append(Terminal(who, argv, **kw))
        return made[-1]
    yield start
    for t in made:
        try:
            t.close()
        except OSError:
            pass


# -- without --pty ------------------------------------------------------------

@pytest.mark.parametrize("check", ["terminal-ioctls", "no-tty"])
def test_probe(who, check):
    who.probe(check)


@pytest.mark.parametrize("check", ["terminal-ioctls", "no-tty"])
def test_probe_with_the_callers_terminal_as_stdin(who, terminal, check):
    t = terminal(BRIG, "run", "--ro", "%s:/opt/probe" % who.probe_file, "--", "/opt/probe", check)
    t.expect(r"held: [^\r\n]*")
    assert t.wait() == 0


def test_no_host_terminal_in_dev(who, terminal):
    t = terminal(BRIG, "run", "--", "sh", "-c",
                 "echo begin; ls /dev/pts; test -e /dev/tty || echo no-tty; (echo x > /dev/tty) 2>/dev/null && echo wrote; echo end")
    assert t.expect(r"begin\r\n((?s:.*))end\r\n").group(1).split() == [b"ptmx", b"no-tty"]
    assert t.wait() == 0
    t2 = terminal(BRIG, "run", "--", "sh", "-c", "ls /dev | tr '\\n' ' '; ls /dev/pts")
    m = t2.expect(r"(fd .*)\r\n")
    assert "console" not in m.group(1).decode()
    t2.wait()


def test_session_is_its_own(who, terminal):
    """A new session: no controlling terminal to type into or take signals from."""
    t = terminal(BRIG, "run", "--", "sh", "-c", "cut -d' ' -f5,6,7 /proc/self/stat; cut -d' ' -f1 /proc/self/stat")
    pgrp, session, tty = t.expect(r"(\d+) (\d+) (-?\d+)\r\n").groups()
    assert tty == b"0" and pgrp == session
    assert t.wait() == 0


def test_terminal_is_restored_when_the_command_spoils_it(who, terminal):
    t = terminal(BRIG, "run", "--", "stty", "raw", "-echo")
    assert t.wait() == 0
    assert termios.tcgetattr(t.slave) == t.before


LOCKS = """
import fcntl, os, termios
fcntl.ioctl(0, termios.TIOCEXCL)
os.set_blocking(0, False)
"""
TIOCGEXCL = 0x80045440


def test_terminal_can_be_used_again(who):
    """For itself alone, and told not to wait: both outlive who did it."""
    t = Terminal(who, [BRIG, "run", "--", "/usr/bin/python3", "-c", LOCKS])
    try:
        assert t.wait() == 0, t.text
        assert os.get_blocking(t.slave)
        assert struct.unpack("i", fcntl.ioctl(t.slave, TIOCGEXCL, b"1234"))[0] == 0
    finally:
        t.close()


STOPS = """
import sys, termios
open(".envrc", "w").write("x")  # something that brig says a line about
termios.tcflow(%d, termios.TCOOFF)
"""


@pytest.mark.parametrize("backend", ["native", "landlock"])
def test_output_that_the_command_stopped_goes_on(user, backend):
    """tcflow() is about the terminal: it outlives the command, and brig, too, would wait."""
    for fd, streams in ((0, {}), (1, {"stdin": subprocess.DEVNULL}), (2, {"stdin": subprocess.DEVNULL,
                                                                       "stdout": subprocess.DEVNULL})):
        t = Terminal(user, [BRIG, "run", "--backend", backend, "--", "/usr/bin/python3", "-c", STOPS % fd], **streams)
        try:
            assert t.wait() == 0, t.p.returncode
            t.expect("protected: ")
            os.set_blocking(t.slave, False)
            assert os.write(t.slave, b"on") == 2
        finally:
            t.close()
            (user.ws / ".envrc").unlink(missing_ok=True)


def test_output_is_restored_when_the_command_spoils_it(who):
    t = Terminal(who, [BRIG, "run", "--", "sh", "-c", "stty raw -echo <&1"], stdin=subprocess.DEVNULL)
    try:
        assert t.wait() == 0
        assert termios.tcgetattr(t.slave) == t.before
    finally:
        t.close()


@pytest.mark.parametrize("backend", ["native", "landlock"])
def test_in_the_background_it_is_not_stopped_at_its_end(user, backend):
    """timeout(1) makes a group of its own, and in a script nobody puts that into the foreground."""
    t = Terminal(user, ["sh", "-c", "timeout 4 %s run --backend %s -- echo inside; echo code $?" % (BRIG, backend)])
    try:
        t.expect("inside\r\n")
        t.expect("code 0\r\n", 10)
        assert t.wait() == 0
    finally:
        t.close()


def test_in_the_background_a_person_s_settings_stay(user):
    """An interactive shell has them as it needs them, while its job ends."""
    t = Terminal(user, ["sh", "-ic", "%s run -- sleep 0.5 & sleep 0.2; stty -echo; wait; echo end" % BRIG])
    try:
        t.expect("end\r\n")
        assert not termios.tcgetattr(t.slave)[3] & termios.ECHO
    finally:
        t.close()


@pytest.mark.parametrize("backend", ["native", "landlock"])
def test_pty_in_the_background_can_be_ended(user, backend):
    """Who wants the terminal is stopped there; and must not be so for ever."""
    t = Terminal(user, ["sh", "-c", "timeout 1 %s run --pty --backend %s -- echo inside; echo code $?" %
                        (BRIG, backend)])
    try:
        t.expect("code 124\r\n", 10)
        assert t.wait() == 0
    finally:
        t.close()


@pytest.mark.parametrize("timers", [True, False], ids=["", "no-timers"])
def test_message_that_nobody_takes_does_not_keep_brig(user, timers):
    """The command has filled the pipe, and who has the other end waits for brig.  Without timers: each
    counts as a signal that waits, and another sandbox of the same user may have used up all of those."""
    def few():
        resource.setrlimit(resource.RLIMIT_SIGPENDING, (0, 0))
    p = user.popen([BRIG, "run", "--timeout", "1", "--", "sh", "-c", "echo x >.envrc; exec yes >&2"],
                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                   preexec_fn=None if timers else few)
    try:
        assert p.wait(8) == 124
    finally:
        p.kill()
        p.stderr.close()


FORGES = "echo FORGED >&0; read x; echo got $x"
BY_NAME = "echo FORGED >/proc/self/fd/0; "  # Landlock's to refuse, which bubblewrap does not have


@pytest.mark.parametrize("backend", ["native", "landlock", "bwrap"])
def test_a_result_is_not_forged_on_the_callers_terminal(user, backend):
    if backend == "bwrap":
        need("bwrap")
    t = Terminal(user, [BRIG, "run", "--json", "--backend", backend, "--", "sh", "-c",
                        FORGES if backend == "bwrap" else BY_NAME + FORGES])
    try:
        t.type("typed\n")
        assert t.wait() == 0
        lines = t.text.decode().splitlines()
        assert lines[0] == "typed" and lines[1].startswith('{"v":1') and len(lines) == 2, lines
        assert json.loads(lines[1])["stdout"] == "got typed\n"
    finally:
        t.close()


SENDS = """
import termios
a = termios.tcgetattr(0)
for c in b'{"v":1,"exit":0}\\n':  # the character that asks the other side to stop
    a[6][termios.VSTOP] = bytes([c])
    termios.tcsetattr(0, termios.TCSANOW, a)
    try: termios.tcflow(0, termios.TCIOFF)
    except termios.error: pass
"""


@pytest.mark.parametrize("backend", ["native", "landlock", "bwrap"])
def test_a_result_is_not_forged_with_flow_control(user, backend):
    """Which needs no right to write."""
    if backend == "bwrap":
        need("bwrap")
    t = Terminal(user, [BRIG, "run", "--json", "--backend", backend, "--", "/usr/bin/python3", "-c", SENDS])
    try:
        assert t.wait() == 0
        lines = t.text.decode().splitlines()
        assert len(lines) == 1 and json.loads(lines[0])["exit"] == 0, lines
        assert "ioctl" in [d["target"] for d in json.loads(lines[0])["denied"]], lines
    finally:
        t.close()


def test_a_result_is_not_forged_in_a_file(user):
    f = user.write(user.base / "both", "first\nsecond\n")
    with open(f, "r+b", buffering=0) as both:
        assert both.readline() == b"first\n"
        p = user.popen([BRIG, "run", "--json", "--", "sh", "-c", BY_NAME + FORGES], stdin=both, stdout=both,
                       stderr=subprocess.DEVNULL)
        assert p.wait(10) == 0
    text = f.read_text()
    assert "FORGED\n" not in text and "got second" in text, text


@pytest.mark.parametrize("backend", ["native", "landlock"])
def test_a_result_is_not_forged_where_input_can_only_be_written_to(user, backend):
    """Not read either: the caller has not given that."""
    f = user.write(user.base / "log", "first\n")
    cmd = [BRIG, "run", "--json", "--backend", backend, "--", "sh", "-c", "echo FORGED >&0; cat"]
    with open(f, "ab", buffering=0) as log:
        p = user.popen(cmd, stdin=log, stdout=log, stderr=subprocess.DEVNULL)
        assert p.wait(10) == 0
    lines = f.read_text().splitlines()
    assert len(lines) == 2 and json.loads(lines[1])["stdout"] == "", lines
    r, w = os.pipe()
    p = user.popen(cmd, stdin=w, stdout=w, stderr=subprocess.DEVNULL)
    os.close(w)
    with open(r) as out:
        lines = out.read().splitlines()
    assert p.wait(10) == 0 and len(lines) == 1 and json.loads(lines[0])["stdout"] == "", lines


@pytest.mark.parametrize("backend", ["native", "landlock"])
def test_a_result_is_not_forged_on_somebody_elses_terminal(user, backend):
    """As after su: it is open, and cannot be opened."""
    if os.geteuid():
        pytest.skip("only root can give a terminal of his to somebody else")
    master, slave = pty.openpty()
    os.fchmod(slave, 0o620)
    try:
        p = user.popen([BRIG, "run", "--json", "--backend", backend, "--", "sh", "-c", "echo FORGED >&0"],
                       stdin=slave, stdout=slave, stderr=subprocess.PIPE)
        assert p.communicate(timeout=10)[1].startswith(b"brig: BAD_FD: standard input"), p
        assert p.returncode == 125
        assert b"FORGED" not in os.read(master, 65536)
        # without a result object it is the command's, as always
        p = user.popen([BRIG, "run", "--backend", backend, "--", "sh", "-c", "echo mine >&0"],
                       stdin=slave, stdout=slave, stderr=subprocess.PIPE)
        assert p.wait(10) == 0 and os.read(master, 65536) == b"mine\r\n"
        p = user.popen([BRIG, "doctor", "--backend", backend], stdin=slave, stdout=slave, stderr=slave)
        assert wait_until(lambda: p.poll() is not None, 20)
        assert b"BAD_FD" not in os.read(master, 65536) and p.returncode == 0
    finally:
        os.close(master)
        os.close(slave)


# -- --pty --------------------------------------------------------------------

def test_pty_is_a_terminal(who, terminal):
    t = terminal(BRIG, "run", "--pty", "--", "sh", "-c",
                 "test -t 0 && test -t 1 && test -t 2 && echo all; tty; ls -l /proc/self/fd/0; "
                 "echo through > /dev/tty; cut -d' ' -f7 /proc/self/stat")
    t.expect("all\r\n")
    t.expect("/dev/pts/0\r\n")
    t.expect("through\r\n")
    assert t.expect(r"(\d+)\r\n").group(1) != b"0"
    assert t.wait() == 0
    assert termios.tcgetattr(t.slave) == t.before, "restored"


def test_pty_size_and_resize(who, terminal):
    t = terminal(BRIG, "run", "--pty", "--", "sh", "-c",
                 "stty size; trap 'stty size; exit 5' WINCH; echo ready; while :; do sleep 0.05; done",
                 rows=33, cols=101)
    t.expect("33 101\r\n")
    t.expect("ready\r\n")
    t.size(40, 132)
    t.expect("40 132\r\n")
    assert t.wait() == 5
    assert termios.tcgetattr(t.slave) == t.before


def test_pty_control_characters_are_the_commands(who, terminal):
    # not one long sleep: between its fork and its execve that loses the signal, and the shell then waits for it
    t = terminal(BRIG, "run", "--pty", "--", "sh", "-c",
                 "trap 'echo got-int; exit 9' INT; echo ready; while :; do sleep 0.05; done")
    t.expect("ready\r\n")
    t.type("\x03")
    t.expect("got-int\r\n")
    assert t.wait() == 9


def test_pty_end_of_file(who, terminal):
    t = terminal(BRIG, "run", "--pty", "--", "cat")
    time.sleep(0.15)
    t.type("hello\n")
    t.expect("hello\r\nhello\r\n")
    t.type("\x04")
    assert t.wait() == 0


def test_pty_closed_by_the_command_is_no_hangup(who):
    """Closing all of its stdio must not cost a command its life (SIGHUP)."""
    r = who.run("sh", "-c", "echo one; exec 0<&- 1>&- 2>&-; sleep 0.3; echo two > /dev/tty; exit 5", opts=["--pty"])
    assert (r.code, r.json["signal"], r.json["stdout"]) == (5, None, "one\r\ntwo\r\n"), r.json


def test_pty_is_raw_on_the_outside(who, terminal):
    t = terminal(BRIG, "run", "--pty", "--", "sh", "-c", "echo ready; sleep 0.4")
    t.expect("ready")
    assert wait_until(lambda: not termios.tcgetattr(t.slave)[3] & (termios.ICANON | termios.ECHO), 5)
    assert t.wait() == 0
    assert termios.tcgetattr(t.slave) == t.before


def test_pty_restored_after_timeout_and_signal(who, terminal):
    t = terminal(BRIG, "run", "--pty", "--timeout", "0.3", "--", "sleep", "100")
    assert t.wait() == 124
    assert termios.tcgetattr(t.slave) == t.before
    t = terminal(BRIG, "run", "--pty", "--", "sh", "-c", "echo ready; sleep 100")
    t.expect("ready")
    t.p.terminate()
    assert t.wait() == 128 + 15
    assert termios.tcgetattr(t.slave) == t.before


@pytest.mark.parametrize("pty", [True, False])
def test_restored_when_the_command_is_killed(who, terminal, pty):
    t = terminal(BRIG, "run", *(["--pty"] if pty else []), "--", "sh", "-c", "stty raw -echo; kill -9 $$")
    assert t.wait() == 128 + 9
    assert termios.tcgetattr(t.slave) == t.before


@pytest.mark.parametrize("backend", ["native", "landlock", "bwrap"])
def test_restored_when_brig_is_killed(who, terminal, account, backend):
    """By who cleans up; and not when somebody else has changed the settings since."""
    if backend == "bwrap":
        need("bwrap")
    if who.is_root and backend != "native":
        os.chown(who.ws, *account)
    for changed in (False, True):
        t = terminal(BRIG, "run", "--pty", "--backend", backend, "--", "sh", "-c", "echo ready; sleep 100")
        t.expect("ready")
        assert wait_until(lambda: not termios.tcgetattr(t.slave)[3] & termios.ICANON, 5)
        if changed:  # as a shell, which takes its terminal back
            mine = termios.tcgetattr(t.slave)
            mine[3] |= termios.ISIG
            termios.tcsetattr(t.slave, termios.TCSANOW, mine)
        t.p.kill()
        assert t.wait() == -9
        if not changed:
            assert wait_until(lambda: termios.tcgetattr(t.slave) == t.before, 5)
        else:
            time.sleep(0.3)
            assert termios.tcgetattr(t.slave) == mine


def test_pty_ioctls_are_refused(who, terminal):
    t = terminal(BRIG, "run", "--pty", "--ro", "%s:/opt/probe" % who.probe_file, "--",
                 "/opt/probe", "terminal-ioctls")
    t.expect(r"held: ")
    assert t.wait() == 0


def test_pty_exit_code_and_output_are_complete(who, terminal):
    t = terminal(BRIG, "run", "--pty", "--", "sh", "-c", "seq 1 5000; exit 17")
    t.expect("\r\n5000\r\n", 10)
    assert t.wait() == 17


def unread(who, *argv, seconds=8, act=None):
    """brig on a terminal that nobody reads; its exit code."""
    t = Terminal(who, [BRIG, "run", "--pty", *argv])
    try:
        if act:
            act(t)
        code = t.p.wait(seconds)
        assert not fcntl.fcntl(t.slave, fcntl.F_GETFL) & os.O_NONBLOCK, "the caller's own"
        return code
    finally:
        t.close()


@pytest.mark.parametrize("backend", ["native", "landlock"])
def test_pty_deadline_when_nobody_reads(user, backend):
    assert unread(user, "--backend", backend, "--timeout", "2", "--", "yes") == 124


def test_pty_signal_when_nobody_reads(who):
    def act(t):
        assert wait_until(lambda: select.select([t.master], [], [], 0)[0], 5)
        time.sleep(0.5)
        t.p.terminate()
    assert unread(who, "--", "yes", act=act) == 128 + 15


@pytest.mark.parametrize("backend", ["native", "landlock"])
def test_pty_signals_while_the_last_output_waits(user, backend):
    """The command has ended, and who reads is stuck: the first signal ends that.  With the second
    brig was gone before it had put its caller's terminal back."""
    out, stuck = os.pipe()
    fcntl.fcntl(stuck, fcntl.F_SETPIPE_SZ, 4096)
    os.write(stuck, bytes(4096))
    t = Terminal(user, [BRIG, "run", "--pty", "--backend", backend, "--", "sh", "-c", "echo more; touch done"],
                 stdout=stuck)
    try:
        assert wait_until(lambda: (user.ws / "done").exists(), 5)
        time.sleep(0.15)
        t.p.send_signal(signal.SIGSTOP)
        t.p.send_signal(signal.SIGHUP)
        t.p.send_signal(signal.SIGTERM)
        t.p.send_signal(signal.SIGCONT)
        t.p.wait(5)
        assert termios.tcgetattr(t.slave) == t.before
    finally:
        t.close()
        os.close(out)
        os.close(stuck)


@pytest.mark.parametrize("kind", ["terminal", "pipe", "socket"])
def test_pty_slow_reader_does_not_lose_output(user, kind):
    ours, theirs = {"terminal": pty.openpty, "pipe": os.pipe,
                    "socket": lambda: [s.detach() for s in socket.socketpair()]}[kind]()
    if kind == "terminal":
        os.fchown(theirs, user.uid, user.gid)
    p = user.popen([BRIG, "run", "--pty", "--", "seq", "1", "20000"], stdin=subprocess.DEVNULL, stdout=theirs)
    os.close(theirs)
    text = b""
    try:
        while True:
            time.sleep(0.1)
            try:
                data = os.read(ours, 4096)
            except OSError:  # a terminal's end
                break
            if not data:
                break
            text += data
        assert p.wait(5) == 0
    finally:
        p.kill()
        os.close(ours)
    assert text.endswith(b"\n20000\r\n") or text.endswith(b"\n20000\r\r\n"), text[-100:]
    assert text.count(b"\n") == 20000


def test_pty_deadline_when_somebody_takes_the_input(user):
    """Between brig's poll() and its read(): it must not wait for the next byte."""
    r, w = os.pipe()
    p = user.popen([BRIG, "run", "--pty", "--timeout", "3", "--", "sleep", "100"], stdin=r, stdout=subprocess.DEVNULL)
    thief = subprocess.Popen(["/usr/bin/python3", "-c", "import os, select\nos.set_blocking(0, False)\n"
                              "os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})\n"
                              "while True:\n  select.select([0], [], [])\n  try: os.read(0, 1)\n"
                              "  except BlockingIOError: pass"],
                             stdin=open("/proc/self/fd/%d" % r, "rb"))
    try:
        end = time.monotonic() + 2.5
        while time.monotonic() < end:
            os.write(w, b"x")
            time.sleep(0.002)
            # it sleeps in there, and the next byte would wake it
            with open("/proc/%d/syscall" % p.pid) as f:
                if f.read().split()[0] == READ and wait_until(lambda: False, 0.1) is False:
                    with open("/proc/%d/syscall" % p.pid) as f2:
                        if f2.read().split()[0] == READ:
                            break
        assert p.wait(8) == 124
    finally:
        for x in (p, thief):
            x.kill()
            x.wait()
        os.close(r)
        os.close(w)


def test_pty_without_a_terminal_outside(who):
    r = who.brig("run", "--pty", "--", "sh", "-c", "test -t 1 && echo tty; stty size; cat", input=b"typed\n")
    assert r.code == 0, r
    assert "tty\r\n" in r.out and "24 80\r\n" in r.out and "typed" in r.out


@pytest.mark.parametrize("backend", ["native", "landlock"])
def test_pty_is_ready_before_the_command_looks(user, backend):
    """Also when the supervisor, and only it, is slow."""
    need("strace")
    p = user.host("strace", "-qq", "-o", "/dev/null", "-e", "trace=ioctl", "-e", "inject=ioctl:delay_enter=60000",
                  BRIG, "run", "--backend", backend, "--pty", "--", "sh", "-c", "stty size; cat",
                  stdin=subprocess.DEVNULL)
    assert b"24 80\r\n" in p.stdout, p


def test_pty_with_json(who):
    r = who.run("sh", "-c", "tty; echo e >&2", opts=["--pty"])
    assert r.json["stdout"] == "/dev/pts/0\r\ne\r\n" and r.json["stderr"] == ""


def test_pty_background_reader_does_not_hang(who):
    r = who.run("sh", "-c", "sleep 100 & echo end", opts=["--pty"])
    assert r.json["stdout"] == "end\r\n" and r.seconds < 3


# -- brig shell ---------------------------------------------------------------

def test_shell(who, terminal):
    t = terminal(BRIG, "shell", "--workspace", who.ws, rows=30, cols=90)
    t.expect(r"\(brig\) [^\n]*\$ ")
    t.type("echo $((6*7)); stty size; tty\n")
    t.expect(r"\r42\r\n|\n42\r\n")
    t.expect("30 90\r\n")
    t.expect("/dev/pts/0\r\n")
    t.type("sleep 100\n")
    time.sleep(0.2)
    t.type("\x03")
    t.type("echo still-$((1+1))\n")
    t.expect("still-2\r\n")
    t.type("sleep 50 &\njobs\n")
    t.expect("Running")
    t.type("exit 3\n")
    t.expect("exit")
    code = t.wait()
    if code is None or code != 3:  # bash warns about running jobs once
        t.type("exit 3\n")
        code = t.wait()
    assert code == 3
    assert termios.tcgetattr(t.slave) == t.before


def test_shell_job_control_has_no_complaint(who, terminal):
    t = terminal(BRIG, "shell")
    t.expect(r"\$ ")
    t.type("exit\n")
    assert t.wait() == 0
    assert b"no job control" not in t.text and b"cannot set terminal" not in t.text


def test_shell_status_fd(who):
    rd, wr = os.pipe()
    r = who.brig("shell", "--status-fd", str(wr), input=b"echo hi; exit 4\n", pass_fds=(wr,))
    os.close(wr)
    with os.fdopen(rd) as f:
        j = json.loads(f.read())
    assert r.code == 4 and j["exit"] == 4 and "hi" in r.out


# What a program with line editing has not read when it sets up its terminal is lost, the end
# of the input too.
def ends(w, backend, text):
    for argv in (["shell"], ["run", "--pty", "--", "bash", "--norc", "-i"]):
        p = w.popen([BRIG, *argv[:1], "--backend", backend, *argv[1:]], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT)
        try:
            out, _ = p.communicate(text.encode(), timeout=10)
        finally:
            p.kill()
        assert p.returncode == 0 and (b"42" in out) == bool(text), (argv, p.returncode, out)


ENDS = pytest.mark.parametrize("text", ["", "echo $((6*7))\n", "echo $((6*7))"], ids=["nothing", "a line", "no newline"])


@ENDS
def test_input_that_ends(who, text):
    ends(who, "native", text)


@ENDS
def test_input_that_ends_in_landlock(user, text):
    ends(user, "landlock", text)


def test_input_that_ends_is_not_changed(who):
    for text in (b"", b"abc", b"abc\ndef", b"abc\n"):
        p = who.popen([BRIG, "run", "--pty", "--", "sh", "-c", "stty -echo -opost; cat; cat"], stdin=subprocess.PIPE,
                      stdout=subprocess.PIPE)
        out, _ = p.communicate(text, timeout=10)
        echo = text.replace(b"\n", b"\r\n")  # of what came before stty
        assert p.returncode == 0 and out in (text, echo + text), (text, out)


@pytest.mark.prompt
def test_a_stop_during_set_up_does_not_hang(user):
    """Ctrl-Z reaches the caller's process group: the command's process must be out of it before it takes signals."""
    def stopped(pid):
        with open("/proc/%d/stat" % pid) as f:
            return f.read().rsplit(")", 1)[1].split()[0] == "T"

    for i in range(240):
        p = user.popen([BRIG, "run", "--workspace", user.ws, "--", "/bin/true"], process_group=0)
        time.sleep(0.0005 + i % 60 * 0.0001)
        try:
            os.killpg(p.pid, signal.SIGTSTP)
        except ProcessLookupError:
            pass
        end = time.monotonic() + 3
        while p.poll() is None and time.monotonic() < end:
            # a shell continues the job that it sees stopped, and no other
            if stopped(p.pid):
                os.killpg(p.pid, signal.SIGCONT)
            time.sleep(0.005)
        hangs = p.poll() is None
        p.kill()
        p.wait()
        assert not hangs, i
