// SPDX-License-Identifier: BSD-2-Clause
// Runs in child processes: a crash, an assertion or an endless loop of the code under test is a finding like any
// other, and several seeds are worked on at once.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan.hpp"
#include "system.hpp"

namespace mrc::faults {

/// One plan in a process of its own; a death of that process is the violation. `trace`: its output is shown.
Verdict run_apart(const Plan& plan, bool trace = false);

struct Campaign {
  std::uint64_t first = 1, count = 200;
  unsigned jobs = 2;
  unsigned repeat_every = 50;  ///< each so many seeds, one is run twice: the same trace must come out; 0: never
  bool progress = true;        ///< on stderr
  unsigned patience = 60;      ///< seconds of wall clock for one seed
};

struct CampaignResult {
  std::uint64_t seeds = 0;  ///< run
  double seconds = 0;
  bool failed = false;
  std::uint64_t seed = 0;  ///< the lowest that failed
  std::string violation, details;
  std::uint64_t packets = 0, retransmitted = 0, failed_writes = 0, events = 0, audits = 0;
};

/// Stops at the first failure (lower seeds that are under way are finished).
CampaignResult run_campaign(const Campaign& campaign);

}  // namespace mrc::faults
