// SPDX-License-Identifier: BSD-2-Clause
// Which EVs a denylist covers.
#include "mrc/path/denylist.hpp"

#include <algorithm>

namespace mrc::path {

bool DenyRule::covers(const Route& route, std::uint32_t value, unsigned on_plane) const {
  if (plane >= 0 && static_cast<unsigned>(plane) != on_plane) return false;
  if (ev >= 0 && static_cast<std::uint32_t>(ev) != value) return false;
  if (t0 < 0 && t1 < 0 && nic < 0) return plane >= 0 || ev >= 0;  // an empty rule covers nothing
  if (route.mode != RouteMode::kSrv6) return false;
  const bool local = t0 < 0 || route.local.t0 == t0;
  const bool remote = t0 < 0 || route.remote.t0 == t0;
  if (!local && !remote) return false;
  if (nic >= 0 && !(local && route.local.nic == nic) && !(remote && route.remote.nic == nic)) return false;
  if (t1 < 0) return true;
  // Below one T0 nothing goes up to a T1.
  if (route.local.t0 == route.remote.t0) return false;
  return EvLayout::uplink(value) % std::max<unsigned>(route.uplinks, 1) == static_cast<unsigned>(t1);
}

bool denied(std::span<const DenyRule> rules, const Route& route, std::uint32_t value, unsigned on_plane) {
  return std::any_of(rules.begin(), rules.end(),
                     [&](const DenyRule& rule) { return rule.covers(route, value, on_plane); });
}

}  // namespace mrc::path
