// SPDX-License-Identifier: BSD-2-Clause
// What the peer says about our packets: SACK.
#include <algorithm>

#include "mrc/transport/state.hpp"

namespace mrc::transport {

Duration Core::State::sample_rtt(Connection& c, Tick sent, std::uint16_t echoed_timestamp, bool timestamp_valid,
                                 Tick now) {
  // We were not there to receive the answer. A driver that is always late measures what it can.
  if (sent < stalled_at && ++c.samples_discarded < 16) return Duration{-1};
  c.samples_discarded = 0;
  Duration rtt = now - sent;
  if (timestamp_valid) {
    const auto residence = static_cast<std::uint16_t>(echoed_timestamp - wire_timestamp(sent));
    rtt = rtt - Duration{std::int64_t{residence} << 7};
  }
  if (rtt.ns <= 0) return Duration{-1};
  c.rtt.sample(rtt);
  return rtt;
}

void Core::State::on_sack(ConnId id, const wire::Packet& p, Tick now) {
  Connection& c = connections[id];
  const wire::Seth& seth = p.seth;
  const std::uint64_t end = expand_psn(seth.cumulative_psn, c.tx.una()) + 1;
  if (end > c.tx.next() || c.tx.una() - std::min(end, c.tx.una()) > wire::kPsnMask / 4) return;    // not about us
  if (end >= c.tx.una()) c.peer_window = std::clamp<std::uint32_t>(seth.mpr * 128u, 128u, 4096u);  // not an old one's
  const bool answer =
      seth.probe_reply && c.ask_at != kNever && static_cast<std::uint16_t>(seth.ack_psn_offset) == c.tail_probe_id;
  const auto told = static_cast<std::uint8_t>(seth.source_context);
  answer ? naks_answered(c, told, static_cast<std::uint8_t>(seth.dest_context)) : naks_told(c, told);
  const bool timestamp_valid = p.cc_present && (seth.cc_flags & kSackTimestamp) != 0;
  const std::uint64_t report = end - 1 + static_cast<std::uint64_t>(std::int64_t{seth.sack_offset});
  sack = {};
  if (seth.probe_reply) {
    if (c.tail_probes != 0 && static_cast<std::uint16_t>(seth.ack_psn_offset) == c.tail_probe_id) {
      sample_rtt(c, c.tail_probe_sent, p.cc.echoed_timestamp, timestamp_valid, now);
      c.high_sent = std::max(c.high_sent, c.tail_probe_sent);
      sack.evidence = c.tail_probe_sent;
    }
  } else {
    const std::uint64_t seq = end - 1 + static_cast<std::uint64_t>(std::int64_t{seth.ack_psn_offset});
    bool current = false;  // the echo is about the latest transmission of seq, still outstanding
    if (c.tx.contains(seq)) {
      const TxRecord& record = c.tx.record(segments, seq);
      const bool named = record.ev < c.evs.size() && c.evs.all()[record.ev].value == seth.echoed_ev;
      if (named) {
        c.named_seq = seq;
        c.named_ev = seth.echoed_ev;
        c.named_sent = record.sent;
      }
      current = named && !c.tx.acked(segments, seq) && (record.flags & TxRecord::kLinked) != 0;
      if (current) {
        sack.match = seq;
        sack.rtt = sample_rtt(c, record.sent, p.cc.echoed_timestamp, timestamp_valid, now);
      }
    }
    if (c.named_seq == seq && c.named_ev == seth.echoed_ev) sack.evidence = c.named_sent;
    const bool duplicate = (seth.cc_flags & kSackDuplicate) != 0;
    if ((!current || duplicate) && c.suspects + c.blamed_count != 0) {
      const Tick sent = spurious(c, seq, seth.echoed_ev, duplicate, now);
      // Late, but measured: the path may have become a longer one for good.
      if (sent != Tick{} && !current && !duplicate) {
        sample_rtt(c, sent, p.cc.echoed_timestamp, timestamp_valid, now);
      }
    }
    if (seth.mark != wire::EvMark::kNone) {
      const auto index = c.evs.find(seth.echoed_ev);
      if (index && seth.mark == wire::EvMark::kSkipOnce && config.ecn_balancing) c.evs.on_ecn(*index);
      if (index && seth.mark == wire::EvMark::kAlwaysSkip) lost_on(c, *index, 1, now);
      // One that is SACKed only now is told with its acknowledgement.
      sack.marked = current && seth.mark == wire::EvMark::kSkipOnce;
      if (index && !sack.marked) signal_ecn(c, c.evs.all()[*index].plane, now);
    }
    if (current && seq >= end) {
      // Named, though perhaps not within the bitmap's reach. Reports come lowest first, so that what a report leaves
      // out below itself is missing; a name beyond the report says nothing about what lies between.
      const bool beyond = seq >= report + 64;
      sack.named_only = beyond;
      c.tx.acknowledge(segments, seq, 1, [&](std::uint64_t s, TxRecord& r) { acknowledged(id, s, r, true, now); });
      sack.named_only = false;
    }
  }
  const auto fn = [&](std::uint64_t seq, TxRecord& record) { acknowledged(id, seq, record, seq == sack.match, now); };
  c.tx.acknowledge_below(segments, end, fn);
  c.tx.acknowledge(segments, report, seth.bitmap, fn);
  if (c.tx.advance(segments)) wake_starved();
  if (!c.ordered.empty() || c.parked) end_ordered(id);
  c.tx.note_report(segments, report, sack.evidence);
  if (p.cc_present) signal_receiver(c, p.cc, (seth.cc_flags & kSackFull) != 0);
  // Anything heard ends the time of silence.
  c.backoff = 0;
  c.silence_budget = kNone;
  touch(id);
}

void Core::State::acknowledged(ConnId id, std::uint64_t seq, TxRecord& record, bool echoed, Tick now) {
  Connection& c = connections[id];
  const std::uint32_t bytes = record_bytes(record);
  TxPlane& plane = c.planes[record.plane];
  if (record.flags & TxRecord::kLinked) {
    unlink(c, record, bytes);
  } else {
    spurious(c, seq, c.evs.all()[record.ev].value, false,
             now);  // declared lost, and here it is before we sent it again
  }
  c.balance.on_delivered(record.plane, c.evs.path_bit(record.ev));
  c.evs.on_acknowledged(record.ev);
  if ((record.flags & TxRecord::kTail) != 0 && c.suspects != 0) settle_tail(c, seq, echoed);
  const bool first = !(record.flags & TxRecord::kRetransmitted);
  if ((first || echoed) && !sack.named_only) {
    const auto ahead = static_cast<std::int32_t>(record.order - plane.high_order);
    const auto bit = static_cast<std::uint8_t>(1u << record.plane);
    if ((c.sacked_planes & bit) == 0 || ahead > 0) {
      c.sacked_planes |= bit;
      plane.high_order = record.order;
      plane.high_sent = record.sent;
    } else {
      // What was sent on a plane in turn: 4 s are more than any packet stays away.
      const std::int64_t late = std::min<std::int64_t>((plane.high_sent - record.sent).ns, UINT32_MAX);
      const std::int64_t before = plane.reordering;
      plane.reordering = static_cast<std::uint32_t>(late > before ? late : before - (before - late) / 256);
    }
  }
  // A SACK that comes sooner after a retransmission than any round trip is about the packet before it.
  if (!sack.named_only && (first || echoed || now - record.sent >= c.rtt.min())) {
    c.high_sent = std::max(c.high_sent, record.sent);
    sack.evidence = std::max(sack.evidence, record.sent);
  }
  c.last_progress = now;
  c.tail_probes = 0;
  if (++c.clean_acks >= 1024) {
    c.clean_acks = 0;
    c.reordering = c.reordering / 2;
    c.gap = std::max<std::uint16_t>(config.gap_packets, c.gap / 2);
  }
  signal_ack(c, record, bytes, echoed ? sack.rtt : Duration{-1}, echoed && sack.marked, now);

  Message& m = messages[record.message];
  ++m.acked;
  if (m.acked == m.sent && (m.cut || m.sent == m.packets)) finished(id, record.message);
}

}  // namespace mrc::transport
