#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The standard headers of our packets against scapy: IPv6 (in IPv6), UDP and BTH are rebuilt by scapy from the fields
and must be the same bytes; scapy takes ours apart into the same fields.

iCRC: scapy's roce layer computes it for IPv4 only ("TODO support IPv6" in scapy 2.5 and 2.6). So (1) our way of
masking, with zlib's CRC, is checked against scapy's iCRC on the same UDP payload under an IPv4 header, and (2) the same
way with IPv6's fields, built by scapy's layers, is checked against the iCRC that the C++ code sent.

    crosscheck_scapy.py EMIT_PACKETS [SEED]      (exit code 77: scapy is not installed)
"""

import ipaddress
import json
import random
import struct
import subprocess
import sys
import zlib

try:
    from scapy.contrib.roce import AETH, BTH
    from scapy.layers.inet import IP, UDP
    from scapy.layers.inet6 import IPv6
    from scapy.packet import Raw
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)


def address(text):
    return str(ipaddress.IPv6Address(bytes.fromhex(text)))


def ev_halves(fields, params):
    """UDP source port and flow label."""
    high, low = fields["ev"] >> 16, fields["ev"] & 0xFFFF
    return (high, low) if params["ev_split"] == "high_in_port" else (low, high)


def masked_crc(ip_bytes, udp_and_rest):
    """iCRC over a masked IP header and what follows, in wire order."""
    rest = bytearray(udp_and_rest)
    rest[6:8] = b"\xff\xff"
    rest[12] = 0xFF
    return struct.pack("<I", zlib.crc32(b"\xff" * 8 + ip_bytes + bytes(rest)))


def icrc_ipv6(inner, udp_and_rest):
    masked = IPv6(tc=0xFF, fl=0xFFFFF, hlim=0xFF, nh=inner.nh, plen=inner.plen, src=inner.src, dst=inner.dst)
    return masked_crc(bytes(masked), udp_and_rest)


def icrc_agrees_with_scapy_on_ipv4(sport, bth, rest):
    """scapy's own iCRC of the same transport bytes under IPv4, against masked_crc."""
    template = bth.copy()
    template.icrc = None
    packet = IP(bytes(IP(src="192.0.2.1", dst="192.0.2.2", tos=0x2A, ttl=63) /
                      UDP(sport=sport, dport=4791, chksum=0) / template / Raw(rest)))
    whole = bytes(packet)
    ip = bytearray(whole[:20])
    ip[1] = ip[8] = 0xFF
    ip[10:12] = b"\xff\xff"
    return masked_crc(bytes(ip), whole[20:-4]) == whole[-4:]


def check(packet):
    fields, params = packet["fields"], packet["params"]
    l3 = bytes.fromhex(packet["bytes"])
    b = fields["bth"]
    sport, label = ev_halves(fields, params)
    payload = bytes.fromhex(fields["payload"])
    pad = -len(payload) % 4

    # scapy takes it apart. (bytes from .original: UDP ports may mean other protocols to scapy.)
    top = IPv6(l3)
    inner = top.payload if "outer" in fields else top
    expect = [("inner is IPv6", inner.name, "IPv6")]
    udp = UDP(inner.original[40:40 + inner.plen])
    bth = BTH(udp.original[8:])
    for name, header in (("outer", top), ("inner", inner)):
        if name in fields:
            want = fields[name]
            expect += [(f"{name} tc", header.tc, want["traffic_class"]), (f"{name} label", header.fl, label),
                       (f"{name} hop limit", header.hlim, want["hop_limit"]),
                       (f"{name} source", header.src, address(want["source"])),
                       (f"{name} destination", header.dst, address(want["destination"]))]
    expect += [("sport", udp.sport, sport), ("dport", udp.dport, params["udp_port"]), ("checksum", udp.chksum, 0),
               ("UDP length", udp.len, inner.plen), ("opcode", bth.opcode, b["opcode"]),
               ("solicited", bth.solicited, b["solicited"]), ("migreq", bth.migreq, b["migrated"]),
               ("pad", bth.padcount, pad), ("tver", bth.version, 0), ("pkey", bth.pkey, b["pkey"]),
               ("dqpn", bth.dqpn, b["dest_qpn"]), ("ackreq", bth.ackreq, b["ack_request"]),
               ("rtx, ts", bth.resv7, b["retransmit"] << 5 | b["timestamp"] << 4), ("psn", bth.psn, b["psn"])]
    if "aeth" in fields:
        aeth = AETH(udp.original[20:])
        expect += [("syndrome", aeth.syndrome, fields["aeth"]["syndrome"]), ("msn", aeth.msn, fields["aeth"]["msn"])]

    # scapy builds it: lengths and next headers are its own.
    rest = l3[-inner.plen + 20:-4]
    built = (IPv6(tc=fields["inner"]["traffic_class"], fl=label, hlim=fields["inner"]["hop_limit"],
                  src=address(fields["inner"]["source"]), dst=address(fields["inner"]["destination"])) /
             UDP(sport=sport, dport=params["udp_port"], chksum=0) /
             BTH(opcode=b["opcode"], solicited=b["solicited"], migreq=b["migrated"], padcount=pad, pkey=b["pkey"],
                 dqpn=b["dest_qpn"], ackreq=b["ack_request"], resv7=b["retransmit"] << 5 | b["timestamp"] << 4,
                 psn=b["psn"], icrc=struct.unpack("!I", l3[-4:])[0]) / Raw(rest))
    if "outer" in fields:
        built = IPv6(tc=fields["inner"]["traffic_class"], fl=label, hlim=fields["outer"]["hop_limit"],
                     src=address(fields["outer"]["source"]), dst=address(fields["outer"]["destination"])) / built
    expect += [("bytes", bytes(built).hex(), l3.hex()),
               ("payload and pad", rest[len(rest) - len(payload) - pad:], payload + bytes(pad)),
               ("iCRC", icrc_ipv6(inner, udp.original[:-4]).hex(), l3[-4:].hex()),
               ("iCRC method on IPv4", icrc_agrees_with_scapy_on_ipv4(sport, bth, rest), True)]
    return [f"{name}: scapy {got!r}, C++ {want!r}" for name, got, want in expect if got != want]


def main():
    program = sys.argv[1]
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.getrandbits(48)
    print(f"seed {seed}")
    text = subprocess.run([program, "--seed", str(seed), "--count", "300"], check=True, capture_output=True,
                          text=True).stdout
    packets = [json.loads(line) for line in text.splitlines()]
    failures = 0
    for packet in packets:
        wrong = check(packet)
        if wrong:
            failures += 1
            print("\n".join([packet["bytes"], *("   " + w for w in wrong)]))
    tunnelled = sum("outer" in p["fields"] for p in packets)
    print(f"{len(packets)} packets ({tunnelled} IPv6 in IPv6), {failures} failures")
    return failures != 0 or not 0 < tunnelled < len(packets)


if __name__ == "__main__":
    sys.exit(main())
