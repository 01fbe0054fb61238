// SPDX-License-Identifier: BSD-2-Clause
// Finding this uid's switch, or starting it: an flock elects one starter among all processes that come at once, the
// others wait for the control socket.
#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cstdlib>
#include <sstream>

#include "mrc/control/runtime.hpp"

namespace mrc::control {
namespace {

void nap() {
  const timespec pause{0, 3000000};
  ::nanosleep(&pause, nullptr);
}

off_t size_of(const std::string& path) {
  struct stat st {};
  return ::stat(path.c_str(), &st) == 0 ? st.st_size : 0;
}

/// The last line that the log gained after `from`: why the switch did not come up.
std::string last_line(const std::string& path, off_t from) {
  Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!fd) return {};
  const off_t size = size_of(path);
  if (size < from) from = 0;
  if (size - from > 4096) from = size - 4096;
  std::string text(static_cast<std::size_t>(size - from), '\0');
  const auto n = ::pread(fd.get(), text.data(), text.size(), from);
  text.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
  while (!text.empty() && text.back() == '\n') text.pop_back();
  const auto at = text.rfind('\n');
  return at == std::string::npos ? text : text.substr(at + 1);
}

std::vector<std::string> extra_arguments() {
  std::vector<std::string> out;
  if (const char* text = std::getenv("FI_MRC_SWITCH_ARGS")) {
    std::istringstream words(text);
    for (std::string word; words >> word;) out.push_back(word);
  }
  return out;
}

struct Waiter {
  std::string socket, log;
  Tick deadline;

  bool in_time() const { return monotonic_now() < deadline; }

  Result<Fd> start_and_wait(const EnsureOptions& options) const {
    auto program = find_program(options.program, options.provider_directory);
    if (!program) return tl::make_unexpected(program.error());
    std::vector<std::string> argv{*program, "--socket", socket, "--autostarted"};
    for (auto& word : extra_arguments()) argv.push_back(std::move(word));
    const off_t before = size_of(log);
    auto pid = start_daemon(argv, log);
    if (!pid) return tl::make_unexpected(pid.error());
    Fd process(static_cast<int>(::syscall(SYS_pidfd_open, static_cast<pid_t>(*pid), 0U)));
    while (in_time()) {
      if (auto fd = connect_socket(socket)) return fd;
      pollfd ended{process.get(), POLLIN, 0};  // poll ignores -1, where the process is already gone or pidfds are not
      if (!process || ::poll(&ended, 1, 3) > 0) {
        if (auto fd = connect_socket(socket)) return fd;
        if (process) {
          return fail(ECHILD, fmt::format("{} ended at once: {} (log: {})", *program, last_line(log, before), log));
        }
        nap();
      }
    }
    return fail(ETIMEDOUT, fmt::format("{} was started but does not answer; see {}", *program, log));
  }
};

}  // namespace

Result<Fd> connect_or_start(const EnsureOptions& options) {
  auto path = runtime_folder_path(options.runtime_root);
  if (!path) return tl::make_unexpected(path.error());
  auto folder = open_runtime_folder(*path, ::geteuid());
  if (!folder) return tl::make_unexpected(folder.error());
  const Waiter waiter{*path + "/" + socket_name(), *path + "/" + log_name(), monotonic_now() + options.timeout};
  const bool may_start = options.autostart && ::getauxval(AT_SECURE) == 0;
  do {
    auto fd = connect_socket(waiter.socket);
    if (fd) return fd;
    if (!may_start) {
      return fail(
          fd.error().code,
          fmt::format("no mrc-switch runs and autostart is off; start one: mrc-switch --stay ({})", fd.error().text));
    }
    auto lock = try_lock_file(folder->get(), lock_name());
    if (!lock) return tl::make_unexpected(lock.error());
    if (*lock) {
      if (auto again = connect_socket(waiter.socket)) return again;  // it came up before we got the lock
      return waiter.start_and_wait(options);
    }
    nap();
  } while (waiter.in_time());
  return fail(ETIMEDOUT, fmt::format("another process is starting mrc-switch, but it does not answer at {}; see {}",
                                     waiter.socket, waiter.log));
}

}  // namespace mrc::control
