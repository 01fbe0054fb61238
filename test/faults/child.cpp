// SPDX-License-Identifier: BSD-2-Clause
// Child processes, and the memory that they share with their parent.
#include "child.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstring>
#include <new>
#include <thread>

namespace mrc::faults {
namespace {

constexpr unsigned kMostJobs = 64;
constexpr unsigned kPatience = 60;  // seconds of wall clock for one seed

/// What a child says, in memory that outlives it.
struct Slot {
  std::atomic<std::uint64_t> seed{0};  ///< under way
  std::uint64_t failed_seed = 0;
  std::array<char, 256> violation{};
  std::array<char, 1024> details{};
  Verdict verdict;  // numbers only: strings do not cross processes
};

struct Shared {
  std::atomic<std::uint64_t> next{0}, done{0}, lowest_failed{UINT64_MAX};
  std::atomic<std::uint64_t> packets{0}, retransmitted{0}, failed_writes{0}, events{0}, audits{0};
  std::array<Slot, kMostJobs> slots;
};

class SharedMemory {
 public:
  SharedMemory() {
    void* at = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) throw std::bad_alloc();
    shared_ = new (at) Shared;
  }
  ~SharedMemory() { munmap(shared_, sizeof(Shared)); }
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  Shared* operator->() { return shared_; }

 private:
  Shared* shared_;
};

template <std::size_t N>
void store(std::array<char, N>& to, const std::string& text) {
  const std::size_t n = std::min(text.size(), N - 1);
  std::memcpy(to.data(), text.data(), n);
  to[n] = 0;
}

std::string death(int status) {
  if (WIFSIGNALED(status)) {
    const int signal = WTERMSIG(status);
    return signal == SIGALRM ? std::string("one seed takes far too long: an endless loop")
                             : fmt::format("the process died: {}", strsignal(signal));
  }
  return fmt::format("the process ended with status {}", WEXITSTATUS(status));
}

void tell(Slot& slot, const Verdict& v) {
  store(slot.violation, v.violation);
  store(slot.details, v.details);
}

/// Runs one seed, twice where asked.
Verdict judge(std::uint64_t seed, bool twice) {
  const Plan plan = make_plan(seed);
  Verdict v = run(plan);
  if (v.violation.empty() && twice && run(plan).hash != v.hash) {
    v.violation = "two runs of one seed differ";
  }
  return v;
}

[[noreturn]] void work(SharedMemory& shared, unsigned job, const Campaign& c) {
  Slot& slot = shared->slots[job];
  for (;;) {
    const std::uint64_t n = shared->next.fetch_add(1);
    const std::uint64_t seed = c.first + n;
    if (n >= c.count || shared->lowest_failed < seed) _exit(0);
    slot.seed = seed;
    alarm(c.patience);
    const Verdict v = judge(seed, c.repeat_every != 0 && n % c.repeat_every == 0);
    alarm(0);
    shared->packets += v.packets;
    shared->retransmitted += v.retransmitted;
    shared->failed_writes += v.failed_writes;
    shared->events += v.events;
    shared->audits += v.audits;
    if (!v.violation.empty()) {
      slot.failed_seed = seed;
      tell(slot, v);
      for (auto low = shared->lowest_failed.load();
           seed < low && !shared->lowest_failed.compare_exchange_weak(low, seed);) {
      }
      _exit(0);
    }
    slot.seed = 0;
    ++shared->done;
  }
}

}  // namespace

Verdict run_apart(const Plan& plan, bool trace) {
  SharedMemory shared;
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    alarm(kPatience);
    const Verdict v = run(plan, trace);
    std::fflush(stdout);
    tell(shared->slots[0], v);
    Verdict& numbers = shared->slots[0].verdict;
    numbers.hash = v.hash;
    numbers.events = v.events;
    numbers.elapsed = v.elapsed;
    numbers.packets = v.packets;
    numbers.retransmitted = v.retransmitted;
    numbers.failed_writes = v.failed_writes;
    numbers.audits = v.audits;
    _exit(0);
  }
  Verdict v;
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child) {
    v.violation = "no process could be started";
    return v;
  }
  v = shared->slots[0].verdict;
  if (status != 0) {
    v.violation = death(status);
  } else {
    v.violation = shared->slots[0].violation.data();
    v.details = shared->slots[0].details.data();
  }
  return v;
}

CampaignResult run_campaign(const Campaign& campaign) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  const auto seconds = [&] { return std::chrono::duration<double>(Clock::now() - begin).count(); };
  SharedMemory shared;
  const unsigned jobs = std::clamp(campaign.jobs, 1u, kMostJobs);
  std::vector<pid_t> children(jobs, -1);
  std::fflush(stdout);
  for (unsigned i = 0; i < jobs; ++i) {
    children[i] = fork();
    if (children[i] == 0) work(shared, i, campaign);
  }
  CampaignResult result;
  double told = 0;
  for (unsigned left = jobs; left != 0;) {
    left = 0;
    for (unsigned i = 0; i < jobs; ++i) {
      if (children[i] <= 0) continue;
      int status = 0;
      if (waitpid(children[i], &status, WNOHANG) == 0) {
        ++left;
        continue;
      }
      children[i] = -1;
      Slot& slot = shared->slots[i];
      if (status == 0) continue;
      slot.failed_seed = slot.seed;
      store(slot.violation, death(status));
      shared->lowest_failed = std::min<std::uint64_t>(shared->lowest_failed, slot.failed_seed);
    }
    if (left == 0) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    if (campaign.progress && seconds() - told >= 5) {
      told = seconds();
      fmt::print(stderr, "  {} of {} seeds, {:.0f} a minute\n", shared->done.load(), campaign.count,
                 static_cast<double>(shared->done) * 60 / told);
    }
  }
  result.seconds = seconds();
  result.seeds = shared->done;
  result.packets = shared->packets;
  result.retransmitted = shared->retransmitted;
  result.failed_writes = shared->failed_writes;
  result.events = shared->events;
  result.audits = shared->audits;
  for (const Slot& slot : shared->slots) {
    if (slot.failed_seed == 0 || (result.failed && slot.failed_seed > result.seed)) continue;
    result.failed = true;
    result.seed = slot.failed_seed;
    result.violation = slot.violation.data();
    result.details = slot.details.data();
  }
  return result;
}

}  // namespace mrc::faults
