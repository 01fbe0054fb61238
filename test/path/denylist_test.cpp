// SPDX-License-Identifier: BSD-2-Clause
// Which EVs each kind of rule covers.
#include "mrc/path/denylist.hpp"

#include "support/catch.hpp"

using namespace mrc::path;

namespace {

Route route(Location local, Location remote) {
  Route out;
  out.mode = RouteMode::kSrv6;
  out.planes = 4;
  out.uplinks = 4;
  out.local = local;
  out.remote = remote;
  return out;
}

std::uint32_t ev(unsigned plane, unsigned uplink) {
  return EvLayout::make(plane, uplink, 0, 0x123);
}

}  // namespace

TEST_CASE("a link rule covers the paths over that link, both ways and no others") {
  const DenyRule rule{.plane = 2, .t0 = 1, .t1 = 3};
  for (const auto& [local, remote, over] :
       {std::tuple{Location{1, 0}, Location{5, 0}, true}, std::tuple{Location{5, 0}, Location{1, 7}, true},
        std::tuple{Location{4, 0}, Location{5, 0}, false}, std::tuple{Location{1, 0}, Location{1, 1}, false}}) {
    const Route r = route(local, remote);
    for (unsigned plane = 0; plane < 4; ++plane) {
      for (unsigned uplink = 0; uplink < 4; ++uplink) {
        REQUIRE(rule.covers(r, ev(plane, uplink), plane) == (over && plane == 2 && uplink == 3));
      }
    }
  }
}

TEST_CASE("switch, NIC, plane and EV rules") {
  const Route r = route({1, 4}, {2, 5});
  const Route same = route({1, 4}, {1, 5});
  const DenyRule t1{.t1 = 0}, t0{.plane = 1, .t0 = 2}, near{.t0 = 1, .nic = 4}, far{.t0 = 2, .nic = 5},
      other{.t0 = 2, .nic = 4}, plane{.plane = 3}, value{.ev = ev(0, 1)}, empty{};
  for (unsigned p = 0; p < 4; ++p) {
    REQUIRE(t1.covers(r, ev(p, 0), p));
    REQUIRE_FALSE(t1.covers(r, ev(p, 1), p));
    REQUIRE_FALSE(t1.covers(same, ev(p, 0), p));  // never leaves its T0
    REQUIRE(t0.covers(r, ev(p, 2), p) == (p == 1));
    REQUIRE_FALSE(t0.covers(same, ev(p, 2), p));
    REQUIRE(near.covers(r, ev(p, 0), p));
    REQUIRE(near.covers(same, ev(p, 0), p));
    REQUIRE(far.covers(r, ev(p, 0), p));
    REQUIRE_FALSE(other.covers(r, ev(p, 0), p));
    REQUIRE(plane.covers(r, ev(p, 0), p) == (p == 3));
    REQUIRE_FALSE(empty.covers(r, ev(p, 0), p));
  }
  REQUIRE(value.covers(r, ev(0, 1), 0));
  REQUIRE_FALSE(value.covers(r, ev(0, 2), 0));
}

TEST_CASE("without SRv6 only planes and EVs can be denied") {
  Route r = route({1, 4}, {2, 5});
  r.mode = RouteMode::kEcmp;
  REQUIRE_FALSE(DenyRule{.t0 = 1, .t1 = 0}.covers(r, 0xc0000001, 0));
  REQUIRE_FALSE(DenyRule{.plane = 0, .t0 = 1}.covers(r, 0xc0000001, 0));
  REQUIRE(DenyRule{.plane = 0}.covers(r, 0xc0000001, 0));
  REQUIRE(DenyRule{.ev = 0xc0000001}.covers(r, 0xc0000001, 0));
  const DenyRule rules[] = {{.plane = 1}, {.plane = 2}};
  REQUIRE(denied(rules, r, 1, 2));
  REQUIRE_FALSE(denied(rules, r, 1, 3));
}
