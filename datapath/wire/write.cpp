// SPDX-License-Identifier: BSD-2-Clause
// The writer: headers of a packet, in order, with every length computed here and nowhere else.
#include "codec.hpp"
#include "layout.hpp"

namespace mrc::wire {
namespace {

int extensions_of(const Packet& packet) {
  return extension_size(packet.bth.opcode, packet.bth.timestamp, (packet.seth.cc_type & 0xf) != 0);
}

/// Stores `header` at `p` and returns where the next one goes.
template <class Header>
std::byte* put(const Header& header, std::byte* p) {
  codec::store(header, p);
  return p + Header::kSize;
}

std::byte* put_extensions(const Packet& packet, std::byte* p) {
  switch (packet.bth.opcode) {
    case Opcode::kSack:
      p = put(packet.seth, p);
      return (packet.seth.cc_type & 0xf) != 0 ? put(packet.cc, p) : p;
    case Opcode::kNack:
      return put(packet.neth, p);
    case Opcode::kProbeRequest:
      return put(packet.peth, p);
    case Opcode::kEndpointRequest:
      return put(packet.erth, p);
    case Opcode::kEndpointResponse:
      return put(packet.eeth, p);
    case Opcode::kAcknowledge:
      return put(packet.aeth, p);
    default:
      break;
  }
  p = put(packet.meth, p);
  if (packet.bth.timestamp) p = put(packet.tseth, p);
  p = put(packet.reth, p);
  return has_imm(packet.bth.opcode) ? put(packet.imm, p) : p;
}

}  // namespace

std::size_t header_size(const Packet& packet) {
  const int extensions = extensions_of(packet);
  if (extensions < 0) return 0;
  return (packet.has_outer ? kIp : 0) + kBaseHeaders + static_cast<std::size_t>(extensions);
}

std::size_t packet_size(const Packet& packet, std::size_t payload_length, const Params& params) {
  return header_size(packet) + payload_length + pad_of(payload_length) + (params.icrc ? kIcrcSize : 0);
}

std::size_t write_headers(const Packet& packet, std::size_t payload_length, const Params& params,
                          std::span<std::byte> out) {
  const std::size_t headers = header_size(packet);
  if (headers == 0 || out.size() < headers) return 0;
  if (payload_length != 0 && !may_carry_payload(packet.bth.opcode)) return 0;
  if (payload_length > 0xffff) return 0;
  const std::size_t after_first_ip = packet_size(packet, payload_length, params) - kIp;
  if (after_first_ip > 0xffff) return 0;

  const bool high_in_port = params.ev_split == EvSplit::kHighInPort;
  const auto high = static_cast<std::uint16_t>(packet.ev >> 16);
  const auto low = static_cast<std::uint16_t>(packet.ev);

  Ipv6Header inner = packet.inner;
  inner.flow_label = high_in_port ? low : high;
  inner.next_header = Ipv6Header::kNextUdp;
  inner.payload_length = static_cast<std::uint16_t>(after_first_ip - (packet.has_outer ? kIp : 0));

  std::byte* p = out.data();
  if (packet.has_outer) {
    Ipv6Header outer = packet.outer;
    outer.traffic_class = inner.traffic_class;
    outer.flow_label = inner.flow_label;
    outer.next_header = Ipv6Header::kNextIpv6;
    outer.payload_length = static_cast<std::uint16_t>(after_first_ip);
    p = put(outer, p);
  }
  p = put(inner, p);
  p = put(UdpHeader{.source_port = high_in_port ? high : low,
                    .destination_port = params.udp_port,
                    .length = inner.payload_length,
                    .checksum = 0},
          p);
  Bth bth = packet.bth;
  bth.pad = static_cast<std::uint8_t>(pad_of(payload_length));
  bth.version = 0;
  bth.timestamp = bth.timestamp && is_write(bth.opcode);
  p = put(bth, p);
  put_extensions(packet, p);
  return headers;
}

void set_ev(Packet& packet, std::uint32_t ev, EvSplit split) {
  const auto high = static_cast<std::uint16_t>(ev >> 16);
  const auto low = static_cast<std::uint16_t>(ev);
  packet.ev = ev;
  packet.udp.source_port = split == EvSplit::kHighInPort ? high : low;
  packet.inner.flow_label = split == EvSplit::kHighInPort ? low : high;
  packet.outer.flow_label = packet.inner.flow_label;
}

std::uint32_t get_ev(std::uint16_t udp_source_port, std::uint32_t flow_label, EvSplit split) {
  const std::uint32_t label = flow_label & 0xffff;
  return split == EvSplit::kHighInPort ? std::uint32_t{udp_source_port} << 16 | label : label << 16 | udp_source_port;
}

}  // namespace mrc::wire
