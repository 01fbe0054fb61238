// SPDX-License-Identifier: BSD-2-Clause
// The service thread: keeps the process's promises (retransmissions, SACKs, answers, RMA into our memory) while the
// application computes. It looks every 10 ms whether the application polls; if not, it does the work that is there,
// then sleeps until packets or a deadline come. It never spins, and gives way as soon as the application is back.
#include <pthread.h>
#include <signal.h>

#include "mrc/engine/engine_impl.hpp"

namespace mrc::engine {
namespace {

constexpr Duration kWatch = milliseconds(10);
constexpr Duration kShortest = microseconds(20);  ///< a deadline that does not move must not make us spin
constexpr int kPassesPerTurn = 64;

}  // namespace

void EngineImpl::start_service() {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // signals are the application's
  try {
    service_ = std::thread([this] { serve(); });
    pthread_setname_np(service_.native_handle(), "mrc-service");
  } catch (const std::system_error& error) {
    log(0, std::string("no service thread, progress only inside calls: ") + error.what());
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void EngineImpl::stop_service() {
  if (!service_.joinable()) return;
  service_stop_.store(true);
  service_wait_.kick();
  service_.join();
}

void EngineImpl::serve() {
  std::uint64_t seen = app_passes_.load(std::memory_order_relaxed) - 1;
  while (!service_stop_.load(std::memory_order_relaxed)) {
    const std::uint64_t passes = app_passes_.load(std::memory_order_relaxed);
    if (passes != seen) {  // the application polls, or did until now
      seen = passes;
      service_wait_.pause(kWatch);
      continue;
    }
    if (!try_lock()) {
      service_wait_.pause(kWatch);
      continue;
    }
    const bool sleep = serve_once();
    const Tick until = sleep ? sleep_until() : kNever;
    const bool app_sleeps = (asleep_ & kAsleepApp) != 0;
    unlock();
    if (sleep) {
      if (until == kNever) {
        service_wait_.clear_timer();
      } else {
        service_wait_.set_timer(std::max(until - clock_->now(), kShortest));
      }
      // serve_once() may have swallowed the kick that came with it.
      if (service_stop_.load()) break;
      service_wait_.wait(nanoseconds(-1));
      // Both were asleep on the same news: the application goes first.
      if (app_sleeps) service_wait_.pause(kWatch);
    } else if (waiters_.load(std::memory_order_relaxed) > 0) {
      service_wait_.pause(kWatch);  // another thread wants the engine: it may poll by itself
    }
  }
}

// With the lock. True: nothing is left to do and "asleep" has been announced.
bool EngineImpl::serve_once() {
  ++counters_.service_wakeups;
  service_asleep_.store(false);
  set_asleep(kAsleepService, false);
  for (int i = 0; i < kPassesPerTurn; ++i) {
    if (pass(clock_->now())) continue;
    service_wait_.settle();
    service_asleep_.store(true);
    set_asleep(kAsleepService, true);
    if (!pass(clock_->now())) return true;
    service_asleep_.store(false);
    set_asleep(kAsleepService, false);
  }
  return false;
}

}  // namespace mrc::engine
