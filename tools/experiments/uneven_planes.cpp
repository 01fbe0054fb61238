// SPDX-License-Identifier: BSD-2-Clause
// uneven-planes: one of four planes drops to a quarter of its speed; twice: all of its links, and only the receiver's
// link (which no sender sees in its own port). Judged from 2 ms after the onset on against 3.25 planes.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "bench.hpp"
#include "experiments.hpp"
#include "path_watch.hpp"

namespace mrc::experiments {
namespace {

constexpr unsigned kPlanes = 4, kSlow = 2;

}  // namespace

void uneven_planes(const Options& options, Report& report) {
  const Duration onset = milliseconds(2), heals = options.quick ? milliseconds(8) : milliseconds(22);
  const Duration settle = milliseconds(2), end = heals + milliseconds(10);
  for (const bool whole : {true, false}) {
    Bench bench(realistic(options, 2, kPlanes, 25'000'000'000u), options);
    Flow& flow = bench.add({.name = whole ? "all its links slow" : "the receiver's link slow"});
    bench.connect();
    std::array<std::array<std::uint64_t, kPlanes>, 3> sent{};  // before, slow, after
    bench.sim().on_transmit([&](unsigned node, const transport::TxPacket& packet) {
      const Duration t = bench.now();
      if (node != 0 || !is_data(packet)) return;
      if (t < onset) ++sent[0][packet.plane];
      if (t >= onset + settle && t < heals) ++sent[1][packet.plane];
      if (t >= heals + settle) ++sent[2][packet.plane];
    });
    const path::Location to = bench.sim().location(1);
    const std::string where =
        whole ? fmt::format("plane {}", kSlow) : fmt::format("port nic{}.{} plane {}", to.t0, to.nic, kSlow);
    bench.sim().at(bench.at(onset), [&] { bench.command(where + " rate 25%"); });
    bench.sim().at(bench.at(heals), [&] { bench.command(where + " rate full"); });
    bench.start(flow);
    bench.run_to(end, end);
    const double before = bench.goodput(flow, milliseconds(1), onset) / bench.capacity(kPlanes);
    const double share = bench.goodput(flow, onset + settle, heals) / bench.capacity(kPlanes - 0.75);
    const double after = bench.goodput(flow, heals + settle, end) / bench.capacity(kPlanes);
    const double first = bench.goodput(flow, onset, onset + settle) / bench.capacity(kPlanes - 0.75);
    const bool drained = bench.drain();
    Plot plot{
        .title = fmt::format("one of 4 planes at a quarter: {}", flow.spec.name), .x = "ms", .y = "Gb/s of payload"};
    plot.series = {bench.curve(flow)};
    plot.marks = {{static_cast<double>(onset.ns) / 1e6, "a quarter"},
                  {static_cast<double>(heals.ns) / 1e6, "full again"}};
    report.plot(plot);
    const auto even = [](const std::array<std::uint64_t, kPlanes>& n) {
      const auto [least, most] = std::minmax_element(n.begin(), n.end());
      return static_cast<double>(*least) / static_cast<double>(std::max<std::uint64_t>(*most, 1));
    };
    report.data()[flow.spec.name] = {{"before", before},          {"share_of_3.25_planes", share},
                                     {"first_2_ms", first},       {"after", after},
                                     {"packets_per_plane", sent}, {"counters", bench.counters()}};
    report.judge(share >= 0.95, fmt::format("{}: {:.1f} % of 3.25 planes", flow.spec.name, share * 100), ">= 95 %");
    report.judge(
        even(sent[0]) >= 0.97 && even(sent[2]) >= 0.9,
        fmt::format("planes {:.1f} % alike when healthy, {:.1f} % after", even(sent[0]) * 100, even(sent[2]) * 100),
        ">= 97, 90 %");
    report.judge(drained && bench.errors() == 0, fmt::format("{} errors", bench.errors() + !drained), "0");
    report.note(fmt::format("before {:.1f} %, in the first 2 ms {:.1f} % of 3.25 planes, after healing {:.1f} %",
                            before * 100, first * 100, after * 100));
  }
}

}  // namespace mrc::experiments
