// SPDX-License-Identifier: BSD-2-Clause
// Port groups are for one process each: a claim is a lock (flock) on a file that names the group, in one folder per
// host and network namespace. It goes with the process, however it ends. The lock is what counts, not the file.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "mrc/result.hpp"

namespace mrc::engine {

class Claim {
 public:
  Claim() = default;
  ~Claim();
  Claim(Claim&& other) noexcept : fd_(other.fd_), index_(other.index_) { other.fd_ = -1; }
  Claim& operator=(Claim&& other) noexcept;

  /// Claims the first free one of `groups` (each a text that is the same in every process, e.g. its port names).
  /// EBUSY names the holders' pids. `root`: where the folder is made, other than /tmp for tests only.
  static Result<Claim> first_free(std::span<const std::string> groups, const std::string& root = "/tmp");
  int fd() const { return fd_; }
  std::size_t index() const { return index_; }

 private:
  int fd_ = -1;
  std::size_t index_ = 0;
};

}  // namespace mrc::engine
