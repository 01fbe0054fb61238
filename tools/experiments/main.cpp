// SPDX-License-Identifier: BSD-2-Clause
// mrc-experiment: runs one experiment in virtual time and judges it. tools/experiments/run is what people call.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cstdio>
#include <exception>

#include "experiments.hpp"

namespace mrc::experiments {

std::span<const Experiment> all_experiments() {
  static constexpr std::array kAll = {
      Experiment{"nic-link-removal", "8 planes, one transfer each way; links to a NIC removed down to 1 and restored",
                 nic_link_removal},
      Experiment{"t0-t1-failures", "20 T0-T1 links fail one after the other, 8 flap, a T1 dies", t0_t1_failures},
      Experiment{"bad-ev", "one of 16 paths drops 20 %", bad_ev},
      Experiment{"loss", "0, 0.1, 1, 5 % loss on every plane: goodput and latency, 4 KB to 64 MB", loss},
      Experiment{"incast", "7:1 with a victim flow; also without trimming, and without ECN balancing", incast},
      Experiment{"shared-ev", "two flows forced onto one path: ECN moves one away", shared_ev},
      Experiment{"uneven-planes", "one of 4 planes at a quarter of its speed", uneven_planes},
      Experiment{"lossy-nic-link", "one NIC-T0 link loses 5 %, then heals; likewise all T1s of a plane",
                 lossy_nic_link},
      Experiment{"sweeps", "EV count, probe interval, revival count, SACK and gap thresholds", sweeps},
  };
  return kAll;
}

}  // namespace mrc::experiments

int main(int argc, char** argv) {
  using namespace mrc::experiments;
  Options options;
  std::string name;
  bool list = false, no_progress = false;
  CLI::App app("Runs one experiment in virtual time: OUT/NAME.json, and its figures against their goals on stdout.");
  app.add_option("NAME", name, "which one; --list names them");
  app.add_flag("--list", list, "names and what each does");
  app.add_option("--seed", options.seed, "of all random numbers: one seed, one result")->capture_default_str();
  app.add_option("--out", options.out, "directory for NAME.json")->capture_default_str();
  app.add_flag("--quick", options.quick, "small, with every payload byte carried and compared");
  app.add_flag("--full-time", options.full_time, "t0-t1-failures: one failure a second, as in the paper");
  app.add_flag("--no-progress", no_progress, "nothing on stderr");
  CLI11_PARSE(app, argc, argv);
  options.progress = !no_progress;
  if (list) {
    for (const Experiment& e : all_experiments()) fmt::print("{:<18} {}\n", e.name, e.what);
    return 0;
  }
  for (const Experiment& e : all_experiments()) {
    if (e.name != name) continue;
    try {
      fmt::print("{}: {} (seed {}{})\n", e.name, e.what, options.seed, options.quick ? ", quick" : "");
      Report report(e.name, options);
      e.run(options, report);
      progress(options, "done", true);
      report.write();
      fmt::print("{}\n", report.verdict());
      return report.passed() ? 0 : 1;
    } catch (const std::exception& error) {
      fmt::print(stderr, "mrc-experiment: {}\n", error.what());
      return 2;
    }
  }
  fmt::print(stderr, "mrc-experiment: there is no experiment '{}'; --list names them\n", name);
  return 2;
}
