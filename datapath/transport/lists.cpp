// SPDX-License-Identifier: BSD-2-Clause
// Events, the lists of connections with something to send, and the one deadline that each connection has.
#include <algorithm>

#include "mrc/transport/state.hpp"

namespace mrc::transport {

void Core::State::push_event(ConnId id, EventKind kind, Status status) {
  Connection& c = connections[id];
  const auto bit = static_cast<std::uint8_t>(1u << static_cast<unsigned>(kind));
  if (c.pending_events & bit) return;  // not polled yet: said once is enough, and bounds the queue
  c.pending_events |= bit;
  [[maybe_unused]] const bool queued = events.push(QueuedEvent({kind, status, c.ep, id}));
  assert(queued);
}

void Core::State::push_done(ConnId id, std::uint32_t message, Status status) {
  Connection& c = connections[id];
  Message& m = messages[message];
  if (m.request.has_imm && m.sent != 0) --c.imms;
  [[maybe_unused]] const bool queued =
      events.push(QueuedEvent({EventKind::kWriteDone, status, c.ep, id, m.request.cookie}));
  assert(queued);
  ++write_events;
  if (planted(Bug::kCompletionTwice) && m.packets > 8 &&
      events.push(QueuedEvent({EventKind::kWriteDone, status, c.ep, id, m.request.cookie})))
    ++write_events;
  (m.previous != kNone ? messages[m.previous].next : c.first_message) = m.next;
  (m.next != kNone ? messages[m.next].previous : c.last_message) = m.previous;
  --c.messages;
  --outstanding;
  messages.give(message);
}

void Core::State::push(IndexQueue& list, ConnId id, std::uint32_t Connection::*next) {
  connections[id].*next = kNone;
  (list.tail == kNone ? list.head : connections[list.tail].*next) = id;
  list.tail = id;
}

ConnId Core::State::pop(IndexQueue& list, std::uint32_t Connection::*next) {
  const ConnId id = list.head;
  list.head = connections[id].*next;
  if (list.head == kNone) list.tail = kNone;
  return id;
}

void Core::State::want_control(ConnId id, std::uint16_t flags) {
  Connection& c = connections[id];
  c.control |= flags;
  if (c.in_control) return;
  c.in_control = true;
  push(control, id, &Connection::next_control);
}

void Core::State::want_data(ConnId id) {
  Connection& c = connections[id];
  if (c.in_data) return;
  c.in_data = true;
  push(data, id, &Connection::next_data);
}

void Core::State::touch(ConnId id) {
  Connection& c = connections[id];
  if (c.touched) return;
  c.touched = true;
  c.next_touched = touched;
  touched = id;
}

void Core::State::wake_starved() {
  while (!starved.empty() && segments.available() != 0) {
    const ConnId id = pop(starved, &Connection::next_starved);
    connections[id].in_starved = false;
    if (connections[id].tx.span() == 0) {
      connections[id].silent_since = active;  // from now on an answer is expected
      schedule(id, last_call);
    }
    if (has_data(connections[id])) want_data(id);
    if (segments.available() < 2) return;
  }
}

void Core::State::enter(Tick now) {
  if (!called) {
    called = true;
    last_call = tokens_at = now;
    return;
  }
  if (now <= last_call) return;
  Duration elapsed = now - last_call;
  const Tick due = std::max(timers.next(), last_call);
  if (due < now && now - due > kStall) {
    stalled_at = now;
    if (!grace_used) {
      grace_used = true;
      grace_loops = kStallLoops;
      grace_until = now + kStallGrace;
    }
    elapsed = due - last_call;
  }
  active += elapsed.ns;
  last_call = now;
}

Tick Core::State::deadline(const Connection& c, Tick now) const {
  Tick at = std::min(c.sack_at, std::min(c.close_next, c.close_until));
  if (c.init_active) at = std::min(at, c.init_next);
  if (c.phase != Connection::Phase::kOpen || !c.peer_knows_us) return at;
  at = std::min({at, c.mtu_next, c.health.tell_next, c.health.probe_next});
  Tick loss = kNever;
  if (c.inflight_packets != 0) loss = loss_deadline(c);
  at = std::min(at, std::min(c.ask_at, c.hold_until));
  if (c.suspects != 0) {
    const Duration age = rto(c);
    for (const TxPlane& plane : c.planes) {
      if (plane.suspects.empty()) continue;
      // Judged by age only once something later was SACKed; until then its time may well have passed.
      const Tick sent = suspects[plane.suspects.head].sent;
      if (c.high_sent > sent) loss = std::min(loss, sent + age);
    }
  }
  at = std::min(at, in_grace(now) ? std::max(loss, grace_until) : loss);
  if (expects_answer(c)) {
    at = std::min(at, now + Duration{std::max<std::int64_t>(config.peer_timeout.ns - (active - c.silent_since), 0)});
  }
  // Bad paths are probed while there is traffic, and a while longer. A probe that waits for a plane needs no timer.
  const Tick probe = (c.control & Connection::kSendEvProbe) != 0 ? kNever : c.evs.next_probe();
  if (probe != kNever && probe < c.last_activity + seconds(1)) at = std::min(at, probe);
  return at;
}

void Core::State::schedule(ConnId id, Tick now) {
  const Tick when = deadline(connections[id], now);
  // Later is left for when it fires: most deadlines only ever move away.
  if (when < timers.when(id)) timers.set(id, when);
}

void Core::State::expire(ConnId id, Tick now) {
  Connection& c = connections[id];
  if (c.sack_at <= now) {
    c.sack_at = kNever;
    c.reports_left = 64;
    want_control(id, Connection::kSendSack);
  }
  if (c.init_active && c.init_next <= now) init_due(id, now);
  if (c.close_next <= now || c.close_until <= now) close_due(id, now);
  if (c.phase != Connection::Phase::kOpen || !c.peer_knows_us) return;
  if (c.mtu_next <= now) mtu_probe_due(id, now);
  if (c.health.tell_next <= now) tell_ports_again(id, now);
  if (c.health.probe_next <= now) plane_probes_due(id, now);
  const Tick probe = c.evs.next_probe();
  if (probe <= now && probe < c.last_activity + seconds(1)) want_control(id, Connection::kSendEvProbe);
  if (c.hold_until <= now) c.hold_until = kNever;
  if (c.ask_at <= now) {
    c.ask_tries = static_cast<std::uint8_t>(std::min(c.ask_tries + 1, 20));
    c.ask_at = now + std::min(Duration{tail_wait(c).ns << c.ask_tries}, config.rto_max);
    want_control(id, Connection::kSendProbe);
  }
  if (in_grace(now)) return;
  loss_timers(id, now);
}

void Core::State::settle(ConnId id, Tick now) {
  Connection& c = connections[id];
  if (c.phase == Connection::Phase::kFree) return;
  if (c.phase == Connection::Phase::kOpen && c.peer_knows_us) {
    if (!in_grace(now)) {
      if (c.inflight_packets != 0) detect_losses(id, now);
      if (c.suspects != 0) judge_suspects(id, now);
    }
    if (!overdue(c)) {
      c.ask_at = kNever;
      c.ask_tries = 0;
    } else if (c.ask_at == kNever) {
      c.ask_at = now + tail_wait(c);
    }
    if (has_data(c)) want_data(id);
  }
  if (endpoints[c.ep].closing) {
    try_close(id, now);
    if (c.phase == Connection::Phase::kFree) return;
  }
  schedule(id, now);
}

}  // namespace mrc::transport
