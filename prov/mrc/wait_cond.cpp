// SPDX-License-Identifier: BSD-2-Clause
// The thread behind FI_WAIT_MUTEX_COND.
#include "wait_cond.hpp"

#include <signal.h>

#include <chrono>
#include <utility>

namespace mrc::prov {

namespace {

/// While nobody reads what is there, the signal is repeated so often: an application may go to sleep without asking.
constexpr auto kRepeat = std::chrono::milliseconds(10);

}  // namespace

CondWaiter::CondWaiter(Wait wait, std::function<void()> wake) : wait_(std::move(wait)), wake_(std::move(wake)) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // signals are the application's
  try {
    thread_ = std::thread([this] { run(); });
  } catch (...) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw;
  }
  pthread_setname_np(thread_.native_handle(), "mrc-wait");
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

CondWaiter::~CondWaiter() {
  stop_.store(true);
  wake_();
  {
    const std::lock_guard guard(own_);
    changed_.notify_all();
  }
  thread_.join();
  pthread_cond_destroy(&cond_);
  pthread_mutex_destroy(&mutex_);
}

void CondWaiter::rearm() {
  const std::lock_guard guard(own_);
  rearmed_ = true;
  changed_.notify_all();
}

void CondWaiter::run() {
  while (!stop_.load()) {
    if (!wait_(stop_) || stop_.load()) continue;
    pthread_mutex_lock(&mutex_);
    pthread_cond_broadcast(&cond_);
    pthread_mutex_unlock(&mutex_);
    std::unique_lock guard(own_);
    changed_.wait_for(guard, kRepeat, [this] { return rearmed_ || stop_.load(); });
    rearmed_ = false;
  }
}

}  // namespace mrc::prov
