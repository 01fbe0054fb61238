// SPDX-License-Identifier: BSD-2-Clause
// Keeps net_memif's control thread out of its packet path. When a peer dies, the PMD unmaps the shared rings in
// EAL's interrupt thread while the polling thread may be copying out of them: a crash that no flag of the PMD
// prevents (22.11 to 24.11). So all of its control callbacks run behind this gate.
// The packet path pays two plain stores and a load a burst; the control side pays a membarrier(2).
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

namespace mrc::port {

class ControlGate {
 public:
  /// One polling port's flag. Linked in while the port lives.
  struct Member {
    std::atomic<bool> inside{false};
    Member* next = nullptr;
  };

  static ControlGate& instance();

  void add(Member& member);
  void remove(Member& member);

  /// Packet path: false = the control side is at work, take this burst as empty.
  bool enter(Member& member) {
    member.inside.store(true, std::memory_order_relaxed);
    if (fence_needed_) {
      std::atomic_thread_fence(std::memory_order_seq_cst);
    } else {
      std::atomic_signal_fence(std::memory_order_seq_cst);  // the closer's membarrier does the rest
    }
    if (closed_.load(std::memory_order_acquire)) [[unlikely]] {
      member.inside.store(false, std::memory_order_release);
      return false;
    }
    return true;
  }
  void leave(Member& member) { member.inside.store(false, std::memory_order_release); }

  /// The newest control socket's number (0 = none yet), and whether one is still in use. Gate closed.
  static std::uint64_t newest_channel();
  static bool channel_alive(std::uint64_t channel);

  /// Control side: no port is inside a burst while this lives. Recursive in one thread.
  class Closed {
   public:
    Closed();
    ~Closed();
    Closed(const Closed&) = delete;
    Closed& operator=(const Closed&) = delete;
  };

 private:
  ControlGate();

  std::recursive_mutex mutex_;
  int depth_ = 0;
  std::atomic<bool> closed_{false};
  bool fence_needed_ = true;
  Member* members_ = nullptr;
};

}  // namespace mrc::port
