// SPDX-License-Identifier: BSD-2-Clause
// Congestion over the simulated fabric: flows alone, sharing a last hop, and many onto one, with queues that mark, trim
// and drop. Rates are low so that it runs fast; figures at full rates are the experiments' (tools/experiments).
#include "traffic.hpp"

#include "mrc/transport/info.hpp"
#include "transport/pair.hpp"

namespace mrc::transport::test {
namespace {

constexpr std::uint64_t kLink = 25'000'000'000;

void no_trimming(fabric::SimConfig& c) {
  c.transport.trimming = false;
  c.clos.t0_to_nic.trim_at = c.clos.t0_t1.trim_at = 0;
}

/// Senders below T0 0, one receiver below T0 1; a victim flow from the senders' T0 to the receiver's.
struct Incast {
  Incast(fabric::SimConfig config, unsigned n) : traffic(config) {
    for (unsigned i = 0; i < n; ++i) senders.push_back(&traffic.add(2 * i, 1));
    victim = &traffic.add(2 * n, 3);
    traffic.connect();
  }
  std::vector<double> shares() const {
    std::vector<double> out;
    for (const Flow* flow : senders) out.push_back(traffic.share(*flow, 4));
    return out;
  }
  static fabric::SimConfig config(unsigned n, std::uint64_t seed) { return clos_config(2 * n + 2, kLink, seed); }

  Traffic traffic;
  std::vector<Flow*> senders;
  Flow* victim = nullptr;
};

double sum(const std::vector<double>& x) {
  double s = 0;
  for (const double v : x) s += v;
  return s;
}

}  // namespace

TEST_CASE("mrc-protocol §4: a flow alone fills its planes, and hardly any queue") {
  auto config = clos_config(2, kLink, seed_from_environment(41));
  SECTION("NSCC") {
    config.transport.cc = CcKind::kAuto;
  }
  SECTION("Swift") {
    config.transport.cc = CcKind::kSwift;
  }
  Traffic t(config);
  Flow& flow = t.add(0, 1);
  t.connect();
  t.start_all();
  t.run(milliseconds(1));
  t.clear();
  t.run(milliseconds(4));
  REQUIRE(t.share(flow, 4) >= 0.97);
  const ConnectionInfo info = t.sim.core(0).info(flow.conn);
  REQUIRE(info.cc == (config.transport.cc == CcKind::kAuto ? CcKind::kNscc : CcKind::kSwift));
  REQUIRE(info.cwnd <= info.cwnd_max);
  REQUIRE(info.inflight_bytes <= info.cwnd + 4096);
  REQUIRE(t.sim.clos().totals().trimmed == 0);
  REQUIRE(t.sim.clos().totals().dropped() == 0);
  REQUIRE(t.failed() == 0);
}

TEST_CASE("mrc-protocol §4: two and seven flows share a link fairly, and a victim flow keeps its line") {
  const unsigned n = GENERATE(2u, 7u);
  const int variant = GENERATE(0, 1, 2);
  INFO(n << " senders, variant " << variant);
  auto config = Incast::config(n, seed_from_environment(42));
  if (variant == 1) no_trimming(config);
  if (variant == 2) config.transport.ecn_balancing = false;
  Incast incast(config, n);
  Traffic& t = incast.traffic;
  t.start_all();
  t.run(milliseconds(4));
  t.clear();
  t.run(milliseconds(10));
  INFO("Jain " << Traffic::jain(incast.shares()) << " sum " << sum(incast.shares()));
  CHECK(Traffic::jain(incast.shares()) >= 0.99);
  CHECK(sum(incast.shares()) >= 0.97);
  CHECK(t.share(*incast.victim, 4) >= 0.97);
  CHECK(t.failed() == 0);
}

TEST_CASE("mrc-protocol §4: ECN moves packets to other EVs, unless that is turned off") {
  const bool on = GENERATE(true, false);
  NetConfig config;
  config.seed = seed_from_environment(46);
  config.mark = 0.2;
  config.ns_per_byte = 0.08;
  config.core.link_bps = 100'000'000'000;
  config.core.ecn_balancing = on;
  Net net(config);
  for (int i = 0; i < 8; ++i) REQUIRE(net.write(0, 1, 400000) == Status::kOk);
  unsigned passed_over = 0;
  while (!net.all_done()) {
    const Tick next = net.now + microseconds(10);
    net.run([&] { return net.now >= next || net.all_done(); }, microseconds(10));
    for (const auto& ev : net.core(0).evs(net.conn(0, 1))) passed_over += ev.state == path::EvState::kSkip;
  }
  CHECK((passed_over > 0) == on);
  const ConnectionInfo info = net.core(0).info(net.conn(0, 1));
  unsigned marked = 0;
  for (const auto& plane : info.plane) marked += plane.marked;
  CHECK(marked > 0);  // told to the window either way
  CHECK(marked <= net.core(1).counters().rx_ecn);
  net.check();
}

TEST_CASE("mrc-protocol §4: 32:1 incast does not collapse") {
  auto config = Incast::config(32, seed_from_environment(43));
  const bool trimming = GENERATE(true, false);
  if (!trimming) no_trimming(config);
  INFO("trimming " << trimming);
  Incast incast(config, 32);
  Traffic& t = incast.traffic;
  t.start_all();
  t.run(milliseconds(6));
  t.clear();
  t.run(milliseconds(10));
  INFO("Jain " << Traffic::jain(incast.shares()) << " sum " << sum(incast.shares()));
  CHECK(sum(incast.shares()) >= 0.95);
  CHECK(Traffic::jain(incast.shares()) >= 0.98);
  CHECK(t.share(*incast.victim, 4) >= 0.97);
  CHECK(t.failed() == 0);
}

TEST_CASE("mrc-protocol §4: flows of different round trips share a link") {
  // Node 2 is below the receiver's own T0: two links instead of four.
  auto config = clos_config(4, kLink, seed_from_environment(44));
  config.places = {{0, 0}, {1, 0}, {1, 1}, {0, 1}};
  Traffic t(config);
  Flow& far = t.add(0, 1);
  Flow& near = t.add(2, 1);
  t.connect();
  t.start_all();
  t.run(milliseconds(4));
  t.clear();
  t.run(milliseconds(10));
  const double a = t.share(far, 4), b = t.share(near, 4);
  INFO(a << " " << b);
  CHECK(a + b >= 0.97);
  CHECK(Traffic::jain({a, b}) >= 0.90);
}

TEST_CASE("random loss is not congestion: NSCC keeps its throughput") {
  const double loss = GENERATE(0.01, 0.05);
  const bool trimming = GENERATE(true, false);
  auto config = clos_config(2, kLink, seed_from_environment(45));
  if (!trimming) no_trimming(config);
  Traffic t(config);
  Flow& flow = t.add(0, 1);
  t.connect();
  t.sim.clos().set_global({.loss = loss});
  t.start_all();
  t.run(milliseconds(2));
  t.clear();
  t.run(milliseconds(8));
  INFO("loss " << loss << " trimming " << trimming << " share " << t.share(flow, 4));
  CHECK(t.share(flow, 4) >= (loss == 0.01 ? 0.90 : 0.85));
  CHECK(t.failed() == 0);
}

}  // namespace mrc::transport::test
