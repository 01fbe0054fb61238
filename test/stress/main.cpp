// SPDX-License-Identifier: BSD-2-Clause
// stress: every operation of libfabric at random between some processes of some threads, against a model in shared
// memory. Every byte and every completion is checked; see README.md.
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <new>
#include <thread>

#include "member.hpp"

namespace stress {

double now() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

namespace {

std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
  x = (x ^ x >> 27) * 0x94d049bb133111eb;
  return x ^ x >> 31;
}
std::uint64_t word_at(std::uint64_t id, std::size_t i) {
  return i == 0 ? id : mix(id + i);
}

constexpr double kRound = 1.0;
constexpr double kPatience = 60;

class Thread {
 public:
  Thread(World& world, Member& member, int rank, int thread)
      : world_(world),
        member_(member),
        leads_(!world.shared || thread == 0),
        first_(rank == 0 && thread == 0),
        random_(mix(world.seed + static_cast<std::uint64_t>(rank * 64 + thread))) {}

  void run() {
    if (first_) world_.end = now() + world_.seconds;  // opening took its time
    barrier("start");
    for (std::uint64_t round = 0;; ++round) {
      // The same for all: what a round is like depends on the seed alone.
      Random shape(mix(world_.seed * 1000 + round));
      if (leads_) member_.begin_round(shape);
      barrier("begin of a round");
      const bool last = now() >= world_.end || world_.told;
      const double end = now() + (last ? 0 : kRound);
      while (now() < end && !world_.failed) {
        member_.step(random_, false);
        if (random_.one_in(3000)) usleep(static_cast<useconds_t>(random_.below(15000)));  // the provider's thread works
      }
      barrier("end of sending");
      drain();
      barrier("quiet");
      if (leads_) {
        member_.cancel_leftovers();
        for (int i = 0; i < 10; ++i) member_.poll();
        member_.check_round();
      }
      if (first_) world_.count(kRounds);
      if (agree(last)) return;
    }
  }

 private:
  /// Everybody has come here; those who wait go on receiving.
  void barrier(const char* where) {
    const std::uint64_t all = static_cast<std::uint64_t>(world_.ranks * world_.threads);
    const std::uint64_t wanted = (world_.arrived.fetch_add(1) / all + 1) * all;
    const double limit = now() + 2 * kPatience;  // who does not get quiet says so first, and why
    while (world_.arrived < wanted) {
      if (world_.failed) throw std::runtime_error("");
      member_.step(random_, true);
      if (now() > limit) throw std::runtime_error(std::string("nobody comes to the ") + where);
    }
  }
  void drain() {
    const double limit = now() + kPatience;
    while (!member_.quiet()) {
      if (world_.failed) throw std::runtime_error("");
      member_.step(random_, true);
      if (now() > limit) throw std::runtime_error("not quiet: " + member_.state());
    }
  }
  /// Clocks may differ by a hair; the decision must not.
  bool agree(bool last) {
    if (last) world_.stopping = true;
    barrier("agreement");
    const bool stop = world_.stopping;
    barrier("agreement");
    return stop;
  }

  World& world_;
  Member& member_;
  bool leads_;  ///< does for its member what is done once
  bool first_;
  Random random_;
};

int process(World& world, int rank) {
  std::vector<std::thread> threads;
  const auto failed = [&](const std::exception& e) {
    if (*e.what() == '\0' || world.failed.exchange(true)) return;
    std::snprintf(world.why, sizeof world.why, "process %d: %s", rank, e.what());
  };
  try {
    Domain domain(world);
    std::vector<std::unique_ptr<Member>> members;
    const int per_rank = world.shared ? 1 : world.threads;
    for (int i = 0; i < per_rank; ++i) members.push_back(std::make_unique<Member>(world, domain, rank * per_rank + i));
    world.opened.fetch_add(per_rank);
    while (world.opened < world.members && !world.failed) usleep(1000);
    for (auto& member : members) member->connect();
    for (int i = 0; i < world.threads; ++i)
      threads.emplace_back([&, i] {
        try {
          Thread(world, *members[static_cast<std::size_t>(world.shared ? 0 : i)], rank, i).run();
        } catch (const std::exception& e) {
          failed(e);
        }
      });
    for (auto& thread : threads) thread.join();
    // An endpoint that closes while others still answer takes their last words with it.
    world.closed.fetch_add(1);
    while (world.closed < world.ranks && !world.failed) members[0]->poll();
    if (world.failed) _exit(1);
  } catch (const std::exception& e) {
    failed(e);
    _exit(1);
  }
  return world.failed ? 1 : 0;
}

World* told_world = nullptr;
void on_term(int) {
  told_world->told = true;
}

constexpr const char* kNames[kCounts] = {"sends",
                                         "tagged sends",
                                         "injects",
                                         "delivery complete",
                                         "receives",
                                         "multi-receives",
                                         "peeks",
                                         "claims",
                                         "discards",
                                         "truncated",
                                         "cancels",
                                         "writes",
                                         "writes with data",
                                         "reads",
                                         "atomics",
                                         "fetch atomics",
                                         "compare atomics",
                                         "fences",
                                         "bytes",
                                         "rounds"};

}  // namespace

void fill(std::uint8_t* at, std::size_t size, std::uint64_t id) {
  for (std::size_t i = 0; i < size; i += 8) {
    const std::uint64_t word = word_at(id, i / 8);
    std::memcpy(at + i, &word, std::min<std::size_t>(8, size - i));
  }
}

void differs(const char* file, int line, const char* what, const std::string& seen) {
  throw std::runtime_error(fmt::format("{}:{}: {}:{}", file, line, what, seen));
}

std::size_t difference(const std::uint8_t* at, std::size_t size, std::uint64_t id) {
  for (std::size_t i = 0; i < size; i += 8) {
    const std::uint64_t word = word_at(id, i / 8);
    const std::size_t n = std::min<std::size_t>(8, size - i);
    if (std::memcmp(at + i, &word, n) == 0) continue;
    for (std::size_t k = 0; k < n; ++k)
      if (std::memcmp(at + i + k, reinterpret_cast<const std::uint8_t*>(&word) + k, 1) != 0) return i + k;
  }
  return SIZE_MAX;
}

}  // namespace stress

int main(int argc, char** argv) {
  using namespace stress;
  CLI::App app("Every libfabric operation at random between processes, checked against a model in shared memory.");
  std::uint64_t seed = static_cast<std::uint64_t>(time(nullptr));
  double seconds = 15;
  int ranks = 4, threads = 2;
  bool shared = false, ordered = false;
  app.add_option("--seed", seed, "of everything random (printed)")->capture_default_str();
  app.add_option("--seconds", seconds, "how long")->capture_default_str();
  app.add_option("--ranks", ranks, "processes")->check(CLI::Range(1, kMembers))->capture_default_str();
  app.add_option("--threads", threads, "threads of each")->check(CLI::Range(1, kMembers))->capture_default_str();
  app.add_flag("--shared", shared, "the threads of a process share one endpoint");
  app.add_flag("--ordered", ordered, "ask for all orders, and let operations overlap");
  app.footer(
      "\nSIGTERM ends it after the round that runs.\n\nExamples:\n  stress --seconds 600 --seed 7\n  stress --shared "
      "--ordered");
  CLI11_PARSE(app, argc, argv);
  const int members = shared ? ranks : ranks * threads;
  if (members > kMembers) {
    std::fprintf(stderr, "at most %d endpoints in all\n", kMembers);
    return 2;
  }
  void* memory = mmap(nullptr, sizeof(World), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return 2;
  World& world = *new (memory) World;
  world.seed = seed;
  world.ranks = ranks;
  world.threads = threads;
  world.members = members;
  world.shared = shared;
  world.ordered = ordered;
  world.seconds = seconds;
  std::printf("stress: seed %llu, %d processes of %d threads, %s%s, %.0f s\n", static_cast<unsigned long long>(seed),
              ranks, threads, shared ? "one endpoint a process" : "one endpoint a thread", ordered ? ", ordered" : "",
              seconds);
  std::fflush(stdout);
  told_world = &world;
  signal(SIGTERM, on_term);
  std::vector<pid_t> children;
  for (int rank = 0; rank < ranks; ++rank) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(static_cast<unsigned>(seconds) + 300);  // a hang is a failure
      const int code = process(world, rank);
      std::fflush(stdout);
      return code;
    }
    children.push_back(child);
  }
  bool good = true;
  for (const pid_t child : children) {
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    if (status != 0) {
      good = false;
      if (WIFSIGNALED(status) && !world.failed.exchange(true))
        std::snprintf(world.why, sizeof world.why, "a process died of signal %d", WTERMSIG(status));
    }
  }
  for (int i = 0; i < kCounts; ++i)
    std::printf("   %-18s %12llu\n", kNames[i], static_cast<unsigned long long>(world.counts[i].load()));
  if (good && (world.counts[kRounds] < 2 || world.counts[kTaggedSends] == 0)) {
    good = false;
    std::snprintf(world.why, sizeof world.why, "hardly anything was done in this time");
  }
  if (!good) {
    std::printf("stress: FAILED, seed %llu: %s\n", static_cast<unsigned long long>(seed), world.why);
    return 1;
  }
  std::printf("stress: no difference\n");
  return 0;
}
