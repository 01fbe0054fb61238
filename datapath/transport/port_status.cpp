// SPDX-License-Identifier: BSD-2-Clause
// Port status: each side tells its peers which of its ports are up and which lose packets (ENDPOINT_REQUEST op 0), over
// the planes that are left, until it is answered. BTH.psn numbers what is said on one connection, so that an old word
// cannot overtake a newer one. ERTH.argument: bits 0-7 ports that are up, 16-23 of these, ports whose link to the T0
// loses packets, 24-31 planes on which the sender sees losses that may be the receiver's own.
#include <algorithm>
#include <bit>

#include "mrc/transport/state.hpp"

namespace mrc::transport {
namespace {

constexpr Duration kRetryMin = microseconds(100);
constexpr unsigned kMaxDoublings = 13;
constexpr std::uint8_t kTries = 40;  // the later ones most of a second apart

}  // namespace

void Core::State::tell_ports(ConnId id, Tick now) {
  Connection& c = connections[id];
  if (!c.peer_knows_us || c.self) return;
  c.health.version = (c.health.version + 1) & wire::kPsnMask;
  c.health.tries = 0;
  tell_ports_again(id, now);
  schedule(id, now);
}

void Core::State::tell_ports_again(ConnId id, Tick now) {
  Connection& c = connections[id];
  PlaneHealth& h = c.health;
  h.tell_next = kNever;
  if (h.tries >= kTries) return;
  const Duration base = std::max(c.rtt.srtt() * 2, kRetryMin);
  h.tell_next = now + std::min(Duration{base.ns << std::min<unsigned>(h.tries, kMaxDoublings)}, config.rto_max);
  ++h.tries;
  want_control(id, Connection::kSendPortStatus);
}

void Core::State::port_status(Connection& c, wire::Packet& p) const {
  const std::uint32_t mask = plane_mask(c.route);
  const std::uint32_t up = links_up & mask;
  p.bth.psn = c.health.version;
  p.erth.op = wire::EndpointOp::kPortStatus;
  p.erth.version = wire::kInitVersion;
  p.erth.source_qpn = c.qpn;
  p.erth.argument = up | (up & loop.lossy) << 16 | (up & c.health.shunned) << 24;
}

void Core::State::on_port_status(EpId ep, const wire::Packet& p, Tick now) {
  const ConnId id = find_connection(ep, p.inner.source);
  if (id == kNoId || !connections[id].peer_known || connections[id].peer_qpn != p.erth.source_qpn ||
      connections[id].phase != Connection::Phase::kOpen) {
    ++counters.rx_no_connection;
    return refuse(p, ep, 0, endpoints[ep].incarnation, now);
  }
  ++counters.port_status_received;
  Connection& c = connections[id];
  PlaneHealth& h = c.health;
  Reply reply{ep, p.inner.destination, p.inner.source, wire::EndpointOp::kPortStatus};
  reply.source_qpn = p.erth.source_qpn;
  reply.request_psn = p.bth.psn;
  reply.echoed_ev = p.ev;
  reply.argument = p.erth.argument;
  reply.incarnation = endpoints[ep].incarnation;
  replies.push(reply);
  if (h.peer_told && wire::psn_diff(p.bth.psn, h.peer_version) <= 0) return;
  h.peer_told = true;
  h.peer_version = p.bth.psn;
  h.peer_told_at = now;

  const std::uint32_t mask = plane_mask(c.route);
  const std::uint32_t up = p.erth.argument & mask;
  if (up == 0) return;  // on what would it have come?
  const std::uint32_t went_down = ~up & mask & ~std::uint32_t{h.peer_down};
  const std::uint32_t healed = h.peer_lossy & ~(p.erth.argument >> 16);
  h.peer_down = static_cast<std::uint8_t>(~up & mask);
  h.peer_lossy = static_cast<std::uint8_t>(p.erth.argument >> 16 & up);
  const std::uint32_t seen = p.erth.argument >> 24 & up & links_up;
  for (unsigned plane = 0; plane < c.route.planes; ++plane) {
    if (went_down >> plane & 1) drop_plane(id, plane);
    if (h.peer_lossy >> plane & 1) excuse_plane(c, plane);
    if (healed >> plane & 1) take_back_plane(id, plane, now);
  }
  if (seen != 0) check_own_end(c, seen, now);
  // Somebody is there, and has news of ways to it: no more waiting.
  c.silent_since = active;
  c.backoff = 0;
  c.tail_probes = 0;
  c.silence_budget = kNone;
  touch(id);
}

void Core::State::on_port_status_answer(EpId ep, const wire::Packet& p) {
  const ConnId id = find_connection(ep, p.inner.source);
  if (id == kNoId || connections[id].qpn != p.eeth.source_qpn) return;
  PlaneHealth& h = connections[id].health;
  if (p.eeth.request_psn != h.version) return;
  h.tell_next = kNever;
  connections[id].control &= static_cast<std::uint16_t>(~Connection::kSendPortStatus);
}

/// A link of our own went down or came back.
void Core::State::link_changed(unsigned plane, bool up, Tick now) {
  loop.testing &= links_up;
  for (ConnId id = 0; id < connections.size(); ++id) {
    Connection& c = connections[id];
    if (c.phase != Connection::Phase::kOpen || !c.route_known || plane >= c.route.planes) continue;
    if (!up) drop_plane(id, plane);
    // What the budget paid for went with the link, and no timer runs while nothing is in flight.
    if (c.silence_budget != kNone && !planted(Bug::kSilentAfterRevival))
      c.silence_budget = std::max<std::uint32_t>(4, 2u * c.route.planes);
    // All links were gone, and this one is back: what was sent before them may have arrived or not. Ask.
    if (up && (links_up & plane_mask(c.route)) == 1u << plane) c.backoff = c.tail_probes = 0;
    tell_ports(id, now);
    settle(id, now);
  }
}

}  // namespace mrc::transport
