// SPDX-License-Identifier: BSD-2-Clause
// Poll sets: fi_poll makes progress and tells which of several queues and counters have something.
#pragma once

#include <rdma/fi_eq.h>

#include <mutex>
#include <vector>

#include "object.hpp"
#include "wait.hpp"

namespace mrc::prov {

class DomainObject;

class PollSet {
 public:
  explicit PollSet(DomainObject& domain);
  ~PollSet();
  int poll(void** contexts, int count);
  int add(struct fid* fid);
  int remove(struct fid* fid);
  fid_poll* fid() { return &handle_.fid; }

 private:
  Handle<fid_poll, PollSet> handle_;
  DomainObject& domain_;
  std::mutex mutex_;
  std::vector<Waitable*> members_;
};

int open_poll_set(fid_domain* domain, fi_poll_attr* attr, fid_poll** poll_set);

}  // namespace mrc::prov
