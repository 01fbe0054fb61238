#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The core is sans-IO: its archives may need each other, memory functions and little else."""
import re
import subprocess
import sys

ALLOWED = re.compile(
    r"^(mem(cpy|set|move|cmp)|__mem(cpy|set|move)_chk|bcmp|__popcountdi2|__assert_fail|__stack_chk_fail(_local)?|_GLOBAL_OFFSET_TABLE_"
    r"|__cxa_pure_virtual|_ZTVN10__cxxabiv1\w+|_ZdlPv(m|mSt11align_val_t)?|__gxx_personality_v0|_Unwind_Resume)$")
SANITIZER = re.compile(r"^__(asan|ubsan|tsan|sanitizer|gcov)")


def symbols(archive, option):
    out = subprocess.run(["nm", "--format=posix", option, archive], check=True, capture_output=True, text=True).stdout
    return {line.split()[0] for line in out.splitlines() if line and not line.endswith(":")}


def main():
    archives = sys.argv[1:]
    needed = set().union(*(symbols(a, "--undefined-only") for a in archives))
    given = set().union(*(symbols(a, "--defined-only") for a in archives))
    if any(SANITIZER.match(s) for s in needed):
        print("instrumented build: nothing to tell")
        return 77
    bad = sorted(s for s in needed - given if not ALLOWED.match(s))
    for symbol in bad:
        print("the core must not need", symbol)
    if not given:
        print("no symbols in", archives)
        return 1
    return 1 if bad else 0


sys.exit(main())
