// SPDX-License-Identifier: BSD-2-Clause
// incast: seven senders under one T0 write to one receiver under another; a victim flow shares their T0s and uplinks
// but not the receiver's last hop. Judged from the incast's first byte on, transient included: the victim's share of
// its line, and how alike the senders fare. The same without trimming (full queues drop), and without ECN balancing.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "bench.hpp"
#include "experiments.hpp"

namespace mrc::experiments {
namespace {

constexpr unsigned kPlanes = 4, kT1s = 8, kSenders = 7;
constexpr unsigned kVictim = 7, kReceiver = 8, kVictimTo = 9, kNodes = 10;

struct Variant {
  const char* name;
  bool trimming, ecn_balancing;
};
constexpr std::array kVariants = {Variant{"all on", true, true}, Variant{"trimming off", false, true},
                                  Variant{"ECN balancing off", true, false}};

double jain(const std::vector<double>& x) {
  double sum = 0, squares = 0;
  for (const double v : x) sum += v, squares += v * v;
  return squares == 0 ? 0 : sum * sum / (static_cast<double>(x.size()) * squares);
}

}  // namespace

void incast(const Options& options, Report& report) {
  const Duration begins = milliseconds(2), end = options.quick ? milliseconds(8) : milliseconds(22);
  for (const Variant& variant : kVariants) {
    auto config = realistic(options, kNodes, kPlanes, 25'000'000'000u, kT1s);
    for (unsigned i = 0; i < kNodes; ++i) {
      config.places.push_back({static_cast<std::uint16_t>(i < kReceiver ? 0 : 1),
                               static_cast<std::uint16_t>(i < kReceiver ? i : i - kReceiver)});
    }
    set_trimming(config, variant.trimming);
    config.transport.ecn_balancing = variant.ecn_balancing;
    Bench bench(config, options);
    std::vector<Flow*> senders;
    for (unsigned i = 0; i < kSenders; ++i) {
      senders.push_back(&bench.add({.from = i, .to = kReceiver, .name = fmt::format("sender {}", i)}));
    }
    Flow& victim = bench.add({.from = kVictim, .to = kVictimTo, .name = "victim"});
    bench.connect();
    bench.start(victim);
    bench.sim().at(bench.at(begins), [&] {
      for (Flow* flow : senders) bench.start(*flow);
    });
    bench.run_to(end, end);
    const double line = bench.capacity(kPlanes);
    const double share = bench.goodput(victim, begins, end) / line;
    double worst = 10;
    for (Duration t = begins; t < end; t = t + milliseconds(1)) {
      worst = std::min(worst, bench.goodput(victim, t, t + milliseconds(1)) / line);
    }
    std::vector<double> each;
    double sum = 0;
    for (const Flow* flow : senders) {
      each.push_back(bench.goodput(*flow, begins, end) / line);
      sum += each.back();
    }
    const bool drained = bench.drain(seconds(5));
    Plot plot{.title = fmt::format("7:1 incast, {}", variant.name), .x = "ms", .y = "Gb/s of payload"};
    for (const auto& flow : bench.flows()) plot.series.push_back(bench.curve(*flow));
    report.plot(plot);
    report.data()[variant.name] = {{"victim", share},    {"victim_worst_ms", worst}, {"senders", each},
                                   {"jain", jain(each)}, {"receiver_line", sum},     {"counters", bench.counters()}};
    report.judge(share >= 0.97, fmt::format("{}: victim {:.1f} % of its line", variant.name, share * 100), ">= 97 %");
    report.judge(jain(each) >= 0.99, fmt::format("Jain {:.4f}", jain(each)), ">= 0.99");
    report.judge(sum >= 0.9 && sum <= 1.01, fmt::format("receiver's line {:.1f} % full", sum * 100), "90-100 %");
    report.judge(drained && bench.errors() == 0, fmt::format("{} errors", bench.errors() + !drained), "0");
    const auto total = bench.sim().clos().totals();
    report.note(fmt::format("{}: victim's worst ms {:.1f} %, trimmed {}, dropped {}, marked {}", variant.name,
                            worst * 100, total.trimmed, total.dropped(), total.marked));
  }
}

}  // namespace mrc::experiments
