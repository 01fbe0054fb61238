// SPDX-License-Identifier: BSD-2-Clause
// What libfabric calls of the deferred work queue. A transfer goes through the endpoint's own call with FI_TRIGGER,
// which finds out from Deferral::of() that it is deferred work.
#include <rdma/fi_atomic.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include <mutex>

#include "cntr.hpp"
#include "domain.hpp"
#include "log.hpp"
#include "work.hpp"

namespace mrc::prov {
namespace {

/// The work that this thread is posting.
thread_local const Deferral* posting = nullptr;

CntrObject* cntr_object(fid_cntr* cntr) {
  return cntr != nullptr && cntr->fid.fclass == FI_CLASS_CNTR ? &self_of<CntrObject>(cntr) : nullptr;
}

class CounterWork final : public Work {
 public:
  CounterWork(const Deferral& deferral, CntrObject& target, bool add, std::uint64_t value)
      : Work(deferral, nullptr, nullptr), target_(target), add_(add), value_(value) {
    static_cast<Counter&>(target_).hold();
  }
  ~CounterWork() override { static_cast<Counter&>(target_).drop(); }
  bool run() override {
    add_ ? target_.add(value_) : target_.set(value_);
    return true;
  }

 private:
  CntrObject& target_;
  bool add_;
  std::uint64_t value_;
};

template <class Op>
bool has_endpoint(const Op* op) {
  return op != nullptr && op->ep != nullptr;
}

ssize_t post_atomic(const fi_deferred_work& w) {
  switch (w.op_type) {
    case FI_OP_ATOMIC: {
      const fi_op_atomic* op = w.op.atomic;
      if (!has_endpoint(op)) return -FI_EINVAL;
      return op->ep->atomic->writemsg(op->ep, &op->msg, op->flags | FI_TRIGGER);
    }
    case FI_OP_FETCH_ATOMIC: {
      const fi_op_fetch_atomic* op = w.op.fetch_atomic;
      if (!has_endpoint(op)) return -FI_EINVAL;
      return op->ep->atomic->readwritemsg(op->ep, &op->msg, op->fetch.msg_iov, op->fetch.desc, op->fetch.iov_count,
                                          op->flags | FI_TRIGGER);
    }
    default: {
      const fi_op_compare_atomic* op = w.op.compare_atomic;
      if (!has_endpoint(op)) return -FI_EINVAL;
      return op->ep->atomic->compwritemsg(op->ep, &op->msg, op->compare.msg_iov, op->compare.desc,
                                          op->compare.iov_count, op->fetch.msg_iov, op->fetch.desc, op->fetch.iov_count,
                                          op->flags | FI_TRIGGER);
    }
  }
}

ssize_t post_transfer(const fi_deferred_work& w) {
  switch (w.op_type) {
    case FI_OP_SEND:
    case FI_OP_RECV: {
      const fi_op_msg* op = w.op.msg;
      if (!has_endpoint(op)) return -FI_EINVAL;
      const auto call = w.op_type == FI_OP_SEND ? op->ep->msg->sendmsg : op->ep->msg->recvmsg;
      return call(op->ep, &op->msg, op->flags | FI_TRIGGER);
    }
    case FI_OP_TSEND:
    case FI_OP_TRECV: {
      const fi_op_tagged* op = w.op.tagged;
      if (!has_endpoint(op)) return -FI_EINVAL;
      const auto call = w.op_type == FI_OP_TSEND ? op->ep->tagged->sendmsg : op->ep->tagged->recvmsg;
      return call(op->ep, &op->msg, op->flags | FI_TRIGGER);
    }
    case FI_OP_READ:
    case FI_OP_WRITE: {
      const fi_op_rma* op = w.op.rma;
      if (!has_endpoint(op)) return -FI_EINVAL;
      const auto call = w.op_type == FI_OP_READ ? op->ep->rma->readmsg : op->ep->rma->writemsg;
      return call(op->ep, &op->msg, op->flags | FI_TRIGGER);
    }
    case FI_OP_ATOMIC:
    case FI_OP_FETCH_ATOMIC:
    case FI_OP_COMPARE_ATOMIC:
      return post_atomic(w);
    default:
      MRC_INFO(DOMAIN, "FI_QUEUE_WORK of an unknown operation %d", static_cast<int>(w.op_type));
      return -FI_ENOSYS;
  }
}

int queue_work(DomainObject& domain, fi_deferred_work* w) {
  Deferral d;
  d.counter = cntr_object(w->triggering_cntr);
  d.threshold = w->threshold;
  d.work = true;
  d.id = w;
  if (d.counter == nullptr || d.counter->domain() != &domain) {
    MRC_INFO(DOMAIN, "FI_QUEUE_WORK needs a triggering counter of the same domain");
    return -FI_EINVAL;
  }
  const bool counts = w->op_type == FI_OP_CNTR_SET || w->op_type == FI_OP_CNTR_ADD;
  if (w->completion_cntr != nullptr) {
    d.completion = cntr_object(w->completion_cntr);
    if (d.completion == nullptr || counts) {
      MRC_INFO(DOMAIN, "FI_QUEUE_WORK: completion_cntr is no counter, or the operation is one on a counter");
      return -FI_EINVAL;
    }
  }
  if (counts) {
    CntrObject* target = w->op.cntr != nullptr ? cntr_object(w->op.cntr->cntr) : nullptr;
    if (target == nullptr || target->domain() != &domain) return -FI_EINVAL;
    const std::lock_guard guard(domain.engine());
    domain.work().add(std::make_unique<CounterWork>(d, *target, w->op_type == FI_OP_CNTR_ADD, w->op.cntr->value));
    return 0;
  }
  posting = &d;
  const ssize_t status = post_transfer(*w);
  posting = nullptr;
  return static_cast<int>(status);
}

}  // namespace

int Deferral::of(void* context, Deferral* out) {
  if (posting != nullptr) {
    *out = *posting;
    return 0;
  }
  const auto* triggered = static_cast<const fi_triggered_context*>(context);
  if (triggered == nullptr) return -FI_EINVAL;
  if (triggered->event_type != FI_TRIGGER_THRESHOLD) {
    MRC_INFO(EP_DATA, "FI_TRIGGER: mrc knows FI_TRIGGER_THRESHOLD, not event type %d",
             static_cast<int>(triggered->event_type));
    return -FI_ENOSYS;
  }
  *out = {};
  out->counter = cntr_object(triggered->trigger.threshold.cntr);
  if (out->counter == nullptr) {
    MRC_INFO(EP_DATA, "FI_TRIGGER: the triggered context names no counter");
    return -FI_EINVAL;
  }
  out->threshold = triggered->trigger.threshold.threshold;
  out->id = context;
  return 0;
}

int control_work(DomainObject& domain, int command, void* arg) {
  if (command != FI_FLUSH_WORK && arg == nullptr) return -FI_EINVAL;
  return guarded([&]() -> int {
    if (command == FI_QUEUE_WORK) return queue_work(domain, static_cast<fi_deferred_work*>(arg));
    const CntrObject* counter = nullptr;
    if (command == FI_FLUSH_WORK && arg != nullptr && (counter = cntr_object(static_cast<fid_cntr*>(arg))) == nullptr)
      return -FI_EINVAL;
    const std::lock_guard guard(domain.engine());
    if (command == FI_CANCEL_WORK) return domain.work().cancel(arg, nullptr) ? 0 : -FI_ENOENT;
    domain.work().flush(counter);
    return 0;
  });
}

}  // namespace mrc::prov
