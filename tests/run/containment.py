# SPDX-License-Identifier: Apache-2.0
"""One table of containment checks for every backend.

A check gives (held, detail).  What a backend cannot give is listed in
BY_DESIGN with the reason; everything else has to hold.  A new backend is one
entry in BACKENDS, and the entries in BY_DESIGN it has to admit.
tests/run/test_backends.py runs all of it, tools/containment.py makes
docs/containment.md of it.
"""
import atexit
import io
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import tarfile
import time

import docker_engine


class Backend:
    """How to choose it, and whether it is here."""

    def __init__(self, opts, program=None, env=(), shell=False, unconfined=False, note=""):
        self.opts, self.program, self.env = list(opts), program, list(env)
        self.shell = shell            # needs an account with a login shell
        self.unconfined = unconfined  # brig cannot see whether it holds
        self.note = note

    def absent(self):
        """Why it cannot be tried here, or None."""
        if self.program and not shutil.which(self.program, path="/usr/bin:/usr/local/bin:/bin"):
            return "%s is not installed" % self.program
        return None


class Firejail(Backend):
    """In a container, or where it takes what is around it for one, it runs the command as it is."""
    idle = None

    def absent(self):
        why = super().absent()
        if not why and self.idle is None:
            p = subprocess.run(["firejail", "--noprofile", "--", "true"], stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)
            self.idle = "existing sandbox was detected" in p.stdout
        return why or (self.idle and "firejail sees a sandbox around it, and confines nothing") or None


def host_image():
    """Nothing but directories and links: /usr is the host's, read-only."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as t:
        for d in ("usr", "tmp", "proc", "sys", "dev", "etc", "var", "home", "opt"):
            i = tarfile.TarInfo(d)
            i.type, i.mode = tarfile.DIRTYPE, 0o755
            t.addfile(i)
        for d in ("bin", "sbin", "lib", "lib32", "lib64"):
            if os.path.islink("/" + d):
                i = tarfile.TarInfo(d)
                i.type, i.linkname = tarfile.SYMTYPE, "usr/" + d
                t.addfile(i)
    return out.getvalue()


class Container(Backend):
    """A container of an engine of the suite's own, started when first asked for."""

    IMAGE = "brig-containment:1"
    engine = why = None

    def __init__(self, runtime, **kw):
        super().__init__([], **kw)
        self.runtime = runtime

    @classmethod
    def start(cls):
        if cls.engine or cls.why:
            return
        if os.geteuid() != 0:
            cls.why = "not root: no container engine of our own"
            return
        for program in ("dockerd", "docker", "containerd"):
            if not shutil.which(program, path="/usr/local/sbin:/usr/sbin:/usr/local/bin:/usr/bin"):
                cls.why = "%s is not installed" % program
                return
        e = docker_engine.Engine()
        cls.why = e.start()
        if cls.why:
            e.stop()
            return
        atexit.register(e.stop)
        e.docker("import", "-", cls.IMAGE, input=host_image())
        cls.engine = e

    def absent(self):
        self.start()
        if not self.why and self.runtime not in self.engine.runtimes:
            return "%s is not installed" % self.runtime
        return self.why

    @property
    def opts(self):
        return ["--backend", "docker", "--image", self.IMAGE, "--runtime", self.runtime,
                "--docker-socket", str(self.engine.socket), "--ro", "/usr"]

    @opts.setter
    def opts(self, value):
        pass


BACKENDS = {
    "native": Backend(["--backend", "native"], note="brig's own engine"),
    "bwrap": Backend(["--backend", "bwrap"], program="bwrap", note="the system's bubblewrap"),
    "landlock": Backend(["--backend", "landlock"], note="no namespaces"),
    "docker": Container("runc", note="a container, with runc"),
    "runsc": Container("runsc-cg", note="a container, with gVisor"),
    "firejail": Firejail(["--backend", "wrapper", "--wrapper", "firejail"], program="firejail",
                         shell=True, unconfined=True, note="`--backend wrapper --wrapper firejail`"),
}

NO_PID = "no pid namespace: processes outside can be seen by name, not touched"
NO_MOUNT = "no mount namespace: names outside can be seen, content cannot be read"
HOST_TREE = "the template shows the host's tree, read-only"
NO_GROUP = "ordinary users have no control group on this machine"

BY_DESIGN = {
    ("hidden", "landlock"): NO_MOUNT,
    ("pids", "landlock"): NO_PID,
    ("hostname", "landlock"): "no uts namespace",
    ("caps", "landlock"): "an ordinary user cannot empty the bounding set; no_new_privs makes it idle",
    ("masked", "landlock"): "the host's /proc can be read as far as an ordinary user may",
    ("only-lo", "landlock"): "no network namespace: interfaces have names, no socket can be made",
    ("no-route", "landlock"): "no network namespace: the table can be read, no socket can be made",
    ("loopback", "landlock"): "no sockets at all, not even to itself",
    ("tmp-size", "landlock"): "the private directory is on the host's disk; --tmp-size is refused",
    ("mode-outside", "landlock"): "Landlock does not see chmod of files the user owns",
    ("protect-live", "landlock"): "no read-only mounts: what changed is put back at the end",
}


def admit(backend, reason, *checks):
    for c in checks:
        BY_DESIGN[(c, backend)] = reason


GVISOR = "gVisor's own %s, made by its kernel: nothing of the host's is there"
admit("runsc", GVISOR % "/sys", "hidden")
admit("runsc", GVISOR % "/dev", "devices")
admit("runsc", "gVisor knows no non-dumpable processes; pid 1 is brig-park, with an empty environment", "pid1-files")
admit("runsc", "gVisor lets a command end its pid 1, and its sandbox with it: nobody else's", "pid1-kill")
admit("runsc", "gVisor's status has no line for ambient capabilities; the other sets are empty", "caps")
admit("runsc", "gVisor's processes cannot be counted from outside; they end with their kernel, a process of the engine's",
      "tree-killed")
admit("runsc", "gVisor's kernel has one personality and refuses to talk about others", "personality")
admit("runsc", "gVisor answers that there is no route to the host, not that there is no network", "unreachable")
admit("runsc", "the limit is the container's: at it gVisor's kernel ends, and the command with it", "memory-bomb", "fork-bomb")

OWN_FILTER = "firejail's own filter decides, and allows it"
admit("firejail", HOST_TREE, "hidden", "read-outside", "masked", "unix-path")
admit("firejail", OWN_FILTER, "mknod", "setuid-bits", "terminal-ioctls", "syscalls", "int80", "families",
      "protocols", "personality", "fastopen")
admit("firejail", "no read-only mounts of brig's: what changed is put back at the end", "protect-live")
admit("firejail", "the template gives no temporary directory of its own", "tmp-size")
admit("firejail", "firejail's init ends when it is signalled, and the sandbox with it", "pid1-kill")


# -- running things ------------------------------------------------------------

class Box:
    """One backend for one user."""

    def __init__(self, who, name):
        self.who, self.name, self.b = who, name, BACKENDS[name]
        probe = who.ws / ".probe"
        if not probe.exists():
            shutil.copy(who.probe_file, probe)
            probe.chmod(0o755)
            who.own(probe)
        self.probe_path = probe

    def run(self, *cmd, opts=(), **kw):
        return self.who.run(*cmd, opts=[*self.b.opts, *opts], **kw)

    def sh(self, text, opts=(), **kw):
        return self.run("/bin/sh", "-c", text, opts=opts, **kw)

    def out(self, text, opts=(), **kw):
        r = self.sh(text, opts, **kw)
        assert r.json and r.json["ran"], r
        out = r.json["stdout"]
        return out if isinstance(out, str) else repr(out)

    def probe(self, *args, opts=(), **kw):
        """(held, what the probe said)."""
        r = self.run(str(self.probe_path), *args, opts=opts, **kw)
        assert r.json, r
        if not r.json["ran"]:
            return False, r.json["error"]["message"]
        line = (r.json["stdout"] or "").strip().splitlines()
        said = line[-1] if line else "nothing; exit %s, signal %s" % (r.json["exit"], r.json["signal"])
        # "could not be tried" is never "held"
        return r.code == 0 and said.startswith("held: "), said

    def enforced(self):
        return self.sh(":").json["enforced"]


CHECKS = []


def check(name, group, what):
    def put(fn):
        CHECKS.append((name, group, what, fn))
        return fn
    return put


def _probe(name, group, what, *args, opts=()):
    def fn(box):
        return box.probe(name, *args, opts=opts)
    CHECKS.append((name, group, what, fn))


def secret_file(who, mode=0o600):
    p = who.base / ("outside-%s" % secrets.token_hex(4))
    return who.write(p, "secret of the host\n", mode)


# -- files ---------------------------------------------------------------------
_probe("hidden", "Files", "secrets, sockets and kernel trees of the host are absent")


@check("read-outside", "Files", "a file of the same user outside the workspace cannot be read")
def _(box):
    p = secret_file(box.who)
    out = box.out("cat %s; cat %s/../%s; ln -s %s link; cat link" % (p, box.who.ws, p.name, p))
    return "secret" not in out, out.strip()


@check("write-outside", "Files", "a file of the same user outside the workspace cannot be changed")
def _(box):
    p = secret_file(box.who, 0o644)
    new = p.with_suffix(".new")
    box.sh("echo x >> %s; : > %s; rm -f %s; mv %s %s; ln %s hard; truncate -s 0 %s"
           % (p, p, p, p, new, p, p))
    ok = p.exists() and p.read_text() == "secret of the host\n" and not new.exists() \
        and p.stat().st_nlink == 1
    return ok, "unchanged" if ok else "changed"


@check("make-outside", "Files", "nothing can be made in /tmp, /var/tmp or beside the workspace")
def _(box):
    name = "brig-made-%s" % secrets.token_hex(4)
    box.sh("for d in /tmp /var/tmp /dev/shm %s %s $HOME; do echo x > $d/%s; done"
           % (box.who.base, box.who.home, name))
    found = [d for d in ("/tmp", "/var/tmp", "/dev/shm", box.who.base, box.who.home)
             if os.path.exists(os.path.join(d, name))]
    for d in found:
        os.unlink(os.path.join(d, name))
    return not found, "made in %s" % found if found else "nothing on the host"


@check("mode-outside", "Files", "modes and times of the user's files outside cannot be changed")
def _(box):
    p = secret_file(box.who)
    before = p.stat()
    box.sh("chmod 666 %s; touch -d '2001-01-01' %s" % (p, p))
    after = p.stat()
    ok = (before.st_mode, before.st_mtime) == (after.st_mode, after.st_mtime)
    return ok, "mode %o" % (after.st_mode & 0o7777)


_probe("readonly", "Files", "system trees cannot be written")
_probe("remount", "Files", "mount, remount and umount are refused")
_probe("fds", "Files", "no descriptor above 2")
_probe("fd-walk", "Files", "descriptors and the working directory do not lead out")
_probe("devices", "Files", "/dev holds only harmless names")


def _in_workspace(name, what):
    def fn(box):
        return box.probe(name, str(box.who.ws))
    CHECKS.append((name, "Files", what, fn))


_in_workspace("mknod", "no device nodes or whiteouts in the workspace")
_in_workspace("setuid-bits", "no setuid or setgid files in the workspace")
_in_workspace("file-caps", "no file capabilities in the workspace")


@check("protect-new", "Files", "a protected path that was absent does not stay")
def _(box):
    r = box.sh("mkdir -p .vscode; echo evil > .vscode/tasks.json; echo evil > .envrc")
    left = [n for n in (".vscode", ".envrc") if (box.who.ws / n).exists()]
    said = [d["target"] for d in r.json["denied"] if d["kind"] == "path"]
    return not left and len(said) >= 2, "left %s, reported %s" % (left, said)


@check("protect-old", "Files", "a protected path that was there is unchanged after the run")
def _(box):
    ws = box.who.ws
    box.who.write(ws / ".git/config", "[core]\n\tbare = false\n")
    box.who.write(ws / ".git/HEAD", "ref: refs/heads/main\n")
    box.who.mkdir(ws / ".git/hooks")
    box.who.write(ws / ".envrc", "good\n")
    try:
        box.sh("echo evil > .envrc; echo evil >> .git/config; echo evil > .git/hooks/post-checkout;"
               "rm -rf .git/hooks; rm -f .envrc; mv .git g2")
        ok = ((ws / ".envrc").read_text() == "good\n"
              and (ws / ".git/config").read_text() == "[core]\n\tbare = false\n"
              and (ws / ".git/hooks").is_dir() and not os.listdir(ws / ".git/hooks"))
        return ok, "as before" if ok else "changed"
    except FileNotFoundError as e:
        return False, str(e)
    finally:
        subprocess.run(["rm", "-rf", ws / ".git", ws / ".envrc", ws / "g2"])


@check("protect-live", "Files", "and not even during the run")
def _(box):
    ws = box.who.ws
    box.who.write(ws / ".envrc", "good\n")
    out = box.out("echo evil > .envrc; cat .envrc")
    for p in ws.glob(".envrc*"):
        p.unlink()
    return out == "good\n", out.strip()


@check("tmp-size", "Files", "the private temporary directory is limited")
def _(box):
    return box.probe("fill", "80", "/tmp", opts=["--tmp-size", "64M"])


# -- /proc ---------------------------------------------------------------------
_probe("pids", "/proc", "only the sandbox's processes are visible")
_probe("pid1-files", "/proc", "/proc/1 shows nothing")
_probe("pid1-trace", "/proc", "pid 1 cannot be traced")
_probe("pid1-kill", "/proc", "signals do not touch pid 1")
_probe("masked", "/proc", "masked kernel files give nothing")
_probe("kernel-writes", "/proc", "well-known kernel settings are not writable")
_probe("kernel-walk", "/proc", "no kernel setting at all is writable")


@check("environ-outside", "/proc", "environment, memory and files of a process outside stay closed")
def _(box):
    p = box.who.popen(["sleep", "60"], env={"SECRET": "of-the-host"})
    try:
        out = box.out("tr '\\0' '\\n' < /proc/%d/environ; ls -l /proc/%d/fd | grep -e '->'; cat /proc/%d/maps; "
                      "readlink /proc/%d/cwd /proc/%d/exe" % ((p.pid,) * 5))
        return out.strip() == "", out.strip()[:100]
    finally:
        p.kill()
        p.wait()


# -- processes -----------------------------------------------------------------
_probe("caps", "Processes", "all capability sets are empty")
_probe("lockdown", "Processes", "no_new_privs and a filter are in force")
_probe("core-limit", "Processes", "no core handler of the host is started")
_probe("terminal-ioctls", "Processes", "nothing can be typed into a terminal (TIOCSTI and others)")
_probe("no-tty", "Processes", "no controlling terminal")


@check("uid", "Processes", "the command is not root of the machine, and cannot be")
def _(box):
    out = box.out("id -u; su -c 'id -u' 2>/dev/null; sudo -n id -u 2>/dev/null; cat /proc/self/uid_map")
    first = out.split()[0]
    return first != "0" and "\n0\n" not in out, "uid %s" % first


@check("environment", "Processes", "nothing of the caller's environment but what was passed")
def _(box):
    out = box.out("env", env={"SECRET_TOKEN": "hunter2"})
    return "hunter2" not in out, "%d variables" % len(out.splitlines())


@check("hostname", "Processes", "the host's name is not visible")
def _(box):
    return box.probe("hostname", socket.gethostname())


@check("signal", "Processes", "a process of the same user outside cannot be signalled")
def _(box):
    p = box.who.popen(["sleep", "60"])
    try:
        box.sh("kill -9 %d; kill -9 -%d; :" % (p.pid, p.pid))
        time.sleep(0.05)
        return p.poll() is None, "it lives" if p.poll() is None else "killed"
    finally:
        p.kill()
        p.wait()


@check("limits-outside", "Processes", "limits of a process outside cannot be changed")
def _(box):
    p = box.who.popen(["sleep", "60"])
    try:
        box.sh("prlimit --pid %d --nofile=7:7" % p.pid)
        with open("/proc/%d/limits" % p.pid) as f:
            nofile = next(x for x in f if x.startswith("Max open files")).split()[3]
        return nofile != "7", "nofile %s" % nofile
    finally:
        p.kill()
        p.wait()


def _survivors(box, mark):
    found = []
    for pid in os.listdir("/proc"):
        if pid.isdigit():
            try:
                with open("/proc/%s/cmdline" % pid, "rb") as f:
                    if mark.encode() in f.read().split(b"\0"):
                        found.append(int(pid))
            except OSError:
                pass
    return found


# A process that nobody expects to go by itself: new session, orphan, deaf.
STUBBORN = ("(setsid sh -c 'trap \"\" TERM HUP INT QUIT; (sleep %(m)s & sleep %(m)s; sleep %(m)s) & wait' "
            ">/dev/null 2>&1 </dev/null &) ")


def _mark():
    return "7%d.%d" % (secrets.randbelow(899) + 100, secrets.randbelow(899999) + 100000)


def _gone(box, mark, seconds=4):
    end = time.monotonic() + seconds
    while time.monotonic() < end and _survivors(box, mark):
        time.sleep(0.05)
    left = _survivors(box, mark)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    return not left, "%d left" % len(left)


@check("tree-exit", "Processes", "when the command ends, so does everything it started")
def _(box):
    m = _mark()
    box.sh(STUBBORN % {"m": m} + "; sleep 0.2", opts=["--timeout", "5"])
    return _gone(box, m)


@check("tree-timeout", "Processes", "the deadline ends the whole tree")
def _(box):
    m = _mark()
    start = time.monotonic()
    r = box.sh(STUBBORN % {"m": m} + "; trap '' TERM; sleep 30", opts=["--timeout", "0.5"])
    took = time.monotonic() - start
    ok, left = _gone(box, m)
    return ok and r.code == 124 and r.json["timed_out"] and took < 10, "%s, exit %s" % (left, r.code)


@check("tree-killed", "Processes", "SIGKILL of brig ends the whole tree")
def _(box):
    m = _mark()
    p = box.who.popen([os.environ.get("BRIG") or box.who.brig_path, "run", "--workspace", box.who.ws,
                       *box.b.opts, "--", "sh", "-c", STUBBORN % {"m": m} + "; sleep %s" % m],
                      stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    end = time.monotonic() + 5
    while time.monotonic() < end and len(_survivors(box, m)) < 2:
        time.sleep(0.02)
    began = len(_survivors(box, m))
    p.kill()
    p.wait()
    ok, left = _gone(box, m)
    return ok and began >= 2, "%s of %d" % (left, began)


# -- between processes ---------------------------------------------------------
@check("abstract", "IPC", "an abstract socket of the host cannot be reached")
def _(box):
    name = "brig-contain-%s" % secrets.token_hex(6)
    with socket.socket(socket.AF_UNIX) as s:
        s.bind("\0" + name)
        s.listen(1)
        return box.probe("abstract", name)


@check("unix-path", "IPC", "a socket of the host outside the workspace cannot be reached")
def _(box):
    path = str(box.who.base / ("s-%s" % secrets.token_hex(4)))
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(path)
        os.chmod(path, 0o777)
        s.listen(1)
        try:
            return box.probe("unix-path", path)
        finally:
            os.unlink(path)


@check("sysv", "IPC", "System V objects of the host are not visible")
def _(box):
    key = secrets.randbelow(1 << 30) + 1
    made = box.who.host("/usr/bin/python3", "-c",
                        "import ctypes; print(ctypes.CDLL(None).shmget(%d, 4096, 0o1666))" % key)
    ident = made.stdout.decode().strip()
    try:
        return box.probe("sysv", str(key))
    finally:
        box.who.host("ipcrm", "-m", ident, check=False)


@check("shm", "IPC", "shared memory of the host cannot be opened")
def _(box):
    name = "brig-contain-%s" % secrets.token_hex(6)
    p = box.who.write("/dev/shm/" + name, "secret", 0o666)
    try:
        out = box.out("cat /dev/shm/%s; echo x >> /dev/shm/%s" % (name, name))
        return out == "" and p.read_text() == "secret", out
    finally:
        p.unlink()


# -- system calls --------------------------------------------------------------
_probe("syscalls", "System calls", "the table of refused calls")
_probe("clone-flags", "System calls", "no namespace by clone or unshare")
_probe("int80", "System calls", "the 32-bit table is closed")
_probe("families", "System calls", "socket families are refused")


@check("protocols", "System calls", "raw, netlink and odd protocols are refused")
def _(box):
    ok, said = box.probe("protocols")
    # with no socket at all not even the harmless one works
    return ok or "netlink route, which should work: EAFNOSUPPORT" in said, said


_probe("personality", "System calls", "only harmless personalities")

# -- network -------------------------------------------------------------------
_probe("only-lo", "Network", "the only interface is lo")
_probe("no-route", "Network", "the routing table is empty")
_probe("unreachable", "Network", "outside addresses cannot be reached")
_probe("fastopen", "Network", "nor by TCP fast open")


@check("udp", "Network", "no datagram leaves")
def _(box):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.bind(("127.0.0.1", 0))
        s.settimeout(0.3)
        box.run("/usr/bin/python3", "-c", "import socket\n"
                "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
                "s.sendto(b'out', ('127.0.0.1', %d))" % s.getsockname()[1])
        try:
            return False, "got %r" % s.recv(10)
        except TimeoutError:
            return True, "nothing came"


@check("host-port", "Network", "a service on the host's loopback cannot be reached")
def _(box):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen(1)
        return box.probe("host-port", str(s.getsockname()[1]))


def _with_list(box, port, text):
    """Runs Python with an allow-list of one name; what it said, or None where lists are refused."""
    r = box.run("/usr/bin/python3", "-c", "import socket\n" + text, opts=["--allow", "allowed.test:%d" % port])
    assert r.json, r
    if not r.json["ran"]:
        assert r.code == 125 and r.json["error"]["code"] == "UNSUPPORTED", r.json
        return None, r.json
    return (r.json["stdout"] or "").split(), r.json


@check("allow-around", "Network", "with an allow-list: not around it, by address, by UDP, to the host's loopback")
def _(box):
    with socket.socket() as s, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as u:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
        s.listen(8)
        s.settimeout(0.3)
        u.bind(("127.0.0.1", port))
        u.settimeout(0.3)
        said, j = _with_list(box, port, """
for kind, to in ((1, ('127.0.0.1', %(p)d)), (2, ('127.0.0.1', %(p)d)), (1, ('192.0.2.1', 80)), (1, ('192.0.2.1', %(p)d))):
    try:
        c = socket.socket(socket.AF_INET, kind)
        c.settimeout(2)
        c.connect(to)
        c.send(b'out')
        c.recv(1)
    except OSError as e:
        pass
print('tried')""" % {"p": port})
        if said is None:
            return None, "a list is refused: %s" % j["error"]["message"]
        for sock in (s, u):
            try:
                return False, "%r came" % (sock.accept() if sock is s else sock.recv(10),)
            except TimeoutError:
                pass
        return said == ["tried"], "nothing came"


@check("allow-name", "Network", "with an allow-list: another name is refused, and listed in the result")
def _(box):
    said, j = _with_list(box, 80, """
import urllib.request
try:
    urllib.request.urlopen('http://denied.test/', timeout=5)
    print('got')
except OSError:
    print('refused')""")
    if said is None:
        return None, "a list is refused: %s" % j["error"]["message"]
    listed = [d for d in j["denied"] if d["kind"] == "net" and d["target"].split(":")[0] == "denied.test"]
    return said == ["refused"] and bool(listed), "%s, %s" % (said, listed)


_probe("loopback", "Network", "the command's own servers on 127.0.0.1 work")


# -- resources -----------------------------------------------------------------
def _limit(layer, option, value, *probe):
    """Tried only where the result claims it: a bomb without a limit is a bomb."""
    def fn(box):
        if box.b.unconfined:
            return None, "tried only where brig can see that it holds"
        if layer in box.enforced():
            return box.probe(*probe, opts=[option, value], timeout=120)
        if os.geteuid() != 0:
            return None, NO_GROUP
        # ordinary users have no control group here; root's brig makes one
        as_user, box.who.as_user = box.who.as_user, lambda: {}
        try:
            return box.probe(*probe, opts=[option, value], timeout=120)
        finally:
            box.who.as_user = as_user
    CHECKS.append((probe[0], "Resources", "%s is limited" % layer, fn))


_limit("memory", "--memory", "64M", "memory-bomb", "256")
_limit("pids", "--pids", "64", "fork-bomb", "200")


@check("file-size", "Resources", "a file cannot grow beyond its limit")
def _(box):
    return box.probe("file-size", "4", str(box.who.ws), opts=["--file-size", "2M"])


@check("output", "Resources", "captured output is bounded")
def _(box):
    r = box.sh("yes | head -c 20000000", opts=["--max-output", "64K"])
    return len(r.json["stdout"]) <= 65536 and r.json["truncated"]["stdout"] > 1000000, \
        "%d kept" % len(r.json["stdout"])


HELD, MISSING, FAILED = "held", "missing by design", "FAILED"


def verdict(name, backend, fn, box):
    """(one of the three words, detail)."""
    ok, detail = fn(box)
    if ok is None:
        return MISSING, detail
    if ok:
        return HELD, detail
    reason = BY_DESIGN.get((name, backend))
    return (MISSING, reason) if reason else (FAILED, detail)


def login_account(name):
    """An account some wrappers need: with a shell that lets it in."""
    try:
        e = pwd.getpwnam(name)
        if "nologin" not in e.pw_shell and "false" not in e.pw_shell:
            return e.pw_uid, e.pw_gid
    except KeyError:
        pass
    other = name + "-sh"
    try:
        e = pwd.getpwnam(other)
    except KeyError:
        subprocess.run(["useradd", "--system", "--shell", "/bin/sh", other], check=True)
        e = pwd.getpwnam(other)
    return e.pw_uid, e.pw_gid


def published(path):
    """The cells of docs/containment.md: {(check, backend): word}."""
    cells, columns = {}, []
    try:
        lines = open(path).read().splitlines()
    except OSError:
        return cells
    for line in lines:
        parts = [x.strip() for x in line.strip("|").split("|")]
        if line.startswith("| check |"):
            columns = parts[2:]
        elif line.startswith("| `") and columns:
            for backend, word in zip(columns, parts[2:]):
                cells[(parts[0].strip("`"), backend)] = MISSING if word == "by design" else word
    return cells
