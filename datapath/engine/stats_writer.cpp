// SPDX-License-Identifier: BSD-2-Clause
// The file of FI_MRC_STATS while the process runs.
#include "mrc/engine/stats_writer.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>

namespace mrc::engine {

Result<void> replace_file(const std::string& path, std::string_view text) {
  const std::string other = path + ".new";
  const auto failed = [&](const char* what) -> Result<void> {
    const int code = errno;
    unlink(other.c_str());
    return fail(code, std::string("cannot ") + what + " " + path + " (FI_MRC_STATS): " + std::strerror(code));
  };
  const int fd = open(other.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (fd < 0) return failed("write");
  while (!text.empty()) {
    const ssize_t n = write(fd, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      close(fd);
      return failed("write");
    }
    text.remove_prefix(static_cast<std::size_t>(n));
  }
  if (close(fd) != 0) return failed("write");
  if (rename(other.c_str(), path.c_str()) != 0) return failed("replace");
  return {};
}

StatsWriter::StatsWriter(std::string path, Duration interval, Text text,
                         std::function<void(const std::string&)> complain)
    : path_(std::move(path)), interval_(interval), text_(std::move(text)), complain_(std::move(complain)) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // signals are the application's
  try {
    thread_ = std::thread([this] { run(); });
    pthread_setname_np(thread_.native_handle(), "mrc-stats");
  } catch (const std::system_error& error) {
    complain_(std::string("no thread for FI_MRC_STATS_INTERVAL, counters are written at exit only: ") + error.what());
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

StatsWriter::~StatsWriter() {
  {
    const std::lock_guard guard(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void StatsWriter::run() {
  std::unique_lock guard(mutex_);
  bool complained = false;
  while (!wake_.wait_for(guard, std::chrono::nanoseconds(interval_.ns), [this] { return stop_; })) {
    guard.unlock();
    if (const auto text = text_()) {
      if (const auto written = replace_file(path_, *text); !written && !complained) {
        complain_(written.error().text);
        complained = true;
      }
    }
    guard.lock();
  }
}

}  // namespace mrc::engine
