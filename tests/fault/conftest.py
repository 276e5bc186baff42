# SPDX-License-Identifier: Apache-2.0
"""Fault tests: calls that do not exist, calls that fail, processes that are
killed, resources that are used up.  The command must never run unconfined,
brig must never hang, and nothing may stay.

BRIG names the binary (default build/brig); a copy of it is tested, so that a
build meanwhile changes nothing.
"""
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
import fault  # noqa: E402
from fault import IS_ROOT, make_who, support  # noqa: E402

account = support.account


def pytest_configure(config):
    if "s" not in config.option.reportchars:
        config.option.reportchars += "s"


def pytest_report_header():
    return "brig: %s, root: %s" % (support.BRIG, IS_ROOT)


@pytest.fixture(scope="session")
def quarantine():
    q = fault.Quarantine()
    yield q
    q.leave()


@pytest.fixture(scope="session")
def base(quarantine):
    d = Path(tempfile.mkdtemp(prefix="brig-fault-", dir="/tmp"))
    d.chmod(0o755)
    fault._dir.append(d)
    shutil.copy(support.BRIG, d / "brig")
    egress = support.BRIG.parent / "brig-egress"
    if egress.exists():
        shutil.copy(egress, d / "brig-egress")
    support.BRIG = d / "brig"
    if support.PROBE.exists():
        shutil.copy(support.PROBE, d / "probe")
    yield d
    subprocess.run(["chmod", "-R", "u+rwX", str(d)], stderr=subprocess.DEVNULL)
    subprocess.run(["rm", "-rf", str(d)])


@pytest.fixture(params=["root", "user"])
def who(request, base, account, quarantine):
    if request.param == "root" and not IS_ROOT:
        pytest.skip("not root: only the ordinary user's half runs")
    w = make_who(request.param, base, account)
    before = fault.mounts()
    yield w
    quarantine.assert_empty()
    assert fault.mounts() == before, "mounts stayed"
    if not os.environ.get("BRIG_KEEP"):
        subprocess.run(["chmod", "-R", "u+rwX", str(w.base)], stderr=subprocess.DEVNULL)
        subprocess.run(["rm", "-rf", str(w.base)])


@pytest.fixture(scope="session")
def deny(base):
    return fault.tool("deny")


@pytest.fixture(scope="session")
def inject(base):
    return fault.tool("inject")
