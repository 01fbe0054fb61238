// SPDX-License-Identifier: BSD-2-Clause
// NACKs, reason by reason: what makes a receiver send one, and what a sender does about it.
#include "packets.hpp"

namespace mrc::transport::test {
namespace {

NetConfig config(std::uint64_t seed) {
  NetConfig c;
  c.seed = seed_from_environment(seed);
  c.memory = 1 << 20;
  c.mode = GENERATE(path::RouteMode::kSrv6, path::RouteMode::kEcmp);
  return c;
}

struct Seen {
  std::vector<wire::Packet> data, sacks, nacks;  ///< payload views are stale
};

/// Records what passes, and treats the first data packet from now on as told.
void watch(Net& net, Seen& seen, const std::function<void(std::vector<std::byte>&)>& first) {
  net.mangle = [&net, &seen, first](std::vector<std::byte>& bytes) {
    const wire::Packet p = parsed(net, bytes);
    if (p.bth.opcode == wire::Opcode::kSack) seen.sacks.push_back(p);
    if (p.bth.opcode == wire::Opcode::kNack) seen.nacks.push_back(p);
    if (!wire::is_write(p.bth.opcode)) return;
    seen.data.push_back(p);
    if (seen.data.size() == 1) first(bytes);
  };
}

path::EvState state_of(Net& net, std::uint32_t value) {
  for (const path::Ev& ev : net.core(0).evs(net.conn(0, 1))) {
    if (ev.value == value) return ev.state;
  }
  FAIL("no such EV");
  return path::EvState::kGood;
}

}  // namespace

TEST_CASE("mrc-protocol §1: NACK TRIMMED needs BTH, METH and EV; sent again at once, elsewhere, before new data") {
  NetConfig c = config(301);
  const bool last_hop = GENERATE(false, true);
  Net net(c);
  settle(net);
  Seen seen;
  const auto& dscp = net.config.core.wire.dscp;
  watch(net, seen, [&](auto& bytes) {
    trim(net, bytes, last_hop ? dscp.trimmed_lasthop : dscp.trimmed);
    const wire::Packet p = parsed(net, bytes);
    REQUIRE(p.trimmed);
    if (net.config.mode == path::RouteMode::kSrv6) REQUIRE(!p.reth_present);
  });
  const Tick begin = net.now;
  REQUIRE(net.write(0, 1, 40000) == Status::kOk);
  REQUIRE(net.run_all(seconds(1)));
  REQUIRE((net.now - begin).ns < 2 * 2 * c.delay.ns + 2000);  // one round trip more than without
  net.check();
  REQUIRE(seen.nacks.size() == 1);
  REQUIRE(seen.nacks[0].neth.reason == (last_hop ? wire::NackReason::kTrimmedLastHop : wire::NackReason::kTrimmed));
  REQUIRE(seen.nacks[0].neth.ev == seen.data[0].ev);
  REQUIRE(seen.nacks[0].neth.nack_psn == seen.data[0].bth.psn);
  REQUIRE(seen.nacks[0].inner.dscp() == dscp.control);
  REQUIRE(net.core(0).counters().tx_retransmit == 1);
  const auto again = std::find_if(seen.data.begin() + 1, seen.data.end(),
                                  [&](const wire::Packet& p) { return p.bth.psn == seen.data[0].bth.psn; });
  REQUIRE(again != seen.data.end());
  REQUIRE(again->bth.retransmit);
  REQUIRE(again->ev != seen.data[0].ev);
  if (c.mode == path::RouteMode::kSrv6) {
    REQUIRE(path::EvLayout::plane(again->ev) != path::EvLayout::plane(seen.data[0].ev));
  }
  // A hot spot is avoided for a rotation; congestion on the last hop is no fault of the path.
  REQUIRE(state_of(net, seen.data[0].ev) == (last_hop ? path::EvState::kGood : path::EvState::kSkip));
  REQUIRE(net.core(0).counters().ev_blamed == 0);
}

TEST_CASE("mrc-protocol §1: a NACK about a packet that is sent again already is ignored") {
  Net net(config(302));
  settle(net);
  Seen seen;
  watch(net, seen, [&](auto& bytes) { trim(net, bytes, net.config.core.wire.dscp.trimmed); });
  REQUIRE(net.write(0, 1, 1000) == Status::kOk);
  REQUIRE(net.run([&] { return seen.data.size() == 2; }, seconds(1)));
  for (int i = 0; i < 3; ++i) {
    net.inject(0, 0, nack_of(net, seen.data[0], seen.nacks.at(0), wire::NackReason::kTrimmed), nanoseconds(100));
  }
  REQUIRE(net.run_all(seconds(1)));
  net.quiesce();
  REQUIRE(net.core(0).counters().tx_retransmit == 1);
  net.check();
}

TEST_CASE("mrc-protocol §1: a lost NACK is made up for by the tail's timer") {
  Net net(config(303));
  settle(net);
  unsigned trimmed = 0, lost = 0;
  net.mangle = [&](std::vector<std::byte>& bytes) {
    const wire::Packet p = parsed(net, bytes);
    if (wire::is_write(p.bth.opcode) && trimmed == 0) {
      ++trimmed;
      trim(net, bytes, net.config.core.wire.dscp.trimmed);
    } else if (p.bth.opcode == wire::Opcode::kNack) {
      ++lost;
      lose(bytes);
    }
  };
  REQUIRE(net.write(0, 1, 1000) == Status::kOk);
  REQUIRE(net.run_all(milliseconds(5)));
  REQUIRE(lost == 1);
  REQUIRE(net.core(0).counters().rto == 0);
  net.check();
}

TEST_CASE("mrc-protocol §1: NACK NO_BITMAP, PSN_OOR_WINDOW, NO_PKT_BUFFER, NO_RESOURCE: sent again after a pause") {
  NetConfig c = config(304);
  const auto reason = GENERATE(wire::NackReason::kNoBitmap, wire::NackReason::kPsnOutOfWindow,
                               wire::NackReason::kNoPacketBuffer, wire::NackReason::kNoResource);
  Net net(c);
  settle(net);
  const wire::Packet* sack = nullptr;
  Seen before;
  watch(net, before, [](auto&) {});
  REQUIRE(net.write(0, 1, 1000) == Status::kOk);
  REQUIRE(net.run_all(seconds(1)));
  net.quiesce();
  sack = &before.sacks.at(0);
  Seen seen;
  Tick lost_at{}, again_at{};
  watch(net, seen, [&](auto& bytes) {
    lose(bytes);
    lost_at = net.now;
    net.inject(0, 0, nack_of(net, seen.data[0], *sack, reason), microseconds(2));
  });
  const auto window = net.core(0).info(net.conn(0, 1)).cwnd;
  REQUIRE(net.write(0, 1, 1000) == Status::kOk);
  REQUIRE(net.run(
      [&] {
        if (again_at == Tick{} && seen.data.size() == 2) again_at = net.now;
        return net.all_done();
      },
      seconds(1)));
  net.check();
  REQUIRE(net.core(0).counters().tx_retransmit == 1);
  const auto& k = net.core(0).counters();
  REQUIRE(k.rx_nack_window + k.rx_nack_resource == 1);
  // About a round trip, not the tail's timer.
  REQUIRE((again_at - lost_at).ns >= 2000 + net.config.delay.ns);
  REQUIRE(k.tail_timeouts == 0);
  // Neither the path nor the window hears of it.
  REQUIRE(state_of(net, seen.data[0].ev) == path::EvState::kGood);
  REQUIRE(net.core(0).info(net.conn(0, 1)).cwnd >= window);
}

TEST_CASE("mrc-protocol §1: NACK UNEXP_EVENT ends the connection, and what was outstanding in error") {
  Net net(config(305));
  settle(net);
  Seen before;
  watch(net, before, [](auto&) {});
  REQUIRE(net.write(0, 1, 1000) == Status::kOk);
  REQUIRE(net.run_all(seconds(1)));
  net.quiesce();
  Seen seen;
  watch(net, seen, [&](auto& bytes) {
    lose(bytes);
    net.inject(0, 0, nack_of(net, seen.data[0], before.sacks.at(0), wire::NackReason::kUnexpectedEvent),
               microseconds(2));
  });
  REQUIRE(net.write(0, 1, 1000) == Status::kOk);
  REQUIRE(net.write(0, 1, 30000) == Status::kOk);
  REQUIRE(net.run_all(milliseconds(1)));
  REQUIRE(net.status_of(2) == Status::kProtocol);
  REQUIRE(net.status_of(3) == Status::kProtocol);
  REQUIRE(net.count(0, EventKind::kConnFailed) == 1);
  REQUIRE(net.core(0).counters().rx_nack_fatal == 1);
  // The next write starts over.
  REQUIRE(net.write(0, 1, 2000) == Status::kOk);
  REQUIRE(net.run_all(seconds(1)));
  REQUIRE(net.status_of(4) == Status::kOk);
}

TEST_CASE("mrc-protocol §1: a WriteImm that is out of count gets NACK UNEXP_EVENT") {
  Net net(config(306));
  settle(net);
  unsigned imms = 0;
  net.mangle = [&](std::vector<std::byte>& bytes) {
    wire::Packet p = parsed(net, bytes);
    if (!wire::has_imm(p.bth.opcode) || ++imms != 2) return;
    p.meth.rqmsn = 1;  // the first one's
    rewrite(net, p, bytes);
  };
  REQUIRE(write_imm(net, 10, 1) == Status::kOk);
  REQUIRE(net.run_all(seconds(1)));
  REQUIRE(write_imm(net, 10, 2) == Status::kOk);
  REQUIRE(net.run_all(seconds(1)));
  REQUIRE(net.status_of(1) == Status::kOk);
  REQUIRE(net.status_of(2) == Status::kProtocol);
  REQUIRE(net.core(1).counters().tx_nack_fatal == 1);
  REQUIRE(immediates(net, 1) == std::vector<std::uint32_t>{1});
}

TEST_CASE("mrc-protocol §3: a packet outside the window is NACKed PSN_OOR_WINDOW, seldom, and not placed") {
  Net net(config(307));
  settle(net);
  std::vector<std::byte> copy;
  net.mangle = [&](std::vector<std::byte>& bytes) {
    if (wire::is_write(parsed(net, bytes).bth.opcode)) copy = bytes;
  };
  REQUIRE(net.write(0, 1, 1000) == Status::kOk);
  REQUIRE(net.run_all(seconds(1)));
  net.quiesce();
  wire::Packet p = parsed(net, copy);
  const std::uint64_t placed = net.nodes[1]->placed_total;
  for (unsigned i = 0; i < 50; ++i) {
    p.bth.psn = (p.bth.psn + net.config.core.window + 1) & wire::kPsnMask;
    rewrite(net, p, copy);
    net.inject(1, 0, copy, nanoseconds(i * 10));
  }
  net.run([] { return false; }, microseconds(50));
  REQUIRE(net.core(1).counters().rx_out_of_window == 50);
  REQUIRE(net.core(1).counters().tx_nack_window == 1);
  REQUIRE(net.nodes[1]->placed_total == placed);
}

}  // namespace mrc::transport::test
