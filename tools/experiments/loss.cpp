// SPDX-License-Identifier: BSD-2-Clause
// loss: 0, 0.1, 1 and 5 % random loss on every plane (SACKs are lost too). Goodput with writes in flight all the time,
// and the latency of one write at a time (post → acknowledged), from 4 KB to 64 MB.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "bench.hpp"
#include "experiments.hpp"

namespace mrc::experiments {
namespace {

constexpr unsigned kPlanes = 4;
constexpr std::array kLoss = {0.0, 0.001, 0.01, 0.05};
constexpr std::array kShare = {1.0, 0.95, 0.90, 0.85};  // the goals

struct Size {
  std::uint32_t bytes;
  const char* name;
  unsigned depth;
  Duration time;     // for goodput
  unsigned samples;  // of latency
};

void set_loss(Bench& bench, double loss) {
  for (unsigned plane = 0; plane < kPlanes; ++plane) bench.command(fmt::format("plane {} loss {}%", plane, loss * 100));
}

double goodput(const fabric::SimConfig& config, const Options& options, const Size& size, double loss,
               nlohmann::json& row, std::uint64_t& errors) {
  Bench bench(config, options);
  Flow& flow = bench.add({.from = 0, .to = 1, .message = size.bytes, .depth = size.depth});
  bench.connect();
  set_loss(bench, loss);
  bench.start(flow);
  const Duration end = milliseconds(1) + size.time;
  bench.run_to(end, end);
  const double bps = bench.goodput(flow, milliseconds(1), end);
  if (!bench.drain()) ++errors;
  errors += bench.errors();
  const double line = bench.capacity(kPlanes);
  row["goodput_gbps"] = bps / 1e9;
  row["share_of_line"] = bps / line;
  row["counters"] = bench.counters();
  return bps;
}

Histogram latency(const fabric::SimConfig& config, const Options& options, const Size& size, double loss,
                  nlohmann::json& row, std::uint64_t& errors) {
  Bench bench(config, options);
  Flow& flow = bench.add({.from = 0, .to = 1, .message = size.bytes, .depth = 1});
  bench.connect();
  set_loss(bench, loss);
  bench.start(flow);
  if (!bench.run_until([&] { return flow.done > size.samples; }, seconds(60))) ++errors;
  if (!bench.drain()) ++errors;
  errors += bench.errors();
  row["latency"] = flow.latency.json();
  row["latency_counters"] = bench.counters();
  return std::move(flow.latency);
}

}  // namespace

void loss(const Options& options, Report& report) {
  const std::vector<Size> sizes = options.quick ? std::vector<Size>{{4096, "4 KB", 128, milliseconds(2), 4000},
                                                                    {1u << 20, "1 MB", 16, milliseconds(4), 40}}
                                                : std::vector<Size>{{4096, "4 KB", 128, milliseconds(6), 40000},
                                                                    {65536, "64 KB", 64, milliseconds(6), 4000},
                                                                    {1u << 20, "1 MB", 16, milliseconds(10), 600},
                                                                    {16u << 20, "16 MB", 16, milliseconds(15), 40},
                                                                    {64u << 20, "64 MB", 16, milliseconds(30), 10}};
  const auto config = realistic(options, 2, kPlanes, 50'000'000'000u);
  Plot shares{.title = "goodput with loss, as share of loss-free", .x = "message, KB", .y = "share", .log_x = true};
  Plot tails{.title = "latency of one write at a time: p50 (line), p99 (dashed), p99.9 (points)",
             .x = "message, KB",
             .y = "us",
             .log_x = true,
             .log_y = true};
  std::map<std::uint32_t, double> clean;
  std::array<double, kLoss.size()> least{};
  least.fill(10);
  std::uint64_t errors = 0;
  Duration clean_p99{}, clean_p999{}, p999{}, p99{};
  for (std::size_t i = 0; i < kLoss.size(); ++i) {
    const std::string label = fmt::format("{:g} % loss", kLoss[i] * 100);
    Series share{.label = label}, p50{.label = label}, tail{.label = {}, .dashed = true},
        far{.label = {}, .points = true};
    for (const Size& size : sizes) {
      nlohmann::json row = {{"loss", kLoss[i]}, {"bytes", size.bytes}};
      const double bps = goodput(config, options, size, kLoss[i], row, errors);
      if (i == 0) clean[size.bytes] = bps;
      const double ratio = bps / clean[size.bytes];
      if (size.bytes >= 1u << 20) least[i] = std::min(least[i], ratio);
      Histogram h = latency(config, options, size, kLoss[i], row, errors);
      fmt::print(
          "       {:>5} at {:>4.1f} %: {:6.1f} Gb/s, {:5.1f} % of loss-free; latency p50 {:.1f}, p99 {:.1f}, "
          "p99.9 {:.1f}, max {:.1f} us ({} writes)\n",
          size.name, kLoss[i] * 100, bps / 1e9, ratio * 100, static_cast<double>(h.quantile(0.5).ns) / 1e3,
          static_cast<double>(h.quantile(0.99).ns) / 1e3, static_cast<double>(h.quantile(0.999).ns) / 1e3,
          static_cast<double>(h.quantile(1).ns) / 1e3, h.count());
      std::fflush(stdout);
      if (size.bytes == 4096) {
        if (i == 0) clean_p99 = h.quantile(0.99), clean_p999 = h.quantile(0.999);
        if (i == 1) p999 = h.quantile(0.999);
        if (i == 2) p99 = h.quantile(0.99);
      }
      const double kb = size.bytes / 1024.0;
      for (Series* s : {&share, &p50, &tail, &far}) s->x.push_back(kb);
      share.y.push_back(ratio);
      p50.y.push_back(static_cast<double>(h.quantile(0.5).ns) / 1e3);
      tail.y.push_back(static_cast<double>(h.quantile(0.99).ns) / 1e3);
      far.y.push_back(static_cast<double>(h.quantile(0.999).ns) / 1e3);
      report.data()["points"].push_back(std::move(row));
    }
    shares.series.push_back(std::move(share));
    for (Series* s : {&p50, &tail, &far}) tails.series.push_back(std::move(*s));
  }
  report.plot(std::move(shares));
  report.plot(std::move(tails));
  for (std::size_t i = 1; i < kLoss.size(); ++i) {
    report.judge(least[i] >= kShare[i], fmt::format("{:.1f} % of loss-free at {:g} %", least[i] * 100, kLoss[i] * 100),
                 fmt::format(">= {:.0f} %", kShare[i] * 100));
  }
  const auto times = [](Duration a, Duration b) { return static_cast<double>(a.ns) / static_cast<double>(b.ns); };
  report.judge(p999.ns < 3 * clean_p999.ns, fmt::format("4 KB p99.9 at 0.1 % {:.2f} x", times(p999, clean_p999)),
               "< 3 x loss-free");
  report.judge(p99.ns < 3 * clean_p99.ns, fmt::format("4 KB p99 at 1 % {:.2f} x", times(p99, clean_p99)),
               "< 3 x loss-free");
  report.judge(errors == 0, fmt::format("{} errors", errors), "0");
}

}  // namespace mrc::experiments
