#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Which functions a run executes, for the linker: writes src/order.ld.

A page of the executable that is touched for the first time costs microseconds, and the
kernel maps sixteen of them at once.  With what a run needs in one place that is three
times instead of nine.

    sudo tools/order.py BUILD USER      # as root: the kernel's user probes are root's

Puts a probe on every function of BUILD/brig, runs /bin/true in a workspace of USER and
in one of root's, in the backends that are processes of brig's, and lists in the order of
the first call.  The list is worth renewing
when much of the engine has changed; until then it is merely less good.
"""
import functools
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

TRACE = pathlib.Path("/sys/kernel/tracing")
HEAD = """\
/* The functions that a run executes, in that order, for the linker: they lie together in
 * the executable, and the kernel maps them in a few pieces.  A name that no longer exists
 * does no harm.  Made by tools/order.py. */
SECTIONS
{
\t.text.order :
\t{
"""
TAIL = """\
\t}
}
INSERT BEFORE .text;
"""


def link_map(build, out):
    """Links once more, unordered, and says where every input section went."""
    command = subprocess.run(["ninja", "-C", build, "-t", "commands", "brig"], text=True,
                             stdout=subprocess.PIPE, check=True).stdout.splitlines()[-1]
    command = re.sub(r"-Wl,-T,\S*order\.ld", "", command)
    command = re.sub(r"-o brig ", f"-o {out}/brig -Wl,-Map,{out}/map ", command, count=1)
    subprocess.run(command, shell=True, cwd=build, check=True)
    found, section = [], None
    for line in open(f"{out}/map", encoding="utf-8"):
        if re.fullmatch(r" \.text\S*\n", line):
            section = line.strip()  # too long for one line: the rest follows
            continue
        m = re.match(r" (\.text\S*)?\s+0x([0-9a-f]+)\s+0x([0-9a-f]+) (\S+)$", line)
        if m and (m[1] or section) and int(m[3], 16):
            found.append((int(m[2], 16), int(m[3], 16), m[1] or section, m[4]))
        section = None
    return found


def pattern(section, where):
    m = re.match(r"(\.text\.(?!startup)\w+)", section)
    if m:  # whatever the compiler makes of it: .isra.0, .constprop.0, .part.0
        return f"*({m[1]} {m[1]}.*)"
    member = re.search(r"([^/]*\.a)\((.*)\)$", where)
    if member:  # one of the C library's, in assembler
        return f"*{member[1]}:{member[2]}({section})"
    return f"*{os.path.basename(where)}({section})"


def functions(program):
    out = subprocess.run(["readelf", "-sW", program], text=True, stdout=subprocess.PIPE,
                         check=True).stdout
    rows = (line.split() for line in out.splitlines())
    return sorted({int(r[1], 16) for r in rows
                   if len(r) >= 8 and (r[3] == "FUNC" or r[7] == "_start")
                   and r[6] != "UND"})


def traced(program, runs):
    """The addresses that were reached, by first call."""
    kept = {name: (TRACE / name).read_text().split()[0]
            for name in ("tracing_on", "buffer_size_kb")}
    mine = functions(program)

    def probes(lines):
        fd = os.open(TRACE / "uprobe_events", os.O_WRONLY | os.O_APPEND)
        for line in lines:
            os.write(fd, line)
        os.close(fd)

    try:
        probes(b"p:brigorder/f_%x %s:0x%x\n" % (a, program.encode(), a) for a in mine)
        (TRACE / "trace").write_text("")
        (TRACE / "buffer_size_kb").write_text("30000")
        (TRACE / "events/brigorder/enable").write_text("1")
        (TRACE / "tracing_on").write_text("1")
        for run in runs:
            run()
        (TRACE / "tracing_on").write_text("0")
        text = (TRACE / "trace").read_text(encoding="utf-8", errors="replace")
    finally:
        if (TRACE / "events/brigorder/enable").exists():
            (TRACE / "events/brigorder/enable").write_text("0")
            probes(b"-:brigorder/f_%x\n" % a for a in mine)
        (TRACE / "trace").write_text("")
        for name, value in kept.items():
            (TRACE / name).write_text(value)
    seen = {}
    for m in re.finditer(r": f_([0-9a-f]+): ", text):
        seen.setdefault(int(m[1], 16))
    return list(seen)


def main(build, user):
    build = os.path.abspath(build)
    with tempfile.TemporaryDirectory() as out:
        os.chmod(out, 0o755)
        sections = link_map(build, out)
        program = f"{out}/brig"
        mine, theirs = f"{out}/root", f"{out}/user"
        os.mkdir(mine, 0o700)
        os.mkdir(theirs)
        shutil.chown(theirs, user)

        become = ["setpriv", "--reuid", user, "--regid", user, "--clear-groups"]

        def run(*options, roots=mine):
            for where, how in ((theirs, become), (roots, [])):
                yield functools.partial(
                    subprocess.run, [*how, program, "run", "--workspace", where, *options,
                                     "--", "/bin/true"], cwd="/", stdout=subprocess.DEVNULL, check=True,
                    env={"PATH": "/usr/bin:/bin", "HOME": out})

        order = traced(program, [*run(), *run("--json"),
                                 *run("--backend", "landlock", roots=theirs),
                                 *run("--backend", "bwrap", roots=theirs)])
        wanted = {}
        for a in order:
            for start, size, section, where in sections:
                if start <= a < start + size:
                    wanted.setdefault(pattern(section, where))
                    break
    here = pathlib.Path(__file__).resolve().parent.parent / "src/order.ld"
    here.write_text(HEAD + "".join(f"\t\t{w}\n" for w in wanted) + TAIL, encoding="utf-8")
    print(f"{len(order)} functions, {len(wanted)} sections")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
