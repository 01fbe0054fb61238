// SPDX-License-Identifier: BSD-2-Clause
// Wait sets: one descriptor and one fi_wait for several queues and counters; and fi_trywait over any of them.
#pragma once

#include <rdma/fi_eq.h>

#include <memory>
#include <mutex>
#include <vector>

#include "object.hpp"
#include "objects.hpp"
#include "wait.hpp"
#include "wait_cond.hpp"

namespace mrc::prov {

class FabricObject;

class WaitSet final : public Holdable {
 public:
  WaitSet(FabricObject& fabric, fi_wait_obj object, int poller);
  ~WaitSet();

  /// A queue that was opened with FI_WAIT_SET joins, and leaves when it is closed.
  int add(Waitable& member);
  void remove(Waitable& member);
  /// fi_trywait: the application itself goes to sleep on the set's wait object.
  int try_wait_asleep();
  int wait(int timeout);
  int control(int command, void* out);
  FabricObject& fabric() { return fabric_; }
  fid_wait* fid() { return &handle_.fid; }

 private:
  int try_wait();
  Handle<fid_wait, WaitSet> handle_;
  FabricObject& fabric_;
  fi_wait_obj object_;
  int poller_;
  std::mutex mutex_;
  std::vector<Waitable*> members_;
  std::mutex cond_mutex_;
  std::unique_ptr<CondWaiter> cond_;  ///< FI_WAIT_MUTEX_COND, once it was asked for
};

WaitSet* wait_set_of(fid_wait* fid);
/// 0 if queues and counters can have this wait object; finds the set of FI_WAIT_SET. Else -FI_E… after a log line.
int check_wait(fi_wait_obj object, fid_wait* fid, WaitSet** set);
int open_wait_set(fid_fabric* fabric, fi_wait_attr* attr, fid_wait** wait_set);
int try_wait_all(struct fid** fids, int count);

}  // namespace mrc::prov
