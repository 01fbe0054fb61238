// SPDX-License-Identifier: BSD-2-Clause
// Going to sleep without missing anything. The other end (mrc-switch) wakes us only if we said that we sleep:
// consumer: set asleep, full fence, look once more, sleep; producer: enqueue, full fence, if asleep write the eventfd.
#include <algorithm>

#include "mrc/engine/engine_impl.hpp"

namespace mrc::engine {
namespace {

constexpr Duration kBlindPoll = milliseconds(1);  ///< where a port has nothing to wake us with
constexpr Duration kNap = milliseconds(2);        ///< packets end it early where ports can wake us
constexpr Duration kLongNap = milliseconds(10);
constexpr Duration kLongIdle = seconds(1);

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

// Called in place of sched_yield after a third of a second of nothing but empty passes, back to back: the caller spins
// on an idle fabric. Packets, deadlines and threads that want the engine end it early.
void EngineImpl::nap(Tick now) {
  ++counters_.naps;
  app_wait_.settle();
  const bool was = (asleep_ & kAsleepApp) != 0;
  set_asleep(kAsleepApp, true);
  napping_.store(true);
  const Duration left = sleep_until() - now;
  if (waiters_.load() == 0 && left.ns > 0 && !receive(now, false)) {
    app_wait_.wait(std::min(now - idle_since_ > kLongIdle ? kLongNap : kNap, left));
  }
  napping_.store(false);
  if (!was) set_asleep(kAsleepApp, false);
}

void EngineImpl::lock() {
  if (!mutex_.try_lock()) {
    waiters_.fetch_add(1);
    if (napping_.load()) app_wait_.kick();
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

void EngineImpl::watch_fds() {
  const std::vector<int> fds = attachment_->wake_fds();
  app_wait_.watch(fds);
  service_wait_.watch(fds);
}

}  // namespace mrc::engine
