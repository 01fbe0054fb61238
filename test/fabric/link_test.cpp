// SPDX-License-Identifier: BSD-2-Clause
// Each impairment of a link, alone and combined.
#include "mrc/fabric/link.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "fabric/support.hpp"
#include "support/catch.hpp"

using namespace mrc;
using fabric::DropCause;

namespace {

struct Bench {
  fabric::Link link;
  Random random{42};
  wire::Dscp dscp{};
  fabric::Transit transit;
  std::vector<std::byte> bytes;

  DropCause carry(bool last_hop = false, unsigned code = wire::Dscp{}.trimmable, unsigned ecn = wire::kEcnEct0,
                  std::size_t payload = 1000) {
    bytes = fabric::make_packet(path::Route{}, 0, payload, code, ecn);
    transit = fabric::Transit{.l3 = bytes, .length = bytes.size()};
    return link.carry(transit, random, dscp, last_hop);
  }
  bool conserved() const {
    const auto& c = link.counters();
    std::uint64_t drops = 0;
    for (const auto n : c.drops) drops += n;
    return c.packets + c.duplicated == c.forwarded + drops;
  }
};

// Five standard deviations of a binomial around its mean.
bool near(std::uint64_t hits, double p, double n) {
  return std::abs(static_cast<double>(hits) - n * p) <= 5 * std::sqrt(n * p * (1 - p));
}

}  // namespace

TEST_CASE("a clean link changes nothing and draws no random number") {
  Bench b;
  const auto before = Random(b.random).next();
  REQUIRE(b.carry() == DropCause::kNone);
  REQUIRE(b.bytes == fabric::make_packet(path::Route{}, 0));
  REQUIRE(b.transit.delay[0] == Duration{0});
  REQUIRE(Random(b.random).next() == before);
  REQUIRE(b.link.counters().packets == 1);
  REQUIRE(b.link.counters().bytes == 1040);
}

TEST_CASE("probabilities of 0, 1, beyond and NaN") {
  Bench b;
  b.link.set({.loss = 1});
  for (int i = 0; i < 100; ++i) REQUIRE(b.carry() == DropCause::kLoss);
  b.link.set({.loss = 7});
  REQUIRE(b.carry() == DropCause::kLoss);
  b.link.set({.loss = -1});
  REQUIRE(b.carry() == DropCause::kNone);
  b.link.set({.loss = std::numeric_limits<double>::quiet_NaN()});
  REQUIRE(b.carry() == DropCause::kNone);
  b.link.set_down(true);
  REQUIRE(b.carry() == DropCause::kLinkDown);
  REQUIRE(b.conserved());
}

TEST_CASE("rates come out as asked, and packets are conserved") {
  Bench b;
  const int n = 20000;
  b.link.set({.loss = 0.1, .duplicate = 0.05, .corrupt = 0.02, .reorder = 0.3, .ecn = 0.2, .trim = 0.15});
  for (int i = 0; i < n; ++i) b.carry();
  const auto& c = b.link.counters();
  const auto lost = c.drops[static_cast<std::size_t>(DropCause::kLoss)];
  const double left = n - static_cast<double>(lost);
  REQUIRE(near(lost, 0.1, n));
  REQUIRE(near(c.duplicated, 0.05, left));
  REQUIRE(near(c.corrupted, 0.02, left));
  REQUIRE(near(c.marked, 0.2, left));
  REQUIRE(near(c.trimmed, 0.15, left));
  REQUIRE(near(c.reordered, 0.3, left + static_cast<double>(c.duplicated)));
  REQUIRE(b.conserved());
}

TEST_CASE("a duplicate is the same bytes twice, and either copy may be lost further on") {
  Bench b;
  b.link.set({.duplicate = 1, .delay = microseconds(3)});
  REQUIRE(b.carry() == DropCause::kNone);
  REQUIRE(b.transit.copies == 2);
  REQUIRE(b.transit.delay[0] == microseconds(3));
  REQUIRE(b.transit.delay[1] == microseconds(3));
  fabric::Link lossy;
  lossy.set({.loss = 0.5});
  std::array<int, 3> left{};
  for (int i = 0; i < 4000; ++i) {
    fabric::Transit t{.l3 = b.bytes, .length = b.bytes.size(), .copies = 2, .delay = {nanoseconds(1), nanoseconds(2)}};
    lossy.carry(t, b.random, b.dscp, false);
    ++left[t.copies];
  }
  REQUIRE(near(static_cast<std::uint64_t>(left[0]), 0.25, 4000));
  REQUIRE(near(static_cast<std::uint64_t>(left[1]), 0.5, 4000));
}

TEST_CASE("corruption flips one to three bits") {
  Bench b;
  b.link.set({.corrupt = 1});
  for (int i = 0; i < 500; ++i) {
    b.carry();
    const auto clean = fabric::make_packet(path::Route{}, 0);
    int flipped = 0;
    for (std::size_t k = 0; k < clean.size(); ++k) {
      flipped += __builtin_popcount(static_cast<unsigned>(clean[k] ^ b.bytes[k]));
    }
    REQUIRE(flipped <= 3);
    REQUIRE(b.transit.length == clean.size());
  }
}

TEST_CASE("ECN marks ECT packets only, and never on the last hop") {
  Bench b;
  b.link.set({.ecn = 1});
  b.carry();
  REQUIRE(fabric::outer_of(b.bytes).ecn() == wire::kEcnCe);
  REQUIRE(fabric::outer_of(b.bytes).dscp() == b.dscp.trimmable);
  b.carry(false, b.dscp.trimmable, 1);
  REQUIRE(fabric::outer_of(b.bytes).ecn() == wire::kEcnCe);
  b.carry(false, b.dscp.trimmable, 0);
  REQUIRE(fabric::outer_of(b.bytes).ecn() == 0);
  b.carry(true);
  REQUIRE(fabric::outer_of(b.bytes).ecn() == wire::kEcnEct0);
  REQUIRE(b.link.counters().marked == 2);
}

TEST_CASE("trimming: 128 bytes of frame, a DSCP that says so, only for packets that allow it") {
  Bench b;
  b.link.set({.trim = 1});
  for (const unsigned code : {b.dscp.trimmable, b.dscp.trimmable_retx}) {
    b.carry(false, code);
    REQUIRE(b.transit.length == 114);
    REQUIRE(fabric::outer_of(b.bytes).dscp() == b.dscp.trimmed);
    REQUIRE(fabric::outer_of(b.bytes).payload_length == 1000);  // lengths no longer hold
    b.carry(true, code);
    REQUIRE(fabric::outer_of(b.bytes).dscp() == b.dscp.trimmed_lasthop);
  }
  for (const unsigned code : {b.dscp.control, b.dscp.no_trim, b.dscp.trimmed}) {
    b.carry(false, code);
    REQUIRE(b.transit.length == 1040);
    REQUIRE(fabric::outer_of(b.bytes).dscp() == code);
  }
  b.carry(false, b.dscp.trimmable, wire::kEcnEct0, 114 - 40);
  REQUIRE(fabric::outer_of(b.bytes).dscp() == b.dscp.trimmable);
  b.link.set({.ecn = 1, .trim = 1});  // both at once keep each other's bits
  b.carry();
  REQUIRE(fabric::outer_of(b.bytes).dscp() == b.dscp.trimmed);
  REQUIRE(fabric::outer_of(b.bytes).ecn() == wire::kEcnCe);
}

TEST_CASE("reordering holds some packets back, delay all") {
  Bench b;
  b.link.set({.reorder = 0.5, .reorder_delay = microseconds(70), .delay = microseconds(2)});
  bool held = false, passed = false;
  for (int i = 0; i < 100; ++i) {
    b.carry();
    held |= b.transit.delay[0] == microseconds(72);
    passed |= b.transit.delay[0] == microseconds(2);
    REQUIRE((b.transit.delay[0] == microseconds(72) || b.transit.delay[0] == microseconds(2)));
  }
  REQUIRE(held);
  REQUIRE(passed);
}

TEST_CASE("impairments combine") {
  const auto both =
      fabric::combine({.loss = 0.5, .delay = microseconds(1)},
                      {.loss = 0.5, .reorder = 0.1, .reorder_delay = microseconds(9), .delay = microseconds(2)});
  REQUIRE(both.loss == 0.75);
  REQUIRE(both.delay == microseconds(3));
  REQUIRE(std::abs(both.reorder - 0.1) < 1e-9);
  REQUIRE(both.reorder_delay == microseconds(9));
  REQUIRE(fabric::combine({}, {}) == fabric::Impairment{});
}

TEST_CASE("bursts of losses: how often, how long, how thorough") {
  Bench b;
  b.link.set({.burst_enter = 0.001, .burst_length = 20});
  const int n = 400'000;
  int bursts = 0, lost = 0;
  bool before = false;
  for (int i = 0; i < n; ++i) {
    const bool gone = b.carry() == DropCause::kBurst;
    bursts += gone && !before;
    lost += gone;
    before = gone;
  }
  INFO(lost << " lost in " << bursts << " bursts");
  // Lengths are geometric: standard deviation about the mean.
  const double mean = static_cast<double>(lost) / bursts;
  REQUIRE(std::abs(mean - 20) <= 5 * 20 / std::sqrt(bursts));
  REQUIRE(std::abs(bursts - (n - lost) * 0.001) <= 5 * std::sqrt(n * 0.001));
  REQUIRE(b.link.counters().drops[static_cast<std::size_t>(DropCause::kBurst)] == static_cast<std::uint64_t>(lost));
  REQUIRE(b.conserved());
}

TEST_CASE("within a burst some packets may pass, and turning it off ends it") {
  Bench b;
  b.link.set({.burst_enter = 1, .burst_length = 1e9, .burst_loss = 0.5});
  int lost = 0;
  for (int i = 0; i < 10'000; ++i) lost += b.carry() == DropCause::kBurst;
  REQUIRE(near(static_cast<std::uint64_t>(lost), 0.5, 10'000));
  b.link.set({});
  for (int i = 0; i < 100; ++i) REQUIRE(b.carry() == DropCause::kNone);
  b.link.set({.burst_enter = 1e-9, .burst_length = 1e9});
  for (int i = 0; i < 100; ++i) REQUIRE(b.carry() == DropCause::kNone);
}

TEST_CASE("flapping follows the clock") {
  const fabric::Flap flap{.period = milliseconds(10), .down = milliseconds(4), .phase = milliseconds(1)};
  REQUIRE_FALSE(flap.down_at(Tick{999'999}));
  REQUIRE(flap.down_at(Tick{1'000'000}));
  REQUIRE(flap.down_at(Tick{4'999'999}));
  REQUIRE_FALSE(flap.down_at(Tick{5'000'000}));
  REQUIRE(flap.down_at(Tick{11'000'000}));
  REQUIRE(flap.next_change(Tick{0}) == Tick{1'000'000});
  REQUIRE(flap.next_change(Tick{1'000'000}) == Tick{5'000'000});
  REQUIRE(flap.next_change(Tick{5'000'000}) == Tick{11'000'000});
  REQUIRE(flap.next_change(Tick{3'000'000'123}).ns == 3'001'000'000);
  REQUIRE(fabric::Flap{}.next_change(Tick{5}) == kNever);
  REQUIRE(fabric::Flap{.period = milliseconds(1)}.next_change(Tick{5}) == kNever);  // never down
  for (std::int64_t t = 0, changes = 0; t < 100'000'000 && changes < 100; ++changes) {
    const Tick next = flap.next_change(Tick{t});
    REQUIRE(next.ns > t);
    REQUIRE(flap.down_at(next) != flap.down_at(Tick{t}));
    REQUIRE(flap.down_at(next) != flap.down_at(Tick{next.ns - 1}));
    t = next.ns;
  }
  Bench b;
  b.link.set_flap(flap);
  REQUIRE(b.link.carry(b.transit = {}, b.random, b.dscp, false, Tick{2'000'000}) == DropCause::kLinkDown);
  REQUIRE_FALSE(b.link.down());
  b.carry();  // at 0
  REQUIRE(b.transit.copies == 1);
}

TEST_CASE("a link with a rate: delay is waiting, serialisation and propagation") {
  Bench b;
  b.link.set_model({.bps = 8'000'000'000, .delay = microseconds(2)});
  b.link.set({.delay = microseconds(5)});
  b.carry();
  const std::int64_t serial = 1040 + fabric::kFrameOverhead;
  REQUIRE(b.transit.delay[0].ns == serial + 7000);
  b.carry();
  REQUIRE(b.transit.delay[0].ns == 2 * serial + 7000);
  // Control overtakes: behind the packet on the wire only.
  b.carry(false, b.dscp.control, 0, 100);
  REQUIRE(b.transit.delay[0].ns == 140 + fabric::kFrameOverhead + 7000);
}

TEST_CASE("a full queue marks, then trims into the control class, then drops; the last hop says so and never marks") {
  for (const bool last_hop : {false, true}) {
    Bench b;
    b.link.set_model({.bps = 8'000'000'000,
                      .ecn_min = 3000,
                      .ecn_max = 3000,
                      .trim_at = 10'000,
                      .drop_at = 20'000,
                      .control_limit = 1000});
    std::uint64_t trimmed = 0, passed = 0;
    for (int i = 0; i < 30; ++i) {
      const DropCause cause = b.carry(last_hop);
      if (cause == DropCause::kControlQueue) continue;
      REQUIRE(cause == DropCause::kNone);
      const auto header = fabric::outer_of(b.bytes);
      if (header.dscp() == b.dscp.trimmable) {
        ++passed;
        continue;
      }
      REQUIRE(header.dscp() == (last_hop ? b.dscp.trimmed_lasthop : b.dscp.trimmed));
      REQUIRE(b.transit.length == fabric::kTrimmedL3);
      ++trimmed;
      REQUIRE(b.transit.delay[0] <= nanoseconds(1078 + static_cast<std::int64_t>(trimmed) * 152));
    }
    const auto& c = b.link.counters();
    REQUIRE(passed == 10);     // 10 × 1078 is the first above 10 000
    REQUIRE(trimmed == 7);     // 7 × 152 is the first above 1000 …
    REQUIRE(c.trimmed == 20);  // … and what finds the control queue full has been cut already
    REQUIRE(c.drops[static_cast<std::size_t>(DropCause::kControlQueue)] == 13);
    REQUIRE(c.marked == (last_hop ? 0 : 7));
    std::uint64_t full = 0;
    for (int i = 0; i < 30; ++i) full += b.carry(last_hop, b.dscp.no_trim) == DropCause::kQueue;
    REQUIRE(full == 22);  // eight more, on top of ten packets and seven trimmed ones, until 20 000
    REQUIRE(b.conserved());
    REQUIRE(b.link.queue().peak_bytes() > 20'000);
  }
}

TEST_CASE("flipped bits are recorded") {
  Bench b;
  b.link.set({.corrupt = 1});
  for (int i = 0; i < 200; ++i) {
    fabric::Flips flips;
    b.bytes = fabric::make_packet(path::Route{}, 0);
    const auto clean = b.bytes;
    for (int times = 0; times < 2; ++times) {
      b.transit = {.l3 = b.bytes, .length = b.bytes.size(), .flips = &flips};
      b.link.carry(b.transit, b.random, b.dscp, false);
    }
    REQUIRE(flips.count >= 2);
    REQUIRE(flips.count <= fabric::Flips::kKept);
    for (unsigned k = 0; k < flips.count; ++k) {
      b.bytes[flips.bit[k] / 8] ^= static_cast<std::byte>(1u << flips.bit[k] % 8);
    }
    REQUIRE(b.bytes == clean);
  }
}

TEST_CASE("every drop cause has a name of its own") {
  std::vector<std::string_view> names;
  for (std::size_t i = 0; i < fabric::kDropCauses; ++i) names.push_back(to_string(static_cast<DropCause>(i)));
  std::sort(names.begin(), names.end());
  REQUIRE(std::adjacent_find(names.begin(), names.end()) == names.end());
}
