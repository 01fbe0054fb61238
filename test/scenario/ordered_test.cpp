// SPDX-License-Identifier: BSD-2-Clause
// WriteImm: in order, once, bounded. Semantic writes: done when the peer says so, refused when it says so.
#include "packets.hpp"

namespace mrc::transport::test {
namespace {

NetConfig config(std::uint64_t seed) {
  NetConfig c;
  c.seed = seed_from_environment(seed);
  c.memory = 1 << 20;
  return c;
}

/// Loses 0xD1 packets while `on`; counts those that pass.
struct AckFilter {
  bool lose_acks = false, lose_naks = false;
  unsigned acks = 0, naks = 0;
  void watch(Net& net) {
    net.mangle = [this, &net](std::vector<std::byte>& bytes) {
      const wire::Packet p = parsed(net, bytes);
      if (p.bth.opcode != wire::Opcode::kAcknowledge) return;
      const bool nak = p.aeth.syndrome == wire::Aeth::kNakAccess;
      REQUIRE((nak || p.aeth.syndrome == 0x1f));  // the credit field is always 0x1F
      if (nak ? lose_naks : lose_acks) return lose(bytes);
      ++(nak ? naks : acks);
    };
  }
};

}  // namespace

TEST_CASE("mrc-protocol §1: WriteImm completes in order, after all writes before it, and once") {
  NetConfig c = config(311);
  c.loss = GENERATE(0.0, 0.03);
  c.jitter = microseconds(20);
  c.duplicate = 0.05;
  Net net(c);
  std::vector<std::uint32_t> expected;
  std::size_t told = 0;
  for (std::uint32_t i = 0; i < 200; ++i) {
    REQUIRE(net.write(0, 1, 1 + i * 7 % 9000, i % 5 == 0) == Status::kOk);
    if (i % 3 != 0) continue;
    const auto length = i % 2 == 0 ? 20u : 9000u;
    REQUIRE(write_imm(net, length, 1000 + i) == Status::kOk);
    expected.push_back(1000 + i);
  }
  // At each immediate, everything posted before is in place at the receiver.
  const auto before_is_there = [&] {
    for (; told < immediates(net, 1).size(); ++told) {
      for (const auto& w : net.writes) {
        REQUIRE(std::memcmp(net.nodes[0]->source.data() + w.source, net.nodes[1]->target.data() + w.va, w.length) == 0);
        if (w.cookie + 1 >= (told + 1) * 4 - 2) break;  // one in four is a WriteImm, from the second on
      }
    }
    return net.all_done();
  };
  REQUIRE(net.run(before_is_there, seconds(5)));
  net.quiesce();
  REQUIRE(immediates(net, 1) == expected);
  for (const Event& e : net.nodes[1]->events) {
    if (e.kind == EventKind::kImmediate) REQUIRE((e.length == 20 || e.length == 9000));
  }
  net.check();
  net.check_pools();
  REQUIRE(net.core(1).counters().rx_immediate == expected.size());
}

TEST_CASE("mrc-protocol §1: the number of WriteImms in flight is bounded, further ones wait") {
  NetConfig c = config(312);
  c.core.imm_in_flight = 4;
  Net net(c);
  settle(net);
  std::set<std::uint32_t> psns;
  net.seen = [&](unsigned, const std::vector<std::byte>& bytes) {
    const wire::Packet p = parsed(net, bytes);
    if (wire::is_write(p.bth.opcode)) psns.insert(p.bth.psn);
  };
  for (std::uint32_t i = 0; i < 20; ++i) REQUIRE(write_imm(net, 10, i) == Status::kOk);
  net.run([] { return false; }, microseconds(1));
  REQUIRE(psns.size() == 4);
  REQUIRE(net.run_all(seconds(1)));
  REQUIRE(psns.size() == 20);
  REQUIRE(immediates(net, 1).size() == 20);
  net.check();
  net.check_pools();
}

TEST_CASE("mrc-protocol §1: WriteImms that come early wait in a bounded pool; when it is full NACK NO_RESOURCE") {
  NetConfig c = config(313);
  c.limits.ordered = 2;
  Net net(c);
  settle(net);
  unsigned writes = 0;
  net.mangle = [&](std::vector<std::byte>& bytes) {
    if (wire::is_write(parsed(net, bytes).bth.opcode) && writes++ == 0) lose(bytes);  // all others come early
  };
  for (std::uint32_t i = 0; i < 8; ++i) REQUIRE(write_imm(net, 10, i) == Status::kOk);
  const bool all = net.run_all(seconds(1));
  const auto info = net.core(0).info(net.conn(0, 1));
  INFO("una " << info.una << " next " << info.next << " rx next " << net.core(1).info(net.conn(1, 0)).rx_next
              << " in flight " << info.inflight_packets << " lost " << info.lost_packets << " messages "
              << info.messages << " delivered " << immediates(net, 1).size() << " nacks "
              << net.core(0).counters().rx_nack_resource << " done " << net.nodes[0]->done.size() << " tail "
              << net.core(0).counters().tail_timeouts);
  REQUIRE(all);
  net.quiesce();
  REQUIRE(net.core(1).counters().tx_nack_resource >= 5);
  REQUIRE(net.core(0).counters().rx_nack_resource >= 5);
  REQUIRE(immediates(net, 1) == std::vector<std::uint32_t>{0, 1, 2, 3, 4, 5, 6, 7});
  REQUIRE(net.core(0).counters().ev_blamed == 0);
  net.check();
  net.check_pools();
}

TEST_CASE("mrc-protocol §1: a semantic write is done when 0xD1 says that it took effect, not when it is SACKed") {
  Net net(config(314));
  settle(net);
  AckFilter filter;
  filter.watch(net);
  filter.lose_acks = true;
  REQUIRE(write_semantic(net, 20000) == Status::kOk);
  REQUIRE(net.write(0, 1, 500) == Status::kOk);
  REQUIRE_FALSE(net.run_all(milliseconds(30)));
  REQUIRE(net.core(0).inflight_packets(net.conn(0, 1)) == 0);  // all SACKed
  REQUIRE(net.status_of(2) == Status::kOk);                    // a plain write needs no more
  REQUIRE_FALSE(net.nodes[0]->done.contains(1));
  filter.lose_acks = false;
  REQUIRE(net.run_all(seconds(1)));  // asked for again, and repeated
  REQUIRE(filter.acks >= 1);
  REQUIRE(net.status_of(1) == Status::kOk);
  net.check();
  net.quiesce();
  net.check_pools();
}

TEST_CASE("mrc-protocol §1: semantic writes end in order, with loss and reordering") {
  NetConfig c = config(315);
  c.loss = 0.05;
  c.jitter = microseconds(20);
  Net net(c);
  for (std::uint32_t i = 0; i < 100; ++i) {
    REQUIRE(write_semantic(net, 1 + i * 91 % 8000) == Status::kOk);
    REQUIRE(net.write(0, 1, 700, i % 2 == 0) == Status::kOk);
  }
  std::size_t done = 0;
  REQUIRE(net.run(
      [&] {
        for (; done < 200 && net.nodes[0]->done.contains(done); done += 2) {
        }
        for (std::size_t later = done + 2; later < 200; later += 2) REQUIRE(!net.nodes[0]->done.contains(later));
        return net.all_done();
      },
      seconds(5)));
  net.check();
  net.quiesce();
  net.check_pools();
}

TEST_CASE("mrc-protocol §1: a packet can be SACKed and its message still be NAKed") {
  NetConfig c = config(316);
  const bool semantic = GENERATE(false, true);
  Net net(c);
  net.nodes[1]->refuse_rkey = 9;
  settle(net);
  AckFilter filter;
  filter.watch(net);
  filter.lose_naks = true;
  const auto refused = [&](std::uint32_t length) {
    return semantic ? write_semantic(net, length, 9) : net.write(0, 1, length, false, 9);
  };
  REQUIRE(refused(3000) == Status::kOk);
  REQUIRE(net.write(0, 1, 3000) == Status::kOk);
  REQUIRE_FALSE(net.run_all(milliseconds(20)));
  REQUIRE(net.core(0).inflight_packets(net.conn(0, 1)) == 0);  // SACKed
  REQUIRE_FALSE(net.nodes[0]->done.contains(1));               // yet not done: SACKs tell of a NAK that has not come
  filter.lose_naks = false;
  REQUIRE(net.run_all(seconds(1)));
  REQUIRE(net.status_of(1) == Status::kAccess);
  REQUIRE(net.status_of(2) == Status::kOk);
  REQUIRE(net.core(1).counters().writes_refused == 1);
  net.quiesce();
  net.check_pools();
}

TEST_CASE("mrc-protocol §1: NAKs are reliable: each refused write ends refused, all others well, whatever is lost") {
  NetConfig c = config(317);
  c.loss = 0.1;
  c.jitter = microseconds(10);
  c.duplicate = 0.05;
  Net net(c);
  net.nodes[1]->refuse_rkey = 9;
  std::vector<Status> expected;
  for (std::uint32_t i = 0; i < 300; ++i) {
    const bool bad = i % 7 == 3 || (i > 100 && i < 130);
    const std::uint32_t length = 1 + i * 131 % 6000;
    expected.push_back(bad ? Status::kAccess : Status::kOk);
    if (i % 3 == 0) {
      REQUIRE(write_semantic(net, length / 3, bad ? 9 : 1) == Status::kOk);
    } else {
      REQUIRE(net.write(0, 1, length / 3, i % 5 == 0, bad ? 9 : 1) == Status::kOk);
    }
  }
  REQUIRE(net.run_all(seconds(10)));
  for (std::size_t i = 0; i < expected.size(); ++i) {
    INFO("write " << i);
    REQUIRE(net.status_of(i) == expected[i]);
  }
  net.check(false);
  net.quiesce();
  net.check_pools();
}

TEST_CASE("a refused WriteImm is not delivered") {
  Net net(config(318));
  net.nodes[1]->refuse_rkey = 9;
  settle(net);
  REQUIRE(post(net, 20000, [](WriteRequest& r) {
            r.has_imm = true;
            r.imm = 1;
            r.rkey = 9;
          }) == Status::kOk);
  REQUIRE(write_imm(net, 10, 2) == Status::kOk);
  REQUIRE(net.run_all(seconds(1)));
  REQUIRE(net.status_of(1) == Status::kAccess);
  REQUIRE(net.status_of(2) == Status::kOk);
  REQUIRE(immediates(net, 1) == std::vector<std::uint32_t>{2});
}

}  // namespace mrc::transport::test
