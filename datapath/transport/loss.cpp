// SPDX-License-Identifier: BSD-2-Clause
// Loss: gaps (later packets SACKed), tails (nothing later SACKed), time-outs. A gap is retransmitted early and may be a
// mistake; which EV is to blame for it is judged apart and later (blame.cpp).
#include <algorithm>

#include "mrc/transport/state.hpp"

namespace mrc::transport {
namespace {

constexpr std::uint32_t kTailBytes = 32768;
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
  const int doubled = std::clamp(c.backoff - config.retry_linear, 0, 20);
  return std::min(Duration{base.ns << doubled}, config.rto_max);
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
  for (unsigned p = 0; p < c.planes.size(); ++p) {
    TxPlane& plane = c.planes[p];
    const bool sacked = (c.sacked_planes >> p & 1) != 0;
    unsigned unreported = 0;
    for (std::uint32_t at = plane.head; at != kNone;) {
      const TxRecord& record = TxWindow::at(segments, at);
      const bool passed = sacked && static_cast<std::int32_t>(plane.high_order - record.order) >= c.gap;
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
  return std::min(at, tail_at(c, oldest));
}

/// How long to wait for news of the packet sent last. Without A flag its SACK may be sent later.
Duration Core::State::tail_wait(const Connection& c) const {
  const Duration wait = c.rtt.srtt() + std::max(c.rtt.variation() * 4, config.tail_floor);
  return c.asked ? wait : wait + config.sack_delay;
}

/// When to send the oldest packets again, should nothing be SACKed that was sent later. Each time takes twice as long,
/// until the time-out comes first. `oldest`: when the oldest packet in flight was sent; what is sent again and again,
/// and NACKed, does not put its turn off.
Tick Core::State::tail_at(const Connection& c, Tick oldest) const {
  if (c.backoff != 0) return kNever;
  const Duration wait = tail_wait(c);
  Tick from = std::max(std::min(c.last_sent, oldest + wait), c.last_progress);
  if (c.tail_probes != 0) from = std::max(from, c.tail_probe_sent);
  return from + Duration{wait.ns << std::min<unsigned>(c.tail_probes, 20)};
}

/// The packets themselves go again rather than a question about them: a round trip less, and where only the SACK was
/// lost, a copy brings another one at once. They count as lost for no path and no window yet; who was to blame is
/// judged by what is SACKed next.
void Core::State::tail_due(ConnId id, Tick now) {
  Connection& c = connections[id];
  ++counters.tail_timeouts;
  if (c.tail_probes != 0) forgive_tails(c);
  c.tail_probe_sent = now;
  std::uint32_t bytes = 0;
  unsigned left = config.tail_packets;
  for (std::uint64_t seq = c.tx.una(); seq < c.tx.next() && left != 0; ++seq) {
    const std::uint32_t number = c.tx.number(seq);
    TxRecord& record = TxWindow::at(segments, number);
    if (c.tx.acked(segments, seq) || (record.flags & TxRecord::kLinked) == 0) continue;
    bytes += record_bytes(record);
    if (bytes > kTailBytes && left != config.tail_packets) break;
    if (c.tail_probes == 0) suspect_path(c, seq, record, true);
    record.flags |= TxRecord::kTail;
    lose(id, number);
    ++c.tail_credit;
    if (c.silence_budget != kNone) ++c.silence_budget;  // it paid for the first copy
    ++counters.tail_copies;
    --left;
  }
  if (c.tail_probes < 255) ++c.tail_probes;
  if (c.inflight_packets != 0) want_control(id, Connection::kSendProbe);  // and what of the rest?
}

void Core::State::loss_timers(ConnId id, Tick now) {
  Connection& c = connections[id];
  if (expects_answer(c) && active - c.silent_since >= config.peer_timeout.ns) {
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
    const unsigned tries = unsigned{config.retry_linear} + config.retry_exponential;
    if (c.backoff == tries) {
      ++counters.retries_exhausted;
      if (config.retry_error) return fail_connection(id, Status::kPeerDead, now);
    }
    if (c.backoff < 255) ++c.backoff;
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
  if (now >= tail_at(c, oldest)) tail_due(id, now);
}

}  // namespace mrc::transport
