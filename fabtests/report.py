#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Writes docs/fabtests.md from the results that run.sh left: one table per set, a column per way.

usage: report.py RESULTS_DIRECTORY COMMIT > docs/fabtests.md
"""
import datetime
import os
import pathlib
import sys

SETS = (
    ("quick", "`runfabtests.sh -t quick`: the lines that an RDM provider can run"),
    ("all", "`runfabtests.sh -t all` likewise, and two more matrices of fi_ubertest"),
    ("extra", "Tests that the runner never starts"),
)
WAYS = (("switch", "mrc-switch"), ("netns", "af_packet, two namespaces"))


def results(path):
    rows = [line.rstrip("\n").split("\t") for line in open(path, encoding="utf-8")]
    return {row[0]: row[1:] for row in rows}


def cell(row):
    if row is None:
        return "-"
    outcome, seconds, remark = row
    return f"{'**FAIL**' if outcome == 'fail' else outcome}, {seconds} s" + (f" ({remark})" if remark else "")


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    directory, commit = pathlib.Path(sys.argv[1]), sys.argv[2]
    print("# Last results of fabtests\n")
    print(f"fabtests 1.17.0 against mrc {commit}, {datetime.date.today()}, {os.cpu_count()} cores. Times are of a machine"
          " that may have had other work.\n")
    print("`fabtests/run.sh SET --over WAY` makes them, `fabtests/report.py` writes this page; what is left out and why:"
          " `fabtests/test_configs/mrc/mrc.exclude`.\n")
    for name, what in SETS:
        found = [(title, results(path)) for way, title in WAYS
                 if (path := directory / f"{name}-{way}.tsv").exists()]
        if not found:
            continue
        print(f"## {name}\n\n{what}.\n")
        print("| line | " + " | ".join(title for title, _ in found) + " |")
        print("|---|" + "---|" * len(found))
        lines = list(dict.fromkeys(line for _, rows in found for line in rows))
        for line in lines:
            print(f"| `{line}` | " + " | ".join(cell(rows.get(line)) for _, rows in found) + " |")
        totals = []
        for _, rows in found:
            count = {outcome: sum(row[0] == outcome for row in rows.values()) for outcome in ("pass", "fail", "notrun")}
            totals.append(f"{count['pass']} passed, {count['fail']} failed, {count['notrun']} notrun")
        print("| **total** | " + " | ".join(totals) + " |\n")


if __name__ == "__main__":
    main()
