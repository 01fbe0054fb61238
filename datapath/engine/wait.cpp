// SPDX-License-Identifier: BSD-2-Clause
// Going to sleep without missing anything. The other end (mrc-switch) wakes us only if we said that we sleep:
// consumer: set asleep, full fence, look once more, sleep; producer: enqueue, full fence, if asleep write the eventfd.
#include <sched.h>

#include <algorithm>
#include <utility>

#include "mrc/engine/engine_impl.hpp"

namespace mrc::engine {
namespace {

constexpr Duration kBlindPoll = milliseconds(1);  ///< where a port has nothing to wake us with

}  // namespace

void EngineImpl::set_asleep(unsigned who, bool asleep) {
  const unsigned before = asleep_;
  asleep_ = asleep ? asleep_ | who : asleep_ & ~who;
  if ((before != 0) != (asleep_ != 0)) attachment_->set_asleep(asleep_ != 0);
}

Tick EngineImpl::sleep_until() const {
  Tick until = core_->next_deadline();
  const Tick now = clock_->now();
  bool blind = !attachment_->wakes() || core_->tx_pending() || ports_dead_;
  for (unsigned p = 0; p < planes_count_ && !blind; ++p) blind = attachment_->neighbours_pending(p, now);
  if (blind) until = std::min(until, now + kBlindPoll);
  return until;
}

bool EngineImpl::arm_locked() {
  if (dead()) return false;
  app_wait_.settle();
  set_asleep(kAsleepApp, true);
  if (pass(clock_->now())) {
    disarm_locked();
    return false;
  }
  const Tick until = sleep_until();
  if (until == kNever) {
    app_wait_.clear_timer();
  } else {
    app_wait_.set_timer(until - clock_->now());
  }
  return true;
}

void EngineImpl::disarm_locked() {
  if (dead()) return;
  set_asleep(kAsleepApp, false);
  app_wait_.clear_timer();
}

void EngineImpl::lock() {
  if (!mutex_.try_lock()) {
    waiters_.fetch_add(1);
    mutex_.lock();
    waiters_.fetch_sub(1);
  }
  // Whoever comes in may leave work behind (a reply, a queued send) and then not poll: the service thread, which
  // takes the lock by try_lock(), has to watch again.
  if (service_asleep_.load(std::memory_order_relaxed)) [[unlikely]] {
    service_asleep_.store(false);
    set_asleep(kAsleepService, false);
    service_wait_.kick();
  }
}

// Another thread of the process may want the engine: it gets it, as the processor is given away without the lock.
void EngineImpl::unlock() {
  const bool yield = std::exchange(yield_, false);
  mutex_.unlock();
  if (yield) sched_yield();
}

void EngineImpl::watch_fds() {
  const std::vector<int> fds = attachment_->wake_fds();
  app_wait_.watch(fds);
  service_wait_.watch(fds);
}

}  // namespace mrc::engine
