#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What the landlock and bwrap backends cost, beside what they are made of.

    bench/backends.py [--rounds N] [--pace MS] [--brig PATH] >bench/results-backends.md

landlock is compared with a bare exec, bwrap with bubblewrap itself, given exactly
the arguments that brig gives it (they are recorded from a run of brig, by a program
that stands in for bubblewrap).  Contestants take turns; medians are compared; one
that fails ends the run.  Started by root it measures as root and as an ordinary user.
"""
import argparse
import json
import os
import platform
import pwd
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
OPTIONS = [b"--unshare-user-try", b"--perms", b"--size", b"--ro-bind-fd", b"--add-seccomp-fd",
           b"--disable-userns"]
PATH = "/usr/local/bin:/usr/bin:/bin"
RECORDER = '''#!/usr/bin/python3
# this bubblewrap knows: %s
import json, os, sys
words = open(int(sys.argv[sys.argv.index("--args") + 1]), "rb").read().split(b"\\0")[:-1]
data = {}
for i, w in enumerate(words):
    if i and words[i - 1] == b"--file":
        data[w.decode()] = open(int(w), "rb").read().decode("latin-1")
    elif w.startswith(b"/proc/self/fd/"):
        words[i] = os.readlink(w)
    elif i and words[i - 1] in (b"--bind-fd", b"--ro-bind-fd"):
        words[i - 1] = words[i - 1][:-3]
        words[i] = os.readlink(b"/proc/self/fd/" + w)
json.dump({"words": [w.decode("latin-1") for w in words], "data": data}, open(%r, "w"))
sys.exit(1)
'''


def record(brig, ws, folder):
    """The arguments brig gives to bubblewrap, and the files it hands over."""
    real = shutil.which("bwrap", path=PATH)
    with open(real, "rb") as f:
        text = f.read()
    told = os.path.join(folder, "told")
    fake = os.path.join(folder, "bin")
    os.mkdir(fake)
    with open(os.path.join(fake, "bwrap"), "w") as f:
        f.write(RECORDER % (" ".join(o.decode() for o in OPTIONS if o in text), told))
    os.chmod(f.name, 0o755)
    os.chmod(folder, 0o777)
    user = {} if os.geteuid() else {"user": os.stat(ws).st_uid, "group": os.stat(ws).st_gid,
                                    "extra_groups": []}
    subprocess.run([brig, "run", "--workspace", ws, "--backend", "bwrap", "--", "/bin/true"],
                   env={"PATH": fake + ":" + PATH, "HOME": "/"}, stderr=subprocess.DEVNULL, cwd="/", **user)
    os.chmod(folder, 0o755)
    with open(told) as f:
        got = json.load(f)
    return real, got["words"], got["data"]


class Contestant:
    def __init__(self, name, argv, data=()):
        self.name, self.argv, self.ms = name, argv, []
        self.files = []
        for number, text in data:
            fd = os.memfd_create("data")
            os.write(fd, text)
            self.files.append((fd, number))

    def run(self, err):
        actions = [(os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
                   (os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0),
                   (os.POSIX_SPAWN_DUP2, err, 2)]
        for fd, number in self.files:
            os.lseek(fd, 0, os.SEEK_SET)
            actions.append((os.POSIX_SPAWN_DUP2, fd, number))
        start = time.perf_counter()
        pid = os.posix_spawn(self.argv[0], self.argv, {"PATH": PATH, "HOME": "/"}, file_actions=actions)
        _, status = os.waitpid(pid, 0)
        ms = (time.perf_counter() - start) * 1e3
        if status:
            os.lseek(err, 0, os.SEEK_SET)
            sys.exit("%s failed: %s\n%s" % (self.name, status, os.read(err, 4000).decode()))
        return ms


def contestants(args, ws, folder):
    program = "/bin/true"
    real, words, data = record(args.brig, ws, folder)
    # high numbers: descriptors of ours must not be in the way
    number = {w: 500 + i for i, w in enumerate(data)}
    words = [str(number[w]) if i and words[i - 1] == "--file" else w for i, w in enumerate(words)]
    blob = b"".join(w.encode("latin-1") + b"\0" for w in words)
    files = [(number[w], t.encode("latin-1")) for w, t in data.items()] + [(499, blob)]
    run = [args.brig, "run", "--workspace", ws]
    return [Contestant("bare", [program]),
            Contestant("brig, landlock", [*run, "--backend", "landlock", "--", program]),
            Contestant("bubblewrap, same arguments", [real, "--args", "499", "--", program], files),
            Contestant("brig, bwrap", [*run, "--backend", "bwrap", "--", program]),
            Contestant("brig, native", [*run, "--", program])]


def measure(args, label):
    with tempfile.TemporaryDirectory(prefix="brig-bench-") as folder:
        os.chmod(folder, 0o755)
        ws = os.path.join(folder, "ws")
        os.mkdir(ws)
        if os.geteuid() == 0:  # these backends refuse what belongs to root
            a = pwd.getpwnam(args.user)
            os.chown(ws, a.pw_uid, a.pw_gid)
        os.chdir("/")
        err = os.memfd_create("stderr")
        all_of_them = contestants(args, ws, folder)
        for _ in range(5):
            for c in all_of_them:
                c.run(err)
        for _ in range(args.rounds):
            for c in all_of_them:
                time.sleep(args.pace / 1e3)
                c.ms.append(c.run(err))
    median = {c.name: statistics.median(c.ms) for c in all_of_them}
    print("\n## %s, %d rounds, %s\n" % (label, args.rounds,
                                        "paced at %d ms" % args.pace if args.pace else "tight loop"))
    print("| `/bin/true` in | median ms | p95 ms | least ms |\n|---|---:|---:|---:|")
    for c in all_of_them:
        ms = sorted(c.ms)
        print("| %s | %.3f | %.3f | %.3f |" % (c.name, median[c.name], ms[len(ms) * 95 // 100], ms[0]))
    bare, land = median["bare"], median["brig, landlock"]
    more = median["brig, bwrap"] - median["bubblewrap, same arguments"]
    print("\nlandlock: 1.3 × bare %+.2f ms (wanted: at most + 1 ms: %s). bwrap: %+.2f ms to bubblewrap "
          "itself (wanted: under 1 ms: %s)." % (
              land - 1.3 * bare, "held" if land <= 1.3 * bare + 1 else "not held",
              more, "held" if more < 1 else "not held"))
    sys.stdout.flush()


def main():
    ap = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ap.add_argument("--brig", default=os.path.join(TOP, "build/brig"))
    ap.add_argument("--rounds", type=int, default=200)
    ap.add_argument("--pace", type=int, default=0)
    ap.add_argument("--user", default="brigtest")
    ap.add_argument("--only", choices=["root", "user"])
    args = ap.parse_args()
    args.brig = os.path.realpath(args.brig)
    version = subprocess.run(["bwrap", "--version"], capture_output=True, text=True).stdout.strip()
    print("# Start-up in the landlock and bwrap backends\n")
    print("Kernel %s, %d processors, %s, %s. Contestants take turns; medians are compared." % (
        platform.release(), os.cpu_count(), version, time.strftime("%F", time.gmtime())))
    sys.stdout.flush()
    if os.geteuid() == 0 and args.only != "user":
        measure(args, "root")
    if os.geteuid() == 0 and args.only != "root":
        # the user must be able to reach it, wherever the checkout lies
        with tempfile.TemporaryDirectory(prefix="brig-bench-exe-") as d:
            os.chmod(d, 0o755)
            args.brig = shutil.copy(args.brig, d)
            pid = os.fork()
            if pid == 0:
                a = pwd.getpwnam(args.user)
                os.setgroups([])
                os.setresgid(a.pw_gid, a.pw_gid, a.pw_gid)
                os.setresuid(a.pw_uid, a.pw_uid, a.pw_uid)
                code = 1
                try:
                    measure(args, "ordinary user")
                    code = 0
                finally:
                    sys.stdout.flush()
                    os._exit(code)
            return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    elif args.only != "root":
        measure(args, "ordinary user")
    return 0


if __name__ == "__main__":
    sys.exit(main())
