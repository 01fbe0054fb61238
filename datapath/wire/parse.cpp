// SPDX-License-Identifier: BSD-2-Clause
// The parser: one pass over the headers, every length cross-checked before a byte is read.
#include <algorithm>

#include "codec.hpp"
#include "layout.hpp"

namespace mrc::wire {
namespace {

bool is_ipv6(const std::byte* p) {
  return load8(p) >> 4 == 6;
}

bool known(NackReason reason) {
  switch (reason) {
    case NackReason::kTrimmed:
    case NackReason::kTrimmedLastHop:
    case NackReason::kNoBitmap:
    case NackReason::kNoPacketBuffer:
    case NackReason::kNoResource:
    case NackReason::kPsnOutOfWindow:
    case NackReason::kUnexpectedEvent:
      return true;
  }
  return false;
}

bool known(EndpointOp op) {
  switch (op) {
    case EndpointOp::kPortStatus:
    case EndpointOp::kEvProbe:
    case EndpointOp::kInit:
    case EndpointOp::kClose:
    case EndpointOp::kNoEndpoint:
      return true;
  }
  return false;
}

/// What a switch's trimming left after BTH. Enough for a NACK is METH; the rest is taken if it is whole.
ParseError parse_trimmed_rest(const std::byte* p, std::size_t left, Packet& out) {
  if (!is_write(out.bth.opcode)) return ParseError::kNone;
  if (left < Meth::kSize) return ParseError::kTooShort;
  codec::load(out.meth, p);
  p += Meth::kSize;
  left -= Meth::kSize;
  out.tseth = Tseth{};
  out.imm = ImmDt{};
  if (out.bth.timestamp) {
    if (left < Tseth::kSize) return ParseError::kNone;
    codec::load(out.tseth, p);
    p += Tseth::kSize;
    left -= Tseth::kSize;
  }
  if (left < Reth::kSize) return ParseError::kNone;
  codec::load(out.reth, p);
  out.reth_present = true;
  p += Reth::kSize;
  left -= Reth::kSize;
  if (has_imm(out.bth.opcode) && left >= ImmDt::kSize) codec::load(out.imm, p);
  return ParseError::kNone;
}

/// Extension headers and payload between `p` and `p + left` (iCRC already taken off).
ParseError parse_rest(const std::byte* p, std::size_t left, Packet& out) {
  const Opcode op = out.bth.opcode;
  if (!is_write(op) && out.bth.timestamp) return ParseError::kBadField;
  // The size of a SACK depends on cc_type inside it; look at the fixed part first.
  bool cc_state = false;
  if (op == Opcode::kSack) {
    if (left < Seth::kSize) return ParseError::kBadLength;
    codec::load(out.seth, p);
    cc_state = out.seth.cc_type != 0;
  }
  const auto size = static_cast<std::size_t>(extension_size(op, out.bth.timestamp, cc_state));
  if (left < size) return ParseError::kBadLength;
  const std::size_t body = left - size;
  if (!may_carry_payload(op) && body != 0) return ParseError::kBadLength;
  if (body % 4 != 0) return ParseError::kBadLength;
  if (out.bth.pad > body) return ParseError::kBadField;
  out.payload = {p + size, body - out.bth.pad};

  switch (op) {
    case Opcode::kSack:
      if (out.seth.mark > EvMark::kAlwaysSkip) return ParseError::kBadField;
      out.cc_present = cc_state;
      if (cc_state) codec::load(out.cc, p + Seth::kSize);
      return ParseError::kNone;
    case Opcode::kNack:
      codec::load(out.neth, p);
      return known(out.neth.reason) ? ParseError::kNone : ParseError::kBadField;
    case Opcode::kProbeRequest:
      codec::load(out.peth, p);
      return ParseError::kNone;
    case Opcode::kEndpointRequest:
      codec::load(out.erth, p);
      return known(out.erth.op) && out.erth.body_length <= out.payload.size() ? ParseError::kNone
                                                                              : ParseError::kBadField;
    case Opcode::kEndpointResponse:
      codec::load(out.eeth, p);
      return known(out.eeth.op) && out.eeth.body_length <= out.payload.size() ? ParseError::kNone
                                                                              : ParseError::kBadField;
    case Opcode::kAcknowledge:
      codec::load(out.aeth, p);
      return ParseError::kNone;
    default:
      break;
  }
  codec::load(out.meth, p);
  p += Meth::kSize;
  if (out.bth.timestamp) {
    codec::load(out.tseth, p);
    p += Tseth::kSize;
  }
  codec::load(out.reth, p);
  out.reth_present = true;
  if (has_imm(op)) codec::load(out.imm, p + Reth::kSize);
  return out.payload.size() <= out.reth.length ? ParseError::kNone : ParseError::kBadField;
}

}  // namespace

ParseError parse(std::span<const std::byte> l3, const Params& params, Packet& out) {
  const std::byte* const base = l3.data();
  const std::size_t size = l3.size();
  out.payload = {};
  out.reth_present = out.cc_present = false;

  if (size == 0) return ParseError::kTooShort;
  if (!is_ipv6(base)) return ParseError::kNotIpv6;
  if (size < kIp) return ParseError::kTooShort;
  std::size_t at = 0;  // of the inner header
  out.has_outer = load8(base + 6) == Ipv6Header::kNextIpv6;
  if (out.has_outer) {
    codec::load(out.outer, base);
    at = kIp;
    if (size == at) return ParseError::kTooShort;
    if (!is_ipv6(base + at)) return ParseError::kNotIpv6;
    if (size < at + kIp) return ParseError::kTooShort;
  }
  codec::load(out.inner, base + at);
  if (out.inner.next_header != Ipv6Header::kNextUdp) return ParseError::kNotMrc;
  const std::size_t udp_at = at + kIp;
  if (size < udp_at + UdpHeader::kSize) return ParseError::kTooShort;
  codec::load(out.udp, base + udp_at);
  if (out.udp.destination_port != params.udp_port) return ParseError::kNotMrc;
  out.ev = get_ev(out.udp.source_port, out.inner.flow_label, params.ev_split);

  // A switch rewrites the DSCP of the header it routes by: the outer one on the way, the inner one in ECMP mode.
  const auto carries = [&out](std::uint8_t dscp) {
    return out.inner.dscp() == dscp || (out.has_outer && out.outer.dscp() == dscp);
  };
  out.trimmed_lasthop = carries(params.dscp.trimmed_lasthop);
  out.trimmed = out.trimmed_lasthop || carries(params.dscp.trimmed);

  // Where this packet's bytes end. Frames may be longer than the IP packet, never shorter - unless trimmed.
  const std::size_t bth_at = udp_at + UdpHeader::kSize;
  std::size_t end = kIp + (out.has_outer ? out.outer.payload_length : out.inner.payload_length);
  if (out.trimmed) {
    end = std::min(end, size);
  } else {
    if (end > size || end != udp_at + out.inner.payload_length) return ParseError::kBadLength;
    if (out.udp.length != out.inner.payload_length) return ParseError::kBadLength;
  }
  if (end < bth_at + Bth::kSize) return out.trimmed ? ParseError::kTooShort : ParseError::kBadLength;
  codec::load(out.bth, base + bth_at);
  if (out.bth.version != 0) return ParseError::kBadVersion;
  if (extension_size(out.bth.opcode, false, false) < 0) return ParseError::kBadOpcode;

  const std::size_t rest = bth_at + Bth::kSize;
  if (out.trimmed) return parse_trimmed_rest(base + rest, end - rest, out);
  if (params.icrc) {
    if (end - rest < kIcrcSize) return ParseError::kBadLength;
    end -= kIcrcSize;
  }
  return parse_rest(base + rest, end - rest, out);
}

std::string_view to_string(ParseError error) {
  switch (error) {
    case ParseError::kNone:
      return "ok";
    case ParseError::kTooShort:
      return "too_short";
    case ParseError::kNotIpv6:
      return "not_ipv6";
    case ParseError::kNotMrc:
      return "not_mrc";
    case ParseError::kBadLength:
      return "bad_length";
    case ParseError::kBadVersion:
      return "bad_version";
    case ParseError::kBadOpcode:
      return "bad_opcode";
    case ParseError::kBadField:
      return "bad_field";
    case ParseError::kBadIcrc:
      return "bad_icrc";
    case ParseError::kCount:
      break;
  }
  return "unknown";
}

}  // namespace mrc::wire
