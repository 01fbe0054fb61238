// SPDX-License-Identifier: BSD-2-Clause
// A denylist takes paths out of use at connection start and while packets fly, and gives them back.
#include "transport/pair.hpp"

namespace mrc::transport::test {
namespace {

/// Packets per (plane, uplink) that went out.
using Uses = std::map<std::pair<unsigned, unsigned>, unsigned>;

void watch(Net& net, Uses& uses) {
  net.passes = [&uses](unsigned, unsigned, std::uint8_t plane, std::uint32_t ev, Tick) {
    ++uses[{plane, path::EvLayout::uplink(ev)}];
    return true;
  };
}

}  // namespace

TEST_CASE("nothing leaves over a denied link, control packets included") {
  NetConfig c;
  c.seed = seed_from_environment(71);
  Net net(c);
  Uses uses;
  watch(net, uses);
  const path::DenyRule rules[] = {{.plane = 1, .t0 = 0, .t1 = 2}, {.plane = 3}};
  for (unsigned i = 0; i < 2; ++i) REQUIRE(net.core(i).set_denylist(rules, net.now));
  for (int i = 0; i < 20; ++i) {
    REQUIRE(net.write(0, 1, 50000) == Status::kOk);
    REQUIRE(net.write(1, 0, 50000) == Status::kOk);
  }
  REQUIRE(net.run_all(seconds(1)));
  net.check();
  REQUIRE(uses.count({1, 2}) == 0);
  for (unsigned uplink = 0; uplink < 4; ++uplink) REQUIRE(uses.count({3, uplink}) == 0);
  for (unsigned uplink = 0; uplink < 4; ++uplink) REQUIRE(uses[{0, uplink}] > 10);
  REQUIRE(net.core(0).payload_mtu(net.conn(0, 1)) == 4096);  // a denied plane need not confirm it

  SECTION("what the list covers no more is used again") {
    const path::DenyRule fewer[] = {{.plane = 1, .t0 = 0, .t1 = 2}};
    for (unsigned i = 0; i < 2; ++i) REQUIRE(net.core(i).set_denylist(fewer, net.now));
    for (int i = 0; i < 20; ++i) REQUIRE(net.write(0, 1, 50000) == Status::kOk);
    REQUIRE(net.run_all(seconds(1)));
    net.check();
    REQUIRE(uses.count({1, 2}) == 0);
    for (unsigned uplink = 0; uplink < 4; ++uplink) REQUIRE(uses[{3, uplink}] > 10);
  }
}

TEST_CASE("a list that comes while packets fly holds from then on") {
  NetConfig c;
  c.seed = seed_from_environment(72);
  Net net(c);
  Uses uses;
  watch(net, uses);
  for (int i = 0; i < 40; ++i) REQUIRE(net.write(0, 1, 50000) == Status::kOk);
  REQUIRE(net.run([&] { return net.nodes[1]->placed_total > 500000; }, seconds(1)));
  const path::DenyRule rules[] = {{.t1 = 1}};
  for (unsigned i = 0; i < 2; ++i) REQUIRE(net.core(i).set_denylist(rules, net.now));
  uses.clear();
  REQUIRE_FALSE(net.all_done());
  REQUIRE(net.run_all(seconds(1)));
  net.check();
  for (unsigned plane = 0; plane < 4; ++plane) {
    REQUIRE(uses.count({plane, 1}) == 0);
    REQUIRE(uses[{plane, 0}] > 10);
  }
  net.quiesce();
  net.check_pools();
}

TEST_CASE("a list that leaves no path fails the connection; a shorter one lets it start over") {
  NetConfig c;
  c.seed = seed_from_environment(73);
  Net net(c);
  std::vector<path::DenyRule> rules;
  for (std::int16_t plane = 0; plane < 4; ++plane) rules.push_back({.plane = plane});
  REQUIRE(net.write(0, 1, 1000) == Status::kOk);
  REQUIRE(net.run_all(seconds(1)));
  REQUIRE(net.core(0).set_denylist(rules, net.now));
  REQUIRE(net.write(0, 1, 1000) == Status::kOk);
  REQUIRE(net.run_all(seconds(1)));
  REQUIRE(net.status_of(1) == Status::kNoRoute);
  rules.pop_back();
  REQUIRE(net.core(0).set_denylist(rules, net.now));
  REQUIRE(net.write(0, 1, 1000) == Status::kOk);
  REQUIRE(net.run_all(seconds(5)));
  REQUIRE(net.status_of(2) == Status::kOk);
  REQUIRE_FALSE(net.core(0).set_denylist(std::vector<path::DenyRule>(path::kMaxDenyRules + 1), net.now));
}

}  // namespace mrc::transport::test
