// SPDX-License-Identifier: BSD-2-Clause
// Inner addresses to bytes and back (design.md "Names").
#include "mrc/path/address.hpp"

namespace mrc::path {
namespace {

void put(wire::Ipv6Address& to, std::size_t at, std::size_t count, std::uint64_t value) {
  for (std::size_t i = count; i > 0; --i, value >>= 8) to.bytes[at + i - 1] = static_cast<std::uint8_t>(value);
}

std::uint64_t get(const wire::Ipv6Address& from, std::size_t at, std::size_t count) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < count; ++i) value = value << 8 | from.bytes[at + i];
  return value;
}

}  // namespace

wire::Ipv6Address EndpointAddress::inner() const {
  wire::Ipv6Address address;  // the last 16 bits stay 0
  put(address, 0, 6, fabric);
  put(address, 6, 2, t0);
  put(address, 8, 4, ipv4);
  put(address, 12, 2, port);
  return address;
}

EndpointAddress EndpointAddress::from_inner(const wire::Ipv6Address& address) {
  EndpointAddress endpoint;
  endpoint.fabric = get(address, 0, 6);
  endpoint.t0 = static_cast<std::uint16_t>(get(address, 6, 2));
  endpoint.ipv4 = static_cast<std::uint32_t>(get(address, 8, 4));
  endpoint.port = static_cast<std::uint16_t>(get(address, 12, 2));
  return endpoint;
}

}  // namespace mrc::path
