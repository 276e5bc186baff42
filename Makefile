# SPDX-License-Identifier: Apache-2.0
# brig builds with Meson and Ninja; this file is the two commands a person needs.
#   make run            set up, build, and show a sandboxed command
#   make run ARGS='…'   set up, build, and run any brig command line; on standard output is
#                       what brig says, and nothing else
#   make test           set up everything, build, and run the tests
#   make test-clients   the tests that need Docker, Podman, gVisor or other programs like them
#   make test-vm        the tests that need a virtual machine
BUILD ?= build

.PHONY: all build build-test run test test-clients test-vm quick bench clean setup-build setup-test

all: build

setup-build:
	@tools/setup.sh build >&2

setup-test:
	@tools/setup.sh build test

build: setup-build
	@[ -f $(BUILD)/build.ninja ] || meson setup $(BUILD) >$(BUILD).log 2>&1 || \
		{ cat $(BUILD).log; exit 1; }
	@rm -f $(BUILD).log
	@ninja --quiet -C $(BUILD) >&2

ifdef ARGS
run: build
	@$(BUILD)/brig $(ARGS)
else
run: build
	@tools/demo.sh $(BUILD)/brig
endif

# A build from before may not have the unit tests: their libraries came just now.
build-test: setup-test build
	@[ -x $(BUILD)/tests/test_seccomp ] || { \
		meson configure $(BUILD) -Dtests=enabled >/dev/null && \
		ninja --quiet -C $(BUILD) >/dev/null && [ -x $(BUILD)/tests/test_seccomp ]; }

test: build-test
	@/usr/bin/python3 tests/run_all.py --build $(BUILD)

test-clients: build-test
	@/usr/bin/python3 tests/run_all.py --build $(BUILD) --only run/engines

test-vm: build-test
	@/usr/bin/python3 tests/run_all.py --build $(BUILD) --only vm

# the fast part of the tests, for while you work
quick: build-test
	@/usr/bin/python3 tests/run_all.py --build $(BUILD) --only unit,run/host,run/prompt

bench: setup-test build
	@bench/run.sh

clean:
	rm -rf $(BUILD) $(BUILD)-*
