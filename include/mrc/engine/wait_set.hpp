// SPDX-License-Identifier: BSD-2-Clause
// What a sleeper sleeps on: one epoll descriptor over the attachment's wake-up descriptors (edge triggered, so that
// nobody has to read them empty), a timer for the next deadline, and a kick from other threads.
// Threads: one sleeper; kick() from any thread. All descriptors are CLOEXEC.
#pragma once

#include <span>
#include <vector>

#include "mrc/result.hpp"
#include "mrc/time.hpp"

namespace mrc::engine {

class WaitSet {
 public:
  WaitSet() = default;
  ~WaitSet();
  WaitSet(const WaitSet&) = delete;
  WaitSet& operator=(const WaitSet&) = delete;

  Result<void> open();
  /// Watches these instead of the former ones.
  void watch(std::span<const int> fds);
  /// Readable when something happened since settle(), or the timer ran out.
  int fd() const { return epoll_; }
  /// The timer: from now on, kNever = none. Costs a system call only when it changes from none to none.
  void set_timer(Duration after);
  void clear_timer();
  /// Forgets what happened so far: only news make fd() readable.
  void settle();
  /// Sleeps until news, kick or timer, at most `limit` (negative: no limit). True if it was not the limit.
  bool wait(Duration limit);
  /// Sleeps for `time`, whatever arrives; only a kick ends it early.
  void pause(Duration time);
  void kick();

 private:
  int epoll_ = -1, timer_ = -1, kick_ = -1;
  bool timer_set_ = false;
  std::vector<int> watched_;
};

}  // namespace mrc::engine
