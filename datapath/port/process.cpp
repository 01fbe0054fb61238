// SPDX-License-Identifier: BSD-2-Clause
// Descriptors, signals and affinity of the host process: saved, restored, cleaned up after EAL and the PMDs.
#include "datapath/port/process.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <ctime>

namespace mrc::port {
namespace {

std::vector<int> open_descriptors() {
  std::vector<int> found;
  DIR* folder = opendir("/proc/self/fd");
  if (folder == nullptr) return found;
  while (const dirent* entry = readdir(folder)) {
    const int descriptor = std::atoi(entry->d_name);
    if (entry->d_name[0] != '.' && descriptor != dirfd(folder)) found.push_back(descriptor);
  }
  closedir(folder);
  std::ranges::sort(found);
  return found;
}

}  // namespace

DescriptorSnapshot::DescriptorSnapshot() : before_(open_descriptors()) {}

std::vector<int> DescriptorSnapshot::opened_since() const {
  std::vector<int> added;
  std::ranges::set_difference(open_descriptors(), before_, std::back_inserter(added));
  return added;
}

void DescriptorSnapshot::close_on_exec(bool only_driver_kinds) const {
  for (const int descriptor : opened_since()) {
    if (only_driver_kinds) {
      const std::string target = descriptor_target(descriptor);
      if (!target.starts_with("socket:") && !target.starts_with("/memfd:") &&
          !target.starts_with("anon_inode:[eventfd]"))
        continue;
    }
    const int flags = fcntl(descriptor, F_GETFD);
    if (flags >= 0) fcntl(descriptor, F_SETFD, flags | FD_CLOEXEC);
  }
}

std::string descriptor_target(int descriptor) {
  std::array<char, 256> target{};
  const auto path = fmt::format("/proc/self/fd/{}", descriptor);
  const ssize_t length = readlink(path.c_str(), target.data(), target.size() - 1);
  return length < 0 ? std::string() : std::string(target.data(), static_cast<std::size_t>(length));
}

SignalBlock::SignalBlock() {
  sigset_t block;
  sigfillset(&block);
  for (const int synchronous : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT}) sigdelset(&block, synchronous);
  sigset_t pending;
  sigpending(&pending);
  pipe_was_pending_ = sigismember(&pending, SIGPIPE) == 1;
  pthread_sigmask(SIG_BLOCK, &block, &saved_);
}

SignalBlock::~SignalBlock() {
  if (!pipe_was_pending_) {
    sigset_t pipe_only;
    sigemptyset(&pipe_only);
    sigaddset(&pipe_only, SIGPIPE);
    const timespec at_once{};
    while (sigtimedwait(&pipe_only, nullptr, &at_once) > 0) {
    }
  }
  pthread_sigmask(SIG_SETMASK, &saved_, nullptr);
}

AffinityKeeper::AffinityKeeper() {
  // The kernel refuses a mask shorter than its own: grow until it fits (1024 to 65536 CPUs).
  for (std::size_t sets = 1; sets <= 64 && !valid_; sets *= 2) {
    mask_.assign(sets, {});
    valid_ = sched_getaffinity(0, sets * sizeof(cpu_set_t), mask_.data()) == 0;
  }
}

AffinityKeeper::~AffinityKeeper() {
  if (valid_) sched_setaffinity(0, mask_.size() * sizeof(cpu_set_t), mask_.data());
}

std::string AffinityKeeper::list() const {
  std::string text;
  if (!valid_) return text;
  const std::size_t bytes = mask_.size() * sizeof(cpu_set_t);
  const auto set = [&](std::size_t cpu) { return CPU_ISSET_S(cpu, bytes, mask_.data()) != 0; };
  // EAL reads CPU_SETSIZE bits.
  for (std::size_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!set(cpu)) continue;
    std::size_t last = cpu;
    while (last + 1 < CPU_SETSIZE && set(last + 1)) ++last;
    text += fmt::format("{}{}", text.empty() ? "" : ",", cpu);
    if (last > cpu) text += fmt::format("-{}", last);
    cpu = last;
  }
  return text;
}

}  // namespace mrc::port
