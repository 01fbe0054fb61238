// SPDX-License-Identifier: BSD-2-Clause
// The fabric's state as rows of plain data, for tables, JSON and assertions. Allocates: not for the packet path.
#pragma once

#include <string>
#include <vector>

#include "mrc/fabric/clos.hpp"

namespace mrc::fabric {

struct LinkStatus {
  LinkId id;
  std::string from{}, to{};  ///< names of the command language: "nic3", "t0-1"
  bool up = true;            ///< now: not down, not in the down part of its flapping
  bool flapping = false;
  bool degraded = false;      ///< its rate is not the configured one, or it has an impairment of its own
  std::uint64_t bps = 0;      ///< 0: no rate
  Duration delay{};           ///< all of it, without queueing
  std::uint64_t backlog = 0;  ///< bytes that wait now, both classes
  std::uint64_t peak = 0;     ///< the most that ever did
  LinkCounters counters{};
};

struct SwitchStatus {
  SwitchId id;
  std::string name{};
  bool up = true;  ///< itself and its plane
  SwitchCounters counters{};
};

struct Status {
  std::vector<LinkStatus> links;
  std::vector<SwitchStatus> switches;
  Totals totals;
};

Status status(const Clos& clos, Tick now);
std::uint64_t dropped(const LinkCounters& counters);

}  // namespace mrc::fabric
