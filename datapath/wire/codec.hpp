// SPDX-License-Identifier: BSD-2-Clause
// Byte positions of every header, once, as inline functions: the public encode/decode members, parse and
// write_headers all use these. Reserved bits are written as 0 and ignored on receipt. Offsets: docs/wire-format.md.
#pragma once

#include <cstring>

#include "bytes.hpp"
#include "mrc/wire/bth.hpp"
#include "mrc/wire/ext.hpp"
#include "mrc/wire/ip.hpp"

namespace mrc::wire::codec {

inline void load(Ipv6Header& h, const std::byte* p) {
  const std::uint32_t word = load32(p);
  h.traffic_class = static_cast<std::uint8_t>(word >> 20);
  h.flow_label = word & 0xfffff;
  h.payload_length = load16(p + 4);
  h.next_header = load8(p + 6);
  h.hop_limit = load8(p + 7);
  std::memcpy(h.source.bytes.data(), p + 8, 16);
  std::memcpy(h.destination.bytes.data(), p + 24, 16);
}

inline void store(const Ipv6Header& h, std::byte* p) {
  store32(p, 6u << 28 | std::uint32_t{h.traffic_class} << 20 | (h.flow_label & 0xfffff));
  store16(p + 4, h.payload_length);
  store8(p + 6, h.next_header);
  store8(p + 7, h.hop_limit);
  std::memcpy(p + 8, h.source.bytes.data(), 16);
  std::memcpy(p + 24, h.destination.bytes.data(), 16);
}

inline void load(UdpHeader& h, const std::byte* p) {
  h.source_port = load16(p);
  h.destination_port = load16(p + 2);
  h.length = load16(p + 4);
  h.checksum = load16(p + 6);
}

inline void store(const UdpHeader& h, std::byte* p) {
  store16(p, h.source_port);
  store16(p + 2, h.destination_port);
  store16(p + 4, h.length);
  store16(p + 6, h.checksum);
}

inline void load(Bth& h, const std::byte* p) {
  h.opcode = static_cast<Opcode>(load8(p));
  const unsigned byte1 = load8(p + 1);
  h.solicited = (byte1 & 0x80) != 0;
  h.migrated = (byte1 & 0x40) != 0;
  h.pad = static_cast<std::uint8_t>(byte1 >> 4 & 3);
  h.version = static_cast<std::uint8_t>(byte1 & 0xf);
  h.pkey = load16(p + 2);
  h.dest_qpn = load24(p + 5);
  const unsigned flags = load8(p + 8);
  h.ack_request = (flags & 0x80) != 0;
  h.retransmit = (flags & 0x20) != 0;
  h.timestamp = (flags & 0x10) != 0;
  h.psn = load24(p + 9);
}

inline void store(const Bth& h, std::byte* p) {
  store8(p, static_cast<unsigned>(h.opcode));
  store8(p + 1, (h.solicited ? 0x80u : 0u) | (h.migrated ? 0x40u : 0u) | (h.pad & 3u) << 4 | (h.version & 0xfu));
  store16(p + 2, h.pkey);
  store32(p + 4, h.dest_qpn & kPsnMask);
  store32(p + 8, (h.ack_request ? 0x80000000u : 0u) | (h.retransmit ? 0x20000000u : 0u) |
                     (h.timestamp ? 0x10000000u : 0u) | (h.psn & kPsnMask));
}

inline void load(Meth& h, const std::byte* p) {
  h.rqmsn = load16(p);
  h.msn = load16(p + 2);
}

inline void store(const Meth& h, std::byte* p) {
  store16(p, h.rqmsn);
  store16(p + 2, h.msn);
}

inline void load(Tseth& h, const std::byte* p) {
  h.timestamp = load16(p);
  h.flags = load16(p + 2);
}

inline void store(const Tseth& h, std::byte* p) {
  store16(p, h.timestamp);
  store16(p + 2, h.flags);
}

inline void load(Reth& h, const std::byte* p) {
  h.va = load64(p);
  h.rkey = load32(p + 8);
  h.length = load32(p + 12);
}

inline void store(const Reth& h, std::byte* p) {
  store64(p, h.va);
  store32(p + 8, h.rkey);
  store32(p + 12, h.length);
}

inline void load(ImmDt& h, const std::byte* p) {
  h.value = load32(p);
}
inline void store(const ImmDt& h, std::byte* p) {
  store32(p, h.value);
}

inline void load(Seth& h, const std::byte* p) {
  const unsigned flags = load8(p);
  h.mark = static_cast<EvMark>(flags >> 6);
  h.probe_reply = (flags & 0x20) != 0;
  h.ack_psn_offset = static_cast<std::int16_t>(load16(p + 2));
  h.echoed_ev = load32(p + 4);
  h.source_context = load16(p + 8);
  h.dest_context = load16(p + 10);
  const std::uint32_t word = load32(p + 12);
  h.cumulative_psn = word >> 8;
  h.cc_type = static_cast<std::uint8_t>(word >> 4 & 0xf);
  h.cc_flags = static_cast<std::uint8_t>(word & 0xf);
  h.mpr = load8(p + 16);
  h.sack_offset = static_cast<std::int16_t>(load16(p + 18));
  h.bitmap = load64(p + 20);
}

inline void store(const Seth& h, std::byte* p) {
  store8(p, (static_cast<unsigned>(h.mark) & 3u) << 6 | (h.probe_reply ? 0x20u : 0u));
  store8(p + 1, 0);
  store16(p + 2, static_cast<std::uint16_t>(h.ack_psn_offset));
  store32(p + 4, h.echoed_ev);
  store16(p + 8, h.source_context);
  store16(p + 10, h.dest_context);
  store32(p + 12, (h.cumulative_psn & kPsnMask) << 8 | (h.cc_type & 0xfu) << 4 | (h.cc_flags & 0xfu));
  store8(p + 16, h.mpr);
  store8(p + 17, 0);
  store16(p + 18, static_cast<std::uint16_t>(h.sack_offset));
  store64(p + 20, h.bitmap);
}

inline void load(CcState& h, const std::byte* p) {
  h.echoed_timestamp = load16(p);
  h.ooo_count = load16(p + 2) & 0x7fff;
  const std::uint32_t word = load32(p + 4);
  h.restore_cwnd = (word & 0x80000000u) != 0;
  h.rcv_cwnd_pen = static_cast<std::uint8_t>(word >> 24 & 0x7f);
  h.rcvd_bytes = word & 0xffffff;
}

inline void store(const CcState& h, std::byte* p) {
  store16(p, h.echoed_timestamp);
  store16(p + 2, h.ooo_count & 0x7fff);
  store32(p + 4, (h.restore_cwnd ? 0x80000000u : 0u) | (h.rcv_cwnd_pen & 0x7fu) << 24 | (h.rcvd_bytes & 0xffffff));
}

inline void load(Neth& h, const std::byte* p) {
  h.reason = static_cast<NackReason>(load8(p));
  h.ev = load32(p + 4);
  h.source_context = load16(p + 8);
  h.dest_context = load16(p + 10);
  h.nack_psn = load24(p + 12);
  h.cc_type = load8(p + 15);
  h.timestamp = load16(p + 16);
}

inline void store(const Neth& h, std::byte* p) {
  store32(p, static_cast<std::uint32_t>(h.reason) << 24);
  store32(p + 4, h.ev);
  store16(p + 8, h.source_context);
  store16(p + 10, h.dest_context);
  store24(p + 12, h.nack_psn);
  store8(p + 15, h.cc_type);
  store16(p + 16, h.timestamp);
  store16(p + 18, 0);
}

inline void load(Peth& h, const std::byte* p) {
  h.probe_id = load16(p);
  h.source_context = load16(p + 4);
  h.dest_context = load16(p + 6);
  h.timestamp = load16(p + 8);
}

inline void store(const Peth& h, std::byte* p) {
  store16(p, h.probe_id);
  store16(p + 2, 0);
  store16(p + 4, h.source_context);
  store16(p + 6, h.dest_context);
  store16(p + 8, h.timestamp);
  store16(p + 10, 0);
  store32(p + 12, 0);
}

inline void load(Erth& h, const std::byte* p) {
  h.op = static_cast<EndpointOp>(load8(p));
  h.version = load8(p + 1);
  h.body_length = load16(p + 2);
  h.argument = load32(p + 4);
  h.source_qpn = load24(p + 9);
  h.ev = load32(p + 12);
}

inline void store(const Erth& h, std::byte* p) {
  store8(p, static_cast<unsigned>(h.op));
  store8(p + 1, h.version);
  store16(p + 2, h.body_length);
  store32(p + 4, h.argument);
  store32(p + 8, h.source_qpn & kPsnMask);
  store32(p + 12, h.ev);
}

inline void load(Eeth& h, const std::byte* p) {
  h.op = static_cast<EndpointOp>(load8(p));
  h.version = load8(p + 1);
  h.body_length = load16(p + 2);
  h.status = load8(p + 4);
  h.source_qpn = load24(p + 5);
  h.argument = load32(p + 8);
  h.request_psn = load24(p + 13);
  h.echoed_ev = load32(p + 16);
  h.incarnation = load64(p + 20);
  h.received_length = load32(p + 28);
}

inline void store(const Eeth& h, std::byte* p) {
  store8(p, static_cast<unsigned>(h.op));
  store8(p + 1, h.version);
  store16(p + 2, h.body_length);
  store8(p + 4, h.status);
  store24(p + 5, h.source_qpn);
  store32(p + 8, h.argument);
  store32(p + 12, h.request_psn & kPsnMask);
  store32(p + 16, h.echoed_ev);
  store64(p + 20, h.incarnation);
  store32(p + 28, h.received_length);
  store32(p + 32, 0);
}

inline void load(Aeth& h, const std::byte* p) {
  h.syndrome = load8(p);
  h.msn = load24(p + 1);
}

inline void store(const Aeth& h, std::byte* p) {
  store8(p, h.syndrome);
  store24(p + 1, h.msn);
}

}  // namespace mrc::wire::codec
