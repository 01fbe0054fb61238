// SPDX-License-Identifier: BSD-2-Clause
// Which EV is to blame for a loss (design.md): judged late, on the evidence of its own plane, and taken back when the
// packet turns up after all.
#include <algorithm>

#include "mrc/transport/state.hpp"

namespace mrc::transport {
namespace {

constexpr std::uint32_t kMaxBlamed = 64;  // remembered in case they turn up after all
constexpr std::uint32_t kMaxLookup = 128;
constexpr std::int32_t kMaxGap = 1024;

void append(IndexQueue& queue, Pool<Suspect>& pool, std::uint32_t at) {
  pool[at].next = kNone;
  (queue.tail == kNone ? queue.head : pool[queue.tail].next) = at;
  queue.tail = at;
}

std::uint32_t take_head(IndexQueue& queue, Pool<Suspect>& pool) {
  const std::uint32_t at = queue.head;
  queue.head = pool[at].next;
  if (queue.head == kNone) queue.tail = kNone;
  return at;
}

/// Removes and returns the entry of seq (and ev, unless any will do); kNone if it is not among the first kMaxLookup.
std::uint32_t extract(IndexQueue& queue, Pool<Suspect>& pool, std::uint64_t seq, std::uint32_t ev, bool any) {
  std::uint32_t before = kNone;
  std::uint32_t at = queue.head;
  for (std::uint32_t n = 0; at != kNone && n < kMaxLookup; ++n) {
    if (pool[at].seq == seq && (any || pool[at].ev_value == ev)) {
      (before == kNone ? queue.head : pool[before].next) = pool[at].next;
      if (queue.tail == at) queue.tail = before;
      return at;
    }
    before = at;
    at = pool[at].next;
  }
  return kNone;
}

}  // namespace

/// Remembers where a packet that was declared lost had been sent, until it is known whether its path is to blame.
void Core::State::suspect_path(Connection& c, std::uint64_t seq, const TxRecord& record, bool tail) {
  if ((record.flags & TxRecord::kNoBlame) != 0 || c.suspects >= config.window) return;
  const std::uint32_t at = suspects.take();
  if (at == kNone) return;
  Suspect& s = suspects[at];
  s.sent = record.sent;
  s.seq = seq;
  s.ev_value = c.evs.all()[record.ev].value;
  s.order = record.order;
  s.ev = record.ev;
  s.plane = record.plane;
  s.counted = false;
  s.tail = tail;
  append(c.planes[record.plane].suspects, suspects, at);
  ++c.suspects;
}

void Core::State::judge_suspects(ConnId id, Tick now) {
  Connection& c = connections[id];
  const Duration twice = std::max(c.rtt.srtt() * 2, config.reorder_floor);
  const Duration age = rto(c);
  // The loss of a whole plane is no matter of 64 later packets on it: what has not turned up although later packets of
  // any plane were SACKed, and its own retransmission had time to be called a duplicate, counts (plane_balance.hpp).
  const Duration gone = patience(c) + c.rtt.srtt() * 2 + config.sack_delay;
  for (unsigned p = 0; p < c.planes.size(); ++p) {
    TxPlane& plane = c.planes[p];
    const Duration margin = std::max(twice, Duration{plane.reordering});
    std::uint32_t waiting = plane.suspects.head;
    for (unsigned n = 0; n < kMaxLookup && waiting != kNone; ++n, waiting = suspects[waiting].next) {
      Suspect& s = suspects[waiting];
      if (now - s.sent < gone) break;
      if (!s.counted && c.high_sent - s.sent >= margin) count_loss(c, s);
    }
    while (!plane.suspects.empty()) {
      const Suspect& s = suspects[plane.suspects.head];
      const bool same_plane = (c.sacked_planes >> p & 1) != 0 &&
                              static_cast<std::int32_t>(plane.high_order - s.order) >= config.reorder_packets &&
                              plane.high_sent - s.sent >= margin;
      const bool timed_out = now - s.sent >= age && c.high_sent > s.sent;
      if (!same_plane && !timed_out) break;
      const std::uint32_t at = take_head(plane.suspects, suspects);
      --c.suspects;
      s.tail ? suspects.give(at) : blame(c, at, now);
    }
  }
}

void Core::State::count_loss(Connection& c, Suspect& s) {
  s.counted = true;
  c.balance.on_lost(s.plane, c.evs.path_bit(s.ev));
}

/// An EV is to blame for a loss: counts what becomes of that.
void Core::State::lost_on(Connection& c, std::uint16_t ev, unsigned strikes, Tick now) {
  const unsigned bad = c.evs.bad();
  const std::uint64_t replaced = c.evs.replaced();
  c.evs.on_lost(ev, now, strikes);
  counters.ev_blamed += c.evs.bad() - bad;
  counters.ev_replaced += c.evs.replaced() - replaced;
}

void Core::State::blame(Connection& c, std::uint32_t suspect, Tick now) {
  Suspect& s = suspects[suspect];
  if (!s.counted) count_loss(c, s);
  const auto evs = c.evs.all();
  if (s.ev < evs.size() && evs[s.ev].value == s.ev_value) {
    lost_on(c, s.ev, c.balance.strikes(s.plane, c.evs.paths()), now);
  }
  append(c.blamed, suspects, suspect);
  if (++c.blamed_count > kMaxBlamed) {
    suspects.give(take_head(c.blamed, suspects));
    --c.blamed_count;
  }
}

/// A packet that was declared lost arrived: its EV is innocent, and we were too hasty. Known by its EV echoed, or by
/// its retransmission having been a duplicate. When it was sent; Tick{} if it is none that is remembered.
Tick Core::State::spurious(Connection& c, std::uint64_t seq, std::uint32_t ev, bool duplicate, Tick now) {
  std::uint32_t at = kNone;
  for (unsigned p = 0; p < c.route.planes && at == kNone && c.suspects != 0; ++p) {
    at = extract(c.planes[p].suspects, suspects, seq, ev, duplicate);
  }
  if (at != kNone) {
    --c.suspects;
  } else {
    at = extract(c.blamed, suspects, seq, ev, duplicate);
    if (at == kNone) return Tick{};
    --c.blamed_count;
    const std::uint16_t index = suspects[at].ev;
    const auto evs = c.evs.all();
    if (index < evs.size() && evs[index].value == suspects[at].ev_value &&
        evs[index].state == path::EvState::kAssumedBad) {
      const unsigned bad = c.evs.bad();
      c.evs.on_spurious(index);
      counters.ev_restored += bad - c.evs.bad();
    }
  }
  if (suspects[at].counted) c.balance.on_spurious(suspects[at].plane);
  // Be as patient from now on as would have been right this time.
  const Suspect& s = suspects[at];
  const Tick sent = s.sent;
  ++counters.spurious;
  if (s.tail) {  // its SACK was lost or slow: round trips tell how patient to be
    suspects.give(at);
    return sent;
  }
  const TxPlane& plane = c.planes[s.plane];
  const auto passed = static_cast<std::int32_t>(plane.high_order - s.order);
  if ((c.sacked_planes >> s.plane & 1) != 0 && passed >= c.gap)
    c.gap = static_cast<std::uint16_t>(std::min(passed + passed / 4, kMaxGap));
  c.reordering = std::clamp(now - s.sent - c.rtt.srtt(), c.reordering, std::max(c.reordering, config.rto_min / 4));
  c.clean_acks = 0;
  suspects.give(at);
  return sent;
}

/// A copy that a timer sent is SACKed. If the SACK names it as new, the packet itself was lost; if not, perhaps only
/// its SACK was, and its path hears nothing of it.
void Core::State::settle_tail(Connection& c, std::uint64_t seq, bool named) {
  for (TxPlane& plane : c.planes) {
    std::uint32_t n = 0;
    for (std::uint32_t at = plane.suspects.head; at != kNone && n < kMaxLookup; at = suspects[at].next, ++n) {
      if (!suspects[at].tail || suspects[at].seq != seq) continue;
      if (named) suspects[at].tail = false;
      return;
    }
  }
}

/// Their copies met silence as well: that is no path's fault.
void Core::State::forgive_tails(Connection& c) {
  for (TxPlane& plane : c.planes) {
    IndexQueue kept;
    while (!plane.suspects.empty()) {
      const std::uint32_t at = take_head(plane.suspects, suspects);
      if (!suspects[at].tail) {
        append(kept, suspects, at);
        continue;
      }
      suspects.give(at);
      --c.suspects;
    }
    plane.suspects = kept;
  }
}

void Core::State::drop_suspects(Connection& c) {
  for (TxPlane& plane : c.planes) {
    while (!plane.suspects.empty()) suspects.give(take_head(plane.suspects, suspects));
  }
  while (!c.blamed.empty()) suspects.give(take_head(c.blamed, suspects));
  c.suspects = c.blamed_count = 0;
}

}  // namespace mrc::transport
