// SPDX-License-Identifier: BSD-2-Clause
// Where a destination sits and how its packets are addressed, EV by EV.
// EV bits (32): plane 4 | T0 uplink 8 | second uplink 8 (three tiers) | random 12. Outside SRv6 mode EVs are drawn so
// that the UDP source port is >= 0xC000, and the plane is kept beside the EV.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "mrc/path/usid.hpp"
#include "mrc/wire/params.hpp"

namespace mrc::path {

inline constexpr unsigned kMaxPlanes = 8;

enum class RouteMode : std::uint8_t {
  kSrv6,  ///< outer header whose destination is a uSID carrier
  kEcmp,  ///< no outer header; the EV in source port and flow label is all the entropy
};

/// Position of a node: the T0 switch index (the same in every plane) and its NIC index below that T0.
struct Location {
  std::uint16_t t0 = 0;
  std::uint16_t nic = 0;
  bool operator==(const Location&) const = default;
};

struct EvLayout {
  static constexpr unsigned plane(std::uint32_t ev) { return ev >> 28; }
  static constexpr unsigned uplink(std::uint32_t ev) { return (ev >> 20) & 0xff; }
  static constexpr std::uint32_t make(unsigned plane, unsigned uplink, unsigned uplink2, std::uint32_t random) {
    return plane << 28 | (uplink & 0xff) << 20 | (uplink2 & 0xff) << 12 | (random & 0xfff);
  }
};

/// Everything that is constant for one (local node, remote node): computed once, shared by connections.
struct Route {
  RouteMode mode = RouteMode::kEcmp;
  std::uint8_t planes = 1;    ///< planes present on both sides
  std::uint16_t uplinks = 1;  ///< T1 switches (= uplinks of a T0) per plane
  std::uint32_t locator = kDefaultLocator;
  UsidLayout usid{};
  Location local{};
  Location remote{};
  bool icrc_off = false;             ///< memory all the way: the driver may offer kFeatureIcrcOff
  wire::Ipv6Address outer_source{};  ///< SRv6 mode: our node's address
  std::uint32_t hop = 0;             ///< opaque to the core: handed back with each packet (next hop, loopback, …)
  std::uint32_t mtu = 1500;          ///< L3 bytes, the smallest of the planes

  /// SRv6 mode: the outer destination for one EV: T0 | T1(uplink) | remote T0 | NIC, all in the EV's plane;
  /// T0 | NIC when both sit under the same T0. No per-path state.
  wire::Ipv6Address outer_destination(std::uint32_t ev) const;
  /// The EV of one chosen path: `uplink` counts in SRv6 mode only, the rest of the bits come from `random`.
  std::uint32_t make_ev(unsigned plane, unsigned uplink, std::uint32_t random, wire::EvSplit split) const;
  /// A random EV for `plane` under this route (uniform over its uplinks).
  std::uint32_t draw_ev(unsigned plane, std::uint64_t random, wire::EvSplit split) const;
};

}  // namespace mrc::path
