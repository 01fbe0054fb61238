// SPDX-License-Identifier: BSD-2-Clause
// Counters and what libfabric calls of them. Reading drives progress, as applications with counters only need.
#include "cntr.hpp"

#include <rdma/fi_errno.h>

#include <memory>
#include <mutex>

#include "domain.hpp"
#include "log.hpp"
#include "nosys.hpp"
#include "wait_set.hpp"

namespace mrc::prov {

namespace {

CntrObject& object(fid_cntr* cntr) {
  return self_of<CntrObject>(cntr);
}

int close_cntr(struct fid* fid) {
  CntrObject& cntr = self_of_fid<CntrObject, fid_cntr>(fid);
  if (cntr.held()) {
    MRC_INFO(CNTR, "fi_close of a counter that something is still bound to");
    return -FI_EBUSY;
  }
  delete &cntr;
  return 0;
}

int control_cntr(struct fid* fid, int command, void* arg) {
  return self_of_fid<CntrObject, fid_cntr>(fid).control(command, arg);
}

std::uint64_t read_cntr(fid_cntr* cntr) {
  return object(cntr).read();
}
std::uint64_t readerr_cntr(fid_cntr* cntr) {
  return object(cntr).read_error();
}
/// The application changes it; what waited for that is done at once.
template <class Change>
int change(fid_cntr* fid, Change&& how) {
  CntrObject& cntr = object(fid);
  Domain& domain = *cntr.domain();
  const std::lock_guard guard(domain.engine());
  how(cntr);
  domain.work().run();
  return 0;
}
int add_cntr(fid_cntr* cntr, std::uint64_t value) {
  return change(cntr, [value](CntrObject& c) { c.add(value); });
}
int set_cntr(fid_cntr* cntr, std::uint64_t value) {
  return change(cntr, [value](CntrObject& c) { c.set(value); });
}
int wait_cntr(fid_cntr* cntr, std::uint64_t threshold, int timeout) {
  return object(cntr).wait(threshold, timeout);
}
int adderr_cntr(fid_cntr* cntr, std::uint64_t value) {
  return change(cntr, [value](CntrObject& c) { c.add_error(value); });
}
int seterr_cntr(fid_cntr* cntr, std::uint64_t value) {
  return change(cntr, [value](CntrObject& c) { c.set_error(value); });
}

fi_ops cntr_fid_ops = {.size = sizeof(fi_ops),
                       .close = close_cntr,
                       .bind = nosys,
                       .control = control_cntr,
                       .ops_open = nosys,
                       .tostr = nosys,
                       .ops_set = nosys};

fi_ops_cntr cntr_ops = {.size = sizeof(fi_ops_cntr),
                        .read = read_cntr,
                        .readerr = readerr_cntr,
                        .add = add_cntr,
                        .set = set_cntr,
                        .wait = wait_cntr,
                        .adderr = adderr_cntr,
                        .seterr = seterr_cntr};

}  // namespace

CntrObject::CntrObject(DomainObject& domain, const fi_cntr_attr& attr, void* context)
    : domain_(domain), wait_obj_(attr.wait_obj) {
  handle_.self = this;
  handle_.fid.fid = {FI_CLASS_CNTR, context, &cntr_fid_ops};
  handle_.fid.ops = &cntr_ops;
  domain_.hold();
}

CntrObject::~CntrObject() {
  point_.stop_cond();
  if (set_ != nullptr) set_->remove(*this);
  {
    const std::lock_guard guard(domain_.engine());
    retract_locked(domain_.engine(), point_);
  }
  domain_.drop();
}

Domain* CntrObject::domain() {
  return &domain_;
}

void CntrObject::changed() {
  point_.notify();
  if (!waiting_.empty()) domain_.work().changed(*this);
}

void CntrObject::add(std::uint64_t n) {
  value_.fetch_add(n, std::memory_order_seq_cst);
  changed();
}

void CntrObject::add_error(std::uint64_t n) {
  errors_.fetch_add(n, std::memory_order_seq_cst);
  changed();
}

void CntrObject::set(std::uint64_t value) {
  value_.store(value, std::memory_order_seq_cst);  // before the look for sleepers: they look the other way round
  changed();
}

void CntrObject::set_error(std::uint64_t value) {
  errors_.store(value, std::memory_order_seq_cst);
  changed();
}

std::uint64_t CntrObject::read() {
  {
    engine::Engine& engine = domain_.engine();
    const std::lock_guard guard(engine);
    retract_locked(engine, point_);
    engine.progress_locked();
  }
  const std::uint64_t value = value_.load(std::memory_order_acquire);
  seen_value_.store(value, std::memory_order_relaxed);
  return value;
}

std::uint64_t CntrObject::read_error() {
  progress(domain_);
  const std::uint64_t value = errors_.load(std::memory_order_acquire);
  seen_errors_.store(value, std::memory_order_relaxed);
  return value;
}

int CntrObject::wait(std::uint64_t threshold, int timeout) {
  const std::uint64_t errors = errors_.load(std::memory_order_acquire);
  const auto reached = [&] { return value_.load(std::memory_order_acquire) >= threshold; };
  const auto failed = [&] { return errors_.load(std::memory_order_acquire) != errors; };
  const Blocking how = wait_obj_ == FI_WAIT_YIELD ? Blocking::kYield : Blocking::kSleep;
  const int state = block(domain_, point_, timeout, how, [&] { return reached() || failed(); });
  if (reached()) return 0;
  if (failed()) return -FI_EAVAIL;
  return state == -FI_EAGAIN ? -FI_ETIMEDOUT : state;
}

int CntrObject::control(int command, void* out) {
  return control_wait(
      point_, wait_obj_, domain_.engine().wait_fd(), command, out, [this](const std::atomic<bool>& stop) {
        return block(domain_, point_, -1, Blocking::kSleep, [&] { return ready_locked() || stop; }) == 0;
      });
}

bool CntrObject::ready_locked() {
  return value_.load(std::memory_order_acquire) != seen_value_.load(std::memory_order_relaxed) ||
         errors_.load(std::memory_order_acquire) != seen_errors_.load(std::memory_order_relaxed);
}

int open_cntr(fid_domain* domain, fi_cntr_attr* attr, fid_cntr** cntr, void* context) {
  const fi_cntr_attr wanted = attr != nullptr ? *attr : fi_cntr_attr{};
  if (wanted.events != FI_CNTR_EVENTS_COMP) {
    MRC_INFO(CNTR, "counters count completions only (FI_CNTR_EVENTS_COMP), not events %d",
             static_cast<int>(wanted.events));
    return -FI_ENOSYS;
  }
  WaitSet* set = nullptr;
  if (const int error = check_wait(wanted.wait_obj, wanted.wait_set, &set)) return error;
  return guarded([&] {
    auto object = std::make_unique<CntrObject>(self_of<DomainObject>(domain), wanted, context);
    if (set != nullptr) {
      if (const int error = set->add(*object)) return error;
      object->set_wait_set(set);
    }
    *cntr = object.release()->fid();
    return 0;
  });
}

Counter* counter_of(struct fid* fid) {
  if (fid == nullptr || fid->fclass != FI_CLASS_CNTR) return nullptr;
  return &self_of_fid<CntrObject, fid_cntr>(fid);
}

}  // namespace mrc::prov
