// SPDX-License-Identifier: BSD-2-Clause
// NACKs, both ends: this one packet must be sent again, and why. Needs no more of it than BTH, METH and EV.
#include <algorithm>

#include "mrc/transport/state.hpp"

namespace mrc::transport {

/// Best effort: what does not fit is found by the sender's own means.
void Core::State::send_nack_for(ConnId id, const wire::Packet& p, wire::NackReason reason) {
  const std::uint16_t timestamp = p.bth.timestamp ? p.tseth.timestamp : std::uint16_t{0};
  if (!nacks.push({id, p.ev, p.bth.psn, timestamp, reason, connections[id].qpn})) ++counters.nacks_dropped;
}

Core::State::Sent Core::State::send_nack(TxPacket& out, std::uint32_t room, Tick now) {
  const NackEntry& n = nacks.front();
  Connection& c = connections[n.conn];
  if (c.phase != Connection::Phase::kOpen || c.qpn != n.qpn || !c.peer_known || !c.route_known) return Sent::kNothing;
  std::uint32_t ev = 0;
  std::uint8_t plane = 0;
  if (!control_path(c, room, now, ev, plane)) return Sent::kNoRoom;
  wire::Packet p = packet_to(c, wire::Opcode::kNack, c.peer_qpn);
  p.neth.reason = n.reason;
  p.neth.ev = n.ev;
  p.neth.nack_psn = n.psn;
  p.neth.timestamp = n.timestamp;
  finish(c.route, p, ev, plane, 0, true, out);
  ++counters.tx_nack;
  if (n.reason == wire::NackReason::kPsnOutOfWindow) ++counters.tx_nack_window;
  if (n.reason == wire::NackReason::kNoResource) ++counters.tx_nack_resource;
  if (n.reason == wire::NackReason::kUnexpectedEvent) ++counters.tx_nack_fatal;
  return Sent::kPacket;
}

void Core::State::on_nack(ConnId id, const wire::Packet& p, Tick now) {
  Connection& c = connections[id];
  c.backoff = 0;
  c.silence_budget = kNone;
  touch(id);
  const std::uint64_t seq = expand_psn(p.neth.nack_psn, c.tx.una());
  if (!c.tx.contains(seq) || c.tx.acked(segments, seq)) return;
  const TxRecord& record = c.tx.record(segments, seq);
  // One that is about an earlier transmission: the next one is on its way or will be.
  if (!(record.flags & TxRecord::kLinked) || c.evs.all()[record.ev].value != p.neth.ev) return;
  bool pause = false;
  switch (p.neth.reason) {
    case wire::NackReason::kTrimmed:
      c.last_progress = now;
      c.evs.on_trim(record.ev);
      signal_trim(c, record.plane, record_bytes(record), false, now);
      break;
    case wire::NackReason::kTrimmedLastHop:  // congestion that every path to this peer shares
      c.last_progress = now;
      signal_trim(c, record.plane, record_bytes(record), true, now);
      break;
    case wire::NackReason::kNoBitmap:
    case wire::NackReason::kPsnOutOfWindow:
      // Waits until the window is open to it; where we think that it is, the peer needs a while.
      ++counters.rx_nack_window;
      pause = true;
      break;
    case wire::NackReason::kNoPacketBuffer:
    case wire::NackReason::kNoResource:
      ++counters.rx_nack_resource;
      pause = true;
      break;
    case wire::NackReason::kUnexpectedEvent:
      ++counters.rx_nack_fatal;
      return fail_connection(id, Status::kProtocol, now);
  }
  if (planted(Bug::kTrimmedForgotten)) return unlink(c, c.tx.record(segments, seq), record_bytes(record));
  lose(id, c.tx.number(seq));
  // The path did its work and nothing was congested: neither hears of it. About a round trip, once.
  if (pause && c.hold_until == kNever) c.hold_until = now + std::max(c.rtt.srtt(), config.tail_floor);
}

}  // namespace mrc::transport
