#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Reads what runfabtests.sh -vvv prints, shows each line's outcome as it comes, and compares with what is expected.

usage: judge.py --expect LIST [--only REGEX] [--results TSV] < runner's output

LIST has one test line each: `pass LINE`, or `notrun LINE   # why`. Red are a failure, a line that did not run without a
reason being in the list, and a line of the list that the runner never came to. Exit status: 0 green, 1 red.
"""
import argparse
import queue
import re
import sys
import threading

NAME = re.compile(r"^- name:   (.*?) *$")
RESULT = re.compile(r"^  result: (\w+)(?: \[(\d*)/(\d*)\])?")
TIME = re.compile(r"^  time:   (\d+)")
# libfabric's own warnings about providers that were asked for nothing: not shown (the log has them).
NOISE = re.compile(r"libfabric:.*:core:core:")
# What the runner adds to a line of its lists: -p "PROVIDER", multinode's -n 3, addresses in the place of their names.
ADDED = re.compile(r' (-p "[^"]*"|-n 3)(?= |$)')


def plain(line, addresses):
    """The line as it stands in the runner's lists."""
    line = ADDED.sub("", line)
    for name, address in addresses:
        line = re.sub(r"(?<=%s)%s(?= |$)" % (" -s " if name == "SERVER_ADDR" else " ", re.escape(address)), name, line)
    return line.strip()


def expectations(path):
    expected = {}
    for number, text in enumerate(open(path, encoding="utf-8"), 1):
        text = text.strip()
        if not text or text.startswith("#"):
            continue
        line, _, reason = text.partition("#")
        outcome, _, line = line.strip().partition(" ")
        if outcome not in ("pass", "notrun") or (outcome == "notrun") != bool(reason.strip()):
            sys.exit(f"{path}:{number}: wants `pass LINE` or `notrun LINE   # why`")
        expected[line.strip()] = (outcome, reason.strip())
    return expected


def lines_of(stream):
    """Its lines, and None whenever nothing more has come for a while: the runner prints a test's report in one go."""
    lines = queue.Queue()

    def read():
        for text in stream:
            lines.put(text)
        lines.put("")

    threading.Thread(target=read, daemon=True).start()
    while True:
        try:
            text = lines.get(timeout=0.5)
        except queue.Empty:
            yield None
            continue
        if not text:
            return
        yield text


def results(stream):
    """Yields (line, outcome, detail, seconds, its output) as each is complete; what is outside of one is dropped."""
    name, outcome, detail, seconds, output = None, None, "", 0, []
    for text in lines_of(stream):
        if name is not None and outcome and (text is None or text.startswith("# ----") or NAME.match(text)):
            yield name, outcome, detail, seconds, output
            name = None
        if text is None:
            continue
        if match := NAME.match(text):
            name, outcome, detail, seconds, output = match[1], None, "", 0, []
        elif name is None:
            continue
        elif outcome is None and (match := RESULT.match(text)):
            outcome = match[1].lower()
            detail = f"{match[2] or 0} of {match[3] or 0}" if match[2] is not None else ""
        elif match := TIME.match(text):
            seconds = int(match[1])
        elif not NOISE.search(text):
            output.append(text.rstrip("\n"))
    if name is not None and outcome:
        yield name, outcome, detail, seconds, output


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--expect", required=True, help="the list of what is expected")
    parser.add_argument("--only", default="", help="judge only lines that this regular expression finds")
    parser.add_argument("--server", default="127.0.0.1", help="address that stands for SERVER_ADDR and GOOD_ADDR")
    parser.add_argument("--results", help="write line, outcome, seconds and remark here, separated by tabs")
    options = parser.parse_args()

    addresses = [("SERVER_ADDR", options.server), ("GOOD_ADDR", options.server)]
    wanted = re.compile(options.only)
    expected = {line: what for line, what in expectations(options.expect).items() if wanted.search(line)}
    total = len(expected)
    counts = {"pass": 0, "fail": 0, "notrun": 0}
    excluded, seen, rows = 0, set(), []

    def note(line, outcome, seconds, remark, output=()):
        counts[outcome] += 1
        rows.append((line, outcome, str(seconds), remark))
        mark = f"[{len(rows):3d}/{total}] "
        print(f"{mark}{outcome:6s} {line:52s} {seconds:4d} s{'   ' + remark if remark else ''}", flush=True)
        for text in output[-60:] if outcome == "fail" else ():
            print(f"{'':{len(mark)}}| {text}", flush=True)

    for name, outcome, detail, seconds, output in results(sys.stdin):
        line = plain(name, addresses)
        if outcome == "excluded":
            excluded += 1
            if line in expected:
                seen.add(line)
                want, reason = expected[line]
                if want == "notrun":
                    note(line, "notrun", seconds, reason)
                else:
                    note(line, "fail", seconds, "is excluded, but the list expects it")
            continue
        if not wanted.search(line):
            continue
        seen.add(line)
        want, reason = expected.get(line, ("pass", ""))
        if outcome == "pass":
            late = "passes: take it off the list's notrun lines" if want == "notrun" else detail
            note(line, "pass", seconds, late)
        elif outcome == "notrun" and want == "notrun":
            note(line, "notrun", seconds, reason)
        elif outcome == "notrun":
            note(line, "fail", seconds, "Notrun, and nobody says why", output)
        else:
            note(line, "fail", seconds, detail, output)
    for line in expected:
        if line not in seen:
            note(line, "fail", 0, "the runner never came to it")

    if options.results:
        with open(options.results, "w", encoding="utf-8") as out:
            out.writelines("\t".join(row) + "\n" for row in rows)
    if excluded:
        print(f"{excluded} lines excluded (test_configs/mrc/mrc.exclude says why"
              f"{', or not asked for' if wanted.pattern else ''})")
    failures = [row for row in rows if row[1] == "fail"]
    if failures:
        print("\nred:")
        for line, _, _, remark in failures:
            print(f"  {line}{'   ' + remark if remark else ''}")
    print(f"\n{counts['pass']} passed, {counts['fail']} failed, {counts['notrun']} notrun")
    return 1 if failures or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
