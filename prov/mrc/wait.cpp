// SPDX-License-Identifier: BSD-2-Clause
// The sleeping itself: eventfd, epoll, the order of announcing and looking.
#include "wait.hpp"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <mutex>

namespace mrc::prov {

namespace {

/// Spins (with the engine's own yielding) this long before it sleeps: waking up costs more than most waits last.
constexpr std::int64_t kSpinMicroseconds = 50;
/// No sleep is longer: a missed wake-up must cost a hiccup, not a hang.
constexpr int kLongestSleepMs = 100;

/// Sleepers announced to the process's engine, guarded by its lock: one who wakes must not silence the others.
unsigned announced = 0;

std::int64_t now_us() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<std::int64_t>(t.tv_sec) * 1000000 + t.tv_nsec / 1000;
}

std::mutex& opening() {
  static std::mutex mutex;
  return mutex;
}

}  // namespace

std::int64_t now_ms() {
  return now_us() / 1000;
}

WaitPoint::~WaitPoint() {
  if (epoll_fd_ >= 0) close(epoll_fd_);
  if (event_fd_ >= 0) close(event_fd_);
}

int WaitPoint::open(int engine_fd) {
  if (fd() >= 0) return 0;
  const std::lock_guard guard(opening());
  if (fd() >= 0) return 0;
  const int event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (event < 0) return -errno;
  const int poller = epoll_create1(EPOLL_CLOEXEC);
  if (poller < 0) {
    const int error = errno;
    close(event);
    return -error;
  }
  epoll_event entry{};
  entry.events = EPOLLIN;
  for (const int watched : {event, engine_fd}) {
    if (watched < 0 || epoll_ctl(poller, EPOLL_CTL_ADD, watched, &entry) == 0) continue;
    const int error = errno;
    close(poller);
    close(event);
    return -error;
  }
  event_fd_.store(event, std::memory_order_release);
  epoll_fd_.store(poller, std::memory_order_release);
  return 0;
}

void WaitPoint::notify() {
  if (!armed_.load(std::memory_order_seq_cst)) return;
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(event_fd_, &one, sizeof one);  // full = already readable
}

void WaitPoint::arm() {
  armed_.store(true, std::memory_order_seq_cst);
}

bool WaitPoint::disarm() {
  // Mostly there is no announcement: reads call this each time, so look before the exchange.
  if (!armed_.load(std::memory_order_relaxed) || !armed_.exchange(false, std::memory_order_seq_cst)) return false;
  std::uint64_t count = 0;
  [[maybe_unused]] const ssize_t drained = read(event_fd_, &count, sizeof count);
  return true;
}

bool announce_locked(engine::Engine& engine, WaitPoint& point) {
  retract_locked(engine, point);
  point.arm();
  ++announced;
  if (engine.arm_locked()) return true;
  retract_locked(engine, point);
  return false;
}

void retract_locked(engine::Engine& engine, WaitPoint& point) {
  if (point.disarm() && --announced == 0) engine.disarm_locked();
}

int block(Domain& domain, WaitPoint& point, int timeout, const std::function<bool()>& ready_locked) {
  engine::Engine& engine = domain.engine();
  const std::int64_t start = now_us();
  for (;;) {
    {
      const std::lock_guard guard(engine);
      if (ready_locked()) return 0;
      engine.progress_locked();
      if (ready_locked()) return 0;
    }
    const std::int64_t waited = now_us() - start;
    if (timeout >= 0 && waited >= static_cast<std::int64_t>(timeout) * 1000) return -FI_EAGAIN;
    if (waited < kSpinMicroseconds) continue;

    if (const int error = point.open(engine.wait_fd())) return error;
    {
      const std::lock_guard guard(engine);
      if (!announce_locked(engine, point)) continue;
      if (ready_locked()) {
        retract_locked(engine, point);
        return 0;
      }
    }
    int sleep_ms = kLongestSleepMs;
    if (timeout >= 0) sleep_ms = std::clamp(static_cast<int>(timeout - waited / 1000), 1, kLongestSleepMs);
    pollfd entry{point.fd(), POLLIN, 0};
    const int polled = poll(&entry, 1, sleep_ms);
    const int error = errno;
    {
      const std::lock_guard guard(engine);
      retract_locked(engine, point);
    }
    if (polled < 0 && error != EINTR) return -error;
    if (polled < 0) return -FI_EINTR;
  }
}

int try_wait(Waitable& waitable) {
  WaitPoint& point = waitable.wait_point();
  Domain* domain = waitable.domain();
  if (domain == nullptr) {
    if (const int error = point.open(-1)) return error;
    point.arm();
    return waitable.ready_locked() ? -FI_EAGAIN : 0;
  }
  engine::Engine& engine = domain->engine();
  if (const int error = point.open(engine.wait_fd())) return error;
  const std::lock_guard guard(engine);
  retract_locked(engine, point);
  if (waitable.ready_locked()) return -FI_EAGAIN;
  engine.progress_locked();
  if (waitable.ready_locked()) return -FI_EAGAIN;
  // The announcement lasts until the next read: the application is asleep on the descriptor meanwhile.
  if (!announce_locked(engine, point)) return -FI_EAGAIN;
  if (!waitable.ready_locked()) return 0;
  retract_locked(engine, point);
  return -FI_EAGAIN;
}

}  // namespace mrc::prov
