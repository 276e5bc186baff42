# SPDX-License-Identifier: Apache-2.0
# Runs inside tests/vm/run-v2.sh with -b for cgtest, brig and brig-scope and -x for
# systemd's manager and dbus-daemon: a real user manager gives them scopes.
# shellcheck shell=sh
cg=/sys/fs/cgroup
manager=$cg/user@1000.service
export XDG_RUNTIME_DIR=/run/user/1000

# the directory says "booted with systemd", or the manager refuses to start
mkdir -p $XDG_RUNTIME_DIR $manager /run/systemd/system
chown 1000:1000 $XDG_RUNTIME_DIR $manager $manager/cgroup.procs \
	$manager/cgroup.threads $manager/cgroup.subtree_control
chmod 700 $XDG_RUNTIME_DIR
echo 0123456789abcdef0123456789abcdef >/etc/machine-id

sh -c "echo 0 >$manager/cgroup.procs
	exec su user -s /bin/sh -c 'exec /lib/systemd/systemd --user --log-target=console --log-level=info --unit=basic.target'" \
	>/tmp/manager.log 2>&1 &
n=0
while [ ! -S $XDG_RUNTIME_DIR/systemd/private ]; do
	n=$((n + 1))
	if [ $n -gt 900 ]; then
		echo 'SKIP - the user manager did not come up:'
		tail -n 20 /tmp/manager.log
		exit 77
	fi
	sleep 0.1
done
sleep 1

# a login session: another program is there, and a limit that a sibling group
# would escape, so that only the manager can help
mkdir $manager/session
chown 1000:1000 $manager/session $manager/session/cgroup.procs
echo 512M >$manager/session/memory.max
sleep 60 &
echo $! >$manager/session/cgroup.procs

failed=0
run() {
	sh -c 'echo 0 >"$0/session/cgroup.procs" || exit 9
		exec su user -s /bin/sh -c "exec $*"' $manager "$@" >/tmp/out 2>&1
	code=$?
	cat /tmp/out
}
echo '== not asked: nobody bothers the manager'
run cgtest
[ $code -eq 77 ] || failed=1
echo '== asked'
run cgtest --asked --need memory,pids,cpu
[ $code -eq 0 ] || failed=1
grep -q '(scope)' /tmp/out || failed=1
sleep 2
echo '== afterwards'
left=$(find $manager -name 'brig-*')
if [ -n "$left" ]; then
	echo "FAILED: left: $left"
	failed=1
fi

echo '== a scope, for a backend with a keeper'
mkdir -p /work-user
chown 1000:1000 /work-user
run env XDG_RUNTIME_DIR=$XDG_RUNTIME_DIR brig run --backend landlock --workspace /work-user --memory 64M --json -- true
[ $code -eq 0 ] || failed=1
grep -q '"enforced":.*"memory"' /tmp/out || failed=1

echo '== systemd-run as the wrapper of a command'
mkdir -p /work-user
chown 1000:1000 /work-user
# shellcheck disable=SC2016 # it is the command's to expand
cat >/tmp/wrapped.sh <<'EOF'
cd /work-user && exec brig run --backend wrapper --wrapper systemd-run \
	--env XDG_RUNTIME_DIR --json -- sh -c 'cat /proc/self/cgroup; echo "$1"; exit 6' sh '$HOME {cwd} %n'
EOF
run sh /tmp/wrapped.sh
[ $code -eq 6 ] || failed=1
grep -q '0::/user@1000.service/.*run-.*\.scope' /tmp/out || failed=1
# shellcheck disable=SC2016
grep -qF '$HOME {cwd} %n' /tmp/out || failed=1
# nothing of it is claimed but the limit on the processes that brig started
grep -q '"enforced":\["pids"\]' /tmp/out || failed=1

limited="env XDG_RUNTIME_DIR=$XDG_RUNTIME_DIR brig run --backend landlock --workspace /work-user --memory 64M --json -- true"
echo '== no helper'
mv /usr/bin/brig-scope /tmp/
# words of a command
# shellcheck disable=SC2086
run $limited
[ $code -eq 125 ] || failed=1
grep -q 'brig-scope.*not installed' /tmp/out || failed=1
grep -q 'libsystemd' /tmp/out || failed=1

echo '== a helper that hangs'
printf '#!/bin/sh\nexec sleep 60\n' >/usr/bin/brig-scope
chmod 755 /usr/bin/brig-scope
# shellcheck disable=SC2086
run $limited
[ $code -eq 125 ] || failed=1
grep -q 'timed out' /tmp/out || failed=1
mv /tmp/brig-scope /usr/bin/

echo '== by a bus, as the manager has no socket of its own'
su user -s /bin/sh -c "exec dbus-daemon --session --nofork --address=unix:path=$XDG_RUNTIME_DIR/bus" &
sleep 3
kill -USR1 "$(head -n 1 $manager/init.scope/cgroup.procs)" # to the manager: connect to the bus
sleep 3
mv $XDG_RUNTIME_DIR/systemd/private /tmp/private
run env XDG_RUNTIME_DIR=$XDG_RUNTIME_DIR cgtest --asked --need memory,pids,cpu
[ $code -eq 0 ] || failed=1
grep -q '(scope)' /tmp/out || failed=1
[ $failed -eq 0 ] || tail -n 30 /tmp/manager.log
exit $failed
