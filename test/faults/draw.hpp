// SPDX-License-Identifier: BSD-2-Clause
// Draws that plans are made of.
#pragma once

#include <cmath>
#include <cstdint>

#include "mrc/random.hpp"
#include "plan.hpp"

namespace mrc::faults {

/// Between `low` and `high`, each order of magnitude as likely as the next.
inline std::int64_t draw_log(Random& random, std::int64_t low, std::int64_t high) {
  const double unit = static_cast<double>(random.next() >> 11) * 0x1.0p-53;
  const double value = static_cast<double>(low) * std::pow(static_cast<double>(high) / static_cast<double>(low), unit);
  return std::min(high, std::max(low, static_cast<std::int64_t>(std::llround(value))));
}

/// Appends a schedule of faults that fits the plan's topology.
void draw_faults(Random& random, Plan& plan);

}  // namespace mrc::faults
