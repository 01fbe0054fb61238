// SPDX-License-Identifier: BSD-2-Clause
// The completion queue itself; cq_ops.cpp is what libfabric calls.
#include "cq.hpp"

#include <rdma/fi_errno.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <mutex>

#include "domain.hpp"
#include "fabric.hpp"
#include "log.hpp"
#include "wait_set.hpp"

namespace mrc::prov {

extern fi_ops cq_fid_ops;
extern fi_ops_cq cq_ops;

namespace {

template <class T>
std::byte* put(const T& entry, std::byte* to) {
  std::memcpy(to, &entry, sizeof entry);
  return to + sizeof entry;
}

}  // namespace

CqObject::CqObject(DomainObject& domain, const fi_cq_attr& attr, void* context)
    : domain_(domain),
      format_(attr.format == FI_CQ_FORMAT_UNSPEC ? FI_CQ_FORMAT_CONTEXT : attr.format),
      wait_obj_(attr.wait_obj),
      condition_(attr.wait_cond),
      size_(attr.size != 0 ? attr.size : 1024) {
  handle_.self = this;
  handle_.fid.fid = {FI_CLASS_CQ, context, &cq_fid_ops};
  handle_.fid.ops = &cq_ops;
  grow(size_);
  domain_.hold();
}

CqObject::~CqObject() {
  point_.stop_cond();
  if (set_ != nullptr) set_->remove(*this);
  {
    const std::lock_guard guard(domain_.engine());
    retract_locked(domain_.engine(), point_);
  }
  domain_.drop();
}

Domain* CqObject::domain() {
  return &domain_;
}

void CqObject::grow(std::size_t capacity) {
  capacity = std::bit_ceil(capacity);
  if (capacity <= capacity_) return;
  auto ring = std::make_unique_for_overwrite<Entry[]>(capacity);
  for (std::size_t i = 0; i < count_; ++i) ring[i] = ring_[(first_ + i) & (capacity_ - 1)];
  ring_ = std::move(ring);
  capacity_ = capacity;
  first_ = 0;
}

void CqObject::reserve(std::size_t operations) {
  reserved_ += operations;
  grow(size_ + reserved_);
  hold();
}

void CqObject::unreserve(std::size_t operations) {
  reserved_ -= operations;
  drop();
}

CqObject::Entry& CqObject::append() {
  if (count_ == capacity_) {
    // Not reached while operations are bounded by reserve() and room(); an entry is never lost all the same.
    MRC_DEBUG(CQ, "completion queue of %zu entries grows", capacity_);
    grow(capacity_ * 2);
  }
  Entry& entry = ring_[(first_ + count_) & (capacity_ - 1)];
  ++count_;
  return entry;
}

void CqObject::push(const Completion& c) {
  append() = {c.op_context, c.flags, c.len, c.buf, c.data, c.tag, c.source, 0, 0, 0, {}, false};
  point_.notify();
}

void CqObject::push_error(const ErrorCompletion& e) {
  const Completion& c = e.base;
  append() = {
      c.op_context, c.flags,   c.len, c.buf, c.data, c.tag, c.source, e.overflow_len, e.err != 0 ? e.err : FI_EOTHER,
      e.prov_errno, e.unknown, e.ipv6};
  point_.notify();
}

std::byte* CqObject::write_entry(const Entry& e, std::byte* to) const {
  switch (format_) {
    case FI_CQ_FORMAT_MSG:
      return put(fi_cq_msg_entry{e.op_context, e.flags, e.len}, to);
    case FI_CQ_FORMAT_DATA:
      return put(fi_cq_data_entry{e.op_context, e.flags, e.len, e.buf, e.data}, to);
    case FI_CQ_FORMAT_TAGGED:
      return put(fi_cq_tagged_entry{e.op_context, e.flags, e.len, e.buf, e.data, e.tag}, to);
    default:
      return put(fi_cq_entry{e.op_context}, to);
  }
}

ssize_t CqObject::take_locked(void* buffer, std::size_t count, fi_addr_t* sources) {
  auto* to = static_cast<std::byte*>(buffer);
  std::size_t taken = 0;
  while (taken < count && count_ != 0) {
    const Entry& entry = ring_[first_];
    if (entry.err != 0) break;
    to = write_entry(entry, to);
    if (sources != nullptr) sources[taken] = entry.source;
    first_ = (first_ + 1) & (capacity_ - 1);
    --count_;
    ++taken;
  }
  if (taken != 0) return static_cast<ssize_t>(taken);
  return count_ != 0 && count != 0 ? -FI_EAVAIL : -FI_EAGAIN;
}

ssize_t CqObject::read(void* buffer, std::size_t count, fi_addr_t* sources) {
  engine::Engine& engine = domain_.engine();
  const std::lock_guard guard(engine);
  retract_locked(engine, point_);
  // A read of 0 entries only makes progress. Entries that wait are given before more work is looked for.
  if (count_ == 0 || count == 0) engine.progress_locked();
  return take_locked(buffer, count, sources);
}

ssize_t CqObject::read_error(fi_cq_err_entry* out) {
  const std::lock_guard guard(domain_.engine());
  if (count_ == 0 || ring_[first_].err == 0) return -FI_EAGAIN;
  const Entry& entry = ring_[first_];
  out->op_context = entry.op_context;
  out->flags = entry.flags;
  out->len = entry.len;
  out->buf = entry.buf;
  out->data = entry.data;
  out->tag = entry.tag;
  out->olen = entry.overflow_len;
  out->err = entry.err;
  out->prov_errno = entry.prov_errno;
  // Only the fields that the application's version has: err_data_size came with 1.5, src_addr with 1.20.
  const auto version = domain_.fabric().api_version();
  const bool sized = FI_VERSION_GE(version, FI_VERSION(1, 5));
  std::size_t length = 0;
  if (entry.err == FI_EADDRNOTAVAIL) {
    error_data_ = sockaddr_of(entry.unknown, entry.ipv6);
    length = error_data_.length;
  }
  if (sized && out->err_data_size != 0 && out->err_data != nullptr) {
    length = std::min(length, out->err_data_size);
    std::memcpy(out->err_data, &error_data_.any, length);
  } else {
    out->err_data = length != 0 ? &error_data_.any : nullptr;
  }
  if (sized) out->err_data_size = length;
  if (FI_VERSION_GE(version, FI_VERSION(1, 20))) {
    constexpr std::size_t kSourceAt = 80;  // fi_cq_err_entry of 1.17 ends here
    const fi_addr_t source = FI_ADDR_NOTAVAIL;
    std::memcpy(reinterpret_cast<std::byte*>(out) + kSourceAt, &source, sizeof source);
  }
  first_ = (first_ + 1) & (capacity_ - 1);
  --count_;
  return 1;
}

ssize_t CqObject::read_blocking(void* buffer, std::size_t count, fi_addr_t* sources, const void* condition,
                                int timeout) {
  std::size_t threshold = 1;
  if (condition_ == FI_CQ_COND_THRESHOLD && condition != nullptr) {
    std::memcpy(&threshold, condition, sizeof threshold);
    if (threshold == 0) threshold = 1;
    if (threshold > count && count != 0) threshold = count;
  }
  // An error at the head ends the wait too: the threshold may never be reached behind it.
  const auto ready = [&] { return signalled_ || count_ >= threshold || (count_ != 0 && ring_[first_].err != 0); };
  const Blocking how = wait_obj_ == FI_WAIT_YIELD ? Blocking::kYield : Blocking::kSleep;
  const int state = block(domain_, point_, timeout, how, ready);
  const std::lock_guard guard(domain_.engine());
  signalled_ = false;
  if (state != 0 && state != -FI_EAGAIN) return state;
  return take_locked(buffer, count, sources);
}

void CqObject::signal() {
  const std::lock_guard guard(domain_.engine());
  signalled_ = true;
  point_.notify();
}

int CqObject::control(int command, void* out) {
  return control_wait(
      point_, wait_obj_, domain_.engine().wait_fd(), command, out, [this](const std::atomic<bool>& stop) {
        return block(domain_, point_, -1, Blocking::kSleep, [&] { return count_ != 0 || signalled_ || stop; }) == 0;
      });
}

}  // namespace mrc::prov
