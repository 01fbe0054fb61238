// SPDX-License-Identifier: BSD-2-Clause
// Round-trip estimate of one connection and the time-out that follows from it (RFC 6298, with our own floors).
// Samples come from local send times less the receiver's residence time; the caller throws away samples that span a
// stall of its own progress.
#pragma once

#include <algorithm>
#include <cstdint>

#include "mrc/time.hpp"

namespace mrc::transport {

class Rtt {
 public:
  void sample(Duration rtt) {
    if (rtt.ns < 0) return;
    if (!valid_) {
      valid_ = true;
      srtt_ = rtt;
      var_ = rtt / 2;
      min_ = rtt;
      return;
    }
    const std::int64_t error = rtt.ns - srtt_.ns;
    var_.ns += ((error < 0 ? -error : error) - var_.ns) / 4;
    srtt_.ns += error / 8;
    min_ = std::min(min_, rtt);
  }

  bool valid() const { return valid_; }
  /// A guess of 1 ms until the first sample.
  Duration srtt() const { return valid_ ? srtt_ : milliseconds(1); }
  Duration variation() const { return valid_ ? var_ : microseconds(500); }
  Duration min() const { return valid_ ? min_ : Duration{0}; }
  Duration rto(Duration floor, Duration ceiling) const {
    return std::clamp(Duration{srtt().ns + 4 * variation().ns}, floor, ceiling);
  }

 private:
  Duration srtt_{}, var_{}, min_{};
  bool valid_ = false;
};

/// The wire's 16-bit timestamp: units of 128 ns, wraps at 8.4 ms.
constexpr std::uint16_t wire_timestamp(Tick t) {
  return static_cast<std::uint16_t>(t.ns >> 7);
}
/// Longest time that a wire timestamp difference can tell; longer residence is reported as "no timestamp".
inline constexpr Duration kTimestampRange = microseconds(8000);

}  // namespace mrc::transport
