// SPDX-License-Identifier: BSD-2-Clause
// Hop by hop: each queue in time order, copies as packets of their own, cuts under way, and every packet accounted for.
#include <rapidcheck.h>

#include <algorithm>
#include <map>
#include <queue>

#include "fabric/support.hpp"
#include "mrc/fabric/clos.hpp"
#include "mrc/fabric/command.hpp"
#include "support/catch.hpp"

using namespace mrc;
using namespace mrc::fabric;
using path::UsidKind;

namespace {

// A driver in small: a heap of packets by time.
struct Driver {
  struct Packet {
    InFlight flight;
    std::vector<std::byte> bytes;
    unsigned number = 0;
  };
  struct Arrival {
    Tick at;
    unsigned number;
    path::Location to;
    std::size_t length;
    std::vector<std::byte> bytes;
  };

  Clos clos;
  std::multimap<Tick, Packet> heap;
  std::vector<Arrival> arrivals;
  std::uint64_t steps = 0;
  unsigned sent = 0;

  explicit Driver(const ClosConfig& config) : clos(config) {}

  Step send(Tick now, path::Location from, path::Location to, unsigned plane = 0, unsigned uplink = 0,
            std::size_t payload = 960 - kFrameOverhead, unsigned dscp = wire::Dscp{}.trimmable) {
    run(now);
    const auto ev = path::EvLayout::make(plane, uplink, 0, 1);
    Packet packet{{}, make_packet(route_between(clos.config(), from, to), ev, payload, dscp), sent++};
    const Step step = clos.enter(packet.flight, packet.bytes, {from, static_cast<std::uint8_t>(plane)}, now);
    moved(std::move(packet), step);
    return step;
  }
  void moved(Packet&& packet, const Step& step) {
    if (step.progress != Progress::kMoving) return;
    if (step.twin) heap.emplace(step.twin_when, packet);
    heap.emplace(step.when, std::move(packet));
  }
  void run(Tick until = kNever) {
    while (!heap.empty() && heap.begin()->first <= until) {
      const Tick now = heap.begin()->first;
      Packet packet = std::move(heap.begin()->second);
      heap.erase(heap.begin());
      ++steps;
      const Step step = clos.step(packet.flight, packet.bytes, now);
      if (step.progress == Progress::kDelivered) {
        REQUIRE(step.when == now);
        arrivals.push_back({now, packet.number, packet.flight.to, packet.flight.length, packet.bytes});
      }
      moved(std::move(packet), step);
    }
  }
  bool conserved() const {
    const Totals t = clos.totals();
    return t.offered + t.duplicated == t.delivered + t.dropped() + t.in_flight && t.in_flight == heap.size();
  }
};

ClosConfig rated(std::uint64_t bps = 8'000'000'000) {
  ClosConfig config{.planes = 2, .t0s = 2, .t1s = 2, .nics = 4, .link_delay = nanoseconds(500)};
  config.nic_to_t0.bps = config.t0_to_nic.bps = config.t0_t1.bps = bps;
  return config;
}

constexpr std::int64_t kSerial = 1000;  // a packet of send()'s usual size at 8 Gb/s

}  // namespace

TEST_CASE("step by step a packet takes the same way as in one call, byte for byte") {
  const ClosConfig config{.planes = 4, .t0s = 3, .t1s = 4, .nics = 2, .link_delay = nanoseconds(10)};
  for (const bool with_rates : {false, true}) {
    ClosConfig own = config;
    if (with_rates) own.nic_to_t0.bps = own.t0_to_nic.bps = own.t0_t1.bps = 1'000'000'000'000;
    Driver d(own);
    Clos whole(config);
    for (std::uint8_t plane = 0; plane < 4; ++plane) {
      for (unsigned a = 0; a < 6; ++a) {
        for (unsigned z = 0; z < 6; ++z) {
          const path::Location from{static_cast<std::uint16_t>(a / 2), static_cast<std::uint16_t>(a % 2)};
          const path::Location to{static_cast<std::uint16_t>(z / 2), static_cast<std::uint16_t>(z % 2)};
          const unsigned uplink = (a + z) % 4;
          auto bytes = make_packet(route_between(config, from, to), path::EvLayout::make(plane, uplink, 0, 1), 500);
          const auto outcome = whole.forward(bytes, {from, plane}, Tick{});
          d.arrivals.clear();
          const Tick start = d.heap.empty() ? Tick{} : d.heap.begin()->first;
          d.steps = 0;
          d.send(start, from, to, plane, uplink, 500);
          d.run();
          REQUIRE(d.arrivals.size() == 1);
          REQUIRE(d.arrivals[0].to == to);
          REQUIRE(d.arrivals[0].bytes == bytes);
          REQUIRE(d.arrivals[0].length == outcome.length);
          if (with_rates) {
            REQUIRE(d.arrivals[0].at - start > outcome.deliveries[0].delay);
            REQUIRE(d.steps == (from.t0 == to.t0 ? 2u : 4u));
          } else {
            REQUIRE(d.arrivals[0].at - start == outcome.deliveries[0].delay);
            REQUIRE(d.steps == 1);
          }
        }
      }
    }
    REQUIRE(d.conserved());
  }
}

TEST_CASE("latency is four serialisations and four delays; queues build where flows meet") {
  Driver d(rated());
  d.send(Tick{0}, {0, 0}, {1, 0});
  d.run();
  REQUIRE(d.arrivals[0].at.ns == 4 * (kSerial + 500));
  // Two NICs send to one at the same time: the second packet of each pair waits for the first on the shared uplink.
  Driver two(rated());
  for (int i = 0; i < 10; ++i) {
    two.send(Tick{}, {0, 0}, {1, 0});
    two.send(Tick{}, {0, 1}, {1, 0});
  }
  two.run();
  REQUIRE(two.arrivals.size() == 20);
  for (int i = 0; i < 20; ++i) REQUIRE(two.arrivals[std::size_t(i)].at.ns == 4 * (kSerial + 500) + i * kSerial);
  REQUIRE(two.clos.link({LinkKind::kT0ToT1, 0, 0, 0})->queue().peak_bytes() == 11'000);  // the tenth pair finds ten
  REQUIRE(two.clos.link({LinkKind::kT1ToT0, 0, 1, 0})->queue().peak_bytes() == 1000);    // already in single file
  REQUIRE(two.conserved());
}

TEST_CASE("a queue sees packets in the order that they reach it, not in the order that they were sent") {
  // A goes over a slow first link; B is sent later, over a fast one, and reaches the shared link first.
  Driver d(rated());
  REQUIRE(apply_command(d.clos, "link nic0.0 t0-0 plane 0 delay 100us oneway"));
  d.send(Tick{0}, {0, 0}, {1, 0});
  d.send(Tick{20'000}, {0, 1}, {1, 0});
  d.run();
  REQUIRE(d.arrivals.size() == 2);
  REQUIRE(d.arrivals[0].number == 1);
  REQUIRE(d.arrivals[0].at.ns == 20'000 + 4 * (kSerial + 500));
  REQUIRE(d.arrivals[1].at.ns == 100'000 + 4 * (kSerial + 500));
}

TEST_CASE("a duplicate is a packet of its own: it queues, and is lost by itself") {
  Driver d(rated());
  REQUIRE(apply_command(d.clos, "link nic0 t0-0 plane 0 duplicate 1 oneway"));
  d.send(Tick{}, {0, 0}, {1, 0});
  REQUIRE(d.clos.totals().in_flight == 2);
  REQUIRE(d.conserved());
  d.run();
  REQUIRE(d.arrivals.size() == 2);
  REQUIRE(d.arrivals[1].at - d.arrivals[0].at == nanoseconds(kSerial));
  REQUIRE(d.arrivals[0].bytes == d.arrivals[1].bytes);
  REQUIRE(apply_command(d.clos, "switch t1-0 plane 0 loss 0.5"));
  std::array<int, 3> got{};
  for (int i = 0; i < 400; ++i) {
    d.arrivals.clear();
    d.send(Tick{i * 1'000'000}, {0, 0}, {1, 0});
    d.run();
    ++got[d.arrivals.size()];
  }
  REQUIRE(got[0] > 60);
  REQUIRE(got[1] > 140);
  REQUIRE(got[2] > 60);
  REQUIRE(d.conserved());
}

TEST_CASE("what is on a link, in a switch or in a plane when it goes down is lost, and counted there") {
  const auto lost_at = [](const char* command, Tick when, DropCause cause) {
    Driver d(rated());
    d.send(Tick{}, {0, 0}, {1, 0});
    d.run(when);
    REQUIRE(d.clos.totals().in_flight == 1);
    REQUIRE(apply_command(d.clos, command));
    d.run();
    INFO(command);
    REQUIRE(d.arrivals.empty());
    REQUIRE(d.clos.totals().drops[static_cast<std::size_t>(cause)] == 1);
    REQUIRE(d.conserved());
    bool balanced = true;
    d.clos.for_each_link([&](const LinkId& id) {
      const auto& c = *d.clos.link_counters(id);
      std::uint64_t drops = 0;
      for (const auto n : c.drops) drops += n;
      balanced = balanced && c.packets + c.duplicated == c.forwarded + drops;
    });
    REQUIRE(balanced);
  };
  lost_at("link nic0 t0-0 plane 0 down", Tick{500}, DropCause::kLinkDown);
  lost_at("link t0-0 t1-0 plane 0 down", Tick{2000}, DropCause::kLinkDown);
  lost_at("link t0-1 nic1 plane 0 down", Tick{5000}, DropCause::kLinkDown);
  lost_at("switch t1-0 plane 0 down", Tick{2000}, DropCause::kSwitchDown);
  lost_at("plane 0 down", Tick{4000}, DropCause::kPlaneDown);
  Driver d(rated());  // passed already
  d.send(Tick{}, {0, 0}, {1, 0});
  d.run(Tick{3500});
  REQUIRE(apply_command(d.clos, "link t0-0 t1-0 plane 0 down"));
  d.run();
  REQUIRE(d.arrivals.size() == 1);
}

TEST_CASE("control packets overtake data in a full queue on every link") {
  Driver d(rated());
  for (int i = 0; i < 50; ++i) d.send(Tick{}, {0, std::uint16_t(i % 4)}, {1, 0});
  d.send(Tick{3000}, {0, 1}, {1, 0}, 0, 0, 60, wire::Dscp{}.control);
  d.run();
  const auto control = std::find_if(d.arrivals.begin(), d.arrivals.end(), [](const auto& a) { return a.number == 50; });
  REQUIRE(control != d.arrivals.end());
  REQUIRE(control->at.ns < 3000 + 4 * (kSerial + 500 + 200));
  REQUIRE(d.arrivals.back().at.ns >= 50 * kSerial);
}

TEST_CASE("a congested last hop trims, the fabric's own queues mark") {
  ClosConfig config = rated();
  config.set_rates(8'000'000'000, microseconds(12));
  Driver d(config);
  for (int i = 0; i < 400; ++i) d.send(Tick{i * 500}, {0, std::uint16_t(i % 4)}, {1, 0}, 0, unsigned(i / 4 % 2));
  d.run();
  const Totals t = d.clos.totals();
  REQUIRE(t.trimmed > 0);
  REQUIRE(t.dropped() == 0);
  REQUIRE(d.conserved());
  REQUIRE(d.arrivals.size() == 400);
  std::uint64_t last_hop = 0;
  for (const auto& a : d.arrivals) last_hop += outer_of(a.bytes).dscp() == wire::Dscp{}.trimmed_lasthop;
  REQUIRE(last_hop > 0);
  REQUIRE(d.clos.link_counters({LinkKind::kT0ToNic, 0, 1, 0})->marked == 0);
  // The same with trimming off: data is dropped, nothing is trimmed.
  Driver off(config);
  REQUIRE(apply_command(off.clos, "trim off"));
  REQUIRE(apply_command(off.clos, "ecn off"));
  for (int i = 0; i < 400; ++i) off.send(Tick{i * 500}, {0, std::uint16_t(i % 4)}, {1, 0}, 0, unsigned(i / 4 % 2));
  off.run();
  REQUIRE(off.clos.totals().trimmed == 0);
  REQUIRE(off.clos.totals().marked == 0);
  REQUIRE(off.clos.totals().drops[static_cast<std::size_t>(DropCause::kQueue)] > 0);
  REQUIRE(off.conserved());
}

TEST_CASE("a packet that the driver gives up is counted") {
  Driver d(rated());
  d.send(Tick{}, {0, 0}, {1, 0});
  d.clos.abandon(d.heap.begin()->second.flight);
  d.heap.clear();
  REQUIRE(d.conserved());
  REQUIRE(d.clos.totals().dropped() == 1);
}

TEST_CASE(
    "whatever is set while packets fly: offered + duplicated == delivered + dropped + in flight, after each event") {
  REQUIRE(rc::check([](std::uint64_t seed) {
    const auto history = [seed] {
      ClosConfig config = rated(1'000'000'000ull << seed % 8);
      config.seed = seed;
      if (seed % 3 != 0) config.set_rates(1'000'000'000ull << seed % 8, microseconds(10));
      Driver d(config);
      Random random(seed);
      static constexpr std::array kCommands{"loss 5%",
                                            "duplicate 10%",
                                            "burst 1% 5",
                                            "corrupt 5%",
                                            "reorder 20% 30us",
                                            "plane 1 down",
                                            "plane 1 up",
                                            "link t0-0 t1-1 down",
                                            "link t0-0 t1-1 up",
                                            "link t0-1 t1-0 plane 0 flap 20us 50%",
                                            "switch t1-1 plane 1 down",
                                            "switch t1-1 up",
                                            "link nic2 t0-0 rate 10%",
                                            "link nic2 t0-0 rate full",
                                            "port nic1 down oneway",
                                            "clear",
                                            "ecn off",
                                            "trim off",
                                            "ecn on",
                                            "trim on",
                                            "plane 0 rate 1G",
                                            "link t0-0 nic0 rate 100M",
                                            "delay 3us"};
      std::uint64_t hash = 0;
      for (int i = 0; i < 300; ++i) {
        const Tick now{i * static_cast<std::int64_t>(random.below(1500))};
        if (random.below(8) == 0) {
          RC_ASSERT(apply_command(d.clos, kCommands[random.below(kCommands.size())]).has_value());
        }
        const auto place = [&] {
          return path::Location{static_cast<std::uint16_t>(random.below(2)),
                                static_cast<std::uint16_t>(random.below(4))};
        };
        const Tick at = std::max(now, d.heap.empty() ? now : Tick{d.heap.begin()->first.ns});
        const auto from = place(), to = place();
        d.send(at, from, to, random.below(2), random.below(2), random.below(1500));
        RC_ASSERT(d.conserved());
      }
      d.run();
      RC_ASSERT(d.conserved());
      RC_ASSERT(d.clos.totals().in_flight == 0u);
      for (const auto& a : d.arrivals) {
        hash = (hash ^ static_cast<std::uint64_t>(a.at.ns) ^ a.number << 20 ^ a.length << 40) * 0x9e3779b97f4a7c15u;
      }
      return hash;
    };
    RC_ASSERT(history() == history());
  }));
}
