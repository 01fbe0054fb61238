// SPDX-License-Identifier: BSD-2-Clause
// Endpoints behind endpoints: aliases, and the transmit and receive contexts of scalable endpoints.
#include "endpoint.hpp"
#include "log.hpp"

namespace mrc::prov {

Endpoint::Endpoint(Kind kind, Endpoint& parent, TxSide* tx, RxSide* rx, void* context)
    : kind_(kind),
      domain_(parent.domain_),
      engine_(parent.engine_),
      parent_(&parent),
      core_(parent.core_),
      tx_(tx),
      rx_(rx),
      tx_flags_(parent.tx_flags_),
      rx_flags_(parent.rx_flags_) {
  std::size_t fid_class = parent.handle_.fid.fid.fclass;
  if (kind == Kind::kTransmit) fid_class = FI_CLASS_TX_CTX;
  if (kind == Kind::kReceive) fid_class = FI_CLASS_RX_CTX;
  fill(fid_class, context);
  ++parent.children_;
}

int Endpoint::alias(struct fi_alias* out) {
  const bool tx = (out->flags & FI_TRANSMIT) != 0, rx = (out->flags & FI_RECV) != 0;
  const std::uint64_t flags = out->flags & ~(FI_TRANSMIT | FI_RECV);
  if (out->fid == nullptr || (tx && rx) || kind_ == Kind::kScalable) return -FI_EINVAL;
  if (!tx && !rx && flags != 0) {
    MRC_WARN(EP_CTRL, "fi_ep_alias needs FI_TRANSMIT or FI_RECV to say which operations the flags are for");
    return -FI_EINVAL;
  }
  const Lock lock(engine());
  Endpoint& base = kind_ == Kind::kAlias ? *parent_ : *this;
  auto* other = new Endpoint(Kind::kAlias, base, tx_, rx_, handle_.fid.fid.context);
  other->tx_flags_ = tx ? flags : tx_flags_;
  other->rx_flags_ = rx ? flags : rx_flags_;
  *out->fid = &other->fid()->fid;
  return 0;
}

int Endpoint::open_tx_context(int index, fi_tx_attr* attr, fid_ep** out, void* context) {
  if (kind_ != Kind::kScalable || index < 0 || static_cast<std::size_t>(index) >= core_->tx_contexts())
    return -FI_EINVAL;
  const Lock lock(engine());
  TxSide* side = core_->open_tx(static_cast<std::size_t>(index));
  if (side == nullptr) {
    MRC_WARN(EP_CTRL, "fi_tx_context: context %d is open already", index);
    return -FI_EBUSY;
  }
  if (attr != nullptr && (attr->size > side->size || attr->inject_size > side->inject_size)) {
    MRC_WARN(EP_CTRL, "fi_tx_context: size and inject_size are at most the endpoint's %zu and %zu", side->size,
             side->inject_size);
    core_->close_tx(side);
    return -FI_EINVAL;
  }
  auto* made = new Endpoint(Kind::kTransmit, *this, side, nullptr, context);
  if (attr != nullptr) {
    if (attr->size != 0) side->size = attr->size;
    if (attr->msg_order != 0) side->order = msg::Order(attr->msg_order);
    made->tx_flags_ = attr->op_flags;
    attr->size = side->size;
    attr->inject_size = side->inject_size;
  }
  *out = made->fid();
  return 0;
}

int Endpoint::open_rx_context(int index, fi_rx_attr* attr, fid_ep** out, void* context) {
  if (kind_ != Kind::kScalable || index < 0 || static_cast<std::size_t>(index) >= core_->rx_contexts())
    return -FI_EINVAL;
  const Lock lock(engine());
  RxSide* side = core_->open_rx(static_cast<std::size_t>(index));
  if (side == nullptr) {
    MRC_WARN(EP_CTRL, "fi_rx_context: context %d is open already", index);
    return -FI_EBUSY;
  }
  if (attr != nullptr && attr->size > side->size) {
    MRC_WARN(EP_CTRL, "fi_rx_context: size is at most the endpoint's %zu", side->size);
    core_->close_rx(side);
    return -FI_EINVAL;
  }
  auto* made = new Endpoint(Kind::kReceive, *this, nullptr, side, context);
  if (attr != nullptr) {
    made->rx_flags_ = attr->op_flags;
    attr->size = side->size;
  }
  *out = made->fid();
  return 0;
}

}  // namespace mrc::prov
