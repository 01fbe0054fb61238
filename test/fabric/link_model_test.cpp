// SPDX-License-Identifier: BSD-2-Clause
// Queue arithmetic: serialisation, waiting, thresholds, the ECN ramp, two classes, changes of rate.
#include "mrc/fabric/link_model.hpp"

#include <rapidcheck.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "support/catch.hpp"

using namespace mrc;
using namespace mrc::fabric;
using Verdict = LinkQueue::Verdict;

namespace {

constexpr std::uint32_t kData = 1000 - kFrameOverhead;  // 1000 bytes on the wire: 1 us at 8 Gb/s
constexpr std::uint64_t k8G = 8'000'000'000;

LinkQueue queue_of(const LinkModel& model) {
  LinkQueue queue;
  queue.set(model, Tick{});
  return queue;
}

}  // namespace

TEST_CASE("without a rate there is no queue") {
  const LinkQueue queue = queue_of({.delay = microseconds(3), .trim_at = 10});
  REQUIRE_FALSE(queue.rated());
  REQUIRE(queue.wait(Tick{5}) == 0);
  REQUIRE(queue.backlog_bytes(Tick{5}) == 0);
  REQUIRE(queue.serialisation(9000) == 0);
}

TEST_CASE("packets leave one after the other, at the rate") {
  LinkQueue queue = queue_of({.bps = k8G});
  REQUIRE(queue.push_data(Tick{100}, kData) == Tick{1100});
  REQUIRE(queue.push_data(Tick{100}, kData) == Tick{2100});
  REQUIRE(queue.push_data(Tick{600}, kData) == Tick{3100});
  REQUIRE(queue.wait(Tick{600}) == 2500);
  REQUIRE(queue.backlog_bytes(Tick{600}) == 2500);
  REQUIRE(queue.push_data(Tick{10'000}, kData) == Tick{11'000});  // idle in between
  REQUIRE(queue.peak_bytes() == 2500);
  queue.clear_peak();
  REQUIRE(queue.peak_bytes() == 0);
}

TEST_CASE("fractions of a nanosecond do not get lost") {
  for (const std::uint64_t gbps : {1u, 10u, 25u, 40u, 100u, 400u, 800u}) {
    LinkQueue queue = queue_of({.bps = gbps * 1'000'000'000});
    const int n = 100'000;
    for (int i = 0; i < n; ++i) queue.push_data(Tick{}, 4352);
    const double expected = n * (4352.0 + kFrameOverhead) * 8 / static_cast<double>(gbps);
    INFO(gbps);
    REQUIRE(std::abs(static_cast<double>(queue.wait(Tick{})) / expected - 1) < 1e-6);
  }
  LinkQueue slow = queue_of({.bps = 1});  // raised to 100 kb/s
  REQUIRE(slow.push_data(Tick{}, 65535) == Tick{(65535 + 38) * 80'000ll});
}

TEST_CASE("control goes before data, and the data behind it pays for it") {
  LinkQueue queue = queue_of({.bps = k8G});
  for (int i = 0; i < 10; ++i) queue.push_data(Tick{}, kData);  // out at 10 000
  // At 2300 the third packet has 700 ns left on the wire.
  const std::uint32_t small = 100 - kFrameOverhead;
  REQUIRE(queue.push_control(Tick{2300}, small) == Tick{3100});
  REQUIRE(queue.push_control(Tick{2300}, small) == Tick{3200});  // behind the first one, not behind the data
  REQUIRE(queue.control_bytes(Tick{2300}) == 900);
  REQUIRE(queue.push_data(Tick{2400}, kData) == Tick{11'200});  // 10 + 1 packets and both control packets
  LinkQueue idle = queue_of({.bps = k8G});
  REQUIRE(idle.push_control(Tick{50}, small) == Tick{150});
  REQUIRE(idle.push_data(Tick{50}, kData) == Tick{1150});
}

TEST_CASE("thresholds: trim what may be trimmed, drop the rest later") {
  LinkQueue queue = queue_of({.bps = k8G, .trim_at = 5000, .drop_at = 10'000, .control_limit = 300});
  Random random(1);
  for (int i = 0; i < 5; ++i) queue.push_data(Tick{}, kData);
  REQUIRE(queue.judge(Tick{}, true, true, random) == Verdict::kPass);  // 5000 is not above
  queue.push_data(Tick{}, kData);
  REQUIRE(queue.judge(Tick{}, true, true, random) == Verdict::kTrim);
  REQUIRE(queue.judge(Tick{}, true, false, random) == Verdict::kPass);
  for (int i = 0; i < 5; ++i) queue.push_data(Tick{}, kData);
  REQUIRE(queue.judge(Tick{}, true, false, random) == Verdict::kDrop);
  REQUIRE(queue.judge(Tick{}, true, true, random) == Verdict::kTrim);
  REQUIRE(queue.judge(Tick{6000}, true, true, random) == Verdict::kPass);  // it drained
  for (int i = 0; i < 4; ++i) {
    REQUIRE_FALSE(queue.control_full(Tick{}));
    queue.push_control(Tick{}, 100 - kFrameOverhead);
  }
  REQUIRE(queue.control_full(Tick{}));
  REQUIRE_FALSE(queue.control_full(Tick{200}));
}

TEST_CASE("every queue has a limit, also without thresholds") {
  LinkQueue queue = queue_of({.bps = 1'000'000});
  Random random(1);
  for (int i = 0; i < 200; ++i) {
    queue.push_data(Tick{}, 9000);
    queue.push_control(Tick{}, 9000);
  }
  REQUIRE(queue.judge(Tick{}, true, true, random) == Verdict::kDrop);
  REQUIRE(queue.control_full(Tick{}));
}

TEST_CASE("the chance of a mark rises from ecn_min to ecn_max") {
  Random random(7);
  for (const std::uint32_t backlog : {1000u, 2000u, 3000u, 5000u, 6000u, 7000u, 9000u}) {
    LinkQueue queue = queue_of({.bps = k8G, .ecn_min = 2000, .ecn_max = 6000});
    for (std::uint32_t i = 0; i < backlog; i += 1000) queue.push_data(Tick{}, kData);
    const int n = 20'000;
    int marks = 0;
    for (int i = 0; i < n; ++i) marks += queue.judge(Tick{}, true, true, random) == Verdict::kMark;
    const double p = std::clamp((backlog - 2000.0) / 4000, 0.0, 1.0);
    INFO(backlog << " bytes: " << marks);
    REQUIRE(std::abs(marks - n * p) <= 5 * std::sqrt(n * p * (1 - p)));
    REQUIRE(queue.judge(Tick{}, false, true, random) == Verdict::kPass);  // not ECN-capable
  }
}

TEST_CASE("a step instead of a ramp, and ECN off") {
  Random random(7);
  LinkQueue queue = queue_of({.bps = k8G, .ecn_min = 2000, .ecn_max = 2000});
  queue.push_data(Tick{}, kData);
  queue.push_data(Tick{}, kData);
  REQUIRE(queue.judge(Tick{}, true, true, random) == Verdict::kPass);
  queue.push_data(Tick{}, kData);
  REQUIRE(queue.judge(Tick{}, true, true, random) == Verdict::kMark);
  queue.set({.bps = k8G, .ecn_min = 2000}, Tick{});
  REQUIRE(queue.judge(Tick{}, true, true, random) == Verdict::kPass);
}

TEST_CASE("a change of rate keeps the bytes that wait") {
  LinkQueue queue = queue_of({.bps = k8G});
  for (int i = 0; i < 10; ++i) queue.push_data(Tick{}, kData);
  queue.set({.bps = k8G / 4}, Tick{2000});
  REQUIRE(queue.backlog_bytes(Tick{2000}) == 8000);
  REQUIRE(queue.wait(Tick{2000}) == 32'000);
  REQUIRE(queue.peak_bytes() == 10'000);
  queue.set({.bps = k8G}, Tick{10'000});
  REQUIRE(queue.backlog_bytes(Tick{10'000}) == 6000);
  queue.set({}, Tick{11'000});
  REQUIRE(queue.wait(Tick{11'000}) == 0);
  REQUIRE(queue.peak_bytes() == 10'000);
}

TEST_CASE("the models of mrc-protocol §4") {
  // 100 Gb/s × 8 us: a BDP of 100 000 bytes.
  const auto inner = link_model(LinkRole::kInner, 100'000'000'000, microseconds(8), microseconds(1));
  REQUIRE(inner == LinkModel{.bps = 100'000'000'000,
                             .delay = microseconds(1),
                             .ecn_min = 20'000,
                             .ecn_max = 80'000,
                             .trim_at = 100'000,
                             .drop_at = 300'000,
                             .control_limit = 100'000});
  const auto last = link_model(LinkRole::kToNic, 100'000'000'000, microseconds(8));
  REQUIRE(last.ecn_max == 0);
  REQUIRE(last.trim_at == 150'000);
  REQUIRE(last.drop_at == 400'000);
  const auto host = link_model(LinkRole::kFromNic, 100'000'000'000, microseconds(8));
  REQUIRE(host.trim_at + host.drop_at + host.ecn_max == 0);
  REQUIRE(link_model(LinkRole::kInner, 1'000'000, microseconds(8)).trim_at == 8 * 4352);  // at least eight frames
  REQUIRE(link_model(LinkRole::kInner, 0, microseconds(8)) == LinkModel{});
}

TEST_CASE(
    "whatever arrives when: the link's work is exact, classes leave in order, control waits for one data packet") {
  REQUIRE(rc::check([](std::uint64_t seed) {
    Random random(seed);
    const std::uint64_t bps = 1'000'000'000ull * (1 + random.below(400));
    const double per_byte = 8e9 / static_cast<double>(bps);
    const std::uint32_t largest = 9000;
    LinkQueue queue = queue_of({.bps = bps});
    std::int64_t now = random.below(1000), last_data = 0, last_control = 0;
    double free = 0;
    for (int i = 0; i < 2000; ++i) {
      now += random.below(4) == 0 ? random.below(3000) : random.below(100);
      const std::uint32_t bytes = 60 + random.below(largest - 60);
      free = std::max(free, static_cast<double>(now)) + (bytes + kFrameOverhead) * per_byte;
      const bool control = random.below(4) == 0;
      const std::int64_t ahead = queue.control_wait(Tick{now});
      const std::int64_t out = (control ? queue.push_control(Tick{now}, bytes) : queue.push_data(Tick{now}, bytes)).ns;
      std::int64_t& last = control ? last_control : last_data;
      RC_ASSERT(out >= last);
      last = out;
      const std::int64_t waited = out - now - queue.serialisation(bytes);
      RC_ASSERT(waited >= -1);
      if (control) RC_ASSERT(waited <= ahead + queue.serialisation(largest) + 1);
      const double busy = free - static_cast<double>(now);
      RC_ASSERT(std::abs(static_cast<double>(queue.wait(Tick{now})) - busy) <= 2 + busy * 1e-6);
    }
  }));
}
