// SPDX-License-Identifier: BSD-2-Clause
// The endpoint object: opening it as a whole, its tables of calls, and receives.
#include "endpoint.hpp"

#include "log.hpp"

namespace mrc::prov {
namespace {

int check_sizes(const fi_info& info) {
  if (info.tx_attr->inject_size <= 65536 && info.tx_attr->size <= 65536 && info.rx_attr->size <= (1u << 20)) return 0;
  MRC_WARN(EP_CTRL, "endpoint sizes out of range: tx_attr->size and inject_size at most 65536, rx_attr->size 1048576");
  return -FI_EINVAL;
}

}  // namespace

int open_endpoint(Domain& domain, struct fid_domain*, struct fi_info* info, struct fid_ep** ep, void* context) {
  if (const int error = check_sizes(*info)) return error;
  *ep = (new Endpoint(Endpoint::Kind::kWhole, domain, *info, context))->fid();
  return 0;
}

Endpoint::Endpoint(Kind kind, Domain& domain, const fi_info& info, void* context)
    : kind_(kind), tx_flags_(info.tx_attr->op_flags), rx_flags_(info.rx_attr->op_flags) {
  own_core_ = std::make_unique<EndpointCore>(domain, info, 1, 1);
  core_ = own_core_.get();
  tx_ = core_->open_tx(0);
  rx_ = core_->open_rx(0);
  fill(FI_CLASS_EP, context);
}

void Endpoint::fill(std::size_t fid_class, void* context) {
  handle_.self = this;
  fid_ep& ep = handle_.fid;
  ep.fid.fclass = fid_class;
  ep.fid.context = context;
  ep.fid.ops = &endpoint_fid_ops;
  ep.ops = &endpoint_ep_ops;
  ep.cm = &endpoint_cm_ops;
  ep.msg = &endpoint_msg_ops;
  ep.rma = &endpoint_rma_ops;
  ep.tagged = &endpoint_tagged_ops;
  ep.atomic = &endpoint_atomic_ops;
  ep.collective = &endpoint_collective_ops;
}

ssize_t Endpoint::receive(const msg::Receive& r) {
  const int status = room() ? messenger().receive(r) : -FI_EAGAIN;
  if (status == -FI_EAGAIN) engine().progress_locked();
  return status;
}

}  // namespace mrc::prov
