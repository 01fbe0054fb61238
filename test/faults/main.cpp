// SPDX-License-Identifier: BSD-2-Clause
// Fault finding in virtual time: whole systems of production cores under random faults, seed by seed.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "child.hpp"
#include "plan.hpp"
#include "plants.hpp"
#include "shrink.hpp"
#include "system.hpp"

using namespace mrc::faults;

namespace {

constexpr unsigned kShrinkAttempts = 400;

struct Options {
  std::uint64_t seeds = 200, first = 1;
  std::optional<std::uint64_t> seed;
  unsigned jobs = 2;
  std::string plant;
  bool trace = false, no_shrink = false, quiet = false, print_plan = false;
};

/// Shows what went wrong, how to see it again, and the smallest plan that shows it too.
void report(const char* self, std::uint64_t seed, const std::string& violation, const std::string& details,
            bool smaller, bool trace = false) {
  fmt::print("\nseed {} FAILED: {}\n  {}\n  again: {} --seed {} --trace\n", seed, violation, details, self, seed);
  const Plan plan = make_plan(seed);
  if (!smaller || violation == "two runs of one seed differ") return;
  unsigned tried = 0;
  const Plan small = shrink(
      plan,
      [&](const Plan& candidate) {
        ++tried;
        return run_apart(candidate).violation == violation;
      },
      kShrinkAttempts);
  const Verdict v = run_apart(small);
  fmt::print("  shrunk in {} runs, from {} operations and {} faults to {} and {}:\n  {}: {}\n{}", tried,
             plan.operations.size(), plan.faults.size(), small.operations.size(), small.faults.size(), v.violation,
             v.details, to_string(small));
  if (trace) run_apart(small, true);
}

int run_one(const char* self, const Options& o) {
  const Plan plan = make_plan(*o.seed);
  if (o.print_plan || o.trace) fmt::print("{}", to_string(plan));
  const Verdict v = run_apart(plan, o.trace);
  fmt::print(
      "seed {}: trace {:016x}, {} events, {} packets ({} sent again), {} full audits, {:.3f} ms of virtual time\n",
      *o.seed, v.hash, v.events, v.packets, v.retransmitted, v.audits, static_cast<double>(v.elapsed.ns) / 1e6);
  if (v.violation.empty()) return 0;
  report(self, *o.seed, v.violation, v.details, !o.no_shrink, o.trace);
  return 1;
}

int run_many(const char* self, const Options& o) {
  Campaign campaign;
  campaign.first = o.first;
  campaign.count = o.seeds;
  campaign.jobs = o.jobs;
  campaign.progress = !o.quiet;
  const CampaignResult r = run_campaign(campaign);
  if (r.failed) report(self, r.seed, r.violation, r.details, !o.no_shrink);
  fmt::print(
      "faults: {} seeds from {} in {:.1f} s ({:.0f} seeds a minute with {} jobs), {} packets ({} sent again), "
      "{} events, {} full audits, {} writes failed for good reason: {}\n",
      r.seeds, o.first, r.seconds, static_cast<double>(r.seeds) * 60 / r.seconds, o.jobs, r.packets, r.retransmitted,
      r.events, r.audits, r.failed_writes, r.failed ? "FAILED" : "nothing found");
  return r.failed ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options o;
  CLI::App app(
      "Runs whole systems of production transport cores over the emulated fabric, in virtual time, under random "
      "faults, "
      "and checks after each event what must hold. A seed determines everything. Exit status 1: something was found; "
      "the seed is then shrunk to a small plan.");
  app.add_option("--seeds", o.seeds, "how many seeds to run")->capture_default_str();
  app.add_option("--first", o.first, "the first of them")->capture_default_str();
  app.add_option("--seed", o.seed, "run this one only");
  app.add_flag("--trace", o.trace, "with --seed: tell everything that happens");
  app.add_flag("--plan", o.print_plan, "with --seed: print its plan");
  app.add_option("--jobs", o.jobs, "processes")->capture_default_str();
  app.add_option("--plant", o.plant,
                 "plant a bug (its number, its name, or all): how many of the seeds are needed to find it "
                 "(faults_planted only); \"list\" names them");
  app.add_flag("--no-shrink", o.no_shrink, "do not look for a smaller plan that fails too");
  app.add_flag("--quiet", o.quiet, "no progress on stderr");
  app.footer("examples:\n  faults --seeds 10000\n  faults --seed 42 --trace");
  CLI11_PARSE(app, argc, argv);
  if (!o.plant.empty() && !o.seed) {
    Campaign campaign;
    campaign.first = o.first;
    campaign.count = o.seeds;
    campaign.jobs = o.jobs;
    campaign.repeat_every = 0;
    campaign.progress = false;
    campaign.patience = 10;
    return run_planted(o.plant, campaign);
  }
  if (!o.plant.empty() && !plant(o.plant)) return 2;
  return o.seed ? run_one(argv[0], o) : run_many(argv[0], o);
}
