// SPDX-License-Identifier: BSD-2-Clause
// What has an order: WriteImm, and semantic writes with their ACK and NAK (0xD1). Both ends.
//
// The last packet of such a write takes effect when everything with a lower number has arrived; one that comes early
// waits in a pool that all connections share. A refused write is NAKed. NAKs are numbered (8 bits), and every SACK and
// ACK tells how many there have been, so that no message ends before a NAK on its way or lost could concern it; the
// peer holds each until a probe of ours says that it has come.
#include <algorithm>

#include "mrc/transport/state.hpp"

namespace mrc::transport {
namespace {

bool ordered_kind(const WriteRequest& request) {
  return request.has_imm || request.semantic;
}
std::int8_t after(std::uint8_t a, std::uint8_t b) {
  return static_cast<std::int8_t>(static_cast<std::uint8_t>(a - b));
}

}  // namespace

// --- sending

/// Urgent messages first, but never in the middle of a semantic write: its number stands for all before it.
IndexQueue& Core::State::next_queue(Connection& c) {
  if (c.urgent.empty()) return c.queue;
  if (c.queue.empty()) return c.urgent;
  const Message& m = messages[c.queue.head];
  return m.sent != 0 && m.request.semantic ? c.queue : c.urgent;
}

/// As many WriteImms as may be are in flight, and another one is next.
bool Core::State::held_back(const Connection& c) const {
  if (c.imms < config.imm_in_flight || !c.urgent.empty() || c.queue.empty()) return false;
  const Message& m = messages[c.queue.head];
  return m.request.has_imm && m.sent == 0;
}

/// All packets that were sent of it are SACKed.
void Core::State::finished(ConnId id, std::uint32_t message) {
  Connection& c = connections[id];
  const Message& m = messages[message];
  if (ordered_kind(m.request) && !m.cut) return;  // end_ordered()
  if (c.naks_told != c.naks_seen) {
    c.parked = true;
    return;
  }
  push_done(id, message, m.status);
}

/// Ends what may end, once more is known: ordered messages from the oldest on, and those that waited for a NAK.
void Core::State::end_ordered(ConnId id) {
  Connection& c = connections[id];
  if (c.naks_told != c.naks_seen) return;
  while (!c.ordered.empty()) {
    const std::uint32_t at = c.ordered.head;
    const Message& m = messages[at];
    if (c.tx.una() < m.end) break;
    const bool told = c.acked_any && static_cast<std::int16_t>(static_cast<std::uint16_t>(c.acked_msn - m.msn)) >= 0;
    if (m.request.semantic && m.status == Status::kOk && !told) break;
    c.ordered.head = m.queue_next;
    if (c.ordered.head == kNone) c.ordered.tail = kNone;
    push_done(id, at, m.status);
  }
  if (!c.parked) return;
  c.parked = false;
  for (std::uint32_t at = c.first_message; at != kNone;) {
    const Message& m = messages[at];
    const std::uint32_t next = m.next;
    const bool sent = m.sent != 0 && (m.cut || m.sent == m.packets);
    if (sent && m.acked == m.sent && (m.cut || !ordered_kind(m.request))) push_done(id, at, m.status);
    at = next;
  }
}

/// The peer refused `told` messages so far.
void Core::State::naks_told(Connection& c, std::uint8_t told) {
  if (after(told, c.naks_told) <= 0) return;
  c.naks_told = told;
  ++c.tail_probe_id;  // answers to what was asked before this are older news
}

/// … and knows that we have seen `seen` of their NAKs. As an answer to our question it puts right whatever was told
/// wrongly before: neither end waits for what the other does not have.
void Core::State::naks_answered(Connection& c, std::uint8_t told, std::uint8_t seen) {
  c.naks_told = told;
  if (after(seen, c.naks_seen) > 0 || after(c.naks_seen, told) > 0) {
    c.naks_seen = after(c.naks_seen, told) > 0 ? told : seen;
    c.naks_ahead = 0;
  }
}

/// The peer owes an answer that nothing in flight will bring.
bool Core::State::overdue(const Connection& c) const {
  if (c.naks_told != c.naks_seen) return true;
  return !c.ordered.empty() && messages[c.ordered.head].end <= c.tx.una();
}

void Core::State::on_acknowledge(ConnId id, const wire::Packet& p, Tick) {
  Connection& c = connections[id];
  const auto msn = static_cast<std::uint16_t>(p.aeth.msn);
  const auto number = static_cast<std::uint8_t>(p.aeth.msn >> 16);
  c.ask_tries = 0;
  touch(id);
  naks_told(c, number);
  if (p.aeth.syndrome != wire::Aeth::kNakAccess) {
    if ((p.aeth.syndrome & 0x60) != 0) return;  // no NAK that we know
    if (!c.acked_any || static_cast<std::int16_t>(static_cast<std::uint16_t>(msn - c.acked_msn)) > 0) c.acked_msn = msn;
    c.acked_any = true;
    return end_ordered(id);
  }
  want_control(id, Connection::kSendProbe);  // says that it has come
  const int ahead = after(number, c.naks_seen);
  if (ahead <= 0 || ahead > 8 || (c.naks_ahead >> (ahead - 1) & 1) != 0) return;
  c.naks_ahead |= static_cast<std::uint8_t>(1u << (ahead - 1));
  for (; (c.naks_ahead & 1) != 0; c.naks_ahead >>= 1) ++c.naks_seen;
  for (std::uint32_t at = c.first_message; at != kNone; at = messages[at].next) {
    Message& m = messages[at];
    if (m.msn != msn || m.sent == 0) continue;
    m.status = Status::kAccess;
    if (m.sent < m.packets && !m.cut) {
      // Nothing more of it is sent; what is in flight still needs its SACKs, or the window would stay open.
      IndexQueue& queue = c.queue.head == at ? c.queue : c.urgent;
      if (queue.head == at) {
        queue.head = m.queue_next;
        if (queue.head == kNone) queue.tail = kNone;
        m.cut = true;
        if (m.acked == m.sent) c.parked = true;
      }
    }
    break;
  }
  end_ordered(id);
}

// --- receiving

/// The peer has seen our NAKs up to number `seen`.
void Core::State::confirmed(Connection& c, std::uint8_t seen) {
  if (after(seen, c.naks_confirmed) > 0 && after(c.naks, seen) >= 0) c.naks_confirmed = seen;
}

/// May this packet be taken? A WriteImm or the end of a semantic write that comes early needs a place to wait.
bool Core::State::room_for(Connection& c, const wire::Packet& p, std::uint64_t seq) const {
  const bool imm = wire::has_imm(p.bth.opcode);
  if (imm && imm_events + imms_waiting >= 2 * limits.ordered) return false;
  return seq == c.rx.next() || ordered.available() != 0;
}

/// Notes that a message was refused and will be NAKed, once; false while too many NAKs are unconfirmed.
bool Core::State::refuse_write(ConnId id, std::uint64_t seq, std::uint16_t msn) {
  Connection& c = connections[id];
  for (std::uint8_t n = c.naks_confirmed; n != c.naks;) {
    if (c.refused.msn[++n % Refused::kSize] == msn) return true;
  }
  const bool full = static_cast<std::uint8_t>(c.naks - c.naks_confirmed) >= Connection::kMaxRefused;
  if (!full) {
    const unsigned at = ++c.naks % Refused::kSize;
    c.refused.seq[at] = static_cast<std::uint32_t>(seq);
    c.refused.msn[at] = msn;
    c.refused.used |= static_cast<std::uint8_t>(1u << at);
    ++counters.writes_refused;
  }
  // The new one, or all that the peer has not confirmed.
  if (full || (c.control & Connection::kSendNak) == 0) {
    c.nak_next = static_cast<std::uint8_t>(full ? c.naks_confirmed + 1 : c.naks);
  }
  want_control(id, Connection::kSendNak);
  return !full;
}

void Core::State::write_nak(Connection& c, wire::Packet& p) {
  p.aeth = {wire::Aeth::kNakAccess, std::uint32_t{c.nak_next} << 16 | c.refused.msn[c.nak_next % Refused::kSize]};
  ++c.nak_next;
}

/// `p` was placed (or refused) and marked.
void Core::State::arrived_ordered(ConnId id, const wire::Packet& p, std::uint64_t seq) {
  Connection& c = connections[id];
  Ordered item;
  item.seq = seq;
  item.has_imm = wire::has_imm(p.bth.opcode);
  item.semantic = p.bth.solicited;
  item.imm = item.has_imm ? p.imm.value : 0;
  item.length = p.reth.length;
  item.msn = p.meth.msn;
  item.rqmsn = p.meth.rqmsn;
  if (c.rx.next() > seq) return take_effect(id, item);
  const std::uint32_t at = ordered.take();
  assert(at != kNone);
  ordered[at] = item;
  if (item.has_imm) ++imms_waiting;
  // By number; they come nearly in order.
  if (c.waiting.empty() || ordered[c.waiting.tail].seq < seq) {
    (c.waiting.empty() ? c.waiting.head : ordered[c.waiting.tail].next) = at;
    c.waiting.tail = at;
    return;
  }
  std::uint32_t* link = &c.waiting.head;
  while (ordered[*link].seq < seq) link = &ordered[*link].next;
  ordered[at].next = *link;
  *link = at;
}

void Core::State::take_effect(ConnId id, const Ordered& item) {
  Connection& c = connections[id];
  if (item.semantic) {
    c.ack_msn = item.msn;
    c.ack_any = true;
    want_control(id, Connection::kSendAck);
  }
  if (!item.has_imm) return;
  c.rx_rqmsn = item.rqmsn;
  c.rx_rqmsn_any = true;
  for (unsigned left = c.refused.used; left != 0; left &= left - 1) {
    const auto i = static_cast<unsigned>(std::countr_zero(left));
    // A message number comes again after 2^16 packets at the soonest.
    if (c.refused.msn[i] == item.msn && static_cast<std::uint32_t>(item.seq) - c.refused.seq[i] + 0x8000u < 0x10000u)
      return;
  }
  [[maybe_unused]] const bool queued =
      events.push(QueuedEvent({EventKind::kImmediate, Status::kOk, c.ep, id, 0, item.imm, item.length, item.msn}));
  assert(queued);
  ++imm_events;
  ++counters.rx_immediate;
}

/// All below rx.next() has arrived.
void Core::State::deliver_ordered(ConnId id) {
  Connection& c = connections[id];
  while (!c.waiting.empty() && ordered[c.waiting.head].seq < c.rx.next()) {
    const std::uint32_t at = c.waiting.head;
    c.waiting.head = ordered[at].next;
    if (c.waiting.head == kNone) c.waiting.tail = kNone;
    if (ordered[at].has_imm) --imms_waiting;
    take_effect(id, ordered[at]);
    ordered.give(at);
  }
}

void Core::State::drop_ordered(Connection& c) {
  while (!c.waiting.empty()) {
    const std::uint32_t at = c.waiting.head;
    c.waiting.head = ordered[at].next;
    if (ordered[at].has_imm) --imms_waiting;
    ordered.give(at);
    if (c.waiting.head == kNone) c.waiting.tail = kNone;
  }
}

}  // namespace mrc::transport
