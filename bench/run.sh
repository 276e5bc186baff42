#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The whole benchmark: tight and paced, start-up and binds, as root and as an
# ordinary user when root runs it.  Markdown on standard output:
#   bench/run.sh >bench/results.md
#
# Environment: BRIG (build/brig), BENCH (build/bench/bench, else compiled here),
# FILTER (raw sock_filter array for "bwrap+seccomp", build/bench/default.bpf), ROUNDS, PACED_ROUNDS,
# PACE (ms), BINDS, BENCH_USER (brigtest).
set -eu

top=$(cd "$(dirname "$0")/.." && pwd)
brig=${BRIG:-$top/build/brig}
bench=${BENCH:-$top/build/bench/bench}
filter=${FILTER:-$top/build/bench/default.bpf}
rounds=${ROUNDS:-300}
paced_rounds=${PACED_ROUNDS:-120}
pace=${PACE:-100}
binds=${BINDS:-100}
user=${BENCH_USER:-brigtest}

# An ordinary user must be able to reach the programs, wherever the checkout
# lies, so they run from a copy.
dir=$(mktemp -d /tmp/brig-bench-run-XXXXXX)
trap 'rm -rf "$dir"' EXIT
trap 'exit 1' INT TERM HUP
chmod 755 "$dir"
# the caller's own tools would be shown inside, which the others do not do
mkdir "$dir/home"
chmod 755 "$dir/home"
HOME=$dir/home PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export HOME PATH

if [ -x "$bench" ] && [ -f "$bench" ]; then
	cp "$bench" "$dir/bench"
else
	${CC:-cc} -O2 -std=gnu17 -D_GNU_SOURCE -I"$top/include" -I"$top/src" \
		-o "$dir/bench" "$top/bench/bench.c" "$top/src/base/buf.c" \
		"$top/src/base/json.c" "$top/src/base/fd.c"
fi
if [ -x "$brig" ]; then
	cp "$brig" "$dir/brig"
	# what an allow-list needs
	if [ -x "$(dirname "$brig")/brig-egress" ]; then
		cp "$(dirname "$brig")/brig-egress" "$dir/"
	fi
	brig=$dir/brig
else
	echo "run.sh: $brig is not there; comparing bare and bwrap only" >&2
	brig=none
fi
if [ -f "$filter" ]; then
	cp "$filter" "$dir/filter"
	chmod 644 "$dir/filter"
fi

# as WHO ARGS...: the harness as root or as the ordinary user.
as() {
	who=$1
	shift
	set -- "$dir/bench" --brig "$brig" "$@"
	case $who in
	self) "$@" ;;
	*) (
		cd / &&
			setpriv --reuid "$who" --regid "$(id -g "$who")" --clear-groups \
				--inh-caps=-all env -i PATH="$PATH" HOME=/ "$@"
	) ;;
	esac
}

measure() {
	who=$1
	label=$2
	if [ -f "$dir/filter" ]; then
		set -- --filter "$dir/filter"
	else
		set --
	fi
	printf '## %s\n\n' "$label"
	as "$who" "$@" --label "Start-up, $label: " --rounds "$rounds"
	as "$who" "$@" --label "Start-up, $label: " --rounds "$paced_rounds" --pace "$pace"
	as "$who" --scaling --binds "$binds" --label "Binds, $label: " --rounds 100
	as "$who" --scaling --binds "$binds" --label "Binds, $label: " --rounds 40 --pace "$pace"
	[ "$brig" = none ] || as "$who" --net --label "Allow-list, $label: " --rounds "$rounds"
}

printf '# Start-up of one sandboxed command\n\n'
printf 'Kernel %s, %s processors, %s, %s.\n' "$(uname -r)" "$(nproc)" \
	"$(bwrap --version 2>/dev/null || echo 'no bubblewrap')" "$(date -u +%F)"
printf 'Contestants take turns; medians are compared. A failing contestant ends the run.\n\n'

if [ "$(id -u)" -ne 0 ]; then
	measure self "ordinary user"
	exit 0
fi
measure self "root"
if ! id "$user" >/dev/null 2>&1; then
	useradd --system --no-create-home --shell /usr/sbin/nologin "$user"
fi
measure "$user" "ordinary user"
