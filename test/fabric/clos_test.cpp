// SPDX-License-Identifier: BSD-2-Clause
// Settings, failures and counters of the Clos.
#include "mrc/fabric/clos.hpp"

#include <rapidcheck.h>

#include "fabric/support.hpp"
#include "support/catch.hpp"

using namespace mrc;
using namespace mrc::fabric;
using path::UsidKind;

namespace {

struct Bench {
  Clos clos;
  path::Location from{0, 0}, to{1, 1};
  explicit Bench(ClosConfig config = {.nics = 2}) : clos(config) {}

  Outcome send(unsigned plane, unsigned uplink, std::size_t payload = 500) {
    const auto ev = path::EvLayout::make(plane, uplink, 0, 7);
    auto bytes = make_packet(route_between(clos.config(), from, to), ev, payload);
    return clos.forward(bytes, {from, static_cast<std::uint8_t>(plane)}, Tick{});
  }
};

bool conserved(const Clos& clos) {
  bool ok = true;
  clos.for_each_link([&](const LinkId& id) {
    const auto& c = *clos.link_counters(id);
    std::uint64_t drops = 0;
    for (const auto n : c.drops) drops += n;
    ok = ok && c.packets + c.duplicated == c.forwarded + drops;
  });
  const auto t = clos.totals();
  return ok && t.offered + t.duplicated == t.delivered + t.dropped();
}

}  // namespace

TEST_CASE("a link that is down takes only its own path") {
  Bench b;
  REQUIRE(b.clos.set_link_down({LinkKind::kT0ToT1, 2, 0, 3}, true));
  for (unsigned plane = 0; plane < 4; ++plane) {
    for (unsigned uplink = 0; uplink < 4; ++uplink) {
      const auto outcome = b.send(plane, uplink);
      if (plane == 2 && uplink == 3) {
        REQUIRE(outcome.count == 0);
        REQUIRE(outcome.drop == DropCause::kLinkDown);
      } else {
        REQUIRE(outcome.count == 1);
      }
    }
  }
  REQUIRE(b.clos.link_counters({LinkKind::kT0ToT1, 2, 0, 3})->drops[std::size_t(DropCause::kLinkDown)] == 1);
  REQUIRE(b.clos.carrier({b.from, 2}));  // the NIC cannot see it
  REQUIRE(b.clos.set_link_down({LinkKind::kT0ToT1, 2, 0, 3}, false));
  REQUIRE(b.send(2, 3).count == 1);
  REQUIRE(conserved(b.clos));
}

TEST_CASE("switch down, plane down, cable down, and what the NIC sees of it") {
  Bench b;
  REQUIRE(b.clos.set_switch_down({UsidKind::kT1, 0, 1}, true));
  REQUIRE(b.send(0, 1).drop == DropCause::kSwitchDown);
  REQUIRE(b.send(0, 0).count == 1);
  REQUIRE(b.clos.switch_counters({UsidKind::kT1, 0, 1})->drops[std::size_t(DropCause::kSwitchDown)] == 1);
  REQUIRE(b.clos.set_switch_down({UsidKind::kT0, 1, 1}, true));
  REQUIRE(b.send(1, 1).drop == DropCause::kSwitchDown);
  REQUIRE(b.clos.carrier({b.from, 1}));
  REQUIRE_FALSE(b.clos.carrier({b.to, 1}));
  REQUIRE(b.clos.set_plane_down(2, true));
  REQUIRE(b.clos.plane_down(2));
  REQUIRE(b.send(2, 0).drop == DropCause::kPlaneDown);
  REQUIRE_FALSE(b.clos.carrier({b.from, 2}));
  REQUIRE(b.clos.set_cable_down({LinkKind::kNicToT0, 3, 1, 1}, true));
  REQUIRE(b.send(3, 0).drop == DropCause::kLinkDown);
  REQUIRE(b.clos.link_down({LinkKind::kT0ToNic, 3, 1, 1}));
  REQUIRE_FALSE(b.clos.carrier({b.to, 3}));
  REQUIRE(b.clos.carrier({b.from, 3}));
  REQUIRE(b.clos.set_cable_down({LinkKind::kT0ToNic, 3, 1, 1}, false));
  REQUIRE(b.clos.carrier({b.to, 3}));
  REQUIRE(conserved(b.clos));
}

TEST_CASE("where an impairment applies: once for fabric and plane, at each crossing for switches and links") {
  Bench b({.nics = 2, .link_delay = nanoseconds(100)});
  REQUIRE(b.send(0, 0).deliveries[0].delay == nanoseconds(400));
  b.clos.set_global({.delay = microseconds(1)});
  REQUIRE(b.clos.set_plane(1, {.delay = microseconds(10)}));
  REQUIRE(b.clos.set_switch({UsidKind::kT1, 1, 2}, {.delay = microseconds(100)}));
  REQUIRE(b.clos.set_switch({UsidKind::kT0, 1, 1}, {.delay = microseconds(1000)}));
  REQUIRE(b.clos.set_link({LinkKind::kT1ToT0, 1, 1, 3}, {.delay = microseconds(10000)}));
  REQUIRE(b.clos.link_impairment({LinkKind::kT1ToT0, 1, 1, 3})->delay == microseconds(10000));
  REQUIRE(b.send(0, 0).deliveries[0].delay == nanoseconds(1400));
  REQUIRE(b.send(1, 0).deliveries[0].delay == nanoseconds(400) + microseconds(1011));
  REQUIRE(b.send(1, 2).deliveries[0].delay == nanoseconds(400) + microseconds(1111));
  REQUIRE(b.send(1, 3).deliveries[0].delay == nanoseconds(400) + microseconds(11011));
  b.clos.set_global({});
  REQUIRE(b.send(0, 0).deliveries[0].delay == nanoseconds(400));
}

TEST_CASE("ECN marks inside the fabric but not on the last hop; trimming says which it was") {
  Bench b;
  REQUIRE(b.clos.set_link({LinkKind::kT0ToNic, 0, 1, 1}, {.ecn = 1, .trim = 1}));
  const auto ev = path::EvLayout::make(0, 0, 0, 0);
  auto bytes = make_packet(route_between(b.clos.config(), b.from, b.to), ev);
  auto outcome = b.clos.forward(bytes, {b.from, 0}, Tick{});
  REQUIRE(outcome.length == kTrimmedL3);
  REQUIRE(outer_of(bytes).dscp() == wire::Dscp{}.trimmed_lasthop);
  REQUIRE(outer_of(bytes).ecn() == wire::kEcnEct0);
  REQUIRE(b.clos.set_link({LinkKind::kT0ToT1, 0, 0, 0}, {.ecn = 1, .trim = 1}));
  bytes = make_packet(route_between(b.clos.config(), b.from, b.to), ev);
  outcome = b.clos.forward(bytes, {b.from, 0}, Tick{});
  REQUIRE(outcome.length == kTrimmedL3);
  REQUIRE(outer_of(bytes).dscp() == wire::Dscp{}.trimmed);
  REQUIRE(outer_of(bytes).ecn() == wire::kEcnCe);
  REQUIRE(b.clos.totals().trimmed == 2);
  REQUIRE(b.clos.totals().marked == 1);
}

TEST_CASE("ids outside the fabric are refused and change nothing") {
  Bench b;
  REQUIRE_FALSE(b.clos.set_plane(4, {.loss = 1}));
  REQUIRE_FALSE(b.clos.set_plane_down(9, true));
  REQUIRE_FALSE(b.clos.set_switch({UsidKind::kT1, 0, 4}, {.loss = 1}));
  REQUIRE_FALSE(b.clos.set_switch({UsidKind::kNic, 0, 0}, {.loss = 1}));
  REQUIRE_FALSE(b.clos.set_switch_down({UsidKind::kT0, 0, 2}, true));
  REQUIRE_FALSE(b.clos.set_link({LinkKind::kNicToT0, 0, 0, 2}, {.loss = 1}));
  REQUIRE_FALSE(b.clos.set_link_down({LinkKind::kT0ToT1, 0, 0, 4}, true));
  REQUIRE_FALSE(b.clos.set_cable_down({LinkKind::kT0ToT1, 4, 0, 0}, true));
  REQUIRE(b.clos.link_counters({LinkKind::kT0ToT1, 0, 7, 0}) == nullptr);
  REQUIRE(b.clos.switch_counters({UsidKind::kT0, 5, 0}) == nullptr);
  REQUIRE_FALSE(b.clos.carrier({{0, 2}, 0}));
  for (unsigned plane = 0; plane < 4; ++plane) REQUIRE(b.send(plane, 0).count == 1);
  REQUIRE(Clos({.planes = 0, .t0s = 0, .t1s = 0, .nics = 0}).config().planes == 1);
  REQUIRE(Clos({.planes = 200, .nics = 1}).config().planes == path::kMaxPlanes);
}

TEST_CASE("whatever is set, no packet appears or vanishes uncounted; one seed gives one history") {
  REQUIRE(rc::check([](std::uint64_t seed) {
    const auto history = [seed] {
      Bench b({.nics = 2, .seed = seed});
      Random random(seed ^ 1);
      const auto some = [&] { return random.below(3) == 0 ? static_cast<double>(random.below(50)) / 100 : 0.0; };
      std::uint64_t hash = 0;
      for (int step = 0; step < 400; ++step) {
        const Impairment any{
            .loss = some(), .duplicate = some(), .corrupt = some(), .reorder = some(), .ecn = some(), .trim = some()};
        const auto plane = static_cast<std::uint8_t>(random.below(4));
        const auto near = static_cast<std::uint16_t>(random.below(2));
        const auto far = static_cast<std::uint16_t>(random.below(2));
        const auto kind = static_cast<LinkKind>(random.below(4));
        switch (random.below(40)) {
          case 0:
            b.clos.set_global(any);
            break;
          case 1:
            b.clos.set_plane(plane, any);
            break;
          case 2:
            b.clos.set_link({kind, plane, near, far}, any);
            break;
          case 3:
            b.clos.set_link_down({kind, plane, near, far}, random.below(2) == 0);
            break;
          case 4:
            b.clos.set_switch_down({UsidKind::kT1, plane, far}, random.below(2) == 0);
            break;
          case 5:
            b.clos.set_plane_down(plane, random.below(3) == 0);
            break;
          default:
            break;
        }
        b.from = {near, far};
        b.to = {static_cast<std::uint16_t>(random.below(2)), static_cast<std::uint16_t>(random.below(2))};
        const auto outcome = b.send(plane, random.below(4), random.below(1500));
        RC_ASSERT((outcome.count == 0) == (outcome.drop != DropCause::kNone));
        RC_ASSERT(outcome.count <= 2);
        hash = (hash ^ outcome.count ^ static_cast<std::uint64_t>(outcome.drop) << 8 ^ outcome.length << 16 ^
                static_cast<std::uint64_t>(outcome.deliveries[0].delay.ns) << 32) *
               0x9e3779b97f4a7c15u;
      }
      RC_ASSERT(conserved(b.clos));
      return hash;
    };
    RC_ASSERT(history() == history());
  }));
}
