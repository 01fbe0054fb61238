// SPDX-License-Identifier: BSD-2-Clause
// Poll sets, and what libfabric calls of them.
#include "poll_set.hpp"

#include <rdma/fi_errno.h>

#include <algorithm>

#include "cntr.hpp"
#include "cq.hpp"
#include "domain.hpp"
#include "eq.hpp"
#include "nosys.hpp"

namespace mrc::prov {

namespace {

int close_poll(struct fid* fid) {
  delete &self_of_fid<PollSet, fid_poll>(fid);
  return 0;
}

int poll_op(fid_poll* set, void** contexts, int count) {
  return self_of<PollSet>(set).poll(contexts, count);
}

int add_op(fid_poll* set, struct fid* fid, std::uint64_t flags) {
  if (flags != 0) return -FI_EBADFLAGS;
  return guarded([&] { return self_of<PollSet>(set).add(fid); });
}

int del_op(fid_poll* set, struct fid* fid, std::uint64_t flags) {
  if (flags != 0) return -FI_EBADFLAGS;
  return self_of<PollSet>(set).remove(fid);
}

fi_ops poll_fid_ops = {.size = sizeof(fi_ops),
                       .close = close_poll,
                       .bind = nosys,
                       .control = nosys,
                       .ops_open = nosys,
                       .tostr = nosys,
                       .ops_set = nosys};
fi_ops_poll poll_ops = {.size = sizeof(fi_ops_poll), .poll = poll_op, .poll_add = add_op, .poll_del = del_op};

}  // namespace

Waitable* waitable_of(struct fid* fid) {
  if (fid == nullptr) return nullptr;
  switch (fid->fclass) {
    case FI_CLASS_CQ:
      return &self_of_fid<CqObject, fid_cq>(fid);
    case FI_CLASS_EQ:
      return &self_of_fid<EqObject, fid_eq>(fid);
    case FI_CLASS_CNTR:
      return &self_of_fid<CntrObject, fid_cntr>(fid);
    default:
      return nullptr;
  }
}

PollSet::PollSet(DomainObject& domain) : domain_(domain) {
  handle_.self = this;
  handle_.fid.fid = {FI_CLASS_POLL, nullptr, &poll_fid_ops};
  handle_.fid.ops = &poll_ops;
  domain_.hold();
}

PollSet::~PollSet() {
  for (Waitable* member : members_) member->holdable().drop();
  domain_.drop();
}

int PollSet::poll(void** contexts, int count) {
  const std::lock_guard own(mutex_);
  const std::lock_guard guard(domain_.engine());
  domain_.engine().progress_locked();
  int found = 0;
  for (Waitable* member : members_) {
    if (!member->ready_locked()) continue;
    if (found == count) break;
    contexts[found++] = member->context();
  }
  return found;
}

int PollSet::add(struct fid* fid) {
  Waitable* waitable = waitable_of(fid);
  if (waitable == nullptr) return -FI_EINVAL;
  const std::lock_guard own(mutex_);
  if (std::find(members_.begin(), members_.end(), waitable) != members_.end()) return 0;
  members_.push_back(waitable);
  waitable->holdable().hold();
  return 0;
}

int PollSet::remove(struct fid* fid) {
  Waitable* waitable = waitable_of(fid);
  const std::lock_guard own(mutex_);
  if (waitable == nullptr || std::erase(members_, waitable) == 0) return -FI_EINVAL;
  waitable->holdable().drop();
  return 0;
}

int open_poll_set(fid_domain* domain, fi_poll_attr* attr, fid_poll** poll_set) {
  if (attr != nullptr && attr->flags != 0) return -FI_EINVAL;
  return guarded([&] {
    *poll_set = (new PollSet(self_of<DomainObject>(domain)))->fid();
    return 0;
  });
}

}  // namespace mrc::prov
