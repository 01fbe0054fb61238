// SPDX-License-Identifier: BSD-2-Clause
// Received packets: whose they are, and data packets into the receive window. Everything else is handed on.
#include <algorithm>

#include "mrc/transport/state.hpp"

namespace mrc::transport {
namespace {

constexpr std::uint32_t kTrimmedFrame = 128 + 24;  // on the wire, with FCS, preamble and gap
constexpr std::uint8_t kReportsAtOnce = 4;  // SACKs that one threshold may cause; the rest follows after sack_delay

constexpr Duration kPortDownGuard = milliseconds(10);

}  // namespace

void Core::State::heard(Connection& c, std::uint8_t plane) {
  c.silent_since = active;
  const auto bit = static_cast<std::uint8_t>(1u << (plane & 7));
  c.planes_heard |= bit;
  // What set out before its port went down has long arrived.
  if (c.health.peer_down & bit && last_call - c.health.peer_told_at > kPortDownGuard) {
    c.health.peer_down &= static_cast<std::uint8_t>(~bit);
  }
}

/// Source-routed, an EV names the same cables both ways: what came on it just now shows a way back that works.
bool Core::State::mirrors(const Connection& c) const {
  return c.route.mode == path::RouteMode::kSrv6 && c.evs.denied() == 0;
}

void Core::State::receive(const RxPacket& packet, Tick now) {
  wire::Packet& p = parsed;
  const wire::ParseError error = wire::parse(packet.l3, config.wire, p);
  if (error != wire::ParseError::kNone) {
    ++counters.rx_malformed[static_cast<std::size_t>(error)];
    return;
  }
  const unsigned plane = packet.plane % limits.planes;
  ++counters.rx_plane[plane];
  counters.rx_plane_bytes[plane] += p.payload.size();
  if (p.bth.dest_qpn == wire::kEndpointQpn) return p.trimmed ? void() : on_endpoint_packet(p, packet, now);

  const ConnId id = find_qpn(p.bth.dest_qpn);
  if (id == kNoId || connections[id].remote != p.inner.source ||
      endpoints[connections[id].ep].inner != p.inner.destination || !connections[id].peer_known) {
    const EpId ep = find_endpoint(p.inner.destination);
    const EpId answerer = ep != kNoId ? ep : find_sibling(p.inner.destination);
    ++(ep != kNoId ? counters.rx_no_connection : counters.rx_no_endpoint);
    const bool asks = wire::is_write(p.bth.opcode) || p.bth.opcode == wire::Opcode::kProbeRequest;
    if (answerer != kNoId && asks && !p.trimmed) {
      const bool lives = ep != kNoId && !endpoints[ep].closing;
      refuse(p, answerer, p.bth.dest_qpn, lives ? endpoints[ep].incarnation : 0, now);
    }
    return;
  }
  Connection& c = connections[id];
  heard(c, static_cast<std::uint8_t>(plane));
  if (path::EvLayout::plane(p.ev) == plane && path::EvLayout::uplink(p.ev) < c.route.uplinks && mirrors(c)) {
    c.planes[plane].control_ev = p.ev;
  }
  if (!c.peer_knows_us && c.phase == Connection::Phase::kOpen) peer_knows(id, now);
  switch (p.bth.opcode) {
    case wire::Opcode::kSack:
      ++counters.rx_sack;
      return p.trimmed ? void() : on_sack(id, p, now);
    case wire::Opcode::kNack:
      ++counters.rx_nack;
      return p.trimmed ? void() : on_nack(id, p, now);
    case wire::Opcode::kAcknowledge:
      ++counters.rx_ack;
      return p.trimmed ? void() : on_acknowledge(id, p, now);
    case wire::Opcode::kProbeRequest:
      ++counters.rx_probe;
      if (p.trimmed) return;
      confirmed(c, static_cast<std::uint8_t>(p.peth.source_context));
      if (c.naks != c.naks_confirmed) {
        c.nak_next = static_cast<std::uint8_t>(c.naks_confirmed + 1);
        c.control |= Connection::kSendNak;
      }
      if (c.ack_any) c.control |= Connection::kSendAck;
      c.probe_reply_id = p.peth.probe_id;
      c.probe_reply_timestamp = p.peth.timestamp;
      c.probe_reply_ev = p.ev;
      c.probe_reply_arrived = now;
      c.rx.touch_all();
      return want_control(id, Connection::kSendProbeReply);
    case wire::Opcode::kEndpointRequest:
    case wire::Opcode::kEndpointResponse:
      ++counters.rx_no_connection;  // these have a QPN of their own
      return;
    default:
      return on_data(id, p, static_cast<std::uint8_t>(plane), now);
  }
}

void Core::State::on_data(ConnId id, const wire::Packet& p, std::uint8_t, Tick now) {
  Connection& c = connections[id];
  const std::uint64_t seq = c.rx.expand(p.bth.psn);
  const RxWindow::Arrival arrival = c.rx.classify(seq);
  if (arrival == RxWindow::Arrival::kOutside) {
    ++counters.rx_out_of_window;
    // Seldom, for it says the same of all that come now: our window is known by then.
    if (now - c.window_nack_at < config.tail_floor) return;
    c.window_nack_at = now;
    return send_nack_for(id, p, wire::NackReason::kPsnOutOfWindow);
  }
  if (p.trimmed) {
    ++counters.rx_trimmed;
    rx_share.on_trimmed(kTrimmedFrame);
    if (arrival == RxWindow::Arrival::kNew) {
      return send_nack_for(id, p, p.trimmed_lasthop ? wire::NackReason::kTrimmedLastHop : wire::NackReason::kTrimmed);
    }
  }
  const bool marked = p.ce();
  if (marked) {
    ++counters.rx_ecn;
  }
  const bool duplicate =
      arrival == RxWindow::Arrival::kDuplicate && !(planted(Bug::kDuplicatePlaced) && seq >= c.rx.next());
  // The next SACK names this packet: only one that was taken, for to be named is to be acknowledged.
  const auto name = [&] {
    if (marked || duplicate) c.echoes.push({seq, p.ev, marked, duplicate});
    c.echo_seq = seq;
    c.echo_ev = p.ev;
    c.echo_timestamp = p.tseth.timestamp;
    c.echo_timestamp_valid = p.bth.timestamp && !p.trimmed;
    c.echo_arrived = now;
  };
  c.last_activity = now;

  if (duplicate) {
    name();
    ++counters.rx_duplicate;
    seq >= c.rx.next() ? c.rx.touch(seq) : void(++counters.rx_below_window);
    return want_control(id, Connection::kSendSack);
  }

  const bool imm = wire::has_imm(p.bth.opcode);
  const bool in_order = imm || (p.bth.solicited && wire::ends_message(p.bth.opcode));
  if (in_order) {
    if (!room_for(c, p, seq)) return send_nack_for(id, p, wire::NackReason::kNoResource);
    // WriteImms are counted in the order in which they were sent.
    if (imm && c.rx_rqmsn_any &&
        static_cast<std::int16_t>(static_cast<std::uint16_t>(p.meth.rqmsn - c.rx_rqmsn)) <= 0) {
      return send_nack_for(id, p, wire::NackReason::kUnexpectedEvent);
    }
  }
  const auto length = static_cast<std::uint32_t>(p.payload.size());
  RxWrite write;
  write.conn = id;
  write.ep = c.ep;
  write.va = p.reth.va;
  write.rkey = p.reth.rkey;
  write.message_length = p.reth.length;
  write.msn = p.meth.msn;
  write.has_imm = imm;
  write.imm = imm ? p.imm.value : 0;
  write.payload = p.payload;
  if (c.phase == Connection::Phase::kOpen || c.phase == Connection::Phase::kClosing) {
    if (endpoints[c.ep].upper->place(write) == Placement::kPlaced) {
      counters.rx_bytes += length;
    } else if (!refuse_write(id, seq, p.meth.msn)) {
      return send_nack_for(id, p, wire::NackReason::kNoResource);
    }
  }
  name();
  ++counters.rx_data;
  c.rcvd_bytes += length;
  signal_received(c, length, now);
  c.rx.mark(seq);
  if (in_order) arrived_ordered(id, p, seq);
  if (!c.waiting.empty()) deliver_ordered(id);
  c.unsacked_bytes += std::max<std::uint32_t>(length, 1024);
  if (marked || p.bth.retransmit || p.bth.ack_request || c.unsacked_bytes >= config.sack_bytes) {
    c.reports_left = std::max(c.reports_left, kReportsAtOnce);
    want_control(id, Connection::kSendSack);
  } else if (c.sack_at == kNever) {
    c.sack_at = now + config.sack_delay;
  }
  touch(id);
}

void Core::State::on_endpoint_packet(const wire::Packet& p, const RxPacket& raw, Tick now) {
  ++counters.rx_endpoint;
  const EpId ep = find_endpoint(p.inner.destination);
  if (p.bth.opcode == wire::Opcode::kEndpointRequest) {
    if (ep == kNoId || (endpoints[ep].closing && endpoints[ep].closed)) {
      const EpId answerer = ep != kNoId ? ep : find_sibling(p.inner.destination);
      ++counters.rx_no_endpoint;
      if (answerer != kNoId) refuse(p, answerer, 0, 0, now);
      return;
    }
    switch (p.erth.op) {
      case wire::EndpointOp::kInit:
        return on_init(ep, p, raw.plane, now);
      case wire::EndpointOp::kClose:
        return on_close(ep, p, now);
      case wire::EndpointOp::kPortStatus:
        return on_port_status(ep, p, now);
      case wire::EndpointOp::kEvProbe: {
        if (on_loop(ep, p, raw.plane % path::kMaxPlanes, now)) return;
        const ConnId id = find_connection(ep, p.inner.source);
        if (id == kNoId || !connections[id].peer_known || connections[id].peer_qpn != p.erth.source_qpn) {
          ++counters.rx_no_connection;
          return refuse(p, ep, 0, endpoints[ep].incarnation, now);
        }
        Reply reply{ep, p.inner.destination, p.inner.source, wire::EndpointOp::kEvProbe};
        reply.source_qpn = p.erth.source_qpn;
        reply.request_psn = p.bth.psn;
        reply.echoed_ev = p.ev;
        reply.incarnation = endpoints[ep].incarnation;
        reply.received_length = static_cast<std::uint32_t>(raw.l3.size());
        replies.push(reply);
        return;
      }
      default:
        return;
    }
  }
  if (p.bth.opcode != wire::Opcode::kEndpointResponse || ep == kNoId) {
    ++(ep == kNoId ? counters.rx_no_endpoint : counters.rx_no_connection);
    return;
  }
  switch (p.eeth.op) {
    case wire::EndpointOp::kInit:
      return on_init_answer(ep, p, now);
    case wire::EndpointOp::kClose:
      return on_close_answer(ep, p);
    case wire::EndpointOp::kNoEndpoint:
      return on_no_endpoint(ep, p, now);
    case wire::EndpointOp::kPortStatus:
      return on_port_status_answer(ep, p);
    case wire::EndpointOp::kEvProbe: {
      const ConnId id = find_connection(ep, p.inner.source);
      if (id != kNoId && connections[id].phase == Connection::Phase::kOpen) on_path_probe_answer(id, p, now);
      return;
    }
    default:
      return;
  }
}

}  // namespace mrc::transport
