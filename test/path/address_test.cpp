// SPDX-License-Identifier: BSD-2-Clause
// Inner addresses: layout and round trip.
#include "mrc/path/address.hpp"

#include <rapidcheck.h>

#include "support/catch.hpp"

using namespace mrc;

TEST_CASE("inner address layout: fabric 48, T0 16, IPv4 32, port 16, zero 16") {
  const path::EndpointAddress e{.t0 = 0x0102, .ipv4 = 0x0a000001, .port = 0x1234};
  const wire::Ipv6Address expected{{0xfd, 0x6d, 0x72, 0x63, 0, 0, 1, 2, 10, 0, 0, 1, 0x12, 0x34, 0, 0}};
  REQUIRE(e.inner() == expected);
  REQUIRE(path::EndpointAddress::from_inner(expected) == e);
}

TEST_CASE("inner address round trip") {
  REQUIRE(rc::check([](std::uint64_t fabric, std::uint16_t t0, std::uint32_t ipv4, std::uint16_t port) {
    const path::EndpointAddress e{.fabric = fabric & 0xffffffffffff, .t0 = t0, .ipv4 = ipv4, .port = port};
    RC_ASSERT(path::EndpointAddress::from_inner(e.inner()) == e);
  }));
}
