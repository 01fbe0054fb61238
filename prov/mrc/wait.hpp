// SPDX-License-Identifier: BSD-2-Clause
// Sleeping until something happens: the descriptor behind FI_WAIT_FD, fi_trywait, and the blocking reads.
// Who sleeps announces it first, looks once more, and then sleeps on a descriptor of its own and on the engine's; who
// completes something writes the descriptors of those who are announced. A blocked call has its thread's descriptor,
// so that several threads on one queue do not take each other's wake-ups; the application's poll() has the object's.
#pragma once

#include <rdma/fi_eq.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>

#include "mrc/engine/engine.hpp"
#include "object.hpp"
#include "objects.hpp"

namespace mrc::prov {

class CondWaiter;

/// A blocked call's place in a WaitPoint's list.
class Sleeper {
 public:
  Sleeper();  ///< takes the calling thread's descriptor, emptied
  int fd() const { return fd_; }
  /// 0, or -FI_E… if there was no descriptor to be had.
  int error() const { return fd_ >= 0 ? 0 : -error_; }

 private:
  friend class WaitPoint;
  int fd_;
  int error_ = 0;
  Sleeper* next_ = nullptr;
};

class WaitPoint {
 public:
  WaitPoint();
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
  void arm();     ///< announces a sleeper on fd()
  bool disarm();  ///< takes the announcement back, and empties the descriptor; false if there was none
  void enlist(Sleeper& sleeper);
  void delist(Sleeper& sleeper);

  /// FI_WAIT_MUTEX_COND; null until the application asked for it.
  CondWaiter* cond() const { return cond_.get(); }
  void set_cond(std::unique_ptr<CondWaiter> cond);
  /// Ends its thread; the owner's destructor calls it before anything that the thread looks at is gone.
  void stop_cond();

 private:
  std::atomic<int> event_fd_{-1};
  std::atomic<int> epoll_fd_{-1};
  std::atomic<bool> armed_{false};
  std::atomic<unsigned> asleep_{0};  ///< announcements: that on fd(), and the list's
  std::mutex mutex_;                 ///< of the list
  Sleeper* sleepers_ = nullptr;
  std::unique_ptr<CondWaiter> cond_;
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

/// How a blocked call spends its time: asleep, or (FI_WAIT_YIELD) giving the processor to others between two looks.
enum class Blocking : std::uint8_t { kSleep, kYield };

/// Until `ready_locked` (0) or `timeout` milliseconds have passed (-FI_EAGAIN; < 0: never). Makes progress, first
/// spinning, then asleep. The engine must not be locked.
int block(Domain& domain, WaitPoint& point, int timeout, Blocking how, const std::function<bool()>& ready_locked);

/// One look before the application itself sleeps on `point`'s descriptor: 0 = sleep, -FI_EAGAIN = there is something.
int try_wait(Waitable& waitable);

/// fi_control's FI_GETWAIT (an int, or a struct fi_mutex_cond) and FI_GETWAITOBJ of an object that was opened with
/// `object`. `wait` is how a CondWaiter waits. 0 or -FI_E… after a log line.
int control_wait(WaitPoint& point, fi_wait_obj object, int engine_fd, int command, void* out,
                 const std::function<bool(const std::atomic<bool>& stop)>& wait);

/// Milliseconds of the monotonic clock.
std::int64_t now_ms();

}  // namespace mrc::prov
