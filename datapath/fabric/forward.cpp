// SPDX-License-Identifier: BSD-2-Clause
// One packet's way through the Clos: link, switch, link, … as RFC 9800 NEXT-CSID switches would take it.
#include <cstring>

#include "mrc/fabric/clos.hpp"
#include "mrc/wire/ip.hpp"

namespace mrc::fabric {
namespace {

constexpr std::size_t kHopLimitAt = 7;
constexpr std::size_t kDestinationAt = 24;

wire::Ipv6Address destination_of(std::span<const std::byte> l3) {
  wire::Ipv6Address address;
  std::memcpy(address.bytes.data(), l3.data() + kDestinationAt, address.bytes.size());
  return address;
}

}  // namespace

DropCause Clos::pass(const SwitchId& id, Switch& at, std::span<std::byte> l3) const {
  if (at.down) return DropCause::kSwitchDown;
  if (l3[0] >> 4 != std::byte{6}) return DropCause::kMalformed;  // corrupted on the way
  const wire::Ipv6Address carrier = destination_of(l3);
  const std::uint16_t own = config_.usid.make(id.plane, id.kind, id.index);
  if (path::locator_of(carrier) != config_.locator || path::active_usid(carrier) != own) return DropCause::kNotForMe;
  if (l3[kHopLimitAt] <= std::byte{1}) return DropCause::kHopLimit;
  l3[kHopLimitAt] = static_cast<std::byte>(static_cast<unsigned>(l3[kHopLimitAt]) - 1);
  const wire::Ipv6Address shifted = path::shift(carrier);
  std::memcpy(l3.data() + kDestinationAt, shifted.bytes.data(), shifted.bytes.size());
  return DropCause::kNone;
}

Outcome Clos::forward(std::span<std::byte> l3, const NicPort& from, Tick /*now: for queues*/) {
  ++totals_.offered;
  Outcome outcome;
  outcome.length = l3.size();
  const auto refuse = [&](DropCause cause) {
    ++totals_.drops[static_cast<std::size_t>(cause)];
    outcome.drop = cause;
    return outcome;
  };
  LinkId hop{LinkKind::kNicToT0, from.plane, from.nic.t0, from.nic.nic};
  if (index_of(hop) == kNowhere) return refuse(DropCause::kNoSuchPort);
  if (l3.size() < wire::Ipv6Header::kSize || l3[0] >> 4 != std::byte{6}) return refuse(DropCause::kMalformed);
  if (plane_down_[from.plane]) return refuse(DropCause::kPlaneDown);

  Transit transit{.l3 = l3, .length = l3.size()};
  SwitchId at{path::UsidKind::kT0, from.plane, from.nic.t0};
  // Ends: each switch shifts a uSID out, and a carrier holds six.
  for (;;) {
    const bool last_hop = hop.kind == LinkKind::kT0ToNic;
    const DropCause lost = links_[index_of(hop)].link.carry(transit, random_, config_.dscp, last_hop);
    outcome.length = transit.length;
    if (lost != DropCause::kNone) {
      outcome.drop = lost;
      return outcome;
    }
    if (last_hop) break;

    Switch& box = switches_[index_of(at)];
    box.counters.packets += transit.copies;
    DropCause cause = pass(at, box, l3);
    const std::uint16_t next = path::active_usid(destination_of(l3));
    const auto index = static_cast<std::uint16_t>(config_.usid.index(next));
    const path::UsidKind kind = config_.usid.kind(next);
    if (cause == DropCause::kNone) {
      if (at.kind == path::UsidKind::kT0) {
        hop = {kind == path::UsidKind::kNic ? LinkKind::kT0ToNic : LinkKind::kT0ToT1, at.plane, at.index, index};
      } else {
        hop = {LinkKind::kT1ToT0, at.plane, index, at.index};
      }
      const bool wanted = at.kind == path::UsidKind::kT0 ? kind != path::UsidKind::kT0 : kind == path::UsidKind::kT0;
      const bool neighbour = config_.usid.plane(next) == at.plane && static_cast<unsigned>(kind) != 0 && wanted;
      if (!neighbour || index_of(hop) == kNowhere) cause = DropCause::kUnknownUsid;
    }
    if (cause != DropCause::kNone) {
      box.counters.drops[static_cast<std::size_t>(cause)] += transit.copies;
      outcome.drop = cause;
      return outcome;
    }
    if (hop.kind == LinkKind::kT0ToT1 || hop.kind == LinkKind::kT1ToT0) at = {kind, at.plane, index};
  }
  outcome.count = transit.copies;
  totals_.delivered += transit.copies;
  for (unsigned copy = 0; copy < transit.copies; ++copy) {
    outcome.deliveries[copy] = {path::Location{hop.t0, hop.far}, hop.plane, transit.delay[copy]};
  }
  return outcome;
}

}  // namespace mrc::fabric
