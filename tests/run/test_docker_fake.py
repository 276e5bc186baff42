# SPDX-License-Identifier: Apache-2.0
"""The docker backend against an engine that is none, is broken, or lies."""
import json
import os
import socket
import threading
import time

import pytest

ID = "0123456789abcdef" * 4


class Fake:
    """Answers requests on a unix socket as a function says: bytes, sent as they
    are, or (status, object).  None hangs."""

    def __init__(self, path, answer):
        self.path, self.answer, self.requests, self.open = str(path), answer, [], []
        self.s = socket.socket(socket.AF_UNIX)
        self.s.bind(self.path)
        os.chmod(self.path, 0o666)
        self.s.listen(8)
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                c, _ = self.s.accept()
            except OSError:
                return
            self.open.append(c)
            threading.Thread(target=self.talk, args=(c,), daemon=True).start()

    def talk(self, c):
        data = b""
        try:
            while True:
                while b"\r\n\r\n" not in data:
                    more = c.recv(65536)
                    if not more:
                        return
                    data += more
                head, _, data = data.partition(b"\r\n\r\n")
                length = 0
                for line in head.split(b"\r\n"):
                    if line.lower().startswith(b"content-length:"):
                        length = int(line.split(b":")[1])
                while len(data) < length:
                    more = c.recv(65536)
                    if not more:
                        return
                    data += more
                body, data = data[:length], data[length:]
                method, path = head.split()[:2]
                self.requests.append((method.decode(), path.decode(), body))
                got = self.answer(method.decode(), path.decode())
                if got is None:
                    while c.recv(65536):  # until the other side has had enough
                        pass
                    return
                if isinstance(got, tuple):
                    status, obj = got
                    text = json.dumps(obj).encode() if obj is not None else b""
                    got = b"HTTP/1.1 %d X\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % (
                        status, len(text)) + text
                c.sendall(got)
                if got.startswith(b"HTTP/1.1 101") and got.partition(b"\r\n\r\n")[2]:
                    time.sleep(0.5)
                    c.shutdown(socket.SHUT_RDWR)
                    return
        except OSError:
            pass

    def close(self):
        self.s.close()
        for c in self.open:
            c.close()


VERSION = {"ApiVersion": "1.41", "MinAPIVersion": "1.12", "Version": "20.10"}
INFO = {"DefaultRuntime": "runsc", "Runtimes": {"runc": {}, "runsc": {}}, "SecurityOptions": []}


def engine(extra=None, version=VERSION, info=INFO):
    """A usual engine, except for what extra says of a path."""
    def answer(method, path):
        for word, what in (extra or {}).items():
            m, _, p = word.partition(" ")
            if m == method and p in path:
                return what
        if path.endswith("/version"):
            return 200, version
        if path.endswith("/info"):
            return 200, info
        if "/containers/json" in path:
            return 200, []
        if method == "DELETE":
            return 204, None
        if "/create" in path:
            return 201, {"Id": ID, "Warnings": []}
        return 404, {"message": "no such thing"}
    return answer


@pytest.fixture
def fake(user):
    made = []

    def run(answer, *opts):
        f = Fake(user.base / "e.sock", answer)
        made.append(f)
        r = user.brig("run", "--json", "--backend", "docker", "--image", "img", "--docker-socket", f.path,
                      *opts, "--", "true", timeout=90)
        r.requests = f.requests
        assert r.json["ran"] is False and r.json["stdout"] == ""
        return r
    yield run
    for f in made:
        f.close()


@pytest.mark.parametrize("what", [
    b"garbage\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab{c]", b"", b"\0" * 5000,
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]"])
def test_not_an_engine(fake, what):
    fake(lambda m, p: what).refused(125, "SETUP_FAILED")


def test_hangs_are_bounded(fake):
    r = fake(lambda m, p: None).refused(125, "SETUP_FAILED", "hangs")
    assert r.seconds < 10


def test_huge_answer(fake):
    huge = b"HTTP/1.1 200 OK\r\nContent-Length: 200000000\r\n\r\n" + b"[" * 20000000
    fake(lambda m, p: huge).refused(125, "SETUP_FAILED", "too long")


def test_chunked_answer_is_read(fake):
    text = json.dumps(dict(VERSION, ApiVersion="1.20")).encode()
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(text[i:i + 7]), text[i:i + 7]) for i in range(0, len(text), 7))
    what = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n"
    fake(lambda m, p: what).refused(125, "UNSUPPORTED", "1.20")


@pytest.mark.parametrize("lo,hi", [("1.12", "1.24"), ("1.60", "1.70")])
def test_versions(fake, lo, hi):
    fake(engine(version=dict(VERSION, MinAPIVersion=lo, ApiVersion=hi))).refused(125, "UNSUPPORTED", hi)


def test_newest_version_both_know_is_used(fake):
    r = fake(engine(version=dict(VERSION, ApiVersion="1.99"), extra={"POST create": (404, {"message": "x"})}))
    assert any("/v1.43/containers/create" in p for _, p, _ in r.requests)


def test_message_of_the_engine_is_cleaned(fake):
    r = fake(engine({"POST create": (500, {"message": "bad \x1b]0;evil\x07\nline "})}))
    r.refused(125, "SETUP_FAILED", "500", "bad")
    assert "\x1b" not in r.json["error"]["message"] and "\n" not in r.json["error"]["message"]


def test_bad_id(fake):
    fake(engine({"POST create": (201, {"Id": "../../../v1.41/images"})})).refused(125, "SETUP_FAILED")


def attach_with(data):
    return b"HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n" + data


def up(inspect, data=b""):
    return engine({"POST attach": attach_with(data), "POST start": (204, None),
                   "GET /%s/json" % ID: (200, inspect)})


def config(**host):
    h = {"ReadonlyRootfs": True, "NetworkMode": "none", "IpcMode": "private", "CgroupnsMode": "private",
         "Runtime": "runsc", "SecurityOpt": []}
    h.update(host)
    return {"State": {"Pid": 1, "Running": True}, "HostConfig": h, "Config": {"User": ""}, "Mounts": []}


def test_engine_that_widens(fake, user):
    c = config(Privileged=True)
    r = fake(up(c), "--runtime", "runsc").refused(125, "REQUIRE_UNMET", "privileged")
    # what was made is removed
    assert ("DELETE", "/v1.41/containers/%s?force=1&v=1" % ID) in [(m, p) for m, p, _ in r.requests]


def test_start_fails(fake):
    r = fake(engine({"POST attach": attach_with(b""), "POST start": (400, {"message": "OCI runtime"})}),
             "--runtime", "runsc")
    r.refused(125, "SETUP_FAILED", "OCI runtime")
    assert [m for m, p, _ in r.requests if m == "DELETE"]


@pytest.mark.parametrize("data", [b"HTTP/1.1 500\r\n", b"\1\0\0\0\0\0\0\4abcd" * 3,
                                  b"\1\0\0\0\xff\xff\xff\xff" + b"\xff" * 100,
                                  b"\1\0\0\0\0\0\0\x08\x0e\0\0\0\x20\0\0\0",
                                  b"\2\0\0\0\0\0\0\5noise"])
def test_stream_garbage(fake, user, data):
    c = config()
    c["Config"]["User"] = "%d:%d" % (user.uid, user.gid)
    r = fake(up(c, data), "--runtime", "runsc")
    r.refused(125, "SETUP_FAILED")
    assert [m for m, p, _ in r.requests if m == "DELETE"]


def test_attach_refused(fake):
    fake(engine({"POST attach": (409, {"message": "no"})}), "--runtime", "runsc").refused(
        125, "SETUP_FAILED", "409")


def test_leftovers_of_others_are_not_touched(fake):
    listed = [{"Id": ID, "Labels": {"brig.owner": "1 b 1 4242 1 1"}},
              {"Id": "../x", "Labels": {"brig.owner": "1 b 1 0 1 1"}}, {"Id": 5}, "x", {"Labels": 3}]
    r = fake(engine({"GET containers/json": (200, listed), "POST create": (404, {"message": "No such image"})}))
    assert not [m for m, p, _ in r.requests if m == "DELETE"]
