// SPDX-License-Identifier: BSD-2-Clause
// Shared contexts: transmit contexts, which endpoints are bound to and nothing else, and receive contexts, whose
// receives take messages of every endpoint bound to them.
#include "endpoint.hpp"
#include "log.hpp"
#include "nosys.hpp"

namespace mrc::prov {
namespace {

int close_shared_tx(struct fid* fid) {
  auto& stx = self_of_fid<SharedTx, fid_stx>(fid);
  if (stx.held()) {
    MRC_INFO(EP_CTRL, "fi_close of a shared transmit context that endpoints are still bound to");
    return -FI_EBUSY;
  }
  delete &stx;
  return 0;
}

fi_ops shared_tx_fid_ops = {.size = sizeof(fi_ops),
                            .close = close_shared_tx,
                            .bind = nosys,
                            .control = nosys,
                            .ops_open = nosys,
                            .tostr = nosys,
                            .ops_set = nosys};

fi_ops_ep shared_tx_ops = {.size = sizeof(fi_ops_ep),
                           .cancel = nosys,
                           .getopt = nosys,
                           .setopt = nosys,
                           .tx_ctx = nosys,
                           .rx_ctx = nosys,
                           .rx_size_left = nosys,
                           .tx_size_left = nosys};

}  // namespace

SharedTx::SharedTx(Domain& domain, void* context) : home(domain) {
  handle.self = this;
  handle.fid.fid = {FI_CLASS_STX_CTX, context, &shared_tx_fid_ops};
  handle.fid.ops = &shared_tx_ops;
  home.hold();
}

int open_shared_tx(Domain& domain, struct fi_tx_attr*, struct fid_stx** stx, void* context) {
  *stx = &(new SharedTx(domain, context))->handle.fid;
  return 0;
}

Endpoint::Endpoint(Domain& domain, const fi_rx_attr& attr, void* context)
    : kind_(Kind::kSharedReceive), domain_(domain), engine_(domain.engine()), rx_flags_(attr.op_flags) {
  own_rx_ = std::make_unique<RxSide>();
  rx_ = own_rx_.get();
  rx_->size = attr.size != 0 ? attr.size : domain.info().rx_attr->size;
  rx_->make_table(msg::MatchTable::Report::kArrival, reinterpret_cast<std::uintptr_t>(this) * 0x9E3779B97F4A7C15u);
  rx_->enabled = true;
  fill(FI_CLASS_SRX_CTX, context);
  domain_.hold();
}

int open_shared_rx(Domain& domain, struct fi_rx_attr* attr, struct fid_ep** srx, void* context) {
  const fi_rx_attr none{};
  if (attr != nullptr && attr->size > (1u << 20)) return -FI_EINVAL;
  auto* made = new Endpoint(domain, attr != nullptr ? *attr : none, context);
  if (attr != nullptr) attr->size = made->rx_size();
  *srx = made->fid();
  return 0;
}

/// Binds this endpoint to a shared context.
int Endpoint::bind_shared(struct fid* other) {
  const bool tx = other->fclass == FI_CLASS_STX_CTX;
  if (kind_ != Kind::kWhole || !(tx ? wants_shared_tx_ : wants_shared_rx_)) {
    MRC_WARN(EP_CTRL,
             "fi_ep_bind of a shared context needs an endpoint that was opened with FI_SHARED_CONTEXT in"
             " ep_attr->tx_ctx_cnt or rx_ctx_cnt");
    return -FI_EINVAL;
  }
  if (tx) {
    auto& stx = self_of_fid<SharedTx, fid_stx>(other);
    if (shared_tx_ != nullptr || &stx.home != &domain_) return -FI_EINVAL;
    shared_tx_ = &stx;
    stx.hold();
    return 0;
  }
  auto& srx = self_of_fid<Endpoint, fid_ep>(other);
  if (shared_rx_ != nullptr || &srx.domain_ != &domain_) return -FI_EINVAL;
  shared_rx_ = &srx;
  ++srx.children_;
  core_->share(srx.rx_);
  return 0;
}

}  // namespace mrc::prov
