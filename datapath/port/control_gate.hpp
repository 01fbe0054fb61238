// SPDX-License-Identifier: BSD-2-Clause
// Keeps net_memif's control thread out of its packet path. When a peer dies, the PMD unmaps the shared rings in
// EAL's interrupt thread while the polling thread may be copying out of them: a crash that no flag of the PMD
// prevents (22.11 to 24.11). So its control callbacks run one at a time, and each that may touch rings closes the
// gate of the ports on its socket path, and of no other port.
// A burst that meets a closed gate waits for it: the work behind it takes microseconds, whereas a dropped burst costs a
// retransmission timeout and a false "empty" a wake-up.
// The packet path pays two plain stores and a load a burst; the control side pays a membarrier(2).
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>

namespace mrc::port {

class ControlGate {
 public:
  enum class State : std::uint8_t {
    kOpen,
    kBusy,    ///< the control side is at work for microseconds: wait
    kAbsent,  ///< it tries to connect, which may block; there is no peer yet, so nothing is lost: do not wait
    kStuck,   ///< it has been at work for longer than anybody waits
  };

  /// One polling port's flag. Linked in while the port lives.
  struct Member {
    std::atomic<bool> inside{false};
    std::atomic<State> state{State::kOpen};
    std::string path;  ///< of the memif socket
    Member* next = nullptr;
  };

  static ControlGate& instance();

  void add(Member& member);
  void remove(Member& member);

  /// Packet path. Waits while the control side is at work, at most kPatience for each time. False = no peer is there,
  /// or that time is over: the link counts as down.
  bool enter(Member& member) {
    member.inside.store(true, std::memory_order_relaxed);
    if (fence_needed_) {
      std::atomic_thread_fence(std::memory_order_seq_cst);
    } else {
      std::atomic_signal_fence(std::memory_order_seq_cst);  // the closer's membarrier does the rest
    }
    if (member.state.load(std::memory_order_acquire) != State::kOpen) [[unlikely]]
      return wait(member);
    return true;
  }
  void leave(Member& member) { member.inside.store(false, std::memory_order_release); }

  /// The newest control socket's number (0 = none yet), and whether one is still in use. Under Control.
  static std::uint64_t newest_channel();
  static bool channel_alive(std::uint64_t channel);

  /// Control side: the control state is this thread's while this lives; bursts go on. Recursive in one thread.
  class Control {
   public:
    Control();
    ~Control();
    Control(const Control&) = delete;
    Control& operator=(const Control&) = delete;
  };

  /// Under Control, not nested: no port of the kind is inside a burst while this lives.
  class Closed {
   public:
    /// The ports on a socket path; empty = all.
    explicit Closed(std::string path);
    /// One port without a peer.
    explicit Closed(Member& absent);
    ~Closed();
    Closed(const Closed&) = delete;
    Closed& operator=(const Closed&) = delete;

   private:
    bool concerns(const Member& member) const;
    void close(State state);

    std::string path_;
    Member* only_ = nullptr;
  };

 private:
  ControlGate();
  bool wait(Member& member);

  std::recursive_mutex mutex_;
  bool fence_needed_ = true;
  Member* members_ = nullptr;
};

}  // namespace mrc::port
