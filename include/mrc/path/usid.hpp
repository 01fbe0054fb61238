// SPDX-License-Identifier: BSD-2-Clause
// SRv6 uSID carriers (RFC 9800 NEXT-CSID): a 32-bit locator block and up to six 16-bit uSIDs in one IPv6 address.
// A uSID here is plane | kind | index; widths configurable, 4 | 2 | 10 by default.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "mrc/wire/ip.hpp"

namespace mrc::path {

enum class UsidKind : std::uint8_t { kT0 = 1, kT1 = 2, kNic = 3 };  // never 0: uSID 0 ends a carrier

struct UsidLayout {
  std::uint8_t plane_bits = 4;
  std::uint8_t kind_bits = 2;  // fixed; index takes the rest of the 16

  constexpr unsigned index_bits() const { return 16u - plane_bits - kind_bits; }
  constexpr std::uint16_t make(unsigned plane, UsidKind kind, unsigned index) const {
    return static_cast<std::uint16_t>((plane << (16 - plane_bits)) | (static_cast<unsigned>(kind) << index_bits()) |
                                      (index & ((1u << index_bits()) - 1)));
  }
  constexpr unsigned plane(std::uint16_t usid) const { return usid >> (16 - plane_bits); }
  constexpr UsidKind kind(std::uint16_t usid) const {
    return static_cast<UsidKind>((usid >> index_bits()) & ((1u << kind_bits) - 1));
  }
  constexpr unsigned index(std::uint16_t usid) const { return usid & ((1u << index_bits()) - 1); }
};

inline constexpr std::uint32_t kDefaultLocator = 0xfcbbbb00;  ///< fcbb:bb00::/32
inline constexpr std::size_t kMaxUsids = 6;

/// Carrier from block and uSIDs (at most six), the rest 0.
wire::Ipv6Address make_carrier(std::uint32_t locator, std::span<const std::uint16_t> usids);
std::uint32_t locator_of(const wire::Ipv6Address&);
/// The active (first) uSID, 0 at the end of the carrier.
std::uint16_t active_usid(const wire::Ipv6Address&);
/// NEXT-CSID: shifts the carrier by one uSID; the last becomes 0.
wire::Ipv6Address shift(const wire::Ipv6Address&);

}  // namespace mrc::path
