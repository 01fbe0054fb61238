// SPDX-License-Identifier: BSD-2-Clause
// The receiver's fair shares: who is penalised, by how much, and that a coarse clock changes nothing.
#include "mrc/transport/cc_receiver.hpp"

#include <array>
#include <vector>

#include "mrc/random.hpp"
#include "support/catch.hpp"

namespace mrc::transport {
namespace {

constexpr std::uint64_t kLine = 100'000'000'000;

/// Packets of 4096 bytes arrive at `load` of the line; sender i gets weights[i] of them. `clock`: the host's
/// granularity.
struct Receiver {
  ReceiverShare share;
  std::array<ReceiverShare::Flow, 4> flows{};
  std::array<double, 4> penalty{};  ///< largest seen, per flow, once settled
  double time = 1e6;
  Random random{5};

  void run(const std::vector<double>& weights, int packets, double load = 1, double clock = 1) {
    penalty = {};
    double sum = 0;
    for (const double w : weights) sum += w;
    for (int i = 0; i < packets; ++i) {
      double dice = random.below(1 << 20) / static_cast<double>(1 << 20) * sum;
      std::size_t flow = 0;
      while (flow + 1 < weights.size() && dice >= weights[flow]) dice -= weights[flow++];
      time += (4096 + ReceiverShare::kOverhead) * 8e9 / static_cast<double>(kLine) / load;
      const Tick now{static_cast<std::int64_t>(time / clock) * static_cast<std::int64_t>(clock)};
      share.on_data(flows[flow], 4096, kLine, now);
      if (i > packets / 2) penalty[flow] = std::max<double>(penalty[flow], flows[flow].penalty);
    }
  }
};

}  // namespace

TEST_CASE("receiver: nobody is penalised while the links have room") {
  Receiver r;
  r.run({3, 1, 1}, 20000, 0.7);
  REQUIRE_FALSE(r.share.saturated());
  for (const double p : r.penalty) REQUIRE(p == 0);
}

TEST_CASE("receiver: a sender alone is never penalised") {
  Receiver r;
  r.run({1}, 20000);
  REQUIRE(r.share.saturated());
  REQUIRE(r.penalty[0] == 0);
}

TEST_CASE("receiver: above the fair share of full links costs in proportion, below costs nothing") {
  for (const double clock : {1.0, 1000.0, 1e6, 16e6}) {
    INFO("clock " << clock << " ns");
    Receiver r;
    r.run({4, 2, 1, 1}, clock > 1e5 ? 3000000 : 40000, 1, clock);
    REQUIRE(r.share.saturated());
    REQUIRE(r.share.flows() == 4);
    REQUIRE(r.penalty[0] > r.penalty[1]);
    REQUIRE(r.penalty[0] >= (clock > 1e6 ? 4 : 8));  // (0.5 - 0.25) / 0.5 × 32 = 16 once the fair share is found
    REQUIRE(r.penalty[0] <= 26);
    REQUIRE(r.penalty[2] == 0);
    REQUIRE(r.penalty[3] == 0);
  }
}

TEST_CASE("receiver: what others do not take may be had by who wants it") {
  Receiver r;
  r.run({9.5, 9.5, 1}, 60000);
  REQUIRE(r.penalty[0] > 0);  // more than a third of full links …
  r.run({9.5, 9.5, 1}, 20000, 0.8);
  REQUIRE(r.penalty[0] == 0);  // … but the links did not stay full without it: the fair share has risen
  r.run({9.5, 9.5, 1}, 200);
  REQUIRE(r.penalty[0] == 0);
  // Somebody who hardly sends is no competitor at all.
  Receiver alone;
  alone.run({1000, 1}, 60000);
  REQUIRE(alone.share.saturated());
  REQUIRE(alone.penalty[0] == 0);
}

TEST_CASE("receiver: the penalty is taken back when competition has gone") {
  Receiver r;
  r.run({3, 1}, 20000);
  REQUIRE(r.flows[0].penalised);
  bool restored = false;
  for (int i = 0; i < 40 && !restored; ++i) {
    r.run({1, 0}, 10);
    restored = r.flows[0].restore;
  }
  REQUIRE(restored);
  REQUIRE(r.flows[0].penalty == 0);
  REQUIRE_FALSE(r.flows[0].penalised);
}

TEST_CASE("receiver: no rate, nothing to say") {
  ReceiverShare share;
  ReceiverShare::Flow flow;
  for (int i = 0; i < 10000; ++i) share.on_data(flow, 4096, 0, Tick{i});
  REQUIRE(flow.penalty == 0);
  REQUIRE_FALSE(share.saturated());
}

}  // namespace mrc::transport
