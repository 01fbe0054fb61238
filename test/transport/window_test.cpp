// SPDX-License-Identifier: BSD-2-Clause
// Receive and send windows against plain models (std::set), across the wrap of the 24-bit PSN.
#include <rapidcheck.h>

#include <map>
#include <set>

#include "mrc/random.hpp"
#include "mrc/transport/tx_window.hpp"
#include "support/catch.hpp"

namespace mrc::transport {
namespace {

constexpr std::uint32_t kSizes[] = {128, 256, 1024, 4096};

/// First PSNs close below the wrap as often as anywhere.
std::uint32_t first_psn() {
  return *rc::gen::oneOf(rc::gen::inRange<std::uint32_t>(0, 1u << 24),
                         rc::gen::inRange<std::uint32_t>((1u << 24) - 300, 1u << 24),
                         rc::gen::inRange<std::uint32_t>(0, 3));
}

}  // namespace

TEST_CASE("PSNs are continued across the wrap") {
  REQUIRE(rc::check([] {
    const auto near = *rc::gen::inRange<std::uint64_t>(1u << 24, std::uint64_t{1} << 40);
    const auto away = *rc::gen::inRange<std::int64_t>(-(1 << 23), 1 << 23);
    const std::uint64_t seq = near + static_cast<std::uint64_t>(away);
    RC_ASSERT(expand_psn(static_cast<std::uint32_t>(seq) & wire::kPsnMask, near) == seq);
  }));
}

TEST_CASE("receive window against a set") {
  REQUIRE(rc::check([] {
    const std::uint32_t size = kSizes[*rc::gen::inRange(0, 4)];
    std::vector<std::uint64_t> words(size / 64);
    RxWindow window(words);
    const std::uint32_t psn = first_psn();
    window.reset(psn);
    std::set<std::uint64_t> arrived;
    std::uint64_t next = first_sequence(psn);
    const int steps = *rc::gen::inRange(1, 600);
    const std::uint64_t spread = static_cast<std::uint64_t>(*rc::gen::inRange<std::uint32_t>(1, size + 40));
    Random random(*rc::gen::arbitrary<std::uint64_t>());
    for (int i = 0; i < steps; ++i) {
      const std::uint64_t seq = next - 20 + random.below(static_cast<std::uint32_t>(spread) + 20);
      RC_ASSERT(window.expand(static_cast<std::uint32_t>(seq) & wire::kPsnMask) == seq);
      const auto arrival = window.classify(seq);
      if (seq < next || arrived.contains(seq)) {
        RC_ASSERT(arrival == RxWindow::Arrival::kDuplicate);
      } else if (seq >= next + size) {
        RC_ASSERT(arrival == RxWindow::Arrival::kOutside);
      } else {
        RC_ASSERT(arrival == RxWindow::Arrival::kNew);
        window.mark(seq);
        arrived.insert(seq);
        while (arrived.contains(next)) arrived.erase(next++);
      }
      RC_ASSERT(window.next() == next);
      if (!arrived.empty()) RC_ASSERT(window.high() == *arrived.rbegin() + 1);
      RC_ASSERT(window.out_of_order() == arrived.size());
      const std::uint64_t base = next + random.below(size);
      const std::uint64_t bits = window.bits_from(base);
      for (unsigned b = 0; b < 64; ++b) RC_ASSERT(((bits >> b & 1) != 0) == arrived.contains(base + b));
    }
  }));
}

TEST_CASE("reports cover all that arrived") {
  REQUIRE(rc::check([] {
    const std::uint32_t size = kSizes[*rc::gen::inRange(0, 4)];
    std::vector<std::uint64_t> words(size / 64);
    RxWindow window(words);
    window.reset(first_psn());
    Random random(*rc::gen::arbitrary<std::uint64_t>());
    for (int round = 0; round < 5; ++round) {
      std::set<std::uint64_t> fresh;
      for (int i = 0; i < 40; ++i) {
        const std::uint64_t seq = window.next() + random.below(size);
        if (window.classify(seq) == RxWindow::Arrival::kNew) {
          window.mark(seq);
          fresh.insert(seq);
        }
      }
      if (random.chance(0.3)) window.touch_all();
      int reports = 0;
      do {
        const std::uint64_t base = window.take_report();
        RC_ASSERT(base >= window.next());
        for (unsigned b = 0; b < 64; ++b) fresh.erase(base + b);
      } while (window.more_reports() && ++reports < 500);
      RC_ASSERT(reports < 200);
      for (const auto seq : fresh) RC_ASSERT(seq < window.next());
    }
  }));
}

TEST_CASE("send window against a model") {
  REQUIRE(rc::check([] {
    const std::uint32_t size = kSizes[*rc::gen::inRange(0, 3)];
    std::vector<TxSegment> items(size / 64 * 2 + 2);
    std::vector<std::uint32_t> links(items.size());
    SegmentPool pool(items, links);
    std::vector<TxSlot> slots(TxWindow::slots_for(size));
    TxWindow window(slots);
    const std::uint32_t psn = first_psn();
    window.reset(pool, psn);
    std::set<std::uint64_t> open, lost;
    std::uint64_t next = first_sequence(psn);
    Random random(*rc::gen::arbitrary<std::uint64_t>());
    const auto acknowledged = [&](std::uint64_t seq, TxRecord& record) {
      RC_ASSERT(record.packet == static_cast<std::uint32_t>(seq));
      RC_ASSERT(open.erase(seq) == 1);
      lost.erase(seq);
    };
    for (int step = 0; step < 400; ++step) {
      switch (random.below(6)) {
        case 0:
        case 1:
          for (unsigned n = random.below(40); n > 0 && window.span() < size; --n) {
            RC_ASSERT(window.prepare(pool));
            if (random.chance(0.1)) {
              window.unprepare(pool);
              RC_ASSERT(window.prepare(pool));
            }
            const std::uint64_t seq = window.push();
            RC_ASSERT(seq == next++);
            TxRecord& record = window.record(pool, seq);
            record.packet = static_cast<std::uint32_t>(seq);
            RC_ASSERT(&TxWindow::at(pool, window.number(seq)) == &record);
            RC_ASSERT(TxWindow::sequence(pool, window.number(seq)) == seq);
            open.insert(seq);
          }
          break;
        case 2:
        case 3: {
          const std::uint64_t base = window.una() - 70 + random.below(static_cast<std::uint32_t>(window.span()) + 140);
          const std::uint64_t bits = random.next() & random.next();
          std::set<std::uint64_t> expected;
          for (unsigned b = 0; b < 64; ++b) {
            if ((bits >> b & 1) && open.contains(base + b)) expected.insert(base + b);
          }
          window.acknowledge(pool, base, bits, acknowledged);
          for (const auto seq : expected) RC_ASSERT(!open.contains(seq));
          window.advance(pool);
          window.note_report(pool, base, Tick{step});
          break;
        }
        case 4:
          if (random.chance(0.3)) {
            const std::uint64_t end = window.una() + random.below(static_cast<std::uint32_t>(window.span()) + 5);
            window.acknowledge_below(pool, end, acknowledged);
            if (!open.empty()) RC_ASSERT(*open.begin() >= std::min(end, next));
            window.advance(pool);
          }
          break;
        default:
          if (!open.empty()) {
            auto it = open.lower_bound(*open.begin() + random.below(static_cast<std::uint32_t>(window.span())));
            if (it == open.end()) it = open.begin();
            window.mark_lost(pool, *it);
            lost.insert(*it);
            RC_ASSERT(window.oldest_lost(pool) == *lost.begin());
            if (random.chance(0.5)) {
              window.clear_lost(pool, *lost.begin());
              lost.erase(lost.begin());
            }
          }
      }
      RC_ASSERT(window.una() == (open.empty() ? next : *open.begin()));
      RC_ASSERT(window.lost() == lost.size());
      if (!lost.empty()) RC_ASSERT(window.oldest_lost(pool) == *lost.begin());
      for (const auto seq : open) RC_ASSERT(window.contains(seq) && !window.acked(pool, seq));
    }
    window.acknowledge_below(pool, next, acknowledged);
    window.advance(pool);
    RC_ASSERT(pool.available() == pool.size());
    window.reset(pool, 5);
    RC_ASSERT(pool.available() == pool.size());
  }));
}

}  // namespace mrc::transport
