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
          wire::EvSplit split = wire::EvSplit::kHighInPort, unsigned floor = 8, std::uint8_t backups = 8,
          bool across_t1s = false)
      : random(seed) {
    route.mode = mode;
    route.planes = static_cast<std::uint8_t>(planes);
    route.uplinks = 4;
    route.remote.t0 = across_t1s;
    params.per_connection = static_cast<std::uint16_t>(count);
    params.min_active = static_cast<std::uint16_t>(floor);
    params.backup_divisor = backups;
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
        REQUIRE(f.set.active() >= 250);
        REQUIRE(f.set.active() < 250 + planes);
        std::set<std::uint32_t> values;
        std::map<unsigned, unsigned> per_plane;
        std::map<unsigned, unsigned> per_path;
        REQUIRE(f.set.all().size() == f.set.stride() * planes);
        REQUIRE(f.set.stride() == f.set.per_plane() + (f.set.per_plane() + 7) / 8);
        for (unsigned i = 0; i < f.set.all().size(); ++i) {
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
        REQUIRE(values.size() == f.set.all().size());
        for (const auto& [plane, n] : per_plane) REQUIRE(n == f.set.stride());
        for (const auto& [path, n] : per_path) {
          REQUIRE(n >= f.set.stride() / 4);
          REQUIRE(n <= f.set.stride() / 4 + 1);
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
      for (unsigned i = 0; i < f.set.active(); ++i) {
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
      REQUIRE(seen.size() == f.set.active());
    }
    REQUIRE(order[0] != order[1]);
    REQUIRE(order[1] != order[2]);
  }
}

TEST_CASE("a plane with dead EVs still takes its full share, on its other EVs") {
  Fixture f(5, 4, 128);
  for (unsigned i = 0; i < f.set.all().size(); ++i) {
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
    REQUIRE(f.set.good() == f.set.all().size() - 1);
    unsigned until = 0;
    while (f.set.next(~0u, f.random)->index != pick->index) ++until;
    INFO("seed " << seed);
    REQUIRE(until >= f.set.active() / 2);
    REQUIRE(until <= 3 * f.set.active());
    REQUIRE(f.set.good() == f.set.all().size());
  }
  Fixture f(1, 4, 128);  // every EV marked: the walk still goes on
  for (unsigned i = 0; i < f.set.all().size(); ++i) f.set.on_trim(static_cast<std::uint16_t>(i));
  REQUIRE(f.set.good() == f.set.all().size() - f.set.active());  // the backups, which carried nothing
  REQUIRE(f.set.next(~0u, f.random));
}

TEST_CASE("an EV that is marked again each time it is used is used less and less, and comes back when it is not") {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    Fixture f(seed, 4, 128);
    const std::uint16_t busy = f.set.next(~0u, f.random)->index;
    const auto uses = [&](int rotations, bool marked) {
      unsigned n = 0;
      for (unsigned i = 0; i < static_cast<unsigned>(rotations) * f.set.active(); ++i) {
        if (f.set.next(~0u, f.random)->index != busy) continue;
        ++n;
        if (marked) f.set.on_ecn(busy);
      }
      return n;
    };
    INFO("seed " << seed);
    REQUIRE(uses(100, true) <= 10);
    REQUIRE(uses(400, true) <= 20);
    uses(200, false);  // the last SKIP runs out, and the record fades
    REQUIRE(uses(100, false) >= 95);
  }
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
  Fixture f(9, 2, 16, path::RouteMode::kSrv6, wire::EvSplit::kHighInPort, 8, 0);
  for (std::uint16_t i = 0; i < 4; ++i) f.set.on_lost(i, Tick{0});
  f.set.on_lost(12, Tick{0});  // plane 1
  std::set<std::uint16_t> probed;
  Tick at = f.set.next_probe();
  for (int i = 0; i < 5; ++i, at = f.set.next_probe()) probed.insert(f.set.due_probe(at, f.random)->index);
  REQUIRE(probed == std::set<std::uint16_t>{0, 1, 2, 3, 12});
  for (int i = 0; i < 5; ++i, at = f.set.next_probe()) REQUIRE(f.set.due_probe(at, f.random, 0b10)->plane == 1);
}

TEST_CASE("with everything bad each plane keeps its floor, and an EV that loses again makes way") {
  Fixture f(10, 4, 32, path::RouteMode::kSrv6, wire::EvSplit::kHighInPort, 8, 0);
  for (std::uint16_t i = 0; i < 32; ++i) f.set.on_lost(i, Tick{i});
  REQUIRE(f.set.good() == 0);
  const auto in_use = [&] {
    std::set<std::uint16_t> used;
    for (int i = 0; i < 400; ++i) used.insert(f.set.next(~0u, f.random)->index);
    return used;
  };
  const auto used = in_use();
  REQUIRE(used.size() == 8);
  std::map<unsigned, unsigned> per_plane;
  for (const auto index : used) ++per_plane[f.set.all()[index].plane];
  for (unsigned plane = 0; plane < 4; ++plane) REQUIRE(per_plane[plane] == 2);
  const std::uint16_t again = *used.begin();
  f.set.on_lost(again, Tick{100});
  const auto then = in_use();
  REQUIRE(then.size() == 8);
  REQUIRE_FALSE(then.contains(again));
  // Good ones in two planes: the others are in trouble as planes, and out.
  for (std::uint16_t i = 20; i < 28; ++i) f.set.on_spurious(i);
  REQUIRE(in_use() == std::set<std::uint16_t>{20, 21, 22, 23, 24, 25, 26, 27});
}

TEST_CASE("a plane with a few good EVs left gets others back up to its floor") {
  Fixture f(12, 2, 32, path::RouteMode::kSrv6, wire::EvSplit::kHighInPort, 8, 0);
  for (std::uint16_t i = 0; i < 15; ++i) f.set.on_lost(i, Tick{i});  // plane 0 has one left
  f.set.on_probe_answer(7);
  std::map<unsigned, unsigned> share;
  std::set<std::uint16_t> used;
  for (int i = 0; i < 1000; ++i) {
    const auto pick = f.set.next(~0u, f.random);
    ++share[pick->plane];
    if (pick->plane == 0) used.insert(pick->index);
  }
  REQUIRE(share[0] == 500);
  REQUIRE(used.size() == 4);
  REQUIRE(used.contains(15));
  REQUIRE(used.contains(7));  // one that answered a probe is tried before the others
}

TEST_CASE("a bad EV's seat goes to a backup of its own plane, and seats stay full while backups last") {
  Fixture f(13, 4, 128);
  Random ops(77);
  std::uint64_t bad = 0;
  for (unsigned plane = 0; plane < 4; ++plane) {
    for (unsigned n = 0; n < 4; ++n, ++bad) {
      // Any seated EV of the plane.
      auto pick = f.set.next(1u << plane, f.random);
      f.set.on_lost(pick->index, Tick{0});
      REQUIRE_FALSE(f.set.all()[pick->index].active);
      REQUIRE(f.set.usable(plane) == f.set.per_plane());
    }
    auto pick = f.set.next(1u << plane, f.random);
    f.set.on_lost(pick->index, Tick{0});  // none left to take over
    REQUIRE(f.set.usable(plane) == f.set.per_plane() - 1);
  }
  REQUIRE(f.set.replaced() == bad);
  // A backup that recovers takes the empty seat.
  for (std::uint16_t i = 0; i < f.set.all().size(); ++i) {
    if (f.set.all()[i].state != EvState::kAssumedBad || f.set.all()[i].active) continue;
    const unsigned plane = f.set.all()[i].plane;
    f.set.on_probe_answer(i);
    f.set.on_probe_answer(i);
    REQUIRE(f.set.all()[i].state == EvState::kGood);
    REQUIRE(f.set.usable(plane) == f.set.per_plane());
  }
  for (int i = 0; i < 2000; ++i) REQUIRE(f.set.all()[f.set.next(~0u, f.random)->index].state == EvState::kGood);
}

TEST_CASE("two EVs of one uplink blamed close together take the others of it along; probes bring all back") {
  Fixture f(14, 4, 128, path::RouteMode::kSrv6, wire::EvSplit::kHighInPort, 8, 8, true);
  const auto path = [&](std::size_t i) {
    return f.set.all()[i].plane << 8 | path::EvLayout::uplink(f.set.all()[i].value);
  };
  std::vector<std::uint16_t> same;
  for (std::uint16_t i = 0; i < f.set.all().size(); ++i) {
    if (path(i) == path(40)) same.push_back(i);
  }
  REQUIRE(same.size() >= 9);
  f.set.on_lost(same[0], Tick{0});
  f.set.on_lost(same[1], Tick{0} + f.params.group_window + nanoseconds(1));
  REQUIRE(f.set.bad() == 2);  // too far apart
  f.set.on_lost(same[2], Tick{0} + f.params.group_window + milliseconds(1));
  REQUIRE(f.set.bad() == same.size());
  for (int i = 0; i < 2000; ++i) REQUIRE(path(f.set.next(~0u, f.random)->index) != path(40));
  // One path, one probe an interval, whichever EV carries it; its answers count for all.
  std::set<std::uint16_t> probed;
  for (int i = 0; i < 2; ++i) {
    const Tick at = f.set.next_probe();
    const auto probe = f.set.due_probe(at, f.random);
    REQUIRE(probe);
    REQUIRE(f.set.next_probe() - at >= f.params.probe_interval * 3 / 4);
    REQUIRE(path(probe->index) == path(40));
    f.set.on_probe_answer(probe->index);
  }
  REQUIRE(f.set.bad() == 0);
  REQUIRE(f.set.next_probe() == kNever);
}

TEST_CASE("each relapse doubles the answers needed, and long goodness is rewarded") {
  Fixture f(15, 4, 128);
  Tick now{0};
  for (const unsigned needed : {2u, 4u, 8u, 16u, 32u, 64u, 64u, 64u}) {
    f.set.on_lost(17, now);
    REQUIRE(f.set.answers_needed(17) == needed);
    for (unsigned i = 0; i + 1 < needed; ++i) f.set.on_probe_answer(17);
    REQUIRE(f.set.all()[17].state == EvState::kAssumedBad);
    f.set.on_probe_answer(17);
    REQUIRE(f.set.all()[17].state == EvState::kGood);
    now = now + milliseconds(1);
  }
  now = now + f.params.relapse_memory * 8;
  f.set.on_lost(17, now);
  REQUIRE(f.set.answers_needed(17) == 2);
}

TEST_CASE("where several losses in a row are asked for, an acknowledgement in between starts over") {
  Fixture f(16, 4, 128);
  REQUIRE_FALSE(f.set.on_lost(3, Tick{0}, 3));
  REQUIRE_FALSE(f.set.on_lost(3, Tick{0}, 3));
  f.set.on_acknowledged(3);
  REQUIRE_FALSE(f.set.on_lost(3, Tick{0}, 3));
  REQUIRE_FALSE(f.set.on_lost(3, Tick{0}, 3));
  REQUIRE(f.set.all()[3].state == EvState::kGood);
  REQUIRE(f.set.on_lost(3, Tick{0}, 3));
  REQUIRE(f.set.all()[3].state == EvState::kAssumedBad);
}

TEST_CASE("a pardoned plane is as it was") {
  Fixture f(17, 4, 128);
  for (unsigned i = 0; i < f.set.stride(); ++i) f.set.on_lost(static_cast<std::uint16_t>(i), Tick{0});
  REQUIRE(f.set.usable(0) == 0);
  f.set.on_lost(static_cast<std::uint16_t>(f.set.stride()), Tick{0});
  f.set.pardon(0);
  REQUIRE(f.set.usable(0) == f.set.per_plane());
  REQUIRE(f.set.bad() == 1);
  f.set.on_lost(0, Tick{1});
  REQUIRE(f.set.answers_needed(0) == 2);
}

TEST_CASE("EVs of planes that are down do not count for the floor") {
  Fixture f(11, 2, 32);
  for (std::uint16_t i = 0; i < f.set.stride(); ++i) f.set.on_lost(i, Tick{0});  // all of plane 0
  REQUIRE_FALSE(f.set.next(0b01, f.random));  // plane 1 is up, only without room: wait for it
  const auto pick = f.set.next(0b01, f.random, -1, 0b01);
  REQUIRE(pick);
  REQUIRE(pick->plane == 0);
}

TEST_CASE("random operations: states follow the model, DENIED is never picked, seats, floors and backups hold") {
  REQUIRE(rc::check([](std::uint64_t seed) {
    const auto planes = *rc::gen::inRange(1u, 9u);
    const auto per = *rc::gen::inRange(1u, 40u);
    const auto floor = *rc::gen::inRange(0u, 20u);
    const auto backups = static_cast<std::uint8_t>(*rc::gen::inRange(0u, 9u));
    Fixture f(seed, planes, planes * per, path::RouteMode::kSrv6, wire::EvSplit::kHighInPort, floor, backups);
    const auto size = static_cast<unsigned>(f.set.all().size());
    const unsigned floor_each = std::max((floor + planes - 1) / planes, 1u);
    struct Model {
      EvState state = EvState::kGood;
      unsigned answers = 0, needed = 2, blames = 0;
      void blame() {
        state = EvState::kAssumedBad;
        answers = 0;
        blames = std::min(blames + 1, 7u);
        needed = std::min(2u << (blames - 1), 64u);
      }
    };
    std::vector<Model> model(size);
    Random ops(seed ^ 0x5555);
    const unsigned bias = ops.below(4);  // 0: mostly picks; more: mostly losses
    for (int step = 0; step < 600; ++step) {
      const auto i = static_cast<std::uint16_t>(ops.below(size));
      auto& m = model[i];
      const bool movable = m.state != EvState::kDenied;
      switch (ops.below(8 + 6 * bias)) {
        case 0: {
          const bool seated = f.set.all()[i].active;
          f.set.on_ecn(i);
          if (m.state == EvState::kGood && seated) m.state = EvState::kSkip;
          break;
        }
        case 1:
          f.set.on_spurious(i);
          if (m.state == EvState::kAssumedBad) {
            m.state = EvState::kGood;
            if (m.blames != 0) --m.blames;
          }
          break;
        case 2:
          f.set.on_probe_answer(i);
          if (m.state == EvState::kAssumedBad && ++m.answers == m.needed) m.state = EvState::kGood;
          break;
        case 3:
          f.set.on_probe_lost(i);
          m.answers = 0;
          break;
        case 4:
          if (ops.below(4) == 0) {
            f.set.deny(i);
            m.state = EvState::kDenied;
          } else if (ops.below(4) == 0) {
            f.set.permit(i);
            if (!movable) m.state = EvState::kGood;
          }
          break;
        case 5:
        case 6: {
          const std::uint32_t mask = ops.below(2) ? ~0u : ops.below(256);
          const auto pick = f.set.next(mask, f.random, static_cast<int>(ops.below(10)) - 1);
          if (pick) {
            RC_ASSERT(mask >> pick->plane & 1);
            RC_ASSERT(f.set.all()[pick->index].value == pick->ev);
            RC_ASSERT(f.set.all()[pick->index].active);
            RC_ASSERT(model[pick->index].state != EvState::kDenied);
            RC_ASSERT(model[pick->index].state != EvState::kAssumedBad || f.set.all()[pick->index].conscripted);
          }
          for (unsigned k = 0; k < size; ++k) {  // the walk may end SKIPs, and nothing else
            if (model[k].state == EvState::kSkip && f.set.all()[k].state == EvState::kGood) {
              model[k].state = EvState::kGood;
            }
          }
          std::vector<unsigned> usable(planes), denied(planes);
          unsigned all = 0;
          for (const auto& ev : f.set.all()) {
            const bool in_use =
                ev.active && (ev.state == EvState::kGood || ev.state == EvState::kSkip || ev.conscripted);
            usable[ev.plane] += in_use;
            all += in_use;
            denied[ev.plane] += ev.active && ev.state == EvState::kDenied;
          }
          for (unsigned p = 0; p < planes; ++p) {
            // A plane in use has its floor; one without any usable EV is out while others work.
            if (usable[p] != 0) RC_ASSERT(usable[p] >= std::min(floor_each, f.set.per_plane() - denied[p]));
          }
          if (mask == ~0u) RC_ASSERT(pick.has_value() == (all != 0));
          break;
        }
        default: {
          const bool turned = f.set.on_lost(i, Tick{step});
          RC_ASSERT(turned == (movable && m.state != EvState::kAssumedBad));
          if (turned) m.blame();
          if (movable) m.answers = 0;
          break;
        }
      }
      unsigned good = 0, bad = 0, denied = 0;
      std::vector<unsigned> seated(planes), idle_backups(planes), wasted(planes);
      for (unsigned k = 0; k < size; ++k) {
        const auto& ev = f.set.all()[k];
        RC_ASSERT(ev.state == model[k].state);
        good += model[k].state == EvState::kGood;
        bad += model[k].state == EvState::kAssumedBad;
        denied += model[k].state == EvState::kDenied;
        seated[ev.plane] += ev.active;
        idle_backups[ev.plane] += !ev.active && ev.state == EvState::kGood;
        wasted[ev.plane] += ev.active && (ev.state == EvState::kAssumedBad || ev.state == EvState::kDenied);
      }
      for (unsigned p = 0; p < planes; ++p) {
        RC_ASSERT(seated[p] == f.set.per_plane());
        RC_ASSERT(idle_backups[p] == 0 || wasted[p] == 0);
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
  const path::EvParams params;
  path::EvSet small(route, wire::EvSplit::kHighInPort, params, storage, random);
  REQUIRE(small.all().size() == 16);
  REQUIRE(small.active() == 12);
  path::EvSet none(route, wire::EvSplit::kHighInPort, params, std::span(storage).first(3), random);
  REQUIRE(none.size() == 0);
  REQUIRE_FALSE(none.next(~0u, random));
  REQUIRE_FALSE(none.find(5));
  none.on_lost(0, Tick{0});
  REQUIRE_FALSE(none.due_probe(Tick{1}, random));
  REQUIRE_FALSE(path::EvSet().next(~0u, random));
}
