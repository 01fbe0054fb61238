// SPDX-License-Identifier: BSD-2-Clause
// The paths are the ones that they claim to be: each goes through the fabric model, out and back, over its links only.
#include "mrc/probe/mesh.hpp"

#include <set>

#include "mrc/fabric/clos.hpp"
#include "mrc/wire/packet.hpp"
#include "support/catch.hpp"

using namespace mrc;
using namespace mrc::probe;

namespace {

std::array<std::byte, 160> packet(const Path& one) {
  wire::Packet p;
  p.has_outer = true;
  p.outer.destination = path::make_carrier(path::kDefaultLocator, {one.usids.data(), one.count});
  p.bth.opcode = wire::Opcode::kEndpointRequest;
  p.erth.op = wire::EndpointOp::kEvProbe;
  std::array<std::byte, 160> bytes{};
  REQUIRE(wire::write_headers(p, 0, wire::Params{}, bytes) != 0);
  return bytes;
}

fabric::LinkId link_of(const Element& e) {
  return e.part == Part::kNicLink ? fabric::LinkId{fabric::LinkKind::kNicToT0, e.plane, e.t0, e.far}
                                  : fabric::LinkId{fabric::LinkKind::kT0ToT1, e.plane, e.t0, e.far};
}

}  // namespace

TEST_CASE("every path leads back to its host, and over the links that it says") {
  fabric::ClosConfig config;
  config.planes = 3;
  config.t0s = 4;
  config.t1s = 5;
  Shape shape;
  shape.planes = 3;
  shape.t0s = {0, 1, 2, 3};
  shape.t1s = 5;
  shape.self = {2, 7};
  const auto paths = paths_of(shape);
  REQUIRE(paths.size() == 3 * (1 + 5 + 5 * 3));
  std::set<Element> all;
  for (const Path& one : paths) {
    for (const Element& link : one.links) all.insert(link);
  }
  REQUIRE(all.size() == 3 * (1 + 5 * 4));
  for (const Path& one : paths) {
    const fabric::NicPort from{shape.self, one.plane};
    for (const Element& link : all) {
      fabric::Clos clos(config);
      REQUIRE(clos.set_cable_down(link_of(link), true));
      auto bytes = packet(one);
      const auto out = clos.forward(bytes, from, Tick{1});
      const bool over = std::find(one.links.begin(), one.links.end(), link) != one.links.end();
      INFO(to_string(link));
      REQUIRE((out.count == 0) == over);
      if (out.count != 0) REQUIRE(out.deliveries[0].to == shape.self);
      if (out.count != 0) REQUIRE(out.deliveries[0].plane == one.plane);
    }
  }
}

TEST_CASE("names and denylist entries") {
  CHECK(to_string(Element{Part::kLink, 0, 1, 2}) == "t0-1 – t1-2 plane 0");
  CHECK(to_string(Element{Part::kNicLink, 3, 1, 4}) == "nic-4 – t0-1 plane 3");
  CHECK(to_string(Element{Part::kT0, 1, 5, 0}) == "t0-5 plane 1");
  CHECK(to_string(Element{Part::kT1, 1, 0, 6}) == "t1-6 plane 1");
  CHECK(deny_rule({Part::kLink, 0, 1, 2}) == path::DenyRule{.plane = 0, .t0 = 1, .t1 = 2});
  CHECK(deny_rule({Part::kNicLink, 3, 1, 4}) == path::DenyRule{.plane = 3, .t0 = 1, .nic = 4});
  CHECK(deny_rule({Part::kT0, 1, 5, 0}) == path::DenyRule{.plane = 1, .t0 = 5});
  CHECK(deny_rule({Part::kT1, 1, 0, 6}) == path::DenyRule{.plane = 1, .t1 = 6});
}
