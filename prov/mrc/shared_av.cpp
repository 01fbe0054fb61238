// SPDX-License-Identifier: BSD-2-Clause
// Named address vectors in POSIX shared memory.
#include "shared_av.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <rdma/fi_errno.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "log.hpp"

namespace mrc::prov {

struct SharedAv::Header {
  static constexpr std::uint64_t kMagic = 0x3156416d4352004d;
  std::atomic<std::uint64_t> magic;  ///< written last: the rest is there
  std::uint32_t entry_size;
  std::uint32_t ipv6;
  std::uint64_t capacity;
  std::atomic<std::uint64_t> generation;
  std::atomic<std::uint64_t> size;
  pthread_mutex_t mutex;
};

namespace {

/// Sparse: pages that nobody writes cost nothing.
constexpr std::size_t kLeast = std::size_t{1} << 16, kMost = std::size_t{1} << 22;

/// The file's name: the user's number keeps users apart, and what is no letter or digit is spelled out.
std::string path_of(const char* name) {
  std::string path = "/mrc-av." + std::to_string(geteuid()) + ".";
  for (const char* at = name; *at != '\0'; ++at) {
    const auto c = static_cast<unsigned char>(*at);
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-') {
      path += *at;
    } else {
      char hex[4];
      std::snprintf(hex, sizeof hex, "%%%02x", c);
      path += hex;
    }
  }
  return path;
}

int make_mutex(pthread_mutex_t& mutex) {
  pthread_mutexattr_t attr;
  if (pthread_mutexattr_init(&attr) != 0) return -FI_ENOMEM;
  pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
  pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
  const int error = pthread_mutex_init(&mutex, &attr);
  pthread_mutexattr_destroy(&attr);
  return -error;
}

/// A lock of the open file, not of the process; changing its kind is one step, as flock(2)'s is not.
bool lock_file(int fd, short type, bool wait) {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_len = 1;
  int result = 0;
  do {
    result = fcntl(fd, wait ? F_OFD_SETLKW : F_OFD_SETLK, &lock);
  } while (result != 0 && errno == EINTR);
  return result == 0;
}

/// Is the file that `fd` has open still the one of that name?
bool still_there(int fd, const std::string& path) {
  struct stat mine {
  }, named{};
  if (fstat(fd, &mine) != 0 || stat(("/dev/shm" + path).c_str(), &named) != 0) return false;
  return mine.st_ino == named.st_ino && mine.st_dev == named.st_dev;
}

}  // namespace

int SharedAv::open(const char* name, bool read_only, bool ipv6, std::size_t count, std::unique_ptr<SharedAv>& out) {
  std::unique_ptr<SharedAv> av(new SharedAv);
  av->path_ = path_of(name);
  av->read_only_ = read_only;
  if (*name == '\0' || av->path_.size() > NAME_MAX) {
    MRC_INFO(AV, "fi_av_open: the name of a shared address vector has 1 to about 200 characters");
    return -FI_EINVAL;
  }
  bool fresh = false;
  for (;;) {
    if (av->fd_ >= 0) close(av->fd_);
    av->fd_ = shm_open(av->path_.c_str(), O_RDWR | O_CLOEXEC | (read_only ? 0 : O_CREAT), 0600);
    if (av->fd_ < 0) {
      MRC_INFO(AV, "fi_av_open: no shared address vector \"%s\": %s", name, std::strerror(errno));
      return errno == ENOENT ? -FI_ENOENT : -FI_EACCES;
    }
    // Alone: nobody has it open. To be read there is nothing then; else it is ours to begin.
    fresh = lock_file(av->fd_, F_WRLCK, false);
    if (!fresh && !lock_file(av->fd_, F_RDLCK, true)) return -FI_EACCES;
    if (!still_there(av->fd_, av->path_)) continue;  // the last one to close it was faster
    if (!fresh || !read_only) break;
    MRC_INFO(AV, "fi_av_open: the processes that had the shared address vector \"%s\" open are gone", name);
    shm_unlink(av->path_.c_str());
    return -FI_ENOENT;
  }
  struct stat state {};
  if (fstat(av->fd_, &state) != 0 || state.st_uid != geteuid()) return -FI_EACCES;
  if (fresh) {
    const std::size_t capacity = std::clamp(count, kLeast, kMost);
    av->bytes_ = sizeof(Header) + capacity * (sizeof(fi_addr_t) + sizeof(Entry));
    if (ftruncate(av->fd_, 0) != 0 || ftruncate(av->fd_, static_cast<off_t>(av->bytes_)) != 0) return -FI_ENOSPC;
    void* at = mmap(nullptr, av->bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, av->fd_, 0);
    if (at == MAP_FAILED) return -FI_ENOMEM;
    av->header_ = static_cast<Header*>(at);
    av->header_->entry_size = sizeof(Entry);
    av->header_->ipv6 = ipv6 ? 1 : 0;
    av->header_->capacity = capacity;
    if (const int error = make_mutex(av->header_->mutex)) return error;
    av->header_->magic.store(Header::kMagic, std::memory_order_release);
    if (!lock_file(av->fd_, F_RDLCK, true)) return -FI_EACCES;
  } else {
    // Whoever made it did so under a lock that ours had to wait for.
    av->bytes_ = static_cast<std::size_t>(state.st_size);
    if (av->bytes_ < sizeof(Header)) return -FI_EINVAL;
    void* at = mmap(nullptr, av->bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, av->fd_, 0);
    if (at == MAP_FAILED) return -FI_ENOMEM;
    av->header_ = static_cast<Header*>(at);
    const Header& h = *av->header_;
    if (h.magic.load(std::memory_order_acquire) != Header::kMagic || h.entry_size != sizeof(Entry) ||
        h.ipv6 != (ipv6 ? 1u : 0u) || h.capacity > kMost ||
        av->bytes_ < sizeof(Header) + h.capacity * (sizeof(fi_addr_t) + sizeof(Entry))) {
      MRC_INFO(AV, "fi_av_open: the shared address vector \"%s\" is of another version or address format", name);
      return -FI_EINVAL;
    }
  }
  out = std::move(av);
  return 0;
}

SharedAv::~SharedAv() {
  if (header_ != nullptr) munmap(header_, bytes_);
  if (fd_ < 0) return;
  if (header_ != nullptr && lock_file(fd_, F_WRLCK, false) && still_there(fd_, path_)) shm_unlink(path_.c_str());
  close(fd_);
}

fi_addr_t* SharedAv::map() const {
  return reinterpret_cast<fi_addr_t*>(header_ + 1);
}

SharedAv::Entry* SharedAv::entries() const {
  return reinterpret_cast<Entry*>(map() + header_->capacity);
}

const SharedAv::Entry& SharedAv::entry(std::size_t index) const {
  return entries()[index];
}

std::uint64_t SharedAv::generation() const {
  return header_->generation.load(std::memory_order_acquire);
}

std::size_t SharedAv::size() const {
  return static_cast<std::size_t>(
      std::min<std::uint64_t>(header_->size.load(std::memory_order_acquire), header_->capacity));
}

std::size_t SharedAv::capacity() const {
  return static_cast<std::size_t>(header_->capacity);
}

SharedAv::Guard::Guard(SharedAv& av) : av_(av) {
  // Its owner died: entries are written so that a half-done one does not count.
  if (pthread_mutex_lock(&av.header_->mutex) == EOWNERDEAD) pthread_mutex_consistent(&av.header_->mutex);
}

SharedAv::Guard::~Guard() {
  pthread_mutex_unlock(&av_.header_->mutex);
}

void SharedAv::set(std::size_t index, const Sockaddr& raw, std::uint32_t uses) {
  Entry& entry = entries()[index];
  entry.raw = raw;
  entry.uses = uses;
  map()[index] = uses != 0 ? index : FI_ADDR_NOTAVAIL;
  if (index >= header_->size.load(std::memory_order_relaxed)) header_->size.store(index + 1, std::memory_order_release);
  header_->generation.fetch_add(1, std::memory_order_release);
}

}  // namespace mrc::prov
