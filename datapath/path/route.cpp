// SPDX-License-Identifier: BSD-2-Clause
// EV -> path: the uSID carrier of one EV, and drawing EVs for a plane.
#include "mrc/path/route.hpp"

#include <array>

namespace mrc::path {

wire::Ipv6Address Route::outer_destination(std::uint32_t ev) const {
  const unsigned plane = EvLayout::plane(ev);
  const std::uint16_t nic = usid.make(plane, UsidKind::kNic, remote.nic);
  const std::uint16_t last = usid.make(plane, UsidKind::kT0, remote.t0);
  if (local.t0 == remote.t0) return make_carrier(locator, std::array{last, nic});
  unsigned uplink = EvLayout::uplink(ev);
  if (uplink >= uplinks && uplinks != 0) uplink %= uplinks;  // EVs of our own drawing never come here
  const std::uint16_t first = usid.make(plane, UsidKind::kT0, local.t0);
  const std::uint16_t spine = usid.make(plane, UsidKind::kT1, uplink);
  return make_carrier(locator, std::array{first, spine, last, nic});
}

std::uint32_t Route::make_ev(unsigned plane, unsigned uplink, std::uint32_t random, wire::EvSplit split) const {
  if (mode == RouteMode::kSrv6) return EvLayout::make(plane, uplink, 0, random);
  // The two top bits of the half that becomes the UDP source port: 0xC000 and up (the IANA dynamic range).
  return random | (split == wire::EvSplit::kHighInPort ? 0xC0000000u : 0x0000C000u);
}

std::uint32_t Route::draw_ev(unsigned plane, std::uint64_t random, wire::EvSplit split) const {
  const auto uplink = static_cast<unsigned>(((random >> 32) * (uplinks == 0 ? 1u : uplinks)) >> 32);
  return make_ev(plane, uplink, static_cast<std::uint32_t>(random), split);
}

}  // namespace mrc::path
