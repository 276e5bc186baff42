#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the containment checks against every backend that is here and writes
docs/containment.md.  With --check nothing is written: it exits 1 when the
published table says something else.  Run it as root: the checks themselves
run as an ordinary user.  A backend that is not here keeps its column.
"""
import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/run"))

import conftest  # noqa: E402
import containment as c  # noqa: E402

DOC = ROOT / "docs/containment.md"

HEAD = """# Containment, tried

Made by `tools/containment.py`; the run tests compare it with what they find.
Each check runs inside a sandbox of each backend, started by an ordinary user
(limits on memory and processes: by root where users have no control group).
*held*: it was tried and did not get through. *by design*: this backend cannot
stop it, and says so in its result (`missing`) or in
[backends.md](backends.md); the reasons are below the table.

"""


def account():
    import pwd
    try:
        e = pwd.getpwnam(conftest.ACCOUNT)
    except KeyError:
        subprocess.run(["useradd", "--system", "--shell", "/bin/sh", conftest.ACCOUNT], check=True)
        e = pwd.getpwnam(conftest.ACCOUNT)
    return e.pw_uid, e.pw_gid


def measure(names, base):
    """{(check, backend): (word, detail)} of the backends that are here."""
    found = {}
    for backend in names:
        b = c.BACKENDS[backend]
        why = b.absent()
        if why:
            print("SKIP: %s: %s" % (backend, why), flush=True)
            continue
        ids = c.login_account(conftest.ACCOUNT) if b.shell else account()
        for name, _group, _what, fn in c.CHECKS:
            who = conftest.make_who("user", base, ids)
            who.brig_path = conftest.BRIG
            try:
                cell = c.verdict(name, backend, fn, c.Box(who, backend))
            except AssertionError as e:
                cell = (c.FAILED, str(e)[:300])
            if cell[0] == c.FAILED:
                print("FAILED: %s: %s: %s" % (backend, name, cell[1]), flush=True)
            found[(name, backend)] = cell
        print("%s: %d checks" % (backend, len(c.CHECKS)), flush=True)
    return found


def render(found, old):
    names = list(c.BACKENDS)
    out = [HEAD]
    for group in dict.fromkeys(g for _n, g, _w, _f in c.CHECKS):
        out.append("## %s\n\n| check | what must hold | %s |\n|---|---|%s\n"
                   % (group, " | ".join(names), "---|" * len(names)))
        for name, g, what, _fn in c.CHECKS:
            if g != group:
                continue
            cells = []
            for b in names:
                word = found.get((name, b), (old.get((name, b), "not tried"), ""))[0]
                cells.append("by design" if word == c.MISSING else word)
            out.append("| `%s` | %s | %s |\n" % (name, what, " | ".join(cells)))
        out.append("\n")
    out.append("## Missing by design, and why\n")
    for b in names:
        rows = [(n, found[(n, b)][1]) for n, _g, _w, _f in c.CHECKS
                if found.get((n, b), ("",))[0] == c.MISSING]
        rows += [(n, c.BY_DESIGN[(n, b)]) for n, _g, _w, _f in c.CHECKS
                 if (n, b) not in found and old.get((n, b)) == c.MISSING and (n, b) in c.BY_DESIGN]
        out.append("\n**%s** (%s): %s\n" % (b, c.BACKENDS[b].note, "nothing." if not rows else ""))
        out += ["- `%s`: %s\n" % row for row in rows]
    return "".join(out)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--check", action="store_true", help="compare, write nothing")
    ap.add_argument("--backend", action="append", help="only these; default all")
    args = ap.parse_args()
    if os.geteuid() != 0:
        sys.exit("tools/containment.py: run as root; the checks run as an ordinary user")
    base = Path(tempfile.mkdtemp(prefix="brig-run-", dir="/tmp"))
    try:
        base.chmod(0o755)
        shutil.copy(conftest.PROBE, base / "probe")
        (base / "probe").chmod(0o755)
        found = measure(args.backend or list(c.BACKENDS), base)
    finally:
        subprocess.run(["chmod", "-R", "u+rwX", str(base)], stderr=subprocess.DEVNULL)
        subprocess.run(["rm", "-rf", str(base)])
    old = c.published(DOC)
    bad = [k for k, v in found.items() if v[0] == c.FAILED]
    if args.check:
        for key, cell in found.items():
            if old.get(key) != cell[0]:
                print("%s, %s: published %r, found %r" % (*key, old.get(key), cell[0]))
                bad.append(key)
    else:
        DOC.write_text(render(found, old))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
