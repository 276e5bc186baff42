#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""docker run, docker exec, brig cold and brig warm, side by side in one
interleaved run, with runc and with gVisor.  Markdown on standard output:

    bench/docker.py [ROUNDS] >bench/results-docker.md

Starts an engine of its own (root; docker.io, runsc, busybox-static).
"""
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

TOP = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TOP / "tests/run"))
from docker_engine import Engine, image_tar  # noqa: E402

BRIG = os.environ.get("BRIG", str(TOP / "build/brig"))
IMAGE = "brig-bench:1"


def timed(argv, env, cwd):
    start = time.perf_counter()
    subprocess.run(argv, env=env, cwd=cwd, check=True, stdin=subprocess.DEVNULL,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return (time.perf_counter() - start) * 1000


def waiting(engine, n):
    """Until the pool is full again and nothing is being removed."""
    end = time.monotonic() + 30
    while time.monotonic() < end:
        names = engine.docker("ps", "-a", "--format", "{{.Names}} {{.Status}}").stdout.decode().splitlines()
        parked = [x for x in names if x.startswith("brig-01")]
        if len(parked) == n and all(" Up " in x for x in parked):
            return
        time.sleep(0.1)
    raise SystemExit("the pool did not fill")


def measure(engine, runtime, rounds, ws):
    env = {"PATH": os.environ["PATH"], "DOCKER_HOST": engine.host}
    flags = ["--runtime", runtime, "--network", "none"]
    engine.docker("run", "-d", "--name", "exec-" + runtime, *flags, IMAGE, "sleep", "100000")
    brig = [BRIG, "run", "--backend", "docker", "--image", IMAGE, "--runtime", runtime, "--workspace", ws]
    pool = ["--pool", "2", "--pool-idle", "10"]
    kinds = {
        "docker run": ["docker", "run", "--rm", *flags, IMAGE, "true"],
        "docker exec": ["docker", "exec", "exec-" + runtime, "true"],
        "brig cold": [*brig, "--", "true"],
        "brig warm": [*brig, *pool, "--", "true"],
    }
    times = {k: [] for k in kinds}
    timed(kinds["brig warm"], env, ws)
    for r in range(rounds + 1):
        for name, argv in kinds.items():
            if name == "brig warm":
                waiting(engine, 2)
            else:
                time.sleep(0.1)
            t = timed(argv, env, ws)
            if r:  # the first round warms caches
                times[name].append(t)
    engine.docker("rm", "-f", "exec-" + runtime)
    waiting(engine, 0)  # its idle life ends
    return times


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    engine = Engine()
    why = engine.start()
    if why:
        engine.stop()
        raise SystemExit(why)
    ws = engine.dir / "ws"
    ws.mkdir()
    os.chown(ws, 1000, 1000)
    try:
        engine.docker("import", "-", IMAGE, input=image_tar())
        version = engine.docker("version", "--format", "{{.Server.Version}}").stdout.decode().strip()
        print("# The docker backend: what a call costs\n")
        print("`true` in the same busybox image, %d interleaved rounds, medians in ms, Docker %s,\n"
              "Linux %s, %d processors.  Made by `bench/docker.py`.  Warm calls start when the pool\n"
              "(2 containers) is full.\n" % (rounds, version, os.uname().release, os.cpu_count()))
        for runtime in ("runc", "runsc"):
            if runtime not in engine.runtimes:
                print("%s: not installed\n" % runtime)
                continue
            times = measure(engine, runtime, rounds, str(ws))
            base = statistics.median(times["docker run"])
            print("## %s\n\n| | median | min | max | docker run is so many times slower |\n|---|---|---|---|---|" % runtime)
            for name, v in times.items():
                m = statistics.median(v)
                print("| %s | %.1f | %.1f | %.1f | %.1f |" % (name, m, min(v), max(v), base / m))
            print(flush=True)
    finally:
        engine.stop()


main()
