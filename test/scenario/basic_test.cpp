// SPDX-License-Identifier: BSD-2-Clause
// Connections that come up, carry bytes and close, with nothing in their way.
#include "transport/pair.hpp"

namespace mrc::transport::test {

TEST_CASE("one write arrives") {
  NetConfig c;
  c.seed = seed_from_environment(1);
  c.mode = GENERATE(path::RouteMode::kSrv6, path::RouteMode::kEcmp);
  Net net(c);
  REQUIRE(net.write(0, 1, 10000) == Status::kOk);
  REQUIRE(net.run_all(seconds(1)));
  REQUIRE((net.now - Tick{1000000}).ns < 200000);
  net.check();
  REQUIRE(net.count(0, EventKind::kConnected) == 1);
  REQUIRE(net.count(1, EventKind::kAccepted) == 1);
  REQUIRE(net.count(1, EventKind::kConnected) == 1);
  net.quiesce();
  net.check_pools();
  REQUIRE(net.core(0).counters().tx_retransmit == 0);
  REQUIRE(net.core(0).payload_mtu(net.conn(0, 1)) == 4096);
}

TEST_CASE("sizes from nothing to a megabyte") {
  NetConfig c;
  c.seed = seed_from_environment(2);
  Net net(c);
  for (const std::uint32_t n : {0u, 1u, 3u, 4u, 1023u, 1024u, 1025u, 4095u, 4096u, 4097u, 65536u, 1000000u}) {
    REQUIRE(net.write(0, 1, n) == Status::kOk);
    REQUIRE(net.write(1, 0, n, true) == Status::kOk);
  }
  REQUIRE(net.run_all(seconds(1)));
  net.check();
  net.quiesce();
  net.check_pools();
  REQUIRE(net.nodes[1]->placed_total == net.nodes[0]->placed_total);
}

}  // namespace mrc::transport::test
