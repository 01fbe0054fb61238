// SPDX-License-Identifier: BSD-2-Clause
// Invariant CRC (RoCEv2 Annex A17): CRC-32 over eight 0xff bytes, then the packet from the inner IPv6 header to
// the end of the payload and pad, with the fields that may change in flight read as ones: traffic class, flow label,
// hop limit, UDP checksum, BTH reserved byte. Stored little-endian.
// The CRC itself is a library's: callers pass in any function that computes Ethernet CRC-32 of one contiguous span
// (init and final xor included), e.g. rte_net_crc_calc or boost::crc_32_type.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace mrc::wire {

/// Bytes in front of the inner header that masking borrows for the leading ones.
inline constexpr std::size_t kIcrcPrefix = 8;

/// Puts the ones in place for the CRC and, on destruction, the original bytes back. No copy of the packet is made.
/// `from_prefix`: kIcrcPrefix bytes (whatever precedes the inner IPv6 header), then the inner IPv6 header … pad.
/// Shorter than prefix + IPv6 + UDP + BTH: nothing is touched and bytes() is empty.
class IcrcMask {
 public:
  explicit IcrcMask(std::span<std::byte> from_prefix);
  ~IcrcMask();
  IcrcMask(const IcrcMask&) = delete;
  IcrcMask& operator=(const IcrcMask&) = delete;

  /// What to run the CRC over.
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::span<std::byte> bytes_;
  std::array<std::byte, kIcrcPrefix + 4 + 1 + 2 + 1> saved_;
};

using Crc32 = std::uint32_t (*)(std::span<const std::byte>);

/// The four iCRC bytes in wire order.
std::array<std::byte, 4> icrc(std::span<std::byte> from_prefix, Crc32 crc);

}  // namespace mrc::wire
