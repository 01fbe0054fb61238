// SPDX-License-Identifier: BSD-2-Clause
// Planted bugs by name, and the campaign that has to find them.
#include "plants.hpp"

#include <fmt/format.h>

#include <array>
#include <cstdlib>
#include <vector>

#include "mrc/planted.hpp"

namespace mrc::faults {
namespace {

struct Plant {
  Bug bug;
  const char* name;
  const char* what;
};

constexpr std::array kPlants = {
    Plant{Bug::kWindowOffByOne, "window", "one packet more than the window allows"},
    Plant{Bug::kSackBaseOffByOne, "sack-base", "a SACK's bitmap is said to begin one packet later than it does"},
    Plant{Bug::kCompletionTwice, "completion-twice", "the completion of a long message comes twice"},
    Plant{Bug::kSilentAfterRevival, "revival", "nothing is retransmitted when a plane comes back after all were down"},
    Plant{Bug::kLostBytesInFlight, "lost-bytes", "a lost packet's bytes are not taken off the flight"},
    Plant{Bug::kTrimmedForgotten, "trimmed", "a trimmed packet is not queued for retransmission"},
    Plant{Bug::kDeadEvInUse, "dead-ev", "dead EVs stay in the walk"},
    Plant{Bug::kPsnWrap, "psn-wrap", "sequence numbers jump where the PSN wraps"},
    Plant{Bug::kSegmentLeaked, "segment-leak", "a window's last segment is not given back"},
    Plant{Bug::kSegmentGivenEarly, "segment-early", "a window's segment is given back one packet too early"},
    Plant{Bug::kDuplicatePlaced, "placed-twice", "a duplicate above the cumulative number is placed again"},
    Plant{Bug::kTimerNotRearmed, "timer", "the timer is not set again after a tail probe"},
    Plant{Bug::kStaleInitAccepted, "stale-init", "a late INIT of a former life or instance starts the connection over"},
};
static_assert(kPlants.size() + 1 == static_cast<std::size_t>(Bug::kCount));

std::vector<Plant> chosen(const std::string& which) {
  std::vector<Plant> plants;
  for (const Plant& p : kPlants) {
    if (which == "all" || which == p.name || which == std::to_string(static_cast<int>(p.bug))) plants.push_back(p);
  }
  return plants;
}

bool activate([[maybe_unused]] Bug bug) {
#ifdef MRC_PLANTED
  planted_bug = bug;
  return true;
#else
  fmt::print(stderr, "faults: no bug can be planted in this build: run faults_planted instead\n");
  return false;
#endif
}

}  // namespace

bool plant(const std::string& which) {
  const auto plants = chosen(which);
  if (plants.size() == 1) return activate(plants.front().bug);
  fmt::print(stderr, "faults: --plant {}: name one bug; --plant list shows them\n", which);
  return false;
}

int run_planted(const std::string& which, const Campaign& campaign) {
  if (which == "list") {
    for (const Plant& p : kPlants) fmt::print("{:>3}  {:<18}{}\n", static_cast<int>(p.bug), p.name, p.what);
    return 0;
  }
  const auto plants = chosen(which);
  if (plants.empty()) {
    fmt::print(stderr, "faults: --plant {}: there is no such bug; --plant list shows them\n", which);
    return 2;
  }
  std::size_t found = 0;
  double seconds = 0;
  for (const Plant& p : plants) {
    if (!activate(p.bug)) return 2;
    const CampaignResult r = run_campaign(campaign);
    seconds += r.seconds;
    found += r.failed;
    const std::string how = r.failed ? fmt::format("{:>5} seeds  {}", r.seed - campaign.first + 1, r.violation)
                                     : fmt::format("NOT FOUND in {} seeds", r.seeds);
    fmt::print("{:<18}{}\n", p.name, how);
    std::fflush(stdout);
  }
  fmt::print("faults: {} of {} planted bugs found within {} seeds, {:.1f} s: {}\n", found, plants.size(),
             campaign.count, seconds, found == plants.size() ? "PASS" : "FAIL");
  return found == plants.size() ? 0 : 1;
}

}  // namespace mrc::faults
