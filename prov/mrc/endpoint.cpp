// SPDX-License-Identifier: BSD-2-Clause
// The endpoint object: opening, completions, addresses, and the data path's common steps.
#include "endpoint.hpp"

#include <rdma/fi_atomic.h>
#include <rdma/fi_collective.h>

#include <cstring>

#include "log.hpp"

namespace mrc::prov {

int open_endpoint(Domain& domain, struct fid_domain* domain_fid, struct fi_info* info, struct fid_ep** ep,
                  void* context) {
  if (info->tx_attr->inject_size > 65536 || info->tx_attr->size > 65536 || info->rx_attr->size > (1u << 20)) {
    MRC_WARN(EP_CTRL,
             "endpoint sizes out of range: tx_attr->size and inject_size at most 65536, rx_attr->size 1048576");
    return -FI_EINVAL;
  }
  *ep = (new Endpoint(domain, domain_fid, *info, context))->fid();
  return 0;
}

Endpoint::Endpoint(Domain& domain, fid_domain*, const fi_info& info, void* context)
    : domain_(domain), engine_(domain.engine()), tx_flags_(info.tx_attr->op_flags), rx_flags_(info.rx_attr->op_flags) {
  handle_.self = this;
  fid_ep& ep = handle_.fid;
  ep.fid.fclass = FI_CLASS_EP;
  ep.fid.context = context;
  ep.fid.ops = &endpoint_fid_ops;
  ep.ops = &endpoint_ep_ops;
  ep.cm = &endpoint_cm_ops;
  ep.msg = &endpoint_msg_ops;
  ep.rma = &endpoint_rma_ops;
  ep.tagged = &endpoint_tagged_ops;
  ep.atomic = &endpoint_atomic_ops;
  ep.collective = &endpoint_collective_ops;
  info_.caps = info.caps;
  const fi_info& defaults = domain.info();
  const auto or_default = [](std::size_t wanted, std::size_t other) { return wanted != 0 ? wanted : other; };
  info_.tx_size = or_default(info.tx_attr->size, defaults.tx_attr->size);
  info_.rx_size = or_default(info.rx_attr->size, defaults.rx_attr->size);
  info_.inject_size = info.tx_attr->inject_size;
  info_.ipv6 = info.addr_format == FI_SOCKADDR_IN6;
  if (info.src_addr != nullptr) {
    const auto* from = static_cast<const std::byte*>(info.src_addr);
    info_.source.assign(from, from + info.src_addrlen);
  }
  domain_.hold();
}

Endpoint::~Endpoint() = default;

void Endpoint::on_av_remove(fi_addr_t address) {
  if (address < cache_.size()) cache_[address] = {};
}

msg::Peer* Endpoint::peer(fi_addr_t address, int* error) {
  if (address < cache_.size()) {
    const Cached& cached = cache_[address];
    // A connection that was forgotten may have come back as another peer's.
    if (cached.peer != nullptr && cached.peer->name == cached.name) return cached.peer;
  }
  const auto name = av_->name(address);
  if (!name) {
    *error = -FI_EINVAL;
    return nullptr;
  }
  msg::Peer* found = messenger_->peer(*name);
  if (found == nullptr) {
    MRC_WARN(EP_DATA, "no room for another connection: raise FI_MRC_CONNECTIONS");
    *error = -FI_ENOMEM;
    return nullptr;
  }
  if (address >= cache_.size()) cache_.resize(address + 1);
  cache_[address] = {found, *name};
  return found;
}

bool Endpoint::source(fi_addr_t address, EndpointName* name, const EndpointName** out) const {
  *out = nullptr;
  if (address == FI_ADDR_UNSPEC || (info_.caps & FI_DIRECTED_RECV) == 0) return true;
  const auto found = av_->name(address);
  if (!found) return false;
  *name = *found;
  *out = name;
  return true;
}

ssize_t Endpoint::transmit(msg::Transmit& t, fi_addr_t address) {
  if (!enabled()) return -FI_EOPBADSTATE;
  int error = 0;
  t.peer = peer(address, &error);
  if (t.peer == nullptr) return error;
  // The queue has room for every outstanding operation beyond its size; unread completions must not add up besides.
  const bool full = t.signal && tx_cq_ != nullptr && !tx_cq_->room();
  const int status = full ? -FI_EAGAIN : messenger_->transmit(t);
  if (status == -FI_EAGAIN) engine_.progress_locked();
  return status;
}

ssize_t Endpoint::receive(const msg::Receive& r) {
  const int status = room() ? messenger_->receive(r) : -FI_EAGAIN;
  if (status == -FI_EAGAIN) engine_.progress_locked();
  return status;
}

/// Says in words why operations to a peer fail, once for each life of the connection.
void Endpoint::report(const msg::Done& done) {
  if (done.error == FI_ETRUNC || done.error == FI_ECANCELED || done.error == FI_ENOMSG || done.peer == nullptr) return;
  if (reported_ == done.peer && reported_epoch_ == done.peer->epoch) return;
  reported_ = done.peer;
  reported_epoch_ = done.peer->epoch;
  const auto ip = done.peer->name.ipv4;
  MRC_WARN(EP_DATA, "operations with %u.%u.%u.%u:%u fail: %s (%.*s)", ip >> 24, ip >> 16 & 255, ip >> 8 & 255, ip & 255,
           done.peer->name.port, fi_strerror(done.error), static_cast<int>(done.why.size()), done.why.data());
}

void Endpoint::done(const msg::Done& done) {
  if (closing_) return;
  const bool transmits =
      done.kind == msg::OpKind::kSend || done.kind == msg::OpKind::kWrite || done.kind == msg::OpKind::kRead;
  Cq* cq = transmits ? tx_cq_ : rx_cq_;
  Counter* counter = nullptr;
  if (done.counts) switch (done.kind) {
      case msg::OpKind::kSend:
        counter = counters_[kSendCounter];
        break;
      case msg::OpKind::kRecv:
        counter = counters_[kRecvCounter];
        break;
      case msg::OpKind::kWrite:
        counter = counters_[kWriteCounter];
        break;
      case msg::OpKind::kRead:
        counter = counters_[kReadCounter];
        break;
      case msg::OpKind::kRemoteWrite:
        counter = counters_[kRemoteWriteCounter];
        break;
      case msg::OpKind::kRemoteRead:
        counter = counters_[kRemoteReadCounter];
        break;
    }
  if (done.error != 0) {
    report(done);
    if (counter != nullptr) counter->add_error(1);
    // Nobody could tell what an error without a context belongs to.
    if (cq == nullptr || (done.inject && !done.signal)) return;
    ErrorCompletion error;
    error.base = done.completion;
    error.overflow_len = done.overflow;
    error.err = error.prov_errno = done.error;
    cq->push_error(error);
    return;
  }
  if (counter != nullptr) counter->add(1);
  if (cq == nullptr || !done.signal) return;
  if (!transmits && (info_.caps & FI_SOURCE) != 0 && done.peer != nullptr) {
    Completion completion = done.completion;
    completion.source = av_->find(done.from);
    cq->push(completion);
    return;
  }
  cq->push(done.completion);
}

}  // namespace mrc::prov
