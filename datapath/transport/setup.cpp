// SPDX-License-Identifier: BSD-2-Clause
// Set-up: INIT and its answer, restarts of the peer, failure of a connection. INIT is idempotent: its BTH.psn carries
// the sender's instance of the connection, 24 bits that only grow within one incarnation of the endpoint, so that a
// late duplicate is told from a new beginning. A connection whose far end forgot it starts over as a new instance.
#include <algorithm>
#include <array>
#include <cstring>

#include "mrc/transport/state.hpp"

namespace mrc::transport {
namespace {

constexpr Duration kInitRetryMax = milliseconds(200);
constexpr std::size_t kAuthenticatorSize = 32;
constexpr Duration kLateInit = milliseconds(500);  ///< longer than any packet lives

bool newer(std::uint32_t a, std::uint32_t b) {
  return wire::psn_diff(a, b) > 0;
}

}  // namespace

/// Fresh QPN, PSN and empty windows; messages that wait to be sent stay queued.
void Core::State::new_instance(ConnId id) {
  Connection& c = connections[id];
  Endpoint& e = endpoints[c.ep];
  drop_suspects(c);
  const std::uint32_t spread = (1u << (24 - index_bits)) - 1;
  c.qpn = ((random.below(spread) + 1) << index_bits) | id;
  e.instance = (e.instance + 1 + random.below(16)) & wire::kPsnMask;
  c.instance = e.instance;
  c.first_psn = static_cast<std::uint32_t>(random.next()) & wire::kPsnMask;
  if (config.first_psn != UINT32_MAX) c.first_psn = config.first_psn & wire::kPsnMask;
  c.tx.reset(segments, c.first_psn);
  c.phase = Connection::Phase::kOpen;
  c.peer_known = c.peer_knows_us = c.announced = false;
  c.control = 0;
  c.inflight_bytes = 0;
  c.inflight_packets = 0;
  c.balance.clear_inflight();
  c.health = PlaneHealth{};
  c.since_ack_request = 0;
  c.rtt = Rtt{};
  c.high_sent = c.last_sent = c.last_progress = c.tail_probe_sent = Tick{};
  c.sacked_planes = 0;
  c.backoff = c.tail_probes = 0;
  c.gap = config.gap_packets;
  c.reordering = Duration{};
  c.clean_acks = 0;
  c.silence_budget = kNone;
  std::fill(c.planes.begin(), c.planes.end(), TxPlane{});
  c.probes = {};
  c.mtu_next = kNever;
  c.mtu_step = c.mtu_tries = c.mtu_retries = 0;
  c.mtu_steps = {};
  c.sack_at = kNever;
  c.unsacked_bytes = 0;
  c.echoes.clear();
  c.reports_left = 0;
  c.msn = c.rqmsn = c.acked_msn = c.ack_msn = c.rx_rqmsn = 0;
  c.acked_any = c.ack_any = c.rx_rqmsn_any = c.parked = c.asked = false;
  c.naks_told = c.naks_seen = c.naks_ahead = c.naks = c.naks_confirmed = c.nak_next = 0;
  c.refused = {};
  c.ordered = IndexQueue{};
  c.imms = 0;
  c.ask_at = c.hold_until = kNever;
  c.tail_credit = 0;
  c.window_nack_at = Tick{};
  drop_ordered(c);
  c.probe_reporting = false;
  c.named_seq = 0;
  c.rcvd_bytes = 0;
  c.peer_received = 0;
  c.share = {};
  c.base_probe_next = Tick{};
  c.base_probes = 0;
  c.planes_heard = c.planes_heard_before = 0;
  c.control_evs_at = kLongAgo;
  c.silent_since = active;
}

Status Core::State::find_route(ConnId id) {
  Connection& c = connections[id];
  if (c.route_known) return Status::kOk;
  const Status status = endpoints[c.ep].upper->route(c.remote, c.route);
  if (status != Status::kOk) return status;
  c.route.planes = static_cast<std::uint8_t>(std::clamp<std::size_t>(c.route.planes, 1, c.planes.size()));
  c.evs = path::EvSet(c.route, config.wire.ev_split, config.ev, storage_of(id), random);
  if (!apply_denylist(c)) return Status::kNoRoute;
  c.route_known = true;
  return Status::kOk;
}

void Core::State::start_init(ConnId id, Tick now) {
  Connection& c = connections[id];
  c.init_active = true;
  c.init_started = now;
  c.init_interval = static_cast<std::uint32_t>(std::min<std::int64_t>(config.init_retry.ns, UINT32_MAX));
  init_due(id, now);
  if (c.phase != Connection::Phase::kFree) schedule(id, now);
}

void Core::State::init_due(ConnId id, Tick now) {
  Connection& c = connections[id];
  if (now - c.init_started >= config.connect_timeout) return fail_connection(id, Status::kTimedOut, now);
  if (config.job_key_set && config.hmac == nullptr) {
    ++counters.rx_refused;
    return fail_connection(id, Status::kRefused, now);
  }
  const Status status = find_route(id);
  if (status == Status::kNoRoute) return fail_connection(id, Status::kNoRoute, now);
  if (status == Status::kOk) want_control(id, Connection::kSendInit);
  c.init_next = std::min(now + Duration{c.init_interval}, c.init_started + config.connect_timeout);
  c.init_interval = static_cast<std::uint32_t>(std::min(Duration{c.init_interval} * 2, kInitRetryMax).ns);
}

std::size_t Core::State::init_body(ConnId id, bool answer, std::span<std::byte> out) const {
  const Connection& c = connections[id];
  wire::InitBody body;
  body.features = wire::kFeatureTimestamps | (config.wire.icrc ? 0u : std::uint32_t{wire::kFeatureIcrcOff});
  body.qpn = c.qpn;
  body.psn = c.first_psn;
  body.incarnation = endpoints[c.ep].incarnation;
  body.peer_incarnation = answer || c.peer_known ? c.peer_incarnation : 0;
  body.mtu = c.route.mtu > kHeaderBudget ? (c.route.mtu - kHeaderBudget) & ~3u : 4;
  body.window = config.window;
  body.upper_version = config.upper_version;
  std::size_t size = wire::encode(body, out);
  if (!config.job_key_set || config.hmac == nullptr) return size;
  std::array<std::byte, kAuthenticatorSize> mac{};
  init_mac(endpoints[c.ep].inner, c.remote, answer, c.instance, out.first(size), mac);
  body.authenticator = mac;
  return wire::encode(body, out);
}

/// The authenticator covers the body, both addresses, the instance and the direction: no reflection, no replay to
/// another endpoint.
void Core::State::init_mac(const wire::Ipv6Address& from, const wire::Ipv6Address& to, bool answer,
                           std::uint32_t instance, std::span<const std::byte> body,
                           std::span<std::byte, 32> out) const {
  std::array<std::byte, 40 + wire::kMaxInitBody> text{};
  std::memcpy(text.data(), from.bytes.data(), 16);
  std::memcpy(text.data() + 16, to.bytes.data(), 16);
  text[32] = static_cast<std::byte>(answer);
  for (int i = 0; i < 3; ++i) text[static_cast<std::size_t>(33 + i)] = static_cast<std::byte>(instance >> (8 * i));
  const std::size_t n = std::min(body.size(), wire::kMaxInitBody);
  std::memcpy(text.data() + 40, body.data(), n);
  config.hmac(config.job_key, std::span<const std::byte>(text).first(40 + n), out);
}

bool Core::State::authentic(const wire::Packet& p, const wire::InitBody& body, std::span<const std::byte> raw,
                            bool answer) const {
  if (!config.job_key_set) return true;
  if (config.hmac == nullptr || body.authenticator.size() != kAuthenticatorSize) return false;
  const auto covered = wire::authenticated_part(body, raw);
  if (covered.size() > wire::kMaxInitBody) return false;
  std::array<std::byte, kAuthenticatorSize> mac{};
  init_mac(p.inner.source, p.inner.destination, answer, p.bth.psn, covered, mac);
  std::byte difference{};
  for (std::size_t i = 0; i < mac.size(); ++i) difference |= mac[i] ^ body.authenticator[i];
  return difference == std::byte{};
}

void Core::State::on_init(EpId ep, const wire::Packet& p, std::uint8_t plane, Tick now) {
  const Endpoint& e = endpoints[ep];
  const auto raw = p.payload.first(p.erth.body_length);
  const auto body = wire::decode_init(raw);
  if (!body) {
    ++counters.rx_malformed[static_cast<std::size_t>(wire::ParseError::kBadField)];
    return;
  }
  const bool version_ok = body->min_version <= wire::kInitVersion && body->version >= wire::kInitVersion;
  if (!version_ok || !authentic(p, *body, raw, false)) {
    ++counters.rx_refused;
    if (take_token(now)) {
      Reply reply{ep, e.inner, p.inner.source, wire::EndpointOp::kInit};
      reply.status = static_cast<std::uint8_t>(version_ok ? EndpointStatus::kAuthenticator : EndpointStatus::kVersion);
      reply.request_psn = p.bth.psn;
      reply.echoed_ev = p.ev;
      reply.incarnation = e.incarnation;
      replies.push(reply);
    }
    return;
  }
  ConnId id = find_connection(ep, p.inner.source);
  if (e.closing && (id == kNoId || connections[id].phase != Connection::Phase::kOpen)) {
    return refuse(p, ep, 0, 0, now);
  }
  const bool made = id == kNoId;
  if (made) id = make_connection(ep, p.inner.source);
  if (id == kNoId) {
    ++counters.rx_refused;  // every connection is in use; the peer tries again
    return;
  }
  Connection& c = connections[id];
  // Where the peer is may have changed since; its EVs' reputation goes with the old route.
  if (c.phase == Connection::Phase::kIdle) c.route_known = false;
  if (find_route(id) != Status::kOk) {
    if (made) free_connection(id);
    return;
  }
  const std::uint32_t instance = p.bth.psn;
  if (c.self && (c.phase != Connection::Phase::kOpen || instance != c.instance)) return;

  const bool same_life = body->incarnation == c.peer_incarnation;
  // A late INIT of a life that we never knew looks like a restart. Which of two lives is the living one shows in that
  // it still calls when all packets of the other must be dead.
  const bool over =
      body->incarnation == c.former_incarnation && c.former_incarnation != 0 && now - c.learnt_at < kLateInit;
  if (c.peer_known) {
    if (same_life && instance == c.peer_instance) {
      // A repeated INIT: answered below.
    } else if (!planted(Bug::kStaleInitAccepted) && (same_life ? !newer(instance, c.peer_instance) : over)) {
      return;  // a late duplicate of what was before
    } else {
      // The peer started over. What we sent to its former self is lost; if it never knew us, nothing was sent.
      if (c.peer_knows_us) {
        fail_connection(id, Status::kPeerRestarted, now);
      } else {
        new_instance(id);
      }
    }
  } else if (same_life && c.peer_incarnation != 0 && !c.self) {
    if (instance == c.peer_instance && c.phase == Connection::Phase::kIdle) {
      return refuse(p, ep, 0, e.incarnation, now);  // we gave this instance up: it must start over
    }
    if (!newer(instance, c.peer_instance) && instance != c.peer_instance) return;
    if (instance == c.peer_instance) return refuse(p, ep, 0, e.incarnation, now);
  } else if (over && !planted(Bug::kStaleInitAccepted)) {
    return;
  }
  if (c.phase == Connection::Phase::kIdle) {
    new_instance(id);
    ++counters.accepts;
    push_event(id, EventKind::kAccepted, Status::kOk);
  }
  if (!c.peer_known) learn_peer(id, *body, instance, now);
  c.init_answer_psn = instance;
  c.init_answer_ev = p.ev;
  heard(c, plane);  // the answer goes the way that is known to work, by a next hop that the driver has just learned
  want_control(id, Connection::kSendInitAnswer);
  settle(id, now);
}

void Core::State::on_init_answer(EpId ep, const wire::Packet& p, Tick now) {
  const ConnId id = find_connection(ep, p.inner.source);
  if (id == kNoId) return;
  Connection& c = connections[id];
  if (c.phase != Connection::Phase::kOpen || !c.init_active || p.eeth.request_psn != c.instance) return;
  if (p.eeth.status != 0) {
    ++counters.rx_refused;
    return fail_connection(id, Status::kRefused, now);
  }
  const auto raw = p.payload.first(p.eeth.body_length);
  const auto body = wire::decode_init(raw);
  if (!body) {
    ++counters.rx_malformed[static_cast<std::size_t>(wire::ParseError::kBadField)];
    return;
  }
  if (!authentic(p, *body, raw, true)) {
    ++counters.rx_refused;
    return fail_connection(id, Status::kRefused, now);
  }
  if (body->peer_incarnation != endpoints[ep].incarnation) return;
  const bool same_life = body->incarnation == c.peer_incarnation;
  if (c.peer_known && !(same_life && p.bth.psn == c.peer_instance)) {
    if (c.peer_knows_us || (same_life && !newer(p.bth.psn, c.peer_instance))) return;
    c.peer_known = false;  // its answer to us is newer than what we had learnt; nothing was sent to it yet
  }
  if (!c.peer_known) learn_peer(id, *body, p.bth.psn, now);
  peer_knows(id, now);
  settle(id, now);
}

void Core::State::learn_peer(ConnId id, const wire::InitBody& body, std::uint32_t instance, Tick now) {
  Connection& c = connections[id];
  c.peer_known = true;
  c.peer_qpn = body.qpn;
  // Late INITs of the former life must not end the new one, also where the former was over already (closed, failed).
  if (c.peer_incarnation != 0 && c.peer_incarnation != body.incarnation) c.former_incarnation = c.peer_incarnation;
  c.learnt_at = now;
  c.peer_incarnation = body.incarnation;
  c.peer_instance = instance;
  c.peer_window = std::clamp(body.window, 1u, 4096u);
  c.rx.reset(body.psn);
  c.rcvd_bytes = 0;
  c.peer_received = 0;
  const std::uint32_t own = c.route.mtu > kHeaderBudget ? (c.route.mtu - kHeaderBudget) & ~3u : 4;
  c.full_mtu = std::max(std::min(own, body.mtu) & ~3u, 4u);
  c.mtu = std::min(kBaseMtu, c.full_mtu);
  c.cc.start(config.cc, cc_link(c));
  make_template(c);
}

void Core::State::peer_knows(ConnId id, Tick now) {
  Connection& c = connections[id];
  if (c.peer_knows_us || !c.peer_known) return;
  c.peer_knows_us = true;
  c.init_active = false;
  c.init_next = kNever;
  c.control &= static_cast<std::uint16_t>(~Connection::kSendInit);
  c.silent_since = active;
  c.last_activity = now;
  if (!c.announced) {
    c.announced = true;
    ++counters.connects;
    push_event(id, EventKind::kConnected, Status::kOk);
  }
  if ((links_up & plane_mask(c.route)) != plane_mask(c.route) || loop.lossy != 0) tell_ports(id, now);
  start_mtu_probes(id, now);
  touch(id);
}

void Core::State::on_no_endpoint(EpId ep, const wire::Packet& p, Tick now) {
  const ConnId id = find_connection(ep, p.inner.source);
  if (id == kNoId) return;
  Connection& c = connections[id];
  if (c.phase == Connection::Phase::kClosing) {
    if (p.eeth.request_psn == c.instance || p.eeth.argument == c.peer_qpn) closed_connection(id);
    return;
  }
  if (c.phase != Connection::Phase::kOpen) return;
  if (!c.peer_knows_us) {
    // Not there yet, or there and unwilling to take this instance up again: the next INIT is a new beginning.
    if (c.init_active && p.eeth.incarnation != 0 && p.eeth.request_psn == c.instance) {
      new_instance(id);
      c.init_active = true;
    }
    return;
  }
  // Only who saw our packets knows the QPN that they were sent to.
  if (p.eeth.argument == 0 || p.eeth.argument != c.peer_qpn) return;
  const bool restarted = p.eeth.incarnation != 0;
  fail_connection(id, restarted ? Status::kPeerRestarted : Status::kPeerDead, now);
  settle(id, now);
}

void Core::State::fail_messages(ConnId id, Status status) {
  Connection& c = connections[id];
  while (c.first_message != kNone) push_done(id, c.first_message, status);
  c.queue = c.urgent = c.ordered = IndexQueue{};
  c.parked = false;
  c.tail_credit = 0;
  drop_suspects(c);
  c.tx.reset(segments, c.first_psn);
  for (TxPlane& plane : c.planes) plane.head = plane.tail = kNone;
  c.inflight_bytes = 0;
  c.inflight_packets = 0;
  c.balance.clear_inflight();
  wake_starved();
}

void Core::State::fail_connection(ConnId id, Status status, Tick) {
  Connection& c = connections[id];
  fail_messages(id, status);
  if (status == Status::kPeerDead) ++counters.peers_dead;
  push_event(id, EventKind::kConnFailed, status);
  drop_ordered(c);
  c.phase = Connection::Phase::kIdle;
  c.qpn = 0;
  c.peer_known = c.peer_knows_us = c.announced = false;
  c.init_active = false;
  c.init_next = c.sack_at = c.mtu_next = c.health.tell_next = c.health.probe_next = kNever;
  c.ask_at = c.hold_until = kNever;
  c.control = 0;
}

}  // namespace mrc::transport
