# SPDX-License-Identifier: Apache-2.0
# Runs inside tests/vm/run-v2.sh: cgtest in every kind of place version 2 has.
# shellcheck shell=sh
cg=/sys/fs/cgroup
all=memory,pids,cpu
failed=0

expect() { # code, what, then a command
	want=$1
	what=$2
	shift 2
	echo "== $what"
	"$@" >/tmp/out 2>&1
	got=$?
	cat /tmp/out
	if [ "$got" -ne "$want" ]; then
		echo "FAILED: exit $got, not $want: $what"
		failed=$((failed + 1))
	fi
}

says() { # the last output has this text
	grep -q -- "$1" /tmp/out || {
		echo "FAILED: nothing said about: $1"
		failed=$((failed + 1))
	}
}

clean() { # no group of ours is left below $1, and it hands out nothing
	left=$(find "$1" -name 'brig-*')
	[ -z "$left" ] || {
		echo "FAILED: left: $left"
		failed=$((failed + 1))
	}
	[ "$1" = "$cg" ] || [ -z "$(cat "$1/cgroup.subtree_control")" ] || {
		echo "FAILED: $1 still hands out $(cat "$1/cgroup.subtree_control")"
		failed=$((failed + 1))
	}
}

within() { # group, uid 0 or 1000, command: as the only process there
	sh -c 'echo 0 >"$0/cgroup.procs" || exit 9; u=$1; shift
		[ "$u" = 0 ] && exec "$@"
		exec su user -s /bin/sh -c "exec $*"' "$@"
}

delegate() { # directory: to uid 1000
	chown 1000:1000 "$1" "$1/cgroup.procs" "$1/cgroup.threads" "$1/cgroup.subtree_control"
}

uname -r
cat $cg/cgroup.controllers

expect 0 'root, in the root group' cgtest --need $all --pace 15
clean $cg

echo '-memory -pids -cpu' >$cg/cgroup.subtree_control
expect 0 'root, in a root group that hands out nothing' cgtest --need $all
clean $cg
echo '+memory +pids +cpu' >$cg/cgroup.subtree_control

mkdir $cg/sole
expect 0 'root, alone in a group' within $cg/sole 0 cgtest --need $all
says 'sole/brig-cgtest'
clean $cg/sole

mkdir $cg/mine
delegate $cg/mine
expect 0 'uid 1000, alone in a delegated group' within $cg/mine 1000 cgtest --need $all
says 'uid 1000 '
says 'mine/brig-cgtest'
clean $cg/mine

# the same with a limit on the delegated group: it goes on holding
echo 64M >$cg/mine/memory.max
expect 0 'uid 1000, delegated group with a limit' within $cg/mine 1000 cgtest --need $all
clean $cg/mine

mkdir $cg/slice
echo '+memory +pids +cpu' >$cg/slice/cgroup.subtree_control
mkdir $cg/slice/term
delegate $cg/slice
delegate $cg/slice/term
sleep 60 &
sleeper=$!
echo $sleeper >$cg/slice/term/cgroup.procs
expect 0 'uid 1000, not alone, but the group above is ours' \
	within $cg/slice/term 1000 cgtest --need $all --pace 15
says 'slice/brig-cgtest'
[ -z "$(find $cg/slice -name 'brig-*')" ] || { echo 'FAILED: left in slice'; failed=$((failed + 1)); }

echo 64M >$cg/slice/term/memory.max
expect 77 'a limit on our own group is not escaped' within $cg/slice/term 1000 cgtest
says 'memory.max sets a limit that must go on holding'
echo max >$cg/slice/term/memory.max

echo '-cpu' >$cg/slice/cgroup.subtree_control
expect 0 'a group above that hands out less' within $cg/slice/term 1000 cgtest --need memory,pids
says 'does not hand out: cpu'
expect 1 'and cpu is reported as missing' within $cg/slice/term 1000 cgtest --need cpu

kill $sleeper
mkdir $cg/theirs
expect 77 'uid 1000, in a group of root' within $cg/theirs 1000 cgtest
says 'is not delegated to uid 1000: /sys/fs/cgroup/theirs is not writable'
expect 77 'the same, and asked for: no systemd' within $cg/theirs 1000 cgtest --asked
says 'no systemd to ask'

[ $failed -eq 0 ] && echo 'all as expected' || echo "$failed FAILED"
[ $failed -eq 0 ]
