// SPDX-License-Identifier: BSD-2-Clause
// What every congestion controller knows of its connection, and which controllers there are
// (docs/congestion-control.md).
#pragma once

#include <cstdint>

#include "mrc/time.hpp"

namespace mrc::transport {

enum class CcKind : std::uint8_t {
  kAuto,   ///< NSCC where a link rate is declared, else the fixed window
  kFixed,  ///< a window that gives way to loss and trimming only
  kNscc,   ///< UEC 1.0's sender-based control: ECN and delay, four quadrants
  kSwift,  ///< delay alone, additive increase and multiplicative decrease
};

/// A connection as its controller sees it; told at the start and whenever it changes.
struct CcLink {
  std::uint64_t bps = 0;        ///< bits per second of all planes in use together; 0: not declared
  std::uint64_t plane_bps = 0;  ///< of one plane
  std::uint64_t limit = 0;      ///< bytes that the PSN window (or Config::window_bytes) lets be in flight
  std::uint32_t mtu = 1024;     ///< payload bytes of a full packet
  Duration target_min{};        ///< floor of the target queueing delay
  bool trimming = true;         ///< the fabric trims: a packet that vanished is hardly congestion
};

/// When something happened, and how many bytes are in flight then.
struct CcTime {
  Tick now{};
  std::uint64_t inflight = 0;
};

/// Bytes and nanoseconds as the controllers keep them: 32 bits, saturating.
constexpr std::uint32_t cc_saturate(std::uint64_t value) {
  return value > UINT32_MAX ? UINT32_MAX : static_cast<std::uint32_t>(value);
}
constexpr std::uint32_t cc_add(std::uint32_t a, std::uint64_t b) {
  return cc_saturate(b > UINT32_MAX ? b : a + b);
}

}  // namespace mrc::transport
