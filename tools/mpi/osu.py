#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Runs installed OSU micro-benchmarks with validation, one job each, and prints a table. tools/osu-suite.sh prepares
and calls it; what the options mean stands there."""
import argparse
import contextlib
import json
import re
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from job import Job, Switch, traffic  # noqa: E402

GROUPS = ("pt2pt", "collective", "one-sided", "congestion")
NOT_FOR = re.compile(r"requires (exactly|at least|an even)|even number of processes|"
                     r"Increase the number of processes|on more than 1 node", re.IGNORECASE)


def programs(root, only):
    """(group, path) of every benchmark below the folder."""
    for path in sorted(Path(root).rglob("osu_*")):
        group = next((g for g in GROUPS if g in path.parts), None)
        if group and path.is_file() and re.search(only, f"{group}/{path.name}"):
            yield group, path


def takes(path):
    """The options of a benchmark: whether it can validate, and so on."""
    text = subprocess.run([path, "-h"], capture_output=True, text=True, timeout=60, check=False).stdout
    # Some want their ranks before they say so.
    return set(re.findall(r"^\s*(-\w),", text, re.MULTILINE)) or ({"-i", "-w"} if "one-sided" in path.parts else {"-i"})


def judge(job, validates):
    """None if all is well, "n/a" if it is not for so many ranks, else what is wrong."""
    text = job.log.read_text(errors="replace")
    if NOT_FOR.search(text):
        return "n/a"
    rows = [line.split() for line in text.splitlines() if re.match(r"\s*\d", line)]
    if job.why:
        return f"{job.why}; see {job.log}"
    if not rows:
        return "it printed no figures"
    bad = [row for row in rows if row[-1].lower() not in ("pass", "passed")]
    if validates and bad:
        return "validation: " + " ".join(bad[0])
    return None


def fails_over_tcp(options, job, command, validates):
    """Whether what failed fails in the MPI's own way too: then it is the benchmark's fault, or the MPI's."""
    again = Job(options.mpi, "tcp", job.ranks, job.directory.with_name(job.directory.name + "-tcp"), options.idle)
    again.run(command, {"MPI_WAY": ""})
    return judge(again, validates) not in (None, "n/a")


def run(options):
    results = []
    for group, path in programs(options.osu, options.only):
        known = takes(path)
        command = [str(path)]
        if "-c" in known:
            command += ["-c"]
        if "-u" in known:
            command += ["-u", "1"]
        if path.name.endswith("_mt"):
            command += ["-t", "2:2"]  # it validates as many senders as receivers only
        if "-w" in known:
            command += ["-w", "create"]  # where MPI allocates the window, ranks of one host may share it
        if "-i" in known:
            command += ["-i", options.iterations, "-x", "1"]
        for ranks in options.np:
            for way in options.ways.split(",") if group == "one-sided" else [""]:
                name = f"{group}/{path.name}" + (f" ({way})" if way else "")
                job = Job(options.mpi, options.over, ranks,
                          Path(options.out) / f"{path.name}-{way or 'default'}-np{ranks}", options.idle)
                job.run(command, {"MPI_WAY": way})
                wrong = judge(job, "-c" in known)
                if wrong == "n/a":
                    continue
                size, packets = traffic(job.counters()) if options.over == "mrc" else (0, 0)
                if not wrong and options.over == "mrc" and packets == 0:
                    wrong = "mrc's counters show no packets"
                theirs = fails_over_tcp(options, job, command, "-c" in known) if wrong and options.over == "mrc" else False
                results.append({"name": name, "np": ranks, "validated": "-c" in known, "failed": wrong, "fails over tcp": theirs,
                                "seconds": round(job.seconds, 1), "bytes": size, "packets": packets})
                verdict = "ok" if not wrong else "tcp too" if theirs else "FAILED"
                print(f"{name:48s} np {ranks}  {verdict:7s} "
                      f"{'validated' if '-c' in known else 'no -c':9s} {job.seconds:6.1f} s {size / 1e6:9.1f} MB over mrc"
                      + (f"\n    {wrong}" if wrong else ""), flush=True)
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--np", type=lambda text: [int(n) for n in text.split(",")])
    parser.add_argument("--idle", type=float)
    parser.add_argument("--iterations")
    for name in ("mpi", "over", "only", "osu", "out", "ways"):
        parser.add_argument(f"--{name}")
    options = parser.parse_args()

    with Switch(max(options.np)) if options.over == "mrc" else contextlib.nullcontext():
        results = run(options)
    if not results:
        sys.exit(f"no benchmark in {options.osu} fits '{options.only}'")
    theirs = [one for one in results if one["fails over tcp"]]
    failed = sum(one["failed"] is not None for one in results) - len(theirs)
    if theirs:
        print("\nnot judged, as they fail over tcp too: " + ", ".join(f"{one['name']} np {one['np']}" for one in theirs))
    Path(options.out, "results.json").write_text(json.dumps({"mpi": options.mpi, "over": options.over,
                                                             "results": results}, indent=1))
    print(f"\n{len(results) - failed - len(theirs)} passed, {failed} failed")
    sys.exit(failed != 0)


if __name__ == "__main__":
    main()
