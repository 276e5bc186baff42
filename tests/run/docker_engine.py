# SPDX-License-Identifier: Apache-2.0
"""A Docker engine of the tests' own: own data, own socket, no network."""
import io
import json
import os
import shutil
import signal
import subprocess
import tarfile
import tempfile
import time
from pathlib import Path

IMAGE = "brig-test:1"
APPLETS = ("sh", "id", "cat", "ls", "true", "echo", "sleep", "dmesg", "mount", "stty",
           "tty", "wc", "head", "dd", "kill", "touch", "env", "pwd", "printf", "rm", "ln",
           "mkdir", "chmod", "grep", "hostname", "ip", "nc", "yes", "tail", "sed", "seq",
           "stat", "test", "timeout", "mknod", "uname", "od", "ps", "find")


def image_tar(extra=()):
    """busybox and empty directories."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as t:
        for d in ("bin", "tmp", "proc", "sys", "dev", "etc", "usr", "var", "home", "opt"):
            i = tarfile.TarInfo(d)
            i.type, i.mode = tarfile.DIRTYPE, {"var": 0o777, "tmp": 0o1777}.get(d, 0o755)
            t.addfile(i)
        t.add(shutil.which("busybox", path="/bin:/usr/bin"), "bin/busybox")
        for a in APPLETS:
            i = tarfile.TarInfo("bin/" + a)
            i.type, i.linkname = tarfile.SYMTYPE, "busybox"
            t.addfile(i)
        for name, text in extra:
            i = tarfile.TarInfo(name)
            i.size, i.mode = len(text), 0o755
            t.addfile(i, io.BytesIO(text))
    return out.getvalue()


def unmount_below(directory):
    """Only what an engine mounted below its own directory."""
    with open("/proc/mounts") as f:
        points = [line.split()[1] for line in f]
    for m in sorted((m for m in points if m.startswith(str(directory) + "/")), reverse=True):
        subprocess.run(["umount", "-l", m], stderr=subprocess.DEVNULL)


def forget_pool(uid):
    """This user's directory for containers that wait, if nothing is left in it."""
    for path in ("/tmp/brig-%d/docker" % uid, "/tmp/brig-%d" % uid):
        try:
            os.rmdir(path)
        except OSError:
            pass


class Engine:
    def __init__(self):
        self.dir = Path(tempfile.mkdtemp(prefix="brig-dk-", dir="/tmp"))
        self.dir.chmod(0o755)
        self.socket = self.dir / "docker.sock"
        self.host = "unix://%s" % self.socket
        self.log = open(self.dir / "log", "wb")
        self.runtimes = {"runc"}
        config = {"runtimes": {}}
        if shutil.which("runsc"):
            args = ["--platform=ptrace", "--network=none"]
            # one that leaves control groups alone, one that does not
            config["runtimes"] = {
                "runsc": {"path": shutil.which("runsc"), "runtimeArgs": args + ["--ignore-cgroups"]},
                "runsc-cg": {"path": shutil.which("runsc"), "runtimeArgs": args}}
            self.runtimes |= {"runsc", "runsc-cg"}
        (self.dir / "daemon.json").write_text(json.dumps(config))
        self.proc = None

    def start(self):
        path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        self.proc = subprocess.Popen(
            [shutil.which("dockerd", path=path), "--config-file", self.dir / "daemon.json",
             "--bridge=none", "--iptables=false", "--ip6tables=false",
             "--data-root", self.dir / "data", "--exec-root", self.dir / "exec",
             "--pidfile", self.dir / "pid", "-H", self.host],
            stdout=self.log, stderr=self.log, stdin=subprocess.DEVNULL,
            env={"PATH": path}, start_new_session=True)
        end = time.monotonic() + 120
        while time.monotonic() < end:
            if self.proc.poll() is not None:
                break
            if self.socket.exists() and self.docker("version", check=False).returncode == 0:
                self.socket.chmod(0o666)
                return None
            time.sleep(0.1)
        return "dockerd does not start here: " + (self.dir / "log").read_text()[-400:]

    def docker(self, *args, check=True, input=None):
        p = subprocess.run(["docker", *map(str, args)], input=input,
                           env={"PATH": os.environ["PATH"], "DOCKER_HOST": self.host},
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
        assert not check or p.returncode == 0, p
        return p

    def containers(self):
        """Ids of every container, running or not."""
        return self.docker("ps", "-aq", "--no-trunc").stdout.decode().split()

    def stop(self):
        if self.proc and self.proc.poll() is None:
            for c in self.docker("ps", "-aq", check=False).stdout.decode().split():
                self.docker("rm", "-f", c, check=False)
            self.proc.send_signal(signal.SIGTERM)
            try:
                self.proc.wait(20)
            except subprocess.TimeoutExpired:
                self.proc.kill()
                self.proc.wait()
        unmount_below(self.dir)
        self.log.close()
        shutil.rmtree(self.dir, ignore_errors=True)
