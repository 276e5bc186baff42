# SPDX-License-Identifier: Apache-2.0
"""Long bodies of plain HTTP go on without being read, to their last byte and no
further: the next request is looked at like the first."""
import hashlib
import json
import os

import pytest

EVIL = b"GET /evil HTTP/1.1\r\nHost: denied.test\r\n\r\n"


def request(body, chunked):
    """A POST whose body would be a request to somebody else if it were read as one."""
    head = b"POST /up HTTP/1.1\r\nHost: allowed.test\r\n"
    if not chunked:
        return head + b"Content-Length: %d\r\n\r\n" % len(body) + body
    out = head + b"Transfer-Encoding: chunked\r\n\r\n"
    for at in range(0, len(body), chunked):
        part = body[at:at + chunked]
        out += b"%x\r\n" % len(part) + part + b"\r\n"
    return out + b"0\r\n\r\n"


def answer(f):
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        line = f.readline()
        if not line:
            raise ConnectionError
        head += line
    return json.loads(f.read(int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])))


@pytest.mark.parametrize("chunked", [0, 1000, 70000, 3000000])
@pytest.mark.parametrize("size", [20000, 600001, 5000003])
def test_long_bodies(world, sandbox, size, chunked):
    s = sandbox(["allowed.test"])
    body = (EVIL * (size // len(EVIL) + 1))[:size - 100] + os.urandom(100)
    want = hashlib.sha256(body).hexdigest()
    with s.connect("allowed.test", 80) as c, c.makefile("rb") as f:
        for _ in range(3):
            c.sendall(request(body, chunked))
            got = answer(f)
            assert (got["got"], got["sum"]) == (size, want)
        # in one breath with what must not pass
        with pytest.raises(ConnectionError):
            c.sendall(request(body, chunked) + EVIL)
            while True:
                answer(f)
    assert s.events(reason="host-mismatch", sni="denied.test")
    assert not [x for x in s.reached("http") if x[2] != "allowed.test" or "evil" in x[1]]


def test_a_body_that_is_not_finished(world, sandbox):
    """The client hangs up in the middle: the server hears the end, and no more."""
    s = sandbox(["allowed.test"])
    with s.connect("allowed.test", 80) as c:
        c.sendall(request(b"x" * 3000000, 0)[:2000000])
    assert s.one(name="allowed.test")["bytes_up"] == 2000000


def test_a_body_with_a_bad_chunk(world, sandbox):
    s = sandbox(["allowed.test"])
    with s.connect("allowed.test", 80) as c, pytest.raises(ConnectionError):
        c.sendall(b"POST / HTTP/1.1\r\nHost: allowed.test\r\nTransfer-Encoding: chunked\r\n\r\n"
                  b"186a0\r\n" + b"x" * 100000 + EVIL)
        while c.recv(1000):
            pass
    assert s.events(reason="http-invalid")
    assert not [x for x in s.reached("http") if "evil" in x[1]]
