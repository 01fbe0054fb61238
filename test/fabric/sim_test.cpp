// SPDX-License-Identifier: BSD-2-Clause
// The simulator with production cores: contents arrive, one seed gives one trace, faults take effect, rates hold.
#include "mrc/fabric/sim.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "mrc/fabric/command.hpp"
#include "support/catch.hpp"

using namespace mrc;
using namespace mrc::fabric;

namespace {

constexpr std::uint32_t kKey = 0x1234;

// Every node writes one block of `length` bytes to the next node.
struct Ring {
  Sim sim;
  std::vector<std::unique_ptr<SimUpper>> uppers;
  std::vector<std::vector<std::byte>> sources, targets;
  std::vector<transport::ConnId> conns;
  unsigned done = 0, failed = 0;

  Ring(const SimConfig& config, std::size_t length) : sim(config) {
    sim.run_until(Tick{1'000'000});  // a clock that has been running, as real ones have
    const unsigned n = sim.nodes();
    for (unsigned i = 0; i < n; ++i) {
      sources.emplace_back(length);
      targets.emplace_back(length);
      for (auto& b : sources[i]) b = static_cast<std::byte>(sim.random().next());
      uppers.push_back(std::make_unique<SimUpper>(sim, i));
      uppers[i]->add_region(kKey, targets[i]);
      REQUIRE(sim.add_endpoint(i, 100, uppers[i].get()) != transport::kNoId);
    }
    sim.on_event([this](unsigned, const transport::Event& event) {
      if (event.kind != transport::EventKind::kWriteDone) return;
      ++(event.status == transport::Status::kOk ? done : failed);
    });
    for (unsigned i = 0; i < n; ++i) {
      conns.push_back(sim.core(i).connect(0, sim.address((i + 1) % n, 100)));
      REQUIRE(conns[i] != transport::kNoId);
      post(i);
    }
  }
  void post(unsigned i) {
    const transport::WriteRequest request{.rkey = kKey,
                                          .length = static_cast<std::uint32_t>(sources[i].size()),
                                          .source = sources[i].data(),
                                          .cookie = i};
    REQUIRE(sim.core(i).post_write(conns[i], request, sim.now()) == transport::Status::kOk);
  }
  bool finish(Duration limit = seconds(20)) {
    return sim.run([this] { return done + failed == sim.nodes(); }, sim.now() + limit);
  }
  bool right() const {
    for (unsigned i = 0; i < sources.size(); ++i) {
      if (targets[(i + 1) % sources.size()] != sources[i]) return false;
    }
    return failed == 0;
  }
};

}  // namespace

TEST_CASE("a ring of nodes over the Clos: right contents, every plane used alike") {
  Ring ring({.nodes = 4, .seed = 3}, 300'000);
  REQUIRE(ring.finish());
  REQUIRE(ring.right());
  const auto& c = ring.sim.core(0).counters();
  const auto [least, most] = std::minmax_element(c.tx_plane.begin(), c.tx_plane.begin() + 4);
  REQUIRE(*least > 0);
  REQUIRE(*most < *least * 2);
  const auto t = ring.sim.clos().totals();
  for (std::size_t i = 0; i < kDropCauses; ++i) {
    INFO(to_string(static_cast<DropCause>(i)));
    CHECK(t.drops[i] == 0);
  }
}

TEST_CASE("direct links in ECMP mode, several nodes, and a node to itself") {
  for (unsigned nodes : {1u, 2u, 3u}) {
    Ring ring({.nodes = nodes, .seed = 4, .direct = true}, 100'000);
    REQUIRE(ring.finish());
    REQUIRE(ring.right());
  }
}

TEST_CASE("all impairments at once: right contents, and one seed gives one trace") {
  const auto trace = [](std::uint64_t seed, bool direct) {
    Ring ring({.nodes = 3, .seed = seed, .direct = direct, .link_bps = 10'000'000'000}, 200'000);
    const Impairment bad{.loss = 0.01, .duplicate = 0.01, .corrupt = 0.01, .reorder = 0.1, .ecn = 0.05, .trim = 0.01};
    direct ? ring.sim.set_direct(bad) : ring.sim.clos().set_global(bad);
    INFO("seed " << seed << " direct " << direct);
    REQUIRE(ring.finish());
    REQUIRE(ring.right());
    std::uint64_t caught = 0;
    for (unsigned i = 0; i < 3; ++i) caught += ring.sim.counters(i).rx_bad_icrc;
    REQUIRE(caught > 0);
    return ring.sim.trace_hash();
  };
  for (const bool direct : {false, true}) {
    REQUIRE(trace(5, direct) == trace(5, direct));
    REQUIRE(trace(5, direct) != trace(6, direct));
  }
}

TEST_CASE("a plane cut in mid-transfer does not stop it, and the NICs see it") {
  Ring ring({.nodes = 2, .seed = 7, .link_bps = 10'000'000'000}, 4'000'000);
  ring.sim.at(Tick{1'500'000}, [&] { ring.sim.clos().set_plane_down(1, true); });
  REQUIRE(ring.finish());
  REQUIRE(ring.right());
  REQUIRE(ring.sim.now() > Tick{1'500'000});
  const auto& c = ring.sim.core(0).counters();
  REQUIRE(c.tx_plane[1] < c.tx_plane[0]);
}

TEST_CASE("no port sends faster than its link") {
  Ring ring({.nodes = 2, .seed = 8, .link_bps = 1'000'000'000}, 2'000'000);
  REQUIRE(ring.finish());
  REQUIRE(ring.right());
  for (unsigned i = 0; i < 2; ++i) {
    const double bits = static_cast<double>(ring.sim.counters(i).tx_bytes) * 8;
    REQUIRE(bits / (static_cast<double>(ring.sim.now().ns - 1'000'000) / 1e9) <= 4e9);
  }
}

TEST_CASE("a paused node is waited for; a dead one is not heard of") {
  Ring ring({.nodes = 2, .seed = 9}, 100'000);
  REQUIRE(ring.finish());
  ring.sim.set_node(1, NodeState::kPaused);
  ring.done = 0;
  std::fill(ring.targets[1].begin(), ring.targets[1].end(), std::byte{});
  ring.post(0);
  REQUIRE_FALSE(ring.sim.run([&] { return ring.done != 0; }, ring.sim.now() + milliseconds(100)));
  REQUIRE(ring.failed == 0);
  ring.sim.set_node(1, NodeState::kRunning);
  REQUIRE(ring.sim.run([&] { return ring.done != 0; }, ring.sim.now() + seconds(5)));
  REQUIRE(ring.right());
  ring.sim.set_node(1, NodeState::kDead);
  ring.post(0);
  REQUIRE_FALSE(ring.sim.run([&] { return ring.done > 1; }, ring.sim.now() + milliseconds(200)));
  REQUIRE(ring.sim.counters(1).rx_dead > 0);
}

TEST_CASE("actions at one time run in the order they were given") {
  Sim sim({.nodes = 1});
  std::vector<int> order;
  for (int i = 0; i < 10; ++i) sim.at(Tick{100}, [&order, i] { order.push_back(i); });
  sim.at(Tick{50}, [&order] { order.push_back(-1); });
  sim.run_until(Tick{1000});
  REQUIRE(order == std::vector<int>{-1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  REQUIRE(sim.now() == Tick{1000});
}

namespace {

SimConfig rated(unsigned nodes, std::uint64_t seed, std::uint64_t bps = 10'000'000'000) {
  SimConfig config{.nodes = nodes, .seed = seed};
  config.clos.set_rates(bps, microseconds(10));
  return config;
}

}  // namespace

TEST_CASE("over queues, from all to all corners: contents, counters and one trace for one seed") {
  const auto trace = [](std::uint64_t seed) {
    Ring ring(rated(6, seed), 400'000);
    Sim& sim = ring.sim;
    for (const char* command : {"loss 0.5%", "duplicate 1%", "burst 0.5% 3", "reorder 2% 20us", "corrupt 0.2%"}) {
      REQUIRE(apply_command(sim.clos(), command));
    }
    sim.at(sim.now() + microseconds(100),
           [&] { REQUIRE(apply_command(sim.clos(), "link t0-0 t1-1 plane 2 rate 10%")); });
    sim.at(sim.now() + microseconds(200), [&] { REQUIRE(apply_command(sim.clos(), "switch t1-2 plane 1 down")); });
    INFO("seed " << seed);
    Tick stop = sim.now();
    while (ring.done + ring.failed < sim.nodes()) {  // in pieces: it holds at any time
      stop = stop + microseconds(37);
      sim.run([&] { return ring.done + ring.failed == sim.nodes(); }, stop);
      const Totals t = sim.clos().totals();
      REQUIRE(t.offered + t.duplicated == t.delivered + t.dropped() + t.in_flight);
      REQUIRE(sim.packets_in_flight() == t.in_flight);
      REQUIRE(stop < Tick{10'000'000'000});
    }
    REQUIRE(ring.right());
    const Totals t = sim.clos().totals();
    std::uint64_t tx = 0, rx = 0;
    for (unsigned i = 0; i < sim.nodes(); ++i) {
      const auto& c = sim.counters(i);
      tx += c.tx;
      rx += c.rx + c.rx_bad_icrc + c.rx_bad_length + c.rx_ring_full + c.rx_dead;
    }
    REQUIRE(tx == t.offered);
    REQUIRE(rx == t.delivered);
    REQUIRE(t.drops[static_cast<std::size_t>(DropCause::kBurst)] > 0);
    return sim.trace_hash();
  };
  REQUIRE(trace(21) == trace(21));
  REQUIRE(trace(21) != trace(22));
}

TEST_CASE("without payload the same packets fly at the same times, and corruption is still seen") {
  const auto run = [](bool payload) {
    SimConfig config = rated(3, 30);
    config.carry_payload = payload;
    Ring ring(config, 500'000);
    REQUIRE(apply_command(ring.sim.clos(), "corrupt 1% loss 1%"));
    REQUIRE(ring.finish());
    REQUIRE(ring.failed == 0);
    if (payload) REQUIRE(ring.right());
    std::uint64_t bad = 0;
    for (unsigned i = 0; i < 3; ++i) bad += ring.sim.counters(i).rx_bad_icrc;
    REQUIRE(bad > 0);
    return std::pair(ring.sim.now(), ring.sim.clos().totals().offered);
  };
  REQUIRE(run(true) == run(false));
}

TEST_CASE("a lone sender fills its links, and nothing is trimmed or dropped") {
  SimConfig config = rated(2, 31);
  Ring ring(config, 20'000'000);
  const Tick start = ring.sim.now();
  REQUIRE(ring.finish());
  REQUIRE(ring.right());
  const double seconds_taken = static_cast<double>((ring.sim.now() - start).ns) / 1e9;
  const double share = 20e6 * 8 / seconds_taken / 40e9;  // both nodes send at once, each way is its own
  INFO(share);
  REQUIRE(share > 0.8);  // of the bits on the wire, in payload
  REQUIRE(share <= 1);
  REQUIRE(ring.sim.clos().totals().dropped() == 0);
}

TEST_CASE("a NIC sees its own link flap and sends nothing on it meanwhile; the far end does not know") {
  SimConfig config = rated(2, 32);
  Ring ring(config, 20'000'000);
  Sim& sim = ring.sim;
  REQUIRE(apply_command(sim.clos(), "port nic0 plane 1 flap 500us 40%"));
  const Flap flap = sim.clos().link({LinkKind::kNicToT0, 1, 0, 0})->flap();
  std::uint64_t wrong = 0, near = 0, far = 0;
  sim.on_transmit([&](unsigned node, const transport::TxPacket& packet) {
    if (packet.plane != 1) return;
    const bool down = flap.down_at(sim.now());
    wrong += node == 0 && down;
    near += node == 0;
    far += node == 1 && down;
  });
  REQUIRE(ring.finish());
  REQUIRE(ring.right());
  REQUIRE(wrong == 0);
  REQUIRE(near > 0);
  REQUIRE(far > 0);
}

TEST_CASE("a timeline plays against the simulator's clock; one that does not fit is refused as a whole") {
  Sim sim(rated(2, 33));
  sim.run_until(Tick{1000});
  Timeline timeline;
  timeline.add(milliseconds(2), "plane 1 up");
  timeline.add(milliseconds(1), "plane 1 down");
  REQUIRE(sim.play(timeline));
  sim.run_until(Tick{1'000'999});
  REQUIRE_FALSE(sim.clos().plane_down(1));
  sim.run_until(Tick{1'001'000});
  REQUIRE(sim.clos().plane_down(1));
  sim.run_until(Tick{2'001'000});
  REQUIRE_FALSE(sim.clos().plane_down(1));
  timeline.add(milliseconds(5), "plane 9 down", 17);
  const auto refused = sim.play(timeline);
  REQUIRE_FALSE(refused);
  REQUIRE(refused.error().text.find("line 17") != std::string::npos);
  sim.run_until(Tick{3'001'000});
  sim.run_until(Tick{3'500'000});
  REQUIRE_FALSE(sim.clos().plane_down(1));
}
