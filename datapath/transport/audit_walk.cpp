// SPDX-License-Identifier: BSD-2-Clause
// Every segment, record, message and list entry, each owned exactly once; sums against counters.
#include "audit_walk.hpp"

#include <algorithm>
#include <array>

namespace mrc::transport {
namespace {

Finding wrong(const char* what, ConnId conn, std::uint64_t found = 0, std::uint64_t expected = 0) {
  return {what, conn, found, expected};
}

/// Entries of one list of connections; each must say that it is on it.
Finding check_list(const Core::State& s, const IndexQueue& list, bool Connection::*in, std::uint32_t Connection::*next,
                   const char* what) {
  std::uint32_t listed = 0, flagged = 0, last = kNone;
  for (ConnId id = list.head; id != kNone; id = s.connections[id].*next) {
    if (!(s.connections[id].*in) || ++listed > s.connections.size()) return wrong(what, id, listed);
    last = id;
  }
  if (list.head != kNone && last != list.tail) return wrong(what, last, list.tail, last);
  for (const Connection& c : s.connections) flagged += c.*in;
  if (flagged != listed) return wrong(what, kNoId, listed, flagged);
  return {};
}

}  // namespace

std::size_t AuditWalk::scratch(const Core::State& state) {
  return std::size_t{state.segments.size()} + 2 * std::size_t{state.messages.size()} + state.suspects.size();
}

AuditWalk::AuditWalk(const Core::State& state, std::span<std::uint32_t> scratch) : s_(state) {
  std::fill(scratch.begin(), scratch.end(), 0u);
  const auto cut = [&scratch](std::size_t words) {
    const auto part = scratch.first(words);
    scratch = scratch.subspan(words);
    return part;
  };
  segment_marks_ = cut(s_.segments.size());
  message_marks_ = cut(s_.messages.size());
  queue_marks_ = cut(s_.messages.size());
  suspect_marks_ = cut(s_.suspects.size());
}

Finding AuditWalk::run() {
  for (const Endpoint& e : s_.endpoints) {
    if (!e.used) continue;
    for (ConnId id = e.first_connection; id != kNone; id = s_.connections[id].ep_next) {
      if (const Finding f = check_segments(id)) return f;
      if (const Finding f = check_records(id)) return f;
      if (const Finding f = check_planes(id)) return f;
      if (const Finding f = check_messages(id)) return f;
      if (const Finding f = check_suspects(id)) return f;
    }
  }
  if (const Finding f = check_connection_lists()) return f;
  return check_pools();
}

Finding AuditWalk::check_segments(ConnId id) {
  const Connection& c = s_.connections[id];
  const auto slots = c.tx.slots();
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (slots[i] == TxWindow::kNone) continue;
    const std::uint32_t segment = slots[i];
    if (segment >= s_.segments.size()) return wrong("a window names a segment that does not exist", id, segment);
    if (segment_marks_[segment] != 0)
      return wrong("a segment is owned twice", id, segment, segment_marks_[segment] - 1);
    segment_marks_[segment] = id + 1;
    ++segments_;
    const std::uint64_t base = s_.segments[segment].base;
    if (((base >> 6) & (slots.size() - 1)) != i || base % 64 != 0) {
      return wrong("a segment sits in another's place", id, base, i);
    }
    if (base + 64 <= c.tx.una() || base >= c.tx.next())
      return wrong("a segment outside the window is kept", id, base, c.tx.una());
  }
  for (std::uint64_t seq = c.tx.una() & ~std::uint64_t{63}; seq < c.tx.next(); seq += 64) {
    if (c.tx.una() == c.tx.next()) break;
    const std::uint32_t segment = slots[(seq >> 6) & (slots.size() - 1)];
    if (segment == TxWindow::kNone || s_.segments[segment].base != seq) {
      return wrong("packets of the window have no segment", id, seq);
    }
  }
  return {};
}

Finding AuditWalk::check_records(ConnId id) {
  const Connection& c = s_.connections[id];
  std::uint32_t linked = 0, lost = 0;
  std::uint64_t bytes = 0;
  for (std::uint64_t seq = c.tx.una(); seq < c.tx.next(); ++seq, ++records_) {
    const TxRecord& record = TxWindow::at(const_cast<SegmentPool&>(s_.segments), c.tx.number(seq));
    const bool is_acked = c.tx.acked(s_.segments, seq);
    const bool is_lost = c.tx.is_lost(s_.segments, seq);
    const bool is_linked = (record.flags & TxRecord::kLinked) != 0;
    if (is_acked + is_lost + is_linked != 1) {
      return wrong("a packet is not exactly one of in flight (4), lost (2) and acknowledged (1)", id,
                   4u * is_linked + 2u * is_lost + is_acked, seq);
    }
    if (is_acked) {
      if (seq == c.tx.una()) return wrong("una does not move over what is acknowledged", id, seq);
      continue;
    }
    lost += is_lost;
    linked += is_linked;
    if (record.message >= s_.messages.size()) return wrong("a packet belongs to no message", id, record.message, seq);
    const Message& m = s_.messages[record.message];
    if (m.mtu == 0 || record.packet >= m.packets || record.packet >= m.sent) {
      return wrong("a packet lies outside its message", id, record.packet, m.sent);
    }
    ++message_marks_[record.message];
    if (is_linked) bytes += s_.record_bytes(record);
  }
  if (lost != c.tx.lost()) return wrong("packets to retransmit do not add up", id, c.tx.lost(), lost);
  if (linked != c.inflight_packets) return wrong("packets in flight do not add up", id, c.inflight_packets, linked);
  if (bytes != c.inflight_bytes) return wrong("bytes in flight do not add up", id, c.inflight_bytes, bytes);
  return {};
}

Finding AuditWalk::check_planes(ConnId id) {
  const Connection& c = s_.connections[id];
  std::uint32_t packets = 0;
  std::uint64_t bytes = 0;
  for (unsigned p = 0; p < path::kMaxPlanes; ++p) {
    const TxPlane& plane = c.planes[p];
    std::uint32_t previous = kNone;
    for (std::uint32_t at = plane.head; at != kNone; ++packets) {
      if (at / 64 >= s_.segments.size() || segment_marks_[at / 64] != id + 1) {
        return wrong("a plane lists a packet that is not the connection's", id, at, p);
      }
      const TxRecord& record = s_.segments[at / 64].records[at % 64];
      if (!(record.flags & TxRecord::kLinked) || record.plane != p || record.previous != previous) {
        return wrong("a plane's list of packets is broken", id, at, p);
      }
      if (previous != kNone) {
        const TxRecord& before = s_.segments[previous / 64].records[previous % 64];
        if (before.sent > record.sent || static_cast<std::int32_t>(record.order - before.order) <= 0) {
          return wrong("a plane's list is not in order of transmission", id, record.order, before.order);
        }
      }
      if (packets >= c.inflight_packets) {
        return wrong("the planes list more packets than are in flight", id, packets + 1, c.inflight_packets);
      }
      bytes += s_.record_bytes(record);
      previous = at;
      at = record.next;
    }
    if (plane.tail != previous) return wrong("a plane's list has the wrong end", id, plane.tail, previous);
  }
  if (packets != c.inflight_packets) {
    return wrong("the planes' packets in flight do not add up", id, packets, c.inflight_packets);
  }
  if (bytes != c.inflight_bytes) return wrong("the planes' bytes in flight do not add up", id, bytes, c.inflight_bytes);
  return {};
}

Finding AuditWalk::check_messages(ConnId id) {
  const Connection& c = s_.connections[id];
  if (const Finding f = check_queue(id, c.queue, false)) return f;
  if (const Finding f = check_queue(id, c.urgent, true)) return f;
  std::uint32_t count = 0, previous = kNone;
  for (std::uint32_t at = c.first_message; at != kNone; at = s_.messages[at].next) {
    if (at >= s_.messages.size() || ++count > c.messages) {
      return wrong("a connection lists more messages than it has", id, count, c.messages);
    }
    const Message& m = s_.messages[at];
    if (m.previous != previous) return wrong("the list of messages is broken", id, at);
    if (m.sent > m.packets || m.acked > m.sent)
      return wrong("a message's packets do not add up", id, m.sent, m.packets);
    if (message_marks_[at] != m.sent - m.acked) {
      return wrong("a message's packets that wait for SACKs do not add up", id, message_marks_[at], m.sent - m.acked);
    }
    const bool unsent = (m.mtu == 0 || m.sent < m.packets) && !m.cut;
    if (queue_marks_[at] != (unsent ? 1u : 0u)) {
      return wrong("a message is queued though all of it is sent, or not queued though it is not", id, queue_marks_[at],
                   unsent);
    }
    // WriteImm and semantic writes end in order, and nothing ends while a NAK is on its way.
    const bool in_order = (m.request.has_imm || m.request.semantic) && !m.cut && m.end != 0;
    const bool waits = (in_order && (c.tx.una() < m.end || m.request.semantic || c.ordered.head != at)) || c.parked;
    if (!unsent && m.acked == m.sent && !waits && c.naks_told == c.naks_seen) {
      return wrong("a message is finished and did not complete", id, at);
    }
    previous = at;
  }
  if (count != c.messages || c.last_message != previous) {
    return wrong("a connection's messages do not add up", id, count, c.messages);
  }
  return {};
}

Finding AuditWalk::check_queue(ConnId id, const IndexQueue& queue, bool urgent) {
  std::uint32_t last = kNone;
  for (std::uint32_t at = queue.head; at != kNone; at = s_.messages[at].queue_next) {
    if (at >= s_.messages.size() || ++queue_marks_[at] > 1) return wrong("a message is queued twice", id, at);
    const WriteRequest& request = s_.messages[at].request;
    if ((request.urgent && !request.has_imm) != urgent) return wrong("a message is in the wrong queue", id, at);
    if (s_.messages[at].sent != 0 && last != kNone) return wrong("a message is begun before its turn", id, at);
    last = at;
    if (at == queue.tail) break;
  }
  if (queue.head != kNone && last != queue.tail) return wrong("a send queue has the wrong end", id, queue.tail, last);
  return {};
}

Finding AuditWalk::check_suspects(ConnId id) {
  const Connection& c = s_.connections[id];
  const auto walk = [&](const IndexQueue& queue, std::uint32_t& count) {
    std::uint32_t last = kNone;
    for (std::uint32_t at = queue.head; at != kNone; at = s_.suspects[at].next) {
      if (at >= s_.suspects.size() || suspect_marks_[at]++ != 0) return false;
      last = at;
      ++count;
    }
    return queue.head == kNone || last == queue.tail;
  };
  std::uint32_t waiting = 0, blamed = 0;
  for (const TxPlane& plane : c.planes) {
    if (!walk(plane.suspects, waiting)) return wrong("a list of suspects is broken", id, waiting, c.suspects);
  }
  if (!walk(c.blamed, blamed)) return wrong("the list of the blamed is broken", id, blamed, c.blamed_count);
  if (waiting != c.suspects) return wrong("suspects do not add up", id, waiting, c.suspects);
  if (blamed != c.blamed_count) return wrong("the blamed do not add up", id, blamed, c.blamed_count);
  suspects_ += waiting + blamed;
  return {};
}

Finding AuditWalk::check_connection_lists() {
  if (const Finding f = check_list(s_, s_.control, &Connection::in_control, &Connection::next_control,
                                   "the list of connections with control packets is wrong")) {
    return f;
  }
  if (const Finding f = check_list(s_, s_.data, &Connection::in_data, &Connection::next_data,
                                   "the list of connections with data is wrong")) {
    return f;
  }
  return check_list(s_, s_.starved, &Connection::in_starved, &Connection::next_starved,
                    "the list of starved connections is wrong");
}

Finding AuditWalk::check_pools() {
  const auto free_of = [](const auto& pool, std::span<std::uint32_t> marks) -> std::uint32_t {
    std::uint32_t n = 0;
    for (std::uint32_t at = pool.next_free(kNone); at != kNone; at = pool.next_free(at)) {
      if (n == pool.size() || marks[at] != 0) return kNone;
      ++n;
    }
    return n;
  };
  if (free_of(s_.segments, segment_marks_) != s_.segments.available()) {
    return wrong("a segment is both free and in use, or free twice", kNoId, s_.segments.available());
  }
  if (s_.segments.available() + segments_ != s_.segments.size()) {
    return wrong("segments were leaked", kNoId, s_.segments.available() + segments_, s_.segments.size());
  }
  if (free_of(s_.suspects, suspect_marks_) != s_.suspects.available()) {
    return wrong("a suspect is both free and in use, or free twice", kNoId, s_.suspects.available());
  }
  if (s_.suspects.available() + suspects_ != s_.suspects.size()) {
    return wrong("suspects were leaked", kNoId, s_.suspects.available() + suspects_, s_.suspects.size());
  }
  if (free_of(s_.messages, message_marks_) != s_.messages.available()) {
    return wrong("a message is both free and in use, or free twice", kNoId, s_.messages.available());
  }
  std::uint32_t waiting = 0;
  for (const Connection& c : s_.connections) {
    for (std::uint32_t at = c.waiting.head; at != kNone && waiting <= s_.ordered.size(); at = s_.ordered[at].next)
      ++waiting;
  }
  if (s_.ordered.available() + waiting != s_.ordered.size()) {
    return wrong("writes that wait for their turn were leaked", kNoId, s_.ordered.available() + waiting,
                 s_.ordered.size());
  }
  std::uint32_t in_use = 0;
  for (const Connection& c : s_.connections) in_use += c.phase != Connection::Phase::kFree;
  if (in_use + s_.free_connection_count != s_.connections.size()) {
    return wrong("connections were leaked", kNoId, in_use + s_.free_connection_count, s_.connections.size());
  }
  return {};
}

}  // namespace mrc::transport
