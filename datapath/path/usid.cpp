// SPDX-License-Identifier: BSD-2-Clause
// uSID carriers: building and shifting them (RFC 9800 section 4.1, NEXT-CSID with LBL = 32, LNL + FL = 16).
#include "mrc/path/usid.hpp"

#include <algorithm>
#include <cstring>

namespace mrc::path {
namespace {
constexpr std::size_t kBlockBytes = 4;
constexpr std::size_t kUsidBytes = 2;
}  // namespace

wire::Ipv6Address make_carrier(std::uint32_t locator, std::span<const std::uint16_t> usids) {
  wire::Ipv6Address carrier;
  for (std::size_t i = 0; i < kBlockBytes; ++i) carrier.bytes[i] = static_cast<std::uint8_t>(locator >> (24 - 8 * i));
  const std::size_t count = std::min(usids.size(), kMaxUsids);
  for (std::size_t i = 0; i < count; ++i) {
    carrier.bytes[kBlockBytes + kUsidBytes * i] = static_cast<std::uint8_t>(usids[i] >> 8);
    carrier.bytes[kBlockBytes + kUsidBytes * i + 1] = static_cast<std::uint8_t>(usids[i]);
  }
  return carrier;
}

std::uint32_t locator_of(const wire::Ipv6Address& carrier) {
  std::uint32_t locator = 0;
  for (std::size_t i = 0; i < kBlockBytes; ++i) locator = locator << 8 | carrier.bytes[i];
  return locator;
}

std::uint16_t active_usid(const wire::Ipv6Address& carrier) {
  return static_cast<std::uint16_t>(carrier.bytes[kBlockBytes] << 8 | carrier.bytes[kBlockBytes + 1]);
}

wire::Ipv6Address shift(const wire::Ipv6Address& carrier) {
  wire::Ipv6Address shifted;  // its last uSID stays 0: the end-of-carrier mark
  std::memcpy(shifted.bytes.data(), carrier.bytes.data(), kBlockBytes);
  std::memcpy(shifted.bytes.data() + kBlockBytes, carrier.bytes.data() + kBlockBytes + kUsidBytes,
              carrier.bytes.size() - kBlockBytes - kUsidBytes);
  return shifted;
}

}  // namespace mrc::path
