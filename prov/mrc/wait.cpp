// SPDX-License-Identifier: BSD-2-Clause
// The sleeping itself: eventfd, epoll, the order of announcing and looking.
#include "wait.hpp"

#include <poll.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <utility>

#include "log.hpp"
#include "wait_cond.hpp"

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

void poke(int event_fd) {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(event_fd, &one, sizeof one);  // full = already readable
}

void empty(int event_fd) {
  std::uint64_t count = 0;
  [[maybe_unused]] const ssize_t drained = read(event_fd, &count, sizeof count);
}

std::mutex& opening() {
  static std::mutex mutex;
  return mutex;
}

}  // namespace

std::int64_t now_ms() {
  return now_us() / 1000;
}

Sleeper::Sleeper() {
  // Closed when the thread ends: a blocked call costs no descriptors of its own.
  struct Own {
    int fd = -1;
    ~Own() {
      if (fd >= 0) close(fd);
    }
  };
  thread_local Own own;
  if (own.fd < 0) own.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  fd_ = own.fd;
  if (fd_ < 0) {
    error_ = errno;
    return;
  }
  empty(fd_);  // of what came after the last wait's end
}

WaitPoint::WaitPoint() = default;

WaitPoint::~WaitPoint() {
  stop_cond();
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
  if (asleep_.load(std::memory_order_seq_cst) == 0) return;
  if (armed_.load(std::memory_order_seq_cst)) poke(event_fd_);
  const std::lock_guard guard(mutex_);
  for (Sleeper* s = sleepers_; s != nullptr; s = s->next_) poke(s->fd_);
}

void WaitPoint::arm() {
  if (!armed_.exchange(true, std::memory_order_seq_cst)) asleep_.fetch_add(1, std::memory_order_seq_cst);
}

bool WaitPoint::disarm() {
  // Mostly there is no announcement: reads call this each time, so look before the exchange.
  if (!armed_.load(std::memory_order_relaxed) || !armed_.exchange(false, std::memory_order_seq_cst)) return false;
  asleep_.fetch_sub(1, std::memory_order_seq_cst);
  empty(event_fd_);
  return true;
}

void WaitPoint::enlist(Sleeper& sleeper) {
  const std::lock_guard guard(mutex_);
  sleeper.next_ = sleepers_;
  sleepers_ = &sleeper;
  asleep_.fetch_add(1, std::memory_order_seq_cst);
}

void WaitPoint::delist(Sleeper& sleeper) {
  const std::lock_guard guard(mutex_);
  for (Sleeper** at = &sleepers_; *at != nullptr; at = &(*at)->next_)
    if (*at == &sleeper) {
      *at = sleeper.next_;
      break;
    }
  asleep_.fetch_sub(1, std::memory_order_seq_cst);
}

void WaitPoint::set_cond(std::unique_ptr<CondWaiter> cond) {
  cond_ = std::move(cond);
}

void WaitPoint::stop_cond() {
  cond_.reset();
}

namespace {

bool announce_engine_locked(engine::Engine& engine) {
  ++announced;
  if (engine.arm_locked()) return true;
  if (--announced == 0) engine.disarm_locked();
  return false;
}

void retract_engine_locked(engine::Engine& engine) {
  if (--announced == 0) engine.disarm_locked();
}

}  // namespace

bool announce_locked(engine::Engine& engine, WaitPoint& point) {
  retract_locked(engine, point);
  point.arm();
  if (announce_engine_locked(engine)) return true;
  point.disarm();
  return false;
}

void retract_locked(engine::Engine& engine, WaitPoint& point) {
  if (point.disarm()) retract_engine_locked(engine);
}

int block(Domain& domain, WaitPoint& point, int timeout, Blocking how, const std::function<bool()>& ready_locked) {
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
    if (how == Blocking::kYield) {
      sched_yield();
      continue;
    }
    if (waited < kSpinMicroseconds) continue;

    Sleeper sleeper;
    if (const int error = sleeper.error()) return error;
    {
      const std::lock_guard guard(engine);
      if (!announce_engine_locked(engine)) continue;
      point.enlist(sleeper);
      if (ready_locked()) {
        point.delist(sleeper);
        retract_engine_locked(engine);
        return 0;
      }
    }
    int sleep_ms = kLongestSleepMs;
    if (timeout >= 0) sleep_ms = std::clamp(static_cast<int>(timeout - waited / 1000), 1, kLongestSleepMs);
    pollfd entries[] = {{sleeper.fd(), POLLIN, 0}, {engine.wait_fd(), POLLIN, 0}};
    const int polled = poll(entries, 2, sleep_ms);
    const int error = errno;
    {
      const std::lock_guard guard(engine);
      point.delist(sleeper);
      retract_engine_locked(engine);
    }
    if (polled < 0) return -error;
  }
}

int try_wait(Waitable& waitable) {
  WaitPoint& point = waitable.wait_point();
  Domain* domain = waitable.domain();
  if (domain == nullptr) {
    if (point.cond() == nullptr) {
      if (const int error = point.open(-1)) return error;
      point.arm();
    }
    if (waitable.ready_locked()) return -FI_EAGAIN;
    if (point.cond() != nullptr) point.cond()->rearm();
    return 0;
  }
  engine::Engine& engine = domain->engine();
  if (point.cond() == nullptr)
    if (const int error = point.open(engine.wait_fd())) return error;
  const std::lock_guard guard(engine);
  retract_locked(engine, point);
  if (waitable.ready_locked()) return -FI_EAGAIN;
  engine.progress_locked();
  if (waitable.ready_locked()) return -FI_EAGAIN;
  if (point.cond() != nullptr) {  // its thread makes the progress
    point.cond()->rearm();
    return 0;
  }
  // The announcement lasts until the next read: the application is asleep on the descriptor meanwhile.
  if (!announce_locked(engine, point)) return -FI_EAGAIN;
  if (!waitable.ready_locked()) return 0;
  retract_locked(engine, point);
  return -FI_EAGAIN;
}

int control_wait(WaitPoint& point, fi_wait_obj object, int engine_fd, int command, void* out,
                 const std::function<bool(const std::atomic<bool>& stop)>& wait) {
  if (command != FI_GETWAIT && command != FI_GETWAITOBJ) return -FI_ENOSYS;
  if (out == nullptr) return -FI_EINVAL;
  if (command == FI_GETWAITOBJ) {
    *static_cast<fi_wait_obj*>(out) = object == FI_WAIT_UNSPEC ? FI_WAIT_FD : object;
    return 0;
  }
  switch (object) {
    case FI_WAIT_FD:
    case FI_WAIT_UNSPEC:
      if (const int error = point.open(engine_fd)) return error;
      *static_cast<int*>(out) = point.fd();
      return 0;
    case FI_WAIT_MUTEX_COND:
      return guarded([&] {
        const std::lock_guard guard(opening());
        if (point.cond() == nullptr) point.set_cond(std::make_unique<CondWaiter>(wait, [&point] { point.notify(); }));
        *static_cast<fi_mutex_cond*>(out) = point.cond()->handles();
        return 0;
      });
    default:
      MRC_INFO(EQ, "FI_GETWAIT needs an object that was opened with FI_WAIT_FD or FI_WAIT_MUTEX_COND");
      return -FI_EINVAL;
  }
}

}  // namespace mrc::prov
