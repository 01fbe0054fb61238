// SPDX-License-Identifier: BSD-2-Clause
// mrc-bench: what messages cost, by size and by the rung of the size ladder that carries them (inject, eager,
// rendezvous), through libfabric's public interface. Two endpoints in one process and one thread show the processor
// time of both ends together, which other load on the machine does not distort; two processes show the wall clock.
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "bench.hpp"

namespace {

using namespace mrc::bench;

std::size_t bytes_of(const std::string& text) {
  char* end = nullptr;
  std::size_t n = std::strtoull(text.c_str(), &end, 10);
  if (*end == 'k' || *end == 'K') n <<= 10;
  if (*end == 'm' || *end == 'M') n <<= 20;
  return n;
}

/// The rung is chosen by FI_MRC_EAGER_SIZE, which is read once in a process: each gets processes of its own.
int run(const Options& options) {
  try {
    return options.pair ? run_pair(options) : run_alone(options);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "mrc-bench: %s\n", e.what());
    return 1;
  }
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Costs of messages by size and rung of the size ladder");
  Options options;
  std::vector<std::string> sizes{"0",  "8",   "64",  "256", "1k",   "2k",   "4k",
                                 "8k", "16k", "32k", "64k", "128k", "256k", "1m"};
  std::vector<std::string> rungs{"inject", "eager", "rendezvous"};
  app.add_flag("--pair", options.pair, "two processes and the wall clock (default: one process, processor time)");
  app.add_option("--sizes", sizes, "message sizes, with k or m")->delimiter(',');
  app.add_option("--rungs", rungs, "inject, eager, rendezvous")
      ->delimiter(',')
      ->check(CLI::IsMember({"inject", "eager", "rendezvous"}));
  app.add_option("--seconds", options.seconds, "for each size and rung")->check(CLI::Range(0.01, 60.0));
  app.add_option("--depth", options.depth, "messages in flight of the rate")->check(CLI::Range(1, 512));
  app.add_flag("--unexpected", options.unexpected, "post receives after the messages have come (one process only)");
  CLI11_PARSE(app, argc, argv);
  for (const auto& s : sizes) options.sizes.push_back(bytes_of(s));

  std::printf("| rung | bytes | %s | rate, %u in flight | bytes/s |\n|---|---:|---:|---:|---:|\n",
              options.pair ? "half round trip, p10 / median" : "processor time, one way, both ends", options.depth);
  int failed = 0;
  for (const auto& rung : rungs) {
    std::fflush(nullptr);
    const pid_t child = fork();
    if (child == 0) {
      options.rung = rung;
      setenv("FI_PROVIDER", "mrc", 0);
      setenv("FI_MRC_EAGER_SIZE", rung == "rendezvous" ? "1k" : "64k", 1);
      setenv("FI_MRC_MAX_INJECT", "4096", 1);
      std::exit(run(options));
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (status != 0) ++failed;
  }
  return failed == 0 ? 0 : 1;
}
