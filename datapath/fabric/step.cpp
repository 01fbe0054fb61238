// SPDX-License-Identifier: BSD-2-Clause
// The way through the Clos hop by hop: as far at a time as no queue, copy or cut can come between.
#include <algorithm>

#include "mrc/fabric/clos.hpp"

namespace mrc::fabric {

Step Clos::enter(InFlight& flight, std::span<std::byte> l3, std::uint32_t length, const NicPort& from, Tick now) {
  std::size_t link = 0;
  const DropCause cause = admit(l3, from, link);
  flight = InFlight{};
  flight.length = length;
  flight.plane = from.plane;
  if (cause != DropCause::kNone) return {.drop = cause};
  ++totals_.in_flight;
  flight.link = static_cast<std::uint32_t>(link);
  return move(flight, l3, now);
}

Step Clos::refuse(DropCause cause) {
  --totals_.in_flight;
  return {.drop = cause};
}

void Clos::abandon(const InFlight& flight) {
  --totals_.in_flight;
  links_[flight.link].link.lose();
}

Step Clos::step(InFlight& flight, std::span<std::byte> l3, Tick now) {
  now_ = std::max(now_, now);
  Cable& crossed = links_[flight.link];
  if (crossed.link.down_at(now)) {  // cut while the packet was on it
    crossed.link.lose();
    return refuse(DropCause::kLinkDown);
  }
  if (plane_down_[flight.plane]) {
    ++totals_.drops[static_cast<std::size_t>(DropCause::kPlaneDown)];
    return refuse(DropCause::kPlaneDown);
  }
  if (flight.arriving) {
    --totals_.in_flight;
    ++totals_.delivered;
    return {.progress = Progress::kDelivered, .when = now};
  }
  Switch& at = switches_[crossed.end];
  ++at.counters.packets;
  const Hop hop = pass(at, l3);
  if (hop.cause != DropCause::kNone) {
    ++at.counters.drops[static_cast<std::size_t>(hop.cause)];
    return refuse(hop.cause);
  }
  flight.link = hop.link;
  return move(flight, l3, now);
}

// Over flight.link, which the packet reaches at `now`, and on until a queue, a twin or the NIC.
Step Clos::move(InFlight& flight, std::span<std::byte> l3, Tick now) {
  now_ = std::max(now_, now);
  for (;;) {
    Cable& cable = links_[flight.link];
    Transit transit{.l3 = l3, .length = flight.length, .flips = &flight.flips};
    const DropCause lost = cable.link.carry(transit, random_, config_.dscp, cable.to_nic, now);
    flight.length = static_cast<std::uint32_t>(transit.length);
    if (lost != DropCause::kNone) return refuse(lost);
    const Tick then = now + transit.delay[0];
    const bool twin = transit.copies == 2;
    totals_.in_flight += twin;
    if (cable.to_nic) {
      flight.arriving = true;
      flight.to = {switches_[cable.end].id.index, cable.far};
    }
    Switch& at = switches_[cable.end];
    if (cable.to_nic || twin || at.rated != 0) {
      return {.progress = Progress::kMoving, .twin = twin, .when = then, .twin_when = now + transit.delay[1]};
    }
    ++at.counters.packets;
    const Hop hop = pass(at, l3);
    if (hop.cause != DropCause::kNone) {
      ++at.counters.drops[static_cast<std::size_t>(hop.cause)];
      return refuse(hop.cause);
    }
    flight.link = hop.link;
    now = then;
  }
}

}  // namespace mrc::fabric
