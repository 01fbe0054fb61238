// SPDX-License-Identifier: BSD-2-Clause
// Planes in trouble, over the simulated fabric with real contents: ports that go down and come back, all of them for a
// while, a plane slower than the others, a NIC-T0 link that loses packets. Rates are low so that it runs fast; figures
// at full rates are the experiments' (tools/experiments).
#include "mrc/fabric/command.hpp"
#include "mrc/transport/info.hpp"
#include "traffic.hpp"
#include "transport/pair.hpp"

namespace mrc::transport::test {
namespace {

constexpr std::uint64_t kLink = 5'000'000'000;

fabric::SimConfig config(std::uint64_t seed, unsigned planes = 4, CcKind cc = CcKind::kAuto) {
  auto c = clos_config(2, kLink, seed_from_environment(seed), microseconds(40));
  c.clos.planes = static_cast<std::uint8_t>(planes);
  c.carry_payload = true;
  c.transport.cc = cc;
  return c;
}

/// One flow each way between two nodes across T1s.
struct Pair : Traffic {
  explicit Pair(const fabric::SimConfig& c) : Traffic(c), there(add(0, 1)), back(add(1, 0)) {
    connect();
    check_contents();
    start_all();
    run(milliseconds(4));
    clear();
  }
  ~Pair() {
    // Whatever happened: no error seen by anybody, and the bytes are right.
    CHECK(failed() == 0);
    CHECK(wrong == 0);
  }
  void command(const std::string& text) {
    const auto applied = fabric::apply_command(sim.clos(), text);
    INFO(text);
    REQUIRE(applied);
  }
  double least(double planes) const { return std::min(share(there, planes), share(back, planes)); }
  const Counters& counters(unsigned node) { return sim.core(node).counters(); }

  Flow& there;
  Flow& back;
};

}  // namespace

TEST_CASE("port status: NIC links removed one at a time and restored, on one side only") {
  Pair t(config(61, 8));
  for (unsigned left = 7; left >= 1; --left) {
    t.command("port nic0 plane " + std::to_string(left) + " down");
    t.run(microseconds(100));  // what was on its way, and the news
    const auto here = t.counters(0).tx_plane[left], there = t.counters(1).tx_plane[left];
    t.clear();
    t.run(milliseconds(3));
    INFO(left << " links left");
    // Nothing goes there, not even a SACK, from the node that cannot see it either.
    REQUIRE(t.counters(0).tx_plane[left] == here);
    REQUIRE(t.counters(1).tx_plane[left] == there);
    REQUIRE(t.least(left) >= 0.93);
  }
  for (unsigned left = 1; left < 8; ++left) {
    t.command("port nic0 plane " + std::to_string(left) + " up");
    t.run(microseconds(500));
    t.clear();
    t.run(milliseconds(2));
    INFO(left + 1 << " links");
    REQUIRE(t.least(left + 1) >= 0.93);
  }
  for (unsigned node = 0; node < 2; ++node) {
    REQUIRE(t.counters(node).ev_blamed == 0);
    REQUIRE(t.counters(node).rto == 0);
  }
  REQUIRE(t.counters(0).port_status_sent >= 14);
  REQUIRE(t.counters(1).port_status_received >= 14);
}

TEST_CASE("port status: all planes of a node down and back, longer than any time-out but the peer's") {
  const unsigned node = GENERATE(0u, 1u);
  Pair t(config(62));
  t.command("port nic" + std::to_string(node) + " down");
  t.run(milliseconds(300));
  REQUIRE(t.sim.core(0).counters().peers_dead + t.sim.core(1).counters().peers_dead == 0);
  t.command("port nic" + std::to_string(node) + " plane 2 up");
  t.run(milliseconds(2));
  t.clear();
  t.run(milliseconds(4));
  REQUIRE(t.least(1) >= 0.9);
  t.command("port nic" + std::to_string(node) + " up");
  t.run(milliseconds(2));
  t.clear();
  t.run(milliseconds(4));
  REQUIRE(t.least(4) >= 0.93);
  REQUIRE(t.counters(0).ev_blamed + t.counters(1).ev_blamed <= 4);  // what was lost while others still arrived
}

TEST_CASE("port status: an old word does not overtake a newer one") {
  // A link that comes and goes faster than its news, which get lost and arrive in any order.
  Pair t(config(63));
  t.command("reorder 0.3 200us loss 0.05");
  for (int i = 0; i < 40; ++i) {
    t.command(std::string("port nic0 plane 1 ") + (i % 2 == 0 ? "down" : "up"));
    t.run(microseconds(60));
  }
  t.command("reorder 0 loss 0");
  t.run(milliseconds(20));
  for (const bool up : {false, true}) {
    t.command(std::string("port nic0 plane 1 ") + (up ? "up" : "down"));
    t.run(milliseconds(1));
    const auto before = t.counters(1).tx_plane[1];
    t.run(milliseconds(1));
    REQUIRE((t.counters(1).tx_plane[1] != before) == up);
  }
}

TEST_CASE("uneven planes: one at a quarter of its speed, and the others at all of theirs") {
  const auto cc = GENERATE(CcKind::kNscc, CcKind::kFixed);
  const std::string where = GENERATE("plane 2", "port nic1 plane 2", "uplinks");
  auto c = config(64, 4, cc);
  if (cc == CcKind::kFixed) c.transport.window_bytes = 512 * 1024;
  Pair t(c);
  INFO("controller " << int(cc) << ", slow: " << where);
  const double healthy = t.share(t.there, 4);
  t.run(milliseconds(3));
  if (where == "uplinks") {  // seven of eight gone, and others' traffic on the last one
    for (unsigned t1 = 0; t1 < 7; ++t1) t.command("link t0-0 t1-" + std::to_string(t1) + " plane 2 down");
    t.command("link t0-0 t1-7 plane 2 rate 25%");
  } else {
    t.command(where + " rate 25%");
  }
  t.run(milliseconds(4));
  t.clear();
  t.run(milliseconds(10));
  for (unsigned node = 0; node < 2; ++node) {
    const auto info = t.sim.core(node).info(node == 0 ? t.there.conn : t.back.conn);
    UNSCOPED_INFO("node " << node << " cwnd " << info.cwnd << " srtt " << info.srtt.ns << " suspected "
                          << t.counters(node).plane_suspected << " blamed " << t.counters(node).ev_blamed);
    for (unsigned p = 0; p < 4; ++p) {
      UNSCOPED_INFO("  plane " << p << " sent " << info.plane[p].tx_packets << " lost " << info.plane[p].lost
                               << " trimmed " << info.plane[p].trimmed << " marked " << info.plane[p].marked);
    }
  }
  INFO("there " << t.share(t.there, 3.25) << " back " << t.share(t.back, 3.25) << " of 3.25 planes; before "
                << healthy);
  REQUIRE(t.least(3.25) >= 0.95);
  t.command("plane 2 rate full");
  t.command("port nic1 plane 2 rate full");
  for (unsigned t1 = 0; t1 < 8 && where == "uplinks"; ++t1) {
    t.command("link t0-0 t1-" + std::to_string(t1) + " plane 2 up");
  }
  t.run(where == "uplinks" ? milliseconds(120) : milliseconds(6));
  t.clear();
  t.run(milliseconds(5));
  REQUIRE(t.least(4) >= 0.93);
}

TEST_CASE("a NIC-T0 link that loses packets: both ends leave the plane, and come back when it heals") {
  Pair t(config(65));
  const std::string loss = GENERATE("loss 5%", "loss 30%", "loss 2%");
  INFO(loss);
  t.command("port nic0 plane 1 " + loss);
  t.run(milliseconds(10));
  t.clear();
  t.run(milliseconds(20));
  REQUIRE(t.least(3) >= 0.95);
  // Node 0 found out by its T0 that it is its own link, told node 1, and holds it against no single path.
  REQUIRE(t.counters(0).plane_degraded >= 1);
  REQUIRE(t.counters(1).plane_degraded == 0);
  REQUIRE(t.counters(0).loopback_lost >= 3);
  for (unsigned node = 0; node < 2; ++node) {
    for (const auto& ev : t.sim.core(node).evs(node == 0 ? t.there.conn : t.back.conn)) {
      REQUIRE(ev.state != path::EvState::kAssumedBad);
    }
  }
  const auto probes = t.counters(0).loopback_probes;
  t.run(milliseconds(10));
  REQUIRE(t.counters(0).loopback_probes - probes <= 60);  // a few a millisecond
  t.command("port nic0 plane 1 loss 0");
  t.run(milliseconds(100));
  t.clear();
  t.run(milliseconds(5));
  REQUIRE(t.least(4) >= 0.93);
  const auto at_rest = t.counters(0).loopback_probes + t.counters(1).loopback_probes;
  t.run(milliseconds(10));
  REQUIRE(t.counters(0).loopback_probes + t.counters(1).loopback_probes == at_rest);
}

TEST_CASE("a T0 that sends nothing back: losses of a plane are judged by probes of the peer") {
  auto c = config(66);
  c.direct = true;
  Pair t(c);
  fabric::Impairment lossy;
  lossy.loss = 0.05;
  lossy.delay = microseconds(1);
  t.sim.direct_link(0, 1).set(lossy);
  t.run(milliseconds(10));
  // Data packets of the connection; the other connection's SACKs make up their own mind.
  const auto sent = [&](const Flow& flow, unsigned plane) {
    return t.sim.core(flow.from).info(flow.conn).plane[plane].tx_packets;
  };
  const auto before = sent(t.there, 1), beside = sent(t.there, 0);
  const auto opposite = sent(t.back, 1), opposite_beside = sent(t.back, 0);
  t.run(milliseconds(20));
  REQUIRE(t.counters(0).plane_suspected >= 1);
  REQUIRE(t.counters(0).plane_degraded == 0);
  REQUIRE(t.counters(0).loopback_probes == 0);
  // Probes only from the end that sees losses; the other direction is as good as ever.
  REQUIRE(sent(t.there, 1) - before < (sent(t.there, 0) - beside) / 20);
  REQUIRE(sent(t.back, 1) - opposite > (sent(t.back, 0) - opposite_beside) / 2);
  lossy.loss = 0;
  t.sim.direct_link(0, 1).set(lossy);
  t.run(milliseconds(100));
  const auto then = sent(t.there, 1), then_beside = sent(t.there, 0);
  t.run(milliseconds(5));
  REQUIRE(sent(t.there, 1) - then > (sent(t.there, 0) - then_beside) * 2 / 3);
}

TEST_CASE("an uplink dies: its EVs go together, their seats are taken, the plane keeps its share") {
  Pair t(config(67));
  t.command("link t0-0 t1-3 plane 2 down");
  t.run(milliseconds(4));
  t.clear();
  const auto before = t.counters(0).tx_plane;
  t.run(milliseconds(5));
  REQUIRE(t.least(4) >= 0.95);
  REQUIRE(t.counters(0).tx_plane[2] - before[2] > (t.counters(0).tx_plane[0] - before[0]) * 9 / 10);
  REQUIRE(t.counters(0).ev_blamed >= 4);
  REQUIRE(t.counters(0).ev_replaced >= 1);
  REQUIRE(t.counters(0).plane_suspected == 0);
  t.command("link t0-0 t1-3 plane 2 up");
  t.run(milliseconds(150));
  REQUIRE(t.counters(0).ev_restored == t.counters(0).ev_blamed);
}

}  // namespace mrc::transport::test
