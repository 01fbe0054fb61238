// SPDX-License-Identifier: BSD-2-Clause
// EV sets: drawing, the walk, and the states against a simple model under random operations.
#include "mrc/path/ev_set.hpp"

#include <rapidcheck.h>

#include <map>
#include <set>
#include <vector>

#include "support/catch.hpp"

using namespace mrc;
using path::EvState;

namespace {

struct Fixture {
  Random random;
  path::Route route;
  path::EvParams params;
  std::vector<path::Ev> storage;
  path::EvSet set;

  Fixture(std::uint64_t seed, unsigned planes, unsigned count, path::RouteMode mode = path::RouteMode::kSrv6,
          wire::EvSplit split = wire::EvSplit::kHighInPort, unsigned floor = 8)
      : random(seed) {
    route.mode = mode;
    route.planes = static_cast<std::uint8_t>(planes);
    route.uplinks = 4;
    params.per_connection = static_cast<std::uint16_t>(count);
    params.min_active = static_cast<std::uint16_t>(floor);
    storage.resize(path::EvSet::size_for(params, planes));
    set = path::EvSet(route, split, params, storage, random);
  }
  unsigned count(EvState state) const {
    unsigned n = 0;
    for (const auto& ev : set.all()) n += ev.state == state;
    return n;
  }
};

}  // namespace

TEST_CASE("EVs are distinct, equal in number per plane and per uplink, and found by value") {
  for (const auto split : {wire::EvSplit::kHighInPort, wire::EvSplit::kLowInPort}) {
    for (const auto mode : {path::RouteMode::kSrv6, path::RouteMode::kEcmp}) {
      for (unsigned planes = 1; planes <= 8; ++planes) {
        Fixture f(planes, planes, 250, mode, split);
        REQUIRE(f.set.size() >= 250);
        REQUIRE(f.set.size() < 250 + planes);
        std::set<std::uint32_t> values;
        std::map<unsigned, unsigned> per_plane;
        std::map<unsigned, unsigned> per_path;
        for (unsigned i = 0; i < f.set.size(); ++i) {
          const auto& ev = f.set.all()[i];
          values.insert(ev.value);
          ++per_plane[ev.plane];
          if (mode == path::RouteMode::kSrv6) {
            REQUIRE(path::EvLayout::plane(ev.value) == ev.plane);
            ++per_path[ev.plane << 8 | path::EvLayout::uplink(ev.value)];
          } else {
            REQUIRE((split == wire::EvSplit::kHighInPort ? ev.value >> 16 : ev.value & 0xffff) >= 0xC000);
          }
          REQUIRE(f.set.find(ev.value) == i);
          REQUIRE_FALSE(f.set.find(ev.value ^ 0x100000));
        }
        REQUIRE(values.size() == f.set.size());
        for (const auto& [plane, n] : per_plane) REQUIRE(n == f.set.size() / planes);
        for (const auto& [path, n] : per_path) {
          REQUIRE(n >= f.set.per_plane() / 4);
          REQUIRE(n <= f.set.per_plane() / 4 + 1);
        }
      }
    }
  }
}

TEST_CASE("one rotation takes each EV once, planes stay equal, picks in a row differ, the order is re-drawn") {
  for (unsigned planes : {1u, 3u, 4u, 8u}) {
    Fixture f(100 + planes, planes, 128);
    std::uint32_t last = 0;
    std::vector<std::uint16_t> order[3];
    for (auto& rotation : order) {
      std::set<std::uint16_t> seen;
      for (unsigned i = 0; i < f.set.size(); ++i) {
        const auto pick = f.set.next(~0u, f.random);
        REQUIRE(pick);
        REQUIRE(pick->ev != last);
        REQUIRE(f.set.all()[pick->index].value == pick->ev);
        REQUIRE(f.set.all()[pick->index].plane == pick->plane);
        last = pick->ev;
        seen.insert(pick->index);
        rotation.push_back(pick->index);
        if ((i + 1) % planes == 0) REQUIRE(seen.size() == i + 1);
      }
      REQUIRE(seen.size() == f.set.size());
    }
    REQUIRE(order[0] != order[1]);
    REQUIRE(order[1] != order[2]);
  }
}

TEST_CASE("a plane with dead EVs still takes its full share, on its other EVs") {
  Fixture f(5, 4, 128);
  for (unsigned i = 0; i < f.set.size(); ++i) {
    if (f.set.all()[i].plane == 2 && i % 4 != 0) f.set.on_lost(static_cast<std::uint16_t>(i), Tick{0});
  }
  std::map<unsigned, unsigned> share;
  for (int i = 0; i < 4000; ++i) {
    const auto pick = f.set.next(~0u, f.random);
    REQUIRE(pick);
    REQUIRE(f.set.all()[pick->index].state == EvState::kGood);
    ++share[pick->plane];
  }
  for (unsigned plane = 0; plane < 4; ++plane) REQUIRE(share[plane] == 1000);
}

TEST_CASE("with a plane masked out the others share evenly; nothing usable is nullopt") {
  Fixture f(6, 4, 128);
  std::map<unsigned, unsigned> share;
  for (int i = 0; i < 3000; ++i) ++share[f.set.next(0b1101, f.random)->plane];
  REQUIRE(share[0] == 1000);
  REQUIRE(share.count(1) == 0);
  REQUIRE(share[2] == 1000);
  REQUIRE(share[3] == 1000);
  REQUIRE_FALSE(f.set.next(0, f.random));
  REQUIRE_FALSE(f.set.next(0xf0, f.random));
}

TEST_CASE("a retransmission avoids its plane where there is another") {
  Fixture f(7, 2, 16);
  for (int i = 0; i < 100; ++i) REQUIRE(f.set.next(~0u, f.random, 0)->plane == 1);
  REQUIRE(f.set.next(0b01, f.random, 0)->plane == 0);
}

TEST_CASE("SKIP lasts for about one rotation") {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    Fixture f(seed, 4, 128);
    const auto pick = f.set.next(~0u, f.random);
    f.set.on_ecn(pick->index);
    REQUIRE(f.set.all()[pick->index].state == EvState::kSkip);
    REQUIRE(f.set.good() == f.set.size() - 1);
    unsigned until = 0;
    while (f.set.next(~0u, f.random)->index != pick->index) ++until;
    INFO("seed " << seed);
    REQUIRE(until >= f.set.size() / 2);
    REQUIRE(until <= 3 * f.set.size());
    REQUIRE(f.set.good() == f.set.size());
  }
  Fixture f(1, 4, 128);  // every EV marked: the walk still goes on
  for (unsigned i = 0; i < f.set.size(); ++i) f.set.on_trim(static_cast<std::uint16_t>(i));
  REQUIRE(f.set.good() == 0);
  REQUIRE(f.set.next(~0u, f.random));
}

TEST_CASE("a lost EV is out at once and back after enough probe answers") {
  Fixture f(8, 4, 128);
  const Tick now{1000};
  REQUIRE(f.set.next_probe() == kNever);
  f.set.on_lost(17, now);
  REQUIRE(f.set.all()[17].state == EvState::kAssumedBad);
  for (int i = 0; i < 1000; ++i) REQUIRE(f.set.next(~0u, f.random)->index != 17);
  REQUIRE_FALSE(f.set.due_probe(now, f.random));
  Tick at = f.set.next_probe();
  REQUIRE(at == now + f.params.probe_interval);
  for (int i = 0; i < 100; ++i) {
    const auto probe = f.set.due_probe(at, f.random);
    REQUIRE(probe);
    REQUIRE(probe->index == 17);
    const Duration gap = f.set.next_probe() - at;
    REQUIRE(gap >= f.params.probe_interval * 3 / 4);
    REQUIRE(gap <= f.params.probe_interval * 5 / 4);
    at = f.set.next_probe();
  }
  f.set.on_probe_answer(17);
  f.set.on_probe_lost(17);
  f.set.on_probe_answer(17);
  REQUIRE(f.set.all()[17].state == EvState::kAssumedBad);
  f.set.on_probe_answer(17);
  REQUIRE(f.set.all()[17].state == EvState::kGood);
  REQUIRE(f.set.next_probe() == kNever);
  f.set.on_lost(17, now);
  f.set.on_spurious(17);
  REQUIRE(f.set.all()[17].state == EvState::kGood);
}

TEST_CASE("probes go round the bad EVs of planes that are up") {
  Fixture f(9, 2, 16);
  for (std::uint16_t i = 0; i < 4; ++i) f.set.on_lost(i, Tick{0});
  f.set.on_lost(12, Tick{0});  // plane 1
  std::set<std::uint16_t> probed;
  Tick at = f.set.next_probe();
  for (int i = 0; i < 5; ++i, at = f.set.next_probe()) probed.insert(f.set.due_probe(at, f.random)->index);
  REQUIRE(probed == std::set<std::uint16_t>{0, 1, 2, 3, 12});
  for (int i = 0; i < 5; ++i, at = f.set.next_probe()) REQUIRE(f.set.due_probe(at, f.random, 0b10)->plane == 1);
}

TEST_CASE("below the floor the oldest bad EVs are used, and one that loses again makes way") {
  Fixture f(10, 4, 32, path::RouteMode::kSrv6, wire::EvSplit::kHighInPort, 8);
  for (std::uint16_t i = 0; i < 32; ++i) f.set.on_lost(i, Tick{i});
  REQUIRE(f.set.good() == 0);
  std::set<std::uint16_t> used;
  for (int i = 0; i < 400; ++i) used.insert(f.set.next(~0u, f.random)->index);
  REQUIRE(used == std::set<std::uint16_t>{0, 1, 2, 3, 4, 5, 6, 7});
  f.set.on_lost(3, Tick{100});
  used.clear();
  for (int i = 0; i < 400; ++i) used.insert(f.set.next(~0u, f.random)->index);
  REQUIRE(used == std::set<std::uint16_t>{0, 1, 2, 4, 5, 6, 7, 8});
  for (std::uint16_t i = 20; i < 28; ++i) f.set.on_spurious(i);
  used.clear();
  for (int i = 0; i < 400; ++i) used.insert(f.set.next(~0u, f.random)->index);
  REQUIRE(used == std::set<std::uint16_t>{20, 21, 22, 23, 24, 25, 26, 27});
}

TEST_CASE("EVs of planes that are down do not count for the floor") {
  Fixture f(11, 2, 32);
  for (std::uint16_t i = 0; i < 16; ++i) f.set.on_lost(i, Tick{0});  // all of plane 0
  REQUIRE_FALSE(f.set.next(0b01, f.random));                         // plane 1 is up, only without room: wait for it
  const auto pick = f.set.next(0b01, f.random, -1, 0b01);
  REQUIRE(pick);
  REQUIRE(pick->plane == 0);
}

TEST_CASE("random operations: states follow the model, DENIED is never picked, the floor holds") {
  REQUIRE(rc::check([](std::uint64_t seed) {
    const auto planes = *rc::gen::inRange(1u, 9u);
    const auto per = *rc::gen::inRange(1u, 40u);
    const auto floor = *rc::gen::inRange(0u, 20u);
    Fixture f(seed, planes, planes * per, path::RouteMode::kSrv6, wire::EvSplit::kHighInPort, floor);
    const unsigned size = f.set.size();
    struct Model {
      EvState state = EvState::kGood;
      unsigned answers = 0;
    };
    std::vector<Model> model(size);
    Random ops(seed ^ 0x5555);
    const unsigned bias = ops.below(4);  // 0: mostly picks; more: mostly losses
    for (int step = 0; step < 600; ++step) {
      const auto i = static_cast<std::uint16_t>(ops.below(size));
      auto& m = model[i];
      const bool movable = m.state != EvState::kDenied;
      switch (ops.below(8 + 6 * bias)) {
        case 0:
          f.set.on_ecn(i);
          if (m.state == EvState::kGood) m.state = EvState::kSkip;
          break;
        case 1:
          f.set.on_spurious(i);
          if (m.state == EvState::kAssumedBad) m = {};
          break;
        case 2:
          f.set.on_probe_answer(i);
          if (m.state == EvState::kAssumedBad && ++m.answers == f.params.probes_to_restore) m = {};
          break;
        case 3:
          f.set.on_probe_lost(i);
          m.answers = 0;
          break;
        case 4:
          if (ops.below(4) == 0) {
            f.set.deny(i);
            m = {EvState::kDenied, 0};
          } else if (ops.below(4) == 0) {
            f.set.permit(i);
            if (!movable) m = {};
          }
          break;
        case 5:
        case 6: {
          const std::uint32_t mask = ops.below(2) ? ~0u : ops.below(256);
          const auto pick = f.set.next(mask, f.random, static_cast<int>(ops.below(10)) - 1);
          if (pick) {
            RC_ASSERT(mask >> pick->plane & 1);
            RC_ASSERT(f.set.all()[pick->index].value == pick->ev);
            RC_ASSERT(model[pick->index].state != EvState::kDenied);
            RC_ASSERT(model[pick->index].state != EvState::kAssumedBad || f.set.all()[pick->index].conscripted);
          }
          for (unsigned k = 0; k < size; ++k) {  // the walk may end SKIPs, and nothing else
            if (model[k].state == EvState::kSkip && f.set.all()[k].state == EvState::kGood) model[k] = {};
          }
          if (mask == ~0u) {
            unsigned usable = 0, denied = 0;
            for (const auto& ev : f.set.all()) {
              usable += ev.state == EvState::kGood || ev.state == EvState::kSkip || ev.conscripted;
              denied += ev.state == EvState::kDenied;
            }
            RC_ASSERT(usable >= std::min(floor, size - denied));
            RC_ASSERT(pick.has_value() == (usable != 0));
          }
          break;
        }
        default:
          f.set.on_lost(i, Tick{step});
          if (movable) m = {EvState::kAssumedBad, 0};
          break;
      }
      unsigned good = 0, bad = 0, denied = 0;
      for (unsigned k = 0; k < size; ++k) {
        RC_ASSERT(f.set.all()[k].state == model[k].state);
        good += model[k].state == EvState::kGood;
        bad += model[k].state == EvState::kAssumedBad;
        denied += model[k].state == EvState::kDenied;
      }
      RC_ASSERT(f.set.good() == good);
      RC_ASSERT(f.set.bad() == bad);
      RC_ASSERT(f.set.denied() == denied);
      RC_ASSERT((f.set.next_probe() == kNever) == (bad == 0));
    }
  }));
}

TEST_CASE("too little storage gives a smaller set, none an empty one") {
  Random random(1);
  path::Route route;
  route.planes = 4;
  std::vector<path::Ev> storage(18);
  path::EvSet small(route, wire::EvSplit::kHighInPort, {}, storage, random);
  REQUIRE(small.size() == 16);
  path::EvSet none(route, wire::EvSplit::kHighInPort, {}, std::span(storage).first(3), random);
  REQUIRE(none.size() == 0);
  REQUIRE_FALSE(none.next(~0u, random));
  REQUIRE_FALSE(none.find(5));
  none.on_lost(0, Tick{0});
  REQUIRE_FALSE(none.due_probe(Tick{1}, random));
  REQUIRE_FALSE(path::EvSet().next(~0u, random));
}
