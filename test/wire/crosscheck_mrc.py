#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Random packets from the C++ encoder through the second decoder (mrc_decode.py): every field must come out as it
went in; on damaged packets both decoders must give the same verdict.

    crosscheck_mrc.py EMIT_PACKETS [SEED]
"""

import collections
import ipaddress
import json
import random
import subprocess
import sys

import mrc_decode


def emit(program, seed, count, *flags):
    text = subprocess.run([program, "--seed", str(seed), "--count", str(count), *flags], check=True,
                          capture_output=True, text=True).stdout
    return [json.loads(line) for line in text.splitlines()]


def wrong_fields(want, got, path=""):
    """Where the leaves of `want` (from C++) differ from `got`."""
    for key, value in want.items():
        here = f"{path}{key}"
        if key not in got or got[key] is None:
            yield f"{here} is missing"
            continue
        other = got[key]
        if isinstance(value, dict):
            yield from wrong_fields(value, other, here + ".")
            continue
        if key in ("source", "destination"):
            value = str(ipaddress.IPv6Address(bytes.fromhex(value)))
        elif key == "payload":
            other = other.hex()
        if value != other:
            yield f"{here}: C++ {value!r}, Python {other!r}"


EXTENSIONS = {"meth", "tseth", "reth", "imm", "seth", "cc_state", "neth", "peth", "erth", "eeth", "aeth"}


def check(packet, got):
    want = packet["fields"]
    wrong = list(wrong_fields(want, got))
    if EXTENSIONS & set(want) != EXTENSIONS & set(got):
        wrong.append(f"headers {sorted(EXTENSIONS & set(got))}")
    if ("outer" in want) != (got["outer"] is not None):
        wrong.append("outer header")
    return wrong


def check_trimmed(packet, l3, whole):
    """What a switch leaves at 128 bytes of frame must still say everything that a NACK needs."""
    dscp = packet["params"]["dscp_trimmed_lasthop"]
    cut = bytearray(l3[:114])
    cut[0] = 0x60 | dscp >> 2
    cut[1] = (dscp & 3) << 6 | cut[1] & 0x3F
    got = mrc_decode.decode(bytes(cut), packet["params"])
    return [f"trimmed: {name}" for name in ("ev", "bth", "meth") if got.get(name) != whole.get(name)] + (
        [] if got["trimmed"] and got["trimmed_lasthop"] else ["trimmed: not recognised"])


def main():
    program = sys.argv[1]
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.getrandbits(48)
    print(f"seed {seed}")
    failures = 0

    def fail(packet, reasons):
        nonlocal failures
        failures += 1
        print("\n".join([packet["bytes"], *("   " + r for r in reasons)]))

    seen = collections.Counter()
    for packet in emit(program, seed, 600):
        l3 = bytes.fromhex(packet["bytes"])
        try:
            got = mrc_decode.decode(l3, packet["params"])
        except mrc_decode.DecodeError as error:
            fail(packet, [str(error)])
            continue
        seen[got["name"]] += 1
        wrong = check(packet, got)
        if not got["icrc_ok"]:
            wrong.append("iCRC")
        if got["bth"]["opcode"] in mrc_decode.WRITES:
            wrong += check_trimmed(packet, l3, got)
        if wrong:
            fail(packet, wrong)
    print(dict(seen))
    if len(seen) != len(mrc_decode.OPCODES):
        print("not every opcode was seen")
        failures += 1

    verdicts, trimmed = collections.Counter(), 0
    for packet in emit(program, seed, 4000, "--damage"):
        try:
            got = mrc_decode.decode(bytes.fromhex(packet["bytes"]), packet["params"])
            verdict = "ok"
            trimmed += got["trimmed"]
        except mrc_decode.DecodeError as error:
            verdict = error.kind
        verdicts[verdict] += 1
        if verdict != packet["verdict"]:
            fail(packet, [f"verdict: C++ {packet['verdict']}, Python {verdict}"])
        elif verdict == "ok":
            wrong = [] if got["trimmed"] == packet["trimmed"] else ["trimmed"]
            wrong += check(packet, got) if "fields" in packet else []
            if wrong:
                fail(packet, wrong)
    print(dict(verdicts), f"{trimmed} of them trimmed")
    if not trimmed:
        failures += 1
    print(f"{failures} failures")
    return failures != 0


if __name__ == "__main__":
    sys.exit(main())
