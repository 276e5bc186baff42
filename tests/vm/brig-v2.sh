# SPDX-License-Identifier: Apache-2.0
# Runs inside tests/vm/run-v2.sh: brig itself on an older kernel (6.1) with
# version 2 control groups: as root, and as an ordinary user with a delegated
# group.
# shellcheck shell=sh
cg=/sys/fs/cgroup
failed=0

bad() {
	echo "FAILED: $*"
	failed=$((failed + 1))
}

expect() { # code, what, then a command; its output stays in /tmp/out
	want=$1
	what=$2
	shift 2
	echo "== $what"
	"$@" >/tmp/out 2>&1
	got=$?
	cut -c 1-900 /tmp/out
	[ "$got" -eq "$want" ] || bad "exit $got, not $want: $what"
}

says() {
	grep -q -- "$1" /tmp/out || bad "nothing said about: $1"
}

none_left() {
	left=$(find $cg -name 'brig-*')
	[ -z "$left" ] || bad "groups left: $left"
}

runs() { # a process with this command line
	# shellcheck disable=SC2009 # one way that every ps and busybox has
	ps -o args | grep -v grep | grep -q "$1"
}

as_user() {
	su user -s /bin/sh -c "cd /work-user && $*"
}

uname -r
mkdir -p /work-root /work-user
chown 1000:1000 /work-user
chmod 755 /work-root /work-user
cd /work-root || exit 1

expect 0 'doctor, as root' brig doctor
says 'control group version 2'
says 'limited  id-mapped mounts'

# The root here is a tmpfs, which this kernel cannot show under another id: a
# workspace that belongs to root is refused, not run with root's id.
expect 125 'root, workspace of root, no id maps' brig run -- true
says IDMAP_DENIED

all='"enforced":\["user","mount","pid","net","ipc","uts","cgroup","caps","no_new_privs","seccomp","landlock","memory","pids","cpu"\]'
expect 3 'root, workspace of uid 1000' \
	brig run --workspace /work-user --json -- sh -c 'id; exit 3'
says "$all"
says 'uid=1000'
none_left

expect 137 'memory limit, as root' brig run --workspace /work-user --memory 24M \
	--json -- sh -c 'dd if=/dev/zero of=/dev/null bs=200M count=1'
says '"oom":true'
none_left

expect 0 'process limit, counted' brig run --workspace /work-user --pids 8 --json -- \
	sh -c 'sh -c "for i in 1 2 3 4 5 6 7 8 9 10; do sleep 1 & done" 2>/dev/null; exit 0'
says '"kind":"pids"'
none_left

for backend in native landlock; do
	expect 0 "processor time of one whom nobody waits for, $backend" \
		brig run --backend $backend --workspace /work-user --json -- probe unreaped 500
	says '"cpu_ms":\([5-9][0-9][0-9]\|[0-9]\{4,\}\)\.'
	none_left
done

expect 3 'landlock, as root' brig run --backend landlock --workspace /work-user --json -- sh -c 'exit 3'
says '"memory","pids","cpu"'
none_left

expect 124 'deadline' brig run --workspace /work-user --timeout 1 -- \
	sh -c 'setsid sleep 1000 & trap "" TERM; sleep 1000'
none_left
runs 'sleep 1000' && bad 'a process survived'

# A signal goes to the command where the kernel cannot be asked for its whole group
# (before 6.9).
echo '== a signal is forwarded'
brig run --workspace /work-user -- sh -c \
	'trap "exit 33" TERM; : >/work-user/ready; while :; do sleep 1; done' &
pid=$!
n=0
while [ ! -e /work-user/ready ] && [ $n -lt 100 ]; do
	n=$((n + 1))
	sleep 0.1
done
kill -TERM $pid
wait $pid
[ $? -eq 33 ] || bad 'the command did not get the signal'
rm -f /work-user/ready
none_left

# an ordinary user: refused without delegation, enforced with it
mkdir $cg/session
echo $$ >$cg/session/cgroup.procs
expect 125 'a limit asked for without delegation' \
	as_user brig run --memory 24M -- true
says LIMIT_UNENFORCEABLE
expect 125 'the same, landlock' as_user brig run --backend landlock --memory 24M -- true
says LIMIT_UNENFORCEABLE
expect 0 'default limits without delegation' as_user brig run --json -- true
says '"missing":\["memory","cpu"\]'
echo $$ >$cg/cgroup.procs

mkdir $cg/mine
chown 1000:1000 $cg/mine $cg/mine/cgroup.procs $cg/mine/cgroup.threads \
	$cg/mine/cgroup.subtree_control
expect 0 'uid 1000, alone in a delegated group' sh -c "echo 0 >$cg/mine/cgroup.procs
	exec su user -s /bin/sh -c 'cd /work-user && exec brig run --json --memory 32M --cpus 0.5 -- cat /proc/self/cgroup'"
says "$all"
none_left

# A limit that not even the arguments fit in: the command is killed, and not brig
# with it, whose memory the command's process borrows under larger limits.
cat >/tmp/many <<'EOF'
cd /work-user || exit 1
a=$(head -c 100000 /dev/zero | tr '\0' x)
exec brig run --json --memory "$1" -- true "$a" "$a" "$a" "$a" "$a" "$a" "$a" "$a" "$a" "$a" "$a" "$a"
EOF
chmod 755 /tmp/many
in_mine() {
	sh -c "echo 0 >$cg/mine/cgroup.procs; exec su user -s /bin/sh -c '$*'"
}
expect 137 'uid 1000, a limit too small to start in' in_mine sh /tmp/many 1M
says '"oom":true'
none_left
expect 0 'uid 1000, the same with room' in_mine sh /tmp/many 64M
says '"exit":0'
none_left

expect 0 'uid 1000, landlock, alone in a delegated group' in_mine \
	brig run --backend landlock --workspace /work-user --json -- cat /proc/self/cgroup
says '"memory","pids","cpu"'
none_left
expect 0 'the same, asked for' in_mine \
	brig run --backend landlock --workspace /work-user --json --memory 32M -- cat /proc/self/cgroup
says '"memory","pids","cpu"'
none_left

expect 0 'doctor, as uid 1000' as_user brig doctor

# what holds inside, on this kernel
cp /usr/bin/probe /work-user/probe
expect 0 'every check that needs no argument' as_user brig run -- ./probe all

# killed supervisors leave nothing
i=0
while [ $i -lt 40 ]; do
	brig run --workspace /work-user -- sleep 4711 &
	pid=$!
	usleep $((i * 4000))
	kill -9 $pid 2>/dev/null
	wait $pid 2>/dev/null
	i=$((i + 1))
done
sleep 2
runs 'sleep 4711' && bad 'a killed supervisor left its command'
none_left

# The same at every call from the first group on: who would have to remove it is there
# before it.  As root, and where brig has to step aside into a leaf of its own group.
kill_at_every_call() { # who, backend
	case $1 in
	root) run="exec brig run --backend $2 --workspace /work-user -- true" ;;
	# who watches is not in the group: it would not be brig's alone
	*) run="echo 0 >$cg/mine/cgroup.procs; exec su user -s /bin/sh -c \
		'exec brig run --backend $2 --workspace /work-user -- true'" ;;
	esac
	inject -l -o /tmp/calls -- sh -c "$run" >/dev/null 2>&1
	awk '/^call supervisor/ { if ($3 ~ /^mkdir/) on = 1; if (on && n++ < 44) print $3 ":" $4 }' \
		/tmp/calls >/tmp/todo
	[ "$(wc -l </tmp/todo)" -eq 44 ] || bad "$1, $2: no calls to be killed at"
	grep -q flock /tmp/todo || bad "$1, $2: no lock was taken"
	hit=0
	while read -r call; do
		inject -o /tmp/report -f "supervisor:$call:KILL" -- sh -c "$run" >/dev/null 2>&1 </dev/null
		grep -q '^hit ' /tmp/report && hit=$((hit + 1))
		grep '^left\|^hang' /tmp/report && bad "$1, $2, killed at $call"
		left=$(find $cg -name 'brig-*')
		[ -z "$left" ] || bad "$1, $2, killed at $call, groups left: $left"
		find $cg -depth -name 'brig-*' -exec rmdir {} +
	done </tmp/todo
	echo "== $1, $2: killed at $hit calls"
	[ $hit -ge 36 ] || bad "$1, $2: killed only $hit times"
}
for who in root user; do
	for b in native landlock; do
		kill_at_every_call $who $b
	done
done

# A storm of forks in a group of 1,000: nothing is left 2 s after the deadline.
mkdir $cg/capped
echo 1000 >$cg/capped/pids.max
storm() { # backend
	echo "== a storm of 1,000, $1"
	begin=$(sed 's/[. ].*//' /proc/uptime)$(sed 's/^[0-9]*\.\([0-9]*\) .*/\1/' /proc/uptime)
	sh -c "echo 0 >$cg/capped/cgroup.procs; exec brig run --backend $1 --workspace /work-user \
		--env PROBE_UNCONFINED=1 --pids 990 --timeout 5 -- probe storm sessions 60" >/tmp/out 2>&1
	got=$?
	end=$(sed 's/[. ].*//' /proc/uptime)$(sed 's/^[0-9]*\.\([0-9]*\) .*/\1/' /proc/uptime)
	took=$((end - begin)) # hundredths of a second, with the set-up
	[ $got -eq 124 ] || bad "exit $got, not 124: $(cut -c 1-300 /tmp/out)"
	[ $took -le 700 ] || bad "$took hundredths of a second"
	left=$(find $cg/capped -name cgroup.procs -exec cat {} + | wc -l)
	[ "$left" -eq 0 ] || bad "$left processes left"
	echo "   $took hundredths of a second"
}
for b in native landlock none; do
	storm $b
done

[ $failed -eq 0 ] && echo 'all as expected'
exit $failed
