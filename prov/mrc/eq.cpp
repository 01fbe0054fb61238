// SPDX-License-Identifier: BSD-2-Clause
// The event queue itself; eq_ops.cpp is what libfabric calls.
#include "eq.hpp"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "fabric.hpp"
#include "log.hpp"
#include "wait_set.hpp"

namespace mrc::prov {

extern fi_ops eq_fid_ops;
extern fi_ops_eq eq_ops;

EqObject::EqObject(FabricObject& fabric, const fi_eq_attr& attr, void* context)
    : fabric_(fabric),
      size_(attr.size != 0 ? attr.size : 256),
      wait_obj_(attr.wait_obj),
      writable_((attr.flags & FI_WRITE) != 0) {
  handle_.self = this;
  handle_.fid.fid = {FI_CLASS_EQ, context, &eq_fid_ops};
  handle_.fid.ops = &eq_ops;
  fabric_.hold();
}

EqObject::~EqObject() {
  point_.stop_cond();
  if (set_ != nullptr) set_->remove(*this);
  fabric_.drop();
}

void EqObject::append_locked(Event&& event) {
  events_.push_back(std::move(event));
  point_.notify();
}

void EqObject::push(std::uint32_t event, const void* entry, std::size_t length) {
  const auto* bytes = static_cast<const std::byte*>(entry);
  const std::lock_guard guard(mutex_);
  append_locked(Event{event, false, {}, {bytes, bytes + length}});
}

void EqObject::push_error(const fi_eq_err_entry& entry) {
  const std::lock_guard guard(mutex_);
  append_locked(Event{0, true, entry, {}});
}

ssize_t EqObject::write(std::uint32_t event, const void* entry, std::size_t length) {
  if (!writable_) {
    MRC_INFO(EQ, "fi_eq_write needs an event queue that was opened with FI_WRITE");
    return -FI_EINVAL;
  }
  const auto* bytes = static_cast<const std::byte*>(entry);
  const std::lock_guard guard(mutex_);
  if (events_.size() >= size_) return -FI_EAGAIN;
  append_locked(Event{event, false, {}, {bytes, bytes + length}});
  return static_cast<ssize_t>(length);
}

ssize_t EqObject::read(std::uint32_t* event, void* buffer, std::size_t length, std::uint64_t flags) {
  const std::lock_guard guard(mutex_);
  if (events_.empty()) return -FI_EAGAIN;
  const Event& first = events_.front();
  if (first.is_error) return -FI_EAVAIL;
  const std::size_t size = first.bytes.size();
  if (length < size) return -FI_ETOOSMALL;
  if (event != nullptr) *event = first.event;
  if (size != 0) std::memcpy(buffer, first.bytes.data(), size);
  if ((flags & FI_PEEK) == 0) {
    events_.pop_front();
    if (events_.empty() && point_.disarm()) point_.arm();  // level: readable only while there are events
  }
  return static_cast<ssize_t>(size);
}

ssize_t EqObject::read_error(fi_eq_err_entry* entry, std::uint64_t flags) {
  const std::lock_guard guard(mutex_);
  if (events_.empty() || !events_.front().is_error) return -FI_EAGAIN;
  // err_data_size came with API 1.5; older callers have a shorter structure. Our errors carry no data.
  const fi_eq_err_entry& error = events_.front().error;
  entry->fid = error.fid;
  entry->context = error.context;
  entry->data = error.data;
  entry->err = error.err;
  entry->prov_errno = error.prov_errno;
  const bool sized = FI_VERSION_GE(fabric_.api_version(), FI_VERSION(1, 5));
  if (!sized || entry->err_data_size == 0) entry->err_data = nullptr;
  if (sized) entry->err_data_size = 0;
  if ((flags & FI_PEEK) == 0) {
    events_.pop_front();
    if (events_.empty() && point_.disarm()) point_.arm();
  }
  return sizeof(fi_eq_err_entry);
}

ssize_t EqObject::read_blocking(std::uint32_t* event, void* buffer, std::size_t length, int timeout,
                                std::uint64_t flags) {
  const std::int64_t deadline = now_ms() + timeout;
  for (;;) {
    Sleeper sleeper;
    if (const int error = sleeper.error()) return error;
    point_.enlist(sleeper);
    const ssize_t got = read(event, buffer, length, flags);
    const std::int64_t left = deadline - now_ms();
    int polled = 0;
    if (got == -FI_EAGAIN && (timeout < 0 || left > 0)) {
      pollfd entry{sleeper.fd(), POLLIN, 0};
      polled = poll(&entry, 1, timeout < 0 ? -1 : static_cast<int>(left));
    }
    const int error = errno;
    point_.delist(sleeper);
    if (got != -FI_EAGAIN) return got;
    if (polled < 0) return -error;
    if (timeout >= 0 && left <= 0) return -FI_EAGAIN;
  }
}

bool EqObject::ready_locked() {
  const std::lock_guard guard(mutex_);
  return !events_.empty();
}

int EqObject::control(int command, void* out) {
  const auto wait = [this](const std::atomic<bool>& stop) {
    while (!stop) {
      Sleeper sleeper;
      if (sleeper.error() != 0) return false;
      point_.enlist(sleeper);
      const bool ready = ready_locked();
      pollfd entry{sleeper.fd(), POLLIN, 0};
      if (!ready && !stop) poll(&entry, 1, -1);
      point_.delist(sleeper);
      if (ready) return true;
    }
    return false;
  };
  if (const int error = control_wait(point_, wait_obj_, -1, command, out, wait)) return error;
  if (command != FI_GETWAIT || point_.cond() != nullptr) return 0;
  const std::lock_guard guard(mutex_);
  // Announced for good: the descriptor is readable whenever there are events, whoever sleeps on it.
  point_.arm();
  if (!events_.empty()) point_.notify();
  return 0;
}

}  // namespace mrc::prov
