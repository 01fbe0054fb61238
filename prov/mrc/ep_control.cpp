// SPDX-License-Identifier: BSD-2-Clause
// An endpoint's life: bind, enable, close; names, options, flags; and the families of calls that mrc does not have.
#include <rdma/fi_atomic.h>
#include <rdma/fi_collective.h>

#include <algorithm>
#include <cstring>

#include "address.hpp"
#include "endpoint.hpp"
#include "log.hpp"
#include "nosys.hpp"
#include "params.hpp"

namespace mrc::prov {

int Endpoint::bind_cq(struct fid* other, std::uint64_t flags) {
  if ((flags & ~(FI_TRANSMIT | FI_RECV | FI_SELECTIVE_COMPLETION)) != 0 || (flags & (FI_TRANSMIT | FI_RECV)) == 0) {
    MRC_WARN(EP_CTRL,
             "fi_ep_bind of a CQ needs FI_TRANSMIT, FI_RECV or both, and knows FI_SELECTIVE_COMPLETION besides");
    return -FI_EBADFLAGS;
  }
  Cq* cq = cq_of(other);
  if (((flags & FI_TRANSMIT) && tx_cq_ != nullptr) || ((flags & FI_RECV) && rx_cq_ != nullptr)) return -FI_EINVAL;
  if (flags & FI_TRANSMIT) {
    tx_cq_ = cq;
    selective_tx_ = (flags & FI_SELECTIVE_COMPLETION) != 0;
    cq->reserve(info_.tx_size);
  }
  if (flags & FI_RECV) {
    rx_cq_ = cq;
    selective_rx_ = (flags & FI_SELECTIVE_COMPLETION) != 0;
    cq->reserve(info_.rx_size);
  }
  return 0;
}

int Endpoint::bind_counter(struct fid* other, std::uint64_t flags) {
  constexpr std::uint64_t kKinds[kCounters] = {FI_SEND, FI_RECV, FI_WRITE, FI_READ, FI_REMOTE_WRITE, FI_REMOTE_READ};
  Counter* counter = counter_of(other);
  std::uint64_t known = 0;
  for (int i = 0; i < kCounters; ++i) {
    known |= kKinds[i];
    if ((flags & kKinds[i]) != 0 && counters_[i] != nullptr) return -FI_EINVAL;
  }
  if (flags == 0 || (flags & ~known) != 0) return -FI_EBADFLAGS;
  for (int i = 0; i < kCounters; ++i)
    if ((flags & kKinds[i]) != 0) {
      counters_[i] = counter;
      counter->hold();
    }
  return 0;
}

int Endpoint::bind(struct fid* other, std::uint64_t flags) {
  if (other == nullptr) return -FI_EINVAL;
  const Lock lock(engine_);
  if (enabled()) return -FI_EOPBADSTATE;
  switch (other->fclass) {
    case FI_CLASS_CQ:
      return bind_cq(other, flags);
    case FI_CLASS_CNTR:
      return bind_counter(other, flags);
    case FI_CLASS_AV:
      if (av_ != nullptr) return -FI_EINVAL;
      av_ = av_of(other);
      av_->listen(this);
      return 0;
    case FI_CLASS_EQ:
      if (eq_ != nullptr) return -FI_EINVAL;
      eq_ = eq_of(other);
      eq_->hold();
      return 0;
    case FI_CLASS_STX_CTX:
    case FI_CLASS_SRX_CTX:
      MRC_INFO(EP_CTRL, "shared contexts are not supported");
      return -FI_ENOSYS;
    default:
      return -FI_EINVAL;
  }
}

int Endpoint::enable() {
  const Lock lock(engine_);
  if (enabled()) return -FI_EOPBADSTATE;
  if (av_ == nullptr) {
    MRC_WARN(EP_CTRL, "fi_enable: bind an address vector first");
    return -FI_ENOAV;
  }
  const bool transmits =
      tx_cq_ != nullptr || counters_[kSendCounter] || counters_[kWriteCounter] || counters_[kReadCounter];
  const bool receives = rx_cq_ != nullptr || counters_[kRecvCounter];
  const bool has_messages = (info_.caps & (FI_MSG | FI_TAGGED)) != 0;
  if (!transmits || (has_messages && !receives)) {
    MRC_WARN(EP_CTRL, "fi_enable: bind a completion queue or a counter for %s first",
             transmits ? "FI_RECV" : "FI_TRANSMIT");
    return -FI_ENOCQ;
  }
  EndpointName name;
  if (!info_.source.empty()) {
    const auto given = name_of(info_.source.data(), info_.source.size());
    if (!given) {
      MRC_WARN(EP_CTRL, "fi_enable: the info's source address is neither an IPv4 socket address nor one of ours");
      return -FI_EINVAL;
    }
    name = *given;
  }
  // fi_getinfo names the host before anybody knows which group of ports this process will get.
  const bool anybody = name.ipv4 == 0 || name.ipv4 == host_ipv4();
  name.ipv4 = anybody ? engine_.ipv4() : engine_.canonical(name.ipv4);
  msg::Config config;
  config.tx_size = static_cast<std::uint32_t>(info_.tx_size);
  config.rx_size = static_cast<std::uint32_t>(info_.rx_size);
  config.inject_size = static_cast<std::uint32_t>(info_.inject_size);
  config.min_multi_recv = min_multi_recv_;
  if (const Params* p = params()) config.eager_size = static_cast<std::uint32_t>(p->eager_size);
  config.seed = static_cast<std::uint64_t>(engine_.now().ns) ^ reinterpret_cast<std::uintptr_t>(this);
  messenger_ = std::make_unique<msg::Messenger>(config, *this, *this);
  const auto opened = engine_.open_endpoint_locked(name, this);
  if (!opened) {
    messenger_.reset();
    MRC_WARN(EP_CTRL, "fi_enable: %s", opened.error().text.c_str());
    return -opened.error().code;
  }
  id_ = *opened;
  name_ = name;
  return 0;
}

void Endpoint::close() {
  if (enabled()) {
    const Params* p = params();
    Tick deadline{};
    {
      const Lock lock(engine_);
      deadline = engine_.now() + (p != nullptr ? p->linger : seconds(2));
    }
    // What the transport has not been given yet goes out first; it drains the rest itself.
    for (bool more = true; more;) {
      const Lock lock(engine_);
      more = messenger_->unsent() && engine_.now() < deadline;
      if (more) engine_.progress_locked();
    }
    {
      const Lock lock(engine_);
      closing_ = true;
    }
    engine_.close_endpoint(id_);
  }
  {
    const Lock lock(engine_);
    if (tx_cq_ != nullptr) tx_cq_->unreserve(info_.tx_size);
    if (rx_cq_ != nullptr) rx_cq_->unreserve(info_.rx_size);
    if (av_ != nullptr) av_->unlisten(this);
    if (eq_ != nullptr) eq_->drop();
    for (Counter* counter : counters_)
      if (counter != nullptr) counter->drop();
    messenger_.reset();
  }
  domain_.drop();
}

int Endpoint::get_name(void* address, std::size_t* length) const {
  const Lock lock(engine_);
  if (!enabled()) return -FI_EOPBADSTATE;
  const Sockaddr own = sockaddr_of(name_, info_.ipv6);
  const std::size_t room = *length;
  *length = own.length;
  if (address != nullptr) std::memcpy(address, &own.any, std::min<std::size_t>(room, own.length));
  return room < own.length ? -FI_ETOOSMALL : 0;
}

int Endpoint::set_name(const void* address, std::size_t length) {
  const Lock lock(engine_);
  if (enabled()) return -FI_EOPBADSTATE;
  if (address == nullptr || !name_of(address, length)) return -FI_EINVAL;
  const auto* from = static_cast<const std::byte*>(address);
  info_.source.assign(from, from + length);
  return 0;
}

int Endpoint::op_flags(bool set, std::uint64_t* flags) {
  const Lock lock(engine_);
  const bool tx = (*flags & FI_TRANSMIT) != 0, rx = (*flags & FI_RECV) != 0;
  if (tx == rx) return -FI_EINVAL;
  std::uint64_t& own = tx ? tx_flags_ : rx_flags_;
  if (set)
    own = *flags & ~(FI_TRANSMIT | FI_RECV);
  else
    *flags = own;
  return 0;
}

namespace {

Endpoint& object(struct fid* fid) {
  return self_of_fid<Endpoint, fid_ep>(fid);
}

int close_op(struct fid* fid) {
  Endpoint& ep = object(fid);
  ep.close();
  delete &ep;
  return 0;
}

int bind_op(struct fid* fid, struct fid* other, std::uint64_t flags) {
  return guarded([&] { return object(fid).bind(other, flags); });
}

int control_op(struct fid* fid, int command, void* arg) {
  switch (command) {
    case FI_ENABLE:
      return guarded([&] { return object(fid).enable(); });
    case FI_GETOPSFLAG:
    case FI_SETOPSFLAG:
      if (arg == nullptr) return -FI_EINVAL;
      return object(fid).op_flags(command == FI_SETOPSFLAG, static_cast<std::uint64_t*>(arg));
    default:
      return -FI_ENOSYS;
  }
}

ssize_t cancel_op(fid_t fid, void* context) {
  Endpoint& ep = object(fid);
  const Endpoint::Lock lock(ep.engine());
  return ep.enabled() ? ep.messenger().cancel(context) : -FI_EOPBADSTATE;
}

int getopt_op(fid_t fid, int level, int name, void* value, size_t* length) {
  if (level != FI_OPT_ENDPOINT || value == nullptr || length == nullptr) return -FI_ENOPROTOOPT;
  Endpoint& ep = object(fid);
  std::size_t answer = 0;
  switch (name) {
    case FI_OPT_MIN_MULTI_RECV:
      answer = ep.min_multi_recv();
      break;
    case FI_OPT_CM_DATA_SIZE:
      break;
    case FI_OPT_TX_SIZE:
      answer = ep.tx_size();
      break;
    case FI_OPT_RX_SIZE:
      answer = ep.rx_size();
      break;
    default:
      return -FI_ENOPROTOOPT;
  }
  if (*length < sizeof answer) return -FI_ETOOSMALL;
  std::memcpy(value, &answer, sizeof answer);
  *length = sizeof answer;
  return 0;
}

int setopt_op(fid_t fid, int level, int name, const void* value, size_t length) {
  if (level != FI_OPT_ENDPOINT || name != FI_OPT_MIN_MULTI_RECV) return -FI_ENOPROTOOPT;
  if (value == nullptr || length != sizeof(std::size_t)) return -FI_EINVAL;
  Endpoint& ep = object(fid);
  const Endpoint::Lock lock(ep.engine());
  std::memcpy(&ep.min_multi_recv(), value, sizeof(std::size_t));
  if (ep.enabled()) ep.messenger().table().set_min_multi_recv(ep.min_multi_recv());
  return 0;
}

ssize_t rx_size_left_op(fid_ep* fid) {
  Endpoint& ep = self_of<Endpoint>(fid);
  const Endpoint::Lock lock(ep.engine());
  return ep.enabled() ? static_cast<ssize_t>(ep.messenger().table().left()) : -FI_EOPBADSTATE;
}

ssize_t tx_size_left_op(fid_ep* fid) {
  Endpoint& ep = self_of<Endpoint>(fid);
  const Endpoint::Lock lock(ep.engine());
  return ep.enabled() ? static_cast<ssize_t>(ep.messenger().tx_left()) : -FI_EOPBADSTATE;
}

int setname_op(fid_t fid, void* address, size_t length) {
  return guarded([&] { return object(fid).set_name(address, length); });
}

int getname_op(fid_t fid, void* address, size_t* length) {
  return length == nullptr ? -FI_EINVAL : object(fid).get_name(address, length);
}

}  // namespace

fi_ops endpoint_fid_ops = {.size = sizeof(fi_ops),
                           .close = close_op,
                           .bind = bind_op,
                           .control = control_op,
                           .ops_open = nosys,
                           .tostr = nosys,
                           .ops_set = nosys};

fi_ops_ep endpoint_ep_ops = {.size = sizeof(fi_ops_ep),
                             .cancel = cancel_op,
                             .getopt = getopt_op,
                             .setopt = setopt_op,
                             .tx_ctx = nosys,
                             .rx_ctx = nosys,
                             .rx_size_left = rx_size_left_op,
                             .tx_size_left = tx_size_left_op};

fi_ops_cm endpoint_cm_ops = {.size = sizeof(fi_ops_cm),
                             .setname = setname_op,
                             .getname = getname_op,
                             .getpeer = nosys,
                             .connect = nosys,
                             .listen = nosys,
                             .accept = nosys,
                             .reject = nosys,
                             .shutdown = nosys,
                             .join = nosys};

fi_ops_atomic endpoint_atomic_ops = {.size = sizeof(fi_ops_atomic),
                                     .write = nosys,
                                     .writev = nosys,
                                     .writemsg = nosys,
                                     .inject = nosys,
                                     .readwrite = nosys,
                                     .readwritev = nosys,
                                     .readwritemsg = nosys,
                                     .compwrite = nosys,
                                     .compwritev = nosys,
                                     .compwritemsg = nosys,
                                     .writevalid = nosys,
                                     .readwritevalid = nosys,
                                     .compwritevalid = nosys};

fi_ops_collective endpoint_collective_ops = {.size = sizeof(fi_ops_collective),
                                             .barrier = nosys,
                                             .broadcast = nosys,
                                             .alltoall = nosys,
                                             .allreduce = nosys,
                                             .allgather = nosys,
                                             .reduce_scatter = nosys,
                                             .reduce = nosys,
                                             .scatter = nosys,
                                             .gather = nosys,
                                             .msg = nosys,
                                             .barrier2 = nosys};

}  // namespace mrc::prov
