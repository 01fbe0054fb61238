#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Reads captures of mrc's planes with scapy and the second decoder (test/wire/mrc_decode.py, written from
mrc-protocol.md): every MRC frame must decode, lengths and iCRC must hold, and headers must be what the document says."""
import argparse
import collections
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "wire"))
import mrc_decode  # noqa: E402
from scapy.all import IPv6, UDP, PcapReader  # noqa: E402

DATA = range(0xC6, 0xCC)
CONTROL = {0xD1, 0xD8, 0xD9, 0xDC, 0xDD, 0xDE}


def inner_of(packet):
    """The inner IPv6 layer, and whether there was an outer one."""
    outer = packet[IPv6]
    return (outer.payload, True) if outer.nh == 41 else (outer, False)


def icrc_holds(inner):
    raw = bytes(inner)[: 40 + inner.plen]
    return mrc_decode.icrc(raw[:-4]) == raw[-4:]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mode", choices=("srv6", "ecmp"), required=True)
    parser.add_argument("--min-packets", type=int, default=100)
    parser.add_argument("--min-evs", type=int, default=100)
    parser.add_argument("--no-icrc", action="store_true", help="iCRC was negotiated off (memif)")
    parser.add_argument("captures", nargs="+")
    args = parser.parse_args()
    params = mrc_decode.Params(icrc=not args.no_icrc)
    opcodes, evs, checked = collections.Counter(), set(), 0
    for name in args.captures:
        for packet in PcapReader(name):
            if IPv6 not in packet:
                continue
            inner, outer = inner_of(packet)
            if inner.nh != 17 or UDP not in inner or inner[UDP].dport != 4791:
                continue
            assert outer == (args.mode == "srv6"), f"outer header: {outer}, mode {args.mode}"
            fields = mrc_decode.decode(bytes(packet[IPv6]), params)
            opcode = fields["bth"]["opcode"]
            assert opcode in DATA or opcode in CONTROL, f"opcode {opcode:#x}"
            opcodes[opcode] += 1
            assert inner[UDP].chksum in (0, None), "UDP checksum must be 0"
            if opcode in DATA:
                evs.add(fields["ev"])
                assert "reth" in fields, "a data packet without RETH"
                if args.mode == "ecmp":
                    assert inner[UDP].sport >= 0xC000, f"source port {inner[UDP].sport:#x}"
            if outer:
                assert packet[IPv6].fl == inner.fl and packet[IPv6].tc == inner.tc, "outer header must repeat the inner's"
            if not args.no_icrc:
                checked += 1
                assert icrc_holds(inner), f"iCRC of {packet.summary()}"
    data = sum(opcodes[o] for o in DATA)
    assert data >= args.min_packets, f"only {data} data packets"
    assert len(evs) >= args.min_evs, f"only {len(evs)} EVs in data packets"
    assert opcodes[0xDC] > 0, "no SACK seen"
    names = ", ".join(f"{opcode:#x} x{count}" for opcode, count in sorted(opcodes.items()))
    print(f"   capture: {sum(opcodes.values())} MRC packets decode ({names}); {len(evs)} EVs; iCRC right in {checked}")


if __name__ == "__main__":
    try:
        main()
    except AssertionError as error:
        print(f"FAILED: {error}", file=sys.stderr)
        sys.exit(1)
