// SPDX-License-Identifier: BSD-2-Clause
// shared-ev: two flows are forced onto the same path of every plane by a denylist, and share its uplinks. Then one of
// them may choose again: ECN must move it away, so that both run at line rate.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "bench.hpp"
#include "experiments.hpp"
#include "path_watch.hpp"

namespace mrc::experiments {
namespace {

constexpr unsigned kPlanes = 4, kT1s = 4, kShared = 2;

}  // namespace

void shared_ev(const Options& options, Report& report) {
  const Duration lifted = milliseconds(2), end = options.quick ? milliseconds(6) : milliseconds(12);
  auto config = realistic(options, 4, kPlanes, 25'000'000'000u, kT1s);
  Bench bench(config, options);
  Flow& stays = bench.add({.from = 0, .to = 1, .name = "stays"});
  Flow& moves = bench.add({.from = 2, .to = 3, .name = "moves"});
  bench.connect();
  std::vector<path::DenyRule> rules;
  for (unsigned plane = 0; plane < kPlanes; ++plane) {
    for (unsigned t1 = 0; t1 < kT1s; ++t1) {
      if (t1 != kShared)
        rules.push_back({.plane = static_cast<std::int16_t>(plane), .t1 = static_cast<std::int16_t>(t1)});
    }
  }
  for (const unsigned node : {0u, 2u}) {
    if (!bench.sim().core(node).set_denylist(rules, bench.sim().now())) throw std::runtime_error("denylist refused");
  }
  std::array<std::uint64_t, 2> on_shared{}, all{};  // of the flow that moves: before, after
  bench.sim().on_transmit([&](unsigned node, const transport::TxPacket& packet) {
    if (node != 2 || !is_data(packet)) return;
    const unsigned when = bench.now() < lifted ? 0 : 1;
    ++all[when];
    const auto path = path_of(packet, config.clos.usid);
    on_shared[when] += path && path->t1 == kShared;
  });
  bench.sim().at(bench.at(lifted), [&] { bench.sim().core(2).set_denylist({}, bench.sim().now()); });
  bench.start_all();
  bench.run_to(end, end);
  const double line = bench.capacity(kPlanes);
  const Duration judged = lifted + milliseconds(1);
  const auto share = [&](const Flow& f, Duration from, Duration to) { return bench.goodput(f, from, to) / line; };
  const double a = share(stays, judged, end), b = share(moves, judged, end);
  const double before = share(stays, milliseconds(1), lifted) + share(moves, milliseconds(1), lifted);
  const double rest = static_cast<double>(on_shared[1]) / static_cast<double>(std::max<std::uint64_t>(all[1], 1));
  const bool drained = bench.drain();
  Plot plot{.title = "two flows on one path",
            .x = "ms",
            .y = "Gb/s of payload",
            .series = {bench.curve(stays), bench.curve(moves)}};
  plot.marks = {{static_cast<double>(lifted.ns) / 1e6, "one may choose again"}};
  report.plot(plot);
  report.data() = {{"stays", a},
                   {"moves", b},
                   {"before_sum", before},
                   {"share_on_shared_path", rest},
                   {"counters", bench.counters()}};
  report.judge(std::min(a, b) >= 0.97, fmt::format("{:.1f} and {:.1f} % of line", a * 100, b * 100), ">= 97 % each");
  report.judge(rest < 1.0 / kT1s / 2,
               fmt::format("{:.1f} % of the mover's packets still on the shared path", rest * 100),
               fmt::format("< {:.1f} %, half of an even share", 50.0 / kT1s));
  report.judge(drained && bench.errors() == 0, fmt::format("{} errors", bench.errors() + !drained), "0");
  report.note(fmt::format("together {:.1f} % of one line while forced", before * 100));
}

}  // namespace mrc::experiments
