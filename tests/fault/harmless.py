# SPDX-License-Identifier: Apache-2.0
"""Calls after whose failure the command may run all the same, and why that is
right.  test_inject.py compares this with what it sees, in both directions: a
new one must be thought about, and one that brig refuses by now must go.

(role, call): why.  Some occurrence of the call was harmless; that does not
mean each of them is.
"""

CLOEXEC = "a descriptor stays open until execve closes it: all are close-on-exec"
PLAN = "something optional is not seen: it is not shown inside, or looked for in another way"

HARMLESS = {
    ("builder", "close"): CLOEXEC,
    ("builder", "prlimit64"): "the caller's own limit is not known: brig's is set",
    ("builder", "umask"): "cannot fail in a kernel; modes are set by fchmodat where they matter",
    ("custodian", "close"): CLOEXEC,
    ("custodian", "close_range"): "the janitor keeps descriptors that it does not need",
    ("custodian", "recvmsg"): "the janitor takes it for the supervisor's end, finds nothing to clean, and ends: the next "
                              "word to it fails, or it is not needed any more",
    ("custodian", "prctl"): "without the signal it looks for itself every two seconds",
    ("custodian", "setsid"): "it stays in the caller's process group; a run without a kill does not notice",
    ("idholder", "getppid"): "it ends early: the map is written already, or brig refuses",
    ("idholder", "prctl"): "the same",
    ("idholder", "ppoll"): "it sleeps again; it only exists to be killed",
    ("init", "close"): "init holds the command's stdio as well; it ends with the command",
    ("init", "prctl"): "only the first, its name",
    ("init", "read"): "one signal is read twice",
    ("init", "rt_sigprocmask"): "SIGCHLD is blocked already in what init inherits",
    ("init", "wait4"): "after the release; see LOST",
    ("init", "write"): "after the release; see LOST",
    ("job", "close"): CLOEXEC,
    ("job", "getpriority"): "a raised priority of the caller's is not noticed",
    ("job", "252"): "ioprio_get: the same, of input and output",
    ("job", "prlimit64"): "reading the limit that is there: what was asked for is set, which cannot raise a tighter one",
    ("job", "rt_sigaction"): "a signal the caller ignored stays ignored",
    ("job", "rt_sigprocmask"): "a signal the caller blocked stays blocked",
    ("job", "umask"): "cannot fail in a kernel",
    ("supervisor", "close"): CLOEXEC,
    ("supervisor", "fcntl"): "the mark on the workspace: other runs are then taken to be at work in it",
    ("supervisor", "pidfd_open"): "the namespaces are read from /proc instead; the one for signals is needed",
    ("supervisor", "prctl"): "whether a filter is around us is read from /proc instead",
    ("supervisor", "fstat"): "after the run, while the protected paths are looked at: then said in the result",
    ("supervisor", "geteuid"): "cannot fail in a kernel; some tools of the caller's are not shown",
    ("supervisor", "getcwd"): "the workspace is given by its path",
    ("supervisor", "getdents64"): "after the run, as fstat",
    ("supervisor", "getegid"): "cannot fail in a kernel; root's group is not used inside",
    ("supervisor", "getpid"): "cannot fail in a kernel; a check of who is the sender",
    ("supervisor", "ioctl"): "a question whether standard input is a terminal, or how much is left in a pipe: then as "
                             "much as a pipe holds is read",
    ("supervisor", "222"): "timer_create: what brig says on standard error may wait for its reader",
    ("supervisor", "223"): "timer_settime: the same",
    ("supervisor", "226"): "timer_delete: the process is about to end",
    ("supervisor", "brk"): "malloc takes memory by mmap instead",
    ("supervisor", "kill"): "the custodian ends by itself when its socket closes",
    ("supervisor", "lstat"): PLAN,
    ("supervisor", "newfstatat"): PLAN,
    ("supervisor", "openat"): PLAN,
    ("supervisor", "openat2"): PLAN,
    ("supervisor", "poll"): "it polls again",
    ("supervisor", "prlimit64"): "no evidence of the limit on processes: listed as missing, refused when required; "
                                 "or not known how many descriptors are left for the sweep",
    ("supervisor", "read"): "after the release; see LOST",
    ("supervisor", "readlink"): PLAN,
    ("supervisor", "recvmsg"): "after the release: the end of the socket",
    ("supervisor", "renameat2"): "after the run: the planted file stays and the result says so",
    ("supervisor", "rt_sigaction"): "SIGPIPE is blocked besides",
    ("supervisor", "rt_sigprocmask"): "signals are not collected; they have their default effect",
    ("builder", "open_tree_attr"): "done in two calls",
    ("supervisor", "open_tree_attr"): "the same",
    ("supervisor", "mmap"): "after the execve: memory is freed later, or see LOST (those before are refused)",
    ("supervisor", "madvise"): "the same",
    ("supervisor", "munmap"): "the same",
    ("supervisor", "pread64"): "after the run: what the groups counted is not known (a limit that cannot "
                               "be read back is none)",
    ("supervisor", "statfs"): "the hierarchy is found in mountinfo",
    ("supervisor", "access"): "the hierarchy is found in mountinfo",
    ("supervisor", "uname"): "an old kernel is assumed: the limit on processes is then listed as missing",
    ("supervisor", "wait4"): "usage is not known; pid 1 is gone by its pidfd",
    ("supervisor", "write"): "the result object is not written, which is said; see LOST",
}

# With an allow-list, besides.  What concerns the egress process comes after the
# release: without it there is no network, which is in the result.
NO_NETWORK = "the command has no network, which the result says"
HARMLESS_NET = {
    ("netmaker", "close"): CLOEXEC,
    ("netmaker", "gettid"): "cannot fail in a kernel; the C library's own",
    ("netmaker", "rt_sigprocmask"): "the C library's own, around fork",
    ("netmaker", "prctl"): "it outlives a supervisor that is killed, by ten seconds at most",
    ("netmaker", "setsockopt"): "nothing was bound before; IPv4 on an IPv6 socket is the default; no delay is speed",
    ("netmaker", "socket"): "only the last, which finds processes: the audit log does not name them",
    ("supervisor", "clone"): NO_NETWORK,
    ("supervisor", "sendmsg"): NO_NETWORK,
    ("supervisor", "socketpair"): NO_NETWORK,
    ("supervisor", "recvfrom"): NO_NETWORK,
}

# The command ran, confined, but how it ended or the result object is lost:
# exit 137, or no object.
LOST = {
    ("init", "ppoll"): "init ends, perhaps only after the release",
    ("init", "wait4"): "init cannot read the status",
    ("init", "write"): "init cannot report the status",
    ("supervisor", "mmap"): "after the run: no memory for the result object; brig says NO_MEMORY",
    ("supervisor", "read"): "the supervisor cannot read the status",
    ("supervisor", "write"): "the result object cannot be written; brig says IO_FAILED",
}

# Processes beside the main line, which may be ended before they get that far, or
# whose failure may come too late to be noticed: seen on some runs only.
RACY = {"custodian", "idholder", "netmaker"}
# Calls that are made only when the kernel has put a process in the wrong place, or when
# the builder has not come by first.
SOMETIMES = {("job", "sched_setaffinity"), ("job", "open_tree_attr")}

# After the release: everything inside ends then, and whether the command had done
# its work by that time is a matter of luck.
LATE = {("init", "ppoll")}
