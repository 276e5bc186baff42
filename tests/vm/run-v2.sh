#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Runs a shell script in a small virtual machine that has cgroup version 2
# with the memory, pids and cpu controllers, for machines that do not.
#
#   run-v2.sh [-b FILE|DIR]... [-x PATH]... [-m MODULE]... [-a KERNEL_ARG]...
#             [-t SECONDS] SCRIPT
#
#   -b  a binary (or a directory of them) to have in /usr/bin inside, with the
#       libraries it needs
#   -x  a file or directory of this machine, to have at the same path inside,
#       with the libraries its programs need
#   -m  a kernel module to load, with what it depends on
#   -a  an argument for the kernel command line
#   -t  seconds before the machine is ended (90)
#
# SCRIPT runs inside as root under busybox sh; a user `user` (uid 1000) is
# there for `su user -c …`.  Its output is printed, its exit code is ours.
# 77: no machine could be had (and why); 124: time was up; 125: it broke.
#
# The kernel is Debian's own package, unpacked, never installed.  The root is
# a tmpfs, not the initramfs: nobody can pivot_root away from that one.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
cache=${BRIG_VM_CACHE:-$here/../../build/vm-cache}
package=${BRIG_VM_KERNEL:-linux-image-cloud-amd64}
seconds=90
files='' modules='' append='' extra=''

skip() {
	echo "SKIP: tests/vm/run-v2.sh: $*" >&2
	exit 77
}

while getopts b:x:m:a:t: o; do
	case $o in
	b) files="$files $OPTARG" ;;
	x) extra="$extra $OPTARG" ;;
	m) modules="$modules $OPTARG" ;;
	a) append="$append $OPTARG" ;;
	t) seconds=$OPTARG ;;
	*) exit 125 ;;
	esac
done
shift $((OPTIND - 1))
if [ $# -ne 1 ] || [ ! -r "$1" ]; then
	echo "run-v2.sh: one script, please" >&2
	exit 125
fi
script=$1

[ "$(uname -m)" = x86_64 ] || skip "only x86_64 is set up, this is $(uname -m)"
command -v qemu-system-x86_64 >/dev/null ||
	skip "no qemu-system-x86_64 (package qemu-system-x86)"
command -v cpio >/dev/null || busybox_cpio=1

# --- kernel and busybox, once ---

get() { # package directory: downloads and unpacks a package
	[ -e "$cache/$2/.done" ] && return
	command -v apt-get >/dev/null || skip "no apt-get to fetch $1 with"
	command -v dpkg-deb >/dev/null || skip "no dpkg-deb to unpack $1 with"
	rm -rf "${cache:?}/$2" "${cache:?}/$2.deb"
	mkdir -p "$cache/$2.deb" "$cache/$2"
	(cd "$cache/$2.deb" && apt-get -q download "$1") >"$cache/$2.log" 2>&1 ||
		skip "apt-get download $1: $(tail -n 1 "$cache/$2.log")"
	dpkg-deb -x "$cache/$2.deb"/*.deb "$cache/$2" ||
		skip "$1 cannot be unpacked"
	rm -rf "${cache:?}/$2.deb"
	touch "$cache/$2/.done"
}

mkdir -p "$cache"
if [ ! -e "$cache/kernel/.done" ]; then
	real=$(apt-cache depends "$package" 2>/dev/null |
		sed -n 's/^ *Depends: \(linux-image-[^ ]*\)$/\1/p' | head -n 1)
	[ -n "$real" ] || skip "apt knows no $package (apt-get update?)"
	get "$real" kernel
fi
get busybox-static busybox
kernel=$(find "$cache/kernel/boot" -name 'vmlinuz-*' | head -n 1)
[ -n "$kernel" ] || skip "no kernel in $package"
version=${kernel##*/vmlinuz-}
busybox=$cache/busybox/bin/busybox

# --- the initramfs ---

work=$(mktemp -d "${TMPDIR:-/tmp}/brig-vm.XXXXXX")
trap 'rm -rf "$work"' EXIT
root=$work/root
mkdir -p "$root/bin" "$root/new"
cp "$busybox" "$root/bin/busybox"

new=$root/new
mkdir -p "$new/usr/bin" "$new/usr/sbin" "$new/usr/lib" "$new/usr/lib64" "$new/etc" \
	"$new/proc" "$new/sys" "$new/dev" "$new/tmp" "$new/run" "$new/root" \
	"$new/home/user" "$new/var" "$new/usr/lib/modules"
for d in bin sbin lib lib64; do
	ln -s "usr/$d" "$new/$d"
done
bring() { # copies one file to the same place inside
	[ -e "$new$1" ] && return
	mkdir -p "$new$(dirname "$1")"
	cp -L "$1" "$new$1"
}
bring_libraries() { # those that the programs in a file or directory need
	find "$1" -type f \( -perm -100 -o -name '*.so*' \) >"$work/list"
	while read -r lib; do
		ldd "$lib" 2>/dev/null | sed -n 's/.*=> \(\/[^ ]*\).*/\1/p; s/^[[:space:]]*\(\/[^ ]*\) (.*/\1/p'
	done <"$work/list" | sort -u >"$work/libs"
	while read -r lib; do bring "$lib"; done <"$work/libs"
}
for x in $extra; do
	[ -e "$x" ] || skip "no $x on this machine"
	mkdir -p "$new$(dirname "$x")"
	find "$x" -type d -exec mkdir -p "$new{}" \;
	find "$x" ! -type d -exec cp -P {} "$new{}" \;
	bring_libraries "$x"
done
for f in $files; do
	[ -e "$f" ] || skip "no $f: it was not built"
	bring_libraries "$f"
	if [ -d "$f" ]; then
		cp -L "$f"/* "$new/usr/bin/"
	else
		cp -L "$f" "$new/usr/bin/"
	fi
done
cp "$script" "$new/run-me.sh"
printf 'root:x:0:0:root:/root:/bin/sh\nuser:x:1000:1000:user:/home/user:/bin/sh\n' \
	>"$new/etc/passwd"
printf 'root:x:0:\nuser:x:1000:\n' >"$new/etc/group"
printf '127.0.0.1 localhost\n' >"$new/etc/hosts"
echo brig-vm >"$new/etc/hostname"
if [ -n "$modules" ]; then
	tree=$cache/kernel
	[ -e "$tree/lib/modules/$version/modules.dep" ] ||
		"$busybox" depmod -b "$tree" "$version"
	dep=$tree/lib/modules/$version/modules.dep
	mkdir -p "$new/lib/modules/$version"
	cp "$dep" "$new/lib/modules/$version/"
	for m in $modules; do
		line=$(grep "/$m\.ko[^:]*:" "$dep" | head -n 1) || true
		[ -n "$line" ] || { echo "run-v2.sh: no module $m (built in?)" >&2; continue; }
		for ko in $(echo "$line" | tr -d ':'); do
			mkdir -p "$new/lib/modules/$version/$(dirname "$ko")"
			cp "$tree/lib/modules/$version/$ko" "$new/lib/modules/$version/$ko"
		done
	done
fi

# first stage: from the initramfs to a tmpfs
cat >"$root/init" <<'EOF'
#!/bin/busybox sh
/bin/busybox mkdir -p /target
/bin/busybox mount -t tmpfs -o mode=755 root /target
/bin/busybox cp -a /new/. /target/
/bin/busybox cp /bin/busybox /target/bin/busybox
exec /bin/busybox switch_root /target /init
EOF
# second stage: a machine
cat >"$new/init" <<'EOF'
#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/usr/bin:/usr/sbin:/bin HOME=/root TERM=dumb
mount -t proc -o nosuid,nodev,noexec proc /proc
mount -t sysfs -o nosuid,nodev,noexec sysfs /sys
mount -t devtmpfs -o mode=755 devtmpfs /dev
mkdir -p /dev/pts /dev/shm
mount -t devpts -o newinstance,ptmxmode=666,mode=620,gid=5 devpts /dev/pts
mount -t tmpfs -o nosuid,nodev,mode=1777 tmpfs /dev/shm
mount -t tmpfs -o nosuid,nodev,mode=1777 tmpfs /tmp
mount -t tmpfs -o nosuid,nodev,mode=755 tmpfs /run
mount -t cgroup2 -o nsdelegate cgroup2 /sys/fs/cgroup
echo '+memory +pids +cpu' >/sys/fs/cgroup/cgroup.subtree_control
ln -sf /proc/self/fd /dev/fd
chown -R 1000:1000 /home/user
ip link set lo up
hostname brig-vm
for m in $(sed -n 's/.*brig.modules=\([^ ]*\).*/\1/p' /proc/cmdline | tr , ' '); do
	modprobe "$m"
done
# its own serial line, raw: kernel messages stay out of the output
stty -F /dev/ttyS1 raw -echo
cd /
setsid sh /run-me.sh </dev/null >/dev/ttyS1 2>&1
echo "brig-vm-exit $?" >/dev/ttyS1
sleep 0.2
sync
poweroff -f
EOF
chmod 755 "$root/init" "$new/init" "$new/run-me.sh"
if [ -n "${busybox_cpio:-}" ]; then
	(cd "$root" && find . | "$busybox" cpio -o -H newc -R 0:0) >"$work/initrd" 2>/dev/null
else
	(cd "$root" && find . | cpio -o -H newc -R 0:0 --quiet) >"$work/initrd"
fi

# --- run ---

m=$(printf '%s' "${modules# }" | tr ' ' ,)
code=0
# emulation, unless told: nested KVM may be there and hang
# --foreground: whoever ends this process group ends the machine
timeout --foreground -k 5 "$seconds" qemu-system-x86_64 -machine pc -accel "${BRIG_VM_ACCEL:-tcg,thread=multi}" \
	-cpu max -smp 2 -m "${BRIG_VM_MEMORY:-1024}" -display none -nodefaults -no-reboot -net none \
	-serial "file:$work/console" -serial "file:$work/output" \
	-kernel "$kernel" -initrd "$work/initrd" \
	-append "console=ttyS0 quiet panic=-1 mitigations=off random.trust_cpu=on \
rdinit=/init brig.modules=$m $append" </dev/null >"$work/qemu" 2>&1 || code=$?

sed '/^brig-vm-exit [0-9]*$/d' "$work/output" 2>/dev/null || true
inside=$(sed -n 's/^brig-vm-exit \([0-9]*\)$/\1/p' "$work/output" 2>/dev/null | tail -n 1)
if [ -n "$inside" ]; then
	exit "$inside"
fi
echo "run-v2.sh: the machine gave no exit code (qemu: $code); its console ends:" >&2
tail -n 20 "$work/console" "$work/qemu" >&2 || true
[ "$code" -eq 124 ] && exit 124
exit 125
