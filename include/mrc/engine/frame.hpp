// SPDX-License-Identifier: BSD-2-Clause
// Ethernet frames around MRC packets: building them from what the core emits (headers, gathered payload, pad, iCRC)
// and checking what arrives before the core sees it. Pure functions; the packet path.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "mrc/port/port.hpp"
#include "mrc/transport/core.hpp"
#include "mrc/wire/icrc.hpp"

namespace mrc::engine {

inline constexpr std::size_t kEthernet = 14;
inline constexpr std::size_t kMinFrame = 60;  ///< shorter frames are padded to this (IEEE 802.3, without FCS)

/// First 12 bytes of our inner addresses: fabric | T0 | IPv4. What does not start so is somebody else's.
using NodePrefix = std::array<std::uint8_t, 12>;

enum class FrameKind : std::uint8_t {
  kPacket,   ///< for the core
  kIcmp6,    ///< perhaps neighbour discovery
  kRunt,     ///< shorter than Ethernet + IPv6
  kTooLong,  ///< longer than the port's MTU allows
  kNotIpv6,  ///< another ethertype or IP version
  kNotOurs,  ///< IPv6 for another node, or no UDP inside
  kCutOff,   ///< shorter than its IPv6 header says, and not trimmed
  kBadIcrc,
};

struct CheckedFrame {
  FrameKind kind = FrameKind::kRunt;
  std::uint16_t inner = 0;          ///< offset of the inner IPv6 header in l3
  std::span<const std::byte> l3{};  ///< kPacket: without Ethernet header and padding
};

struct FrameRules {
  NodePrefix node{};
  std::uint32_t max_frame = 1514;
  wire::Crc32 crc = nullptr;  ///< nullptr: iCRC is off
  wire::Dscp dscp{};
};

/// `frame` is changed and restored while the iCRC is computed.
CheckedFrame check_frame(std::span<std::byte> frame, const FrameRules& rules);

struct Addresses {
  port::MacAddress to{}, from{};
};

/// L3 length of `packet` as its first IPv6 header says (all of headers, payload, pad and iCRC).
std::size_t l3_length(const transport::TxPacket& packet);

/// Writes the L3 part: headers, payload from its Gather, pad, iCRC (computed with `crc`, or left zero if nullptr).
/// `out` has kIcrcPrefix writable bytes in front of it. Returns the length, or 0 if it does not fit or the header
/// contradicts itself.
std::size_t write_l3(const transport::TxPacket& packet, wire::Crc32 crc, std::span<std::byte> out);

/// The same with the Ethernet header in front.
std::size_t write_frame(const transport::TxPacket& packet, const Addresses& macs, wire::Crc32 crc,
                        std::span<std::byte> out);

/// The EV of the packet whose inner header is at `inner`.
std::uint32_t frame_ev(std::span<const std::byte> l3, std::size_t inner, wire::EvSplit split);

}  // namespace mrc::engine
