#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Captures of a program without and with a denylist: with it nothing at all goes over the denied T0-T1 link.

The carriers say which way a packet goes: locator 32 | T0 | T1 | T0 | NIC, a uSID is plane 4 | kind 2 | index 10.
"""
import argparse
import struct

parser = argparse.ArgumentParser()
parser.add_argument("--plane", type=int, required=True)
parser.add_argument("--t1", type=int, required=True)
parser.add_argument("--free", nargs="+", required=True)
parser.add_argument("--denied", nargs="+", required=True)
args = parser.parse_args()


def frames(path):
    data = open(path, "rb").read()
    at = 24
    while at + 16 <= len(data):
        length = struct.unpack_from("<I", data, at + 8)[0]
        yield data[at + 16:at + 16 + length]
        at += 16 + length


def over(paths):
    """Packets sent per (plane, T1). Received ones have a carrier that is used up: its second uSID is 0."""
    counts = {}
    for path in paths:
        for frame in frames(path):
            if len(frame) < 54 or frame[12:14] != b"\x86\xdd":
                continue
            usids = struct.unpack("!6H", frame[14 + 28:14 + 40])
            if usids[1] != 0 and usids[1] >> 10 & 3 == 2:
                key = (usids[1] >> 12, usids[1] & 0x3ff)
                counts[key] = counts.get(key, 0) + 1
    return counts


free, denied = over(args.free), over(args.denied)
link = (args.plane, args.t1)
assert free.get(link, 0) > 10, f"without the denylist {free}"
assert link not in denied, f"{denied[link]} packets over the denied link"
assert all(denied.get(key, 0) > 10 for key in free if key != link), denied
print(f"   without: {free[link]} of {sum(free.values())} packets over plane {link[0]} T1 {link[1]}; "
      f"with the denylist: 0 of {sum(denied.values())}")
