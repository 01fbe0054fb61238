// SPDX-License-Identifier: BSD-2-Clause
// Wait sets: an epoll descriptor over the members' own descriptors.
#include "wait_set.hpp"

#include <poll.h>
#include <sched.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "fabric.hpp"
#include "log.hpp"
#include "nosys.hpp"

namespace mrc::prov {

namespace {

constexpr int kLongestSleepMs = 100;

int close_set(struct fid* fid) {
  WaitSet& set = self_of_fid<WaitSet, fid_wait>(fid);
  if (set.held()) {
    MRC_INFO(EQ, "fi_close of a wait set that queues still use");
    return -FI_EBUSY;
  }
  delete &set;
  return 0;
}

int control_set(struct fid* fid, int command, void* arg) {
  return self_of_fid<WaitSet, fid_wait>(fid).control(command, arg);
}

int wait_op(fid_wait* set, int timeout) {
  return self_of<WaitSet>(set).wait(timeout);
}

fi_ops set_fid_ops = {.size = sizeof(fi_ops),
                      .close = close_set,
                      .bind = nosys,
                      .control = control_set,
                      .ops_open = nosys,
                      .tostr = nosys,
                      .ops_set = nosys};
fi_ops_wait set_ops = {.size = sizeof(fi_ops_wait), .wait = wait_op};

}  // namespace

WaitSet::WaitSet(FabricObject& fabric, fi_wait_obj object, int poller)
    : fabric_(fabric), object_(object), poller_(poller) {
  handle_.self = this;
  handle_.fid.fid = {FI_CLASS_WAIT, nullptr, &set_fid_ops};
  handle_.fid.ops = &set_ops;
  fabric_.hold();
}

WaitSet::~WaitSet() {
  cond_.reset();
  close(poller_);
  fabric_.drop();
}

int WaitSet::add(Waitable& member) {
  Domain* domain = member.domain();
  if (const int error = member.wait_point().open(domain != nullptr ? domain->engine().wait_fd() : -1)) return error;
  epoll_event entry{};
  entry.events = EPOLLIN;
  const std::lock_guard guard(mutex_);
  members_.push_back(&member);
  if (epoll_ctl(poller_, EPOLL_CTL_ADD, member.wait_point().fd(), &entry) != 0) {
    members_.pop_back();
    return -errno;
  }
  hold();
  return 0;
}

void WaitSet::remove(Waitable& member) {
  const std::lock_guard guard(mutex_);
  std::erase(members_, &member);
  epoll_ctl(poller_, EPOLL_CTL_DEL, member.wait_point().fd(), nullptr);
  drop();
}

int WaitSet::try_wait() {
  const std::lock_guard guard(mutex_);
  for (Waitable* member : members_)
    if (const int error = prov::try_wait(*member)) return error;
  return 0;
}

int WaitSet::control(int command, void* out) {
  if (command != FI_GETWAIT && command != FI_GETWAITOBJ) return -FI_ENOSYS;
  if (out == nullptr) return -FI_EINVAL;
  if (command == FI_GETWAITOBJ) {
    *static_cast<fi_wait_obj*>(out) = object_ == FI_WAIT_UNSPEC ? FI_WAIT_FD : object_;
  } else if (object_ != FI_WAIT_MUTEX_COND) {
    *static_cast<int*>(out) = poller_;
  } else {
    return guarded([&] {
      const std::lock_guard guard(cond_mutex_);
      // Short waits, as nothing else ends them when the set is closed.
      if (!cond_)
        cond_ = std::make_unique<CondWaiter>([this](const auto&) { return wait(kLongestSleepMs) == 0; }, [] {});
      *static_cast<fi_mutex_cond*>(out) = cond_->handles();
      return 0;
    });
  }
  return 0;
}

int WaitSet::wait(int timeout) {
  const std::int64_t deadline = now_ms() + timeout;
  for (;;) {
    const int state = try_wait();
    if (state == -FI_EAGAIN) return 0;
    if (state != 0) return state;
    const std::int64_t left = deadline - now_ms();
    if (timeout >= 0 && left <= 0) return -FI_ETIMEDOUT;
    if (object_ == FI_WAIT_YIELD) {
      sched_yield();
      continue;
    }
    pollfd entry{poller_, POLLIN, 0};
    const int sleep_ms =
        timeout < 0 ? kLongestSleepMs : static_cast<int>(std::min<std::int64_t>(left, kLongestSleepMs));
    if (poll(&entry, 1, sleep_ms) < 0) return -errno;
  }
}

WaitSet* wait_set_of(fid_wait* fid) {
  if (fid == nullptr || fid->fid.fclass != FI_CLASS_WAIT) return nullptr;
  return &self_of<WaitSet>(fid);
}

int check_wait(fi_wait_obj object, fid_wait* fid, WaitSet** set) {
  *set = nullptr;
  switch (object) {
    case FI_WAIT_NONE:
    case FI_WAIT_UNSPEC:
    case FI_WAIT_FD:
    case FI_WAIT_MUTEX_COND:
    case FI_WAIT_YIELD:
      return 0;
    case FI_WAIT_SET:
      *set = wait_set_of(fid);
      if (*set != nullptr) return 0;
      MRC_INFO(EQ, "FI_WAIT_SET needs a wait set");
      return -FI_EINVAL;
    default:
      MRC_INFO(EQ, "the wait objects are NONE, UNSPEC, FD, MUTEX_COND, YIELD and SET, not %d",
               static_cast<int>(object));
      return -FI_ENOSYS;
  }
}

int open_wait_set(fid_fabric* fabric, fi_wait_attr* attr, fid_wait** wait_set) {
  const fi_wait_obj object = attr != nullptr ? attr->wait_obj : FI_WAIT_UNSPEC;
  if (object != FI_WAIT_UNSPEC && object != FI_WAIT_FD && object != FI_WAIT_MUTEX_COND && object != FI_WAIT_YIELD) {
    MRC_INFO(EQ, "wait sets have the wait objects UNSPEC, FD, MUTEX_COND and YIELD, not %d", static_cast<int>(object));
    return -FI_ENOSYS;
  }
  const int poller = epoll_create1(EPOLL_CLOEXEC);
  if (poller < 0) return -errno;
  const int error = guarded([&] {
    *wait_set = (new WaitSet(self_of<FabricObject>(fabric), object, poller))->fid();
    return 0;
  });
  if (error != 0) close(poller);
  return error;
}

int WaitSet::try_wait_asleep() {
  const int state = try_wait();
  if (state != 0) return state;
  const std::lock_guard guard(cond_mutex_);
  if (cond_) cond_->rearm();
  return 0;
}

int try_wait_all(struct fid** fids, int count) {
  for (int i = 0; i < count; ++i) {
    int state = -FI_EINVAL;
    if (fids[i] != nullptr && fids[i]->fclass == FI_CLASS_WAIT)
      state = self_of_fid<WaitSet, fid_wait>(fids[i]).try_wait_asleep();
    else if (Waitable* waitable = waitable_of(fids[i]))
      state = try_wait(*waitable);
    if (state != 0) return state;
  }
  return 0;
}

}  // namespace mrc::prov
