// SPDX-License-Identifier: BSD-2-Clause
// uSID forwarding: every path of the fabric, and packets that no switch should pass.
#include <set>

#include "fabric/support.hpp"
#include "mrc/fabric/clos.hpp"
#include "support/catch.hpp"

using namespace mrc;
using namespace mrc::fabric;
using path::UsidKind;

TEST_CASE("every (plane, uplink, source, destination) arrives where it should, over the links that it names") {
  const ClosConfig config{.planes = 4, .t0s = 3, .t1s = 4, .nics = 2, .link_delay = nanoseconds(10)};
  Clos clos(config);
  std::uint64_t sent = 0;
  for (std::uint8_t plane = 0; plane < config.planes; ++plane) {
    for (unsigned uplink = 0; uplink < config.t1s; ++uplink) {
      for (unsigned a = 0; a < 6; ++a) {
        for (unsigned z = 0; z < 6; ++z) {
          const path::Location from{static_cast<std::uint16_t>(a / 2), static_cast<std::uint16_t>(a % 2)};
          const path::Location to{static_cast<std::uint16_t>(z / 2), static_cast<std::uint16_t>(z % 2)};
          const bool across = from.t0 != to.t0;
          const auto ev = path::EvLayout::make(plane, uplink, 0, 0x123);
          auto bytes = make_packet(route_between(config, from, to), ev);
          const auto payload = std::vector(bytes.begin() + 40, bytes.end());
          const LinkId up{LinkKind::kT0ToT1, plane, from.t0, static_cast<std::uint16_t>(uplink)};
          const auto before = clos.link_counters(up)->packets;
          const auto outcome = clos.forward(bytes, {from, plane}, Tick{});
          ++sent;
          REQUIRE(outcome.count == 1);
          REQUIRE(outcome.all()[0].to == to);
          REQUIRE(outcome.all()[0].plane == plane);
          REQUIRE(outcome.all()[0].delay == nanoseconds(across ? 40 : 20));
          REQUIRE(outcome.length == bytes.size());
          const auto header = outer_of(bytes);
          REQUIRE(header.hop_limit == (across ? 61 : 63));
          // Only the NIC's uSID is left, active.
          const std::array last{config.usid.make(plane, UsidKind::kNic, to.nic)};
          REQUIRE(header.destination == path::make_carrier(config.locator, last));
          REQUIRE(std::vector(bytes.begin() + 40, bytes.end()) == payload);
          REQUIRE(clos.link_counters(up)->packets == before + across);
        }
      }
    }
  }
  REQUIRE(clos.totals().offered == sent);
  REQUIRE(clos.totals().delivered == sent);
  REQUIRE(clos.totals().dropped() == 0);
}

namespace {

// Sends a packet with these uSIDs from NIC (0, 0) of plane 0.
DropCause try_carrier(Clos& clos, std::vector<std::uint16_t> usids, std::uint8_t hop_limit = 64,
                      std::uint32_t locator = path::kDefaultLocator) {
  wire::Ipv6Header header;
  header.hop_limit = hop_limit;
  header.destination = path::make_carrier(locator, usids);
  std::vector<std::byte> bytes(40);
  header.encode(std::span(bytes).first<40>());
  return clos.forward(bytes, {{0, 0}, 0}, Tick{}).drop;
}

}  // namespace

TEST_CASE("packets that no switch should pass are dropped and counted by cause") {
  Clos clos({.nics = 2});
  const path::UsidLayout u;
  const auto t0 = u.make(0, UsidKind::kT0, 0), t1 = u.make(0, UsidKind::kT1, 0), far = u.make(0, UsidKind::kT0, 1),
             nic = u.make(0, UsidKind::kNic, 1);
  REQUIRE(try_carrier(clos, {t0, t1, far, nic}) == DropCause::kNone);
  REQUIRE(try_carrier(clos, {t0, nic}) == DropCause::kNone);
  REQUIRE(try_carrier(clos, {t0, t1, far, t1, t0, nic}) == DropCause::kNone);  // out and back: six uSIDs
  REQUIRE(try_carrier(clos, {}) == DropCause::kNotForMe);
  REQUIRE(try_carrier(clos, {far, nic}) == DropCause::kNotForMe);                          // another switch's
  REQUIRE(try_carrier(clos, {u.make(1, UsidKind::kT0, 0), nic}) == DropCause::kNotForMe);  // another plane's
  REQUIRE(try_carrier(clos, {t0, nic}, 64, 0x20010db8) == DropCause::kNotForMe);           // another locator
  REQUIRE(try_carrier(clos, {t0}) == DropCause::kUnknownUsid);                             // carrier ends
  REQUIRE(try_carrier(clos, {t0, t1}) == DropCause::kUnknownUsid);
  REQUIRE(try_carrier(clos, {t0, far}) == DropCause::kUnknownUsid);      // no T0-T0 link
  REQUIRE(try_carrier(clos, {t0, t1, nic}) == DropCause::kUnknownUsid);  // no T1-NIC link
  REQUIRE(try_carrier(clos, {t0, u.make(0, UsidKind::kT1, 4)}) == DropCause::kUnknownUsid);
  REQUIRE(try_carrier(clos, {t0, u.make(0, UsidKind::kNic, 2)}) == DropCause::kUnknownUsid);
  REQUIRE(try_carrier(clos, {t0, u.make(1, UsidKind::kNic, 1)}) == DropCause::kUnknownUsid);  // changes planes
  REQUIRE(try_carrier(clos, {t0, t1, u.make(0, UsidKind::kT0, 2), nic}) == DropCause::kUnknownUsid);
  REQUIRE(try_carrier(clos, {t0, t1, far, nic}, 4) == DropCause::kNone);
  REQUIRE(try_carrier(clos, {t0, t1, far, nic}, 3) == DropCause::kHopLimit);
  REQUIRE(try_carrier(clos, {t0, nic}, 1) == DropCause::kHopLimit);
  REQUIRE(try_carrier(clos, {t0, nic}, 0) == DropCause::kHopLimit);

  std::vector<std::byte> small(39, std::byte{0x60});
  REQUIRE(clos.forward(small, {{0, 0}, 0}, Tick{}).drop == DropCause::kMalformed);
  REQUIRE(clos.forward({}, {{0, 0}, 0}, Tick{}).drop == DropCause::kMalformed);
  std::vector<std::byte> ipv4(64, std::byte{0x45});
  REQUIRE(clos.forward(ipv4, {{0, 0}, 0}, Tick{}).drop == DropCause::kMalformed);
  std::vector<std::byte> fine(64, std::byte{0x60});
  REQUIRE(clos.forward(fine, {{0, 0}, 4}, Tick{}).drop == DropCause::kNoSuchPort);
  REQUIRE(clos.forward(fine, {{2, 0}, 0}, Tick{}).drop == DropCause::kNoSuchPort);
  REQUIRE(clos.forward(fine, {{0, 2}, 0}, Tick{}).drop == DropCause::kNoSuchPort);

  const auto totals = clos.totals();
  REQUIRE(totals.drops[std::size_t(DropCause::kNotForMe)] == 4);
  REQUIRE(totals.drops[std::size_t(DropCause::kUnknownUsid)] == 8);
  REQUIRE(totals.drops[std::size_t(DropCause::kHopLimit)] == 3);
  REQUIRE(totals.drops[std::size_t(DropCause::kMalformed)] == 3);
  REQUIRE(totals.drops[std::size_t(DropCause::kNoSuchPort)] == 3);
  REQUIRE(totals.offered == totals.delivered + totals.dropped());
}

TEST_CASE("random bytes never crash a switch") {
  Clos clos({.nics = 2});
  clos.set_global({.duplicate = 0.1, .corrupt = 0.5, .ecn = 0.5, .trim = 0.5});
  Random random(99);
  for (int i = 0; i < 20000; ++i) {
    std::vector<std::byte> bytes(random.below(300));
    for (auto& b : bytes) b = static_cast<std::byte>(random.next());
    if (i % 2 == 0 && bytes.size() >= 40) {  // let half of them get past the first checks
      const auto good = make_packet(route_between(clos.config(), {0, 0}, {1, 1}), path::EvLayout::make(0, 1, 0, 0), 0);
      std::copy(good.begin(), good.end(), bytes.begin());
    }
    const NicPort port{{static_cast<std::uint16_t>(random.below(3)), 0}, static_cast<std::uint8_t>(random.below(5))};
    const auto outcome = clos.forward(bytes, port, Tick{});
    REQUIRE(outcome.length <= bytes.size());
  }
  const auto totals = clos.totals();
  REQUIRE(totals.offered + totals.duplicated == totals.delivered + totals.dropped());
}
