// SPDX-License-Identifier: BSD-2-Clause
// The endpoint's core: its sides, its life from name to last drop, peers behind addresses, and completions.
#include "ep_core.hpp"

#include <algorithm>
#include <cstring>

#include "abi.hpp"
#include "address.hpp"
#include "log.hpp"
#include "params.hpp"

namespace mrc::prov {

void RxSide::make_table(msg::MatchTable::Report report, std::uint64_t seed) {
  msg::MatchTable::Limits limits;
  limits.receives = static_cast<std::uint32_t>(size);
  limits.min_multi_recv = min_multi_recv;
  table = std::make_unique<msg::MatchTable>(limits, *this, seed, report);
}

void RxSide::done(const msg::Done& done) {
  if (core != nullptr)
    core->received(*this, done);
  else if (!users.empty())
    users.front()->received(users.front()->rx(0), done);
}

EndpointCore::EndpointCore(Domain& domain, const fi_info& info, std::size_t tx_contexts, std::size_t rx_contexts)
    : domain_(domain), engine_(domain.engine()), work_(domain.work()), tx_(tx_contexts), rx_(rx_contexts) {
  info_.caps = info.caps;
  info_.order = info.tx_attr->msg_order;
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
  for (std::size_t i = 0; i < rx_.size(); ++i) {
    rx_[i] = std::make_unique<RxSide>();
    rx_[i]->core = this;
    rx_[i]->size = info_.rx_size;
    rx_[i]->index = static_cast<std::uint16_t>(i);
  }
  domain_.hold();
}

EndpointCore::~EndpointCore() = default;

TxSide* EndpointCore::open_tx(std::size_t index) {
  if (tx_[index] != nullptr) return nullptr;
  auto side = std::make_unique<TxSide>();
  side->size = info_.tx_size;
  side->inject_size = info_.inject_size;
  side->order = msg::Order(info_.order);
  side->index = static_cast<std::uint16_t>(index);
  tx_[index] = std::move(side);
  return tx_[index].get();
}

RxSide* EndpointCore::open_rx(std::size_t index) {
  RxSide* side = rx_[index].get();
  if (side->open) return nullptr;
  side->open = true;
  side->silent = false;
  side->size = info_.rx_size;
  return side;
}

void EndpointCore::close_tx(TxSide* side) {
  work_.forget(side);
  side->release();
  auto& slot = tx_[side->index];
  if (side->outstanding != 0) retired_.push_back(std::move(slot));
  slot.reset();
}

void EndpointCore::close_rx(RxSide* side) {
  work_.forget(side);
  side->release();
  side->open = false;
  if (messenger_ == nullptr) return;
  side->table->withdraw();
  messenger_->abandon(*side->table);
}

void EndpointCore::share(RxSide* shared) {
  shared_rx_ = shared;
  shared->users.push_back(this);
}

int EndpointCore::bind_av(Av* av) {
  if (av_ != nullptr) return -FI_EINVAL;
  av_ = av;
  av_->listen(this);
  context_bits_ = av_->rx_ctx_bits();
  return 0;
}

int EndpointCore::bind_eq(EventQueue* eq) {
  if (eq_ != nullptr) return -FI_EINVAL;
  eq_ = eq;
  eq_->hold();
  return 0;
}

int EndpointCore::open() {
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
  constexpr std::size_t kMostOperations = 65536;
  config.tx_size = static_cast<std::uint32_t>(std::min(info_.tx_size * tx_.size(), kMostOperations));
  config.inject_size = static_cast<std::uint32_t>(info_.inject_size);
  if (const Params* p = params()) {
    config.copy_size = static_cast<std::uint32_t>(p->copy_size);
    config.eager_size = static_cast<std::uint32_t>(p->eager_size);
    config.inline_read = static_cast<std::uint32_t>(p->read_size);
  }
  config.seed = static_cast<std::uint64_t>(engine_.now().ns) ^ reinterpret_cast<std::uintptr_t>(this);
  for (auto& side : rx_)
    if (shared_rx_ == nullptr) side->make_table(msg::MatchTable::Report::kOwn, config.seed);
  messenger_ = std::make_unique<msg::Messenger>(config, *this, *this,
                                                shared_rx_ != nullptr ? shared_rx_->table.get() : rx_[0]->table.get());
  for (std::size_t i = 1; i < rx_.size(); ++i) messenger_->attach(*rx_[i]->table);
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

void EndpointCore::drain(const TxSide* side) {
  const Params* p = params();
  Tick deadline{};
  {
    const Lock lock(engine_);
    if (!is_open()) return;
    deadline = engine_.now() + (p != nullptr ? p->linger : seconds(2));
  }
  for (bool more = true; more;) {
    const Lock lock(engine_);
    more = messenger_->unsent() && (side == nullptr || side->outstanding != 0) && engine_.now() < deadline;
    if (more) engine_.progress_locked();
  }
}

void EndpointCore::close() {
  if (is_open()) {
    // What the transport has not been given yet goes out first; it drains the rest itself.
    drain(nullptr);
    {
      const Lock lock(engine_);
      closing_ = true;
    }
    engine_.close_endpoint(id_);
  }
  {
    const Lock lock(engine_);
    for (auto& side : tx_)
      if (side) side->release();
    for (auto& side : rx_) side->release();
    work_.forget(this);
    if (av_ != nullptr) av_->unlisten(this);
    if (eq_ != nullptr) eq_->drop();
    messenger_.reset();
    if (shared_rx_ != nullptr) std::erase(shared_rx_->users, this);
  }
  domain_.drop();
}

int EndpointCore::get_name(void* address, std::size_t* length) const {
  if (!is_open()) return -FI_EOPBADSTATE;
  const Sockaddr own = sockaddr_of(name_, info_.ipv6);
  const std::size_t room = *length;
  *length = own.length;
  if (address != nullptr) std::memcpy(address, &own.any, std::min<std::size_t>(room, own.length));
  return room < own.length ? -FI_ETOOSMALL : 0;
}

int EndpointCore::set_name(const void* address, std::size_t length) {
  if (is_open()) return -FI_EOPBADSTATE;
  if (address == nullptr || !name_of(address, length)) return -FI_EINVAL;
  const auto* from = static_cast<const std::byte*>(address);
  info_.source.assign(from, from + length);
  return 0;
}

void EndpointCore::on_av_remove(fi_addr_t address) {
  if (address < cache_.size()) cache_[address] = transport::kNoId;
}

msg::Peer* EndpointCore::peer(fi_addr_t address, int* error) {
  const auto name = av_->name(address);
  if (!name) {
    *error = -FI_EINVAL;
    return nullptr;
  }
  if (address < cache_.size() && cache_[address] != transport::kNoId) {
    msg::Peer* known = messenger_->at(cache_[address]);
    // A connection that was forgotten may have come back as another peer's.
    if (known->name == *name) return known;
  }
  msg::Peer* found = messenger_->peer(*name);
  if (found == nullptr) {
    MRC_WARN(EP_DATA, "no room for another connection: raise FI_MRC_CONNECTIONS");
    *error = -FI_ENOMEM;
    return nullptr;
  }
  if (address >= cache_.size()) cache_.resize(address + 1, transport::kNoId);
  cache_[address] = found->conn;
  return found;
}

bool EndpointCore::source(bool tagged, fi_addr_t address, EndpointName* name, const EndpointName** out) const {
  *out = nullptr;
  const std::uint64_t directed = FI_DIRECTED_RECV | (tagged ? abi::kTaggedDirectedRecv : 0);
  if (address == FI_ADDR_UNSPEC || (info_.caps & directed) == 0) return true;
  if (av_ == nullptr) return false;
  const auto found = av_->name(context_bits_ != 0 ? address & (FI_ADDR_UNSPEC >> context_bits_) : address);
  if (!found) return false;
  *name = *found;
  *out = name;
  return true;
}

ssize_t EndpointCore::transmit(TxSide& side, msg::Transmit& t, fi_addr_t address) {
  const int status = post(side, t, address);
  if (status == -FI_EAGAIN) engine_.progress_locked();
  return status;
}

int EndpointCore::post(TxSide& side, msg::Transmit& t, fi_addr_t address) {
  if (context_bits_ != 0) {
    t.rx_context = static_cast<std::uint16_t>(address >> (64 - context_bits_));
    address &= FI_ADDR_UNSPEC >> context_bits_;
  }
  int error = 0;
  t.peer = peer(address, &error);
  if (t.peer == nullptr) return error;
  t.owner = &side;
  side.order.apply(t);
  // The queue has room for every outstanding operation beyond its size; unread completions must not add up besides.
  const bool full = side.outstanding >= side.size || (t.signal && !side.room());
  ++side.outstanding;
  const int status = full ? -FI_EAGAIN : messenger_->transmit(t);
  if (status != 0) --side.outstanding;
  return status;
}

/// Says in words why operations to a peer fail, once for each life of the connection.
void EndpointCore::report(const msg::Done& done) {
  if (done.error == FI_ETRUNC || done.error == FI_ECANCELED || done.error == FI_ENOMSG || done.peer == nullptr) return;
  if (reported_ == done.peer && reported_epoch_ == done.peer->epoch) return;
  reported_ = done.peer;
  reported_epoch_ = done.peer->epoch;
  const auto ip = done.peer->name.ipv4;
  MRC_WARN(EP_DATA, "operations with %u.%u.%u.%u:%u fail: %s (%.*s)", ip >> 24, ip >> 16 & 255, ip >> 8 & 255, ip & 255,
           done.peer->name.port, fi_strerror(done.error), static_cast<int>(done.why.size()), done.why.data());
}

void EndpointCore::refused(const msg::Done& done, Cq* cq, Counter* counter) {
  report(done);
  if (counter != nullptr) counter->add_error(1);
  // Nobody could tell what an error without a context belongs to.
  if (cq == nullptr || ((done.inject || done.deferred) && !done.signal)) return;
  ErrorCompletion error;
  error.base = done.completion;
  error.overflow_len = done.overflow;
  error.err = error.prov_errno = done.error;
  cq->push_error(error);
}

void EndpointCore::transmitted(const msg::Done& done) {
  auto& side = *static_cast<TxSide*>(done.owner);
  --side.outstanding;
  if (side.silent) {
    if (side.outstanding == 0) std::erase_if(retired_, [&side](const auto& each) { return each.get() == &side; });
    return;
  }
  const bool writes = done.kind == msg::OpKind::kWrite || done.kind == msg::OpKind::kAtomic;
  const auto kind = done.kind == msg::OpKind::kSend ? kSendCounter : writes ? kWriteCounter : kReadCounter;
  Counter* counter = done.deferred ? done.counter : done.counts ? side.counters[kind] : nullptr;
  if (done.deferred) work_.give_back(counter);
  if (done.error != 0) return refused(done, side.cq, counter);
  if (counter != nullptr) counter->add(1);
  if (side.cq != nullptr && done.signal) side.cq->push(done.completion);
}

void EndpointCore::received(RxSide& side, const msg::Done& done) {
  if (closing_ || side.silent) return;
  const auto kind = done.kind == msg::OpKind::kRecv          ? kRecvCounter
                    : done.kind == msg::OpKind::kRemoteWrite ? kRemoteWriteCounter
                                                             : kRemoteReadCounter;
  Counter* counter = done.deferred ? done.counter : done.counts ? side.counters[kind] : nullptr;
  if (done.deferred) work_.give_back(counter);
  if (done.error != 0) return refused(done, side.cq, counter);
  if (counter != nullptr) counter->add(1);
  if (side.cq == nullptr || !done.signal) return;
  if ((info_.caps & FI_SOURCE) != 0 && done.peer != nullptr) {
    Completion completion = done.completion;
    completion.source = av_->find(done.from);
    if (completion.source != FI_ADDR_NOTAVAIL || (info_.caps & FI_SOURCE_ERR) == 0) {
      side.cq->push(completion);
      return;
    }
    // Nothing failed, but the application wants to hear of strangers: err_data can be inserted into the vector.
    ErrorCompletion error;
    error.base = completion;
    error.err = error.prov_errno = FI_EADDRNOTAVAIL;
    error.unknown = done.from;
    error.ipv6 = info_.ipv6;
    side.cq->push_error(error);
    return;
  }
  side.cq->push(done.completion);
}

void EndpointCore::done(const msg::Done& done) {
  if (closing_) return;
  switch (done.kind) {
    case msg::OpKind::kSend:
    case msg::OpKind::kWrite:
    case msg::OpKind::kRead:
    case msg::OpKind::kAtomic:
    case msg::OpKind::kFetchAtomic:
      return transmitted(done);
    case msg::OpKind::kRecv:
    case msg::OpKind::kRemoteWrite:
    case msg::OpKind::kRemoteRead:
      if (done.rx_context < rx_.size()) received(*rx_[done.rx_context], done);
      return;
  }
}

}  // namespace mrc::prov
