// SPDX-License-Identifier: BSD-2-Clause
// Packets to send through a Clos in tests.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "mrc/fabric/clos.hpp"
#include "mrc/path/route.hpp"
#include "mrc/wire/ip.hpp"

namespace mrc::fabric {

inline path::Route route_between(const ClosConfig& config, path::Location from, path::Location to) {
  path::Route route;
  route.mode = path::RouteMode::kSrv6;
  route.planes = config.planes;
  route.uplinks = config.t1s;
  route.locator = config.locator;
  route.usid = config.usid;
  route.local = from;
  route.remote = to;
  return route;
}

/// An outer IPv6 header for `ev` and `payload` bytes of 0xa5.
inline std::vector<std::byte> make_packet(const path::Route& route, std::uint32_t ev, std::size_t payload = 1000,
                                          unsigned dscp = wire::Dscp{}.trimmable, unsigned ecn = wire::kEcnEct0) {
  std::vector<std::byte> bytes(wire::Ipv6Header::kSize + payload, std::byte{0xa5});
  wire::Ipv6Header header;
  header.traffic_class = static_cast<std::uint8_t>(dscp << 2 | ecn);
  header.flow_label = ev & 0xfffff;
  header.payload_length = static_cast<std::uint16_t>(payload);
  header.next_header = wire::Ipv6Header::kNextIpv6;
  header.destination = route.outer_destination(ev);
  header.encode(std::span(bytes).first<wire::Ipv6Header::kSize>());
  return bytes;
}

inline wire::Ipv6Header outer_of(std::span<const std::byte> l3) {
  return wire::Ipv6Header::decode(l3.first<wire::Ipv6Header::kSize>());
}

}  // namespace mrc::fabric
