#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# run.sh [SECONDS]: builds every fuzz harness with clang and runs each for that
# long (default 60) from its corpus, as many at a time as there are processors.  New inputs go to a temporary directory;
# the corpus that is checked in is only read.  Exits 1 when an input made a
# harness crash, leak or hang (the input is kept and named), 77 when there is
# no clang with libFuzzer here.
set -eu

seconds=${1:-60}
case $seconds in
'' | *[!0-9]*)
	echo "usage: $0 [SECONDS]" >&2
	exit 2
	;;
esac
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
top=$(CDPATH='' cd -- "$here/../.." && pwd)
build=$top/build-fuzz
clang=${CLANG:-clang}

skip() {
	echo "SKIP: $1: no fuzzing was done" >&2
	exit 77
}

work=$(mktemp -d "${TMPDIR:-/tmp}/brig-fuzz-XXXXXX")
keep=false
running= # name=pid ...
# shellcheck disable=SC2317 # called by the trap
clean_up() {
	for x in $running; do
		kill "${x#*=}" 2>/dev/null || :
	done
	"$keep" || rm -rf -- "$work"
}
trap clean_up EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

command -v "$clang" >/dev/null || skip "there is no $clang"
command -v meson >/dev/null || skip "there is no meson"
cat >"$work/try.c" <<'END'
#include <stddef.h>
int LLVMFuzzerTestOneInput(const unsigned char *d, size_t n);
int LLVMFuzzerTestOneInput(const unsigned char *d, size_t n) { return n && !d; }
END
"$clang" -fsanitize=fuzzer,address,undefined -o "$work/try" "$work/try.c" \
	2>/dev/null || skip "$clang has no libFuzzer or sanitizers"

# libFuzzer is blind without counters in the library under test as well.
c_args="-fsanitize=fuzzer-no-link -fsanitize-coverage-ignorelist=$here/no-coverage.txt"
if ! grep -q fuzzer-no-link "$build/build.ninja" 2>/dev/null; then
	rm -rf -- "$build"
	CC=$clang meson setup "$build" "$top" -Dfuzz=true -Db_lundef=false \
		-Db_sanitize=address,undefined "-Dc_args=$c_args" >"$work/log" ||
		{ cat "$work/log" >&2; exit 1; }
fi
set --
for source in "$here"/fuzz_*.c; do
	name=$(basename -- "$source" .c)
	set -- "$@" "$name"
done
targets=
for name; do
	targets="$targets tests/$name"
done
# shellcheck disable=SC2086 # a list of words
ninja -C "$build" $targets >"$work/log" || { cat "$work/log" >&2; exit 1; }

export ASAN_OPTIONS=abort_on_error=0:detect_leaks=1:allocator_may_return_null=1
export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
finish() { # those that run
	for x in $running; do
		if wait "${x#*=}"; then
			: >"$work/${x%%=*}.fine"
		fi
	done
	running=
}

for name; do
	corpus=$here/corpus/${name#fuzz_}
	[ -d "$corpus" ] || { echo "$name has no corpus: $corpus" >&2; exit 1; }
done
# -timeout: an input that takes so long hangs, also where others have most of the
# processors
count=0
for name; do
	mkdir "$work/$name" "$work/$name.found"
	"$build/tests/$name" -max_total_time="$seconds" -timeout=30 \
		-rss_limit_mb=1024 -max_len=8192 -print_final_stats=1 \
		-artifact_prefix="$work/$name.found/" "$work/$name" \
		"$here/corpus/${name#fuzz_}" >"$work/$name.log" 2>&1 &
	running="$running $name=$!"
	count=$((count + 1))
	[ $((count % $(nproc))) -ne 0 ] || finish
done
finish
failed=0
for name; do
	echo "$name: $seconds s from $(find "$here/corpus/${name#fuzz_}" -type f | wc -l) inputs"
	if [ -e "$work/$name.fine" ]; then
		awk '/number_of_executed_units|average_exec_per_sec/ {
			printf "  %s %s\n", $1, $2 }' "$work/$name.log"
	else
		failed=1
		keep=true
		tail -n 60 "$work/$name.log" >&2
		echo "FAILED: $name; inputs are in $work/$name.found" >&2
	fi
done
exit $failed
