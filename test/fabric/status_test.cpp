// SPDX-License-Identifier: BSD-2-Clause
// Status rows: names, states, rates, backlogs.
#include "mrc/fabric/status.hpp"

#include <algorithm>

#include "fabric/support.hpp"
#include "mrc/fabric/command.hpp"
#include "support/catch.hpp"

using namespace mrc;
using namespace mrc::fabric;

TEST_CASE("one row for each link's direction and each switch, and what is wrong with them") {
  ClosConfig config{.planes = 2, .t0s = 2, .t1s = 3, .nics = 2, .link_delay = nanoseconds(100)};
  config.set_rates(8'000'000'000, microseconds(10));
  Clos clos(config);
  const Status before = status(clos, Tick{});
  REQUIRE(before.links.size() == 2 * 2 * 2 * (2 + 3));
  REQUIRE(before.switches.size() == 2 * (2 + 3));
  REQUIRE(std::all_of(before.links.begin(), before.links.end(), [](const LinkStatus& row) {
    return row.up && !row.degraded && !row.flapping && row.bps == 8'000'000'000 && row.backlog == 0 &&
           row.delay == nanoseconds(100);
  }));
  for (const char* command :
       {"link t0-1 t1-2 plane 1 down", "link nic3 t0-1 plane 0 rate 50%", "switch t1-0 plane 0 down",
        "link t0-0 t1-1 plane 0 flap 10ms 50% 5ms oneway", "port nic0 plane 0 loss 1% oneway"}) {
    REQUIRE(apply_command(clos, command));
  }
  std::vector<std::byte> bytes =
      make_packet(route_between(config, {0, 0}, {1, 0}), path::EvLayout::make(1, 0, 0, 0), 922);
  InFlight flight;
  REQUIRE(clos.enter(flight, bytes, {{0, 0}, 1}, Tick{}).progress == Progress::kMoving);
  const Status after = status(clos, Tick{});
  unsigned down = 0, degraded = 0, flapping = 0;
  for (const LinkStatus& row : after.links) {
    down += !row.up;
    degraded += row.degraded;
    flapping += row.flapping;
    if (!row.up) REQUIRE((row.id.plane == 1 && (row.from == "t0-1" || row.to == "t0-1")));
    if (row.from == "nic3" && row.id.plane == 0) REQUIRE(row.bps == 4'000'000'000);
    if (row.from == "nic0" && row.id.plane == 1) {
      REQUIRE(row.to == "t0-0");
      REQUIRE(row.backlog == 1000);
      REQUIRE(row.peak == 1000);
      REQUIRE(row.counters.packets == 1);
    }
  }
  REQUIRE(down == 2);
  REQUIRE(degraded == 3);
  REQUIRE(flapping == 1);
  REQUIRE(std::count_if(after.switches.begin(), after.switches.end(), [](const auto& row) { return !row.up; }) == 1);
  REQUIRE(after.totals.in_flight == 1);
  REQUIRE(apply_command(clos, "plane 1 down"));
  const Status dark = status(clos, Tick{});
  REQUIRE(
      std::none_of(dark.links.begin(), dark.links.end(), [](const auto& row) { return row.up && row.id.plane == 1; }));
}
