# SPDX-License-Identifier: Apache-2.0
"""What kind of file brig itself is: static, relocatable, closed, and in order."""
import re
import shutil
import subprocess

import pytest

from conftest import BRIG, REPO


def readelf(option):
    if not shutil.which("readelf"):
        pytest.skip("readelf is not installed")
    return subprocess.run(["readelf", option, BRIG], capture_output=True, text=True, check=True).stdout


def test_hardening():
    segments = [x.split() for x in readelf("-lW").splitlines() if re.match(r"  [A-Z_]+ +0x", x)]
    flags = {s[0]: "".join(s[6:-1]) for s in segments}
    assert "INTERP" not in flags, "a dynamic loader"
    assert "GNU_RELRO" in flags and flags["GNU_STACK"] == "RW", flags
    assert not [s for s in segments if s[0] == "LOAD" and "W" in s[6:-1] and "E" in s[6:-1]]
    assert "DYN" in readelf("-hW"), "at a random address"
    dynamic = readelf("-dW")
    assert "NOW" in dynamic and "PIE" in dynamic
    assert "NEEDED" not in dynamic and "TEXTREL" not in dynamic


def test_what_a_run_executes_lies_together():
    """src/order.ld is what the linker went by, and is not out of date."""
    section = re.search(r"\.text\.order +PROGBITS +([0-9a-f]+) +[0-9a-f]+ +([0-9a-f]+)", readelf("-SW"))
    if not section:
        pytest.skip("this brig was linked with the system's C library, without src/order.ld")
    start, size = int(section[1], 16), int(section[2], 16)
    rows = [x.split() for x in readelf("-sW").splitlines()]
    # without what the compiler adds: .isra.0
    at = {r[7].split(".")[0]: int(r[1], 16) for r in rows if len(r) >= 8 and r[3] == "FUNC" and ".cold" not in r[7]}
    text = (REPO / "src/order.ld").read_text()
    wanted = re.findall(r"\*\(\.text\.(\w+) \.text\.\1\.\*\)", text)
    here = [name for name in wanted if name in at]
    assert len(wanted) > 300 and len(here) > 0.9 * len(wanted), "time for tools/order.py"
    # several functions have one name, or another one in another version of musl
    elsewhere = ("dummy", "cleanup", "fstat", "fstatat")
    assert not [x for x in here if not start <= at[x] < start + size and x not in elsewhere]
    # a few pieces of 64 KiB, of nine
    assert size < 256 * 1024
    assert start <= at["engine_run"] < start + size and not start <= at["docker_call"] < start + size
