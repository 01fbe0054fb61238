// SPDX-License-Identifier: BSD-2-Clause
// Several threads asleep on one queue, counter or event queue: each is woken for what is its own, none sleeps through.
#include <rdma/fi_eq.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "objects.hpp"
#include "objects_fixture.hpp"

using namespace mrc;
using test::Fid;
using test::Objects;

TEST_CASE("threads that block on one queue share its completions") {
  constexpr int kThreads = 4, kEntries = 2000;
  Objects o;
  fi_cq_attr attr{};
  attr.size = kEntries;
  attr.wait_obj = GENERATE(FI_WAIT_UNSPEC, FI_WAIT_YIELD);
  const auto cq = o.open_cq(attr);
  std::vector<std::atomic<int>> taken(kEntries);
  std::atomic<int> total{0}, missed{0};
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < kThreads; ++t)
      threads.emplace_back([&] {
        while (total < kEntries) {
          fi_cq_entry entry;
          const ssize_t n = fi_cq_sread(cq.get(), &entry, 1, nullptr, 200);
          if (n == 1) {
            ++taken[reinterpret_cast<std::uintptr_t>(entry.op_context)];
            ++total;
          } else if (total < kEntries && n != -FI_EAGAIN) {
            ++missed;
          }
        }
      });
    for (std::uintptr_t i = 0; i < kEntries; ++i) {
      if (i % 64 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      const std::lock_guard guard(*o.engine);
      prov::Completion completion;
      completion.op_context = reinterpret_cast<void*>(i);
      prov::cq_of(&cq->fid)->push(completion);
    }
  }
  CHECK(missed == 0);
  for (const auto& count : taken) REQUIRE(count == 1);
}

TEST_CASE("every thread that waits for a counter is woken at its threshold") {
  constexpr std::uint64_t kThreads = 6;
  Objects o;
  const auto cntr = o.open_cntr();
  std::atomic<int> woken{0};
  const auto start = std::chrono::steady_clock::now();
  {
    std::vector<std::jthread> threads;
    for (std::uint64_t t = 1; t <= kThreads; ++t)
      threads.emplace_back([&, t] {
        for (std::uint64_t round = 0; round < 10; ++round)
          if (fi_cntr_wait(cntr.get(), round * kThreads + t, 20000) == 0) ++woken;
      });
    for (std::uint64_t i = 0; i < 10 * kThreads; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      CHECK(fi_cntr_add(cntr.get(), 1) == 0);
    }
  }
  CHECK(woken == 10 * kThreads);
  // A wake-up that got lost costs a tenth of a second before the sleeper looks by itself.
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(15));
}

TEST_CASE("a set wakes for an event queue, and lets go of it") {
  Objects o;
  fi_wait_attr wanted{FI_WAIT_UNSPEC, 0};
  fid_wait* raw = nullptr;
  REQUIRE(fi_wait_open(o.fabric.get(), &wanted, &raw) == 0);
  const Fid<fid_wait> set(raw);
  fi_eq_attr attr{};
  attr.wait_obj = FI_WAIT_SET;
  attr.wait_set = raw;
  attr.flags = FI_WRITE;
  {
    const auto eq = o.open_eq(attr);
    CHECK(fi_wait(raw, 10) == -FI_ETIMEDOUT);
    std::jthread later([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      const fi_eq_entry entry{};
      fi_eq_write(eq.get(), FI_NOTIFY, &entry, sizeof entry, 0);
    });
    CHECK(fi_wait(raw, 10000) == 0);
    CHECK(fi_close(&raw->fid) == -FI_EBUSY);
  }
  CHECK(fi_wait(raw, 10) == -FI_ETIMEDOUT);
}
