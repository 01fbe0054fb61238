// SPDX-License-Identifier: BSD-2-Clause
// mrc-protocol §3, row by row: when SACKs are sent, the windows, tails, time-outs and what ends in error.
#include "packets.hpp"

namespace mrc::transport::test {
namespace {

NetConfig config(std::uint64_t seed) {
  NetConfig c;
  c.seed = seed_from_environment(seed);
  c.memory = 1 << 20;
  return c;
}

/// Posts what `send` posts, changes its data packets as told, and returns how long the first SACK took to set out.
Duration first_sack(Net& net, const std::function<void(wire::Packet&)>& change, const std::function<void()>& send) {
  Tick at{};
  net.mangle = [&](std::vector<std::byte>& bytes) {
    wire::Packet p = parsed(net, bytes);
    if (p.bth.opcode == wire::Opcode::kSack && at == Tick{}) at = net.now;
    if (!wire::is_write(p.bth.opcode)) return;
    change(p);
    rewrite(net, p, bytes);
  };
  const Tick begin = net.now;
  send();
  REQUIRE(net.run_all(seconds(1)));
  net.check();
  net.mangle = nullptr;
  net.quiesce();
  return at - begin;
}

}  // namespace

TEST_CASE("mrc-protocol §3: a SACK is sent on a byte threshold, on BTH.A, on an ECN mark, on rtx, and else later") {
  NetConfig c = config(321);
  c.core.sack_delay = milliseconds(3);
  c.core.tail_floor = milliseconds(50);  // no timer of the sender's interferes
  c.core.sack_bytes = 4096;
  Net net(c);
  settle(net);
  const auto one = [&] { REQUIRE(net.write(0, 1, 1) == Status::kOk); };
  const Duration at_once = c.delay + microseconds(1);
  const auto quiet = [](wire::Packet& p) { p.bth.ack_request = false; };
  REQUIRE(first_sack(net, quiet, one) >= c.core.sack_delay);
  REQUIRE(first_sack(
              net, [](wire::Packet& p) { REQUIRE(p.bth.ack_request); }, one) < at_once);
  const auto marked = [](wire::Packet& p) {
    p.bth.ack_request = false;
    p.inner.traffic_class |= wire::kEcnCe;
    p.outer.traffic_class |= wire::kEcnCe;
  };
  REQUIRE(first_sack(net, marked, one) < at_once);
  const auto again = [](wire::Packet& p) {
    p.bth.ack_request = false;
    p.bth.retransmit = true;
  };
  REQUIRE(first_sack(net, again, one) < at_once);
  // A packet counts 1024 bytes at least: four of one byte reach the threshold of 4096.
  for (const int packets : {3, 4}) {
    const Duration took = first_sack(net, quiet, [&] {
      for (int i = 0; i < packets; ++i) one();
    });
    REQUIRE((took < at_once) == (packets == 4));
  }
}

TEST_CASE("mrc-protocol §3: a probe is answered by a SACK at once") {
  NetConfig c = config(322);
  c.core.sack_delay = milliseconds(3);
  Net net(c);
  settle(net);
  Tick asked{}, answered{};
  unsigned data = 0;
  net.mangle = [&](std::vector<std::byte>& bytes) {
    const wire::Packet p = parsed(net, bytes);
    if (wire::is_write(p.bth.opcode)) {
      ++data;
      return lose(bytes);  // all of a burst is lost: after a while, what of it?
    }
    if (p.bth.opcode == wire::Opcode::kProbeRequest && asked == Tick{}) asked = net.now;
    if (p.bth.opcode == wire::Opcode::kSack && p.seth.probe_reply && answered == Tick{}) answered = net.now;
  };
  REQUIRE(net.write(0, 1, 40000) == Status::kOk);
  REQUIRE(net.run([&] { return answered != Tick{}; }, milliseconds(10)));
  REQUIRE((answered - asked).ns <= c.delay.ns + 1000);
  net.mangle = nullptr;
  REQUIRE(net.run_all(seconds(1)));
  net.check();
}

TEST_CASE(
    "mrc-protocol §3: the peer's window (MPR, units of 128) is obeyed as it shrinks and grows, nothing is unsent") {
  NetConfig c = config(323);
  c.ns_per_byte = 0.08;
  REQUIRE(Config{}.window >= 1024);
  Net net(c);
  settle(net);
  unsigned mpr = 8;
  std::uint64_t most = 0;
  net.mangle = [&](std::vector<std::byte>& bytes) {
    wire::Packet p = parsed(net, bytes);
    if (p.bth.opcode == wire::Opcode::kSack) {
      REQUIRE(p.seth.mpr == 8);
      p.seth.mpr = static_cast<std::uint8_t>(mpr);
      rewrite(net, p, bytes);
    } else if (wire::is_write(p.bth.opcode) && !p.bth.retransmit) {
      const auto info = net.core(0).info(net.conn(0, 1));
      most = std::max(most, info.next - info.una);
    }
  };
  const auto some = [&] {
    net.nodes[1]->next_target = 0;
    std::fill(net.nodes[1]->placed.begin(), net.nodes[1]->placed.end(), std::uint8_t{0});
    for (int i = 0; i < 10; ++i) REQUIRE(net.write(0, 1, 100000) == Status::kOk);
  };
  some();
  REQUIRE(net.run_all(seconds(1)));
  REQUIRE(most > 128);
  mpr = 1;
  some();
  const auto high = net.core(0).info(net.conn(0, 1)).next;
  REQUIRE(net.run([&] { return net.core(0).info(net.conn(0, 1)).window == 128; }, seconds(1)));
  REQUIRE(net.core(0).info(net.conn(0, 1)).next >= high);
  REQUIRE(net.run(
      [&] {
        const auto i = net.core(0).info(net.conn(0, 1));
        return i.next - i.una <= 128;
      },
      seconds(1)));
  most = 0;
  REQUIRE(net.run_all(seconds(1)));
  some();
  REQUIRE(net.run_all(seconds(1)));
  REQUIRE(most > 0);
  REQUIRE(most <= 128);
  mpr = 8;
  some();
  REQUIRE(net.run_all(seconds(1)));
  some();
  REQUIRE(net.run_all(seconds(1)));
  REQUIRE(most > 128);
}

TEST_CASE("mrc-protocol §3: below the window a packet is acknowledged again, never placed again") {
  Net net(config(324));
  settle(net);
  std::vector<std::byte> copy;
  net.mangle = [&](std::vector<std::byte>& bytes) {
    if (copy.empty() && wire::is_write(parsed(net, bytes).bth.opcode)) copy = bytes;
  };
  REQUIRE(net.write(0, 1, 1000) == Status::kOk);
  REQUIRE(net.write(0, 1, 900000) == Status::kOk);
  REQUIRE(net.run_all(seconds(1)));
  net.quiesce();
  const auto sacks = net.core(1).counters().tx_sack;
  const auto placed = net.nodes[1]->placed_total;
  net.inject(1, 0, copy, microseconds(1));
  net.run([] { return false; }, microseconds(20));
  REQUIRE(net.core(1).counters().rx_below_window == 1);
  REQUIRE(net.core(1).counters().tx_sack == sacks + 1);
  REQUIRE(net.nodes[1]->placed_total == placed);
  net.check();
}

TEST_CASE("mrc-protocol §3: retransmission: oldest gap first, rtx bit, on a fresh EV, before new data") {
  NetConfig c = config(325);
  c.ns_per_byte = 0.08;
  Net net(c);
  settle(net);
  std::map<std::uint32_t, std::uint32_t> lost;  // PSN → EV
  std::vector<std::uint32_t> again;
  unsigned n = 0;
  net.mangle = [&](std::vector<std::byte>& bytes) {
    const wire::Packet p = parsed(net, bytes);
    if (!wire::is_write(p.bth.opcode)) return;
    if (lost.contains(p.bth.psn)) {
      REQUIRE(p.bth.retransmit);
      REQUIRE(p.ev != lost[p.bth.psn]);
      again.push_back(p.bth.psn);
    } else if (++n == 20 || n == 21) {
      lost[p.bth.psn] = p.ev;
      lose(bytes);
    }
  };
  REQUIRE(net.write(0, 1, 900000) == Status::kOk);
  REQUIRE(net.run_all(seconds(1)));
  net.check();
  REQUIRE(again.size() == 2);
  REQUIRE(wire::psn_diff(again[1], again[0]) == 1);
  REQUIRE(net.core(0).counters().rto == 0);
}

TEST_CASE("mrc-protocol §3: a retransmission that is lost again is found without a time-out") {
  NetConfig c = config(326);
  c.core.link_bps = 50'000'000'000;
  c.ns_per_byte = 0.16;
  Net net(c);
  settle(net);
  std::map<std::uint32_t, unsigned> times;
  std::uint32_t victim = UINT32_MAX;
  net.mangle = [&](std::vector<std::byte>& bytes) {
    const wire::Packet p = parsed(net, bytes);
    if (!wire::is_write(p.bth.opcode)) return;
    if (times.size() == 50 && victim == UINT32_MAX) victim = p.bth.psn;
    if (++times[p.bth.psn] <= 3 && p.bth.psn == victim) lose(bytes);
  };
  REQUIRE(net.write(0, 1, 1000000) == Status::kOk);
  REQUIRE(net.run_all(milliseconds(2)));
  REQUIRE(times[victim] == 4);
  REQUIRE(net.core(0).counters().rto == 0);
  net.check();
}

TEST_CASE("tails: a lost single-packet message takes less than three times as long, whatever of it was lost") {
  NetConfig c = config(327);
  c.core.link_bps = 50'000'000'000;
  const bool lose_data = GENERATE(true, false);
  Net net(c);
  settle(net);
  for (int i = 0; i < 100; ++i) {
    REQUIRE(net.write(0, 1, 4096) == Status::kOk);
    REQUIRE(net.run_all(seconds(1)));
  }
  const auto window = net.core(0).info(net.conn(0, 1)).cwnd;
  const std::int64_t clean = 2 * c.delay.ns;
  for (int i = 0; i < 20; ++i) {
    bool done = false;
    net.mangle = [&](std::vector<std::byte>& bytes) {
      if (done || wire::is_write(parsed(net, bytes).bth.opcode) != lose_data) return;
      done = true;
      lose(bytes);
    };
    const Tick begin = net.now;
    REQUIRE(net.write(0, 1, 4096) == Status::kOk);
    REQUIRE(net.run_all(seconds(1)));
    REQUIRE(done);
    REQUIRE((net.now - begin).ns < 3 * clean);
    net.mangle = nullptr;
    net.quiesce();
  }
  const auto& k = net.core(0).counters();
  REQUIRE(k.tail_copies == 20);
  REQUIRE(k.rto == 0);
  if (!lose_data) {
    // Copies of what had arrived blame no path and cost no window.
    REQUIRE(net.core(1).counters().rx_duplicate == 20);
    REQUIRE(k.ev_blamed == 0);
    REQUIRE(net.core(0).info(net.conn(0, 1)).cwnd >= window);
  }
  net.check();
  net.check_pools();
}

TEST_CASE("mrc-protocol §3: time-outs: linear, then exponential, then the connection is in error") {
  NetConfig c = config(328);
  c.core.rto_min = milliseconds(10);
  c.core.rto_max = seconds(10);
  c.core.retry_linear = 3;
  c.core.retry_exponential = 4;
  c.core.retry_error = GENERATE(true, false);
  c.core.peer_timeout = seconds(30);
  Net net(c);
  settle(net);
  REQUIRE(net.write(0, 1, 5000) == Status::kOk);
  REQUIRE(net.run_all(seconds(1)));
  net.quiesce();
  net.nodes[1]->alive = false;
  std::vector<Tick> at;
  REQUIRE(net.write(0, 1, 50000) == Status::kOk);
  const Tick begin = net.now;
  net.run(
      [&] {
        if (net.core(0).counters().rto > at.size()) at.push_back(net.now);
        return net.all_done();
      },
      seconds(8));
  std::vector<std::int64_t> waits;
  for (std::size_t i = 1; i < at.size(); ++i) waits.push_back((at[i] - at[i - 1]).ns / 1'000'000);
  REQUIRE(waits.size() >= 7);
  waits.resize(7);
  REQUIRE(waits == std::vector<std::int64_t>{10, 10, 10, 20, 40, 80, 160});
  REQUIRE(net.core(0).counters().retries_exhausted == 1);
  REQUIRE(net.all_done() == c.core.retry_error);
  if (c.core.retry_error) {
    REQUIRE(net.status_of(2) == Status::kPeerDead);
    REQUIRE((net.now - begin).ns < milliseconds(400).ns);
  }
}

TEST_CASE("a connection error ends in error exactly what did not complete") {
  NetConfig c = config(329);
  c.core.peer_timeout = seconds(1);
  Net net(c);
  settle(net);
  // Even ones arrive, odd ones never do.
  std::set<std::uint32_t> odd;
  net.mangle = [&](std::vector<std::byte>& bytes) {
    const wire::Packet p = parsed(net, bytes);
    if (!wire::is_write(p.bth.opcode) || p.meth.msn % 2 == 0) return;
    lose(bytes);
  };
  for (int i = 0; i < 20; ++i) REQUIRE(net.write(0, 1, 6000) == Status::kOk);
  net.run([] { return false; }, milliseconds(3));
  net.nodes[1]->alive = false;
  REQUIRE(net.run_all(seconds(5)));
  unsigned good = 0;
  for (std::uint64_t i = 1; i <= 20; ++i) good += net.status_of(i) == Status::kOk;
  REQUIRE(good == 10);
  for (std::uint64_t i = 1; i < 20; ++i) REQUIRE(net.status_of(i) != net.status_of(i + 1));
  REQUIRE(net.count(0, EventKind::kConnFailed) == 1);
  net.check(false);
}

}  // namespace mrc::transport::test
