# SPDX-License-Identifier: BSD-2-Clause
"""What a kernel switch did to uSID carriers: the same inner packets, captured before and after it."""
import collections
import ipaddress
import struct

from scapy.utils import RawPcapReader

LOCATOR = ipaddress.ip_network("fcbb:bb00::/32")
T0, T1, NIC = 1, 2, 3
DATA = range(0xC6, 0xCC)
Packet = collections.namedtuple("Packet", "seconds hop_limit carrier inner opcode")


def packets(name):
    """IPv6-in-IPv6 packets of a capture with their time, hop limit, carrier, inner packet and BTH opcode. What is cut
    off by the capture's length is no matter: all captures are cut at the same place."""
    for raw, meta in RawPcapReader(str(name)):
        if len(raw) < 14 + 80 + 8 + 12 or raw[12:14] != b"\x86\xdd" or raw[14 + 6] != 41:
            continue
        yield Packet(meta.sec + meta.usec / 1e6, raw[14 + 7], raw[14 + 24:14 + 40], raw[54:], raw[54 + 48])


def usid(plane, kind, index):
    return plane << 12 | kind << 10 | index


def usids(carrier):
    """The uSIDs of a carrier: 32-bit block, then 16 bits each."""
    if ipaddress.ip_address(carrier) not in LOCATOR:
        raise AssertionError(f"{ipaddress.ip_address(carrier)} is outside {LOCATOR}")
    return struct.unpack(">6H", carrier[4:])


def compare(before, after, own):
    """Compares captures of one switch, `own` being its uSID: (pairs, mistakes, one example in words). A pair is one
    inner packet seen on both sides; it is right if the first uSID was the switch's, the others moved up by one, a zero
    followed, and the hop limit went down by one."""
    ingress = {}
    for name in before:
        for packet in packets(name):
            ingress[packet.inner] = packet
    pairs, mistakes, example = 0, [], ""
    for name in after:
        for packet in packets(name):
            earlier = ingress.get(packet.inner)
            if earlier is None:
                continue
            pairs += 1
            had, has = usids(earlier.carrier), usids(packet.carrier)
            words = f"{ipaddress.ip_address(earlier.carrier)} -> {ipaddress.ip_address(packet.carrier)}"
            if had[0] != own or has != had[1:] + (0,) or packet.hop_limit != earlier.hop_limit - 1:
                mistakes.append(words)
            example = example or words
    return pairs, mistakes, example
