#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# demo.sh BRIG: what `make run` shows: one sandboxed command and what held.
set -eu
brig=$1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mkdir "$dir/workspace"

echo '$ brig run -- sh -c "…"'
# the $ signs are the sandboxed shell's
# shellcheck disable=SC2016
"$brig" run --workspace "$dir/workspace" --at /workspace --status-fd 3 -- sh -c '
	echo "  user       $(id -un), uid $(id -u)"
	echo "  processes  $(ls /proc | grep -c "^[0-9]") visible"
	echo "  network    $(ls /sys/class/net 2>/dev/null || echo "loopback only, no /sys")"
	echo "  secrets    $(cat /etc/shadow 2>&1 | head -1)"
	echo "  mounting   $(mount -t tmpfs none /tmp 2>&1 | head -1)"
	echo "written inside" > result.txt
' 3>"$dir/result.json"
echo
echo "the workspace now holds: $(ls "$dir/workspace"): $(cat "$dir/workspace/result.txt")"
echo
echo "what held, read back from the kernel before the command was released:"
sed -n 's/.*"enforced":\[\([^]]*\)\],"missing":\[\([^]]*\)\].*/  enforced  \1\n  missing   \2/p' \
	"$dir/result.json" | tr -d '"' | sed 's/,/ /g; s/^  missing *$/  missing   nothing/'
echo "and what was refused, counted by the kernel:"
sed -n 's/.*"denied":\[\([^]]*\)\].*/\1/p' "$dir/result.json" | tr '}' '\n' |
	sed -n 's/.*"target":"\([^"]*\)".*"count":\([0-9]*\).*/  \1 (\2)/p'
echo
"$brig" doctor
