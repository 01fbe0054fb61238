// SPDX-License-Identifier: BSD-2-Clause
// nic-link-removal: 8 planes, a transfer each way, links to node A's NIC removed one at a time down to one, then
// restored. Throughput is judged in the steady part of each phase; the transition (the first millisecond after each
// change) by the longest time in which nothing arrived.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "bench.hpp"
#include "experiments.hpp"

namespace mrc::experiments {
namespace {

constexpr unsigned kPlanes = 8;
constexpr Duration kTransition = milliseconds(1);
// mrc-protocol.md §5: Gb/s both ways with 8 … 2 links left (P1, figure 9a); removals 2-7 stalled for about 1.1 s.
constexpr std::array kPublished = {1531.0, 1334.0, 1145.0, 954.0, 765.0, 569.0, 383.0};

}  // namespace

void nic_link_removal(const Options& options, Report& report) {
  const Duration phase = options.quick ? milliseconds(2) : milliseconds(5);
  Bench bench(realistic(options, 2, kPlanes, 50'000'000'000u), options);
  Flow& there = bench.add({.from = 0, .to = 1, .name = "A to B"});
  Flow& back = bench.add({.from = 1, .to = 0, .name = "B to A"});
  bench.connect();

  std::vector<unsigned> links;  // per phase
  for (unsigned n = kPlanes; n >= 1; --n) links.push_back(n);
  for (unsigned n = 2; n <= kPlanes; ++n) links.push_back(n);
  const auto begin = [&](std::size_t i) { return phase * static_cast<std::int64_t>(i); };
  for (std::size_t i = 1; i < links.size(); ++i) {
    bench.sim().at(bench.at(begin(i)), [&, i] {
      const bool removed = links[i] < links[i - 1];
      const unsigned plane = removed ? links[i] : links[i - 1];
      bench.command(fmt::format("port nic{}.{} plane {} {}", bench.sim().location(0).t0, bench.sim().location(0).nic,
                                plane, removed ? "down" : "up"));
    });
  }
  bench.start_all();
  const Duration end = begin(links.size());
  bench.run_to(end, end);

  double least = 10, most = 0;
  Duration stall{};
  Series capacity{.label = "capacity of the links left", .dashed = true};
  Series published{.label = "published hardware, as share of 8 links (stalls 1.1 s at each)", .points = true};
  for (std::size_t i = 0; i < links.size(); ++i) {
    const double full = bench.capacity(links[i]);
    nlohmann::json row = {{"links", links[i]}};
    for (Flow* flow : {&there, &back}) {
      const double steady = bench.goodput(*flow, begin(i) + kTransition, begin(i + 1)) / full;
      const double transition = bench.goodput(*flow, begin(i), begin(i) + kTransition) / full;
      const Duration gap = bench.longest_gap(*flow, begin(i), begin(i + 1));
      least = std::min(least, steady);
      most = std::max(most, steady);
      stall = std::max(stall, gap);
      row[flow->spec.name] = {{"steady", steady}, {"first_ms", transition}, {"longest_gap_us", gap.ns / 1000.0}};
    }
    report.data()["phases"].push_back(row);
    for (const std::size_t k : {i, i + 1}) {
      capacity.x.push_back(static_cast<double>(begin(k).ns) / 1e6);
      capacity.y.push_back(full / 1e9);
    }
    if (i < kPublished.size()) {
      published.x.push_back(static_cast<double>((begin(i) + phase / 2).ns) / 1e6);
      published.y.push_back(kPublished[i] / kPublished[0] * bench.capacity(kPlanes) / 1e9);
    }
  }
  const bool drained = bench.drain();
  Plot plot{.title = "NIC links removed one at a time, then restored", .x = "ms", .y = "Gb/s of payload"};
  plot.series = {bench.curve(there), bench.curve(back), capacity, published};
  report.plot(plot);
  report.data()["counters"] = bench.counters();
  report.judge(least >= 0.95 && most <= 1.05,
               fmt::format("{:.1f}-{:.1f} % of the capacity left", least * 100, most * 100), "95-105 %");
  // Shorter gaps than 20 us are not kept.
  const std::string longest =
      stall < microseconds(20) ? "under 20 us" : fmt::format("{:.0f} us", static_cast<double>(stall.ns) / 1000);
  report.judge(stall < milliseconds(1), "longest stall " + longest, "< 1000 us; published hardware 1.1 s");
  report.judge(drained && bench.errors() == 0, fmt::format("{} errors", bench.errors() + !drained), "0");
}

}  // namespace mrc::experiments
