// SPDX-License-Identifier: BSD-2-Clause
// The endpoint object: opening whole and scalable ones, and receives.
#include "endpoint.hpp"

#include "info.hpp"
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

int open_scalable_endpoint(Domain& domain, struct fi_info* info, struct fid_ep** sep, void* context) {
  if (const int error = check_sizes(*info)) return error;
  if (info->ep_attr->tx_ctx_cnt > kMaxContexts || info->ep_attr->rx_ctx_cnt > kMaxContexts) {
    MRC_WARN(EP_CTRL, "fi_scalable_ep: ep_attr->tx_ctx_cnt and rx_ctx_cnt are at most %zu, and not shared",
             kMaxContexts);
    return -FI_EINVAL;
  }
  *sep = (new Endpoint(Endpoint::Kind::kScalable, domain, *info, context))->fid();
  return 0;
}

Endpoint::Endpoint(Kind kind, Domain& domain, const fi_info& info, void* context)
    : kind_(kind),
      domain_(domain),
      engine_(domain.engine()),
      tx_flags_(info.tx_attr->op_flags),
      rx_flags_(info.rx_attr->op_flags) {
  const bool whole = kind == Kind::kWhole;
  const auto contexts = [whole](std::size_t asked) { return whole || asked == 0 ? 1 : asked; };
  own_core_ = std::make_unique<EndpointCore>(domain, info, contexts(info.ep_attr->tx_ctx_cnt),
                                             contexts(info.ep_attr->rx_ctx_cnt));
  core_ = own_core_.get();
  if (whole) {
    tx_ = core_->open_tx(0);
    rx_ = core_->open_rx(0);
    wants_shared_tx_ = info.ep_attr->tx_ctx_cnt == FI_SHARED_CONTEXT;
    wants_shared_rx_ = info.ep_attr->rx_ctx_cnt == FI_SHARED_CONTEXT;
  }
  fill(whole ? FI_CLASS_EP : FI_CLASS_SEP, context);
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

bool Endpoint::source(bool tagged, fi_addr_t address, EndpointName* name, const EndpointName** out) const {
  *out = nullptr;
  if (core_ != nullptr) return core_->source(tagged, address, name, out);
  if (!rx_->users.empty()) return rx_->users.front()->source(tagged, address, name, out);
  return address == FI_ADDR_UNSPEC;
}

ssize_t Endpoint::receive(const msg::Receive& r) {
  const int status = room() ? table().receive(r) : -FI_EAGAIN;
  if (status == -FI_EAGAIN) engine().progress_locked();
  return status;
}

}  // namespace mrc::prov
