// SPDX-License-Identifier: BSD-2-Clause
// Failing paths: one uplink, a plane, all planes for a while. Work goes on, the right EVs are blamed, and restored.
#include "transport/pair.hpp"

namespace mrc::transport::test {
namespace {

/// Keeps both directions busy for `span`.
void stream(Net& net, Duration span, std::uint32_t length = 30000) {
  const Tick end = net.now + span;
  while (net.now < end) {
    for (unsigned from = 0; from < 2; ++from) {
      if (net.nodes[1 - from]->next_target + length > net.config.memory) net.nodes[1 - from]->next_target = 0;
      for (auto& t : net.nodes[1 - from]->placed) t = 0;
    }
    const std::size_t first = net.writes.size();
    for (unsigned i = 0; i < 4; ++i) REQUIRE(net.write(i & 1, 1 - (i & 1), length) == Status::kOk);
    REQUIRE(net.run(
        [&] {
          for (std::size_t w = first; w < net.writes.size(); ++w) {
            if (!net.nodes[net.writes[w].from]->done.contains(w)) return false;
          }
          return true;
        },
        seconds(20)));
    // Targets are used again and again here: compare while they are fresh.
    for (std::size_t w = first; w < net.writes.size(); ++w) {
      const auto& write = net.writes[w];
      REQUIRE(net.status_of(w) == Status::kOk);
      REQUIRE(std::memcmp(net.nodes[write.from]->source.data() + write.source,
                          net.nodes[write.to]->target.data() + write.va, write.length) == 0);
    }
  }
}

NetConfig config(std::uint64_t seed) {
  NetConfig c;
  c.seed = seed_from_environment(seed);
  c.ns_per_byte = 0.08;
  c.memory = 1 << 20;
  return c;
}

unsigned bad(Net& net, unsigned node, const std::function<bool(std::uint32_t)>& where) {
  unsigned n = 0;
  for (const auto& ev : net.core(node).evs(net.conn(node, 1 - node))) {
    n += ev.state == path::EvState::kAssumedBad && where(ev.value);
  }
  return n;
}

}  // namespace

TEST_CASE("a dead uplink") {
  Net net(config(21));
  stream(net, milliseconds(2));
  const auto dead = [](std::uint32_t ev) { return path::EvLayout::plane(ev) == 1 && path::EvLayout::uplink(ev) == 2; };
  const auto others = [&](std::uint32_t ev) { return !dead(ev); };
  net.passes = [&](unsigned, unsigned, std::uint8_t, std::uint32_t ev, Tick) { return !dead(ev); };
  const Tick begin = net.now;
  stream(net, milliseconds(40));
  unsigned on_dead = 0;
  for (const auto& ev : net.core(0).evs(net.conn(0, 1))) on_dead += dead(ev.value);
  REQUIRE(on_dead > 0);
  const auto& k = net.core(0).counters();
  INFO("blamed " << k.ev_blamed << " spurious " << k.spurious << " restored " << k.ev_restored << " retransmitted "
                 << k.tx_retransmit << " rto " << k.rto << " probes " << k.tx_probe << " lost " << net.lost_frames
                 << " data " << k.tx_data);
  REQUIRE(bad(net, 0, dead) == on_dead);
  REQUIRE(bad(net, 0, others) == 0);
  REQUIRE(net.core(0).counters().rto == 0);
  // Once they are known, only probes go there.
  const auto lost = net.lost_frames;
  const Tick later = net.now;
  stream(net, milliseconds(20));
  REQUIRE(net.lost_frames - lost < 200);
  REQUIRE((net.now - later).ns < milliseconds(25).ns);
  REQUIRE((net.now - begin).ns < milliseconds(100).ns);
  // Healed: probes bring them back.
  net.passes = [](unsigned, unsigned, std::uint8_t, std::uint32_t, Tick) { return true; };
  stream(net, milliseconds(150));
  REQUIRE(bad(net, 0, dead) == 0);
  REQUIRE(net.core(0).counters().ev_restored >= on_dead);
  net.quiesce();
  net.check_pools();
}

TEST_CASE("a dead plane") {
  Net net(config(22));
  stream(net, milliseconds(2));
  net.passes = [&](unsigned, unsigned, std::uint8_t plane, std::uint32_t, Tick) { return plane != 3; };
  const Tick begin = net.now;
  stream(net, milliseconds(100));
  REQUIRE((net.now - begin).ns < milliseconds(130).ns);
  // The plane is at fault, not 36 paths of it: at both ends, for the loop-back probes to the T0s are lost there too.
  REQUIRE(bad(net, 0, [](std::uint32_t) { return true; }) == 0);
  for (unsigned node = 0; node < 2; ++node) REQUIRE(net.core(node).counters().plane_degraded == 1);
  const auto lost = net.lost_frames;
  stream(net, milliseconds(20));
  REQUIRE(net.lost_frames - lost < 300);
  net.passes = [](unsigned, unsigned, std::uint8_t, std::uint32_t, Tick) { return true; };
  stream(net, milliseconds(150));
  REQUIRE(bad(net, 0, [](std::uint32_t) { return true; }) == 0);
  const auto before = net.core(0).counters().tx_plane;
  stream(net, milliseconds(20));
  const auto& after = net.core(0).counters().tx_plane;
  REQUIRE(after[3] - before[3] > (after[0] - before[0]) * 3 / 4);
  net.quiesce();
  net.check_pools();
}

TEST_CASE("a link of our own goes down and comes back") {
  Net net(config(23));
  stream(net, milliseconds(2));
  net.passes = [&](unsigned, unsigned, std::uint8_t plane, std::uint32_t, Tick) { return plane != 0; };
  net.core(0).set_plane_up(0, false, net.now);
  net.core(1).set_plane_up(0, false, net.now);
  const auto sent = net.core(0).counters().tx_plane[0];
  stream(net, milliseconds(10));
  REQUIRE(net.core(0).counters().tx_plane[0] == sent);
  REQUIRE(net.core(0).counters().ev_blamed == 0);
  net.passes = [](unsigned, unsigned, std::uint8_t, std::uint32_t, Tick) { return true; };
  net.core(0).set_plane_up(0, true, net.now);
  net.core(1).set_plane_up(0, true, net.now);
  stream(net, milliseconds(10));
  REQUIRE(net.core(0).counters().tx_plane[0] > sent);
}

TEST_CASE("all planes down for a while") {
  Net net(config(24));
  stream(net, milliseconds(2));
  const Tick from = net.now + microseconds(30);
  const Tick until = from + GENERATE(milliseconds(50), milliseconds(500), seconds(5));
  net.passes = [=](unsigned, unsigned, std::uint8_t, std::uint32_t, Tick now) { return now < from || now > until; };
  stream(net, (until - net.now) + milliseconds(10));
  REQUIRE(net.now > until);
  REQUIRE((net.now - until).ns < milliseconds(1500).ns);
  REQUIRE(net.core(0).counters().rto + net.core(1).counters().rto > 0);
  REQUIRE(net.core(0).counters().ev_blamed == 0);
  REQUIRE(net.core(0).counters().peers_dead == 0);
  // Silence is not answered with a flood.
  REQUIRE(net.core(0).counters().tx_retransmit < 400);
  net.quiesce();
  net.check_pools();
}

TEST_CASE("a path that loses one in five packets") {
  Net net(config(25));
  stream(net, milliseconds(2));
  Random dice(5);
  const auto sick = [](std::uint32_t ev) { return path::EvLayout::plane(ev) == 2 && path::EvLayout::uplink(ev) == 1; };
  net.passes = [&](unsigned, unsigned, std::uint8_t, std::uint32_t ev, Tick) { return !sick(ev) || !dice.chance(0.2); };
  const Tick begin = net.now;
  stream(net, milliseconds(60));
  REQUIRE((net.now - begin).ns < milliseconds(80).ns);
  REQUIRE(net.core(0).counters().ev_blamed > 0);  // they come and go: four in five probes are answered
  REQUIRE(bad(net, 0, [&](std::uint32_t ev) { return !sick(ev); }) == 0);
  REQUIRE(net.core(0).counters().rto == 0);
}

TEST_CASE("the process computes while packets wait") {
  Net net(config(26));
  stream(net, milliseconds(2));
  const auto blamed = net.core(0).counters().ev_blamed;
  const auto again = net.core(0).counters().tx_retransmit;
  net.nodes[1]->next_target = 0;
  REQUIRE(net.write(0, 1, 60000) == Status::kOk);
  net.run([] { return false; }, microseconds(1));
  net.nodes[0]->stalled_until = net.now + milliseconds(300);
  REQUIRE(net.run_all(seconds(2)));
  REQUIRE(net.core(0).counters().ev_blamed == blamed);
  REQUIRE(net.core(0).counters().rto == 0);
  REQUIRE(net.core(0).counters().tx_retransmit == again);
}

TEST_CASE("a driver that is always late still retransmits") {
  NetConfig c = config(28);
  c.loss = 0.05;
  Net net(c);
  for (int i = 0; i < 10; ++i) REQUIRE(net.write(0, 1, 60000) == Status::kOk);
  std::function<void()> nap = [&] {
    // One round of the loop, then 5 ms in which others have the core.
    net.nodes[0]->stalled_until = net.now + milliseconds(5);
    net.at(net.now + milliseconds(5) + nanoseconds(1), nap);
  };
  nap();
  REQUIRE(net.run_all(seconds(5)));
  net.check();
}

TEST_CASE("an MTU that one plane does not carry") {
  NetConfig c = config(27);
  c.mtu = 9000;
  Net net(c);
  // passes() does not see sizes: lose the big frames of plane 2 by looking at them in mangle's place.
  net.too_long = [](std::uint8_t plane, std::size_t size) { return plane == 2 && size > 4500; };
  stream(net, milliseconds(300));
  REQUIRE(net.core(0).payload_mtu(net.conn(0, 1)) == 4096);
}

}  // namespace mrc::transport::test
