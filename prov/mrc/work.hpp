// SPDX-License-Identifier: BSD-2-Clause
// Work that waits for a counter (fi_trigger(3)): triggered operations and the domain's deferred work queue. Counters
// move what has come due to one list; it is run with the next progress, in the order of thresholds, then of submission.
// Threads: the engine's lock, except where it says otherwise. Memory: one allocation for each waiting operation.
#pragma once

#include <rdma/fabric.h>
#include <rdma/fi_trigger.h>

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "objects.hpp"

namespace mrc::prov {

class CntrObject;
class DomainObject;

/// What an operation waits for, and who is told of its end.
struct Deferral {
  CntrObject* counter = nullptr;
  std::uint64_t threshold = 0;
  /// FI_QUEUE_WORK: errors count towards the threshold too; the end is told to `completion` only (and to the completion
  /// queue with FI_COMPLETION). Else FI_TRIGGER: successes count, the end is told as always.
  bool work = false;
  Counter* completion = nullptr;
  const void* id = nullptr;  ///< fi_deferred_work, or the operation's context

  /// Of an operation with FI_TRIGGER and this context; 0 or a negative FI_E…. Takes no lock.
  static int of(void* context, Deferral* out);
};

/// One thing to be done later.
class Work {
 public:
  Work(const Deferral& deferral, const void* owner, const void* side)
      : deferral_(deferral), owner_(owner), side_(side) {}
  virtual ~Work() = default;
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;
  /// False: there is no room at the moment, try again later. Failures tell the application themselves.
  virtual bool run() = 0;
  /// fi_cancel() of it.
  virtual void cancelled() {}
  const Deferral& deferral() const { return deferral_; }
  bool belongs_to(const void* who) const { return who == owner_ || who == side_; }
  const void* side() const { return side_; }

 private:
  Deferral deferral_;
  const void* owner_;  ///< endpoint core; null for work on counters
  const void* side_;   ///< transmit or receive side: what has no room now has none for later ones of the same side
};

/// By threshold, equal ones in the order of submission: FI_TRIGGER's (of successes), FI_QUEUE_WORK's (of all).
struct WaitingWork {
  std::multimap<std::uint64_t, std::unique_ptr<Work>> of[2];
  bool empty() const { return of[0].empty() && of[1].empty(); }
};

class WorkQueue {
 public:
  /// Keeps it until its time has come; runs it if that is now.
  void add(std::unique_ptr<Work> work);
  /// A counter with work waiting has changed.
  void changed(CntrObject& counter);
  /// Does what has come due. True if anything was done.
  bool run();
  bool idle() const { return due_.empty(); }
  /// Something has come due since the last run().
  bool fresh() const { return fresh_; }

  /// Takes away what waits: work with that id (fi_deferred_work, or a context together with its owner).
  bool cancel(const void* id, const void* owner);
  void flush(const CntrObject* counter);
  /// The endpoint or side is going away, with all that waits for it and what it still owes.
  void forget(const void* who);

  /// A counter that an operation under way will be told to: it may not be closed meanwhile.
  void lend(Counter* counter, const void* owner);
  void give_back(Counter* counter);

 private:
  template <class Match>
  std::list<std::unique_ptr<Work>> take(Match&& match);

  std::vector<CntrObject*> watched_;
  std::list<std::unique_ptr<Work>> due_;
  std::vector<std::pair<Counter*, const void*>> lent_;
  std::vector<const void*> stuck_;
  bool running_ = false, fresh_ = false;
};

/// fi_control of a domain: FI_QUEUE_WORK, FI_CANCEL_WORK, FI_FLUSH_WORK. Takes the lock.
int control_work(DomainObject& domain, int command, void* arg);

}  // namespace mrc::prov
