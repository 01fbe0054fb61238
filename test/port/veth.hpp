// SPDX-License-Identifier: BSD-2-Clause
// A veth pair for the length of a test.
#pragma once

#include "port/ports.hpp"
#include "support/catch.hpp"

namespace mrc::port::test {

/// A veth pair up with this MTU.
struct Veth {
  std::string a, b;
  Veth(std::string first, std::string second, int mtu) : a(std::move(first)), b(std::move(second)) {
    const std::string size = " mtu " + std::to_string(mtu);
    REQUIRE(shell("ip link add " + a + size + " type veth peer name " + b + size) == 0);
    for (const auto& name : {a, b}) {
      shell("sysctl -qw net.ipv6.conf." + name + ".disable_ipv6=1");
      REQUIRE(shell("ip link set " + name + " up") == 0);
    }
  }
  ~Veth() { shell("ip link del " + a); }
};

}  // namespace mrc::port::test
