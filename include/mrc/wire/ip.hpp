// SPDX-License-Identifier: BSD-2-Clause
// IPv6 and UDP as MRC uses them (RFC 8200, RFC 768). Fields in host order; encode/decode do the wire's.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>

namespace mrc::wire {

struct Ipv6Address {
  std::array<std::uint8_t, 16> bytes{};
  constexpr auto operator<=>(const Ipv6Address&) const = default;
};

struct Ipv6Header {
  static constexpr std::size_t kSize = 40;
  static constexpr std::uint8_t kNextIpv6 = 41;
  static constexpr std::uint8_t kNextUdp = 17;
  static constexpr std::uint8_t kNextIcmp6 = 58;

  std::uint8_t traffic_class = 0;  ///< DSCP << 2 | ECN
  std::uint32_t flow_label = 0;    ///< 20 bits
  std::uint16_t payload_length = 0;
  std::uint8_t next_header = kNextUdp;
  std::uint8_t hop_limit = 64;
  Ipv6Address source{};
  Ipv6Address destination{};

  std::uint8_t dscp() const { return traffic_class >> 2; }
  std::uint8_t ecn() const { return traffic_class & 3; }  ///< 0 not-ECT, 2 ECT(0), 3 CE

  void encode(std::span<std::byte, kSize> out) const;
  static Ipv6Header decode(std::span<const std::byte, kSize> in);  ///< the version nibble is the caller's to check
  bool operator==(const Ipv6Header&) const = default;
};

inline constexpr std::uint8_t kEcnCe = 3;
inline constexpr std::uint8_t kEcnEct0 = 2;

struct UdpHeader {
  static constexpr std::size_t kSize = 8;
  std::uint16_t source_port = 0;
  std::uint16_t destination_port = 0;
  std::uint16_t length = 0;
  std::uint16_t checksum = 0;  ///< 0, as in RoCEv2

  void encode(std::span<std::byte, kSize> out) const;
  static UdpHeader decode(std::span<const std::byte, kSize> in);
  bool operator==(const UdpHeader&) const = default;
};

}  // namespace mrc::wire
