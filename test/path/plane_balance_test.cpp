// SPDX-License-Identifier: BSD-2-Clause
// The balance between planes against a small model of planes that deliver at given rates, in rounds.
#include "mrc/path/plane_balance.hpp"

#include <rapidcheck.h>

#include <array>
#include <vector>

#include "mrc/random.hpp"
#include "support/catch.hpp"

using namespace mrc;
using path::PlaneBalance;

namespace {

constexpr std::uint32_t kMtu = 4096;

/// A sender that walks over open planes, one packet each in turn, as long as its window lasts. Each microsecond plane p
/// delivers rate[p] packets (fractions add up), oldest first; a queue above `limit` packets marks.
struct Model {
  PlaneBalance balance;
  path::BalanceParams params;
  std::vector<double> rate, credit, loss;
  std::vector<unsigned> dead;  ///< paths that deliver nothing
  std::vector<std::uint64_t> picks, delivered;
  std::uint32_t window = 64 * kMtu;
  std::uint32_t suspects = 0;
  unsigned limit = 1000;
  unsigned paths = 8;
  unsigned turn = 0;
  bool busy = true;  ///< or idle: one packet a plane at a time
  Tick now{0};
  Random random;

  Model(std::vector<double> rates, std::uint64_t seed)
      : rate(std::move(rates)),
        credit(rate.size()),
        loss(rate.size()),
        dead(rate.size()),
        picks(rate.size()),
        delivered(rate.size()),
        random(seed) {
    balance.reset(mask(), now);
  }
  std::uint32_t mask() const { return (1u << rate.size()) - 1; }
  std::uint32_t inflight() const {
    std::uint32_t sum = 0;
    for (unsigned p = 0; p < rate.size(); ++p) sum += balance.inflight(p);
    return sum;
  }
  void step() {
    balance.set_window(window, kMtu);
    const auto planes = static_cast<unsigned>(rate.size());
    // Exactly one a plane and round, as the walk does; a closed plane loses its turn.
    while (inflight() + kMtu <= (busy ? window : kMtu * planes)) {
      bool any = false;
      for (unsigned i = 0; i < planes && inflight() + kMtu <= window; ++i, ++turn) {
        const unsigned p = turn % planes;
        if (!(balance.open() & ~suspects & mask() & 1u << p)) continue;
        any = true;
        balance.on_sent(p, kMtu);
        ++picks[p];
      }
      if (!any) break;
    }
    for (unsigned p = 0; p < planes; ++p) {
      credit[p] = std::min(credit[p] + rate[p], 64.0);
      for (; credit[p] >= 1 && balance.inflight(p) >= kMtu; credit[p] -= 1) {
        if (balance.inflight(p) / kMtu > limit) balance.on_marked(p);
        balance.on_gone(p, kMtu);
        const unsigned path = random.below(paths);
        if (path < dead[p] || random.chance(loss[p])) {
          balance.on_lost(p, path);
        } else {
          balance.on_delivered(p, path);
          ++delivered[p];
        }
      }
    }
    now = now + microseconds(1);
    suspects |= balance.judge(now, microseconds(8), mask() & ~suspects, paths, params);
  }
  void run(int steps) {
    for (int i = 0; i < steps; ++i) step();
  }
};

}  // namespace

TEST_CASE("equal, healthy planes: weights are exactly 1 and picks equal, whatever the window") {
  REQUIRE(rc::check([](std::uint64_t seed) {
    const auto planes = *rc::gen::inRange(1u, 9u);
    Model m(std::vector<double>(planes, 0.1 * *rc::gen::inRange(1, 40)), seed);
    m.window = static_cast<std::uint32_t>(*rc::gen::inRange(1u, 300u)) * kMtu * planes;
    m.busy = *rc::gen::arbitrary<bool>();
    for (int i = 0; i < 2000; ++i) {
      m.step();
      for (unsigned p = 0; p < planes; ++p) {
        RC_ASSERT(m.balance.weight(p) == PlaneBalance::kOne);
        RC_ASSERT(m.picks[p] + 1 >= m.picks[0] && m.picks[p] <= m.picks[0]);
        RC_ASSERT(!m.balance.in_trouble(p));
      }
    }
    RC_ASSERT(m.suspects == 0);
  }));
}

TEST_CASE("planes are used in proportion to what they deliver, and all recover") {
  REQUIRE(rc::check([](std::uint64_t seed) {
    const auto planes = *rc::gen::inRange(2u, 9u);
    Random random(seed);
    std::vector<double> rates(planes, 2.0);
    double sum = 0;
    const unsigned slow = 1 + random.below(planes - 1);  // at least one at full speed
    for (unsigned i = 0; i < slow; ++i) rates[i] = 0.1 + random.below(190) / 100.0;
    for (const double r : rates) sum += r;
    Model m(rates, seed);
    m.window = static_cast<std::uint32_t>(planes * (32 + random.below(64))) * kMtu;
    m.limit = random.below(2) ? 1000 : 40;
    m.run(3000);
    m.delivered.assign(planes, 0);
    m.run(3000);
    std::uint64_t total = 0;
    for (const auto n : m.delivered) total += n;
    RC_LOG() << "delivered " << total << " of " << sum * 3000 << std::endl;
    // A window that no mark shrinks keeps marking planes busy with giving way.
    RC_ASSERT(static_cast<double>(total) >= (m.limit == 40 ? 0.9 : 0.97) * sum * 3000);
    for (unsigned p = 0; p < planes; ++p) {
      RC_ASSERT((m.balance.open() >> p & 1) == (m.balance.inflight(p) < m.balance.cap(p)));
      if (rates[p] < 1.0) RC_ASSERT(m.balance.in_trouble(p));
      if (rates[p] >= 2.0 && m.limit != 40) RC_ASSERT(!m.balance.in_trouble(p));
    }
    m.limit = 1000;
    for (auto& r : m.rate) r = 2.0;
    m.run(2000);
    for (unsigned p = 0; p < planes; ++p) RC_ASSERT(m.balance.weight(p) == PlaneBalance::kOne);
  }));
}

TEST_CASE("a plane whose marks the others do not share gives way, and comes back") {
  Model m(std::vector<double>(4, 2.0), 1);
  m.run(200);
  for (int i = 0; i < 400; ++i) {
    m.step();
    m.balance.on_marked(2);  // by others' traffic, whatever we do
    m.balance.on_marked(2);
  }
  REQUIRE(m.balance.weight(2) < PlaneBalance::kOne / 4);
  REQUIRE(m.balance.in_trouble(2));
  for (const unsigned p : {0u, 1u, 3u}) REQUIRE(m.balance.weight(p) == PlaneBalance::kOne);
  m.run(2000);
  REQUIRE(m.balance.weight(2) == PlaneBalance::kOne);
  // Marked all alike: that is the window's business.
  for (int i = 0; i < 400; ++i) {
    m.step();
    for (unsigned p = 0; p < 4; ++p) m.balance.on_marked(p);
  }
  for (unsigned p = 0; p < 4; ++p) REQUIRE(m.balance.weight(p) == PlaneBalance::kOne);
}

TEST_CASE("a plane that loses on all its paths is suspect within some hundred packets; one bad path is not") {
  for (const double loss : {0.02, 0.05, 0.3, 1.0}) {
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      INFO("loss " << loss << " seed " << seed);
      Model m(std::vector<double>(4, 2.0), seed);
      m.run(500);
      REQUIRE(m.suspects == 0);
      m.loss[1] = loss;
      const auto before = m.picks[1];
      while (m.suspects == 0 && m.picks[1] - before < 4000) m.step();
      REQUIRE(m.suspects == 2);
      REQUIRE(m.picks[1] - before < (loss < 0.05 ? 2000u : 600u));
      REQUIRE(m.balance.strikes(0, m.paths) == 1);
    }
  }
  for (unsigned dead = 1; dead <= 8; ++dead) {
    INFO(dead << " of 8 paths dead");
    Model m(std::vector<double>(4, 2.0), dead);
    m.run(500);
    m.dead[1] = dead;
    m.run(5000);
    REQUIRE(m.suspects == (dead == 8 ? 2u : 0u));
  }
  Model m(std::vector<double>(4, 2.0), 3);
  for (int i = 0; i < 20000; ++i) {
    m.step();
    if (i % 4 == 0) m.balance.on_lost(1, 5);  // an eighth of its packets, on one path
  }
  REQUIRE(m.suspects == 0);
  REQUIRE(m.balance.strikes(1, m.paths) == 1);
}

TEST_CASE("loss on all planes alike makes nobody suspect, and asks for more evidence against a path") {
  for (const auto& [loss, strikes] : {std::pair{0.002, 2u}, {0.02, 3u}, {0.1, 4u}}) {
    for (std::uint64_t seed = 1; seed <= 10; ++seed) {
      INFO("loss " << loss << " seed " << seed);
      Model m(std::vector<double>(4, 2.0), seed);
      for (auto& l : m.loss) l = loss;
      m.run(6000);
      REQUIRE(m.suspects == 0);
      REQUIRE(m.balance.strikes(1, m.paths) + 1 >= strikes);
      REQUIRE(m.balance.strikes(1, m.paths) <= strikes + 1);
    }
  }
}
