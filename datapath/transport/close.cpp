// SPDX-License-Identifier: BSD-2-Clause
// The end: drain, CLOSE (retried, answered), tombstones. A late packet to what is no longer here gets kNoEndpoint,
// a limited number a second, and never as an answer to an answer.
#include <algorithm>

#include "mrc/transport/state.hpp"

namespace mrc::transport {
namespace {

constexpr Duration kCloseRetry = milliseconds(5);
constexpr Duration kCloseRetryMax = milliseconds(200);
constexpr std::uint32_t kTokens = 64;  // burst of kNoEndpoint answers
constexpr Duration kTokenEvery = milliseconds(1);

}  // namespace

void Core::close_endpoint(EpId ep, Tick now) {
  State& s = *state_;
  if (ep >= s.endpoints.size() || !s.endpoints[ep].used || s.endpoints[ep].closing) return;
  Endpoint& e = s.endpoints[ep];
  e.closing = true;
  for (ConnId id = e.first_connection; id != kNone;) {
    const ConnId next = s.connections[id].ep_next;
    s.connections[id].close_until = now + s.config.linger;
    s.settle(id, now);
    id = next;
  }
  e.closed = e.first_connection == kNone;
}

bool Core::closed(EpId ep) const {
  return ep >= state_->endpoints.size() || !state_->endpoints[ep].used || state_->endpoints[ep].closed;
}

void Core::forget_endpoint(EpId ep, Tick) {
  State& s = *state_;
  if (ep >= s.endpoints.size() || !s.endpoints[ep].used) return;
  Endpoint& e = s.endpoints[ep];
  while (e.first_connection != kNone) {
    const ConnId id = e.first_connection;
    s.fail_messages(id, Status::kClosed);
    s.free_connection(id);
  }
  std::uint32_t* at = &s.endpoint_buckets[s.endpoint_bucket(e.inner)];
  while (*at != ep) at = &s.endpoints[*at].hash_next;
  *at = e.hash_next;
  e = Endpoint{};
}

void Core::State::try_close(ConnId id, Tick now) {
  Connection& c = connections[id];
  if (c.phase == Connection::Phase::kClosing || c.messages != 0) return;
  if (c.phase != Connection::Phase::kOpen || !c.peer_known) return closed_connection(id);
  c.phase = Connection::Phase::kClosing;
  c.init_active = false;
  c.mtu_next = kNever;
  c.close_interval = static_cast<std::uint32_t>(kCloseRetry.ns);
  c.close_next = now + kCloseRetry;
  // What arrived is acknowledged before we go; CLOSE repeats the cumulative number.
  if (c.sack_at != kNever) c.control |= Connection::kSendSack;
  c.sack_at = kNever;
  want_control(id, Connection::kSendClose);
}

void Core::State::close_due(ConnId id, Tick now) {
  Connection& c = connections[id];
  if (c.close_until <= now) {
    fail_messages(id, Status::kClosed);
    return closed_connection(id);
  }
  const Duration interval = std::min(Duration{c.close_interval} * 2, kCloseRetryMax);
  c.close_interval = static_cast<std::uint32_t>(interval.ns);
  c.close_next = now + interval;
  want_control(id, Connection::kSendClose);
}

void Core::State::closed_connection(ConnId id) {
  Endpoint& e = endpoints[connections[id].ep];
  fail_messages(id, Status::kClosed);
  free_connection(id);
  if (e.closing && e.first_connection == kNone) e.closed = true;
}

void Core::State::on_close(EpId ep, const wire::Packet& p, Tick now) {
  Reply reply{ep, p.inner.destination, p.inner.source, wire::EndpointOp::kClose};
  reply.source_qpn = p.erth.source_qpn;
  reply.request_psn = p.bth.psn;
  reply.echoed_ev = p.ev;
  reply.incarnation = endpoints[ep].incarnation;
  replies.push(reply);
  const ConnId id = find_connection(ep, p.inner.source);
  if (id == kNoId) return;
  Connection& c = connections[id];
  if (!c.peer_known || p.erth.source_qpn != c.peer_qpn || p.bth.psn != c.peer_instance) return;
  if (c.self) return;  // the answer closes it
  if (c.phase == Connection::Phase::kClosing) return closed_connection(id);
  if (c.phase != Connection::Phase::kOpen) return;
  const std::uint64_t end = expand_psn(p.erth.argument, c.tx.una()) + 1;
  if (end > c.tx.una() && end <= c.tx.next()) {
    c.tx.acknowledge_below(segments, end,
                           [&](std::uint64_t seq, TxRecord& record) { acknowledged(id, seq, record, false, now); });
    if (c.tx.advance(segments)) wake_starved();
  }
  fail_messages(id, Status::kPeerDead);
  push_event(id, EventKind::kConnClosed, Status::kOk);
  c.phase = Connection::Phase::kIdle;
  c.qpn = 0;
  c.peer_known = c.peer_knows_us = c.announced = false;
  c.init_active = false;
  drop_ordered(c);
  c.init_next = c.sack_at = c.mtu_next = c.ask_at = c.hold_until = kNever;
  c.control = 0;
  settle(id, now);
}

void Core::State::on_close_answer(EpId ep, const wire::Packet& p) {
  const ConnId id = find_connection(ep, p.inner.source);
  if (id == kNoId) return;
  const Connection& c = connections[id];
  if (c.phase == Connection::Phase::kClosing && p.eeth.request_psn == c.instance) closed_connection(id);
}

bool Core::State::take_token(Tick now) {
  const std::int64_t earned = (now - tokens_at).ns / kTokenEvery.ns;
  if (earned > 0) {
    tokens = static_cast<std::uint32_t>(std::min<std::int64_t>(kTokens, tokens + earned));
    tokens_at = now;
  }
  if (tokens == 0) return false;
  --tokens;
  return true;
}

void Core::State::refuse(const wire::Packet& p, EpId ep, std::uint32_t argument, std::uint64_t incarnation, Tick now) {
  if (!take_token(now)) return;
  Reply reply{ep, p.inner.destination, p.inner.source, wire::EndpointOp::kNoEndpoint};
  reply.argument = argument;
  reply.request_psn = p.bth.psn;
  reply.echoed_ev = p.ev;
  reply.incarnation = incarnation;
  replies.push(reply);
}

}  // namespace mrc::transport
