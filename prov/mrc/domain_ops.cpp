// SPDX-License-Identifier: BSD-2-Clause
// What libfabric calls of a domain.
#include <rdma/fi_errno.h>

#include "abi.hpp"
#include "atomic.hpp"
#include "av.hpp"
#include "cntr.hpp"
#include "cq.hpp"
#include "domain.hpp"
#include "fabric.hpp"
#include "log.hpp"
#include "nosys.hpp"
#include "poll_set.hpp"

namespace mrc::prov {

namespace {

int close_domain(struct fid* fid) {
  DomainObject& domain = self_of_fid<DomainObject, fid_domain>(fid);
  if (domain.held()) {
    MRC_INFO(DOMAIN, "fi_close of a domain with open endpoints, queues, counters, vectors or memory regions");
    return -FI_EBUSY;
  }
  delete &domain;
  return 0;
}

int bind_domain(struct fid*, struct fid* other, std::uint64_t flags) {
  // An event queue would hear of asynchronous registrations (FI_REG_MR); mrc has none to report.
  if (other == nullptr || other->fclass != FI_CLASS_EQ) return -FI_EINVAL;
  if ((flags & abi::kRegMr) == 0) return 0;
  MRC_INFO(DOMAIN, "memory registration is synchronous: FI_REG_MR is not supported");
  return -FI_ENOSYS;
}

int control_domain(struct fid* fid, int command, void* arg) {
  switch (command) {
    case FI_QUEUE_WORK:
    case FI_CANCEL_WORK:
    case FI_FLUSH_WORK:
      return control_work(self_of_fid<DomainObject, fid_domain>(fid), command, arg);
    default:
      return -FI_ENOSYS;
  }
}

int endpoint_op(fid_domain* domain, fi_info* info, fid_ep** ep, void* context) {
  if (info == nullptr || info->ep_attr == nullptr || info->tx_attr == nullptr || info->rx_attr == nullptr)
    return -FI_EINVAL;
  if (info->ep_attr->type != FI_EP_RDM && info->ep_attr->type != FI_EP_UNSPEC) {
    MRC_INFO(DOMAIN, "mrc has endpoints of type FI_EP_RDM only");
    return -FI_EINVAL;
  }
  return guarded([&] { return open_endpoint(self_of<DomainObject>(domain), domain, info, ep, context); });
}

int endpoint2_op(fid_domain* domain, fi_info* info, fid_ep** ep, std::uint64_t flags, void* context) {
  return flags == 0 ? endpoint_op(domain, info, ep, context) : -FI_ENOSYS;
}

int scalable_ep_op(fid_domain* domain, fi_info* info, fid_ep** sep, void* context) {
  if (info == nullptr || info->ep_attr == nullptr || info->tx_attr == nullptr || info->rx_attr == nullptr)
    return -FI_EINVAL;
  return guarded([&] { return open_scalable_endpoint(self_of<DomainObject>(domain), info, sep, context); });
}

int stx_ctx_op(fid_domain* domain, fi_tx_attr* attr, fid_stx** stx, void* context) {
  return guarded([&] { return open_shared_tx(self_of<DomainObject>(domain), attr, stx, context); });
}

int srx_ctx_op(fid_domain* domain, fi_rx_attr* attr, fid_ep** srx, void* context) {
  return guarded([&] { return open_shared_rx(self_of<DomainObject>(domain), attr, srx, context); });
}

}  // namespace

fi_ops domain_fid_ops = {.size = sizeof(fi_ops),
                         .close = close_domain,
                         .bind = bind_domain,
                         .control = control_domain,
                         .ops_open = nosys,
                         .tostr = nosys,
                         .ops_set = nosys};

fi_ops_domain domain_ops = {.size = sizeof(fi_ops_domain),
                            .av_open = open_av,
                            .cq_open = open_cq,
                            .endpoint = endpoint_op,
                            .scalable_ep = scalable_ep_op,
                            .cntr_open = open_cntr,
                            .poll_open = open_poll_set,
                            .stx_ctx = stx_ctx_op,
                            .srx_ctx = srx_ctx_op,
                            .query_atomic = query_atomic,
                            .query_collective = nosys,
                            .endpoint2 = endpoint2_op};

}  // namespace mrc::prov
