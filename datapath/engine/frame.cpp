// SPDX-License-Identifier: BSD-2-Clause
// Building and checking Ethernet frames around MRC packets.
#include "mrc/engine/frame.hpp"

#include <cstring>

#include "mrc/engine/gather.hpp"

namespace mrc::engine {
namespace {

constexpr std::size_t kIp = wire::Ipv6Header::kSize;
constexpr std::size_t kBase = kIp + wire::UdpHeader::kSize + wire::Bth::kSize;
constexpr std::size_t kNextHeader = 6, kDestination = 24;

constexpr std::uint8_t u8(std::byte b) {
  return static_cast<std::uint8_t>(b);
}
std::size_t be16(const std::byte* at) {
  return static_cast<std::size_t>(u8(at[0])) << 8 | u8(at[1]);
}

bool trimmed(const std::byte* ip, const wire::Dscp& dscp) {
  const auto value = static_cast<std::uint8_t>(((u8(ip[0]) & 0xf) << 4 | u8(ip[1]) >> 4) >> 2);
  return value == dscp.trimmed || value == dscp.trimmed_lasthop;
}

// `l3` ends with the iCRC; the bytes before `inner` (Ethernet or outer header) lend their place to the leading ones.
std::array<std::byte, 4> icrc_of(std::byte* l3, std::size_t inner, std::size_t length, wire::Crc32 crc) {
  std::byte* from = l3 + inner - wire::kIcrcPrefix;
  return wire::icrc({from, wire::kIcrcPrefix + length - inner - wire::kIcrcSize}, crc);
}

}  // namespace

CheckedFrame check_frame(std::span<std::byte> frame, const FrameRules& rules) {
  CheckedFrame out;
  if (frame.size() < kEthernet + kIp) return out;
  std::byte* l3 = frame.data() + kEthernet;
  if (be16(frame.data() + 12) != 0x86dd || u8(l3[0]) >> 4 != 6) {
    out.kind = FrameKind::kNotIpv6;
    return out;
  }
  if (frame.size() > rules.max_frame) {
    out.kind = FrameKind::kTooLong;
    return out;
  }
  std::uint8_t next = u8(l3[kNextHeader]);
  if (next == wire::Ipv6Header::kNextIcmp6) {
    out.kind = FrameKind::kIcmp6;
    return out;
  }
  std::size_t length = frame.size() - kEthernet;
  const std::size_t said = kIp + be16(l3 + 4);
  const bool is_trimmed = trimmed(l3, rules.dscp);
  if (said <= length) {
    length = said;  // what follows is Ethernet padding
  } else if (!is_trimmed) {
    // af_packet cuts frames that do not fit its ring, without a word.
    out.kind = FrameKind::kCutOff;
    return out;
  }
  out.kind = FrameKind::kNotOurs;
  if (next == wire::Ipv6Header::kNextIpv6) {
    if (length < kIp + kIp) return out;
    out.inner = kIp;
    next = u8(l3[kIp + kNextHeader]);
  }
  if (next != wire::Ipv6Header::kNextUdp) return out;
  if (std::memcmp(l3 + out.inner + kDestination, rules.node.data(), rules.node.size()) != 0) return out;
  // Too short for headers: the core's parser counts that. A trimmed packet has no iCRC.
  if (rules.crc != nullptr && !is_trimmed && !trimmed(l3 + out.inner, rules.dscp) &&
      length >= out.inner + kBase + wire::kIcrcSize) {
    const auto expected = icrc_of(l3, out.inner, length, rules.crc);
    if (std::memcmp(expected.data(), l3 + length - wire::kIcrcSize, wire::kIcrcSize) != 0) {
      out.kind = FrameKind::kBadIcrc;
      return out;
    }
  }
  out.kind = FrameKind::kPacket;
  out.l3 = {l3, length};
  return out;
}

std::size_t l3_length(const transport::TxPacket& packet) {
  return kIp + be16(packet.header.data() + 4);
}

std::size_t write_l3(const transport::TxPacket& packet, wire::Crc32 crc, std::span<std::byte> out) {
  const std::size_t total = l3_length(packet);
  const std::size_t tail = packet.icrc ? wire::kIcrcSize : 0;
  const std::size_t head = packet.header_length;
  if (total > out.size() || head + packet.length + packet.padding + tail > total) return 0;
  std::memcpy(out.data(), packet.header.data(), head);
  std::size_t at = head;
  if (packet.length > 0 && packet.source != nullptr) {
    at += copy_gather(out.data() + at, *static_cast<const Gather*>(packet.source), packet.offset, packet.length);
  }
  // Probe padding, BTH pad, and room for the iCRC: whatever the IPv6 length leaves.
  std::memset(out.data() + at, 0, total - at);
  if (packet.icrc && crc != nullptr) {
    const auto value = icrc_of(out.data(), packet.outer ? kIp : 0, total, crc);
    std::memcpy(out.data() + total - tail, value.data(), value.size());
  }
  return total;
}

std::size_t write_frame(const transport::TxPacket& packet, const Addresses& macs, wire::Crc32 crc,
                        std::span<std::byte> out) {
  if (out.size() < kMinFrame) return 0;
  const std::size_t length = write_l3(packet, crc, out.subspan(kEthernet));
  if (length == 0) return 0;
  std::memcpy(out.data(), macs.to.data(), 6);
  std::memcpy(out.data() + 6, macs.from.data(), 6);
  out[12] = std::byte{0x86};
  out[13] = std::byte{0xdd};
  return kEthernet + length;
}

std::uint32_t frame_ev(std::span<const std::byte> l3, std::size_t inner, wire::EvSplit split) {
  const std::byte* ip = l3.data() + inner;
  const std::uint32_t label = (u8(ip[1]) & 0xfu) << 16 | static_cast<std::uint32_t>(be16(ip + 2));
  return wire::get_ev(static_cast<std::uint16_t>(be16(ip + kIp)), label, split);
}

}  // namespace mrc::engine
