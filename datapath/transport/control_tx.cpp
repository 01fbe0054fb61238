// SPDX-License-Identifier: BSD-2-Clause
// Control packets: SACK, NACK, NAK, probes, INIT, CLOSE and the answers. They take a few EVs of their own, one a plane,
// renewed about once per RTT, on planes from which the peer was heard lately.
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "mrc/transport/state.hpp"

namespace mrc::transport {
namespace {

using Flag = Connection::ControlFlag;
constexpr Duration kRefreshMin = microseconds(100);

}  // namespace

bool Core::State::control_path(Connection& c, std::uint32_t room, Tick now, std::uint32_t& ev, std::uint8_t& plane) {
  std::uint32_t usable = room & plane_mask(c.route) & ~std::uint32_t{c.denied_planes};
  if (usable == 0) return false;
  // Not into ports that the peer said are down, and by a plane that loses packets only where there is no other.
  if ((usable & planes_there(c)) != 0) usable &= planes_there(c);
  if ((usable & planes_for(c)) != 0) usable &= planes_for(c);
  // Who only receives has no RTT, and learns of dead paths by nothing but what does not arrive.
  if (c.control_evs_at == Tick{} ||
      now - c.control_evs_at >= std::max(c.rtt.valid() ? c.rtt.srtt() : kRefreshMin, kRefreshMin)) {
    c.control_evs_at = now;
    c.planes_heard_before = c.planes_heard;
    c.planes_heard = 0;
    for (unsigned p = 0; p < c.route.planes; ++p) {
      if (!(c.planes_heard_before >> p & 1) || !mirrors(c)) c.planes[p].control_ev = c.evs.draw(p, random);
    }
  }
  const std::uint32_t heard_from = c.planes_heard | c.planes_heard_before;
  if ((usable & heard_from) != 0) usable &= heard_from;
  const unsigned turn = c.next_control_plane & 7u;
  plane =
      static_cast<std::uint8_t>((static_cast<unsigned>(std::countr_zero((usable | usable << 8) >> turn)) + turn) & 7u);
  c.next_control_plane = static_cast<std::uint8_t>((plane + 1u) & 7u);
  ev = c.planes[plane].control_ev;
  return true;
}

void Core::State::write_sack(Connection& c, wire::Packet& p, bool probe_reply, Tick now) {
  const std::uint64_t cumulative = c.rx.next() - 1;
  std::uint64_t base = c.rx.take_report();
  if (base < c.rx.next()) base = c.rx.next();
  p.seth.cumulative_psn = static_cast<std::uint32_t>(cumulative) & wire::kPsnMask;
  p.seth.sack_offset = static_cast<std::int16_t>(base - cumulative + (planted(Bug::kSackBaseOffByOne) ? 1 : 0));
  p.seth.bitmap = c.rx.bits_from(base);
  p.seth.mpr = static_cast<std::uint8_t>(config.window / 128);
  p.seth.source_context = c.naks;
  p.seth.dest_context = c.naks_confirmed;
  p.seth.cc_type = 1;
  p.cc.ooo_count = static_cast<std::uint16_t>(c.rx.out_of_order());
  p.cc.rcvd_bytes = static_cast<std::uint32_t>(c.rcvd_bytes >> 8) & 0xffffff;
  p.cc.rcv_cwnd_pen = c.share.penalty;
  p.cc.restore_cwnd = c.share.restore;
  Tick arrived = c.echo_arrived;
  bool timestamp = c.echo_timestamp_valid;
  std::uint16_t echoed = c.echo_timestamp;
  if (probe_reply) {
    p.seth.probe_reply = true;
    p.seth.ack_psn_offset = static_cast<std::int16_t>(c.probe_reply_id);
    p.seth.echoed_ev = c.probe_reply_ev;
    arrived = c.probe_reply_arrived;
    echoed = c.probe_reply_timestamp;
    timestamp = true;
  } else {
    std::uint64_t seq = c.echo_seq;
    p.seth.echoed_ev = c.echo_ev;
    if (!c.echoes.empty()) {
      const Echo echo = c.echoes.pop(seq);
      timestamp = timestamp && echo.seq == seq && echo.ev == c.echo_ev;
      seq = echo.seq;
      p.seth.echoed_ev = echo.ev;
      if (echo.marked) p.seth.mark = wire::EvMark::kSkipOnce;
      if (echo.duplicate) p.seth.cc_flags = kSackDuplicate;
    }
    const auto offset = static_cast<std::int64_t>(seq - cumulative);
    p.seth.ack_psn_offset = static_cast<std::int16_t>(std::clamp<std::int64_t>(offset, INT16_MIN, INT16_MAX));
  }
  const Duration residence = now - arrived;
  if (timestamp && residence < kTimestampRange) p.seth.cc_flags |= kSackTimestamp;
  if (rx_share.saturated()) p.seth.cc_flags |= kSackFull;
  p.cc.echoed_timestamp = static_cast<std::uint16_t>(echoed + (residence.ns >> 7));
}

Core::State::Sent Core::State::send_control(ConnId id, TxPacket& out, std::uint32_t room, Tick now) {
  Connection& c = connections[id];
  if (c.phase != Connection::Phase::kOpen && c.phase != Connection::Phase::kClosing) c.control = 0;
  if (c.control == 0 || !c.route_known) return Sent::kNothing;
  const auto clear = [&](std::uint16_t flag) { c.control &= static_cast<std::uint16_t>(~flag); };

  // Path probes choose their own path.
  if ((c.control & Flag::kSendPlaneProbe) != 0) {
    const std::uint32_t planes = c.health.probes_due & room & links_up;
    c.health.probes_due &= static_cast<std::uint8_t>(planes & (planes - 1));
    if (c.health.probes_due == 0) clear(Flag::kSendPlaneProbe);
    if (planes != 0) {
      const auto plane = static_cast<std::uint8_t>(std::countr_zero(planes));
      PathProbe& probe = new_probe(c, now);
      probe.plane = plane;
      probe.step = kPlaneProbe;
      path_probe(c, probe, draw_plane_probe(c, probe), 0, out);
      return Sent::kPacket;
    }
  }
  if ((c.control & Flag::kSendEvProbe) != 0 && c.peer_knows_us) {
    expire_probes(c, now);
    const auto pick = c.evs.due_probe(now, random, planes_there(c));
    if (pick && !(room >> pick->plane & 1)) {
      clear(Flag::kSendEvProbe);  // its turn comes again
      schedule(id, now);
    } else if (pick) {
      PathProbe& probe = new_probe(c, now);
      probe.ev = pick->index;
      probe.plane = pick->plane;
      path_probe(c, probe, pick->ev, 0, out);
      return Sent::kPacket;
    } else {
      clear(Flag::kSendEvProbe);
      schedule(id, now);
    }
  }
  if ((c.control & Flag::kSendBaseProbe) != 0) {
    const std::uint32_t planes = planes_for(c);
    const auto pick = c.evs.next(room & planes, random, -1, planes);
    clear(Flag::kSendBaseProbe);
    if (pick) {
      PathProbe& probe = new_probe(c, now);
      probe.ev = pick->index;
      probe.plane = pick->plane;
      probe.step = kBaseProbe;
      path_probe(c, probe, pick->ev, 0, out);
      return Sent::kPacket;
    }
  }
  if ((c.control & Flag::kSendMtuProbe) != 0) {
    const std::uint32_t planes = c.mtu_planes & planes_there(c);
    const std::uint32_t size = c.mtu_step == 0 ? 0 : mtu_size(c, c.mtu_step);
    if (planes == 0 || size == 0) {
      clear(Flag::kSendMtuProbe);
    } else if ((planes & room) != 0) {
      const auto plane = static_cast<std::uint8_t>(std::countr_zero(planes & room));
      c.mtu_planes &= static_cast<std::uint8_t>(~(1u << plane));
      const auto pick = c.evs.next(1u << plane, random, -1, links_up);
      if (pick) {
        PathProbe& probe = new_probe(c, now);
        probe.ev = pick->index;
        probe.plane = plane;
        probe.step = c.mtu_step;
        path_probe(c, probe, pick->ev, size, out);
        return Sent::kPacket;
      }
    }
  }
  if (c.control == 0) return Sent::kNothing;

  std::uint32_t ev = 0;
  std::uint8_t plane = 0;
  if (!control_path(c, room, now, ev, plane)) return Sent::kNoRoom;

  if ((c.control & Flag::kSendNak) != 0) {
    if (static_cast<std::uint8_t>(c.nak_next - 1) == c.naks) {
      clear(Flag::kSendNak);
    } else {
      wire::Packet p = packet_to(c, wire::Opcode::kAcknowledge, c.peer_qpn);
      write_nak(c, p);
      finish(c.route, p, ev, plane, 0, true, out);
      ++counters.tx_ack;
      return Sent::kPacket;
    }
  }
  if ((c.control & Flag::kSendAck) != 0) {
    clear(Flag::kSendAck);
    wire::Packet p = packet_to(c, wire::Opcode::kAcknowledge, c.peer_qpn);
    p.aeth.msn = std::uint32_t{c.naks} << 16 | c.ack_msn;
    finish(c.route, p, ev, plane, 0, true, out);
    ++counters.tx_ack;
    return Sent::kPacket;
  }
  if ((c.control & Flag::kSendPortStatus) != 0) {
    clear(Flag::kSendPortStatus);
    // The first one twice, on two planes.
    if (c.health.tries == 1) {
      ++c.health.tries;
      c.control |= Flag::kSendPortStatus;
    }
    wire::Packet p = packet_to(c, wire::Opcode::kEndpointRequest, wire::kEndpointQpn);
    port_status(c, p);
    p.erth.ev = ev;
    finish(c.route, p, ev, plane, 0, true, out);
    ++counters.tx_endpoint;
    ++counters.port_status_sent;
    return Sent::kPacket;
  }
  if ((c.control & (Flag::kSendProbeReply | Flag::kSendSack)) != 0) {
    const bool reply = (c.control & Flag::kSendProbeReply) != 0 || c.probe_reporting;
    wire::Packet p = packet_to(c, wire::Opcode::kSack, c.peer_qpn);
    write_sack(c, p, reply, now);
    finish(c.route, p, ev, plane, 0, true, out);
    ++counters.tx_sack;
    c.unsacked_bytes = 0;
    if (c.control & Flag::kSendProbeReply) {
      clear(Flag::kSendProbeReply);
      c.reports_left = 64;
      c.probe_reporting = true;
    }
    if (c.rx.more_reports() && c.reports_left != 0) {
      --c.reports_left;
      c.control |= Flag::kSendSack;
    } else if (!c.echoes.empty()) {
      c.probe_reporting = false;
      c.control |= Flag::kSendSack;
    } else {
      clear(Flag::kSendSack);
      c.reports_left = 0;
      c.probe_reporting = false;
      // What does not fit into this one is said a little later.
      c.sack_at = c.rx.more_reports() ? now + config.sack_delay : kNever;
      if (c.sack_at != kNever) schedule(id, now);
    }
    return Sent::kPacket;
  }
  if ((c.control & Flag::kSendInitAnswer) != 0) {
    clear(Flag::kSendInitAnswer);
    std::array<std::byte, wire::kMaxInitBody> body;
    const std::size_t size = init_body(id, true, body);
    wire::Packet p = packet_to(c, wire::Opcode::kEndpointResponse, wire::kEndpointQpn);
    p.bth.psn = c.instance;
    p.eeth.op = wire::EndpointOp::kInit;
    p.eeth.version = wire::kInitVersion;
    p.eeth.body_length = static_cast<std::uint16_t>(size);
    p.eeth.source_qpn = c.qpn;
    p.eeth.request_psn = c.init_answer_psn;
    p.eeth.echoed_ev = c.init_answer_ev;
    p.eeth.incarnation = endpoints[c.ep].incarnation;
    write_body(c.route, p, ev, plane, std::span<const std::byte>(body).first(size), out);
    return Sent::kPacket;
  }
  if ((c.control & Flag::kSendInit) != 0) {
    clear(Flag::kSendInit);
    std::array<std::byte, wire::kMaxInitBody> body;
    const std::size_t size = init_body(id, false, body);
    wire::Packet p = packet_to(c, wire::Opcode::kEndpointRequest, wire::kEndpointQpn);
    p.bth.psn = c.instance;
    p.erth.op = wire::EndpointOp::kInit;
    p.erth.version = wire::kInitVersion;
    p.erth.body_length = static_cast<std::uint16_t>(size);
    p.erth.source_qpn = c.qpn;
    p.erth.ev = ev;
    write_body(c.route, p, ev, plane, std::span<const std::byte>(body).first(size), out);
    return Sent::kPacket;
  }
  if ((c.control & Flag::kSendProbe) != 0) {
    clear(Flag::kSendProbe);
    wire::Packet p = packet_to(c, wire::Opcode::kProbeRequest, c.peer_qpn);
    p.peth.probe_id = ++c.tail_probe_id;
    p.peth.source_context = c.naks_seen;
    c.tail_probe_sent = now;
    p.peth.timestamp = wire_timestamp(now);
    finish(c.route, p, ev, plane, 0, true, out);
    ++counters.tx_probe;
    return Sent::kPacket;
  }
  if ((c.control & Flag::kSendClose) != 0) {
    clear(Flag::kSendClose);
    wire::Packet p = packet_to(c, wire::Opcode::kEndpointRequest, wire::kEndpointQpn);
    p.bth.psn = c.instance;
    p.erth.op = wire::EndpointOp::kClose;
    p.erth.version = wire::kInitVersion;
    p.erth.source_qpn = c.qpn;
    p.erth.argument = static_cast<std::uint32_t>(c.rx.next() - 1) & wire::kPsnMask;
    p.erth.ev = ev;
    write_body(c.route, p, ev, plane, {}, out);
    return Sent::kPacket;
  }
  c.control = 0;
  return Sent::kNothing;
}

void Core::State::path_probe(const Connection& c, const PathProbe& probe, std::uint32_t ev, std::uint32_t payload,
                             TxPacket& out) {
  wire::Packet p = packet_to(c, wire::Opcode::kEndpointRequest, wire::kEndpointQpn);
  p.bth.psn = probe.id;
  p.erth.op = wire::EndpointOp::kEvProbe;
  p.erth.source_qpn = c.qpn;
  p.erth.ev = ev;
  std::uint32_t padding = 0;
  if (payload != 0) {
    // As long as a data packet with that payload, in the same class: only what is not trimmed counts.
    p.inner.traffic_class = static_cast<std::uint8_t>(config.wire.dscp.no_trim << 2);
    p.has_outer = c.route.mode == path::RouteMode::kSrv6;
    const std::size_t around = wire::packet_size(p, 0, config.wire) + (p.has_outer ? 0 : 40);
    padding = static_cast<std::uint32_t>(payload + kHeaderBudget - around) & ~3u;
  }
  finish(c.route, p, ev, probe.plane, padding, true, out);
  out.padding = padding;
  ++counters.tx_endpoint;
}

void Core::State::write_body(const path::Route& route, wire::Packet& p, std::uint32_t ev, std::uint8_t plane,
                             std::span<const std::byte> body, TxPacket& out) {
  finish(route, p, ev, plane, body.size(), true, out);
  // Body and its pad go with the headers: there is no source to gather them from.
  std::byte* at = out.header.data() + out.header_length;
  if (!body.empty()) std::memcpy(at, body.data(), body.size());
  const std::size_t pad = wire::pad_of(body.size());
  std::memset(at + body.size(), 0, pad);
  out.header_length = static_cast<std::uint16_t>(out.header_length + body.size() + pad);
  ++counters.tx_endpoint;
}

Core::State::Sent Core::State::send_reply(TxPacket& out, std::uint32_t room, Tick now) {
  const Reply& r = replies.front();
  const Endpoint& e = endpoints[r.ep];
  if (!e.used || e.upper == nullptr) return Sent::kNothing;
  const ConnId id = e.inner == r.source ? find_connection(r.ep, r.destination) : kNoId;
  path::Route looked_up;
  const path::Route* route = &looked_up;
  std::uint32_t ev = 0;
  std::uint8_t plane = 0;
  if (id != kNoId && connections[id].route_known) {
    route = &connections[id].route;
    if (!control_path(connections[id], room, now, ev, plane)) return Sent::kNoRoom;
  } else {
    if (e.upper->route(r.destination, looked_up) != Status::kOk) return Sent::kNothing;
    const std::uint32_t usable = room & plane_mask(looked_up);
    if (usable == 0) return Sent::kNoRoom;
    draw_path(looked_up, usable, ev, plane);
  }
  wire::Packet p;
  p.inner.source = r.source;
  p.inner.destination = r.destination;
  p.inner.traffic_class = static_cast<std::uint8_t>(config.wire.dscp.control << 2);
  p.bth.opcode = wire::Opcode::kEndpointResponse;
  p.bth.dest_qpn = wire::kEndpointQpn;
  p.eeth.op = r.op;
  p.eeth.status = r.status;
  p.eeth.argument = r.argument;
  p.eeth.source_qpn = r.source_qpn;
  p.eeth.request_psn = r.request_psn;
  p.eeth.echoed_ev = r.echoed_ev;
  p.eeth.incarnation = r.incarnation;
  p.eeth.received_length = r.received_length;
  finish(*route, p, ev, plane, 0, true, out);
  ++counters.tx_endpoint;
  return Sent::kPacket;
}

}  // namespace mrc::transport
