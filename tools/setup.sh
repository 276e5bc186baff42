#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# setup.sh build|test …: installs what is missing, by apt, as root or by sudo.
# Without what the build needs, or what runs the tests at all, it fails.  A package
# that only some tests need may be one that cannot be had here: it says which, and
# those tests say SKIP.
set -eu

build_packages="gcc libc6-dev linux-libc-dev meson ninja-build pkg-config
	libjansson-dev libyaml-dev libcurl4-openssl-dev libc-ares-dev libsystemd-dev
	musl-dev"
runner_packages="libcmocka-dev libseccomp-dev git python3 python3-pytest"
test_packages="clang clang-tidy libclang-rt-dev cppcheck codespell
	shellcheck strace gdb procps util-linux iproute2
	bubblewrap firejail nodejs perl sqlite3 busybox-static qemu-system-x86 man-db
	systemd dbus uidmap libcap2-bin stress-ng python3-jsonschema docker.io runsc
	podman curl wget openssl openssh-client nftables socat"
# Its package starts a server for all the world wherever an init system runs: not on
# a person's machine.  Tests that want one say so when it is not there.
[ -d /run/systemd/system ] || test_packages="$test_packages openssh-server"

# absent PACKAGE…: those of them that are not installed
absent()
{
	for p in "$@"; do
		dpkg-query -W -f '${Status}\n' "$p" 2>/dev/null | grep -q 'ok installed' ||
			printf ' %s' "$p"
	done
}

# lists of words, here and below
# shellcheck disable=SC2086
{
	needed="" wanted=""
	for set in "$@"; do
		case $set in
		build) needed="$needed $build_packages" ;;
		test) needed="$needed $runner_packages" wanted=$test_packages ;;
		*)
			echo "usage: setup.sh build|test ..." >&2
			exit 2
			;;
		esac
	done
	needed=$(absent $needed) wanted=$(absent $wanted)
}
[ -n "$needed$wanted" ] || exit 0

# cannot WHY: nothing can be installed here.  Is that an error?
cannot()
{
	if [ -n "$needed" ]; then
		echo "setup: $1 to install:$needed$wanted" >&2
		exit 1
	fi
	echo "setup: $1 to install, or the tests that need it are skipped:$wanted" >&2
	exit 0
}

sudo=""
command -v apt-get >/dev/null || cannot "this needs apt"
if [ "$(id -u)" != 0 ]; then
	command -v sudo >/dev/null || cannot "run as root (or install sudo)"
	sudo="sudo"
fi
echo "setup: installing$needed$wanted"
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# a machine that has just come up is often busy with its own upgrades: that lock is waited for
apt()
{
	$sudo env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 "$@" \
		>>"$log" 2>&1
}

# An archive out of reach is an error when something is missing because of it.
apt update || :
# shellcheck disable=SC2086
if [ -n "$needed" ] && ! apt install -y --no-install-recommends $needed; then
	cat "$log" >&2
	echo "setup: apt could not install:$needed" >&2
	exit 1
fi
[ -n "$wanted" ] || exit 0

# Nothing that is in use is replaced for a test (docker.io would replace Docker's own packages).
optional="install -y --no-install-recommends --no-remove"
# shellcheck disable=SC2086
if ! apt $optional -s $wanted; then
	can=""
	for p in $wanted; do
		! apt $optional -s $can "$p" || can="$can $p"
	done
else
	can=$wanted
fi
# shellcheck disable=SC2086
[ -z "$can" ] || apt $optional $can || cat "$log" >&2
# shellcheck disable=SC2086
lacking=$(absent $wanted)
[ -z "$lacking" ] || echo "setup: cannot be had here; tests that need it are skipped:$lacking" >&2
