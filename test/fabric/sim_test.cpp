// SPDX-License-Identifier: BSD-2-Clause
// The simulator with production cores: contents arrive, one seed gives one trace, faults take effect, rates hold.
#include "mrc/fabric/sim.hpp"

#include <algorithm>
#include <vector>

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
