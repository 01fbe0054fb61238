// SPDX-License-Identifier: BSD-2-Clause
// The runtime folder: made, checked and locked so that no other user can put anything in our way. It lies in a fixed
// place, because TMPDIR and XDG_RUNTIME_DIR differ between the ranks of one job.
#include "mrc/control/runtime.hpp"

#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "mrc/control/client.hpp"
#include "mrc/control/protocol.hpp"

namespace mrc::control {

void Fd::reset(int fd) {
  if (fd_ >= 0) ::close(fd_);
  fd_ = fd;
}

Tick monotonic_now() {
  timespec t{};
  ::clock_gettime(CLOCK_MONOTONIC, &t);
  return {static_cast<std::int64_t>(t.tv_sec) * 1000000000 + t.tv_nsec};
}

Result<std::string> runtime_folder_path(const std::string& root) {
  struct stat ns {};
  // Without /proc all namespaces of the uid share a folder: better than no switch at all.
  const auto inode = ::stat("/proc/self/ns/net", &ns) == 0 ? ns.st_ino : 0;
  return fmt::format("{}/mrc-{}-{}", root, ::geteuid(), inode);
}

Result<Fd> open_runtime_folder(const std::string& path, std::uint32_t owner) {
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    const int code = errno;
    return fail(code, fmt::format("cannot make the runtime folder {}: {}", path, ::strerror(code)));
  }
  Fd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd) {
    const int code = errno;
    if (code == ELOOP || code == ENOTDIR) {
      return fail(EPERM, fmt::format("{} is a link or no folder; somebody put it there: remove it", path));
    }
    return fail(code, fmt::format("cannot open the runtime folder {}: {}", path, ::strerror(code)));
  }
  struct stat st {};
  if (::fstat(fd.get(), &st) != 0) return fail(errno, fmt::format("cannot stat {}: {}", path, ::strerror(errno)));
  if (st.st_uid != owner) {
    return fail(EPERM, fmt::format("the runtime folder {} belongs to uid {}, not to uid {}: remove it", path,
                                   static_cast<unsigned>(st.st_uid), owner));
  }
  if ((st.st_mode & 077) != 0) {
    return fail(EPERM, fmt::format("others may enter the runtime folder {} (mode {:o}): chmod 700 it, or remove it",
                                   path, static_cast<unsigned>(st.st_mode & 07777)));
  }
  return fd;
}

std::string socket_name() {
  return fmt::format("switch-v{}.sock", kProtocolVersion);
}
std::string lock_name() {
  return fmt::format("start-v{}.lock", kProtocolVersion);
}
std::string log_name() {
  return fmt::format("switch-v{}.log", kProtocolVersion);
}

Result<Fd> try_lock_file(int folder, const std::string& name) {
  Fd fd(::openat(folder, name.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!fd) return fail(errno, fmt::format("cannot open the lock file {}: {}", name, ::strerror(errno)));
  while (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    if (errno == EWOULDBLOCK) return Fd{};
    return fail(errno, fmt::format("cannot lock {}: {}", name, ::strerror(errno)));
  }
  return fd;
}

Result<Fd> connect_socket(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    return fail(ENAMETOOLONG, fmt::format("the control socket's path is longer than {} bytes: {}",
                                          sizeof address.sun_path - 1, path));
  }
  path.copy(address.sun_path, path.size());
  Fd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return fail(errno, fmt::format("cannot make a Unix socket: {}", ::strerror(errno)));
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    const int code = errno;  // EAGAIN: its backlog is full
    return fail(code, fmt::format("no mrc-switch answers at {} ({}): start it, or unset FI_MRC_SWITCH_SOCKET", path,
                                  ::strerror(code)));
  }
  return fd;
}

Result<std::string> default_socket(const std::string& runtime_root) {
  auto folder = runtime_folder_path(runtime_root);
  if (!folder) return tl::make_unexpected(folder.error());
  return *folder + "/" + socket_name();
}

}  // namespace mrc::control
