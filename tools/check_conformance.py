#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Every row of docs/conformance.md has a status, and every test that it names exists.

A row is `| what | **done**|**differing** why|**not done** why | `file: "test case"`, … |`. A file without a test case
(a script) is enough where the whole file is the test.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
STATUS = re.compile(r"^\*\*(done|differing|not done)\*\*(.*)", re.S)
TEST = re.compile(r'`([\w/.\-]+?)(?:: "((?:[^"`])+)")?`')


def problems(text: str):
    section, rows = None, 0
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("## "):
            if section is not None and rows == 0:
                yield number, f"section '{section}' has no rows"
            section, rows = line[3:], 0
            continue
        if section is None or not line.startswith("|") or line.startswith(("| row ", "|---")):
            continue
        rows += 1
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(cells) != 3:
            yield number, f"{len(cells)} columns instead of 3"
            continue
        status = STATUS.match(cells[1])
        if status is None:
            yield number, f"no status in '{cells[1]}' (**done**, **differing** why, **not done** why)"
            continue
        if status[1] != "done" and len(status[2].strip(" :,;()")) < 8:
            yield number, f"'{status[1]}' without a reason"
        tests = TEST.findall(cells[2])
        if status[1] != "not done" and not tests:
            yield number, "no test is named"
        for name, case in tests:
            path = ROOT / name
            if not path.is_file():
                yield number, f"there is no file {name}"
            elif case:
                # A long name may be wrapped over two adjacent string literals.
                source = re.sub(r'"\s*\n\s*"', "", path.read_text())
                if f'"{case}"' not in source:
                    yield number, f'{name} has no test "{case}"'
    if section is not None and rows == 0:
        yield 0, f"section '{section}' has no rows"


def main() -> int:
    found = list(problems((ROOT / "docs/conformance.md").read_text()))
    for number, what in found:
        print(f"docs/conformance.md:{number}: {what}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
