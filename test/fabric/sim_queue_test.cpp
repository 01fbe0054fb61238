// SPDX-License-Identifier: BSD-2-Clause
// The simulator's heap against a sorted set, and its store of packets.
#include "mrc/fabric/sim_queue.hpp"

#include <rapidcheck.h>

#include <set>

#include "mrc/fabric/sim_packets.hpp"
#include "mrc/random.hpp"
#include "support/catch.hpp"

using namespace mrc;
using namespace mrc::fabric;

TEST_CASE("events come by time, then in the order they were scheduled") {
  REQUIRE(rc::check([](std::uint64_t seed) {
    Random random(seed);
    SimQueue queue;
    std::set<std::tuple<std::int64_t, std::uint32_t, SimEvent>> expected;  // index counts up
    std::uint32_t pushed = 0;
    for (int i = 0; i < 2000; ++i) {
      RC_ASSERT(queue.size() == expected.size());
      if (expected.empty() || random.below(100) < 52) {
        const Tick when{random.below(4) == 0 ? 7 : static_cast<std::int64_t>(random.below(50))};
        const auto kind = static_cast<SimEvent>(random.below(5));
        queue.push(when, kind, pushed);
        expected.emplace(when.ns, pushed++, kind);
        continue;
      }
      const auto [when, index, kind] = *expected.begin();
      RC_ASSERT(queue.soon().size() == std::min<std::size_t>(expected.size(), 5));
      RC_ASSERT(queue.front().index() == index);
      const Scheduled got = queue.take();
      RC_ASSERT(got.when == when);
      RC_ASSERT(got.index() == index);
      RC_ASSERT(got.kind() == kind);
      expected.erase(expected.begin());
    }
    RC_ASSERT(queue.pushed() == pushed);
  }));
}

TEST_CASE("packets keep their bytes while others come and go; long ones get memory of their own") {
  SimPackets packets(300, 1500);
  Random random(5);
  std::vector<std::pair<std::uint32_t, std::byte>> held;
  for (int i = 0; i < 5000; ++i) {
    if (held.empty() || random.below(100) < 55) {
      std::size_t length = random.below(50) == 0 ? 9000 : 40 + random.below(1400);
      const bool twin = !held.empty() && random.below(5) == 0;
      if (twin) length = packets[held[0].first].flight.length;
      const std::uint32_t index = twin ? packets.copy(held[0].first) : packets.take(length);
      SimPacket& packet = packets[index];
      if (twin) {
        const auto bytes = packet.held();
        REQUIRE(std::equal(bytes.begin(), bytes.end(), packets[held[0].first].held().begin()));
      }
      packet.flight.length = static_cast<std::uint32_t>(length);
      packet.written = static_cast<std::uint32_t>(std::min<std::size_t>(length, 300));
      const auto fill = static_cast<std::byte>(random.next());
      std::fill(packet.held().begin(), packet.held().end(), fill);
      REQUIRE(packet.l3().size() == length);
      REQUIRE(packet.capacity >= length);
      held.emplace_back(index, fill);
    } else {
      const std::size_t which = random.below(static_cast<std::uint32_t>(held.size()));
      const auto [index, fill] = held[which];
      const auto bytes = packets[index].held();
      REQUIRE(std::all_of(bytes.begin(), bytes.end(), [fill = fill](std::byte b) { return b == fill; }));
      packets.drop(index);
      held.erase(held.begin() + static_cast<std::ptrdiff_t>(which));
    }
    REQUIRE(packets.in_use() == held.size());
  }
}
