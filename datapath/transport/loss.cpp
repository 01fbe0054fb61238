// SPDX-License-Identifier: BSD-2-Clause
// Loss: gaps (later packets SACKed), tail probes, time-outs. A gap is retransmitted early and may be a mistake; which
// EV is to blame for it is judged apart and later (blame.cpp).
#include <algorithm>

#include "mrc/transport/state.hpp"

namespace mrc::transport {
namespace {

constexpr std::uint8_t kMaxTailProbes = 5;  // each waits twice as long as the one before
constexpr std::uint8_t kMaxBackoff = 16;
constexpr unsigned kMaxUnreported = 16;  // records looked past, waiting for a report about them
}  // namespace

std::uint32_t Core::State::record_bytes(const TxRecord& record) const {
  const Message& m = messages[record.message];
  const std::uint64_t offset = std::uint64_t{record.packet} * m.mtu;
  const std::uint64_t left = m.request.length - std::min<std::uint64_t>(offset, m.request.length);
  return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(left, 1, m.mtu));
}

void Core::State::link(Connection& c, std::uint32_t number, TxRecord& record) {
  TxPlane& plane = c.planes[record.plane];
  record.flags |= TxRecord::kLinked;
  record.next = kNone;
  record.previous = plane.tail;
  (plane.tail == kNone ? plane.head : TxWindow::at(segments, plane.tail).next) = number;
  plane.tail = number;
  ++c.inflight_packets;
  const std::uint32_t bytes = record_bytes(record);
  c.inflight_bytes += bytes;
  c.balance.on_sent(record.plane, bytes);
}

void Core::State::unlink(Connection& c, TxRecord& record, std::uint32_t bytes) {
  TxPlane& plane = c.planes[record.plane];
  (record.previous == kNone ? plane.head : TxWindow::at(segments, record.previous).next) = record.next;
  (record.next == kNone ? plane.tail : TxWindow::at(segments, record.next).previous) = record.previous;
  record.flags &= static_cast<std::uint8_t>(~TxRecord::kLinked);
  --c.inflight_packets;
  c.inflight_bytes -= bytes;
  c.balance.on_gone(record.plane, bytes);
}

Duration Core::State::rto(const Connection& c) const {
  const Duration base = c.rtt.rto(config.rto_min, config.rto_max);
  if (c.backoff >= 32) return config.rto_max;
  return std::min(Duration{base.ns << std::min<unsigned>(c.backoff, 20)}, config.rto_max);
}

/// How long after its sending a packet may still arrive although later ones did.
Duration Core::State::patience(const Connection& c) const {
  return c.rtt.srtt() + std::max(c.rtt.variation() * 4, config.reorder_floor) + c.reordering;
}

void Core::State::lose(ConnId id, std::uint32_t number) {
  Connection& c = connections[id];
  TxRecord& record = TxWindow::at(segments, number);
  unlink(c, record, planted(Bug::kLostBytesInFlight) ? 0 : record_bytes(record));
  c.tx.mark_lost(segments, TxWindow::sequence(segments, number));
}

void Core::State::declare_lost(ConnId id, std::uint32_t number, bool suspect, Tick now) {
  Connection& c = connections[id];
  const TxRecord& record = TxWindow::at(segments, number);
  signal_loss(c, record.plane, record_bytes(record), now);
  if (suspect && plane_sound(c, record.plane)) suspect_path(c, TxWindow::sequence(segments, number), record);
  lose(id, number);
}

void Core::State::detect_losses(ConnId id, Tick now) {
  Connection& c = connections[id];
  const Duration wait = patience(c);
  for (TxPlane& plane : c.planes) {
    unsigned unreported = 0;
    for (std::uint32_t at = plane.head; at != kNone;) {
      const TxRecord& record = TxWindow::at(segments, at);
      const bool passed = plane.any_sacked && static_cast<std::int32_t>(plane.high_order - record.order) >= c.gap;
      if (!passed && now - record.sent < wait) break;
      const std::uint32_t next = record.next;
      // A cleared bit is no information, and no bit even less: something sent later must have been there when the
      // peer last told about this part of the window.
      if (segments[at / 64].reported > record.sent) {
        declare_lost(id, at, true, now);
      } else if (++unreported > kMaxUnreported) {
        break;
      }
      at = next;
    }
  }
}

Tick Core::State::loss_deadline(const Connection& c) const {
  const Duration wait = patience(c);
  Tick oldest = kNever;
  Tick at = kNever;
  for (const TxPlane& plane : c.planes) {
    if (plane.head == kNone) continue;
    const TxRecord& record = segments[plane.head / 64].records[plane.head % 64];
    oldest = std::min(oldest, record.sent);
    std::uint32_t number = plane.head;
    for (unsigned n = 0; number != kNone && n <= kMaxUnreported; ++n) {
      const TxRecord& candidate = segments[number / 64].records[number % 64];
      if (segments[number / 64].reported > candidate.sent) {
        at = std::min(at, candidate.sent + wait);
        break;
      }
      number = candidate.next;
    }
  }
  if (oldest == kNever) return at;
  at = std::min(at, std::max(oldest, c.last_progress) + rto(c));
  return std::min(at, tail_probe_at(c));
}

/// When to ask what arrived, should nothing more be sent that would make the peer tell.
Tick Core::State::tail_probe_at(const Connection& c) const {
  if (c.tail_probes >= kMaxTailProbes || c.backoff != 0) return kNever;
  Tick from = std::max(c.last_sent, c.last_progress);
  if (c.tail_probes != 0) from = std::max(from, c.tail_probe_sent);
  const Duration wait = c.rtt.srtt() + std::max(c.rtt.variation() * 4, config.reorder_floor) + config.sack_delay;
  return from + Duration{wait.ns << c.tail_probes};
}

void Core::State::loss_timers(ConnId id, Tick now) {
  Connection& c = connections[id];
  if (c.messages != 0 && active - c.silent_since >= config.peer_timeout.ns) {
    return fail_connection(id, Status::kPeerDead, now);
  }
  if (c.suspects != 0) judge_suspects(id, now);
  if (c.inflight_packets == 0) return;
  detect_losses(id, now);
  Tick oldest = kNever;
  for (const TxPlane& plane : c.planes) {
    if (plane.head != kNone) oldest = std::min(oldest, TxWindow::at(segments, plane.head).sent);
  }
  if (oldest == kNever) return;
  if (now >= std::max(oldest, c.last_progress) + rto(c)) {
    ++counters.rto;
    c.backoff = static_cast<std::uint8_t>(std::min<unsigned>(c.backoff + 1u, kMaxBackoff));
    signal_timeout(c, now);
    for (TxPlane& plane : c.planes) {
      while (plane.head != kNone) {
        // Others SACKed after it speak against its path; silence on all paths speaks against none.
        const bool others = segments[plane.head / 64].reported > TxWindow::at(segments, plane.head).sent;
        declare_lost(id, plane.head, others, now);
      }
    }
    c.silence_budget = std::max<std::uint32_t>(4, 2u * c.route.planes);
    return;
  }
  if (now >= tail_probe_at(c)) {
    ++c.tail_probes;
    c.tail_probe_sent = now;
    c.tail_probe_id = static_cast<std::uint16_t>(random.next());
    want_control(id, Connection::kSendProbe);
  }
}

}  // namespace mrc::transport
