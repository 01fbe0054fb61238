// SPDX-License-Identifier: BSD-2-Clause
// lossy-nic-link: one of A's four NIC-T0 links stays up but loses 5 % both ways, then heals. Each end must find out
// that it is that plane at A (not some T1), shift its load to the others, and come back. The same with no end to blame:
// all T1s of a plane lose 5 %, and two of its T0-T1 links are dead, also after the others have healed.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "bench.hpp"
#include "experiments.hpp"
#include "path_watch.hpp"

namespace mrc::experiments {
namespace {

constexpr unsigned kPlanes = 4, kLossy = 1;
constexpr Duration kMs = milliseconds(1);

}  // namespace

static void one(const Options& options, Report& report, bool nic_link) {
  const std::string what = nic_link ? "NIC-T0 link" : "all T1s of a plane";
  const Duration onset = milliseconds(2);
  const Duration heals = options.quick ? milliseconds(12) : milliseconds(32);
  const Duration settle = milliseconds(5);  // "within milliseconds"
  // A connection's own probes want twice as many answers after a relapse; one's own T0 is asked more often.
  const Duration back_by = nic_link ? milliseconds(100) : milliseconds(250);
  const Duration end = heals + back_by + milliseconds(10);
  Bench bench(realistic(options, 2, kPlanes, 25'000'000'000u), options, kMs);
  Flow& there = bench.add({.from = 0, .to = 1, .name = "A to B"});
  Flow& back = bench.add({.from = 1, .to = 0, .name = "B to A"});
  bench.connect();
  std::vector<std::array<std::array<std::uint64_t, kPlanes>, 2>> sent(static_cast<std::size_t>(end.ns / kMs.ns) + 1);
  bench.sim().on_transmit([&](unsigned node, const transport::TxPacket& packet) {
    const auto bin = static_cast<std::size_t>(std::max<std::int64_t>(bench.now().ns, 0) / kMs.ns);
    if (bin < sent.size() && is_data(packet)) ++sent[bin][node][packet.plane];
  });
  const path::Location a = bench.sim().location(0);
  const std::string link = fmt::format("port nic{}.{} plane {}", a.t0, a.nic, kLossy);
  const auto lose = [&](const char* share) {
    if (nic_link) return bench.command(fmt::format("{} loss {}", link, share));
    for (unsigned t1 = 0; t1 < bench.sim().config().clos.t1s; ++t1) {
      bench.command(fmt::format("switch t1-{} plane {} loss {}", t1, kLossy, share));
    }
  };
  bench.sim().at(bench.at(onset), [&] {
    lose("5%");
    if (nic_link) return;
    for (const unsigned t1 : {3, 4}) bench.command(fmt::format("link t0-0 t1-{} plane {} down", t1, kLossy));
  });
  bench.sim().at(bench.at(heals), [&] { lose("0"); });
  bench.start_all();

  // The plane is used again once it carries four fifths of what the others carry on average.
  const auto share = [&](std::size_t bin, unsigned node) {
    std::uint64_t others = 0;
    for (unsigned p = 0; p < kPlanes; ++p) others += p == kLossy ? 0 : sent[bin][node][p];
    return others == 0 ? 0.0
                       : static_cast<double>(sent[bin][node][kLossy]) * (kPlanes - 1) / static_cast<double>(others);
  };
  std::array<Duration, 2> back_after{end, end};
  for (Duration t = kMs; t < end; t = t + kMs) {
    bench.run_to(t, end);
    const auto bin = static_cast<std::size_t>(t.ns / kMs.ns) - 1;
    if (t <= heals) continue;
    for (unsigned node = 0; node < 2; ++node) {
      if (back_after[node] == end && share(bin, node) >= 0.8) back_after[node] = t - heals;
    }
    if (std::max(back_after[0], back_after[1]) < end && t - heals >= milliseconds(10)) break;
  }
  const Duration stopped = bench.now();
  double least = 10, first = 10;
  for (const Flow* flow : {&there, &back}) {
    least = std::min(least, bench.goodput(*flow, onset + settle, heals) / bench.capacity(kPlanes - 1));
    first = std::min(first, bench.goodput(*flow, onset, onset + settle) / bench.capacity(kPlanes - 1));
  }
  const double after = std::min(bench.goodput(there, stopped - milliseconds(2), stopped),
                                bench.goodput(back, stopped - milliseconds(2), stopped)) /
                       bench.capacity(kPlanes);
  const bool drained = bench.drain();
  Plot plot{.title = fmt::format("{}: 5 % loss", what),
            .x = "ms",
            .y = "Gb/s of payload",
            .series = {bench.curve(there), bench.curve(back)}};
  plot.marks = {{static_cast<double>(onset.ns) / 1e6, "5 % loss"}, {static_cast<double>(heals.ns) / 1e6, "healed"}};
  report.plot(plot);
  Plot use{.title = "packets on that plane, as share of another plane's", .x = "ms", .y = "share", .marks = plot.marks};
  for (unsigned node = 0; node < 2; ++node) {
    Series s{.label = node == 0 ? "A sends" : "B sends"};
    for (std::size_t bin = 0; bin < static_cast<std::size_t>(stopped.ns / kMs.ns); ++bin) {
      s.x.push_back(static_cast<double>(bin) + 0.5);
      s.y.push_back(share(bin, node));
    }
    use.series.push_back(std::move(s));
  }
  report.plot(use);
  report.data()[what] = {{"least", least},
                         {"first_5_ms", first},
                         {"after_healing", after},
                         {"back_after_ms", {back_after[0].ns / 1e6, back_after[1].ns / 1e6}},
                         {"counters", bench.counters()}};
  report.judge(least >= 0.95, fmt::format("{}: {:.1f} % of the other planes, the worse end", what, least * 100),
               ">= 95 %");
  const Duration later = std::max(back_after[0], back_after[1]);
  const std::string back_text = later == end ? std::string("plane not used again")
                                             : fmt::format("plane used again after {} ms", later.ns / 1'000'000);
  if (nic_link) {
    report.judge(later <= back_by, back_text, fmt::format("<= {} ms", back_by.ns / 1'000'000));
  } else {
    report.note(fmt::format("{}: {}", what, back_text));
  }
  report.judge(drained && bench.errors() == 0, fmt::format("{} errors", bench.errors() + !drained), "0");
  report.note(fmt::format("{:.1f} % in the first 5 ms; {:.1f} % of all planes afterwards", first * 100, after * 100));
}

void lossy_nic_link(const Options& options, Report& report) {
  for (const bool nic_link : {true, false}) one(options, report, nic_link);
}

}  // namespace mrc::experiments
