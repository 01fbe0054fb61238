// SPDX-License-Identifier: BSD-2-Clause
// Completion queue: a ring of completions and errors in the order they happened. Guarded by the engine's lock.
#pragma once

#include <rdma/fi_eq.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "address.hpp"
#include "object.hpp"
#include "objects.hpp"
#include "wait.hpp"

namespace mrc::prov {

class DomainObject;
class WaitSet;

class CqObject final : public Cq, public Waitable {
 public:
  CqObject(DomainObject& domain, const fi_cq_attr& attr, void* context);
  ~CqObject() override;

  void push(const Completion& completion) override;
  void push_error(const ErrorCompletion& error) override;
  bool room() const override { return count_ < size_; }
  void reserve(std::size_t operations) override;
  void unreserve(std::size_t operations) override;

  /// The libfabric calls; they take the engine's lock.
  ssize_t read(void* buffer, std::size_t count, fi_addr_t* sources);
  ssize_t read_error(fi_cq_err_entry* entry);
  ssize_t read_blocking(void* buffer, std::size_t count, fi_addr_t* sources, const void* condition, int timeout);
  void signal();
  int control(int command, void* out);

  bool ready_locked() override { return count_ != 0; }
  WaitPoint& wait_point() override { return point_; }
  Domain* domain() override;
  void* context() const override { return handle_.fid.fid.context; }
  Holdable& holdable() override { return *this; }
  void set_wait_set(WaitSet* set) { set_ = set; }
  fid_cq* fid() { return &handle_.fid; }

 private:
  struct Entry {  // trivial, so that a ring nobody uses costs no pages
    void* op_context;
    std::uint64_t flags;
    std::size_t len;
    void* buf;
    std::uint64_t data;
    std::uint64_t tag;
    fi_addr_t source;
    std::size_t overflow_len;
    int err;  ///< 0: a completion
    int prov_errno;
    EndpointName unknown;  ///< FI_EADDRNOTAVAIL: whose address is err_data
    bool ipv6;
  };
  Entry& append();
  void grow(std::size_t capacity);
  ssize_t take_locked(void* buffer, std::size_t count, fi_addr_t* sources);
  std::byte* write_entry(const Entry& entry, std::byte* to) const;

  Handle<fid_cq, CqObject> handle_;
  DomainObject& domain_;
  WaitSet* set_ = nullptr;
  fi_cq_format format_;
  fi_wait_obj wait_obj_;
  fi_cq_wait_cond condition_;
  std::size_t size_;
  std::unique_ptr<Entry[]> ring_;
  std::size_t capacity_ = 0;  ///< a power of two
  std::size_t first_ = 0;
  std::size_t count_ = 0;
  std::size_t reserved_ = 0;
  bool signalled_ = false;
  Sockaddr error_data_;  ///< of the last error read, valid until the next one
  WaitPoint point_;
};

int open_cq(fid_domain* domain, fi_cq_attr* attr, fid_cq** cq, void* context);

}  // namespace mrc::prov
