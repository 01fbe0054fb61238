// SPDX-License-Identifier: BSD-2-Clause
// The operator's denylist, applied to the EVs of connections. Rare work: at connection start and when the list changes.
#include <algorithm>
#include <bit>

#include "mrc/transport/state.hpp"

namespace mrc::transport {

/// States follow the list; false if it leaves no EV at all.
bool Core::State::apply_denylist(Connection& c) const {
  const auto evs = c.evs.all();
  c.denied_planes = 0;
  if (deny_count == 0 && c.evs.denied() == 0) return true;
  c.denied_planes = static_cast<std::uint8_t>(plane_mask(c.route));
  for (std::size_t i = 0; i < evs.size(); ++i) {
    const auto index = static_cast<std::uint16_t>(i);
    if (path::denied(denylist(), c.route, evs[i].value, evs[i].plane)) {
      c.evs.deny(index);
    } else {
      c.evs.permit(index);
      c.denied_planes &= static_cast<std::uint8_t>(~(1u << evs[i].plane));
    }
  }
  return c.evs.denied() < c.evs.size();
}

/// A path outside any connection's set, one that the list leaves open if some tries find one.
void Core::State::draw_path(const path::Route& route, std::uint32_t planes, std::uint32_t& ev, std::uint8_t& plane) {
  for (int tries = 0; tries < 16; ++tries) {
    const unsigned turn = random.below(8);
    plane = static_cast<std::uint8_t>((static_cast<unsigned>(std::countr_zero((planes | planes << 8) >> turn)) + turn) &
                                      7u);
    ev = route.draw_ev(plane, random.next(), config.wire.ev_split);
    if (deny_count == 0 || !path::denied(denylist(), route, ev, plane)) return;
  }
}

bool Core::set_denylist(std::span<const path::DenyRule> rules, Tick now) {
  State& s = *state_;
  if (rules.size() > s.deny_storage.size()) return false;
  std::copy(rules.begin(), rules.end(), s.deny_storage.begin());
  s.deny_count = static_cast<std::uint32_t>(rules.size());
  for (ConnId id = 0; id < s.connections.size(); ++id) {
    Connection& c = s.connections[id];
    if (c.phase == Connection::Phase::kFree || !c.route_known) continue;
    const bool left = s.apply_denylist(c);
    c.control_evs_at = kLongAgo;  // drawn anew with the next control packet
    if (c.phase != Connection::Phase::kOpen) continue;
    if (!left) s.fail_connection(id, Status::kNoRoute, now);
    s.settle(id, now);
  }
  return true;
}

}  // namespace mrc::transport
