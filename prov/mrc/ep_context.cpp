// SPDX-License-Identifier: BSD-2-Clause
// Endpoints behind endpoints: aliases, scalable endpoints and their transmit and receive contexts.
#include "endpoint.hpp"
#include "log.hpp"

namespace mrc::prov {

Endpoint::Endpoint(Kind kind, Endpoint& parent, void* context)
    : kind_(kind),
      parent_(&parent),
      core_(parent.core_),
      tx_(parent.tx_),
      rx_(parent.rx_),
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
  if (out->fid == nullptr || (tx && rx)) return -FI_EINVAL;
  const std::uint64_t flags = out->flags & ~(FI_TRANSMIT | FI_RECV);
  if (!tx && !rx && flags != 0) {
    MRC_WARN(EP_CTRL, "fi_ep_alias needs FI_TRANSMIT or FI_RECV to say which operations the flags are for");
    return -FI_EINVAL;
  }
  const Lock lock(engine());
  auto* other = new Endpoint(Kind::kAlias, parent_ != nullptr && kind_ == Kind::kAlias ? *parent_ : *this,
                             handle_.fid.fid.context);
  other->tx_flags_ = tx ? flags : tx_flags_;
  other->rx_flags_ = rx ? flags : rx_flags_;
  *out->fid = &other->fid()->fid;
  return 0;
}

int Endpoint::open_tx_context(int, fi_tx_attr*, fid_ep**, void*) {
  return -FI_ENOSYS;
}

int Endpoint::open_rx_context(int, fi_rx_attr*, fid_ep**, void*) {
  return -FI_ENOSYS;
}

void EndpointCore::close_tx(TxSide* side) {
  side->release();
  auto& slot = tx_[side->index];
  if (side->outstanding != 0) retired_.push_back(std::move(slot));
  slot.reset();
}

void EndpointCore::close_rx(RxSide* side) {
  side->release();
  rx_[side->index].reset();
}

}  // namespace mrc::prov
