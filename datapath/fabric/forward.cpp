// SPDX-License-Identifier: BSD-2-Clause
// A packet's way through the Clos: link, switch, link, … as RFC 9800 NEXT-CSID switches would take it.
#include <algorithm>
#include <cstring>

#include "mrc/fabric/clos.hpp"
#include "mrc/wire/ip.hpp"

namespace mrc::fabric {
namespace {

constexpr std::size_t kHopLimitAt = 7;
constexpr std::size_t kDestinationAt = 24;
constexpr std::size_t kUsidsAt = kDestinationAt + 4;  // behind the 32-bit locator
constexpr std::size_t kEnd = kDestinationAt + 16;

unsigned word(std::span<const std::byte> l3, std::size_t at) {
  return static_cast<unsigned>(l3[at]) << 8 | static_cast<unsigned>(l3[at + 1]);
}

}  // namespace

// Checks the carrier, shifts it, and finds the link that the next uSID names. The same as path::shift() and
// path::active_usid() on a decoded address, done in the packet.
Clos::Hop Clos::pass(const Switch& at, std::span<std::byte> l3) const {
  const SwitchId& id = at.id;
  if (at.down) return {.cause = DropCause::kSwitchDown};
  if (l3[0] >> 4 != std::byte{6}) return {.cause = DropCause::kMalformed};  // corrupted on the way
  const std::uint32_t locator = word(l3, kDestinationAt) << 16 | word(l3, kDestinationAt + 2);
  if (locator != config_.locator || word(l3, kUsidsAt) != at.usid) {
    return {.cause = DropCause::kNotForMe};
  }
  if (l3[kHopLimitAt] <= std::byte{1}) return {.cause = DropCause::kHopLimit};
  l3[kHopLimitAt] = static_cast<std::byte>(static_cast<unsigned>(l3[kHopLimitAt]) - 1);
  std::memmove(l3.data() + kUsidsAt, l3.data() + kUsidsAt + 2, kEnd - kUsidsAt - 2);
  l3[kEnd - 2] = l3[kEnd - 1] = std::byte{};

  const auto next = static_cast<std::uint16_t>(word(l3, kUsidsAt));
  const std::size_t index = config_.usid.index(next);
  const path::UsidKind kind = config_.usid.kind(next);
  const std::size_t ports = std::size_t{config_.nics} + config_.t1s;
  std::size_t link = kNowhere;  // as index_of() numbers them
  if (id.kind == path::UsidKind::kT1) {
    if (kind == path::UsidKind::kT0 && index < config_.t0s) link = at.first + index * ports * 2;
  } else if (kind == path::UsidKind::kNic) {
    if (index < config_.nics) link = at.first + index * 2;
  } else if (kind == path::UsidKind::kT1) {
    if (index < config_.t1s) link = at.first - 1 + (config_.nics + index) * 2;
  }
  if (link == kNowhere || config_.usid.plane(next) != id.plane) return {.cause = DropCause::kUnknownUsid};
  return {.link = static_cast<std::uint32_t>(link)};
}

DropCause Clos::admit(std::span<const std::byte> l3, const NicPort& from, std::size_t& link) {
  ++totals_.offered;
  link = index_of(LinkId{LinkKind::kNicToT0, from.plane, from.nic.t0, from.nic.nic});
  DropCause cause = DropCause::kNone;
  if (link == kNowhere) {
    cause = DropCause::kNoSuchPort;
  } else if (l3.size() < wire::Ipv6Header::kSize || l3[0] >> 4 != std::byte{6}) {
    cause = DropCause::kMalformed;
  } else if (plane_down_[from.plane]) {
    cause = DropCause::kPlaneDown;
  }
  if (cause != DropCause::kNone) ++totals_.drops[static_cast<std::size_t>(cause)];
  return cause;
}

Step Clos::enter(InFlight& flight, std::span<std::byte> l3, const NicPort& from, Tick now) {
  std::size_t link = 0;
  const DropCause cause = admit(l3, from, link);
  flight = InFlight{};
  flight.length = static_cast<std::uint32_t>(l3.size());
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

Outcome Clos::forward(std::span<std::byte> l3, const NicPort& from, Tick now) {
  now_ = std::max(now_, now);
  Outcome outcome;
  outcome.length = l3.size();
  std::size_t link = 0;
  outcome.drop = admit(l3, from, link);
  if (outcome.drop != DropCause::kNone) return outcome;
  Transit transit{.l3 = l3, .length = l3.size()};
  // Ends: each switch shifts a uSID out, and a carrier holds six.
  for (;;) {
    Cable& cable = links_[link];
    outcome.drop = cable.link.carry(transit, random_, config_.dscp, cable.to_nic, now + transit.delay[0]);
    outcome.length = transit.length;
    if (outcome.drop != DropCause::kNone) return outcome;
    Switch& at = switches_[cable.end];
    if (cable.to_nic) {
      outcome.count = transit.copies;
      totals_.delivered += transit.copies;
      for (unsigned copy = 0; copy < transit.copies; ++copy) {
        outcome.deliveries[copy] = {path::Location{at.id.index, cable.far}, at.id.plane, transit.delay[copy]};
      }
      return outcome;
    }
    at.counters.packets += transit.copies;
    const Hop hop = pass(at, l3);
    if (hop.cause != DropCause::kNone) {
      at.counters.drops[static_cast<std::size_t>(hop.cause)] += transit.copies;
      outcome.drop = hop.cause;
      return outcome;
    }
    link = hop.link;
  }
}

}  // namespace mrc::fabric
