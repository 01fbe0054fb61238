// SPDX-License-Identifier: BSD-2-Clause
// sweeps: the numbers that nobody has published (mrc-protocol §2 "[?]"): how many EVs, how often to probe and how many
// answers to ask for, how often to SACK, how long to wait for a gap and for blame. One knob at a time, the others at
// their defaults. Nothing is judged but that every transfer came through; docs/sweeps.md draws the conclusions.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "bench.hpp"
#include "experiments.hpp"
#include "path_watch.hpp"

namespace mrc::experiments {
namespace {

constexpr unsigned kPlanes = 4, kT1s = 16;
constexpr std::uint64_t kBps = 25'000'000'000;

double us(Duration d) {
  return static_cast<double>(d.ns) / 1000;
}

struct Sweep {
  const Options& options;
  Report& report;
  std::uint64_t errors = 0;

  fabric::SimConfig base(unsigned nodes = 2) const { return realistic(options, nodes, kPlanes, kBps, kT1s); }

  void finish(Bench& bench) {
    if (!bench.drain()) ++errors;
    errors += bench.errors();
  }

  struct Bypass {
    std::vector<Duration> times;
    double dip = 10;            // worst 100 us
    std::uint64_t packets = 0;  // on dead paths
    std::uint64_t spurious = 0;
    Duration back{};  // mended → the last path is known to be good again
    double wasted = 0;
  };

  // Twelve T0-T1 links fail at 1 ms, one each 100 us, and are mended at 4 ms.
  Bypass failures(const fabric::SimConfig& config, Duration after) {
    Bench bench(config, options);
    Flow& flow = bench.add({});
    bench.connect();
    PathWatch watch(bench);
    fabric::Clos& clos = bench.sim().clos();
    Bypass result;
    std::vector<PathId> dead;
    for (unsigned i = 0; i < 12; ++i) dead.push_back({i % kPlanes, (i * 5 + 1) % kT1s});
    const Duration heals = milliseconds(4);
    for (unsigned i = 0; i < dead.size(); ++i) {
      const PathId p = dead[i];
      const std::string link = fmt::format("link t0-0 t1-{} plane {}", p.t1, p.plane);
      bench.sim().at(bench.at(milliseconds(1) + microseconds(100) * i), [&bench, &watch, &clos, p, link] {
        watch.begin(p, [&clos, p] {
          return clos
              .link_counters(
                  {fabric::LinkKind::kT0ToT1, static_cast<std::uint8_t>(p.plane), 0, static_cast<std::uint16_t>(p.t1)})
              ->drops[static_cast<std::size_t>(fabric::DropCause::kLinkDown)];
        });
        bench.command(link + " down");
      });
      bench.sim().at(bench.at(heals), [&bench, &watch, p, link] {
        watch.end(p);
        bench.command(link + " up");
      });
    }
    bench.start(flow);
    bench.run_to(heals, heals + after);
    result.times = watch.bypass_times();
    result.packets = watch.packets_lost_at_least();
    const double line = bench.capacity(kPlanes);
    for (Duration t = milliseconds(1); t < heals; t = t + microseconds(100)) {
      result.dip = std::min(result.dip, bench.goodput(flow, t, t + microseconds(100)) / line);
    }
    if (after.ns != 0) {
      const auto all_good = [&] {
        const auto evs = bench.sim().core(0).evs(flow.conn);
        return std::none_of(evs.begin(), evs.end(),
                            [](const path::Ev& ev) { return ev.state == path::EvState::kAssumedBad; });
      };
      while (!all_good() && bench.now() < heals + after) bench.run_to(bench.now() + microseconds(100), heals + after);
      result.back = bench.now() - heals;
    }
    result.spurious = bench.sim().core(0).counters().spurious;
    finish(bench);
    return result;
  }

  // 24 of the 64 paths, more than there are backups for, lose 20 % all the time: the share of packets that go there.
  double wasted(const fabric::SimConfig& config, Duration time) {
    Bench bench(config, options);
    Flow& flow = bench.add({});
    bench.connect();
    std::uint64_t bad = 0, all = 0;
    for (unsigned plane = 0; plane < kPlanes; ++plane) {
      for (unsigned t1 = 0; t1 < 6; ++t1) bench.command(fmt::format("link t0-0 t1-{} plane {} loss 20%", t1, plane));
    }
    bench.sim().on_transmit([&](unsigned node, const transport::TxPacket& packet) {
      if (node != 0 || !is_data(packet)) return;
      ++all;
      const auto path = path_of(packet, config.clos.usid);
      if (path && path->t1 < 6) ++bad;
    });
    bench.start(flow);
    bench.run_to(time, time);
    finish(bench);
    return static_cast<double>(bad) / static_cast<double>(std::max<std::uint64_t>(all, 1));
  }

  struct Lossy {
    double goodput = 0, retransmitted = 0, spurious = 0, sacks = 0;
    Histogram latency;
  };

  // 1 % loss and some reordering: bulk, then 64 KB writes one at a time.
  Lossy lossy(const fabric::SimConfig& config, double loss, Duration jitter) {
    Lossy result;
    for (const bool bulk : {true, false}) {
      Bench bench(config, options);
      Flow& flow = bench.add({.message = bulk ? 1u << 20 : 65536u, .depth = bulk ? 16u : 1u});
      bench.connect();
      bench.sim().clos().set_global({.loss = loss, .reorder = jitter.ns != 0 ? 0.1 : 0, .reorder_delay = jitter});
      bench.start(flow);
      if (bulk) {
        bench.run_to(milliseconds(4), milliseconds(4));
        result.goodput = bench.goodput(flow, milliseconds(1), milliseconds(4)) / bench.capacity(kPlanes);
        const transport::Counters& c = bench.sim().core(0).counters();
        result.retransmitted = static_cast<double>(c.tx_retransmit) / static_cast<double>(c.tx_data);
        result.spurious = static_cast<double>(c.spurious) / static_cast<double>(c.tx_data);
        result.sacks = static_cast<double>(bench.sim().core(1).counters().tx_sack) / static_cast<double>(c.tx_data);
      } else {
        if (!bench.run_until([&] { return flow.done > 1500; }, seconds(10))) ++errors;
        result.latency = std::move(flow.latency);
      }
      finish(bench);
    }
    return result;
  }

  void ev_count() {
    Plot plot{.title = "number of EVs (64 paths)", .x = "EVs", .y = "us", .log_x = true};
    Series p50{.label = "bypass time, p50"}, most{.label = "bypass time, max"};
    for (const unsigned n : {16u, 32u, 64u, 128u, 256u, 512u, 1024u}) {
      auto config = base();
      config.transport.ev.per_connection = static_cast<std::uint16_t>(n);
      Bypass b = failures(config, {});
      Histogram h;
      for (const Duration d : b.times) h.add(d);
      p50.x.push_back(n), p50.y.push_back(us(h.quantile(0.5)));
      most.x.push_back(n), most.y.push_back(us(h.quantile(1)));
      row("ev_count", n,
          {{"bypass_p50_us", us(h.quantile(0.5))},
           {"bypass_max_us", us(h.quantile(1))},
           {"packets_on_dead_paths", b.packets},
           {"worst_100us_share", b.dip}});
    }
    plot.series = {p50, most};
    report.plot(plot);
  }

  void probing() {
    Plot back{.title = "probe interval: mended links to the last path known to be good",
              .x = "probe interval, ms",
              .y = "ms",
              .log_x = true,
              .log_y = true};
    Plot waste{.title = "probe interval: packets sent to paths that lose 20 % (24 of 64)",
               .x = "probe interval, ms",
               .y = "% of packets",
               .log_x = true};
    for (const unsigned answers : {1u, 2u, 3u, 5u}) {
      Series b{.label = fmt::format("{} answers", answers)}, w = b;
      for (const int ms : {1, 2, 5, 10, 20}) {
        auto config = base();
        config.transport.ev.probe_interval = milliseconds(ms);
        config.transport.ev.probes_to_restore = static_cast<std::uint8_t>(answers);
        const Bypass f = failures(config, milliseconds(400));
        const double share = wasted(config, milliseconds(30));
        b.x.push_back(ms), b.y.push_back(us(f.back) / 1000);
        w.x.push_back(ms), w.y.push_back(share * 100);
        row("probing", ms, {{"answers", answers}, {"back_ms", us(f.back) / 1000}, {"bad_share_percent", share * 100}});
      }
      back.series.push_back(b);
      waste.series.push_back(w);
    }
    report.plot(back);
    report.plot(waste);
  }

  void sack_threshold() {
    Plot plot{.title = "SACK threshold, 1 % loss", .x = "KB", .y = "", .log_x = true};
    Series sacks{.label = "SACKs per 100 data packets"}, p50{.label = "64 KB write, p50, us"},
        p99{.label = "64 KB write, p99, us"}, goodput{.label = "goodput, % of line"};
    for (const unsigned kb : {4u, 8u, 16u, 32u, 64u, 128u}) {
      auto config = base();
      config.transport.sack_bytes = kb * 1024;
      Lossy l = lossy(config, 0.01, {});
      for (Series* s : {&sacks, &p50, &p99, &goodput}) s->x.push_back(kb);
      sacks.y.push_back(l.sacks * 100);
      p50.y.push_back(us(l.latency.quantile(0.5)));
      p99.y.push_back(us(l.latency.quantile(0.99)));
      goodput.y.push_back(l.goodput * 100);
      row("sack_kb", kb, {{"sacks_per_packet", l.sacks}, {"goodput_share", l.goodput}, {"latency", l.latency.json()}});
    }
    plot.series = {sacks, p50, p99, goodput};
    report.plot(plot);
  }

  void gap_threshold() {
    Plot plot{.title = "gap threshold, 1 % loss, 10 % reordered by 5 us",
              .x = "later packets of the plane",
              .y = "",
              .log_x = true};
    Series spurious{.label = "spurious retransmissions, % of packets"}, again{.label = "retransmissions, %"},
        p99{.label = "64 KB write, p99, us / 10"};
    for (const unsigned n : {2u, 4u, 8u, 16u, 32u, 64u}) {
      auto config = base();
      config.transport.gap_packets = static_cast<std::uint16_t>(n);
      Lossy l = lossy(config, 0.01, microseconds(5));
      for (Series* s : {&spurious, &again, &p99}) s->x.push_back(n);
      spurious.y.push_back(l.spurious * 100);
      again.y.push_back(l.retransmitted * 100);
      p99.y.push_back(us(l.latency.quantile(0.99)) / 10);
      row("gap_packets", n,
          {{"spurious", l.spurious},
           {"retransmitted", l.retransmitted},
           {"goodput_share", l.goodput},
           {"latency", l.latency.json()}});
    }
    plot.series = {spurious, again, p99};
    report.plot(plot);
  }

  void blame_threshold() {
    Plot plot{.title = "blame threshold", .x = "later packets of the plane", .y = "us", .log_x = true};
    Series p50{.label = "bypass time, p50"}, most{.label = "bypass time, max"};
    for (const unsigned n : {4u, 8u, 16u, 32u, 64u, 128u}) {
      auto config = base();
      config.transport.reorder_packets = static_cast<std::uint16_t>(n);
      Bypass b = failures(config, {});
      const double innocent = blamed_by_reordering(config);
      Histogram h;
      for (const Duration d : b.times) h.add(d);
      p50.x.push_back(n), p50.y.push_back(us(h.quantile(0.5)));
      most.x.push_back(n), most.y.push_back(us(h.quantile(1)));
      row("blame_packets", n,
          {{"bypass_p50_us", us(h.quantile(0.5))},
           {"bypass_max_us", us(h.quantile(1))},
           {"innocent_blamed", innocent}});
    }
    plot.series = {p50, most};
    report.plot(plot);
  }

  // EVs blamed where nothing is lost and 10 % of the packets are late by 20 us.
  double blamed_by_reordering(const fabric::SimConfig& config) {
    Bench bench(config, options);
    Flow& flow = bench.add({});
    bench.connect();
    bench.sim().clos().set_global({.reorder = 0.1, .reorder_delay = microseconds(20)});
    bench.start(flow);
    bench.run_to(milliseconds(3), milliseconds(3));
    const double blamed = static_cast<double>(bench.sim().core(0).counters().ev_blamed);
    finish(bench);
    return blamed;
  }

  void row(const char* sweep, double value, nlohmann::json figures) {
    fmt::print("       {} {}: {}\n", sweep, value, figures.dump());
    std::fflush(stdout);
    figures["value"] = value;
    report.data()[sweep].push_back(std::move(figures));
  }
};

}  // namespace

void sweeps(const Options& options, Report& report) {
  Sweep sweep{options, report};
  sweep.ev_count();
  if (!options.quick) sweep.probing();
  sweep.sack_threshold();
  sweep.gap_threshold();
  sweep.blame_threshold();
  report.judge(sweep.errors == 0, fmt::format("every point measured, {} errors", sweep.errors), "0");
}

}  // namespace mrc::experiments
