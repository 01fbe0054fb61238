// SPDX-License-Identifier: BSD-2-Clause
// The capped log.
#include "log.hpp"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

namespace mrc::soft {
namespace {
constexpr off_t kCap = 1 << 20;
}

int log_to_file(const std::string& path) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd < 0) return errno;
  ::dup2(fd, 1);
  ::dup2(fd, 2);
  if (fd > 2) ::close(fd);
  return 0;
}

void log_line(const std::string& text) {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  tm parts{};
  ::gmtime_r(&now.tv_sec, &parts);
  const std::string line = fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z mrc-switch[{}] {}\n",
                                       parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday, parts.tm_hour,
                                       parts.tm_min, parts.tm_sec, now.tv_nsec / 1000000, ::getpid(), text);
  struct stat st {};
  // Opened for appending, so writing goes on at the new end. Older lines are lost: the end is what explains a failure.
  if (::fstat(2, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > kCap) {
    [[maybe_unused]] const int cut = ::ftruncate(2, 0);
  }
  [[maybe_unused]] const auto n = ::write(2, line.data(), line.size());
}

}  // namespace mrc::soft
