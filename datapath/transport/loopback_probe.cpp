// SPDX-License-Identifier: BSD-2-Clause
// Whose end of a plane loses packets? Probes addressed to ourselves, by way of our own T0 and back, tell: EV-probe
// requests whose carrier is T0 | NIC(self). All planes are probed side by side for as long as one is under suspicion; a
// plane found lossy is taken out of use for all connections, their peers are told, and it is probed until it has
// healed. Nothing is concluded where no T0 sends anything back (no SRv6, or a fabric without it).
#include <algorithm>
#include <bit>

#include "mrc/transport/state.hpp"

namespace mrc::transport {
namespace {

constexpr unsigned kLate = 16;              // a probe is lost when so many later ones have gone out
constexpr std::uint32_t kTestProbes = 192;  // after which a plane is acquitted
constexpr std::uint16_t kLosses = 3;        // … or before which it is convicted
constexpr std::uint32_t kLossShare = 64;    // … if they are more than one in so many
constexpr std::uint16_t kWorks = 8;         // answers that show that T0s do send back
constexpr Duration kRelapseMemory = seconds(1);
constexpr unsigned kMaxDoublings = 2;

}  // namespace

void Core::State::check_own_end(const Connection& c, std::uint32_t planes, Tick now) {
  if (!config.loopback_probes || c.self || c.route.mode != path::RouteMode::kSrv6) return;
  planes &= links_up & plane_mask(c.route) & ~(loop.testing | loop.lossy);
  if (planes == 0) return;
  if (loop.testing == 0 && loop.lossy == 0) {
    loop.route = c.route;
    loop.route.remote = loop.route.local;
    loop.via = c.remote;
    loop.ep = c.ep;
    loop.nonce = static_cast<std::uint32_t>(random.next()) | 1;
  }
  if (loop.testing == 0) {
    for (unsigned p = 0; p < path::kMaxPlanes; ++p) {
      if (!(loop.lossy >> p & 1)) loop.planes[p].answered = loop.planes[p].lost = loop.planes[p].streak = 0;
    }
  }
  loop.testing |= planes;
  loop.next = std::min(loop.next, now);
}

void Core::State::loop_due(Tick now) {
  judge_loop(now);
  const Endpoint* e = loop.ep < endpoints.size() ? &endpoints[loop.ep] : nullptr;
  if ((loop.testing | loop.lossy) == 0 || e == nullptr || !e->used || e->upper == nullptr) {
    // The endpoint is gone: its route and address go with it, and whoever sees losses next begins anew.
    for (unsigned p = 0; p < path::kMaxPlanes && loop.lossy != 0; ++p) {
      if (loop.lossy >> p & 1) own_plane_lossy(p, false, now);
    }
    loop.testing = loop.due = 0;
    loop.next = kNever;
    return;
  }
  loop.due = (loop.testing != 0 ? plane_mask(loop.route) : loop.lossy) & links_up;
  loop.next = now + (loop.testing != 0 ? config.loopback_test_interval : config.loopback_interval);
}

Core::State::Sent Core::State::send_loop(TxPacket& out, std::uint32_t room) {
  const auto plane = static_cast<std::uint8_t>(std::countr_zero(loop.due));
  loop.due &= loop.due - 1;
  const Endpoint& e = endpoints[loop.ep];
  if (!(room >> plane & 1) || !e.used) return Sent::kNothing;  // its turn comes again
  LoopCheck::Plane& l = loop.planes[plane];
  const std::uint64_t late = std::uint64_t{1} << ((l.next + 64 - kLate) & 63);
  if (l.pending & late) {
    l.pending &= ~late;
    l.streak = 0;
    if (l.lost != UINT16_MAX) ++l.lost;
    ++counters.loopback_lost;
  }
  l.pending |= std::uint64_t{1} << (l.next & 63);
  wire::Packet p;
  p.inner.source = p.inner.destination = e.inner;
  p.inner.traffic_class = static_cast<std::uint8_t>(config.wire.dscp.control << 2);
  p.bth.opcode = wire::Opcode::kEndpointRequest;
  p.bth.dest_qpn = wire::kEndpointQpn;
  p.bth.psn = l.next++ & wire::kPsnMask;
  p.erth.op = wire::EndpointOp::kEvProbe;
  p.erth.argument = loop.nonce;
  p.erth.source_qpn = 0;  // no connection's
  const std::uint32_t ev = loop.route.draw_ev(plane, random.next(), config.wire.ev_split);
  p.erth.ev = ev;
  finish(loop.route, p, ev, plane, 0, true, out);
  out.destination = loop.via;
  ++counters.tx_endpoint;
  ++counters.loopback_probes;
  return Sent::kPacket;
}

/// True if this request is a probe of our own that came back.
bool Core::State::on_loop(EpId ep, const wire::Packet& p, unsigned plane, Tick) {
  if (ep != loop.ep || loop.nonce == 0 || p.inner.source != p.inner.destination || p.erth.source_qpn != 0 ||
      p.erth.argument != loop.nonce) {
    return false;
  }
  LoopCheck::Plane& l = loop.planes[plane];
  const std::uint32_t age = (l.next - p.bth.psn) & wire::kPsnMask;
  const std::uint64_t bit = std::uint64_t{1} << (p.bth.psn & 63);
  if (age == 0 || age > kLate || !(l.pending & bit)) return true;
  l.pending &= ~bit;
  if (l.answered != UINT16_MAX) ++l.answered;
  if (l.streak != UINT16_MAX) ++l.streak;
  return true;
}

void Core::State::judge_loop(Tick now) {
  for (unsigned p = 0; p < path::kMaxPlanes; ++p) {
    const std::uint32_t bit = 1u << p;
    LoopCheck::Plane& l = loop.planes[p];
    if (loop.lossy & bit) {
      if (l.streak >= l.needed) {
        l.healed_at = now;
        own_plane_lossy(p, false, now);
      }
    } else if (loop.testing & bit) {
      const std::uint32_t sent = std::uint32_t{l.answered} + l.lost;
      bool works = l.answered >= kWorks;
      for (unsigned q = 0; q < path::kMaxPlanes && !works; ++q) {
        works = q != p && loop.planes[q].answered >= kWorks && loop.planes[q].lost * 4u <= l.lost;
      }
      if (works && l.lost >= kLosses && l.lost * kLossShare > sent) {
        const unsigned before = l.needed == 0 || now - l.healed_at > kRelapseMemory ? 0u : l.needed * 2u;
        l.needed = static_cast<std::uint16_t>(std::clamp<unsigned>(
            before, config.loopback_answers, std::uint32_t{config.loopback_answers} << kMaxDoublings));
        l.streak = 0;
        loop.testing &= ~bit;
        own_plane_lossy(p, true, now);
      } else if (sent >= kTestProbes || l.lost >= kTestProbes / 2) {
        loop.testing &= ~bit;
      }
    }
  }
}

/// Our end of this plane, for all connections.
void Core::State::own_plane_lossy(unsigned plane, bool lossy, Tick now) {
  const std::uint32_t bit = 1u << plane;
  if (lossy) {
    ++counters.plane_degraded;
    loop.lossy |= bit;
  } else {
    loop.lossy &= ~bit;
  }
  for (ConnId id = 0; id < connections.size(); ++id) {
    Connection& c = connections[id];
    if (c.phase != Connection::Phase::kOpen || !c.route_known || plane >= c.route.planes) continue;
    excuse_plane(c, plane);
    if (!lossy) take_back_plane(id, plane, now);
    tell_ports(id, now);
    settle(id, now);
  }
}

}  // namespace mrc::transport
