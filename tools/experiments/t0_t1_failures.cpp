// SPDX-License-Identifier: BSD-2-Clause
// t0-t1-failures: 20 T0-T1 links fail one after the other and stay down, 8 others flap, everything is mended, a T1
// dies. No NIC sees any of it: only loss tells. Judged: every millisecond (from the second after an event on) carries
// 97 % of what it did before; told: how long dead paths go on being used.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "bench.hpp"
#include "experiments.hpp"
#include "path_watch.hpp"

namespace mrc::experiments {
namespace {

constexpr unsigned kPlanes = 4, kT1s = 16, kFailures = 20, kFlapping = 8, kFlaps = 4;

struct Cable {
  unsigned t0;
  PathId path;
  std::string text() const { return fmt::format("link t0-{} t1-{} plane {}", t0, path.t1, path.plane); }
};

/// All T0-T1 cables in an order drawn from the seed; no path twice, so that each is dead by one cause.
std::vector<Cable> shuffled(Random& random) {
  std::vector<Cable> all;
  for (unsigned plane = 0; plane < kPlanes; ++plane) {
    for (unsigned t1 = 0; t1 < kT1s; ++t1) all.push_back({random.below(2), {plane, t1}});
  }
  for (std::size_t i = all.size(); i > 1; --i) {
    std::swap(all[i - 1], all[random.below(static_cast<std::uint32_t>(i))]);
  }
  return all;
}

std::uint64_t drops_on(fabric::Clos& clos, const Cable& c) {
  std::uint64_t sum = 0;
  for (const auto kind : {fabric::LinkKind::kT0ToT1, fabric::LinkKind::kT1ToT0}) {
    const auto* counters =
        clos.link_counters({kind, static_cast<std::uint8_t>(c.path.plane), static_cast<std::uint16_t>(c.t0),
                            static_cast<std::uint16_t>(c.path.t1)});
    for (const std::uint64_t n : counters->drops) sum += n;
  }
  return sum;
}

}  // namespace

void t0_t1_failures(const Options& options, Report& report) {
  const unsigned flows = options.quick || options.full_time ? 1 : 4;
  const Duration step = options.full_time ? seconds(1) : milliseconds(2);
  const Duration grain = options.full_time ? milliseconds(10) : milliseconds(1);
  const std::uint64_t bps = options.full_time ? 1'000'000'000 : 25'000'000'000;
  Bench bench(realistic(options, 2 * flows, kPlanes, bps, kT1s), options);
  for (unsigned i = 0; i < flows; ++i) bench.add({.from = 2 * i, .to = 2 * i + 1});
  bench.connect();
  PathWatch watch(bench);
  const std::vector<Cable> cables = shuffled(bench.sim().random());
  fabric::Clos& clos = bench.sim().clos();
  Plot plot{.title = "T0-T1 links fail", .x = "ms", .y = "Gb/s of payload"};
  std::vector<std::pair<Duration, Duration>> steady;  // from, to
  const auto mark = [&](Duration at, std::string text) {
    plot.marks.emplace_back(static_cast<double>(at.ns) / 1e6, std::move(text));
  };

  Duration t = step * 2;
  mark(t, "20 links fail, one after the other");
  for (unsigned i = 0; i < kFailures; ++i, t = t + step) {
    bench.sim().at(bench.at(t), [&, c = cables[i]] {
      watch.begin(c.path, [&clos, c] { return drops_on(clos, c); });
      bench.command(c.text() + " down");
    });
    steady.emplace_back(t + grain, t + step);
  }
  const Duration flap_from = t;
  mark(t, "8 links flap");
  for (unsigned n = 0; n < kFlaps; ++n, t = t + step) {
    for (unsigned i = kFailures; i < kFailures + kFlapping; ++i) {
      bench.sim().at(bench.at(t), [&, c = cables[i]] { bench.command(c.text() + " down"); });
      bench.sim().at(bench.at(t + step / 2), [&, c = cables[i]] { bench.command(c.text() + " up"); });
    }
  }
  const Duration flap_to = t;
  mark(t, "mended");
  bench.sim().at(bench.at(t), [&] {
    for (unsigned i = 0; i < kFailures; ++i) {
      watch.end(cables[i].path);
      bench.command(cables[i].text() + " up");
    }
  });
  t = t + std::max(step, milliseconds(100));  // time to find out that they work
  const Cable last = cables[kFailures + kFlapping];
  mark(t, "a T1 dies");
  bench.sim().at(bench.at(t), [&] {
    watch.begin(last.path, [&clos, last] {
      const auto* counters = clos.switch_counters(
          {path::UsidKind::kT1, static_cast<std::uint8_t>(last.path.plane), static_cast<std::uint16_t>(last.path.t1)});
      std::uint64_t sum = 0;
      for (const std::uint64_t n : counters->drops) sum += n;
      return sum;
    });
    bench.command(fmt::format("switch t1-{} plane {} down", last.path.t1, last.path.plane));
  });
  steady.emplace_back(t + grain, t + step * 2);
  t = t + step * 2;
  bench.start_all();
  bench.run_to(t, t);

  const auto total = [&](Duration from, Duration to) {
    double sum = 0;
    for (const auto& flow : bench.flows()) sum += bench.goodput(*flow, from, to);
    return sum / bench.capacity(kPlanes * flows);
  };
  const double before = total(step, step * 2);
  double least = 10, worst_bin = 10;
  for (const auto& [from, to] : steady) least = std::min(least, total(from, to) / before);
  for (Duration at = step; at < t; at = at + grain) worst_bin = std::min(worst_bin, total(at, at + grain) / before);
  const double flapping = total(flap_from + grain, flap_to) / before;
  const std::vector<Duration> bypass = watch.bypass_times();
  for (const auto& flow : bench.flows()) plot.series.push_back(bench.curve(*flow));
  report.plot(plot);
  report.plot({.title = "dead paths: first loss to last data packet sent on it",
               .x = "us",
               .y = "share of paths",
               .series = {cdf("all flows", bypass)}});
  const bool drained = bench.drain();
  report.data() = {{"before", before},
                   {"least", least},
                   {"worst_bin", worst_bin},
                   {"flapping", flapping},
                   {"bypass", in_json(bypass)},
                   {"packets_on_dead_paths", watch.packets_lost_at_least()},
                   {"counters", bench.counters()}};
  report.judge(before >= 0.97, fmt::format("{:.1f} % of capacity before", before * 100), ">= 97 %");
  report.judge(least >= 0.97,
               fmt::format("{:.1f} % of that from {} ms after each event", least * 100, grain.ns / 1'000'000),
               ">= 97 %");
  report.judge(flapping >= 0.97, fmt::format("{:.1f} % while 8 links flap, likewise", flapping * 100), ">= 97 %");
  report.judge(drained && bench.errors() == 0, fmt::format("{} errors", bench.errors() + !drained), "0");
  report.note(fmt::format("worst {} ms: {:.1f} %", grain.ns / 1'000'000, worst_bin * 100));
  report.judge(!bypass.empty(), "bypass " + in_words(bypass), "told; published \"a few tens of us\"");
}

}  // namespace mrc::experiments
