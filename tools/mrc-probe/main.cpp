// SPDX-License-Identifier: BSD-2-Clause
// mrc-probe: rounds of probing, each judged and reported.
#include <fmt/format.h>
#include <signal.h>

#include <cstdio>

#include "options.hpp"
#include "prober.hpp"
#include "report.hpp"

namespace {

using namespace mrc;

volatile bool stop_wanted = false;

void on_signal(int) {
  stop_wanted = true;
}

int cannot(const Error& error) {
  fmt::print(stderr, "mrc-probe: {}\n", error.text);
  return 2;
}

/// 0: nothing is wrong, 1: something is.
int report(const tool::Options& options, const std::vector<probe::Result>& results) {
  const probe::Diagnosis diagnosis = probe::localize(results, options.rules);
  fmt::print("{}",
             options.json ? tool::json_report(results, diagnosis) : tool::text_report(results, diagnosis, options.all));
  std::fflush(stdout);
  if (!options.denylist.empty()) {
    if (auto written = tool::write_denylist(options.denylist, diagnosis); !written) return cannot(written.error());
  }
  std::uint64_t sent = 0;
  for (const probe::Result& result : results) sent += result.sent;
  return sent == 0 ? 2 : diagnosis.findings.empty() ? 0 : 1;
}

int run(const tool::Options& options) {
  if (!options.merge.empty()) {
    std::vector<probe::Result> all;
    for (const std::string& file : options.merge) {
      auto results = tool::read_results(file);
      if (!results) return cannot(results.error());
      all.insert(all.end(), results->begin(), results->end());
    }
    return report(options, all);
  }
  struct sigaction action {};
  action.sa_handler = on_signal;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  auto prober = tool::Prober::open(options);
  if (!prober) return cannot(prober.error());
  if (!options.json) fmt::print("{}\n", (*prober)->describe());
  int worst = 0;
  for (unsigned round = 0; (options.rounds == 0 || round < options.rounds) && !stop_wanted; ++round) {
    auto results = (*prober)->run(stop_wanted);
    if (!results) return cannot(results.error());
    for (const std::string& note : (*prober)->notes()) fmt::print(stderr, "{}\n", note);
    worst = std::max(worst, report(options, *results));
  }
  return worst;
}

}  // namespace

int main(int argc, char** argv) {
  tool::Options options;
  int exit_code = 0;
  if (!tool::parse_options(argc, argv, options, exit_code)) return exit_code;
  return run(options);
}
