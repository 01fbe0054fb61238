// SPDX-License-Identifier: BSD-2-Clause
// Claiming a port group. The folder is usable by every user (interfaces are the host's, not the user's), so nothing in
// it is trusted: files are opened without following links, must be plain files, and only the lock on them means
// anything.
#include "mrc/engine/claim.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <cstring>
#include <vector>

namespace mrc::engine {
namespace {

std::uint64_t network_namespace() {
  struct stat info {};
  return stat("/proc/self/ns/net", &info) == 0 ? info.st_ino : 0;
}

// A file name out of any text, distinct for distinct texts.
std::string file_name(const std::string& text) {
  std::uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a
  std::string name;
  for (const char c : text) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
    if (name.size() < 40) name += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  }
  return fmt::format("{}-{:016x}", name, hash);
}

// The folder, as a descriptor; -1 and errno.
int open_folder(const std::string& path) {
  const mode_t before = umask(0);
  const int made = mkdir(path.c_str(), 01777);
  umask(before);
  if (made != 0 && errno != EEXIST) return -1;
  const int fd = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return -1;
  struct stat info {};
  // Its owner could take files away, but must not be able to lead us elsewhere; others must not be able to either.
  if (fstat(fd, &info) != 0 || ((info.st_mode & 0002) != 0 && (info.st_mode & S_ISVTX) == 0)) {
    close(fd);
    errno = EPERM;
    return -1;
  }
  return fd;
}

int open_lock(int folder, const std::string& name) {
  const int flags = O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK;
  // First without O_CREAT: in a sticky folder the kernel refuses O_CREAT on other users' files (fs.protected_regular).
  int fd = openat(folder, name.c_str(), O_RDWR | flags);
  if (fd < 0 && errno == ENOENT) {
    fd = openat(folder, name.c_str(), O_RDWR | O_CREAT | O_EXCL | flags, 0666);
    if (fd >= 0) {
      static_cast<void>(fchmod(fd, 0666));  // whatever the umask: other users' processes lock it too
    } else if (errno == EEXIST) {
      fd = openat(folder, name.c_str(), O_RDWR | flags);
    }
  }
  struct stat info {};
  if (fd >= 0 && (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode))) {
    close(fd);
    errno = EPERM;
    return -1;
  }
  return fd;
}

}  // namespace

Claim::~Claim() {
  if (fd_ >= 0) close(fd_);
}

Claim& Claim::operator=(Claim&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(index_, other.index_);
  return *this;
}

Result<Claim> Claim::first_free(std::span<const std::string> groups, const std::string& root) {
  const std::string path = fmt::format("{}/mrc-ports.{}", root, network_namespace());
  const int folder = open_folder(path);
  if (folder < 0) {
    return fail(errno, fmt::format("cannot use {} to claim ports: {} (remove it if it is not mrc's)", path,
                                   std::strerror(errno)));
  }
  std::string holders;
  Claim claim;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const int fd = open_lock(folder, file_name(groups[i]));
    if (fd < 0) {
      const int error = errno;
      close(folder);
      return fail(error, fmt::format("cannot open the claim of port group \"{}\" in {}: {}", groups[i], path,
                                     std::strerror(error)));
    }
    if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
      const std::string pid = fmt::format("{}\n", getpid());
      if (ftruncate(fd, 0) == 0) static_cast<void>(!pwrite(fd, pid.data(), pid.size(), 0));
      close(folder);
      claim.fd_ = fd;
      claim.index_ = i;
      return claim;
    }
    char text[32] = {};
    const ssize_t n = pread(fd, text, sizeof(text) - 1, 0);
    const std::string pid(text, n > 0 ? std::strspn(text, "0123456789") : 0);
    holders += (holders.empty() ? "pid " : ", ") + (pid.empty() ? std::string("?") : pid);
    close(fd);
  }
  close(folder);
  return fail(EBUSY, fmt::format("every port group of FI_MRC_PORTS is taken (by {}): one process a group; list more "
                                 "groups, or start fewer processes on this host",
                                 holders));
}

}  // namespace mrc::engine
