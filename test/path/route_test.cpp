// SPDX-License-Identifier: BSD-2-Clause
// EV -> carrier, and what drawn EVs look like.
#include "mrc/path/route.hpp"

#include <rapidcheck.h>

#include <array>
#include <set>

#include "mrc/random.hpp"
#include "support/catch.hpp"

using namespace mrc;
using path::UsidKind;

TEST_CASE("across T1: local T0, T1 of the EV's uplink, remote T0, NIC, all in the EV's plane") {
  path::Route r;
  r.mode = path::RouteMode::kSrv6;
  r.planes = 4;
  r.uplinks = 4;
  r.local = {1, 7};
  r.remote = {2, 9};
  for (unsigned plane = 0; plane < 4; ++plane) {
    for (unsigned uplink = 0; uplink < 4; ++uplink) {
      const auto ev = path::EvLayout::make(plane, uplink, 0, 0xabc);
      const std::array expected{r.usid.make(plane, UsidKind::kT0, 1), r.usid.make(plane, UsidKind::kT1, uplink),
                                r.usid.make(plane, UsidKind::kT0, 2), r.usid.make(plane, UsidKind::kNic, 9)};
      REQUIRE(r.outer_destination(ev) == path::make_carrier(r.locator, expected));
    }
  }
}

TEST_CASE("below the same T0: T0, NIC") {
  path::Route r;
  r.mode = path::RouteMode::kSrv6;
  r.planes = 4;
  r.uplinks = 4;
  r.local = {3, 0};
  r.remote = {3, 5};
  const std::array expected{r.usid.make(2, UsidKind::kT0, 3), r.usid.make(2, UsidKind::kNic, 5)};
  REQUIRE(r.outer_destination(path::EvLayout::make(2, 1, 0, 0)) == path::make_carrier(r.locator, expected));
}

TEST_CASE("the carrier as bytes, as a switch sees it") {
  path::Route r;
  r.uplinks = 4;
  r.local = {0, 0};
  r.remote = {1, 3};
  const wire::Ipv6Address expected{
      {0xfc, 0xbb, 0xbb, 0x00, 0x14, 0x00, 0x18, 0x02, 0x14, 0x01, 0x1c, 0x03, 0, 0, 0, 0}};
  REQUIRE(r.outer_destination(path::EvLayout::make(1, 2, 0, 0)) == expected);
}

TEST_CASE("ECMP mode: the UDP source port of any drawn EV is 0xC000 or above, either way it is split") {
  path::Route r;
  Random random(11);
  for (int i = 0; i < 10000; ++i) {
    const auto high = r.draw_ev(0, random.next(), wire::EvSplit::kHighInPort);
    REQUIRE((high >> 16) >= 0xC000);
    const auto low = r.draw_ev(0, random.next(), wire::EvSplit::kLowInPort);
    REQUIRE((low & 0xffff) >= 0xC000);
  }
}

TEST_CASE("SRv6 mode: drawn EVs carry their plane and reach every uplink") {
  path::Route r;
  r.mode = path::RouteMode::kSrv6;
  r.planes = 8;
  r.uplinks = 16;
  Random random(12);
  std::set<unsigned> seen;
  for (int i = 0; i < 1000; ++i) {
    const auto ev = r.draw_ev(5, random.next(), wire::EvSplit::kHighInPort);
    REQUIRE(path::EvLayout::plane(ev) == 5);
    REQUIRE(path::EvLayout::uplink(ev) < 16);
    seen.insert(path::EvLayout::uplink(ev));
  }
  REQUIRE(seen.size() == 16);
}
