// SPDX-License-Identifier: BSD-2-Clause
// Which planes carry a connection's data, and how much each: our own links, what the peer says about its ports, what is
// known of lossy ones, and the balance between the planes (plane_balance.hpp, docs/protocol.md "Planes").
#include "mrc/transport/state.hpp"

namespace mrc::transport {

std::uint32_t Core::State::planes_for(const Connection& c) const {
  return plane_mask(c.route) & links_up;
}

/// After each received burst, and whenever timers run.
void Core::State::judge_planes(ConnId id, Tick now) {
  Connection& c = connections[id];
  if (c.phase != Connection::Phase::kOpen || !c.peer_knows_us) return;
  c.balance.set_window(c.cc.window(), c.mtu);
  const std::uint32_t in_use = planes_for(c) & c.evs.usable_planes();
  c.balance.judge(now, c.rtt.srtt(), in_use, c.evs.paths(), config.balance);
}

}  // namespace mrc::transport
