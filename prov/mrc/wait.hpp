// SPDX-License-Identifier: BSD-2-Clause
// Sleeping until something happens: the descriptor behind FI_WAIT_FD, fi_trywait, and the blocking reads.
// A sleeper announces itself (arm), looks once more, then sleeps on an epoll descriptor that holds the object's own
// eventfd and the engine's descriptor; who completes something writes the eventfd only if a sleeper is announced.
#pragma once

#include <rdma/fi_eq.h>

#include <atomic>
#include <cstdint>
#include <functional>

#include "mrc/engine/engine.hpp"
#include "object.hpp"
#include "objects.hpp"

namespace mrc::prov {

class WaitPoint {
 public:
  WaitPoint() = default;
  ~WaitPoint();
  WaitPoint(const WaitPoint&) = delete;
  WaitPoint& operator=(const WaitPoint&) = delete;

  /// Makes the descriptors at first use (thousands of queues may be open that nobody sleeps on). `engine_fd` < 0: none.
  /// 0 or -FI_E….
  int open(int engine_fd);
  /// To poll on; -1 before open().
  int fd() const { return epoll_fd_.load(std::memory_order_acquire); }

  /// Wakes sleepers, if any are announced. Any thread.
  void notify();
  void arm();     ///< announces a sleeper
  bool disarm();  ///< takes the announcement back, and empties the eventfd; false if there was none

 private:
  std::atomic<int> event_fd_{-1};
  std::atomic<int> epoll_fd_{-1};
  std::atomic<bool> armed_{false};
};

/// Announces a sleeper on `point` to the engine too. False = there is work (and nothing is announced). Engine locked.
bool announce_locked(engine::Engine& engine, WaitPoint& point);
/// Takes it back, if there is an announcement; each read of an object does. Engine locked.
void retract_locked(engine::Engine& engine, WaitPoint& point);

/// What can be waited for: completion queues, event queues, counters.
class Waitable {
 public:
  virtual ~Waitable() = default;
  /// Something to read? The engine's lock is held if there is an engine.
  virtual bool ready_locked() = 0;
  virtual WaitPoint& wait_point() = 0;
  /// Null for event queues, which need no progress.
  virtual Domain* domain() = 0;
  /// fi_poll reports this.
  virtual void* context() const = 0;
  virtual Holdable& holdable() = 0;
};

/// The waitable behind a CQ, EQ or counter; null for any other class.
Waitable* waitable_of(struct fid* fid);

/// Until `ready_locked` (0) or `timeout` milliseconds have passed (-FI_EAGAIN; < 0: never). Makes progress, first
/// spinning, then asleep. The engine must not be locked.
int block(Domain& domain, WaitPoint& point, int timeout, const std::function<bool()>& ready_locked);

/// One look before the application itself sleeps on `point`'s descriptor: 0 = sleep, -FI_EAGAIN = there is something.
int try_wait(Waitable& waitable);

/// Milliseconds of the monotonic clock.
std::int64_t now_ms();

}  // namespace mrc::prov
