// SPDX-License-Identifier: BSD-2-Clause
// How fast the simulator is: packets delivered per second of CPU, both cores' work included. Not a test.
//   sim_speed [NODES] [MEGABYTES a node] [payload 0|1] [GBPS; 0: no queues] [window]
#include <fmt/core.h>

#include <cstdlib>
#include <ctime>
#include <memory>
#include <vector>

#include "mrc/fabric/sim.hpp"

using namespace mrc;
using namespace mrc::fabric;

namespace {

// Places nothing where no payload is carried.
class Sink : public SimUpper {
 public:
  using SimUpper::SimUpper;
  bool carried = true;
  transport::Placement place(const transport::RxWrite& write) override {
    if (carried) return SimUpper::place(write);
    ++placed_packets;
    return transport::Placement::kPlaced;
  }
};

double cpu_seconds() {
  return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

}  // namespace

int main(int argc, char** argv) {
  const auto argument = [&](int i, unsigned fallback) {
    return argc > i ? static_cast<unsigned>(std::strtoul(argv[i], nullptr, 10)) : fallback;
  };
  const unsigned nodes = argument(1, 16), megabytes = argument(2, 64), gbps = argument(4, 100);
  const bool payload = argument(3, 0) != 0;
  SimConfig config{.nodes = nodes};
  config.carry_payload = payload;
  config.clos.link_delay = nanoseconds(500);
  if (gbps != 0) config.clos.set_rates(std::uint64_t{gbps} * 1'000'000'000, microseconds(8));
  config.transport.window = argument(5, 1024);
  config.limits.window_packets = 65536;
  Sim sim(config);
  constexpr std::uint32_t kBlock = 1 << 20;
  sim.run_until(Tick{1'000'000'000});  // a clock that has been running, as real ones have
  std::vector<std::byte> source(kBlock), target(kBlock);
  std::vector<std::unique_ptr<Sink>> uppers;
  std::vector<transport::ConnId> conns;
  std::vector<unsigned> left(nodes, megabytes);
  unsigned done = 0;
  const auto post = [&](unsigned i) {
    const transport::WriteRequest request{.rkey = 1, .length = kBlock, .source = source.data(), .cookie = i};
    if (sim.core(i).post_write(conns[i], request, sim.now()) != transport::Status::kOk) std::abort();
  };
  for (unsigned i = 0; i < nodes; ++i) {
    uppers.push_back(std::make_unique<Sink>(sim, i));
    uppers[i]->add_region(1, target);
    uppers[i]->carried = payload;
    sim.add_endpoint(i, 100, uppers[i].get());
  }
  sim.on_event([&](unsigned node, const transport::Event& event) {
    if (event.kind != transport::EventKind::kWriteDone) return;
    if (event.status != transport::Status::kOk) std::abort();
    if (--left[node] == 0) {
      ++done;
    } else if (left[node] >= 2) {
      post(node);
    }
  });
  for (unsigned i = 0; i < nodes; ++i) {
    conns.push_back(sim.core(i).connect(0, sim.address((i + 1) % nodes, 100)));
    post(i);
    if (megabytes > 1) post(i);
  }
  const double before = cpu_seconds();
  const bool finished = sim.run([&] { return done == nodes; }, Tick{3'600'000'000'000});
  const double took = cpu_seconds() - before;
  const Totals totals = sim.clos().totals();
  const auto bits = static_cast<double>(nodes) * megabytes * kBlock * 8;
  fmt::print(
      "{} nodes, {} MB each{}: {} packets, {} events in {:.2f} s: {:.0f} k packets/s, {:.1f} Gb/s a node, "
      "{} trimmed, {} dropped{}\n",
      nodes, megabytes, payload ? " with payload" : "", totals.delivered, sim.events(), took,
      static_cast<double>(totals.delivered) / took / 1e3,
      bits / static_cast<double>(sim.now().ns - 1'000'000'000) / nodes, totals.trimmed, totals.dropped(),
      finished ? "" : ", NOT FINISHED");
  for (std::size_t i = 0; i < kDropCauses; ++i) {
    if (totals.drops[i] != 0) fmt::print("  {}: {}\n", to_string(static_cast<DropCause>(i)), totals.drops[i]);
  }
  return finished ? 0 : 1;
}
