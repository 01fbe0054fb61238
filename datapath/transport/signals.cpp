// SPDX-License-Identifier: BSD-2-Clause
// The one place where acknowledgements, marks, trims, losses and time-outs become signals: to congestion control and to
// what is known of planes.
#include <algorithm>
#include <bit>

#include "mrc/transport/state.hpp"

namespace mrc::transport {
namespace {

constexpr Duration kBaseProbeInterval = milliseconds(1);
constexpr Duration kFirstBaseProbes = microseconds(50);  // between the first ones: the least of several counts
constexpr std::uint8_t kFirstBaseProbeCount = 20;

CcTime at(const Connection& c, Tick now) {
  return {now, c.inflight_bytes};
}

}  // namespace

/// The connection as its controller sees it.
CcLink Core::State::cc_link(const Connection& c) const {
  CcLink link;
  const auto planes = static_cast<unsigned>(std::popcount(planes_for(c)));
  link.plane_bps = config.link_bps;
  link.bps = config.link_bps * std::max(planes, 1u);
  link.limit =
      config.window_bytes != 0 ? config.window_bytes : std::uint64_t{config.window} * std::max(c.mtu, kBaseMtu);
  link.mtu = c.mtu;
  link.target_min = config.cc_target_min;
  link.trimming = config.trimming;
  return link;
}

/// A probe of the control class came back: what a round trip takes without queues.
void Core::State::signal_base(Connection& c, Duration rtt, Tick sent) {
  if (sent < stalled_at || rtt.ns <= 0) return;
  c.cc.on_base(rtt, c.route.mode == path::RouteMode::kSrv6 && c.route.local.t0 == c.route.remote.t0 ? 2 : 4);
}

void Core::State::signal_sent(Connection& c, std::uint32_t bytes, Tick now) {
  c.cc.on_sent(bytes, at(c, now));
}

/// `rtt` < 0: this packet gave no sample. `marked`: it was echoed as ECN-marked.
void Core::State::signal_ack(Connection& c, const TxRecord& record, std::uint32_t bytes, Duration rtt, bool marked,
                             Tick now) {
  if (marked) {
    ++c.planes[record.plane].tally.marked;
    c.balance.on_marked(record.plane);
  }
  if (c.balance.in_trouble(record.plane)) {
    // Its delay and its marks are its own; the window is about what all planes have in common (plane_balance.hpp).
    rtt = Duration{-1};
    marked = false;
  }
  c.cc.on_ack(bytes, rtt, marked, at(c, now));
}

/// A packet that was SACKed before had been ECN-marked.
void Core::State::signal_ecn(Connection& c, unsigned plane, Tick now) {
  ++c.planes[plane].tally.marked;
  c.balance.on_marked(plane);
  if (c.balance.in_trouble(plane)) return;
  c.cc.on_ecn(c.mtu, at(c, now));
}

void Core::State::signal_trim(Connection& c, unsigned plane, std::uint32_t bytes, bool last_hop, Tick now) {
  ++c.planes[plane].tally.trimmed;
  c.balance.on_marked(plane);
  if (c.balance.in_trouble(plane)) return;
  c.cc.on_nack(bytes, last_hop, at(c, now));
}

void Core::State::signal_loss(Connection& c, unsigned plane, std::uint32_t bytes, Tick now) {
  ++c.planes[plane].tally.lost;
  if (c.balance.in_trouble(plane)) return;
  c.cc.on_loss(bytes, at(c, now));
}

void Core::State::signal_timeout(Connection& c, Tick now) {
  c.cc.on_timeout(at(c, now));
}

/// A data packet arrived that was not there before.
void Core::State::signal_received(Connection& c, std::uint32_t bytes, Tick now) {
  const auto planes = static_cast<unsigned>(std::popcount(plane_mask(c.route) & links_up));
  rx_share.on_data(c.share, bytes, config.link_bps * planes, now);
}

/// CC_STATE: what the receiver demands. Older reports than the last one demand nothing.
void Core::State::signal_receiver(Connection& c, const wire::CcState& state, bool full) {
  constexpr std::uint32_t kMask = 0xffffff;
  const std::uint32_t newly = (state.rcvd_bytes - c.peer_received) & kMask;
  if (newly > kMask / 2) return;
  c.peer_received = state.rcvd_bytes;
  c.cc.on_receiver(full);
  if (state.rcv_cwnd_pen != 0) c.cc.on_penalty(std::uint64_t{newly} << 8, state.rcv_cwnd_pen);
  if (state.restore_cwnd) c.cc.on_restore();
}

/// After each received burst.
void Core::State::signal_batch_end(Connection& c, Tick now) {
  const std::uint32_t planes = planes_for(c);
  if (planes != c.cc_planes && planes != 0 && c.peer_known) {
    c.cc_planes = static_cast<std::uint8_t>(planes);
    c.cc.set_link(cc_link(c));
  }
  // Data meets queues from the first packet on where others were there before. The control class does not.
  if (c.cc.kind() != CcKind::kFixed && now >= c.base_probe_next && c.inflight_packets != 0 && c.mtu_step == 0) {
    const bool first = c.base_probes < kFirstBaseProbeCount;
    c.base_probes = static_cast<std::uint8_t>(c.base_probes + first);
    c.base_probe_next = now + (first ? kFirstBaseProbes : kBaseProbeInterval);
    want_control(static_cast<ConnId>(&c - connections.data()), Connection::kSendBaseProbe);
  }
  c.cc.on_batch_end(at(c, now));
}

}  // namespace mrc::transport
