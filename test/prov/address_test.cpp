// SPDX-License-Identifier: BSD-2-Clause
// Names and socket addresses.
#include "address.hpp"

#include <arpa/inet.h>

#include <rapidcheck.h>

#include "support/catch.hpp"

using namespace mrc::prov;

namespace {

std::optional<EndpointName> parse6(const char* text, std::uint16_t port) {
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  v6.sin6_port = htons(port);
  REQUIRE(inet_pton(AF_INET6, text, &v6.sin6_addr) == 1);
  return name_of(&v6, sizeof v6);
}

}  // namespace

TEST_CASE("a name survives both socket address families") {
  REQUIRE(rc::check([](std::uint32_t ipv4, std::uint16_t port, bool ipv6) {
    const EndpointName name{ipv4, port};
    const Sockaddr raw = sockaddr_of(name, ipv6);
    RC_ASSERT(raw.ipv6() == ipv6);
    RC_ASSERT(raw.length == (ipv6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in)));
    RC_ASSERT(name_of(&raw.any, raw.length) == name);
  }));
}

TEST_CASE("an inner address is a name") {
  // fabric fd00:1:2 | T0 3 | 10.77.0.5 | port 0x1234 | 0
  CHECK(parse6("fd00:1:2:3:a4d:5:1234:0", 0) == EndpointName{0x0a4d0005, 0x1234});
  CHECK(parse6("fd00:1:2:3:a4d:5:1234:0", 0x1234) == EndpointName{0x0a4d0005, 0x1234});
  CHECK(parse6("fd00:1:2:3:a4d:5:0:0", 77) == EndpointName{0x0a4d0005, 77});
  CHECK_FALSE(parse6("fd00:1:2:3:a4d:5:1234:0", 1));
  CHECK_FALSE(parse6("2001:db8::1", 9));
  CHECK(parse6("::ffff:10.77.0.5", 9) == EndpointName{0x0a4d0005, 9});
  CHECK(parse6("::1", 9) == EndpointName{INADDR_LOOPBACK, 9});
}

TEST_CASE("what is no socket address is no name") {
  sockaddr_in v4{};
  CHECK_FALSE(name_of(&v4, sizeof v4));  // family 0
  v4.sin_family = AF_INET;
  CHECK(name_of(&v4, sizeof v4));
  CHECK_FALSE(name_of(&v4, sizeof v4 - 1));
  CHECK_FALSE(name_of(&v4, 1));
  CHECK_FALSE(name_of(nullptr, 16));
}

TEST_CASE("who can be a peer") {
  CHECK(is_peer({0x0a4d0005, 1}));
  CHECK(is_peer({INADDR_LOOPBACK, 1}));
  CHECK_FALSE(is_peer({0x0a4d0005, 0}));
  CHECK_FALSE(is_peer({0, 1}));
  CHECK_FALSE(is_peer({0xe0000001, 1}));
  CHECK_FALSE(is_peer({0xffffffff, 1}));
  CHECK(host_ipv4() != 0);
}
