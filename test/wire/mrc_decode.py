#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""A second decoder of MRC packets, independent of the C++ one.

Written from the field tables in docs/wire-format.md (spec-derived): each header is a list of (field, bits) in the
order of the wire. It shares no code with the datapath, so that a mistake has to be made twice to go unseen.

    decode(l3_bytes, Params()) -> dict      raises DecodeError(kind, text)
    decode_init(body) -> dict
    icrc(inner_packet_without_icrc) -> bytes

As a program: mrc_decode.py HEX..., or one hex packet a line on standard input; prints JSON.
"""

import ipaddress
import json
import struct
import sys
import zlib
from dataclasses import dataclass

IPV6 = [("version", 4), ("traffic_class", 8), ("flow_label", 20), ("payload_length", 16), ("next_header", 8),
        ("hop_limit", 8), ("source", 128), ("destination", 128)]
UDP = [("source_port", 16), ("destination_port", 16), ("length", 16), ("checksum", 16)]
BTH = [("opcode", 8), ("solicited", 1), ("migrated", 1), ("pad", 2), ("version", 4), ("pkey", 16), (None, 8),
       ("dest_qpn", 24), ("ack_request", 1), (None, 1), ("retransmit", 1), ("timestamp", 1), (None, 4), ("psn", 24)]
METH = [("rqmsn", 16), ("msn", 16)]
TSETH = [("timestamp", 16), ("flags", 16)]
RETH = [("va", 64), ("rkey", 32), ("length", 32)]
IMM = [("value", 32)]
SETH = [("mark", 2), ("probe_reply", 1), (None, 13), ("ack_psn_offset", -16), ("echoed_ev", 32),
        ("source_context", 16), ("dest_context", 16), ("cumulative_psn", 24), ("cc_type", 4), ("cc_flags", 4),
        ("mpr", 8), (None, 8), ("sack_offset", -16), ("bitmap", 64)]
CC_STATE = [("echoed_timestamp", 16), (None, 1), ("ooo_count", 15), ("restore_cwnd", 1), ("rcv_cwnd_pen", 7),
            ("rcvd_bytes", 24)]
NETH = [("reason", 8), (None, 24), ("ev", 32), ("source_context", 16), ("dest_context", 16), ("nack_psn", 24),
        ("cc_type", 8), ("timestamp", 16), (None, 16)]
PETH = [("probe_id", 16), (None, 16), ("source_context", 16), ("dest_context", 16), ("timestamp", 16), (None, 48)]
ERTH = [("op", 8), ("version", 8), ("body_length", 16), ("argument", 32), (None, 8), ("source_qpn", 24), ("ev", 32)]
EETH = [("op", 8), ("version", 8), ("body_length", 16), ("status", 8), ("source_qpn", 24), ("argument", 32),
        (None, 8), ("request_psn", 24), ("echoed_ev", 32), ("incarnation", 64), ("received_length", 32), (None, 32)]
AETH = [("syndrome", 8), ("msn", 24)]

OPCODES = {
    0xC6: "WRITE_FIRST", 0xC7: "WRITE_MIDDLE", 0xC8: "WRITE_LAST", 0xC9: "WRITE_LAST_IMM", 0xCA: "WRITE_ONLY",
    0xCB: "WRITE_ONLY_IMM", 0xD1: "ACKNOWLEDGE", 0xD8: "ENDPOINT_REQUEST", 0xD9: "ENDPOINT_RESPONSE",
    0xDC: "RELIABILITY_SACK", 0xDD: "RELIABILITY_NACK", 0xDE: "RELIABILITY_PROBE_REQ",
}
WRITES = range(0xC6, 0xCC)
WITH_IMM = (0xC9, 0xCB)
WITH_PAYLOAD = (*WRITES, 0xD8, 0xD9, 0xDE)
NACK_REASONS = {0x01: "TRIMMED", 0x02: "TRIMMED_LASTHOP", 0x06: "NO_BITMAP", 0x07: "NO_PKT_BUFFER",
                0x0A: "NO_RESOURCE", 0x0B: "PSN_OOR_WINDOW", 0x19: "UNEXP_EVENT"}
ENDPOINT_OPS = {0: "PORT_STATUS", 1: "EV_PROBE", 0x80: "INIT", 0x81: "CLOSE", 0x82: "NO_ENDPOINT"}


@dataclass
class Params:
    """What the sources leave open, or the operator chooses."""
    ev_split: str = "high_in_port"  # or "low_in_port"
    udp_port: int = 4791
    icrc: bool = True
    dscp_trimmed: int = 50
    dscp_trimmed_lasthop: int = 52


class DecodeError(Exception):
    """kind: too_short, not_ipv6, not_mrc, bad_length, bad_version, bad_opcode or bad_field."""

    def __init__(self, kind, text):
        super().__init__(f"{kind}: {text}")
        self.kind = kind


def size_of(fields):
    return sum(abs(bits) for _, bits in fields) // 8


def unpack(fields, data):
    """One header as a dict. Negative widths are two's complement; single bits become booleans."""
    length = size_of(fields)
    if len(data) < length:
        raise DecodeError("bad_length", f"{length} bytes of header wanted, {len(data)} there")
    whole = int.from_bytes(data[:length], "big")
    left = length * 8
    out = {}
    for name, width in fields:
        bits = abs(width)
        left -= bits
        value = whole >> left & ((1 << bits) - 1)
        if width < 0 and value >> (bits - 1):
            value -= 1 << bits
        if bits == 1:
            value = bool(value)
        elif bits == 128:
            value = str(ipaddress.IPv6Address(value))
        if name:
            out[name] = value
    return out


def icrc(inner):
    """iCRC of a packet from the inner IPv6 header to the pad, as the four bytes of the wire (RoCEv2 annex A17)."""
    masked = bytearray(inner)
    masked[0:4] = b"\x6f\xff\xff\xff"   # traffic class and flow label
    masked[7] = 0xFF                    # hop limit
    masked[46:48] = b"\xff\xff"         # UDP checksum
    masked[52] = 0xFF                   # BTH reserved byte
    return struct.pack("<I", zlib.crc32(b"\xff" * 8 + bytes(masked)))


def _ip_header(data):
    if not data:
        raise DecodeError("too_short", "no bytes")
    if data[0] >> 4 != 6:
        raise DecodeError("not_ipv6", f"IP version {data[0] >> 4}")
    if len(data) < 40:
        raise DecodeError("too_short", "ends inside an IPv6 header")
    return unpack(IPV6, data)


def decode(l3, params=None):
    """Decodes a packet that starts at its first IPv6 header. Bytes beyond the IPv6 length are ignored."""
    params = params or Params()
    if isinstance(params, dict):
        params = Params(**params)
    first = inner = _ip_header(l3)
    out = {"outer": None}
    inner_at = 0
    if first["next_header"] == 41:
        out["outer"] = first
        inner_at = 40
        inner = _ip_header(l3[40:])
    out["inner"] = inner
    if inner["next_header"] != 17:
        raise DecodeError("not_mrc", f"next header {inner['next_header']}")
    if len(l3) < inner_at + 48:
        raise DecodeError("too_short", "ends inside the UDP header")
    udp = out["udp"] = unpack(UDP, l3[inner_at + 40:])
    if udp["destination_port"] != params.udp_port:
        raise DecodeError("not_mrc", f"UDP port {udp['destination_port']}")
    label = inner["flow_label"] & 0xFFFF
    port = udp["source_port"]
    out["ev"] = port << 16 | label if params.ev_split == "high_in_port" else label << 16 | port

    classes = {h["traffic_class"] >> 2 for h in (first, inner)}
    out["trimmed_lasthop"] = params.dscp_trimmed_lasthop in classes
    out["trimmed"] = out["trimmed_lasthop"] or params.dscp_trimmed in classes
    end = 40 + first["payload_length"]
    if out["trimmed"]:
        return _decode_trimmed(l3[inner_at + 48:end], out)
    if end > len(l3):
        raise DecodeError("bad_length", "frame is shorter than its IPv6 length")
    if inner_at + 40 + inner["payload_length"] != end:
        raise DecodeError("bad_length", "inner and outer IPv6 lengths disagree")
    if udp["length"] != inner["payload_length"]:
        raise DecodeError("bad_length", "UDP and IPv6 lengths disagree")
    return _decode_whole(l3[inner_at:end], out, params)


def _bth(data, out):
    bth = out["bth"] = unpack(BTH, data)
    if bth["version"] != 0:
        raise DecodeError("bad_version", f"transport version {bth['version']}")
    if bth["opcode"] not in OPCODES:
        raise DecodeError("bad_opcode", f"opcode {bth['opcode']:#x}")
    out["name"] = OPCODES[bth["opcode"]]
    return bth


def _decode_trimmed(data, out):
    """From BTH on; whatever is whole is decoded."""
    if len(data) < 12:
        raise DecodeError("too_short", "trimmed inside BTH")
    bth = _bth(data, out)
    data = data[12:]
    if bth["opcode"] not in WRITES:
        return out
    headers = [("meth", METH)] + [("tseth", TSETH)] * bth["timestamp"] + [("reth", RETH)]
    if bth["opcode"] in WITH_IMM:
        headers.append(("imm", IMM))
    if len(data) < 4:
        raise DecodeError("too_short", "trimmed inside METH")
    for name, fields in headers:
        if len(data) < size_of(fields):
            break
        out[name] = unpack(fields, data)
        data = data[size_of(fields):]
    return out


def _decode_whole(inner, out, params):
    data = inner[48:]
    bth = _bth(data, out)
    opcode = bth["opcode"]
    data = data[12:]
    if params.icrc:
        if len(data) < 4:
            raise DecodeError("bad_length", "no room for the iCRC")
        out["icrc"] = inner[-4:].hex()
        out["icrc_ok"] = icrc(inner[:-4]) == inner[-4:]
        data = data[:-4]

    def take(name, fields):
        nonlocal data
        out[name] = unpack(fields, data)
        data = data[size_of(fields):]
        return out[name]

    if bth["timestamp"] and opcode not in WRITES:
        raise DecodeError("bad_field", "ts flag without TSETH")
    if opcode in WRITES:
        take("meth", METH)
        if bth["timestamp"]:
            take("tseth", TSETH)
        take("reth", RETH)
        if opcode in WITH_IMM:
            take("imm", IMM)
    elif opcode == 0xDC:
        if take("seth", SETH)["cc_type"]:
            take("cc_state", CC_STATE)
    else:
        take(*{0xD1: ("aeth", AETH), 0xD8: ("erth", ERTH), 0xD9: ("eeth", EETH), 0xDD: ("neth", NETH),
               0xDE: ("peth", PETH)}[opcode])

    if data and opcode not in WITH_PAYLOAD:
        raise DecodeError("bad_length", f"{len(data)} bytes after the last header")
    if len(data) % 4:
        raise DecodeError("bad_length", "payload and pad are no multiple of 4")
    if bth["pad"] > len(data):
        raise DecodeError("bad_field", "more pad than bytes")
    out["payload"] = data[:len(data) - bth["pad"]]
    _check_fields(out)
    return out


def _check_fields(out):
    if "seth" in out and out["seth"]["mark"] == 3:
        raise DecodeError("bad_field", "SETH.M = 3")
    if "neth" in out and out["neth"]["reason"] not in NACK_REASONS:
        raise DecodeError("bad_field", f"NACK reason {out['neth']['reason']:#x}")
    if "reth" in out and len(out["payload"]) > out["reth"]["length"]:
        raise DecodeError("bad_field", "more payload than the message is long")
    for name in ("erth", "eeth"):
        if name in out:
            if out[name]["op"] not in ENDPOINT_OPS:
                raise DecodeError("bad_field", f"endpoint operation {out[name]['op']:#x}")
            if out[name]["body_length"] > len(out["payload"]):
                raise DecodeError("bad_field", "body longer than the payload")


INIT_TLVS = {1: "versions", 2: "features", 3: "qpn", 4: "psn", 5: "incarnation", 6: "peer_incarnation", 7: "mtu",
             8: "window", 9: "upper_version", 10: "authenticator"}


def decode_init(body):
    """The TLVs of an INIT body; unknown types are skipped."""
    out = {}
    while body:
        if len(body) < 4:
            raise DecodeError("bad_length", "TLV head cut off")
        kind, length = struct.unpack_from("!HH", body)
        value = body[4:4 + length]
        if len(value) < length:
            raise DecodeError("bad_length", "TLV value cut off")
        name = INIT_TLVS.get(kind)
        if name == "authenticator":
            out[name] = value
        elif name == "versions":
            out["version"], out["min_version"] = struct.unpack("!HH", value)
        elif name:
            out[name] = int.from_bytes(value, "big")
        body = body[4 + length:]
    return out


def main():
    texts = sys.argv[1:] or sys.stdin
    for text in texts:
        try:
            print(json.dumps(decode(bytes.fromhex(text.strip())), default=lambda b: b.hex()))
        except DecodeError as error:
            print(json.dumps({"error": error.kind, "text": str(error)}))


if __name__ == "__main__":
    main()
