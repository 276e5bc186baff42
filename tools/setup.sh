#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# setup.sh build|test …: installs what is missing, by apt, as root or by sudo.
set -eu

build_packages="gcc libc6-dev linux-libc-dev meson ninja-build pkg-config
	libjansson-dev libyaml-dev libcurl4-openssl-dev libc-ares-dev musl-dev"
# shellcheck disable=SC2089
test_packages="libcmocka-dev libseccomp-dev clang clang-tidy cppcheck codespell
	shellcheck strace gdb git procps util-linux iproute2 python3 python3-pytest
	bubblewrap firejail nodejs perl sqlite3 busybox-static qemu-system-x86 man-db
	systemd dbus uidmap libcap2-bin stress-ng python3-jsonschema docker.io runsc
	podman curl wget openssl openssh-client nftables socat"
# Its package starts a server for all the world wherever an init system runs: not on
# a person's machine.  Tests that want one say so when it is not there.
[ -d /run/systemd/system ] || test_packages="$test_packages openssh-server"

want=""
for set in "$@"; do
	case $set in
	build) want="$want $build_packages" ;;
	test)
		want="$want $test_packages libclang-rt-dev"
		;;
	*)
		echo "usage: setup.sh build|test ..." >&2
		exit 2
		;;
	esac
done

missing=""
for p in $want; do
	dpkg-query -W -f '${Status}\n' "$p" 2>/dev/null | grep -q 'ok installed' ||
		missing="$missing $p"
done
[ -n "$missing" ] || exit 0

if ! command -v apt-get >/dev/null; then
	echo "setup: this needs apt; install by hand:$missing" >&2
	exit 1
fi
sudo=""
if [ "$(id -u)" != 0 ]; then
	if ! command -v sudo >/dev/null; then
		echo "setup: run as root (or install sudo) to install:$missing" >&2
		exit 1
	fi
	sudo="sudo"
fi
echo "setup: installing$missing"
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
# shellcheck disable=SC2086
if ! { $sudo apt-get update && $sudo env DEBIAN_FRONTEND=noninteractive \
	apt-get install -y --no-install-recommends $missing; } >"$log" 2>&1; then
	cat "$log" >&2
	rm -f "$log"
	echo "setup: apt could not install:$missing" >&2
	exit 1
fi
rm -f "$log"
