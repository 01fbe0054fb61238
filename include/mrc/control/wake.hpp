// SPDX-License-Identifier: BSD-2-Clause
// Going to sleep without missing a frame, between two processes that share a page and two eventfds (memif has no RX
// interrupts in DPDK 22.11). Consumer: set asleep, fence, poll once more, sleep. Producer: enqueue, fence, if asleep
// write. The two full fences make one of them see the other (Dekker): no lost wake-up, no system call while both run.
// The page is shared with a process that may crash or write anything: only flags live in it, and any value is safe.
#pragma once

#include <atomic>
#include <cstdint>

namespace mrc::control {

struct WakePage {
  alignas(64) std::atomic<std::uint32_t> client_asleep;
  alignas(64) std::atomic<std::uint32_t> switch_asleep;
};
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);
inline constexpr std::size_t kWakePageSize = 4096;

/// Announces that the flag's owner is about to sleep (or is up again). After true: poll once more before sleeping.
inline void announce(std::atomic<std::uint32_t>& asleep, bool value) {
  asleep.store(value ? 1 : 0, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

/// After enqueueing: true if the other side sleeps and this caller is the one to write its eventfd.
inline bool must_wake(std::atomic<std::uint32_t>& asleep) {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return asleep.load(std::memory_order_relaxed) != 0 && asleep.exchange(0, std::memory_order_relaxed) != 0;
}

}  // namespace mrc::control
