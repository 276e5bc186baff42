# SPDX-License-Identifier: Apache-2.0
"""tools/setup.sh on machines of all kinds, with an apt-get that does as it is told."""
import subprocess

import pytest

from conftest import REPO

STUBS = {
    "dpkg-query": """#!/bin/sh
for last; do :; done
grep -qx "$last" "$STATE/installed" && echo "install ok installed"
""",
    "apt-get": """#!/bin/sh
echo "$*" >>"$STATE/calls"
[ -z "$SUDO" ] || [ -n "$BY_SUDO" ] || exit 100
simulate="" words="" skip=""
for w; do
	case $w in
	update) [ ! -e "$STATE/offline" ]; exit ;;
	-s) simulate=1 ;;
	-o) skip=1; continue ;;
	-* | install) ;;
	*) [ -n "$skip" ] || words="$words $w" ;;
	esac
	skip=""
done
for w in $words; do
	if grep -qx "$w" "$STATE/unknown"; then echo "E: Unable to locate package $w"; exit 100; fi
done
[ -n "$simulate" ] || printf '%s\\n' $words >>"$STATE/installed"
""",
    "sudo": """#!/bin/sh
BY_SUDO=1 exec "$@"
""",
    "id": """#!/bin/sh
echo "${SUDO:-0}"
""",
}


class Machine:
    def __init__(self, folder):
        self.folder, self.bin = folder, folder / "bin"
        self.bin.mkdir()
        for name in ("installed", "unknown", "calls"):
            (folder / name).write_text("")
        for name, text in STUBS.items():
            (self.bin / name).write_text(text)
            (self.bin / name).chmod(0o755)

    def setup(self, *words, uid=""):
        # none of the machine's own directories: it may have no sudo, no apt-get
        for tool in ("sh", "env", "grep", "cat", "rm", "mktemp"):
            if not (self.bin / tool).exists():
                (self.bin / tool).symlink_to("/usr/bin/" + tool)
        return subprocess.run(["/bin/sh", REPO / "tools/setup.sh", *words], capture_output=True, text=True, timeout=60,
                              env={"PATH": str(self.bin), "STATE": str(self.folder), "SUDO": uid})

    def has(self, package):
        return package in (self.folder / "installed").read_text().split()

    def calls(self):
        return (self.folder / "calls").read_text().splitlines()

    def unknown(self, *packages):
        (self.folder / "unknown").write_text("".join(p + "\n" for p in packages))


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


def test_installs_what_is_missing_and_then_nothing(machine):
    p = machine.setup("build", "test")
    assert p.returncode == 0 and p.stderr == "", p
    assert machine.has("meson") and machine.has("libcmocka-dev") and machine.has("runsc")
    before = machine.calls()
    p = machine.setup("build", "test")
    assert (p.returncode, p.stdout, p.stderr) == (0, "", "") and machine.calls() == before


def test_package_of_one_test_cannot_be_had(machine):
    """The others are installed, and it is named; `make test` goes on."""
    machine.unknown("runsc", "firejail")
    p = machine.setup("build", "test")
    assert p.returncode == 0, p
    assert p.stderr.splitlines() == ["setup: cannot be had here; tests that need it are skipped: firejail runsc"]
    assert machine.has("clang") and machine.has("socat") and not machine.has("runsc")


@pytest.mark.parametrize("package", ["musl-dev", "python3-pytest"])
def test_package_of_the_build_cannot_be_had(machine, package):
    machine.unknown(package)
    p = machine.setup("build", "test")
    assert p.returncode == 1 and package in p.stderr and "setup: apt could not install:" in p.stderr, p


def test_an_archive_out_of_reach_matters_only_for_what_it_has(machine):
    (machine.folder / "offline").touch()
    assert machine.setup("build").returncode == 0 and machine.has("meson")


def test_nothing_is_removed_for_a_test(machine):
    assert machine.setup("build", "test").returncode == 0
    assert [x for x in machine.calls() if " runsc" in x]
    assert all("--no-remove" in x for x in machine.calls() if " runsc" in x)


def test_by_sudo_or_not_at_all(machine):
    assert machine.setup("build", uid="1000").returncode == 0 and machine.has("meson")
    (machine.bin / "sudo").unlink()
    p = machine.setup("build", "test", uid="1000")
    assert p.returncode == 1 and "run as root (or install sudo) to install: libcmocka-dev" in p.stderr, p
    (machine.bin / "apt-get").unlink()
    p = machine.setup("build", "test", uid="1000")
    assert p.returncode == 1 and "this needs apt" in p.stderr, p


def test_without_the_right_to_install_what_is_there_is_used(machine):
    machine.unknown("podman")
    assert machine.setup("build", "test").returncode == 0
    (machine.bin / "sudo").unlink()
    p = machine.setup("build", "test", uid="1000")
    assert p.returncode == 0 and p.stderr.endswith("tests that need it are skipped: podman\n"), p


def test_bad_word(machine):
    assert machine.setup("everything").returncode == 2
