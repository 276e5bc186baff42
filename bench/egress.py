#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What the way through brig-egress costs, in one run on one machine:

    direct   client and server on one loopback
    egress   client in a sandbox's namespace, brig-egress, the same server
    chain    the same through socat, a unix socket and a CONNECT proxy in Python

bench/egress.py [BUILD [CONGESTION]]; prints Markdown.  Everything lives in namespaces
made here.  CONGESTION (reno, cubic, bbr) is what all sockets there begin with; without
it, what the host has.  It matters: bbr paces itself even on loopback, and what brig
keeps on the machine does not.

The first byte is measured in short turns, the ways one after the other: whether the
cores sleep and on which of them the processes run changes from second to second.
"""
import os
import shutil
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tests", "tools"))
import egress_lab as lab  # noqa: E402

BUILD = os.path.abspath(sys.argv[1]) if len(sys.argv) > 1 else os.path.join(ROOT, "build")
TOOL = os.path.join(BUILD, "tests", "netbench")
SERVER, PORT = "192.0.2.10", 900
ROUNDS, TURNS, FIRST, BYTES = 7, 4, 400, 1 << 30

PROXY = r"""
import asyncio, sys
async def pipe(r, w):
    try:
        while True:
            d = await r.read(65536)
            if not d: break
            w.write(d); await w.drain()
    except ConnectionError: pass
    finally: w.close()
async def one(r, w):
    head = await r.readuntil(b"\r\n\r\n")
    host, port = head.split(b" ")[1].decode().rsplit(":", 1)
    r2, w2 = await asyncio.open_connection(host, int(port))
    w.write(b"HTTP/1.1 200 OK\r\n\r\n")
    await asyncio.gather(pipe(r, w2), pipe(r2, w))
async def main():
    s = await asyncio.start_unix_server(one, sys.argv[1])
    print("ready", flush=True)
    await s.serve_forever()
asyncio.run(main())
"""


def dns():
    """bench.test is SERVER."""
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.bind((lab.DNS_SERVER, 53))
    while True:
        q, peer = s.recvfrom(600)
        end = q.index(b"\0", 12) + 5
        one = q[end - 3] == 1
        rr = struct.pack("!HHHIH", 0xc00c, 1, 1, 60, 4) + socket.inet_aton(SERVER)
        s.sendto(q[:2] + b"\x81\x80" + struct.pack("!HHHH", 1, int(one), 0, 0) + q[12:end] +
                 (rr if one else b""), peer)


def measure(space, what, host, count, proxy=None):
    args = [TOOL, what, host, str(PORT), str(count)] + ([str(proxy)] if proxy else [])
    if space:
        p = space.run(args, timeout=120)
        out = p.out
    else:
        out = subprocess.run(args, stdout=subprocess.PIPE, check=True).stdout
    return float(out)


def congestion(name=None):
    """Sets it for this namespace; which it is."""
    path = "/proc/sys/net/ipv4/tcp_congestion_control"
    if name:
        with open(path, "w") as f:
            f.write(name)
    with open(path) as f:
        return f.read().strip()


def started(args, **kw):
    p = subprocess.Popen(args, stdout=subprocess.PIPE,
                         preexec_fn=lambda: lab.libc.prctl(1, 9), **kw)
    assert p.stdout.readline() == b"ready\n"
    return p


def main():
    lab.move_to_host()
    want = sys.argv[2] if len(sys.argv) > 2 else None
    which = congestion(want)
    for a in (SERVER, lab.DNS_SERVER):
        lab.ip("addr", "add", a + "/32", "dev", "lo")
    box = lab.Space()
    with box.inside():
        lab.sandbox_routes()
        congestion(want)
    threading.Thread(target=dns, daemon=True).start()
    d = tempfile.mkdtemp()
    mine = [started([TOOL, "serve", str(PORT)])]
    sock = os.path.join(d, "proxy")
    chain = shutil.which("socat")
    if chain:
        mine.append(started([sys.executable, "-c", PROXY, sock]))
        mine.append(box.popen([chain, "TCP-LISTEN:3129,fork,reuseaddr,bind=127.0.0.1",
                               "UNIX-CONNECT:" + sock]))
    t = time.perf_counter()
    eg = lab.Egress(os.path.join(BUILD, "brig-egress"), box,
                    ["bench.test:%d" % PORT, "%s:%d" % (SERVER, PORT)], ports=(PORT,),
                    conns_per_s=100000, connect=3128)
    start_ms = (time.perf_counter() - t) * 1e3
    with box.inside():
        u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    u.sendto(b"\x42\x42\1\0\0\1\0\0\0\0\0\0\5bench\4test\0\0\1\0\1", (lab.RESOLVER4, 53))
    addr = socket.inet_ntoa(u.recv(600)[-4:])
    ways = {"direct": (None, SERVER, None), "egress": (box, addr, None),
            "egress CONNECT": (box, "bench.test", 3128)}
    if chain:
        time.sleep(0.3)
        ways["chain"] = (box, SERVER, 3129)
    got = {w: {"first": [], "down": [], "up": []} for w in ways}
    try:
        for _ in range(ROUNDS):
            for _ in range(TURNS):
                for w, (space, host, proxy) in ways.items():
                    got[w]["first"].append(measure(space, "first", host,
                                                   FIRST // (10 if w == "chain" else 1), proxy))
            for w, (space, host, proxy) in ways.items():
                slow = w == "chain"
                for what in ("down", "up"):
                    got[w][what].append(measure(space, what, host, BYTES // (8 if slow else 1), proxy))
                eg.forget()
    finally:
        for p in mine:
            p.kill()
            p.wait()
        eg.close()
        box.close()
        shutil.rmtree(d)
    med = {w: {k: statistics.median(v) for k, v in x.items()} for w, x in got.items()}
    base = med["direct"]
    print(f"Congestion control: {which}.  Medians of {ROUNDS} rounds, of the first byte "
          f"{ROUNDS * TURNS}; started and ready in {start_ms:.1f} ms.\n")
    print("| way | first byte, µs | × | down, MB/s | × | up, MB/s | × |")
    print("|---|---|---|---|---|---|---|")
    for w, m in med.items():
        print(f"| {w} | {m['first']:.0f} | {m['first'] / base['first']:.1f} "
              f"| {m['down']:.0f} | {m['down'] / base['down']:.2f} "
              f"| {m['up']:.0f} | {m['up'] / base['up']:.2f} |")


main()
