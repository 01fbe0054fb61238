// SPDX-License-Identifier: BSD-2-Clause
// The snapshot of a connection agrees with what the network did to it.
#include "mrc/transport/info.hpp"

#include "transport/pair.hpp"

namespace mrc::transport::test {

TEST_CASE("a snapshot tells phase, window, round trips and planes") {
  NetConfig c;
  c.seed = seed_from_environment(81);
  c.loss = 0.01;
  c.mark = 0.02;
  c.trim = 0.01;
  Net net(c);
  REQUIRE(net.core(0).info(7).phase == ConnectionPhase::kFree);
  REQUIRE(net.core(0).info(kNoId).phase == ConnectionPhase::kFree);
  const ConnId id = net.conn(0, 1);
  REQUIRE(net.core(0).info(id).phase == ConnectionPhase::kIdle);
  REQUIRE(net.core(0).info(id).planes == 0);
  for (int i = 0; i < 40; ++i) REQUIRE(net.write(0, 1, 100000) == Status::kOk);
  REQUIRE(net.core(0).info(id).phase == ConnectionPhase::kConnecting);
  REQUIRE(net.run([&] { return net.nodes[1]->placed_total > 2000000; }, seconds(1)));

  const ConnectionInfo busy = net.core(0).info(id);
  REQUIRE(busy.phase == ConnectionPhase::kEstablished);
  REQUIRE(busy.remote == net.nodes[1]->inner);
  REQUIRE(busy.remote_location == path::Location{1, 0});
  REQUIRE(busy.srv6);
  REQUIRE(busy.planes == 4);
  REQUIRE(busy.una <= busy.next);
  REQUIRE(busy.next - busy.una <= busy.window);
  REQUIRE(busy.window == c.core.window);
  REQUIRE(busy.inflight_packets == net.core(0).inflight_packets(id));
  REQUIRE(busy.inflight_bytes <= std::uint64_t{busy.inflight_packets} * busy.payload_mtu);
  REQUIRE(busy.messages > 0);
  REQUIRE(busy.cwnd > 0);
  REQUIRE(busy.rtt_valid);
  REQUIRE(busy.rtt_min >= c.delay * 2);
  REQUIRE(busy.srtt >= busy.rtt_min);

  REQUIRE(net.run_all(seconds(5)));
  net.check();
  const ConnectionInfo done = net.core(0).info(id);
  const Counters& all = net.core(0).counters();
  REQUIRE(done.messages == 0);
  REQUIRE(done.inflight_bytes == 0);
  const EvCounts& evs = done.evs;
  REQUIRE(0u + evs.good + evs.skip + evs.assumed_bad + evs.denied == net.core(0).evs(id).size());
  std::uint64_t packets = 0, again = 0, lost = 0, trimmed = 0, marked = 0;
  for (unsigned p = 0; p < 4; ++p) {
    const ConnectionPlaneInfo& plane = done.plane[p];
    REQUIRE(plane.up);
    REQUIRE(plane.evs.good + plane.evs.skip + plane.evs.assumed_bad == 36);  // with backups
    REQUIRE(plane.tx_packets > 100);
    packets += plane.tx_packets;
    again += plane.retransmitted;
    lost += plane.lost;
    trimmed += plane.trimmed;
    marked += plane.marked;
  }
  REQUIRE(packets == all.tx_data);
  REQUIRE(again == all.tx_retransmit);
  REQUIRE(lost + trimmed >= again);
  REQUIRE(trimmed > 0);
  REQUIRE(trimmed <= all.rx_nack);
  REQUIRE(marked > 0);
  net.core(0).set_plane_up(2, false, net.now);
  REQUIRE_FALSE(net.core(0).info(id).plane[2].up);
}

}  // namespace mrc::transport::test
