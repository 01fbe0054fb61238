// SPDX-License-Identifier: BSD-2-Clause
// An endpoint's life: bind, enable, close; names and flags.
#include "endpoint.hpp"
#include "log.hpp"

namespace mrc::prov {

int Endpoint::bind_cq(Cq* cq, std::uint64_t flags) {
  if ((flags & ~(FI_TRANSMIT | FI_RECV | FI_SELECTIVE_COMPLETION)) != 0 || (flags & (FI_TRANSMIT | FI_RECV)) == 0) {
    MRC_WARN(EP_CTRL,
             "fi_ep_bind of a CQ needs FI_TRANSMIT, FI_RECV or both, and knows FI_SELECTIVE_COMPLETION besides");
    return -FI_EBADFLAGS;
  }
  const bool tx = (flags & FI_TRANSMIT) != 0, rx = (flags & FI_RECV) != 0;
  if ((tx && tx_ == nullptr) || (rx && rx_ == nullptr)) {
    MRC_WARN(EP_CTRL, "fi_ep_bind of a CQ: a transmit context takes FI_TRANSMIT only, a receive context FI_RECV");
    return -FI_EINVAL;
  }
  if ((tx && tx_->cq != nullptr) || (rx && rx_->cq != nullptr)) return -FI_EINVAL;
  if (tx) tx_->bind(cq, flags);
  if (rx) rx_->bind(cq, flags);
  return 0;
}

int Endpoint::bind_counter(Counter* counter, std::uint64_t flags) {
  struct Slot {
    std::uint64_t flag;
    Counter** place;
  };
  const Slot slots[] = {{FI_SEND, tx_ != nullptr ? &tx_->counters[kSendCounter] : nullptr},
                        {FI_WRITE, tx_ != nullptr ? &tx_->counters[kWriteCounter] : nullptr},
                        {FI_READ, tx_ != nullptr ? &tx_->counters[kReadCounter] : nullptr},
                        {FI_RECV, rx_ != nullptr ? &rx_->counters[kRecvCounter] : nullptr},
                        {FI_REMOTE_WRITE, rx_ != nullptr ? &rx_->counters[kRemoteWriteCounter] : nullptr},
                        {FI_REMOTE_READ, rx_ != nullptr ? &rx_->counters[kRemoteReadCounter] : nullptr}};
  std::uint64_t known = 0;
  for (const Slot& slot : slots) {
    known |= slot.flag;
    if ((flags & slot.flag) != 0 && (slot.place == nullptr || *slot.place != nullptr)) return -FI_EINVAL;
  }
  if (flags == 0 || (flags & ~known) != 0) return -FI_EBADFLAGS;
  for (const Slot& slot : slots)
    if ((flags & slot.flag) != 0) {
      *slot.place = counter;
      counter->hold();
    }
  return 0;
}

int Endpoint::bind(struct fid* other, std::uint64_t flags) {
  if (other == nullptr) return -FI_EINVAL;
  const Lock lock(engine());
  const bool enabled = (tx_ != nullptr && tx_->enabled) || (rx_ != nullptr && rx_->enabled);
  if (enabled) return -FI_EOPBADSTATE;
  const bool has_address = kind_ == Kind::kWhole || kind_ == Kind::kScalable;
  const bool has_sides = kind_ == Kind::kWhole || kind_ == Kind::kTransmit || kind_ == Kind::kReceive;
  switch (other->fclass) {
    case FI_CLASS_CQ:
      return has_sides ? bind_cq(cq_of(other), flags) : -FI_EINVAL;
    case FI_CLASS_CNTR:
      return has_sides ? bind_counter(counter_of(other), flags) : -FI_EINVAL;
    case FI_CLASS_AV:
      if (!has_address) return -FI_EINVAL;
      return core_->is_open() ? -FI_EOPBADSTATE : core_->bind_av(av_of(other));
    case FI_CLASS_EQ:
      return has_address ? core_->bind_eq(eq_of(other)) : -FI_EINVAL;
    case FI_CLASS_STX_CTX:
    case FI_CLASS_SRX_CTX:
      return bind_shared(other);
    default:
      return -FI_EINVAL;
  }
}

/// Is everything bound that operations need?
int Endpoint::check_bound() const {
  if (kind_ != Kind::kWhole) return 0;
  if ((wants_shared_tx_ && shared_tx_ == nullptr) || (wants_shared_rx_ && shared_rx_ == nullptr)) {
    MRC_WARN(EP_CTRL, "fi_enable: the endpoint was opened with FI_SHARED_CONTEXT, bind the shared context first");
    return -FI_EINVAL;
  }
  // One direction may go without, and its calls say -FI_ENOCQ: fi_rdm_multi_domain writes and is written to, no more.
  tx_->mute = tx_->cq == nullptr && !tx_->has_counter();
  rx_->mute = rx_->cq == nullptr && rx_->counters[kRecvCounter] == nullptr;
  if (!rx_->mute || (!tx_->mute && shared_rx_ == nullptr)) return 0;
  MRC_WARN(EP_CTRL, "fi_enable: bind a completion queue or a counter first");
  return -FI_ENOCQ;
}

int Endpoint::enable() {
  if (kind_ == Kind::kAlias || kind_ == Kind::kSharedReceive) return -FI_EINVAL;
  const Lock lock(engine());
  if ((tx_ != nullptr && tx_->enabled) || (rx_ != nullptr && rx_->enabled)) return -FI_EOPBADSTATE;
  if (kind_ == Kind::kScalable && core_->is_open()) return 0;  // a context was first
  const bool needs_av = kind_ == Kind::kWhole || kind_ == Kind::kScalable;
  if (needs_av && !core_->has_av()) {
    MRC_WARN(EP_CTRL, "fi_enable: bind an address vector first");
    return -FI_ENOAV;
  }
  if (const int error = check_bound()) return error;
  // A context that is enabled before its scalable endpoint has an address vector waits for it.
  if (!core_->is_open() && core_->has_av())
    if (const int error = core_->open()) return error;
  if (tx_ != nullptr) tx_->enabled = true;
  if (rx_ != nullptr) rx_->enabled = true;
  return 0;
}

int Endpoint::close() {
  {
    const Lock lock(engine());
    if (children_ != 0) {
      MRC_INFO(EP_CTRL, "fi_close of an endpoint with open contexts or aliases");
      return -FI_EBUSY;
    }
  }
  switch (kind_) {
    case Kind::kWhole:
    case Kind::kScalable:
      core_->close();
      break;
    case Kind::kTransmit:
      core_->drain(tx_);
      break;
    default:
      break;
  }
  if (shared_tx_ != nullptr) shared_tx_->drop();
  if (kind_ == Kind::kSharedReceive) {
    {
      const Lock lock(engine());
      domain_.work().forget(rx_);
    }
    domain_.drop();
  }
  if (shared_rx_ != nullptr) {
    const Lock lock(engine());
    --shared_rx_->children_;
  }
  if (parent_ != nullptr) {
    const Lock lock(engine());
    if (kind_ == Kind::kTransmit) core_->close_tx(tx_);
    if (kind_ == Kind::kReceive) core_->close_rx(rx_);
    --parent_->children_;
  }
  delete this;
  return 0;
}

int Endpoint::get_name(void* address, std::size_t* length) const {
  const Lock lock(engine());
  return core_ != nullptr ? core_->get_name(address, length) : -FI_EOPNOTSUPP;
}

int Endpoint::set_name(const void* address, std::size_t length) {
  const Lock lock(engine());
  return core_ != nullptr ? core_->set_name(address, length) : -FI_EOPNOTSUPP;
}

int Endpoint::op_flags(bool set, std::uint64_t* flags) {
  const Lock lock(engine());
  const bool tx = (*flags & FI_TRANSMIT) != 0, rx = (*flags & FI_RECV) != 0;
  if (tx == rx) return -FI_EINVAL;
  std::uint64_t& own = tx ? tx_flags_ : rx_flags_;
  if (set)
    own = *flags & ~(FI_TRANSMIT | FI_RECV);
  else
    *flags = own;
  return 0;
}

int Endpoint::set_min_multi_recv(std::size_t bytes) {
  const Lock lock(engine());
  if (rx_ == nullptr) return -FI_ENOPROTOOPT;
  rx_->min_multi_recv = bytes;
  if (rx_->table != nullptr) rx_->table->set_min_multi_recv(bytes);
  return 0;
}

}  // namespace mrc::prov
