// SPDX-License-Identifier: BSD-2-Clause
// The snapshot of a connection (info.hpp).
#include "mrc/transport/info.hpp"

#include <algorithm>

#include "mrc/transport/state.hpp"

namespace mrc::transport {
namespace {

ConnectionPhase phase_of(const Connection& c) {
  switch (c.phase) {
    case Connection::Phase::kFree:
      return ConnectionPhase::kFree;
    case Connection::Phase::kIdle:
      return ConnectionPhase::kIdle;
    case Connection::Phase::kOpen:
      return c.peer_known && c.peer_knows_us ? ConnectionPhase::kEstablished : ConnectionPhase::kConnecting;
    case Connection::Phase::kClosing:
      return ConnectionPhase::kClosing;
    case Connection::Phase::kClosed:
      break;
  }
  return ConnectionPhase::kClosed;
}

void count(EvCounts& counts, path::EvState state) {
  switch (state) {
    case path::EvState::kGood:
      ++counts.good;
      break;
    case path::EvState::kSkip:
      ++counts.skip;
      break;
    case path::EvState::kAssumedBad:
      ++counts.assumed_bad;
      break;
    case path::EvState::kDenied:
      ++counts.denied;
      break;
  }
}

}  // namespace

ConnectionInfo Core::info(ConnId id) const {
  const State& s = *state_;
  ConnectionInfo out;
  if (id >= s.connections.size() || s.connections[id].phase == Connection::Phase::kFree) return out;
  const Connection& c = s.connections[id];
  out.phase = phase_of(c);
  out.ep = c.ep;
  out.remote = c.remote;
  out.una = c.tx.una();
  out.next = c.tx.next();
  out.rx_next = c.rx.next();
  out.window = std::min(s.config.window, c.peer_window);
  out.inflight_packets = c.inflight_packets;
  out.inflight_bytes = c.inflight_bytes;
  out.lost_packets = c.tx.lost();
  out.messages = c.messages;
  out.cwnd = c.cc.window();
  out.cwnd_max = c.cc.max_window();
  out.cc = c.cc.kind();
  if (const Nscc* nscc = c.cc.nscc()) {
    out.cc_base_rtt = nscc->base_rtt();
    out.cc_target = nscc->target();
    out.cc_delay = nscc->delay();
    out.cc_average = nscc->average_delay();
  }
  out.penalty = c.share.penalty;
  out.payload_mtu = c.mtu;
  out.rtt_valid = c.rtt.valid();
  out.srtt = c.rtt.srtt();
  out.rtt_var = c.rtt.variation();
  out.rtt_min = c.rtt.min();
  out.rto = s.rto(c);
  out.backoff = c.backoff;
  out.tail_probes = c.tail_probes;
  if (!c.route_known) return out;

  out.remote_location = c.route.remote;
  out.srv6 = c.route.mode == path::RouteMode::kSrv6;
  out.planes = c.route.planes;
  for (unsigned p = 0; p < out.planes; ++p) {
    ConnectionPlaneInfo& plane = out.plane[p];
    plane.up = (s.links_up >> p & 1) != 0;
    plane.tx_packets = c.planes[p].order;
    plane.retransmitted = c.planes[p].tally.retransmitted;
    plane.lost = c.planes[p].tally.lost;
    plane.marked = c.planes[p].tally.marked;
    plane.trimmed = c.planes[p].tally.trimmed;
    plane.weight = static_cast<std::uint16_t>(c.balance.weight(p) * 1000u / path::PlaneBalance::kOne);
    plane.in_use = (c.balance.in_use() >> p & 1) != 0;
    plane.inflight_bytes = c.balance.inflight(p);
    plane.reordering = Duration{c.planes[p].reordering};
  }
  for (const path::Ev& ev : c.evs.all()) {
    count(out.evs, ev.state);
    if (ev.plane < out.planes) count(out.plane[ev.plane].evs, ev.state);
  }
  return out;
}

}  // namespace mrc::transport
