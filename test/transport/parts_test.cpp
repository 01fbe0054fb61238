// SPDX-License-Identifier: BSD-2-Clause
// Deadlines, round-trip estimates and the fixed window.
#include <rapidcheck.h>

#include <map>

#include "mrc/random.hpp"
#include "mrc/transport/cc.hpp"
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

TEST_CASE("fixed window") {
  FixedWindow cc(64000);
  REQUIRE(cc.can_send(0, 100000));  // a packet always goes out when nothing is in flight
  REQUIRE(cc.can_send(60000, 4000));
  REQUIRE(!cc.can_send(60001, 4000));
  SECTION("gives way to loss and grows back") {
    for (int i = 0; i < 1000; ++i) cc.on_loss(1000);
    REQUIRE(cc.window() == 4000);
    for (int i = 0; i < 1000; ++i) cc.on_ack(1000, Duration{-1}, false);
    REQUIRE(cc.window() == 64000);
  }
  SECTION("stays full at one loss in ten") {
    for (int i = 0; i < 10000; ++i) {
      if (i % 10 == 0) {
        cc.on_loss(1000);
      } else {
        cc.on_ack(1000, Duration{-1}, false);
      }
    }
    REQUIRE(cc.window() >= 62000);
  }
  SECTION("time-outs halve it down to a floor") {
    for (int i = 0; i < 20; ++i) cc.on_timeout();
    REQUIRE(cc.window() == 4000);
  }
  SECTION("is counted in packets") {
    cc.on_timeout();
    cc.resize(256000);
    REQUIRE(cc.window() == 128000);
  }
}

}  // namespace mrc::transport
