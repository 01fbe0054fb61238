// SPDX-License-Identifier: BSD-2-Clause
// Deadlines and round-trip estimates.
#include <rapidcheck.h>

#include <map>

#include "mrc/random.hpp"
#include "mrc/transport/rtt.hpp"
#include "mrc/transport/timers.hpp"
#include "support/catch.hpp"

namespace mrc::transport {

TEST_CASE("deadlines against a map") {
  REQUIRE(rc::check([] {
    constexpr std::uint32_t kItems = 50;
    std::vector<std::byte> memory(DeadlineHeap::bytes(kItems));
    Arena arena(memory);
    DeadlineHeap heap(arena, kItems);
    std::map<std::uint32_t, Tick> model;
    Random random(*rc::gen::arbitrary<std::uint64_t>());
    for (int i = 0; i < 500; ++i) {
      const std::uint32_t id = random.below(kItems);
      if (random.chance(0.25)) {
        heap.set(id, kNever);
        model.erase(id);
      } else {
        const Tick when{random.below(1000)};
        heap.set(id, when);
        model[id] = when;
      }
      RC_ASSERT(heap.size() == model.size());
      Tick earliest = kNever;
      for (const auto& [key, when] : model) {
        earliest = std::min(earliest, when);
        RC_ASSERT(heap.when(key) == when);
      }
      RC_ASSERT(heap.next() == earliest);
      if (!model.empty()) RC_ASSERT(model.at(heap.top()) == earliest);
    }
  }));
}

TEST_CASE("round-trip time") {
  Rtt rtt;
  REQUIRE(rtt.srtt() == milliseconds(1));
  for (int i = 0; i < 100; ++i) rtt.sample(microseconds(10));
  REQUIRE(rtt.srtt() == microseconds(10));
  REQUIRE(rtt.variation() < microseconds(1));
  REQUIRE(rtt.rto(milliseconds(20), seconds(1)) == milliseconds(20));
  for (int i = 0; i < 100; ++i) rtt.sample(milliseconds(30 + i % 2 * 20));
  REQUIRE(rtt.srtt() > milliseconds(30));
  REQUIRE(rtt.rto(milliseconds(20), seconds(1)) > milliseconds(50));
  REQUIRE(rtt.rto(milliseconds(20), milliseconds(60)) == milliseconds(60));
  REQUIRE(rtt.min() <= microseconds(10));
  rtt.sample(nanoseconds(-5));
  REQUIRE(rtt.srtt() > milliseconds(30));
}

}  // namespace mrc::transport
