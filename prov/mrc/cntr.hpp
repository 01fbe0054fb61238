// SPDX-License-Identifier: BSD-2-Clause
// Counters: two numbers, successes and errors, that can be waited for.
#pragma once

#include <rdma/fi_eq.h>

#include <atomic>

#include "object.hpp"
#include "objects.hpp"
#include "wait.hpp"

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
  void set(std::uint64_t value);
  void set_error(std::uint64_t value);
  /// 0, -FI_EAVAIL if the error count moves meanwhile, -FI_ETIMEDOUT.
  int wait(std::uint64_t threshold, int timeout);
  int control(int command, void* out);

  /// Changed since it was last read.
  bool ready_locked() override;
  WaitPoint& wait_point() override { return point_; }
  Domain* domain() override;
  void* context() const override { return handle_.fid.fid.context; }
  Holdable& holdable() override { return *this; }
  void set_wait_set(WaitSet* set) { set_ = set; }
  fid_cntr* fid() { return &handle_.fid; }

 private:
  Handle<fid_cntr, CntrObject> handle_;
  DomainObject& domain_;
  WaitSet* set_ = nullptr;
  fi_wait_obj wait_obj_;
  std::atomic<std::uint64_t> value_{0};
  std::atomic<std::uint64_t> errors_{0};
  std::atomic<std::uint64_t> seen_value_{0};
  std::atomic<std::uint64_t> seen_errors_{0};
  WaitPoint point_;
};

int open_cntr(fid_domain* domain, fi_cntr_attr* attr, fid_cntr** cntr, void* context);

}  // namespace mrc::prov
