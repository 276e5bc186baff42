# SPDX-License-Identifier: Apache-2.0
"""The servers of the lab: DNS, web, proxies, echo.  Run in their own namespace.

Each thing that is asked of them is a line of JSON in DIR/internet.log.  With
"trap" only a server on loopback port 80, 443 and 7000 that nobody may reach.
"""
import base64
import hashlib
import json
import os
import socket
import ssl
import struct
import sys
import threading
import time

DIR = sys.argv[1]
lock = threading.Lock()
# name → A and AAAA; a list of lists takes turns
ZONE = {
    "allowed.test": (["192.0.2.10"], []),
    "second.test": (["192.0.2.10"], []),
    "other.test": (["192.0.2.10"], []),
    "denied.test": (["192.0.2.10"], []),
    "six.test": ([], ["2001:db8::10"]),
    "mixed.test": (["192.0.2.98", "192.0.2.10"], ["2001:db8::10"]),
    "a.wild.test": (["192.0.2.10"], []),
    "b.c.wild.test": (["192.0.2.11"], []),
    "wild.test": (["192.0.2.10"], []),
    "loop.test": (["127.0.0.1"], ["::1"]),
    "zero.test": (["0.0.0.0"], ["::"]),
    "meta.test": (["169.254.169.254"], []),
    "azure.test": (["168.63.129.16"], []),
    "private.test": (["10.9.9.9"], ["fd00:1::1"]),
    "cgnat.test": (["100.64.1.1"], []),
    "mapped.test": ([], ["::ffff:10.9.9.9", "::ffff:127.0.0.1", "::127.0.0.1"]),
    "nat64.test": ([], ["64:ff9b::a09:909", "64:ff9b::7f00:1", "2002:7f00:1::"]),
    "own.test": (["203.0.113.1"], ["2001:db8:ffff::1"]),
    "half.test": (["127.0.0.1", "192.0.2.10", "10.9.9.9"], []),
    "down.test": (["203.0.113.2"], []),     # nothing listens on its ports
    "hole.test": (["192.0.2.98"], []),      # nothing answers
    "rebind.test": ([["192.0.2.10"], ["127.0.0.1"], ["169.254.169.254"]], []),
    "slow.test": (["192.0.2.10"], []),
    "never.test": (["192.0.2.10"], []),
    "big.test": (["192.0.2.10"], []),       # only by TCP: the UDP answer is cut
    "proxy.test": (["203.0.113.2"], []),
}
turns = {}


def log(kind, *detail):
    with lock, open(os.path.join(DIR, "internet.log"), "a") as f:
        f.write(json.dumps([kind, *detail]) + "\n")


def dns_reply(q):
    labels, at = [], 12
    while q[at]:
        labels.append(q[at + 1:at + 1 + q[at]].decode("latin-1").lower())
        at += 1 + q[at]
    name = ".".join(labels)
    qtype, = struct.unpack("!H", q[at + 1:at + 3])
    log("dns", name, qtype)
    if name == "never.test":
        return None
    if name == "slow.test":
        time.sleep(0.3)
    four, six = ZONE.get(name, (None, None))
    if four and isinstance(four[0], list):
        if qtype == 1:
            turns[name] = turns.get(name, -1) + 1
        four = four[turns.get(name, 0) % len(four)]
    ttl = 0 if name == "rebind.test" else 30
    rr, n = b"", 0
    for a in {1: four, 28: six}.get(qtype) or []:
        data = socket.inet_pton(socket.AF_INET if qtype == 1 else socket.AF_INET6, a)
        rr += struct.pack("!HHHIH", 0xc00c, qtype, 1, ttl, len(data)) + data
        n += 1
    rcode = 3 if four is None else 0
    return q[:2] + struct.pack("!HHHHH", 0x8180 | rcode, 1, n, 0, 0) + q[12:at + 5] + rr


def dns_tcp(conn):
    f = conn.makefile("rb")
    while True:
        head = f.read(2)
        if not head:
            return
        r = dns_reply(f.read(struct.unpack("!H", head)[0]))
        if r:
            conn.sendall(struct.pack("!H", len(r)) + r)


def dns_udp():
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.bind(("192.0.2.53", 53))

    def one(data, peer):
        r = dns_reply(data)
        if r and b"\x03big\x04test" in data:
            r = r[:2] + b"\x83\x80" + r[4:6] + b"\0\0" + r[8:12] + data[12:]
        if r:
            s.sendto(r, peer)
    while True:
        data, peer = s.recvfrom(2048)
        threading.Thread(target=one, args=(data, peer), daemon=True).start()


def read_head(f):
    lines = []
    while True:
        line = f.readline(65536)
        if not line:
            return None
        if line in (b"\r\n", b"\n"):
            return lines
        lines.append(line.decode("latin-1").rstrip("\r\n"))


def headers(lines):
    return {k.lower(): v.strip() for k, _, v in (x.partition(":") for x in lines[1:])}


def web(conn, tls, what):
    f = conn.makefile("rwb")
    while True:
        head = read_head(f)
        if not head:
            return
        h = headers(head)
        sni = getattr(conn, "sni", None)
        log(what, head[0], h.get("host"), sni)
        body = f.read(int(h.get("content-length", 0)))
        if h.get("transfer-encoding") == "chunked":
            body = b""
            while True:
                n = int(f.readline().split(b";")[0], 16)
                body += f.read(n)
                f.readline()
                if not n:
                    break
        path = head[0].split(" ")[1]
        if h.get("upgrade", "").lower() == "websocket" and path == "/ws":
            key = base64.b64encode(hashlib.sha1(
                h["sec-websocket-key"].encode() +
                b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest())
            f.write(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
                    b"Connection: Upgrade\r\nSec-WebSocket-Accept: " + key + b"\r\n\r\n")
            f.flush()
            while True:
                data = conn.recv(4096)
                if not data:
                    return
                conn.sendall(data)
        if path.startswith("/big/"):
            n = int(path.split("/")[2])
            f.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % n)
            while n:
                k = min(n, 1 << 16)
                f.write(b"x" * k)
                n -= k
            f.flush()
            return
        text = json.dumps({"hello": h.get("host"), "sni": sni, "got": len(body),
                           "sum": hashlib.sha256(body).hexdigest(), "line": head[0],
                           "path": path}).encode()
        close = h.get("connection", "").lower() == "close" or head[0].endswith("1.0")
        f.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n"
                b"%s\r\n" % (len(text), b"Connection: close\r\n" if close else b"") + text)
        f.flush()
        if close:
            return


def web_tls(conn, what, curve=None):
    ctx = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ctx.load_cert_chain(os.path.join(DIR, "server.pem"), os.path.join(DIR, "server.key"))
    if curve:  # clients begin with another one: they are asked for a second hello
        ctx.set_ecdh_curve(curve)
    ctx.set_alpn_protocols(["http/1.1"])

    class Named(ssl.SSLSocket):
        sni = None
    ctx.sslsocket_class = Named

    def name(sock, sni, _ctx):
        sock.sni = sni
        log("sni", sni)
    ctx.sni_callback = name
    with ctx.wrap_socket(conn, server_side=True) as t:
        web(t, True, what)


def echo(conn, what):
    """The server speaks first."""
    conn.sendall(b"220 welcome\r\n")
    total = 0
    while True:
        data = conn.recv(65536)
        log(what, len(data), data[:40].decode("latin-1")) if total == 0 else None
        if not data:
            break
        total += len(data)
        conn.sendall(data)


def sink(conn, what):
    """Reads everything, then says how much it was."""
    total = 0
    while True:
        data = conn.recv(1 << 16)
        if not data:
            break
        total += len(data)
    log(what, total)
    conn.sendall(b"%d\n" % total)


def mute(conn, what):
    """Never speaks, never reads."""
    log(what)
    time.sleep(60)


def splice(a, b):
    try:
        while True:
            data = a.recv(65536)
            if not data:
                b.shutdown(socket.SHUT_WR)
                return
            b.sendall(data)
    except OSError:
        pass


def proxy(conn, what, auth=None):
    f = conn.makefile("rb", buffering=0)
    head = read_head(f)
    if not head:
        return
    h = headers(head)
    log(what, head[0], h.get("proxy-authorization"))
    if auth and h.get("proxy-authorization") != "Basic " + base64.b64encode(auth).decode():
        conn.sendall(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
        return
    host = head[0].split(" ")[1].rpartition(":")
    four = ZONE.get(host[0], (None,))[0]
    if not four:
        conn.sendall(b"HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n")
        return
    up = socket.create_connection((four[0], int(host[2])))
    conn.sendall(b"HTTP/1.1 200 OK\r\nVia: lab\r\n\r\n")
    t = threading.Thread(target=splice, args=(up, conn), daemon=True)
    t.start()
    splice(conn, up)
    t.join()


def serve(port, handler, *args, address="::"):
    s = socket.socket(socket.AF_INET6, socket.SOCK_STREAM)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    s.bind((address, port))
    s.listen(256)

    def one(conn):
        try:
            with conn:
                handler(conn, *args)
        except OSError:
            pass
        except Exception as e:
            log("error", repr(e))

    def loop():
        while True:
            conn, peer = s.accept()
            # the second place where an address that should not be reached is seen
            local = conn.getsockname()[0].replace("::ffff:", "")
            log("tcp", local, port)
            threading.Thread(target=one, args=(conn,), daemon=True).start()
    threading.Thread(target=loop, daemon=True).start()


def main():
    if len(sys.argv) > 2:
        for port in (80, 443, 7000):
            serve(port, echo, "trap")
    else:
        threading.Thread(target=dns_udp, daemon=True).start()
        serve(53, dns_tcp, address="::ffff:192.0.2.53")
        serve(80, web, False, "http")
        serve(8080, web, False, "http")
        serve(443, web_tls, "https")
        serve(444, web_tls, "https", "prime256v1")
        serve(8443, web_tls, "https")
        serve(7000, echo, "echo")
        serve(22, echo, "echo")
        serve(7001, sink, "sink")
        serve(7002, mute, "mute")
        serve(3128, proxy, "proxy")
        serve(3129, proxy, "proxy", b"user:secret")
    print("ready", flush=True)
    threading.Event().wait()


main()
