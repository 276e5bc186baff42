# SPDX-License-Identifier: Apache-2.0
"""What kind of file brig itself is: static, relocatable and closed."""
import re
import shutil
import subprocess

import pytest

from conftest import BRIG


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
