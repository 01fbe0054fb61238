// SPDX-License-Identifier: BSD-2-Clause
// Being a guest in somebody else's process: descriptors, signals and affinity are left as they were found.
#pragma once

#include <sched.h>
#include <csignal>

#include <string>
#include <vector>

namespace mrc::port {

/// The process' open descriptors at one moment, and those that came since.
class DescriptorSnapshot {
 public:
  DescriptorSnapshot();
  /// Descriptors that were not open then, ascending.
  std::vector<int> opened_since() const;
  /// Sets CLOEXEC on what has been opened since: a child of the application would keep a dead rank's sockets and
  /// memory alive. `only_driver_kinds` leaves out what memif never opens (files, pipes), for use while the
  /// application's own threads run.
  void close_on_exec(bool only_driver_kinds) const;

 private:
  std::vector<int> before_;
};

/// What /proc/self/fd says about a descriptor, e.g. "socket:[123]"; empty when it is gone.
std::string descriptor_target(int descriptor);

/// Blocks all asynchronous signals in this thread (threads started meanwhile inherit that), and restores the mask;
/// a SIGPIPE raised in between is swallowed.
class SignalBlock {
 public:
  SignalBlock();
  ~SignalBlock();
  SignalBlock(const SignalBlock&) = delete;
  SignalBlock& operator=(const SignalBlock&) = delete;

 private:
  sigset_t saved_{};
  bool pipe_was_pending_ = false;
};

/// Saves this thread's affinity and puts it back. Works for any number of CPUs.
class AffinityKeeper {
 public:
  AffinityKeeper();
  ~AffinityKeeper();
  AffinityKeeper(const AffinityKeeper&) = delete;
  AffinityKeeper& operator=(const AffinityKeeper&) = delete;
  /// The CPUs as EAL's --lcores writes them, e.g. "0-3,8"; empty when they could not be read.
  std::string list() const;

 private:
  std::vector<cpu_set_t> mask_;
  bool valid_ = false;
};

}  // namespace mrc::port
