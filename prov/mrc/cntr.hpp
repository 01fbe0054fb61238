// SPDX-License-Identifier: BSD-2-Clause
// Counters: two numbers, successes and errors, that can be waited for.
#pragma once

#include <rdma/fi_eq.h>

#include <atomic>

#include "object.hpp"
#include "objects.hpp"
#include "wait.hpp"
#include "work.hpp"

namespace mrc::prov {

class DomainObject;
class WaitSet;

class CntrObject final : public Counter, public Waitable {
 public:
  CntrObject(DomainObject& domain, const fi_cntr_attr& attr, void* context);
  ~CntrObject() override;

  void add(std::uint64_t n) override;
  void add_error(std::uint64_t n) override;

  std::uint64_t read();
  std::uint64_t read_error();
  // As add(): with the engine's lock.
  void set(std::uint64_t value);
  void set_error(std::uint64_t value);
  /// 0, -FI_EAVAIL if the error count moves meanwhile, -FI_ETIMEDOUT.
  int wait(std::uint64_t threshold, int timeout);
  int control(int command, void* out);
  std::uint64_t value() const { return value_.load(std::memory_order_acquire); }
  std::uint64_t errors() const { return errors_.load(std::memory_order_acquire); }
  /// What is to be done when it has reached a threshold.
  WaitingWork& waiting() { return waiting_; }

  /// Changed since it was last read.
  bool ready_locked() override;
  WaitPoint& wait_point() override { return point_; }
  Domain* domain() override;
  void* context() const override { return handle_.fid.fid.context; }
  Holdable& holdable() override { return *this; }
  void set_wait_set(WaitSet* set) { set_ = set; }
  fid_cntr* fid() { return &handle_.fid; }

 private:
  void changed();

  Handle<fid_cntr, CntrObject> handle_;
  DomainObject& domain_;
  WaitSet* set_ = nullptr;
  fi_wait_obj wait_obj_;
  std::atomic<std::uint64_t> value_{0};
  std::atomic<std::uint64_t> errors_{0};
  std::atomic<std::uint64_t> seen_value_{0};
  std::atomic<std::uint64_t> seen_errors_{0};
  WaitingWork waiting_;
  WaitPoint point_;
};

int open_cntr(fid_domain* domain, fi_cntr_attr* attr, fid_cntr** cntr, void* context);

}  // namespace mrc::prov
