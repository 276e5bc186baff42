#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the stages of the tests and counts: what `make test` does.

The parts of the stages run side by side in lanes (see LANES), each in a process
of its own; what a part printed is printed whole when it ends.  At the end stands
one line for all of them, "N passed, N failed, N skipped".  A stage that cannot
run here is a skip with its reason, never a silent pass; a part that dies is a
failure.
"""
import argparse
import concurrent.futures
import ctypes
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class Count:
    def __init__(self):
        self.passed = self.failed = self.skipped = 0
        self.reasons = []

    def check(self, ok, what):
        if ok:
            self.passed += 1
        else:
            self.failed += 1
            print(f"FAILED: {what}", flush=True)
        return ok

    def skip(self, what, why):
        self.skipped += 1
        self.reasons.append(f"{what}: {why}")
        print(f"SKIP: {what}: {why}", flush=True)


interrupted = []  # signals: no further command is started


def run(cmd, quiet=False, **kw):
    """Runs a command from the root; returns (exit code, output)."""
    if interrupted:
        raise SystemExit(128 + interrupted[0])
    p = subprocess.run(cmd, cwd=ROOT, text=True, errors="replace",
                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                       stdin=subprocess.DEVNULL, **kw)
    if not quiet or p.returncode not in (0, 77):
        print(p.stdout, end="", flush=True)
    return p.returncode, p.stdout


def sources(pattern):
    out = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", pattern],
                         cwd=ROOT, text=True, stdout=subprocess.PIPE).stdout.split()
    return [f for f in out if os.path.exists(os.path.join(ROOT, f))]


def configure(name, env=None, *options, only_tests=False):
    """A second build directory with other options: all of it, or what its tests need."""
    build = f"build-{name}"
    full = dict(os.environ, **(env or {}))
    if not os.path.exists(os.path.join(ROOT, build, "build.ninja")):
        code, _ = run(["meson", "setup", build, *options], quiet=True, env=full)
        if code:
            return build, code
    code, _ = run(["ninja", "--quiet", "-C", build,
                   *(["meson-test-prereq"] if only_tests else [])], quiet=True, env=full)
    return build, code


def meson_tests(count, build, suite, label):
    code, _ = run(["meson", "test", "-C", build, "--no-rebuild", "--suite", suite,
                   "--print-errorlogs"], quiet=True)
    log = os.path.join(ROOT, build, "meson-logs", "testlog.json")
    with open(log) as f:
        for line in f:
            t = json.loads(line)
            name = f"{label}/{t['name']}"
            # cmocka writes that on standard error
            passed = re.findall(r"\[  PASSED  \] (\d+) test",
                                (t.get("stdout") or "") + (t.get("stderr") or ""))
            ran = sum(int(n) for n in passed) or 1
            if t["result"] == "OK":
                count.passed += ran
            elif t["result"] == "SKIP":
                count.skip(name, (t.get("stdout") or "").strip()[-200:])
            else:
                count.check(False, name)
            for s in re.findall(r"SKIP[:\s]+(.*)", t.get("stdout") or ""):
                count.skip(name, s.strip())
    if code not in (0, 77) and not count.failed:
        count.check(False, f"{label}: meson test exited {code}")


def clang_tidy(build, files):
    """One process per file: in one for several the analyzer reports every
    va_list after the first file as uninitialised.  One compilation per file:
    most are compiled for libbrig, for brig and for tests.  Returns what is
    wrong, as lines."""
    with open(os.path.join(ROOT, build, "compile_commands.json")) as f:
        entries = json.load(f)
    entries.sort(key=lambda e: not e["output"].startswith("libbrig"))
    once = {}
    for e in entries:
        path = os.path.relpath(os.path.join(e["directory"], e["file"]), ROOT)
        if path in files:
            once.setdefault(path, e)
    folder = os.path.join(build, "tidy")
    os.makedirs(os.path.join(ROOT, folder), exist_ok=True)
    with open(os.path.join(ROOT, folder, "compile_commands.json"), "w") as f:
        json.dump(list(once.values()), f)

    def one(path):
        if interrupted:
            return []
        p = subprocess.run(["clang-tidy", "--quiet", "-p", folder, path], cwd=ROOT,
                           text=True, errors="replace", stdin=subprocess.DEVNULL,
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        # the analyzer does not know __attribute__((cleanup)): see .clang-tidy
        bad = [x for x in p.stdout.splitlines()
               if re.search(r" (warning|error): ", x) and
               not re.search(r" warning: Potential (leak of memory|memory leak).*unix\.Malloc", x)]
        if p.returncode and not bad:
            bad = [f"{path}: clang-tidy exited {p.returncode}", p.stderr]
        return bad

    largest_first = sorted(once, reverse=True,
                           key=lambda x: os.path.getsize(os.path.join(ROOT, x)))
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        bad = [x for lines in pool.map(one, largest_first) for x in lines]
    return bad + [f"{x}: is not compiled" for x in files if x not in once]


# What glibc declares beside the plain names, musl only before 1.2.4 (Debian 12 has 1.2.3).
LARGE_FILE_NAMES = re.compile(
    r"\bstruct (dirent|stat|statfs|statvfs|rlimit|flock)64\b|\b(off|ino|blkcnt|fsblkcnt|fsfilcnt)64_t\b|"
    r"\b(open|openat|creat|lseek|stat|lstat|fstat|fstatat|statfs|fstatfs|statvfs|fstatvfs|truncate|ftruncate|"
    r"pread|preadv|pwrite|pwritev|readdir|scandir|alphasort|getdents|getrlimit|setrlimit|prlimit|mmap|fopen|"
    r"freopen|fseeko|ftello|tmpfile|mkstemp|mkostemp|fallocate|posix_fadvise|posix_fallocate|lockf|sendfile|"
    r"glob|ftw|nftw)64 ?\(")


def needs(count, what, *tools):
    """Are they here?  If not, that is a skip."""
    missing = [t for t in tools if not shutil.which(t)]
    if missing:
        count.skip(what, f"{', '.join(missing)} not installed")
    return not missing


def stage_lint(count, args):
    """Both compilers with warnings as errors, and the checkers."""
    # gcc sees more when it optimises; clang sees the same either way
    for cc, optimization in (("gcc", "3"), ("clang", "0")):
        what = f"{cc} with warnings as errors"
        if needs(count, what, cc):
            _, code = configure(f"werror-{cc}", {"CC": cc}, "-Dwerror=true",
                                "-Dbuildtype=plain", f"-Doptimization={optimization}")
            count.check(code == 0, what)
    own = [f for f in sources("*.c") if f.startswith("src/")]
    if needs(count, "clang-tidy", "clang", "clang-tidy"):
        bad = clang_tidy("build-werror-clang", own)
        print("\n".join(bad), end="\n" if bad else "")
        count.check(not bad, "clang-tidy")
    text = [f for f in sources("*") if not re.search(
        r"corpus/|golden/|\.inc$|^LICENSE$", f)]
    scripts = [f for f in sources("*.sh")] + [".ci/run"]
    for words in (
            ["cppcheck", "--quiet", "--std=c11", "--error-exitcode=1",
             "--inline-suppr", "--enable=warning,performance,portability",
             "--suppressions-list=tools/cppcheck.txt", "-Iinclude", "-Isrc",
             "-D_GNU_SOURCE", "-D__x86_64__", "-j2",
             # it does not read jansson's headers; newer ones take no ; in a definition
             "-Djson_array_foreach(a,i,v)=while((v=json_array_get(a,i=next_of(a))))",
             "-Djson_object_foreach(o,k,v)=while((k=next_of(o))&&(v=next_of(o)))", *own],
            # "\\nd" is an escape and a letter, not a word
            ["codespell", "--ignore-regex", r"\\[nrt]", "--ignore-words",
             "tools/codespell.txt", *text],
            # SC2317, "unreachable": functions are called by name, through "$@"
            ["shellcheck", "-x", "-e", "SC2317", *scripts]):
        if needs(count, words[0], words[0]):
            code, _ = run(words, quiet=True)
            count.check(code == 0, words[0])
    large = [f"{f}: {m.group()}" for f in own for m in
             LARGE_FILE_NAMES.finditer(open(os.path.join(ROOT, f)).read())]
    count.check(not large, f"names that musl has no more: {large}")
    missing = [f for f in sources("*.[ch]") + scripts
               if "SPDX-License-Identifier" not in open(os.path.join(ROOT, f)).read(400)]
    count.check(not missing, f"SPDX headers: {missing}")
    for page in ("man/brig.1", "man/brig-config.5"):
        if not needs(count, page, "man"):
            continue
        code, out = run(["man", "--warnings", "-l", page], quiet=True,
                        env=dict(os.environ, MANWIDTH="80", LC_ALL="C.UTF-8"))
        count.check(code == 0 and "warning" not in out.split("NAME")[0], page)


def stage_unit(count, args):
    meson_tests(count, args.build, "unit", "unit")


def stage_asan(count, args):
    build, code = configure("asan", None, "-Db_sanitize=address,undefined",
                            "-Db_lundef=false", only_tests=True)
    if count.check(code == 0, "ASan+UBSan build"):
        meson_tests(count, build, "unit", "asan")


def within_reach():
    """Where an ordinary user finds this checkout, and the words before a command that is
    to run there.  Root's home is closed to others, and what is below it: then it is shown
    elsewhere, to that command alone.  If it cannot be, that command fails, and is counted."""
    closed = [d for d in [ROOT, *map(str, pathlib.Path(ROOT).parents)]
              if not os.stat(d).st_mode & 0o001]
    if os.geteuid() != 0 or not closed:
        return ROOT, []
    script = ("mount -t tmpfs -o mode=755 tmpfs /mnt && mkdir /mnt/brig && "
              "mount --bind \"$0\" /mnt/brig && cd /mnt/brig && exec \"$@\"")
    return "/mnt/brig", ["unshare", "--mount", "--propagation", "private",
                         "sh", "-c", script, ROOT]


def pytest(count, args, folder, *more, may_skip_all=False, prefix=(), env=None):
    # No second try for what fails: in tests of containment "sometimes" is a bug.
    at, before = within_reach()
    env = dict(os.environ, BRIG=os.path.join(at, args.build, "brig"),
               BRIG_BUILD=os.path.join(at, args.build),
               BRIG_PROBE=os.path.join(at, args.build, "tests", "probe"), **(env or {}))
    code, out = run([*prefix, *before, "/usr/bin/python3", "-m", "pytest", "-q", "-rsfE", "--tb=short",
                     "-p", "no:cacheprovider", *more, f"tests/{folder}"], env=env)
    tail = out.strip().splitlines()[-1] if out.strip() else ""
    numbers = {k: int(n) for n, k in re.findall(
        r"(\d+) (passed|failed|skipped|error)", tail)}
    bad = numbers.get("failed", 0) + numbers.get("error", 0)
    count.passed += numbers.get("passed", 0)
    count.failed += bad
    for n, why in re.findall(r"^SKIPPED \[(\d+)\] (.*)$", out, re.M):
        count.skipped += int(n)
        count.reasons.append(f"{folder}: {why} ({n})")
    if code not in (0, 5) and not bad:
        count.check(False, f"tests/{folder}: pytest exited {code}")
    if not numbers.get("passed") and not (may_skip_all and numbers.get("skipped")):
        count.check(False, f"tests/{folder}: no test ran")


def stage_run_host(count, args):
    """All but what needs a container engine or a quiet machine."""
    pytest(count, args, "run", "-m", "not engine and not prompt")


def own_mounts():
    """The words before a command whose mounts are to be nobody else's: engines make some."""
    if os.geteuid() == 0 and shutil.which("unshare"):
        return ["unshare", "--mount", "--propagation", "private"]
    return []


def stage_run_engines(count, args):
    """What needs one: it waits for dockerd and gVisor most of the time.  The processes and
    files of its test user are nobody else's either."""
    pytest(count, args, "run", "-m", "engine", may_skip_all=True, prefix=own_mounts(),
           env={"BRIG_TEST_ACCOUNT": "brigtest-engine"})


def stage_run_prompt(count, args):
    """What has to happen within fractions of a second."""
    pytest(count, args, "run", "-m", "prompt and not engine")


def stage_egress_most(count, args):
    pytest(count, args, "egress", "-m", "not prompt", prefix=own_mounts(),
           env={"BRIG_TEST_ACCOUNT": "brigtest-egress"})


def stage_egress_prompt(count, args):
    pytest(count, args, "egress", "-m", "prompt")


def stage_fault(count, args):
    pytest(count, args, "fault")


def stage_fuzz(count, args):
    """A few seconds per harness: enough to notice what breaks at once."""
    code, out = run(["tests/fuzz/run.sh", str(args.fuzz_seconds)], quiet=True)
    if code == 77:
        count.skip("fuzz", out.strip().splitlines()[-1])
    else:
        count.check(code == 0, "fuzz harnesses")


def stage_vm(count, args):
    """Control groups version 2, on a kernel and a machine that have them."""
    t = os.path.join(args.build, "tests")
    jobs = [("cgroup-v2", ["-b", f"{t}/cgtest", "tests/vm/cgroup-v2.sh"]),
            ("systemd-user", ["-b", f"{t}/cgtest", "-b", f"{args.build}/brig",
                              "-b", f"{args.build}/brig-scope",
                              "-x", "/usr/bin/systemd-run", "-x", "/lib/systemd/systemd",
                              "-x", "/usr/lib/x86_64-linux-gnu/systemd",
                              "-x", "/usr/lib/systemd/user",
                              "-x", "/usr/bin/dbus-daemon", "-x", "/usr/share/dbus-1/session.conf",
                              "tests/vm/cgroup-systemd.sh"]),
            ("brig-v2", ["-b", f"{args.build}/brig", "-b", f"{t}/probe", "-b", f"{t}/inject",
                         "tests/vm/brig-v2.sh"])]
    for name, more in jobs:
        if not os.path.exists(os.path.join(ROOT, more[-1])):
            continue
        # emulated, beside everything else: it takes half a minute alone
        code, out = run(["tests/vm/run-v2.sh", "-t", "400", *more], quiet=True)
        if code == 77:
            count.skip(f"vm/{name}", out.strip().splitlines()[-1] if out else "?")
        else:
            count.check(code == 0, f"vm/{name}")


# Every part of every stage.
PARTS = {"lint": stage_lint, "unit": stage_unit, "asan": stage_asan,
         "run/host": stage_run_host, "run/engines": stage_run_engines,
         "run/prompt": stage_run_prompt, "egress/most": stage_egress_most,
         "egress/prompt": stage_egress_prompt, "fault": stage_fault, "fuzz": stage_fuzz,
         "vm": stage_vm}
# Those with a make target of their own; `make test` runs everything else.
OWN_TARGET = {"run/engines": "make test-clients", "vm": "make test-vm"}

# Lanes run side by side, the parts of one lane one after the other.  The first has
# what computes and has no deadlines of its own: it gets what time the others leave.
# The others have deadlines and mostly wait.
IDLE = ["lint", "asan", "fuzz"]
LANES = [IDLE, ["unit", "run/host"], ["run/engines"], ["vm", "egress/most"]]
# Afterwards, alone: what measures time, and what breaks the machine's system calls one
# by one and looks for what is left on it.
ALONE = ["run/prompt", "egress/prompt", "fault"]


def parts_of(names, error):
    """Stages and parts, as named with --only, as parts."""
    chosen = []
    for name in names.split(","):
        found = [p for p in PARTS if name in (p, p.split("/")[0])]
        if not found:
            error(f"no stage {name}: {', '.join(PARTS)}")
        chosen += found
    return chosen


class Part:
    """A part of a stage, running as a process group of its own (and not a session:
    schedulers that group by session would give an idle one as much as any other)."""

    def __init__(self, name, args, folder, idle, direct):
        self.name, self.start, self.direct = name, time.time(), direct
        self.report = os.path.join(folder, name.replace("/", "-") + ".json")
        self.output = os.path.join(folder, name.replace("/", "-") + ".log")
        words = [sys.executable, os.path.abspath(__file__), "--build", args.build,
                 "--fuzz-seconds", str(args.fuzz_seconds), "--part", name,
                 "--report", self.report, *(["--idle"] if idle else [])]
        print(f"== {name}", flush=True)
        with open(self.output, "wb") as f:
            self.proc = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=None if direct else f,
                stderr=None if direct else subprocess.STDOUT, process_group=0)

    def result(self, code):
        """Prints what it printed, and how it ended."""
        if not self.direct:
            print(f"== output of {self.name}", flush=True)
            with open(self.output, "rb") as f:
                shutil.copyfileobj(f, sys.stdout.buffer)
            sys.stdout.buffer.flush()
        c = Count()
        try:
            with open(self.report) as f:
                c.__dict__.update(json.load(f))
        except (OSError, ValueError):
            code = code or "without a report"
        if code:
            c.check(False, f"{self.name} ended by itself: exit {code}")
        print(f"== {self.name}: {c.passed} passed, {c.failed} failed, {c.skipped} skipped"
              f" in {time.time() - self.start:.0f} s", flush=True)
        return c

    def kill(self):
        try:
            os.killpg(self.proc.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def part_interrupted(number, _):
    """Passed on to the commands, once: pytest then ends what it started, engines and all,
    and is waited for; a second time it would leave that."""
    if not interrupted:
        interrupted.append(number)
        os.killpg(0, signal.SIGINT)


def part_main(args):
    """The process of one part."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, part_interrupted)
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG: nobody counts any more
    if args.idle:
        try:
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        except OSError:
            os.nice(19)
    c = Count()
    PARTS[args.part](c, args)
    if interrupted:
        return 128 + interrupted[0]
    with open(args.report + ".new", "w") as f:
        json.dump(vars(c), f)
    os.rename(args.report + ".new", args.report)
    return 0


def run_lanes(lanes, args, folder, total, direct):
    """All of these, side by side; True when nobody interrupted them."""
    waiting = [list(x) for x in lanes if x]
    running = {}  # lane -> Part

    def begin():
        for i, lane in enumerate(waiting):
            if i not in running and lane:
                name = lane.pop(0)
                running[i] = Part(name, args, folder, name in IDLE and not direct, direct)

    def end(i, code):
        c = running.pop(i).result(code)
        for k, v in vars(c).items():
            setattr(total, k, getattr(total, k) + v)

    try:
        begin()
        while running:
            pid, status = os.wait()
            for i, part in list(running.items()):
                if part.proc.pid == pid:
                    part.proc.returncode = os.waitstatus_to_exitcode(status)
                    end(i, part.proc.returncode)
            begin()
    except KeyboardInterrupt:
        print("interrupted: waiting for what runs to clean up", flush=True)
        stop([p for p in running.values()])
        return False
    return True


def stop(parts, seconds=60):
    """Ends them: pytest takes down engines, containers and mounts when it is asked to.
    Whoever asks twice does not wait for that."""
    for p in parts:
        p.proc.send_signal(signal.SIGINT)
    try:
        end = time.monotonic() + seconds
        for p in parts:
            p.proc.wait(max(0, end - time.monotonic()))
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        pass
    for p in parts:
        p.kill()
        p.proc.wait()


def interrupt(*_):
    raise KeyboardInterrupt


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--build", default="build")
    ap.add_argument("--only", metavar="STAGE[,STAGE]",
                    default=",".join(p for p in PARTS if p not in OWN_TARGET),
                    help=f"of {', '.join(PARTS)}; run and egress are all of their parts; "
                         f"without it all but {', '.join(OWN_TARGET)}")
    ap.add_argument("--fuzz-seconds", type=int, default=6)
    for internal in ("--part", "--report"):
        ap.add_argument(internal, help=argparse.SUPPRESS)
    ap.add_argument("--idle", action="store_true", help=argparse.SUPPRESS)
    args = ap.parse_args()
    if args.part:
        return part_main(args)
    chosen = parts_of(args.only, ap.error)
    total, start = Count(), time.time()
    signal.signal(signal.SIGTERM, interrupt)
    lanes = [[p for p in lane if p in chosen] for lane in LANES]
    alone = [p for p in ALONE if p in chosen]
    with tempfile.TemporaryDirectory(prefix="brig-tests-") as folder:
        done = run_lanes(lanes, args, folder, total, len([x for x in lanes if x]) < 2) and \
            run_lanes([alone], args, folder, total, True)
    if not done:
        return 130
    if total.reasons:
        print("Skipped, and why:")
        for r in total.reasons:
            print(f"  {r}")
    if args.only == ap.get_default("only"):
        print("Not run: " + ", ".join(f"{p} ({how})" for p, how in OWN_TARGET.items()))
    print(f"all of it took {time.time() - start:.0f} s")
    print(f"{total.passed} passed, {total.failed} failed, {total.skipped} skipped")
    return 1 if total.failed or not total.passed else 0


if __name__ == "__main__":
    sys.exit(main())
