// SPDX-License-Identifier: BSD-2-Clause
// FI_WAIT_MUTEX_COND: a thread that blocks in the application's place and signals its condition. Who completes
// something holds locks of ours under which the application's mutex must not be taken (it may hold that mutex in a call
// of ours), hence the thread.
#pragma once

#include <pthread.h>
#include <rdma/fi_eq.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace mrc::prov {

class CondWaiter {
 public:
  /// Blocks until there is something to read (true) or `stop` is set (false); may come back early with false.
  using Wait = std::function<bool(const std::atomic<bool>& stop)>;
  /// `wake` ends a blocked `wait`. Throws std::system_error if there is no thread to be had.
  CondWaiter(Wait wait, std::function<void()> wake);
  ~CondWaiter();
  CondWaiter(const CondWaiter&) = delete;
  CondWaiter& operator=(const CondWaiter&) = delete;

  fi_mutex_cond handles() { return {&mutex_, &cond_}; }
  /// fi_trywait found nothing: signal whatever comes from now on, at once.
  void rearm();

 private:
  void run();

  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;  ///< the application's, as is the condition
  pthread_cond_t cond_ = PTHREAD_COND_INITIALIZER;
  Wait wait_;
  std::function<void()> wake_;
  std::atomic<bool> stop_{false};
  std::mutex own_;
  std::condition_variable changed_;
  bool rearmed_ = false;
  std::thread thread_;
};

}  // namespace mrc::prov
