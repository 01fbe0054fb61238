// SPDX-License-Identifier: BSD-2-Clause
// Data packets: which one is next (oldest gap first, then urgent messages, then bulk), on which path, and its headers.
// A packet is described, never copied: {header, source, offset, length}; a retransmission is made anew from the
// message.
#include <algorithm>
#include <cstring>

#include "mrc/transport/state.hpp"

namespace mrc::transport {
namespace {

void store16(std::byte* p, std::uint16_t value) {
  p[0] = static_cast<std::byte>(value >> 8);
  p[1] = static_cast<std::byte>(value);
}

template <class Header>
std::byte* put(const Header& header, std::byte* p) {
  header.encode(std::span<std::byte, Header::kSize>(p, Header::kSize));
  return p + Header::kSize;
}

}  // namespace

bool Core::State::window_open(const Connection& c) const {
  return c.tx.span() < std::min(config.window, c.peer_window) + (planted(Bug::kWindowOffByOne) ? 1 : 0);
}

bool Core::State::has_data(const Connection& c) const {
  if (c.phase != Connection::Phase::kOpen || !c.peer_knows_us || c.silence_budget == 0) return false;
  const bool room = c.cc.can_send(c.inflight_bytes, c.mtu);
  if (resend_ready(c)) return room || c.tail_credit != 0;
  return room && (!c.urgent.empty() || !c.queue.empty()) && window_open(c) && !c.in_starved && !held_back(c);
}

/// The oldest packet to be sent again may go: the peer's window may have shrunk, or it asked for a pause.
bool Core::State::resend_ready(const Connection& c) const {
  if (c.tx.lost() == 0 || c.hold_until != kNever) return false;
  return c.tx.oldest_lost(segments) - c.tx.una() < c.peer_window;
}

Core::State::Sent Core::State::send_data(ConnId id, TxPacket& out, std::uint32_t room, Tick now) {
  Connection& c = connections[id];
  if (!has_data(c)) return Sent::kNothing;
  const std::uint32_t planes = planes_for(c);
  const std::uint32_t usable = room & planes & c.balance.open();
  if (usable == 0) return Sent::kNoRoom;

  std::uint64_t seq;
  if (resend_ready(c)) {
    seq = c.tx.oldest_lost(segments);
    TxRecord& record = c.tx.record(segments, seq);
    auto pick = c.evs.next(usable, random, record.plane, planes);
    if (!pick) return Sent::kNoRoom;
    // Not where it was lost, if there is another way at all.
    if (pick->index == record.ev) pick = c.evs.next(usable, random, record.plane, planes);
    if (!pick) return Sent::kNoRoom;
    c.tx.clear_lost(segments, seq);
    if (c.tail_credit != 0) --c.tail_credit;
    if (c.tx.lost() == 0) c.tail_credit = 0;
    record.flags = TxRecord::kRetransmitted | (record.flags & TxRecord::kTail);
    emit_data(id, seq, *pick, out, now);
    ++counters.tx_retransmit;
    return Sent::kPacket;
  }

  if (!c.tx.prepare(segments)) {
    if (!c.in_starved) {
      c.in_starved = true;
      push(starved, id, &Connection::next_starved);
    }
    return Sent::kNothing;
  }
  const auto pick = c.evs.next(usable, random, -1, planes);
  if (!pick) {
    c.tx.unprepare(segments);
    return Sent::kNoRoom;
  }
  IndexQueue& queue = next_queue(c);
  const std::uint32_t at = queue.head;
  Message& m = messages[at];
  if (m.sent == 0) {
    m.mtu = c.mtu;
    m.packets = m.request.length == 0 ? 1 : (m.request.length + m.mtu - 1) / m.mtu;
    m.msn = c.msn++;
    if (m.request.has_imm) {
      ++c.rqmsn;
      ++c.imms;
    }
    m.rqmsn = c.rqmsn;
  }
  seq = c.tx.push();
  TxRecord& record = c.tx.record(segments, seq);
  record.message = at;
  record.packet = m.sent++;
  record.flags = 0;
  if (m.sent == m.packets) {
    queue.head = m.queue_next;
    if (queue.head == kNone) queue.tail = kNone;
    if (m.request.has_imm || m.request.semantic) {
      m.end = seq + 1;
      m.queue_next = kNone;
      (c.ordered.head == kNone ? c.ordered.head : messages[c.ordered.tail].queue_next) = at;
      c.ordered.tail = at;
    }
  }
  emit_data(id, seq, *pick, out, now);
  counters.tx_bytes += out.length;
  return Sent::kPacket;
}

void Core::State::emit_data(ConnId id, std::uint64_t seq, const path::EvSet::Pick& pick, TxPacket& out, Tick now) {
  Connection& c = connections[id];
  TxRecord& record = c.tx.record(segments, seq);
  const Message& m = messages[record.message];
  const bool again = (record.flags & TxRecord::kRetransmitted) != 0;
  if (c.silence_budget != kNone) {
    --c.silence_budget;
    record.flags |= TxRecord::kNoBlame;
  }
  record.sent = now;
  record.ev = pick.index;
  record.plane = pick.plane;
  record.order = ++c.planes[pick.plane].order;
  if (again) ++c.planes[pick.plane].tally.retransmitted;
  link(c, c.tx.number(seq), record);
  signal_sent(c, record_bytes(record), now);
  c.last_sent = c.last_activity = now;
  ++counters.tx_data;

  const std::uint64_t offset = std::uint64_t{record.packet} * m.mtu;
  const auto length =
      static_cast<std::uint32_t>(std::min<std::uint64_t>(m.mtu, std::uint64_t{m.request.length} - offset));
  const bool first = record.packet == 0;
  const bool last = record.packet + 1 == m.packets;
  c.since_ack_request += std::max(length, 1024u);
  // A SACK is asked for at the end of a burst, and four times a window: what is to come waits for it.
  const bool ask = c.since_ack_request >= std::min<std::uint64_t>(config.sack_bytes, c.cc.window() / 4) ||
                   (last && c.queue.empty() && c.urgent.empty() && c.tx.lost() == 0);
  c.asked = ask || again;
  if (ask) c.since_ack_request = 0;

  using wire::Opcode;
  const Opcode end = first ? (m.request.has_imm ? Opcode::kWriteOnlyImm : Opcode::kWriteOnly)
                           : (m.request.has_imm ? Opcode::kWriteLastImm : Opcode::kWriteLast);
  const Opcode op = last ? end : first ? Opcode::kWriteFirst : Opcode::kWriteMiddle;
  out.header_length = data_headers(c, op, pick.ev, length, again, out.header);
  std::byte* p = out.header.data() + c.template_length;
  wire::Bth bth;
  bth.opcode = op;
  bth.pad = static_cast<std::uint8_t>(wire::pad_of(length));
  bth.dest_qpn = c.peer_qpn;
  bth.ack_request = ask;
  bth.solicited = last && m.request.semantic;
  bth.retransmit = again;
  bth.timestamp = true;
  bth.psn = static_cast<std::uint32_t>(seq) & wire::kPsnMask;
  p = put(bth, p);
  p = put(wire::Meth{m.rqmsn, m.msn}, p);
  p = put(wire::Tseth{wire_timestamp(now), 0}, p);
  p = put(wire::Reth{m.request.va + offset, m.request.rkey, m.request.length}, p);
  if (wire::has_imm(op)) put(wire::ImmDt{m.request.imm}, p);
  out.plane = pick.plane;
  out.control = false;
  out.outer = c.route.mode == path::RouteMode::kSrv6;
  out.icrc = config.wire.icrc;
  out.padding = 0;
  out.hop = c.route.hop;
  out.destination = c.remote;
  out.source = length == 0 ? nullptr : m.request.source;
  out.offset = m.request.source_offset + offset;
  out.length = length;
}

/// IPv6 and UDP headers of data packets, but for what differs from packet to packet.
void Core::State::make_template(Connection& c) const {
  wire::Packet p = packet_to(c, wire::Opcode::kWriteOnly, c.peer_qpn);
  p.has_outer = c.route.mode == path::RouteMode::kSrv6;
  p.outer.source = c.route.outer_source;
  std::array<std::byte, wire::kMaxHeaders> headers{};
  [[maybe_unused]] const std::size_t written = wire::write_headers(p, 0, config.wire, headers);
  assert(written != 0);
  c.template_length = (p.has_outer ? 40 : 0) + 48;
  std::memcpy(c.headers.data(), headers.data(), c.template_length);
}

/// Copies the template and patches class, flow label, lengths, source port and the uSIDs. Returns all headers' length.
std::uint16_t Core::State::data_headers(const Connection& c, wire::Opcode op, std::uint32_t ev, std::uint32_t length,
                                        bool again, std::span<std::byte> out) const {
  std::byte* const start = out.data();
  std::memcpy(start, c.headers.data(), c.headers.size());
  const std::size_t extensions = wire::Bth::kSize + wire::Meth::kSize + wire::Tseth::kSize + wire::Reth::kSize +
                                 (wire::has_imm(op) ? wire::ImmDt::kSize : 0);
  const std::size_t udp_length =
      wire::UdpHeader::kSize + extensions + length + wire::pad_of(length) + (config.wire.icrc ? wire::kIcrcSize : 0);
  const auto high = static_cast<std::uint16_t>(ev >> 16);
  const auto low = static_cast<std::uint16_t>(ev);
  const bool high_in_port = config.wire.ev_split == wire::EvSplit::kHighInPort;
  const std::uint16_t port = high_in_port ? high : low;
  const std::uint16_t label = high_in_port ? low : high;
  const unsigned traffic_class =
      (again ? config.wire.dscp.trimmable_retx : config.wire.dscp.trimmable) * 4u + wire::kEcnEct0;
  const auto ipv6 = [&](std::byte* p, std::size_t payload) {
    p[0] = static_cast<std::byte>(0x60 | traffic_class >> 4);
    p[1] = static_cast<std::byte>((traffic_class & 0xf) << 4);
    store16(p + 2, label);
    store16(p + 4, static_cast<std::uint16_t>(payload));
  };
  std::byte* inner = start;
  if (c.route.mode == path::RouteMode::kSrv6) {
    ipv6(start, 40 + udp_length);
    const wire::Ipv6Address carrier = c.route.outer_destination(ev);
    std::memcpy(start + 24, carrier.bytes.data(), 16);
    inner = start + 40;
  }
  ipv6(inner, udp_length);
  store16(inner + 40, port);
  store16(inner + 44, static_cast<std::uint16_t>(udp_length));
  return static_cast<std::uint16_t>(c.template_length + extensions);
}

/// Writes the headers and fills in what every packet has.
void Core::State::finish(const path::Route& route, wire::Packet& p, std::uint32_t ev, std::uint8_t plane,
                         std::size_t payload, bool is_control, TxPacket& out) const {
  p.ev = ev;
  p.has_outer = route.mode == path::RouteMode::kSrv6;
  if (p.has_outer) {
    p.outer.source = route.outer_source;
    p.outer.destination = route.outer_destination(ev);
  }
  out.header_length = static_cast<std::uint16_t>(wire::write_headers(p, payload, config.wire, out.header));
  assert(out.header_length != 0);
  out.plane = plane;
  out.control = is_control;
  out.outer = p.has_outer;
  out.icrc = config.wire.icrc;
  out.source = nullptr;
  out.offset = 0;
  out.length = 0;
  out.padding = 0;
  out.hop = route.hop;
  out.destination = p.inner.destination;
}

wire::Packet Core::State::packet_to(const Connection& c, wire::Opcode op, std::uint32_t qpn) const {
  wire::Packet p;
  p.inner.source = endpoints[c.ep].inner;
  p.inner.destination = c.remote;
  p.inner.traffic_class = static_cast<std::uint8_t>(config.wire.dscp.control << 2);
  p.bth.opcode = op;
  p.bth.dest_qpn = qpn;
  return p;
}

}  // namespace mrc::transport
