#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""What a shared object with a port layer in it needs and exports.

libfabric hides a failed dlopen: one library missing on a machine would make the provider vanish without a word.
So it may need only what libfabric.so.1 itself needs, and the C library's own parts.
With --any-library only the exports are checked (the second object is loaded with its errors reported).
Usage: needed_test.py [--any-library] OBJECT SYMBOL
"""
import ctypes
import re
import subprocess
import sys

C_LIBRARY = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1"}


def needed(path):
    text = subprocess.run(["readelf", "-dW", path], check=True, capture_output=True, text=True).stdout
    names = set(re.findall(r"\(NEEDED\).*\[(.*?)\]", text))
    return {name for name in names if not name.startswith("ld-linux")}, "NODELETE" in text


def exported(path):
    text = subprocess.run(["nm", "-D", "--defined-only", path], check=True, capture_output=True, text=True).stdout
    return {line.split()[-1] for line in text.splitlines()}


def find_libfabric():
    try:
        ctypes.CDLL("libfabric.so.1")
    except OSError:
        return None
    with open("/proc/self/maps") as maps:
        return next((line.split()[-1] for line in maps if "libfabric.so" in line), None)


def main():
    arguments = [argument for argument in sys.argv[1:] if argument != "--any-library"]
    path, symbol = arguments
    allowed = set(C_LIBRARY)
    libfabric = find_libfabric()
    if libfabric:
        allowed |= needed(libfabric)[0] | {"libfabric.so.1"}
    names, nodelete = needed(path)
    sanitizers = sorted(name for name in names if re.match(r"lib[a-z]*san\.so", name))
    if sanitizers:
        print(f"CANNOT RUN: built with {sanitizers}; what it needs is judged on an ordinary build")
        return 77
    if "--any-library" not in sys.argv:
        assert names <= allowed, f"{path} needs {sorted(names - allowed)}, which libfabric does not"
    assert nodelete, f"{path} may be unloaded, but DPDK cannot be"
    symbols = exported(path)
    assert symbols == {symbol}, f"{path} exports {sorted(symbols - {symbol})[:20]} besides {symbol}"
    print(f"needs {sorted(names)}; exports {symbol}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
