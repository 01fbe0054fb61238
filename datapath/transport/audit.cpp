// SPDX-License-Identifier: BSD-2-Clause
// The core's invariants, one check each. The quick half looks at counters and deadlines, the full half (audit_walk.cpp)
// at every record, list and pool.
#include "mrc/transport/audit.hpp"

#include <algorithm>

#include "audit_walk.hpp"
#include "mrc/transport/state.hpp"

namespace mrc::transport {
namespace {

/// A deadline that moved nearer while time passes is honoured within the driver's stall grace.
constexpr Duration kSlack = kStallGrace + microseconds(1);

Finding wrong(const char* what, ConnId conn, std::uint64_t found = 0, std::uint64_t expected = 0) {
  return {what, conn, found, expected};
}

std::uint64_t number(Tick t) {
  return static_cast<std::uint64_t>(t.ns);
}

Finding check_windows(const Core::State& s, ConnId id) {
  const Connection& c = s.connections[id];
  if (c.tx.una() > c.tx.next()) return wrong("una lies above next", id, c.tx.una(), c.tx.next());
  if (c.tx.span() > s.config.window) {
    return wrong("more packets are sent than the window allows", id, c.tx.span(), s.config.window);
  }
  if (c.inflight_packets + c.tx.lost() > c.tx.span()) {
    return wrong("more packets in flight and lost than in the window", id, c.inflight_packets + c.tx.lost(),
                 c.tx.span());
  }
  if (c.inflight_packets == 0 && c.inflight_bytes != 0) {
    return wrong("bytes in flight without packets", id, c.inflight_bytes, 0);
  }
  if (c.inflight_bytes < c.inflight_packets) {
    return wrong("each packet in flight counts at least one byte", id, c.inflight_bytes, c.inflight_packets);
  }
  if (c.peer_known) {
    if (c.rx.next() > c.rx.high() || c.rx.high() - c.rx.next() > c.rx.size()) {
      return wrong("the receive window holds more than it can", id, c.rx.high() - c.rx.next(), c.rx.size());
    }
    if (c.rx.high() > c.rx.next() && (c.rx.bits_from(c.rx.next()) & 1) != 0) {
      return wrong("the cumulative number lags behind what arrived", id, c.rx.next());
    }
  }
  return {};
}

/// Whatever is unfinished must have something that will carry it on.
Finding check_progress(const Core::State& s, ConnId id, Tick now) {
  const Connection& c = s.connections[id];
  const Tick timer = s.timers.when(id);
  const Tick due = s.deadline(c, now);
  // peer_timeout counts the time in which the driver was prompt, as far as it is known when the timer is set.
  const Duration drift = due == kNever ? Duration{} : Duration{std::max<std::int64_t>((due - now).ns, 0) / 64};
  if (due != kNever && timer > std::max(due, now) + kSlack + drift) {
    return wrong("the timer is set later than a deadline", id, number(timer), number(due));
  }
  if (c.control != 0 && !c.in_control &&
      (c.phase == Connection::Phase::kOpen || c.phase == Connection::Phase::kClosing)) {
    return wrong("a control packet is due and nobody will send it", id, c.control);
  }
  if (c.phase != Connection::Phase::kOpen) return {};
  if (!c.peer_knows_us) {
    if (c.messages != 0 && !c.init_active)
      return wrong("messages wait for a set-up that nobody drives", id, c.messages);
    return {};
  }
  if (s.has_data(c) && !c.in_data)
    return wrong("there is data to send and the connection is not on the list", id, c.tx.lost(), c.inflight_packets);
  if (c.inflight_packets != 0 && timer == kNever) {
    return wrong("packets are in flight and no timer runs", id, c.inflight_packets);
  }
  if (c.inflight_packets != 0 && timer > now + s.config.rto_max + kSlack) {
    return wrong("packets are in flight and the timer is further away than any time-out", id, number(timer),
                 number(now + s.config.rto_max));
  }
  const bool waits = c.ask_at != kNever || c.hold_until != kNever;  // for an answer, or a pause
  if (c.messages != 0 && c.inflight_packets == 0 && !c.in_data && !c.in_starved && !waits) {
    return wrong("messages are unfinished, nothing is in flight and nothing is about to be sent", id, c.messages,
                 c.tx.lost());
  }
  if (c.unsacked_bytes != 0 && c.sack_at == kNever &&
      (c.control & (Connection::kSendSack | Connection::kSendProbeReply)) == 0) {
    return wrong("received bytes wait for a SACK that is not planned", id, c.unsacked_bytes);
  }
  return {};
}

Finding check_connection(const Core::State& s, ConnId id, Tick now) {
  const Connection& c = s.connections[id];
  if (c.phase == Connection::Phase::kFree) return wrong("an endpoint lists a free connection", id);
  if (const Finding f = check_windows(s, id)) return f;
  return check_progress(s, id, now);
}

}  // namespace

Finding audit_quick(const Core& core, Tick now) {
  const Core::State& s = core.state();
  std::uint32_t outstanding = 0;
  for (const Endpoint& e : s.endpoints) {
    if (!e.used) continue;
    for (ConnId id = e.first_connection; id != kNone; id = s.connections[id].ep_next) {
      if (const Finding f = check_connection(s, id, now)) return f;
      outstanding += s.connections[id].messages;
    }
  }
  if (outstanding != s.outstanding) {
    return wrong("outstanding messages do not add up", kNoId, s.outstanding, outstanding);
  }
  if (s.messages.size() - s.messages.available() != outstanding) {
    return wrong("messages were leaked or given back twice", kNoId, s.messages.size() - s.messages.available(),
                 outstanding);
  }
  return {};
}

std::size_t audit_scratch(const Core& core) {
  return AuditWalk::scratch(core.state());
}

Finding audit_full(const Core& core, Tick now, std::span<std::uint32_t> scratch, std::uint32_t* walked) {
  if (const Finding f = audit_quick(core, now)) return f;
  AuditWalk walk(core.state(), scratch);
  const Finding f = walk.run();
  if (walked != nullptr) *walked = walk.records();
  return f;
}

}  // namespace mrc::transport
