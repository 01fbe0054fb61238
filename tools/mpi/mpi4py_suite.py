#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""mpi4py's test suite with one MPI, over tcp and over mrc, compared test by test. tools/mpi-suite.sh prepares and calls
it; what the options mean stands there."""
import argparse
import collections
import contextlib
import fnmatch
import json
import os
import re
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from job import Switch, traffic  # noqa: E402
from suite_job import SuiteJob  # noqa: E402

END = "set-up.the job's end"  # after the last test
RESTARTS = 40  # jobs that may hang or die, per transport and number of ranks
TRIES = 3  # of a test in which a process hangs before it has come to the network


def run_suite(options, over, ranks, without):
    """One transport and number of ranks: {test: [outcome, text]}, proof. A job that hangs or dies has decided the tests
    before and the one in which it stopped; the next one goes on behind them. Tests in `without` are not tried. A test that
    starts processes of which one hangs before it has loaded the provider says nothing about that: it is tried again."""
    directory = Path(options.out) / over / f"np{ranks}"
    decided, notes, library, counters = {test: ["not tried", ""] for test in without}, [], "", []
    unborn = collections.Counter()
    started = time.monotonic()
    for attempt in range(RESTARTS):
        job = SuiteJob(options.mpi, over, ranks, directory / f"job{attempt}", options.idle)
        done = directory / f"done{attempt}"
        done.write_text("\n".join(decided), encoding="utf-8")
        job.run([options.python, str(Path(__file__).parent / "mpi4py_rank.py"), options.tests, str(job.directory),
                 str(done), "-i", options.only])
        counters += job.counters()
        library = job.library or library
        before = len(decided)
        outcomes = job.outcomes()
        stuck = [test for test, value in outcomes.items() if value[0] == "hangs" and job.unborn]
        for test in stuck:
            unborn[test] += 1
            if unborn[test] < TRIES:
                del outcomes[test]
                notes.append(f"{test}: process {job.unborn[0]} hung before it had loaded anything to send with; again")
        decided.update(outcomes)
        if job.finished():
            break
        notes.append(job.why)
        if len(decided) == before and not stuck:
            notes.append("no test was decided: given up")
            break
    else:
        notes.append(f"given up after {RESTARTS} jobs")
    return {"tests": decided, "notes": notes, "library": library, "counters": counters,
            "seconds": time.monotonic() - started}


def passed(result, test):
    return result["tests"].get(test, ["missing"])[0] == "ok"


def module_of(test):
    return test.split(".")[0] if not test.startswith("setUp") else "set-up"


def compare(options, results):
    """Prints the table and the named differences. Returns passed, failed."""
    control = results.get("control", {})
    peers, ours = results.get("tcp", {}), results.get("mrc", {})
    columns = [str(n) for n in options.np]
    modules = sorted({module_of(t) for r in results.values() for n in r for t in r[n]["tests"]})
    print(f"\n{'tests passed':24s}" + "".join(f"{'np ' + n:>14s}" for n in columns))
    print(f"{'':24s}" + "".join(f"{'tcp':>8s}{'mrc':>6s}" for _ in columns))
    for module in modules:
        row = f"{module:24s}"
        for n in columns:
            for side, width in ((peers, 8), (ours, 6)):
                tests = side.get(n, {"tests": {}})["tests"]
                row += f"{sum(v[0] == 'ok' for t, v in tests.items() if module_of(t) == module):{width}d}"
        print(row)
    good, bad, both, more, theirs, known = 0, [], [], [], [], []
    for n in columns:
        if n not in ours:
            continue
        tests = set(ours[n]["tests"]) | set(peers.get(n, {"tests": {}})["tests"])
        for test in sorted(tests):
            outcome, text = ours[n]["tests"].get(test, ["not run", ""])
            peer = peers[n]["tests"].get(test, ["not run", ""])[0] if n in peers else "ok"
            if outcome == "ok":
                good += peer == "ok"
                if peer not in ("ok", "skip"):
                    more.append(f"np {n} {test} (tcp: {peer})")
            elif peer == "ok" and not (n not in peers and outcome == "skip"):
                again = control.get(n, {"tests": {}})["tests"].get(test, ["ok"])[0]
                if known_to_fail(options, test):
                    known.append(f"np {n} {test}")
                elif again == "ok":
                    bad.append((n, test, outcome, text))
                else:
                    theirs.append(f"np {n} {test} (mrc: {outcome}, {options.control}: {again})")
            elif outcome != "skip":
                both.append(f"np {n} {test} (mrc: {outcome}, tcp: {peer})")
    for title, names in (("pass over mrc only", more), ("pass over neither", both),
                         (f"the MPI's own faults: fail over {options.control} as over mrc", theirs),
                         (f"not tried over mrc, for reasons in tools/mpi/{options.mpi}.known", known)):
        if names:
            print(f"\n{title}: {len(names)}")
            for name in names:
                print(f"  {name}")
    if bad:
        print(f"\nFAILED over mrc, and pass over tcp: {len(bad)}")
        for n, test, outcome, text in bad:
            last = text.strip().splitlines()[-1] if text.strip() else ""
            print(f"  np {n} {test}: {outcome} {last}")
    return good, len(bad)


def proof(results):
    """What mrc's own counters say of every job; ranks that talked to each other and moved no payload are a failure."""
    failures = 0
    for n, result in results.items():
        processes = result["counters"]
        sent, packets = traffic(processes)
        print(f"np {n}: mrc's counters of {len(processes)} processes: {sent} payload bytes, {packets} packets sent")
        if int(n) > 1 and (len(processes) < int(n) or sent == 0):
            print(f"FAILED: np {n}: the counters do not show traffic over mrc")
            failures += 1
    return failures


def run_control(options, ranks, peers, ours):
    """What passes over tcp and not over mrc, run by the same way through the MPI over another provider."""
    if peers is None:
        return {"tests": {}}
    wanted = [test for test in peers["tests"]
              if passed(peers, test) and not passed(ours, test) and not known_to_fail(options, test)]
    if not wanted:
        return {"tests": {}}
    result = run_suite(options, options.control, ranks, [test for test in peers["tests"] if test not in wanted])
    print(f"{options.mpi} over {options.control}, {ranks} ranks: of {len(wanted)} that pass over tcp only, "
          f"{sum(passed(result, test) for test in wanted)} pass", flush=True)
    result["tests"] = {test: value for test, value in result["tests"].items() if test in wanted}
    return result


def known_to_fail(options, test):
    """The MPI's own faults, whatever the provider: tools/mpi/NAME.known, which gives the reasons."""
    file = Path(__file__).with_name(f"{options.mpi}.known")
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    return any(fnmatch.fnmatchcase(test, line) for line in lines if line and not line.startswith("#"))


def kept(options, known):
    """The tcp results of an earlier run, of the modules that are wanted."""
    missing = [n for n in options.np if str(n) not in known]
    if missing:
        print(f"no tcp results of {missing} ranks are kept: every test that is not skipped has to pass")
    return {n: known[n] | {"tests": {t: v for t, v in known[n]["tests"].items()
                                     if re.search(options.only, module_of(t) + ".py")}}
            for n in map(str, options.np) if n in known}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--np", type=lambda text: [int(n) for n in text.split(",")])
    parser.add_argument("--idle", type=float)
    for name in ("mpi", "over", "only", "out", "tests", "peer", "control", "python"):
        parser.add_argument(f"--{name}")
    options = parser.parse_args()

    known = {}
    for n in map(str, options.np):
        if (file := Path(options.peer, f"tcp-np{n}.json")).exists():
            known[n] = json.loads(file.read_text())
    results = {}
    if options.over == "mrc":
        results["tcp"] = kept(options, known)
    for side in ["tcp", "mrc"] if options.over == "both" else [options.over]:
        results[side] = {}
        for ranks in options.np:
            reference = results["tcp"].get(str(ranks), {}) if side == "mrc" else {}
            without = [test for test, value in reference.get("tests", {}).items()
                       if value[0] == "hangs" and test != END or known_to_fail(options, test)]
            # The spawn tests start two programs of as many processes as there are ranks, on every rank; those of the
            # test before may not have left yet.
            with Switch(ranks + 4 * ranks * ranks) if side == "mrc" else contextlib.nullcontext():
                result = results[side][str(ranks)] = run_suite(options, side, ranks, without)
            counts = [sum(v[0] == what for v in result["tests"].values()) for what in ("ok", "skip")]
            print(f"{options.mpi} over {side}, {ranks} ranks: {counts[0]} pass, {counts[1]} skipped, "
                  f"{len(result['tests']) - sum(counts)} others  ({result['library']}), "
                  f"{result['seconds']:.0f} s", flush=True)
            for note in result["notes"]:
                print(f"  {note}", flush=True)
            if side == "tcp" and options.only == ".":
                Path(options.peer, f"tcp-np{ranks}.json").write_text(json.dumps(result))
    if options.control and "mrc" in results:
        results["control"] = {n: run_control(options, int(n), results["tcp"].get(n), ours)
                              for n, ours in results["mrc"].items()}
    good, bad = compare(options, results)
    if "mrc" in results:
        bad += proof(results["mrc"])
    (Path(options.out) / "results.json").write_text(json.dumps({"mpi": options.mpi, "passed": good, "failed": bad,
                                                               "results": results}, indent=1))
    print(f"\n{good} passed, {bad} failed")
    sys.exit(bad != 0)


if __name__ == "__main__":
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    main()
