# SPDX-License-Identifier: Apache-2.0
"""Real services in the lab's internet, beside those of egress_internet.py:

    944   git over HTTPS: git's own http-backend behind a small server
    5432  a database's protocol: the client speaks first, in binary, then queries

egress_services.py DIR, where server.pem and server.key are; repositories are in
DIR/git.
"""
import http.server
import os
import socket
import socketserver
import ssl
import struct
import subprocess
import sys
import threading

DIR = sys.argv[1]


class Git(http.server.BaseHTTPRequestHandler):
    """CGI for one program."""
    protocol_version = "HTTP/1.1"

    def run(self):
        path, _, query = self.path.partition("?")
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        env = {"PATH": os.environ["PATH"], "GIT_PROJECT_ROOT": os.path.join(DIR, "git"),
               "GIT_HTTP_EXPORT_ALL": "1", "PATH_INFO": path, "QUERY_STRING": query,
               "REQUEST_METHOD": self.command, "REMOTE_USER": "lab", "REMOTE_ADDR": "192.0.2.1",
               "CONTENT_TYPE": self.headers.get("Content-Type", ""),
               "CONTENT_LENGTH": str(len(body)),
               "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
               "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
               "GIT_CONFIG_NOSYSTEM": "1", "HOME": DIR, "GIT_CONFIG_COUNT": "1",
               "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*"}
        p = subprocess.run(["git", "http-backend"], input=body, env=env, stdout=subprocess.PIPE)
        head, _, out = p.stdout.partition(b"\r\n\r\n")
        lines = [x.split(": ", 1) for x in head.decode().split("\r\n") if ": " in x]
        status = next((v for k, v in lines if k == "Status"), "200 OK")
        self.send_response(int(status.split()[0]))
        for k, v in lines:
            if k != "Status":
                self.send_header(k, v)
        self.send_header("Content-Length", str(len(out)))
        self.end_headers()
        self.wfile.write(out)

    do_GET = do_POST = run

    def log_message(self, *args):
        pass


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = daemon_threads = True

    def get_request(self):
        conn, peer = self.socket.accept()
        return CONTEXT.wrap_socket(conn, server_side=True, do_handshake_on_connect=False), peer


def message(kind, body):
    return kind + struct.pack("!I", len(body) + 4) + body


def database(conn):
    """Nothing is said before the client's first packet; every query is answered by
    its own length."""
    with conn, conn.makefile("rb") as f:
        size, version = struct.unpack("!II", f.read(8))
        if version != 196608:
            return
        f.read(size - 8)
        conn.sendall(message(b"R", b"\0\0\0\0") + message(b"Z", b"I"))
        while True:
            kind = f.read(1)
            if kind in (b"", b"X"):
                return
            size, = struct.unpack("!I", f.read(4))
            text = f.read(size - 4)
            conn.sendall(message(b"D", b"%d" % len(text)) + message(b"Z", b"I"))


def databases():
    s = socket.create_server(("0.0.0.0", 5432))
    print("ready", flush=True)
    while True:
        conn, _ = s.accept()
        threading.Thread(target=database, args=(conn,), daemon=True).start()


CONTEXT = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
CONTEXT.load_cert_chain(os.path.join(DIR, "server.pem"), os.path.join(DIR, "server.key"))
threading.Thread(target=Server(("0.0.0.0", 944), Git).serve_forever, daemon=True).start()
databases()
