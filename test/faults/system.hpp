// SPDX-License-Identifier: BSD-2-Clause
// A whole system run by a plan: production cores over the simulated fabric, with everything that was promised checked
// as it happens.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "mrc/fabric/sim.hpp"
#include "plan.hpp"

namespace mrc::faults {

struct Verdict {
  std::string violation;  ///< in one sentence; empty: none. Two runs with the same one failed alike
  std::string details;
  std::uint64_t hash = 0;  ///< of the trace
  std::uint64_t events = 0;
  Duration elapsed{};  ///< virtual
  std::uint64_t packets = 0, retransmitted = 0, failed_writes = 0, audits = 0;
};

/// `trace`: tell everything that happens on stdout.
Verdict run(const Plan& plan, bool trace = false);

}  // namespace mrc::faults
