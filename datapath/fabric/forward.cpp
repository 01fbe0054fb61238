// SPDX-License-Identifier: BSD-2-Clause
// What switches do to a packet (RFC 9800 NEXT-CSID), and the way through the Clos in one call.
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
