// SPDX-License-Identifier: BSD-2-Clause
// A random valid packet from any source of random bits: RapidCheck's in the property tests, mrc::Random in tools.
#pragma once

#include <iterator>

#include "golden.hpp"

namespace mrc::wire::test {

inline constexpr Opcode kAllOpcodes[] = {
    Opcode::kWriteFirst, Opcode::kWriteMiddle,      Opcode::kWriteLast,   Opcode::kWriteLastImm,
    Opcode::kWriteOnly,  Opcode::kWriteOnlyImm,     Opcode::kAcknowledge, Opcode::kEndpointRequest,
    Opcode::kSack,       Opcode::kEndpointResponse, Opcode::kNack,        Opcode::kProbeRequest,
};
inline constexpr NackReason kAllReasons[] = {
    NackReason::kTrimmed,    NackReason::kTrimmedLastHop, NackReason::kNoBitmap,        NackReason::kNoPacketBuffer,
    NackReason::kNoResource, NackReason::kPsnOutOfWindow, NackReason::kUnexpectedEvent,
};
inline constexpr EndpointOp kAllOps[] = {EndpointOp::kPortStatus, EndpointOp::kEvProbe, EndpointOp::kInit,
                                         EndpointOp::kClose, EndpointOp::kNoEndpoint};

struct RandomPacket {
  Params params;
  Packet packet;  ///< input of write_headers
  Bytes payload;
};

/// `draw()` returns 64 random bits.
template <class Draw>
RandomPacket random_packet(Draw&& draw) {
  const auto u8 = [&] { return static_cast<std::uint8_t>(draw()); };
  const auto u16 = [&] { return static_cast<std::uint16_t>(draw()); };
  const auto u24 = [&] { return static_cast<std::uint32_t>(draw() & 0xffffff); };
  const auto u32 = [&] { return static_cast<std::uint32_t>(draw()); };
  const auto flag = [&] { return (draw() & 1) != 0; };
  const auto pick = [&](const auto& all) { return all[draw() % std::size(all)]; };

  RandomPacket r;
  r.params.ev_split = flag() ? EvSplit::kHighInPort : EvSplit::kLowInPort;
  r.params.udp_port = flag() ? 4791 : 4971;

  Packet& p = r.packet;
  p.has_outer = flag();
  const auto header = [&](Ipv6Header& h) {
    h.traffic_class = u8();
    if (h.dscp() == r.params.dscp.trimmed || h.dscp() == r.params.dscp.trimmed_lasthop) h.traffic_class = 0x2a;
    h.hop_limit = u8();
    for (auto& b : h.source.bytes) b = u8();
    for (auto& b : h.destination.bytes) b = u8();
  };
  header(p.inner);
  if (p.has_outer) header(p.outer);
  p.ev = u32();

  const Opcode op = pick(kAllOpcodes);
  p.bth.opcode = op;
  p.bth.solicited = flag();
  p.bth.migrated = flag();
  p.bth.pkey = u16();
  p.bth.dest_qpn = u24();
  p.bth.ack_request = flag();
  p.bth.retransmit = flag();
  p.bth.psn = u24();
  const bool endpoint = op == Opcode::kEndpointRequest || op == Opcode::kEndpointResponse;
  if (is_write(op) || endpoint || op == Opcode::kProbeRequest) {
    r.payload.resize(draw() % 70);
    for (auto& b : r.payload) b = static_cast<std::byte>(u8());
  }
  const auto payload_length = static_cast<std::uint16_t>(r.payload.size());
  const auto body_length = static_cast<std::uint16_t>(draw() % (payload_length + 1u));

  switch (op) {
    case Opcode::kSack:
      p.seth = {.mark = static_cast<EvMark>(draw() % 3),
                .probe_reply = flag(),
                .ack_psn_offset = static_cast<std::int16_t>(u16()),
                .echoed_ev = u32(),
                .source_context = u16(),
                .dest_context = u16(),
                .cumulative_psn = u24(),
                .cc_type = static_cast<std::uint8_t>(draw() % 3),
                .cc_flags = static_cast<std::uint8_t>(draw() & 15),
                .mpr = u8(),
                .sack_offset = static_cast<std::int16_t>(u16()),
                .bitmap = draw()};
      p.cc_present = p.seth.cc_type != 0;
      p.cc = {.echoed_timestamp = u16(),
              .ooo_count = static_cast<std::uint16_t>(u16() & 0x7fff),
              .restore_cwnd = flag(),
              .rcv_cwnd_pen = static_cast<std::uint8_t>(u8() & 0x7f),
              .rcvd_bytes = u24()};
      break;
    case Opcode::kNack:
      p.neth = {.reason = pick(kAllReasons),
                .ev = u32(),
                .source_context = u16(),
                .dest_context = u16(),
                .nack_psn = u24(),
                .cc_type = u8(),
                .timestamp = u16()};
      break;
    case Opcode::kProbeRequest:
      p.peth = {.probe_id = u16(), .source_context = u16(), .dest_context = u16(), .timestamp = u16()};
      break;
    case Opcode::kEndpointRequest:
      p.erth = {.op = pick(kAllOps),
                .version = u8(),
                .body_length = body_length,
                .argument = u32(),
                .source_qpn = u24(),
                .ev = u32()};
      break;
    case Opcode::kEndpointResponse:
      p.eeth = {.op = pick(kAllOps),
                .version = u8(),
                .body_length = body_length,
                .status = u8(),
                .argument = u32(),
                .source_qpn = u24(),
                .request_psn = u24(),
                .echoed_ev = u32(),
                .incarnation = draw(),
                .received_length = u32()};
      break;
    case Opcode::kAcknowledge:
      p.aeth = {.syndrome = u8(), .msn = u24()};
      break;
    default:
      p.bth.timestamp = flag();
      p.meth = {.rqmsn = u16(), .msn = u16()};
      p.tseth = {.timestamp = u16(), .flags = u16()};
      p.reth = {.va = draw(), .rkey = u32(), .length = payload_length + (u32() >> 1)};
      p.imm.value = u32();
      p.reth_present = true;
      break;
  }
  return r;
}

/// The whole packet as it would be sent, iCRC left as zeros. Empty if write_headers refuses.
inline Bytes assemble(const Packet& packet, const Bytes& payload, const Params& params) {
  Bytes out(packet_size(packet, payload.size(), params));
  const std::size_t headers = write_headers(packet, payload.size(), params, out);
  if (headers == 0) return {};
  for (std::size_t i = 0; i < payload.size(); ++i) out[headers + i] = payload[i];
  return out;
}

}  // namespace mrc::wire::test
