// SPDX-License-Identifier: BSD-2-Clause
// Names, endpoints and connections: from (IPv4, port) to inner addresses, routes and core connections and back.
#include <algorithm>

#include <fmt/format.h>

#include "mrc/engine/engine_impl.hpp"

namespace mrc::engine {

using transport::ConnId;
using transport::EpId;
using transport::kNoId;
using transport::Status;
using Answer = path::Directory::Answer;

namespace {

EndpointName name_of(const wire::Ipv6Address& inner) {
  const auto address = path::EndpointAddress::from_inner(inner);
  return {address.ipv4, address.port};
}

std::string text(const EndpointName& name) {
  return fmt::format("{}:{}", to_text(name.ipv4), name.port);
}

}  // namespace

std::uint32_t EngineImpl::canonical(std::uint32_t address) const {
  if (address >> 24 == 127 || address == 0) return ipv4();
  if (attachment_->foreign(address)) return address;
  return std::find(aliases_.begin(), aliases_.end(), address) != aliases_.end() ? ipv4() : address;
}

EngineImpl::Endpoint* EngineImpl::endpoint(EpId id) {
  return id < endpoints_.size() ? endpoints_[id].get() : nullptr;
}

bool EngineImpl::is_own(const EndpointName& name) const {
  return std::any_of(endpoints_.begin(), endpoints_.end(), [&](const auto& ep) { return ep && ep->name == name; });
}

Result<EpId> EngineImpl::open_endpoint_locked(EndpointName& name, Client* client) {
  if (dead()) return fail(EOWNERDEAD, "mrc does not work in a forked child: open the fabric in the child itself");
  name.ipv4 = name.ipv4 == 0 ? ipv4() : canonical(name.ipv4);
  if (name.ipv4 != ipv4()) {
    return fail(EADDRNOTAVAIL,
                fmt::format("{} is not an address of this process (it is {})", to_text(name.ipv4), to_text(ipv4())));
  }
  auto ep = std::make_unique<Endpoint>();
  if (reserve_ports_) {
    auto reservation = Reservation::take(name.ipv4, name.port);
    if (!reservation) return tl::unexpected(reservation.error());
    ep->reservation = std::move(*reservation);
    name.port = ep->reservation.port();
  }
  if (auto done = attachment_->register_endpoint(name.port); !done) return tl::unexpected(done.error());
  ep->engine = this;
  ep->client = client;
  ep->name = name;
  ep->inner = path::EndpointAddress{attachment_->fabric(), attachment_->t0(), name.ipv4, name.port}.inner();
  ep->id = core_->add_endpoint(ep->inner, random_.next() | 1, ep.get());
  if (ep->id == kNoId) {
    attachment_->unregister_endpoint(name.port);
    return fail(EMFILE, fmt::format("no more than {} endpoints in one process (EngineConfig.limits.endpoints)",
                                    config_.limits.endpoints));
  }
  const EpId id = ep->id;
  if (id >= endpoints_.size()) endpoints_.resize(id + 1);
  endpoints_[id] = std::move(ep);
  if (client != nullptr) clients_.push_back(client);
  if (config_.service_thread && !service_.joinable()) start_service();
  return id;
}

void EngineImpl::close_endpoint(EpId id) {
  if (dead()) return;
  {
    const std::lock_guard guard(*this);
    if (endpoint(id) == nullptr) return;
    core_->close_endpoint(id, clock_->now());
  }
  // The core gives up by itself after linger; the margin covers a clock that a test holds still.
  const Tick limit = clock_->now() + config_.transport.linger + milliseconds(200);
  for (bool done = false; !done;) {
    const std::lock_guard guard(*this);
    progress_locked();
    done = core_->closed(id) || clock_->now() > limit;
  }
  const std::lock_guard guard(*this);
  Endpoint* ep = endpoint(id);
  if (ep == nullptr) return;
  core_->forget_endpoint(id, clock_->now());
  deliver_events(1024);
  transmit(clock_->now());
  attachment_->unregister_endpoint(ep->name.port);
  std::erase(clients_, ep->client);
  links_.drop(id);
  endpoints_[id].reset();
}

ConnId EngineImpl::connect_locked(EpId ep, const EndpointName& peer) {
  if (dead() || endpoint(ep) == nullptr) return kNoId;
  const ConnId id = links_.open(ep, {canonical(peer.ipv4), peer.port});
  if (Link* link = links_.at(id); link != nullptr && link->core == kNoId) resolve(id, *link);
  return id;
}

EndpointName EngineImpl::peer_name_locked(ConnId id) const {
  const Link* link = links_.at(id);
  return link != nullptr ? link->peer : EndpointName{};
}

std::string EngineImpl::why_locked(ConnId id) const {
  const Link* link = links_.at(id);
  return link != nullptr ? link->why.str() : "no such connection";
}

std::uint32_t EngineImpl::payload_mtu_locked(ConnId id) const {
  const Link* link = links_.at(id);
  return link != nullptr && link->core != kNoId ? core_->payload_mtu(link->core) : 1024;
}

Status EngineImpl::give_up_waiting(Link& link, std::string why) {
  const Tick now = clock_->now();
  if (link.waiting_since == Tick{}) link.waiting_since = now;
  if (now - link.waiting_since < config_.transport.connect_timeout) return Status::kAgain;
  link.waiting_since = {};
  link.why = std::move(why);
  return Status::kTimedOut;
}

Status EngineImpl::resolve(ConnId id, Link& link) {
  path::Location where{};
  std::uint16_t t0 = attachment_->t0();
  if (!is_own(link.peer)) {
    switch (attachment_->locate(link.peer.ipv4, link.peer.port, where)) {
      case Answer::kFound:
        t0 = where.t0;
        break;
      case Answer::kPending:
        chores_at_ = {};  // the answer comes by the control socket: read it at the next pass
        return give_up_waiting(link, "the directory did not answer where " + text(link.peer) + " is");
      case Answer::kUnknown:
        return give_up_waiting(link, fmt::format("nobody opened {} within {} s", text(link.peer),
                                                 config_.transport.connect_timeout.ns / 1'000'000'000));
      case Answer::kNoRoute:
        link.waiting_since = {};
        link.why = attachment_->why_no_route(link.peer.ipv4, link.peer.port);
        return Status::kNoRoute;
    }
  }
  link.waiting_since = {};
  const auto inner = path::EndpointAddress{attachment_->fabric(), t0, link.peer.ipv4, link.peer.port}.inner();
  if (link.core != kNoId && core_->remote(link.core) == inner) return Status::kOk;
  const ConnId core = core_->connect(link.ep, inner);
  if (core == kNoId) return Status::kAgain;
  links_.bind(id, core);
  return Status::kOk;
}

Status EngineImpl::post_write_locked(ConnId id, const transport::WriteRequest& request) {
  Link* link = links_.at(id);
  if (dead() || link == nullptr) return Status::kInvalid;
  if (link->core == kNoId || link->recheck) [[unlikely]] {
    const Status status = resolve(id, *link);
    if (status != Status::kOk) return status;
    link->recheck = false;
    link->why_status = Status::kOk;
  }
  return core_->post_write(link->core, request, in_pass_ ? now_ : clock_->now());
}

ConnId EngineImpl::link_of(EpId ep, ConnId core) {
  if (core == kNoId) return kNoId;
  if (const ConnId id = links_.of(core); id != kNoId) [[likely]]
    return id;
  // A connection that the peer opened: give it a link, or the one that waits for this peer.
  const ConnId id = links_.open(ep, name_of(core_->remote(core)));
  if (Link* link = links_.at(id); link != nullptr) {
    links_.bind(id, core);
    link->recheck = false;  // it has just told where it is
  }
  return id;
}

transport::Placement EngineImpl::Endpoint::place(const transport::RxWrite& write) {
  transport::RxWrite translated = write;
  translated.conn = engine->link_of(write.ep, write.conn);
  return client != nullptr ? client->place(translated) : transport::Placement::kRefused;
}

Status EngineImpl::Endpoint::route(const wire::Ipv6Address& remote, path::Route& out) {
  const auto address = path::EndpointAddress::from_inner(remote);
  EngineImpl& self = *engine;
  path::Location where{};
  if (self.is_own({address.ipv4, address.port})) {
    self.loop_.allocate();
    self.loops_ = true;
    out = {};
    out.planes = static_cast<std::uint8_t>(self.planes_count_);
    out.hop = kHopLoopback;
    out.mtu = LoopRing::kMtu;
    out.icrc_off = !self.icrc_;
    return Status::kOk;
  }
  switch (self.attachment_->locate(address.ipv4, address.port, where)) {
    case Answer::kFound:
      break;
    case Answer::kPending:
      self.chores_at_ = {};
      [[fallthrough]];
    case Answer::kUnknown:
      return Status::kAgain;
    case Answer::kNoRoute:
      return Status::kNoRoute;
  }
  self.attachment_->route(remote, where, out, self.in_pass_ ? self.now_ : self.clock_->now());
  out.icrc_off = !self.icrc_;
  for (unsigned p = 0; p < self.planes_count_; ++p) self.planes_[p].neighbours = true;
  return Status::kOk;
}

void EngineImpl::explain(Link& link, const transport::Event& event) const {
  if (link.why_status == event.status) return;  // a lost peer fails thousands of writes with one sentence
  link.why_status = event.status;
  const std::string peer = text(link.peer);
  const auto seconds = [](Duration d) { return d.ns / 1'000'000'000; };
  switch (event.status) {
    case Status::kNoRoute:
      link.why = all_denied(link.core) ? "every path to " + peer + " is on the denylist (FI_MRC_DENYLIST or [[deny]])"
                                       : attachment_->why_no_route(link.peer.ipv4, link.peer.port);
      break;
    case Status::kTimedOut:
      link.why = fmt::format("{} did not answer within {} s (FI_MRC_CONNECT_TIMEOUT)", peer,
                             seconds(config_.transport.connect_timeout));
      break;
    case Status::kPeerDead:
      link.why = fmt::format("{} is gone, or silent for {} s (FI_MRC_PEER_TIMEOUT)", peer,
                             seconds(config_.transport.peer_timeout));
      break;
    case Status::kPeerRestarted:
      link.why = peer + " was restarted: what was outstanding is lost";
      break;
    case Status::kRefused:
      link.why = peer + " refused the connection: another version of mrc, or another job key (FI_MRC_JOB_KEY)";
      break;
    case Status::kAccess:
      link.why = peer + " refused the access: no such key, bound or right";
      break;
    case Status::kClosed:
      link.why = "the connection to " + peer + " was closed";
      break;
    case Status::kProtocol:
      link.why = peer + " met something that the protocol does not allow: is it another version of mrc?";
      break;
    case Status::kOk:
    case Status::kAgain:
    case Status::kInvalid:
      break;
  }
}

}  // namespace mrc::engine
