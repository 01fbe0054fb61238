// SPDX-License-Identifier: BSD-2-Clause
// Addresses of this host and port numbers reserved with the kernel.
#include "mrc/engine/identity.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "support/catch.hpp"

using namespace mrc::engine;

namespace {
constexpr std::uint32_t kLocalhost = 0x7f000001;
}

TEST_CASE("IPv4 addresses read and print") {
  REQUIRE(to_text(0x0a4d0001) == "10.77.0.1");
  REQUIRE(parse_ipv4("10.77.0.1").value() == 0x0a4d0001);
  for (const char* bad : {"", "10.77.0", "10.77.0.256", "host", "10.77.0.1 ", "::1"}) {
    REQUIRE(parse_ipv4(bad).error().code == EINVAL);
  }
}

TEST_CASE("the primary address is one of this host's") {
  const auto all = local_ipv4s();
  REQUIRE(std::find(all.begin(), all.end(), primary_ipv4()) != all.end());
  REQUIRE(std::find(all.begin(), all.end(), kLocalhost) != all.end());
}

TEST_CASE("a port number is taken once, and free again afterwards") {
  auto first = Reservation::take(kLocalhost, 0);
  REQUIRE(first.has_value());
  REQUIRE(first->port() != 0);
  const auto second = Reservation::take(kLocalhost, first->port());
  REQUIRE_FALSE(second.has_value());
  REQUIRE(second.error().code == EADDRINUSE);
  REQUIRE(second.error().text.find("is taken by another process") != std::string::npos);
  const auto number = first->port();
  *first = Reservation{};
  REQUIRE(Reservation::take(kLocalhost, number).has_value());
}

TEST_CASE("an address of another host can be reserved, and the socket is closed on exec") {
  const auto held = Reservation::take(0x0a4dfe01, 0);
  REQUIRE(held.has_value());
  REQUIRE((fcntl(held->fd(), F_GETFD) & FD_CLOEXEC) != 0);
}

TEST_CASE("what is sent to a reserved port goes nowhere and raises no error") {
  const auto held = Reservation::take(kLocalhost, 0);
  REQUIRE(held.has_value());
  const int out = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(held->port());
  to.sin_addr.s_addr = htonl(kLocalhost);
  REQUIRE(connect(out, reinterpret_cast<sockaddr*>(&to), sizeof(to)) == 0);
  for (int i = 0; i < 3; ++i) REQUIRE(send(out, "x", 1, 0) == 1);
  char byte = 0;
  REQUIRE(recv(held->fd(), &byte, 1, MSG_DONTWAIT) == -1);
  REQUIRE(errno == EAGAIN);
  close(out);
}
