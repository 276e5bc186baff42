# SPDX-License-Identifier: Apache-2.0
"""A world for brig-egress without brig: three network namespaces.

    sandbox   lo and the synthetic ranges, the listeners; clients run here
    host      where brig-egress runs (the calling process is moved into it)
    internet  a DNS server, web servers, a proxy, and traps that must not be reached

The caller's own namespaces and files are not touched: everything lives in
namespaces made here, and ends with the processes started here.
"""
import contextlib
import ctypes
import ctypes.util
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

libc = ctypes.CDLL(None, use_errno=True)
NEWNS, NEWUSER, NEWNET = 0x20000, 0x10000000, 0x40000000
MS_BIND, MS_REC, MS_PRIVATE = 4096, 16384, 1 << 18

RESOLVER4, RESOLVER6 = "198.18.0.1", "fd62:7269:6720::1"
DNS_SERVER = "192.0.2.53"
HERE = os.path.dirname(os.path.abspath(__file__))


def check(r, what):
    if r < 0:
        e = ctypes.get_errno()
        raise OSError(e, f"{what}: {os.strerror(e)}")


def unshare(flags):
    check(libc.unshare(flags), "unshare")


def setns(fd, kind):
    check(libc.setns(fd, kind), "setns")


def mount(src, dst, flags):
    check(libc.mount(os.fsencode(src), os.fsencode(dst), None, flags, None), f"mount {dst}")


def ip(*words):
    subprocess.run(["ip", *words], check=True)


# --- wire.h -------------------------------------------------------------------

U8, U16, U32, U64, I32 = (ctypes.c_uint8, ctypes.c_uint16, ctypes.c_uint32,
                          ctypes.c_uint64, ctypes.c_int32)
TYPES = ["", "CONFIG", "ALLOW", "SOCKET", "AUDIT", "START", "READY", "OPEN", "EVENT", "FATAL",
         "DIRECT", "WHO"]
T = {n: i for i, n in enumerate(TYPES)}
ROLES = {n: i for i, n in enumerate(
    ["", "dns_udp", "dns_tcp", "port", "redirect", "connect", "socks"])}
PRIVATE_OK, TELL_OPEN, LEARN = 1, 2, 4


class Config(ctypes.Structure):
    _fields_ = [("version", U32), ("flags", U32), ("max_conns", U32), ("conns_per_s", U32),
                ("connect_ms", U32), ("idle_ms", U32), ("head_ms", U32), ("proxy_port", U16),
                ("pad", U16), ("id", ctypes.c_char * 64), ("proxy_host", ctypes.c_char * 256),
                ("proxy_auth", ctypes.c_char * 128), ("dns", ctypes.c_char * 64),
                ("client_auth", ctypes.c_char * 128)]


class Allow(ctypes.Structure):
    _fields_ = [("entry", ctypes.c_char * 400)]


class Socket(ctypes.Structure):
    _fields_ = [("role", U32), ("port", U16), ("pad", U16)]


class Event(ctypes.Structure):
    _fields_ = [("serial", U64), ("time_ms", U64), ("bytes_up", U64), ("bytes_down", U64),
                ("ms", U32), ("count", U32), ("lost", U32), ("errnum", I32),
                ("verdict", U8), ("reason", U8), ("via", U8), ("client_family", U8),
                ("client_addr", U8 * 16), ("client_port", U16), ("port", U16),
                ("called_addr", U8 * 16), ("called_port", U16),
                ("ech", U8), ("ended", U8), ("pad", U8 * 4), ("name", ctypes.c_char * 256),
                ("sni", ctypes.c_char * 256)]


class Who(ctypes.Structure):
    _fields_ = [("serial", U64), ("pid", U32), ("holders", U32), ("unseen", U32), ("pad", U32), ("comm", ctypes.c_char * 16),
                ("command", ctypes.c_char * 256)]


def who_of(serial, pid, holders, comm, command):
    return Who(serial, pid, holders, 0, 0, comm, command)


class Fatal(ctypes.Structure):
    _fields_ = [("errnum", I32), ("what", ctypes.c_char * 400)]


class Body(ctypes.Union):
    _fields_ = [("config", Config), ("allow", Allow), ("socket", Socket), ("event", Event),
                ("fatal", Fatal), ("direct", Allow), ("who", Who)]


class Msg(ctypes.Structure):
    _fields_ = [("type", U32), ("size", U32), ("body", Body)]


def words_of(macro):
    """The words of an enum in wire.h, in order."""
    import re
    text = open(os.path.join(HERE, "../../src/egress/wire.h")).read()
    text = text[text.index("#define " + macro):]
    text = text[:text.index("\n\n")]
    return [""] + re.findall(r'X\(EG_\w+,(?: EG_\w+,)? "([a-z0-9-]+)"\)', text)


VERDICTS, REASONS, VIAS = (words_of(m) for m in ("EG_VERDICTS", "EG_REASONS", "EG_VIAS"))


# --- namespaces ---------------------------------------------------------------

class Space:
    """A process that holds a network (and mount) namespace."""

    def __init__(self, resolv=None):
        r, w = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                os.close(r)
                libc.prctl(1, signal.SIGKILL)
                unshare(NEWNET | NEWNS)
                mount("none", "/", MS_REC | MS_PRIVATE)
                if resolv:
                    for name, text in resolv.items():
                        f = tempfile.NamedTemporaryFile("w", delete=False)
                        f.write(text)
                        f.close()
                        os.chmod(f.name, 0o644)
                        mount(f.name, name, MS_BIND)
                        os.unlink(f.name)
                os.write(w, b"1")
                while True:
                    signal.pause()
            except BaseException as e:
                print("space:", e, file=sys.stderr)
            finally:
                os._exit(1)
        os.close(w)
        if os.read(r, 1) != b"1":
            raise RuntimeError("no namespace")
        os.close(r)
        self.net = os.open(f"/proc/{self.pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        self.mnt = os.open(f"/proc/{self.pid}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)

    @contextlib.contextmanager
    def inside(self):
        """The calling thread's network is this one's for a while."""
        back = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        setns(self.net, NEWNET)
        try:
            yield
        finally:
            setns(back, NEWNET)
            os.close(back)

    def enter(self):
        """For preexec_fn: become a process of it."""
        setns(self.net, NEWNET)
        setns(self.mnt, NEWNS)

    def popen(self, args, **kw):
        cwd = kw.pop("cwd", None)

        def pre():
            libc.prctl(1, signal.SIGKILL)
            self.enter()
            if cwd:
                os.chdir(cwd)
        return subprocess.Popen(args, preexec_fn=pre, **kw)

    def run(self, args, timeout=20, input=None, env=None):
        p = self.popen(args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env,
                       stdin=subprocess.PIPE if input is not None else subprocess.DEVNULL)
        start = time.monotonic()
        try:
            out, err = p.communicate(input, timeout=timeout)
        except subprocess.TimeoutExpired:
            p.kill()
            out, err = p.communicate()
        p.took = time.monotonic() - start
        p.out, p.err = out, err
        return p

    def close(self):
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.net)
        os.close(self.mnt)


def move_to_host():
    """Moves this process into namespaces of its own.  Once, at the start."""
    if os.geteuid() != 0:
        uid, gid = os.geteuid(), os.getegid()
        unshare(NEWUSER | NEWNET)
        for name, text in (("setgroups", "deny"), ("uid_map", f"0 {uid} 1"),
                           ("gid_map", f"0 {gid} 1")):
            with open(f"/proc/self/{name}", "w") as f:
                f.write(text)
    else:
        unshare(NEWNET)
    ip("link", "set", "lo", "up")


SANDBOX_FILES = {
    "/etc/resolv.conf": f"nameserver {RESOLVER4}\nnameserver {RESOLVER6}\n"
                        "options timeout:2 attempts:1\n",
    "/etc/hosts": "127.0.0.1 localhost\n::1 localhost\n",
    "/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
}


def sandbox_routes():
    """As netns_allow.c makes them, in the namespace we are in."""
    ip("link", "set", "lo", "up")
    for family, net in (("-4", "198.18.0.0/15"), ("-6", "fd62:7269:6720::/64")):
        ip(family, "route", "add", "local", net, "dev", "lo", "congctl", "reno")


class World:
    """The namespaces, wired; `internet` serves what egress_internet.py serves."""

    def __init__(self, directory):
        self.dir = str(directory)
        self.internet = Space()
        self.sandbox = Space({k: v for k, v in SANDBOX_FILES.items() if os.path.exists(k)})
        ip("link", "add", "v0", "type", "veth", "peer", "name", "v1", "netns",
           str(self.internet.pid))
        ip("addr", "add", "203.0.113.1/24", "dev", "v0")
        ip("addr", "add", "2001:db8:ffff::1/64", "dev", "v0", "nodad")
        ip("link", "set", "v0", "up")
        with self.internet.inside():
            ip("link", "set", "lo", "up")
            ip("addr", "add", "203.0.113.2/24", "dev", "v1")
            ip("addr", "add", "2001:db8:ffff::2/64", "dev", "v1", "nodad")
            ip("link", "set", "v1", "up")
            for a in ("192.0.2.10", "192.0.2.11", DNS_SERVER, "198.51.100.7", "10.9.9.9",
                      "169.254.169.254", "100.64.1.1", "168.63.129.16"):
                ip("addr", "add", a + "/32", "dev", "lo")
            for a in ("2001:db8::10", "fd00:1::1"):
                ip("addr", "add", a + "/128", "dev", "lo", "nodad")
            ip("route", "add", "blackhole", "192.0.2.98/32")
        ip("route", "add", "default", "via", "203.0.113.2")
        ip("-6", "route", "add", "default", "via", "2001:db8:ffff::2")
        with self.sandbox.inside():
            sandbox_routes()
        self.log_file = os.path.join(self.dir, "internet.log")
        open(self.log_file, "w").close()
        self.make_ca()
        self.server = self.internet.popen(
            [sys.executable, os.path.join(HERE, "egress_internet.py"), self.dir],
            stdout=subprocess.PIPE)
        if self.server.stdout.readline() != b"ready\n":
            raise RuntimeError("the servers did not start")
        # the same trap on the host's own loopback
        self.trap = subprocess.Popen(
            [sys.executable, os.path.join(HERE, "egress_internet.py"), self.dir, "trap"],
            stdout=subprocess.PIPE, preexec_fn=lambda: libc.prctl(1, signal.SIGKILL))
        if self.trap.stdout.readline() != b"ready\n":
            raise RuntimeError("the trap did not start")

    def make_ca(self):
        def openssl(*words):
            subprocess.run(["openssl", *words], cwd=self.dir, check=True,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        names = ["allowed.test", "*.wild.test", "denied.test", "other.test", "six.test",
                 "mixed.test", "second.test"]
        with open(os.path.join(self.dir, "ext"), "w") as f:
            f.write("subjectAltName=" + ",".join("DNS:" + n for n in names) +
                    ",IP:192.0.2.10,IP:192.0.2.11\n")
        ec = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
        openssl("req", "-x509", *ec, "-keyout", "ca.key", "-out", "ca.pem", "-subj",
                "/CN=lab", "-days", "2")
        openssl("req", *ec, "-keyout", "server.key", "-out", "server.csr", "-subj", "/CN=lab")
        openssl("x509", "-req", "-in", "server.csr", "-CA", "ca.pem", "-CAkey", "ca.key",
                "-CAcreateserial", "-out", "server.pem", "-days", "2", "-extfile", "ext")
        self.ca = os.path.join(self.dir, "ca.pem")

    def log(self):
        """What the servers saw: (kind, detail) pairs."""
        with open(self.log_file) as f:
            return [tuple(json.loads(line)) for line in f if line.endswith("\n")]

    def forget(self):
        with open(self.log_file, "w"):
            pass

    def close(self):
        for p in (self.server, self.trap):
            p.kill()
            p.wait()
            p.stdout.close()
        self.sandbox.close()
        self.internet.close()
        subprocess.run(["ip", "link", "del", "v0"], stderr=subprocess.DEVNULL)


class Egress:
    """brig-egress for a sandbox, as brig would start it."""

    def __init__(self, exe, sandbox, allow, ports=(), redirect=0, connect=0, socks=0,
                 audit=None, start=True, dns=DNS_SERVER + ":53", dns_sockets=True, six=True, direct=(),
                 **config):
        self.events_seen = []
        self.opened = []
        self.who = None  # called for each EG_OPEN: (pid, holders, comm, command)
        self.fatal = None
        self.ctl, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.ctl.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
        theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8 << 20)
        err = os.environ.get("EGRESS_STDERR")
        self.pid = os.fork()
        if self.pid == 0:
            try:
                libc.prctl(1, signal.SIGKILL)
                if err:
                    os.dup2(os.open(err, os.O_WRONLY | os.O_CREAT | os.O_APPEND), 2)
                os.dup2(theirs.fileno(), 3)
                os.execve(exe, ["brig-egress"], {"SECRET": "1"})
            finally:
                os._exit(127)
        theirs.close()
        self.status = None
        if not start:
            return
        self.config(dns=dns, **config)
        for entry in allow:
            self.send("ALLOW", allow=Allow(entry.encode()))
        for item in direct:
            self.send("DIRECT", direct=Allow(item.encode()))
        self.sockets = []
        with sandbox.inside():
            if dns_sockets:
                for family, address in ((socket.AF_INET, RESOLVER4), (socket.AF_INET6, RESOLVER6)):
                    self.listen("dns_udp", family, address, 53, socket.SOCK_DGRAM)
                    self.listen("dns_tcp", family, address, 53)
            for port in ports:
                self.listen("port", *((socket.AF_INET6, "::") if six else
                                      (socket.AF_INET, "0.0.0.0")), port)
            for role, port in (("redirect", redirect), ("connect", connect), ("socks", socks)):
                if port:
                    self.listen(role, socket.AF_INET6 if role == "redirect" else
                                socket.AF_INET, "::" if role == "redirect" else "127.0.0.1", port)
        for role, port, s in self.sockets:
            self.send("SOCKET", fd=s.fileno(), socket=Socket(ROLES[role], port))
            s.close()
        if audit:
            fd = os.open(audit, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            self.send("AUDIT", fd=fd)
            os.close(fd)
        self.send("START")
        self.wait_ready()

    def config(self, id="01TEST", dns="", flags=0, proxy=None, proxy_auth="", client_auth="", **numbers):
        c = Config(version=numbers.pop("version", 2), flags=flags, id=id.encode(),
                   dns=dns.encode(), proxy_auth=proxy_auth.encode(), client_auth=client_auth.encode())
        if proxy:
            c.proxy_host, c.proxy_port = proxy[0].encode(), proxy[1]
        for k, v in numbers.items():
            setattr(c, k, v)
        self.send("CONFIG", config=c)

    def listen(self, role, family, address, port, kind=socket.SOCK_STREAM):
        s = socket.socket(family, kind)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0 if address == "::" else 1)
            # an address that only a local route makes ours is not "assigned"
            s.setsockopt(socket.IPPROTO_IPV6, 78, 1)  # IPV6_FREEBIND
        s.bind((address, port))
        if kind == socket.SOCK_STREAM:
            s.listen(512)
        self.sockets.append((role, port if role == "port" else 0, s))

    def send(self, kind, fd=None, size=None, raw=None, **body):
        m = Msg(T.get(kind, kind), ctypes.sizeof(Msg))
        for k, v in body.items():
            setattr(m.body, k, v)
        data = raw if raw is not None else bytes(m)
        if size:
            m.size = size
            data = bytes(m)
        anc = []
        fds = fd if isinstance(fd, list) else [fd] if fd is not None else []
        if fds:
            anc = [(socket.SOL_SOCKET, socket.SCM_RIGHTS,
                    struct.pack(f"{len(fds)}i", *fds))]
        self.ctl.sendmsg([data], anc)

    def receive(self, timeout):
        if not select.select([self.ctl], [], [], timeout)[0]:
            return None
        try:
            data = self.ctl.recv(65536)
        except ConnectionResetError:
            data = b""
        if not data:
            return False
        m = Msg.from_buffer_copy(data)
        assert len(data) == m.size == ctypes.sizeof(Msg)
        return m

    def wait_ready(self, timeout=10):
        m = self.receive(timeout)
        if m is None:
            raise RuntimeError("not ready")
        if m is False:
            raise RuntimeError("egress ended: %s" % self.wait())
        if m.type == T["FATAL"]:
            self.fatal = (m.body.fatal.errnum, m.body.fatal.what.decode())
            return
        assert m.type == T["READY"], m.type

    def pump(self, timeout=0.0):
        while True:
            m = self.receive(timeout)
            if not m:
                return
            timeout = 0
            e = m.body.event
            d = {k: getattr(e, k) for k in ("serial", "bytes_up", "bytes_down", "ms", "count",
                                            "lost", "errnum", "client_port", "port", "ech",
                                            "called_port")}
            d.update(verdict=VERDICTS[e.verdict], reason=REASONS[e.reason] if e.reason else "",
                     ended=REASONS[e.ended] if e.ended else "", via=VIAS[e.via], name=e.name.decode(), sni=e.sni.decode())
            (self.events_seen if m.type == T["EVENT"] else self.opened).append(d)
            if m.type == T["OPEN"] and self.who:
                self.send("WHO", who=who_of(e.serial, *self.who(d)))

    def events(self, want=1, seconds=3.0, **match):
        """Events with these values, waited for."""
        end = time.monotonic() + seconds
        while True:
            self.pump(0.02)
            found = [e for e in self.events_seen if all(e[k] == v for k, v in match.items())]
            if len(found) >= want or time.monotonic() > end:
                return found

    def forget(self):
        self.pump()
        self.events_seen.clear()
        self.opened.clear()

    def wait(self, seconds=5):
        end = time.monotonic() + seconds
        while self.status is None and time.monotonic() < end:
            pid, st = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.status = st
                break
            time.sleep(0.01)
        return self.status

    def alive(self):
        return self.wait(0.01) is None

    def count_fds(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def memory_kb(self):
        with open(f"/proc/{self.pid}/status") as f:
            return int(next(x for x in f if x.startswith("VmRSS")).split()[1])

    def close(self):
        self.ctl.close()
        if self.wait(3) is None:
            os.kill(self.pid, signal.SIGKILL)
            self.wait(3)
