// SPDX-License-Identifier: BSD-2-Clause
// epoll, timerfd and eventfd of one sleeper.
#include "mrc/engine/wait_set.hpp"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace mrc::engine {
namespace {

bool add(int epoll, int fd) {
  epoll_event event{};
  event.events = EPOLLIN | EPOLLET;
  event.data.fd = fd;
  return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

}  // namespace

WaitSet::~WaitSet() {
  for (const int fd : {epoll_, timer_, kick_}) {
    if (fd >= 0) close(fd);
  }
}

Result<void> WaitSet::open() {
  epoll_ = epoll_create1(EPOLL_CLOEXEC);
  timer_ = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
  kick_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (epoll_ < 0 || timer_ < 0 || kick_ < 0 || !add(epoll_, timer_) || !add(epoll_, kick_)) {
    const int error = errno;
    return fail(error, std::string("cannot make the descriptors to sleep on (ulimit -n?): ") + std::strerror(error));
  }
  return {};
}

void WaitSet::watch(std::span<const int> fds) {
  for (const int fd : watched_) epoll_ctl(epoll_, EPOLL_CTL_DEL, fd, nullptr);  // closed ones have left by themselves
  watched_.clear();
  for (const int fd : fds) {
    if (fd >= 0 && add(epoll_, fd)) watched_.push_back(fd);
  }
}

void WaitSet::set_timer(Duration after) {
  itimerspec spec{};
  const std::int64_t ns = std::max<std::int64_t>(after.ns, 1);
  spec.it_value.tv_sec = ns / 1'000'000'000;
  spec.it_value.tv_nsec = ns % 1'000'000'000;
  timerfd_settime(timer_, 0, &spec, nullptr);
  timer_set_ = true;
}

void WaitSet::clear_timer() {
  if (!timer_set_) return;
  const itimerspec none{};
  timerfd_settime(timer_, 0, &none, nullptr);
  timer_set_ = false;
}

void WaitSet::settle() {
  std::uint64_t count = 0;
  [[maybe_unused]] auto n = read(kick_, &count, sizeof(count));
  epoll_event events[16];
  while (epoll_wait(epoll_, events, 16, 0) == 16) {
  }
}

bool WaitSet::wait(Duration limit) {
  epoll_event events[16];
  const int ms = limit.ns < 0 ? -1 : static_cast<int>(std::min<std::int64_t>((limit.ns + 999'999) / 1'000'000, 60'000));
  return epoll_wait(epoll_, events, 16, ms) != 0;
}

void WaitSet::pause(Duration time) {
  pollfd kicked{.fd = kick_, .events = POLLIN, .revents = 0};
  if (::poll(&kicked, 1, static_cast<int>(time.ns / 1'000'000)) > 0) {
    std::uint64_t count = 0;
    [[maybe_unused]] auto n = read(kick_, &count, sizeof(count));
  }
}

void WaitSet::kick() {
  const std::uint64_t one = 1;
  [[maybe_unused]] auto n = write(kick_, &one, sizeof(one));
}

}  // namespace mrc::engine
