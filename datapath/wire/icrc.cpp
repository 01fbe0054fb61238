// SPDX-License-Identifier: BSD-2-Clause
// iCRC masking in place: the changeable fields become ones for the time of the CRC, then themselves again.
#include "mrc/wire/icrc.hpp"

#include <cstring>

#include "layout.hpp"

namespace mrc::wire {
namespace {

// {offset, length} from the prefix's first byte, for each run that reads as ones.
struct Run {
  std::size_t at;
  std::size_t length;
};
constexpr std::size_t kInner = kIcrcPrefix;
constexpr Run kPrefixRun{0, kIcrcPrefix};
constexpr Run kVersionClassLabel{kInner, 4};  // the version nibble stays 6
constexpr Run kHopLimit{kInner + 7, 1};
constexpr Run kUdpChecksum{kInner + kIp + 6, 2};
constexpr Run kBthReserved{kInner + kIp + UdpHeader::kSize + 4, 1};
constexpr Run kRuns[] = {kPrefixRun, kVersionClassLabel, kHopLimit, kUdpChecksum, kBthReserved};

}  // namespace

IcrcMask::IcrcMask(std::span<std::byte> from_prefix) {
  if (from_prefix.size() < kIcrcPrefix + kBaseHeaders) return;
  bytes_ = from_prefix;
  std::byte* saved = saved_.data();
  for (const Run& run : kRuns) {
    std::memcpy(saved, bytes_.data() + run.at, run.length);
    std::memset(bytes_.data() + run.at, 0xff, run.length);
    saved += run.length;
  }
  bytes_[kInner] = std::byte{0x6f};
}

IcrcMask::~IcrcMask() {
  if (bytes_.empty()) return;
  const std::byte* saved = saved_.data();
  for (const Run& run : kRuns) {
    std::memcpy(bytes_.data() + run.at, saved, run.length);
    saved += run.length;
  }
}

std::array<std::byte, kIcrcSize> icrc(std::span<std::byte> from_prefix, Crc32 crc) {
  const IcrcMask mask(from_prefix);
  const std::uint32_t value = crc(mask.bytes());
  return {static_cast<std::byte>(value), static_cast<std::byte>(value >> 8), static_cast<std::byte>(value >> 16),
          static_cast<std::byte>(value >> 24)};
}

}  // namespace mrc::wire
