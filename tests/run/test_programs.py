# SPDX-License-Identifier: Apache-2.0
"""Real work inside: what passes on the host passes in the sandbox."""
import json
import os
import shutil
import subprocess

import pytest

from conftest import BRIG, IS_ROOT, need

BIG = ["--pids", "256", "--timeout", "120", "--memory", "0", "--cpus", "0"]
PYTHON = "/usr/bin/python3"


def good(r, want=None):
    j = r.json
    assert r.code == 0, (j["stdout"], j["stderr"], j["error"])
    if want is not None:
        assert j["stdout"] == want, j["stdout"]
    return j


def test_sh_and_coreutils(who):
    good(who.sh("seq 1 10 | sort -rn | head -1; mkdir -p a/b; touch a/b/c; find a | wc -l; tar cf t.tar a; "
                "tar tf t.tar | wc -l; date +%Y >/dev/null; sleep 0.01; du -s a >/dev/null; df . >/dev/null"), "10\n3\n3\n")


def test_bash(who):
    need("bash")
    good(who.run("bash", "-c", 'x=(1 2 3); echo ${#x[@]}; cat <(echo sub); echo $((2**10)); read y <<< "here"; '
                               'echo $y; coproc cat; echo hi >&${COPROC[1]}; read -u ${COPROC[0]} z; echo $z'),
         "3\nsub\n1024\nhere\nhi\n")


def test_perl(who):
    need("perl")
    good(who.run("perl", "-MPOSIX", "-e", "print join(',', map { $_ ** 2 } 1..4), \"\\n\"; open my $f, '>', 'p' or die; "
                                          "print $f `echo sub`; close $f; print -s 'p', \"\\n\"; "
                                          "my $pid = fork; exit 3 if !$pid; waitpid $pid, 0; print $? >> 8"), "1,4,9,16\n4\n3")


def test_python_subprocess(who):
    good(who.run(PYTHON, "-c", "import subprocess,os,pwd,tempfile,socket\n"
                 "print(subprocess.check_output(['echo', 'hi']))\n"
                 "print(subprocess.run('exit 4', shell=True).returncode)\n"
                 "print(pwd.getpwuid(os.getuid()).pw_name)\n"
                 "tempfile.NamedTemporaryFile().write(b'x')\n"
                 "print(os.path.expanduser('~') == os.environ['HOME'])"), "b'hi\\n'\n4\nsandbox\nTrue\n")


def test_python_multiprocessing(who):
    who.write(who.ws / "m.py", "import multiprocessing as m\ndef f(x): return x * x\n"
              "if __name__ == '__main__':\n"
              "    for how in ('fork', 'spawn', 'forkserver'):\n"
              "        c = m.get_context(how)\n"
              "        with c.Pool(3) as p: print(how, p.map(f, range(4)))\n"
              "    q = m.Queue(); q.put(5); print(q.get()); l = m.Lock(); l.acquire(); l.release()\n"
              "    s = m.shared_memory.SharedMemory(create=True, size=100) if hasattr(m, 'shared_memory') else None\n")
    good(who.run(PYTHON, "m.py", opts=BIG),
         "fork [0, 1, 4, 9]\nspawn [0, 1, 4, 9]\nforkserver [0, 1, 4, 9]\n5\n")


def test_python_shared_memory_and_threads(who):
    good(who.run(PYTHON, "-c", "from multiprocessing import shared_memory as s\nimport threading, asyncio\n"
                 "m = s.SharedMemory(create=True, size=100); m.buf[0] = 7; print(m.buf[0]); m.close(); m.unlink()\n"
                 "t = [threading.Thread(target=int) for _ in range(50)]; [x.start() for x in t]; [x.join() for x in t]\n"
                 "async def a(): p = await asyncio.create_subprocess_exec('true'); return await p.wait()\n"
                 "print(asyncio.run(a()))"), "7\n0\n")


def test_sqlite_wal(who):
    good(who.run(PYTHON, "-c", "import sqlite3\nc = sqlite3.connect('t.db')\n"
                 "print(c.execute('pragma journal_mode=wal').fetchone()[0])\n"
                 "c.execute('create table t(x)'); c.executemany('insert into t values(?)', [(i,) for i in range(1000)]); c.commit()\n"
                 "d = sqlite3.connect('t.db'); print(d.execute('select count(*) from t').fetchone()[0])\n"
                 "print(c.execute('pragma wal_checkpoint(truncate)').fetchone()[0]); c.execute('vacuum')"), "wal\n1000\n0\n")
    assert (who.ws / "t.db").stat().st_size > 4096


def test_python_venv_and_pip(who):
    r = who.sh("%s -m venv --without-pip v && v/bin/python -c 'import sys; print(sys.prefix)'" % PYTHON, BIG)
    if r.code and "ensurepip" in r.json["stderr"] + r.json["stdout"]:
        pytest.skip("python3-venv is not installed on this host")
    good(r, "%s/v\n" % who.ws)


def test_node(who):
    need("node")
    who.write(who.ws / "a.js", "const {execSync} = require('child_process'); const fs = require('fs');\n"
              "const {Worker, isMainThread} = require('worker_threads');\n"
              "console.log(execSync('echo sub').toString().trim());\n"
              "fs.writeFileSync('out', 'x'); console.log(fs.statSync('out').size);\n"
              "const http = require('http'); const s = http.createServer((q, r) => r.end('pong')).listen(0, '127.0.0.1', () =>\n"
              "  http.get({port: s.address().port}, r => r.on('data', d => { console.log(d.toString());\n"
              "    new Worker('console.log(\"worker\")', {eval: true}).on('exit', () => process.exit(0)) })));\n")
    good(who.run("node", "a.js", opts=BIG), "sub\n1\npong\nworker\n")


def test_npm_version(user):
    need("npm")
    assert good(user.run("npm", "--version", opts=BIG))["stdout"][0].isdigit()


def test_gcc(who):
    need("gcc")
    who.write(who.ws / "h.c", '#include <stdio.h>\n#include <pthread.h>\nstatic void *f(void *p) { return p; }\n'
              'int main(void) { pthread_t t; pthread_create(&t, 0, f, 0); pthread_join(t, 0); puts("compiled"); return 5; }\n')
    r = who.sh("gcc -O2 -g -pthread -o h h.c && ./h", BIG)
    assert r.code == 5 and r.json["stdout"] == "compiled\n", r.json


def test_make(who):
    need("make", "gcc")
    who.write(who.ws / "Makefile", "all: a.o b.o\n\t@echo linked\n%.o: %.c\n\t@$(CC) -c $< -o $@\n")
    who.write(who.ws / "a.c", "int a;\n")
    who.write(who.ws / "b.c", "int b;\n")
    good(who.sh("make -j4", BIG), "linked\n")


def test_address_sanitizer_leak_check(who):
    """LeakSanitizer ptraces its own threads: fact 10."""
    need("gcc")
    who.write(who.ws / "l.c", "#include <stdlib.h>\nint main(void) { volatile char *p = malloc(123); p = 0; (void)p; return 0; }\n")
    r = who.sh("gcc -g -fsanitize=address -o l l.c", BIG)
    if r.code:
        pytest.skip("gcc has no AddressSanitizer here: %s" % r.json["stderr"][:80])
    host = who.host("./l", check=False)
    r = who.sh("./l", BIG)
    assert b"detected memory leaks" in host.stderr
    assert r.code == host.returncode and "detected memory leaks" in r.json["stderr"], r.json["stderr"]
    assert "LeakSanitizer has encountered a fatal error" not in r.json["stderr"]


def test_thread_sanitizer(who):
    need("gcc")
    who.write(who.ws / "t.c", "#include <pthread.h>\nint x; static void *f(void *p) { x++; return p; }\n"
              "int main(void) { pthread_t t; pthread_create(&t, 0, f, 0); x++; pthread_join(t, 0); return 0; }\n")
    r = who.sh("gcc -g -fsanitize=thread -o t t.c", BIG)
    if r.code:
        pytest.skip("gcc has no ThreadSanitizer here: %s" % r.json["stderr"][:80])
    r = who.sh("./t", BIG)
    assert "data race" in r.json["stderr"] and r.code == 66, r.json["stderr"][:500]


def test_gdb(who):
    need("gdb", "gcc")
    who.write(who.ws / "g.c", "int twice(int x) { return 2 * x; }\nint main(void) { return twice(21); }\n")
    r = who.sh("gcc -g -O0 -o g g.c && gdb -batch -nx -ex 'break twice' -ex run -ex 'print x' -ex bt ./g", BIG)
    assert r.code == 0 and "$1 = 21" in r.json["stdout"] and "main ()" in r.json["stdout"], r.json


def test_strace(who):
    need("strace")
    r = who.sh("strace -f -e trace=openat -o log cat /etc/hosts > /dev/null; grep -c hosts log", BIG)
    good(r, "1\n")
    # seccomp-bpf assisted tracing as well
    r = who.sh("strace -f --seccomp-bpf -e trace=execve -o log true; grep -c execve log", BIG)
    assert r.json["stdout"] == "1\n", r.json


def test_git_version_and_diff(who):
    need("git")
    who.write(who.ws / "a", "1\n")
    who.write(who.ws / "b", "2\n")
    assert "+2" in who.sh("git diff --no-index a b").json["stdout"]


def test_java(user):
    need("java")
    r = user.run("java", "-version", opts=BIG)
    assert r.code == 0 and "openjdk" in r.json["stderr"].lower(), r.json
    if not shutil.which("javac"):
        return
    user.write(user.ws / "H.java", 'public class H { public static void main(String[] a) throws Exception {'
               ' Thread t = new Thread(() -> System.out.println("thread")); t.start(); t.join();'
               ' System.out.println(new String(Runtime.getRuntime().exec("echo sub").getInputStream().readAllBytes())); } }\n')
    r = user.sh("javac H.java && java H", BIG)
    assert r.code == 0 and r.json["stdout"].startswith("thread\nsub"), r.json


def test_go(user):
    if not os.access("/usr/local/go/bin/go", os.X_OK) and not shutil.which("go"):
        pytest.skip("go is not installed on this host")
    go = "/usr/local/go/bin/go" if os.access("/usr/local/go/bin/go", os.X_OK) else "go"
    assert good(user.run(go, "version", opts=BIG))["stdout"].startswith("go version")
    assert "linux" in good(user.run(go, "env", "GOOS", opts=BIG))["stdout"]


def test_go_build(user):
    """A whole compilation with the linker: many threads and processes."""
    if not os.access("/usr/local/go/bin/go", os.X_OK):
        pytest.skip("go is not installed on this host")
    if not os.environ.get("BRIG_SLOW"):
        pytest.skip("compiles Go's runtime, about a minute: set BRIG_SLOW=1")
    user.write(user.ws / "h.go", 'package main\nfunc main() { c := make(chan int); go func() { c <- 42 }(); println(<-c) }\n')
    r = user.run("/usr/local/go/bin/go", "run", "h.go", opts=[*BIG, "--tmp-size", "1G", "--env", "GOFLAGS=-p=2"])
    assert r.code == 0 and r.json["stderr"] == "42\n", r.json


def test_rustc(user):
    need("rustc")
    user.write(user.ws / "h.rs", 'fn main() { println!("{}", std::thread::spawn(|| 6 * 7).join().unwrap()) }\n')
    good(user.sh("rustc h.rs && ./h", BIG), "42\n")


def test_openssl_and_certificates(user):
    need("openssl")
    good(user.sh("echo x | openssl dgst -sha256 | wc -c; openssl rand -hex 4 | wc -c; "
                 "test -s /etc/ssl/certs/ca-certificates.crt && echo certs"))


def test_locale_and_time_zone(who):
    out = good(who.sh("date +%Z; locale 2>/dev/null | head -1", ["--env", "TZ=Asia/Tokyo"]))["stdout"]
    assert out.startswith("JST\n")


def test_name_service(who):
    out = good(who.sh("id -un; id -gn; getent passwd sandbox | cut -d: -f6; getent hosts localhost | wc -l; "
                      "getent services http/tcp | wc -l; whoami"))["stdout"].split("\n")
    assert out[:3] == ["sandbox", "sandbox", str(who.home)] and out[3] != "0" and out[5] == "sandbox"


def test_devices(who):
    good(who.sh("head -c 4 /dev/zero | wc -c; head -c 4 /dev/urandom | wc -c; echo x > /dev/null; "
                "echo in | cat < /dev/stdin; (echo z > /dev/full) 2>/dev/null || echo full; "
                "ls /dev/fd | head -3 | tr '\\n' ' '"), "4\n4\nin\nfull\n0 1 2 ")


DEV = """
import os, stat
for name in sorted(os.listdir("/dev")):
    s = os.lstat("/dev/" + name)
    kind = "%d,%d" % (os.major(s.st_rdev), os.minor(s.st_rdev)) if stat.S_ISCHR(s.st_mode) else "dir"
    print(name, os.readlink("/dev/" + name) if stat.S_ISLNK(s.st_mode) else kind)
"""
DEVICES = {"null": "1,3", "zero": "1,5", "full": "1,7", "random": "1,8", "urandom": "1,9", "pts": "dir", "shm": "dir",
           "ptmx": "pts/ptmx", "fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1",
           "stderr": "/proc/self/fd/2"}


def test_dev(who):
    """These and no more; a controlling terminal only with one of brig's own."""
    for opts, more in (([], {}), (["--pty"], {"tty": "5,0"})):
        out = good(who.run(PYTHON, "-c", DEV, opts=opts))["stdout"]
        assert dict(x.split() for x in out.splitlines()) == {**DEVICES, **more}, out
    good(who.sh("for f in random urandom zero; do head -c 4 /dev/$f | wc -c; done; echo x > /dev/null; head -c 1 /dev/null | wc -c; "
                "test -c /dev/full && (/bin/echo z > /dev/full) 2>&1 | grep -c 'No space'"), "4\n4\n4\n0\n1\n")


def test_captured_streams_can_be_opened_by_name(who):
    """Scripts write to /dev/stderr and tee to /dev/stdout all the time."""
    r = who.sh("echo out > /dev/stdout; echo err > /dev/stderr; echo t | tee /dev/stderr")
    assert (r.code, r.json["stdout"], r.json["stderr"]) == (0, "out\nt\n", "err\nt\n"), r.json


def test_posix_things(who):
    good(who.run(PYTHON, "-c", "import os, mmap, fcntl, select, signal, time, resource\n"
                 "r, w = os.pipe(); os.write(w, b'x'); print(select.select([r], [], [], 1)[0] == [r])\n"
                 "e = select.epoll(); e.register(r); print(len(e.poll(1)))\n"
                 "m = mmap.mmap(-1, 4096); m[0] = 1; print(m[0])\n"
                 "f = open('l', 'w'); fcntl.flock(f, fcntl.LOCK_EX); fcntl.lockf(f, fcntl.LOCK_EX); print('locked')\n"
                 "fd = os.memfd_create('x'); os.write(fd, b'y'); print(os.fstat(fd).st_size)\n"
                 "os.symlink('a', 'b'); os.link('l', 'l2'); os.mkfifo('ff'); os.setxattr('l', 'user.k', b'v'); print(os.getxattr('l', 'user.k'))\n"
                 "os.sched_setaffinity(0, os.sched_getaffinity(0)); print(os.getpriority(os.PRIO_PROCESS, 0) >= 0)\n"
                 "os.utime('l', (1, 1)); print(int(os.stat('l').st_mtime)); os.posix_fallocate(f.fileno(), 0, 10)\n"
                 "p = os.pidfd_open(os.getpid()); print(p > 2); g = open('g', 'w'); print(os.copy_file_range(os.open('l', 0), g.fileno(), 5))\n"),
         "True\n1\n1\nlocked\n1\nb'v'\nTrue\n1\nTrue\n5\n")


def test_inotify(who):
    need("perl")
    good(who.run(PYTHON, "-c", "import ctypes, os\nc = ctypes.CDLL(None)\nfd = c.inotify_init()\n"
                 "print(c.inotify_add_watch(fd, b'.', 0x100)); open('new', 'w'); print(len(os.read(fd, 100)) > 0)"), "1\nTrue\n")


def test_chromium(user):
    need("chromium")
    r = user.run("chromium", "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom", "data:text/html,<p>ok</p>", opts=BIG)
    assert "<p>ok</p>" in r.json["stdout"]


def test_stress(user):
    need("stress-ng")
    good(user.run("stress-ng", "--cpu", "2", "--fork", "2", "--pipe", "2", "-t", "2", opts=BIG))


def test_git_where_the_system_has_settings_for_it(user, tmp_path):
    """They are not shown; git gives up over a file that is there and that it cannot read."""
    if not IS_ROOT:
        pytest.skip("mounts a file of its own over /etc")
    etc = tmp_path / "etc"
    subprocess.run(["cp", "-a", "/etc", etc], check=True)
    (etc / "gitconfig").write_text("[user]\n\tname = theirs\n")
    (etc / "gitconfig").chmod(0o644)
    script = "git init -q . && git config --list --show-origin | grep -c theirs"
    r = subprocess.run(["unshare", "--mount", "--propagation", "private", "sh", "-c",
                        'mount --bind "$1" /etc && shift && exec setpriv --reuid %d --regid %d --clear-groups "$@"'
                        % (user.uid, user.gid), "sh", etc, BRIG, "run", "--json", "--backend", "landlock",
                        "--workspace", user.ws, "--", "sh", "-c", script], env=user.env, cwd=user.ws,
                       capture_output=True, text=True, timeout=60)
    j = json.loads(r.stdout)
    assert (j["exit"], j["stdout"], j["stderr"]) == (1, "0\n", ""), j
