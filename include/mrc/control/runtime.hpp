// SPDX-License-Identifier: BSD-2-Clause
// The runtime folder (one per uid and network namespace), its names, the flock that elects who starts the switch, and
// the start itself as a daemon. Control path: may block, allocates.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mrc/result.hpp"
#include "mrc/time.hpp"

namespace mrc::control {

/// A descriptor that closes itself.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(other.release()) {}
  Fd& operator=(Fd&& other) noexcept {
    if (this != &other) reset(other.release());
    return *this;
  }
  ~Fd() { reset(); }
  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  int release() {
    const int fd = fd_;
    fd_ = -1;
    return fd;
  }
  void reset(int fd = -1);

 private:
  int fd_ = -1;
};

/// "<root>/mrc-<uid>-<network namespace's inode>".
Result<std::string> runtime_folder_path(const std::string& root);

/// Makes the folder if it is not there (0700) and opens it. Refused in words: a symbolic link, another owner, access
/// for others, not a folder. `owner` is who must own it.
Result<Fd> open_runtime_folder(const std::string& path, std::uint32_t owner);

/// Names in the folder; the protocol's version is part of them.
std::string socket_name();
std::string lock_name();
std::string log_name();

/// Opens (making it, 0600, no links followed) and locks a file in `folder` without waiting; an empty Fd: another has
/// it.
Result<Fd> try_lock_file(int folder, const std::string& name);

/// Connects to a control socket. ENOENT/ECONNREFUSED: nobody listens there.
Result<Fd> connect_socket(const std::string& path);

/// Where the switch's executable may be, in order: `program` alone if given, else relative to the provider, else the
/// installed place.
std::vector<std::string> program_candidates(const std::string& program, const std::string& provider_directory);
Result<std::string> find_program(const std::string& program, const std::string& provider_directory);

/// Starts argv[0] as a daemon of its own session: descriptors closed, signals and affinity reset, umask 077, stdout and
/// stderr to `log` (path), cwd "/". Returns its pid once exec succeeded. The caller's SIGCHLD and wait() see nothing.
/// EPERM in a set-uid process.
Result<std::uint32_t> start_daemon(const std::vector<std::string>& argv, const std::string& log);

struct EnsureOptions {
  std::string program, provider_directory;
  std::string runtime_root = "/tmp";
  bool autostart = true;
  Duration timeout = seconds(10);
};
/// Connects to this uid's switch, having started one if need be (exactly one, whoever else tries at the same time).
Result<Fd> connect_or_start(const EnsureOptions& options);

/// CLOCK_MONOTONIC.
Tick monotonic_now();

}  // namespace mrc::control
