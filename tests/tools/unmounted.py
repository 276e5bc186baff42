# SPDX-License-Identifier: Apache-2.0
"""How long a file system lives after a run on it, in milliseconds, or "never".

    unshare -m --propagation private unmounted.py DIRECTORY UID GID BRIG ARGS...

Mounts one at DIRECTORY, runs brig in a directory of it, and unmounts it.  It is really gone
when no mount namespace has it any more: the kernel tells who watches it.  For root, in a
mount namespace of its own.
"""
import ctypes
import os
import select
import struct
import subprocess
import sys
import time

IN_DELETE_SELF, IN_UNMOUNT, PATIENCE = 0x400, 0x2000, 3
libc = ctypes.CDLL(None, use_errno=True)


def call(name, *args):
    r = getattr(libc, name)(*args)
    if r < 0:
        sys.exit("%s: %s" % (name, os.strerror(ctypes.get_errno())))
    return r


def unmounted(watch, until):
    while select.select([watch], [], [], max(0, until - time.monotonic()))[0]:
        if struct.unpack("iI", os.read(watch, 4096)[:8])[1] & IN_UNMOUNT:
            return True
    return False


def main():
    top, uid, gid, command = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:]
    call("mount", b"none", top.encode(), b"tmpfs", 0, None)
    ws = os.path.join(top, "ws")
    os.mkdir(ws)
    for path in (top, ws):
        os.chown(path, uid, gid)
    watch = call("inotify_init1", os.O_CLOEXEC)
    call("inotify_add_watch", watch, ws.encode(), IN_DELETE_SELF)
    subprocess.run(command, user=uid, group=gid, extra_groups=[], cwd=ws, stdin=subprocess.DEVNULL, check=True)
    call("umount2", top.encode(), 0)
    start = time.monotonic()
    print("%.1f" % ((time.monotonic() - start) * 1e3) if unmounted(watch, start + PATIENCE) else "never")


main()
