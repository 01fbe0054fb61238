// SPDX-License-Identifier: BSD-2-Clause
// bad-ev: 16 EVs, one for each path of 4 planes × 4 T1s; one path drops 20 % for a while. Several such runs, each with
// another path. Judged: every millisecond but the first carries 97 %; told: how long the path goes on being used.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "bench.hpp"
#include "experiments.hpp"
#include "path_watch.hpp"

namespace mrc::experiments {
namespace {

constexpr unsigned kPlanes = 4, kT1s = 4, kFlows = 2;
constexpr Duration kOnset = milliseconds(2), kHeals = milliseconds(8), kEnd = milliseconds(10);
constexpr Duration kMs = milliseconds(1);

}  // namespace

void bad_ev(const Options& options, Report& report) {
  const unsigned runs = options.quick ? 1 : 8;
  std::vector<Duration> bypass;
  double least = 10, worst = 10, share = 0;
  std::uint64_t errors = 0;
  bool drained = true;
  for (unsigned run = 0; run < runs; ++run) {
    Options own = options;
    own.seed = options.seed + run;
    auto config = realistic(own, 2 * kFlows, kPlanes, 25'000'000'000u, kT1s);
    config.transport.ev.per_connection = 16;
    config.transport.ev.min_active = 4;
    Bench bench(config, own);
    for (unsigned i = 0; i < kFlows; ++i) bench.add({.from = 2 * i, .to = 2 * i + 1});
    bench.connect();
    PathWatch watch(bench);
    fabric::Clos& clos = bench.sim().clos();
    const PathId path{bench.sim().random().below(kPlanes), bench.sim().random().below(kT1s)};
    std::uint64_t on_path = 0, all = 0;
    const std::string link = fmt::format("link t0-0 t1-{} plane {}", path.t1, path.plane);
    bench.sim().at(bench.at(kOnset), [&] {
      watch.begin(path, [&clos, path] {
        return clos
            .link_counters({fabric::LinkKind::kT0ToT1, static_cast<std::uint8_t>(path.plane), 0,
                            static_cast<std::uint16_t>(path.t1)})
            ->drops[static_cast<std::size_t>(fabric::DropCause::kLoss)];
      });
      bench.command(link + " loss 20%");
      all = bench.sim().core(0).counters().tx_data + bench.sim().core(2).counters().tx_data;
    });
    bench.sim().at(bench.at(kHeals), [&] {
      watch.end(path);
      bench.command(link + " loss 0");
      all = bench.sim().core(0).counters().tx_data + bench.sim().core(2).counters().tx_data - all;
      on_path = watch.packets_lost_at_least();
    });
    bench.start_all();
    bench.run_to(kEnd, kEnd);
    const auto total = [&](Duration from, Duration to) {
      double sum = 0;
      for (const auto& flow : bench.flows()) sum += bench.goodput(*flow, from, to);
      return sum / bench.capacity(kPlanes * kFlows);
    };
    for (Duration t = kMs; t < kEnd; t = t + kMs) {
      worst = std::min(worst, total(t, t + kMs));
      if (t != kOnset) least = std::min(least, total(t, t + kMs));
    }
    for (const Duration d : watch.bypass_times()) bypass.push_back(d);
    share = std::max(share, static_cast<double>(on_path) / static_cast<double>(std::max<std::uint64_t>(all, 1)));
    drained = bench.drain() && drained;
    errors += bench.errors();
    report.data()["runs"].push_back({{"plane", path.plane},
                                     {"t1", path.t1},
                                     {"packets_on_bad_path", on_path},
                                     {"packets", all},
                                     {"counters", bench.counters()}});
    if (run == 0) {
      Plot plot{.title = "one of 16 paths drops 20 %", .x = "ms", .y = "Gb/s of payload"};
      for (const auto& flow : bench.flows()) plot.series.push_back(bench.curve(*flow));
      plot.marks = {{2, "20 % loss"}, {8, "healed"}};
      report.plot(plot);
    }
  }
  report.plot({.title = "the bad path: first loss to last data packet sent on it",
               .x = "us",
               .y = "share of flows",
               .series = {cdf("all runs", bypass)}});
  report.data()["bypass"] = in_json(bypass);
  report.judge(least >= 0.97, fmt::format("{:.1f} % of capacity in every later ms", least * 100), ">= 97 %");
  report.judge(drained && errors == 0, fmt::format("{} errors", errors + !drained), "0");
  report.note(fmt::format("{:.1f} % in the millisecond of the onset; at most {:.2f} % of packets on the bad path",
                          worst * 100, share * 100));
  report.judge(!bypass.empty(), "bypass " + in_words(bypass), "told");
}

}  // namespace mrc::experiments
