// SPDX-License-Identifier: BSD-2-Clause
// The inner address of an endpoint: fabric/48 | T0 16 | IPv4 32 | port 16 | 0 (16) (design.md "Names").
#pragma once

#include <cstdint>

#include "mrc/wire/ip.hpp"

namespace mrc::path {

inline constexpr std::uint64_t kDefaultFabric = 0xfd6d7263'0000;  ///< fd6d:7263::/48 ("mrc"), 48 bits

struct EndpointAddress {
  std::uint64_t fabric = kDefaultFabric;  ///< 48 bits
  std::uint16_t t0 = 0;
  std::uint32_t ipv4 = 0;  ///< host order
  std::uint16_t port = 0;

  wire::Ipv6Address inner() const;
  static EndpointAddress from_inner(const wire::Ipv6Address&);
  bool operator==(const EndpointAddress&) const = default;
};

}  // namespace mrc::path
