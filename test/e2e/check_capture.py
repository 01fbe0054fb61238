#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Reads captures of mrc's planes with scapy and the second decoder (test/wire/mrc_decode.py, written from
mrc-protocol.md): every MRC frame must decode, lengths and iCRC must hold, and headers must be what the document says."""
import argparse
import collections
import pathlib
import socket
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


T0, T1, NIC = 1, 2, 3
LOCATOR = b"\xfc\xbb\xbb\x00"


def usids_of(address):
    """The uSIDs of a carrier (RFC 9800: 32-bit block, then 16 bits each, 0 ends) as (plane, kind, index)."""
    raw = socket.inet_pton(socket.AF_INET6, address)
    assert raw[:4] == LOCATOR, f"outer destination {address} is not in the locator block"
    words = [int.from_bytes(raw[i:i + 2], "big") for i in range(4, 16, 2)]
    used = words[: words.index(0)] if 0 in words else words
    assert not any(words[len(used):]), f"{address}: uSIDs after the end of the carrier"
    return [(word >> 12, word >> 10 & 3, word & 0x3FF) for word in used]


def check_carrier(address, ev):
    """T0 | T1 | T0 | NIC (or what the switches have left of it), all in the EV's plane, by the EV's uplink."""
    usids = usids_of(address)
    kinds = [kind for _, kind, _ in usids]
    full = [T0, T1, T0, NIC]
    assert kinds == full[len(full) - len(kinds):] or kinds == [T0, NIC], f"{address}: kinds {kinds}"
    assert {plane for plane, _, _ in usids} == {ev >> 28}, f"{address}: planes differ from EV {ev:#x}"
    for _, kind, index in usids:
        assert kind != T1 or index == ev >> 20 & 0xFF, f"{address}: T1 {index}, EV {ev:#x}"
    return tuple(kinds)


def icrc_holds(inner):
    raw = bytes(inner)[: 40 + inner.plen]
    return mrc_decode.icrc(raw[:-4]) == raw[-4:]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mode", choices=("srv6", "ecmp"), required=True)
    parser.add_argument("--min-packets", type=int, default=100)
    parser.add_argument("--min-evs", type=int, default=100)
    parser.add_argument("--no-icrc", action="store_true", help="iCRC was negotiated off (memif)")
    parser.add_argument("--carriers", help="the only kinds of carriers at this hop, e.g. T1-T0-NIC,T0-NIC; all must be seen")
    parser.add_argument("--plane", type=int, help="every EV must be of this plane")
    parser.add_argument("--uplink", type=int, help="every EV must take this T1")
    parser.add_argument("captures", nargs="+")
    args = parser.parse_args()
    params = mrc_decode.Params(icrc=not args.no_icrc)
    opcodes, carriers, evs, checked = collections.Counter(), collections.Counter(), set(), 0
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
                ev = fields["ev"]
                assert args.plane in (None, ev >> 28), f"EV {ev:#x} in plane {args.plane}"
                assert args.uplink in (None, ev >> 20 & 0xFF), f"EV {ev:#x} by T1 {args.uplink}"
                carriers[check_carrier(packet[IPv6].dst, fields["ev"])] += 1
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
    if carriers:
        seen = {"-".join(("", "T0", "T1", "NIC")[kind] for kind in kinds): count
                for kinds, count in sorted(carriers.items(), reverse=True)}
        print("   uSID carriers: " + ", ".join(f"{kinds} x{count}" for kinds, count in seen.items()))
        if args.carriers:
            assert set(seen) == set(args.carriers.split(",")), f"carriers must be {args.carriers}"
        else:
            assert "T0-T1-T0-NIC" in seen, "no packet with a whole carrier"


if __name__ == "__main__":
    try:
        main()
    except AssertionError as error:
        print(f"FAILED: {error}", file=sys.stderr)
        sys.exit(1)
