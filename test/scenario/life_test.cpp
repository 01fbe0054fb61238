// SPDX-License-Identifier: BSD-2-Clause
// Beginnings and ends: peers that are not there yet, cross, talk to themselves, die, restart, refuse, close.
#include "transport/pair.hpp"

namespace mrc::transport::test {
namespace {

NetConfig config(std::uint64_t seed) {
  NetConfig c;
  c.seed = seed_from_environment(seed);
  c.memory = 1 << 20;
  return c;
}

void toy_hmac(std::span<const std::byte, 32> key, std::span<const std::byte> message, std::span<std::byte, 32> out) {
  std::uint64_t h = 14695981039346656037u;
  for (const auto b : key) h = (h ^ static_cast<std::uint8_t>(b)) * 1099511628211u;
  for (const auto b : message) h = (h ^ static_cast<std::uint8_t>(b)) * 1099511628211u;
  for (std::size_t i = 0; i < 32; ++i) out[i] = static_cast<std::byte>(h >> (i % 8 * 8));
}

}  // namespace

TEST_CASE("connect before the peer exists") {
  NetConfig c = config(31);
  c.loss = GENERATE(0.0, 0.2);
  Net net(c);
  net.nodes[1]->alive = false;
  REQUIRE(net.write(0, 1, 5000) == Status::kOk);
  net.run([] { return false; }, seconds(3));
  REQUIRE(!net.all_done());
  net.start(1);
  REQUIRE(net.run_all(seconds(3)));
  net.check();
  REQUIRE(net.count(0, EventKind::kConnFailed) == 0);
}

TEST_CASE("nobody ever answers") {
  NetConfig c = config(32);
  c.core.connect_timeout = seconds(2);
  Net net(c);
  net.nodes[1]->alive = false;
  const Tick begin = net.now;
  for (int i = 0; i < 5; ++i) REQUIRE(net.write(0, 1, 5000) == Status::kOk);
  REQUIRE(net.run_all(seconds(5)));
  REQUIRE((net.now - begin).ns >= seconds(2).ns);
  REQUIRE((net.now - begin).ns < milliseconds(2600).ns);
  for (std::uint64_t i = 0; i < 5; ++i) REQUIRE(net.status_of(i) == Status::kTimedOut);
  REQUIRE(net.count(0, EventKind::kConnFailed) == 1);
  net.quiesce();
  net.check_pools();
  // The next write starts over.
  net.start(1);
  REQUIRE(net.write(0, 1, 5000) == Status::kOk);
  REQUIRE(net.run_all(seconds(2)));
  REQUIRE(net.status_of(5) == Status::kOk);
}

TEST_CASE("no way to the peer") {
  Net net(config(33));
  net.nodes[0]->no_route = true;
  REQUIRE(net.write(0, 1, 5000) == Status::kOk);
  REQUIRE(net.run_all(seconds(1)));
  REQUIRE(net.status_of(0) == Status::kNoRoute);
  net.nodes[0]->no_route = false;
  net.nodes[0]->route_pending = true;
  REQUIRE(net.write(0, 1, 5000) == Status::kOk);
  net.run([] { return false; }, milliseconds(100));
  REQUIRE(!net.all_done());
  net.nodes[0]->route_pending = false;
  REQUIRE(net.run_all(seconds(2)));
  REQUIRE(net.status_of(1) == Status::kOk);
}

TEST_CASE("both begin at once") {
  NetConfig c = config(34);
  c.loss = GENERATE(0.0, 0.3);
  c.jitter = GENERATE(microseconds(0), milliseconds(20));
  c.duplicate = 0.2;
  for (int i = 0; i < 10; ++i) {
    c.seed += 1;
    Net net(c);
    REQUIRE(net.write(0, 1, 5000) == Status::kOk);
    REQUIRE(net.write(1, 0, 5000) == Status::kOk);
    REQUIRE(net.run_all(seconds(20)));
    net.check();
    REQUIRE(net.count(0, EventKind::kConnected) == 1);
    REQUIRE(net.count(1, EventKind::kConnected) == 1);
    REQUIRE(net.count(0, EventKind::kConnFailed) == 0);
    REQUIRE(net.count(1, EventKind::kConnFailed) == 0);
  }
}

TEST_CASE("a connection to itself") {
  NetConfig c = config(35);
  c.nodes = 1;
  c.loss = GENERATE(0.0, 0.05);
  Net net(c);
  for (int i = 0; i < 20; ++i) REQUIRE(net.write(0, 0, 20000) == Status::kOk);
  REQUIRE(net.run_all(seconds(3)));
  net.check();
  net.core(0).close_endpoint(net.nodes[0]->ep, net.now);
  REQUIRE(net.run([&] { return net.core(0).closed(net.nodes[0]->ep); }, seconds(3)));
}

TEST_CASE("a peer that dies without a word") {
  NetConfig c = config(36);
  c.core.peer_timeout = seconds(3);
  Net net(c);
  REQUIRE(net.write(0, 1, 5000) == Status::kOk);
  REQUIRE(net.run_all(seconds(1)));
  net.nodes[1]->alive = false;
  const Tick begin = net.now;
  for (int i = 0; i < 10; ++i) REQUIRE(net.write(0, 1, 50000) == Status::kOk);
  REQUIRE(net.run_all(seconds(10)));
  REQUIRE((net.now - begin).ns >= seconds(3).ns);
  REQUIRE((net.now - begin).ns < seconds(5).ns);
  for (std::uint64_t i = 1; i < 11; ++i) REQUIRE(net.status_of(i) == Status::kPeerDead);
  REQUIRE(net.count(0, EventKind::kConnFailed) == 1);
  REQUIRE(net.core(0).counters().peers_dead == 1);
  net.quiesce();
  net.check_pools();
}

TEST_CASE("somebody knows that the peer is gone") {
  Net net(config(37));
  REQUIRE(net.write(0, 1, 5000) == Status::kOk);
  REQUIRE(net.run_all(seconds(1)));
  net.nodes[1]->alive = false;
  REQUIRE(net.write(0, 1, 500000) == Status::kOk);
  net.run([] { return false; }, milliseconds(1));
  net.core(0).peer_gone(net.nodes[1]->inner, net.now);
  REQUIRE(net.run_all(milliseconds(1)));
  REQUIRE(net.status_of(1) == Status::kPeerDead);
}

TEST_CASE("a peer that restarts") {
  NetConfig c = config(38);
  c.loss = GENERATE(0.0, 0.05);
  const bool passive = GENERATE(false, true);  // does the new process speak first?
  Net net(c);
  REQUIRE(net.write(0, 1, 5000) == Status::kOk);
  REQUIRE(net.run_all(seconds(1)));
  const ConnId before = net.conn(0, 1);
  for (int i = 0; i < 3; ++i) REQUIRE(net.write(0, 1, 100000) == Status::kOk);
  net.start(1);
  for (auto& t : net.nodes[1]->placed) t = 0;
  if (!passive) REQUIRE(net.write(1, 0, 100) == Status::kOk);
  REQUIRE(net.run_all(seconds(5)));
  for (std::uint64_t i = 1; i < 4; ++i) REQUIRE(net.status_of(i) == Status::kPeerRestarted);
  REQUIRE(net.count(0, EventKind::kConnFailed) == 1);
  REQUIRE(net.conn(0, 1) == before);
  const std::uint64_t next = net.writes.size();
  REQUIRE(net.write(0, 1, 5000) == Status::kOk);
  REQUIRE(net.run_all(seconds(5)));
  REQUIRE(net.status_of(next) == Status::kOk);
  net.check(false);
  REQUIRE(net.count(0, EventKind::kConnFailed) == 1);
}

TEST_CASE("restarts in a storm") {
  NetConfig c = config(39);
  c.loss = 0.1;
  c.jitter = milliseconds(3);
  c.duplicate = 0.1;
  Net net(c);
  for (int round = 0; round < 30; ++round) {
    for (unsigned from = 0; from < 2; ++from) {
      for (int i = 0; i < 3; ++i) REQUIRE(net.write(from, 1 - from, 5000) == Status::kOk);
    }
    const Tick next = net.now + milliseconds(2 + round % 5);
    net.run([] { return false; }, next - net.now);
    // Whose core goes takes its unfinished writes with it.
    const unsigned victim = static_cast<unsigned>(round) % 2;
    for (auto& w : net.writes) {
      if (w.from == victim) net.nodes[victim]->done.try_emplace(w.cookie, 1, Status::kClosed);
    }
    net.start(victim);
  }
  REQUIRE(net.run_all(seconds(20)));
  net.check(false);
  const std::uint64_t next = net.writes.size();
  REQUIRE(net.write(0, 1, 5000) == Status::kOk);
  REQUIRE(net.write(1, 0, 5000) == Status::kOk);
  REQUIRE(net.run_all(seconds(20)));
  if (net.status_of(next) != Status::kOk || net.status_of(next + 1) != Status::kOk) {
    // One side may only now have learnt that the other forgot it; the second attempt has no such excuse.
    REQUIRE(net.write(0, 1, 5000) == Status::kOk);
    REQUIRE(net.write(1, 0, 5000) == Status::kOk);
    REQUIRE(net.run_all(seconds(20)));
    REQUIRE(net.status_of(next + 2) == Status::kOk);
    REQUIRE(net.status_of(next + 3) == Status::kOk);
  }
}

TEST_CASE("close with drain") {
  NetConfig c = config(40);
  c.loss = GENERATE(0.0, 0.1);
  c.ns_per_byte = 0.08;
  Net net(c);
  for (int i = 0; i < 5; ++i) REQUIRE(net.write(0, 1, 100000) == Status::kOk);
  net.run([] { return false; }, microseconds(30));
  net.core(0).close_endpoint(net.nodes[0]->ep, net.now);
  REQUIRE(net.core(0).connect(net.nodes[0]->ep, net.nodes[1]->inner) == kNoId);
  REQUIRE(net.run([&] { return net.core(0).closed(net.nodes[0]->ep) && net.all_done(); }, seconds(3)));
  net.check();
  REQUIRE(net.count(1, EventKind::kConnClosed) == 1);
  // The tombstone answers.
  const std::uint64_t next = net.writes.size();
  net.core(1).peer_gone(net.nodes[0]->inner, net.now);
  REQUIRE(net.write(1, 0, 100) == Status::kOk);
  net.run([] { return false; }, milliseconds(100));
  REQUIRE(net.core(1).counters().rx_endpoint > 0);
  net.core(0).forget_endpoint(net.nodes[0]->ep, net.now);
  REQUIRE(net.core(0).pool_levels().connections == 64);
  REQUIRE(!net.nodes[1]->done.contains(next));
}

TEST_CASE("the peer closes while we write") {
  NetConfig c = config(41);
  Net net(c);
  REQUIRE(net.write(0, 1, 100) == Status::kOk);
  REQUIRE(net.run_all(seconds(1)));
  for (int i = 0; i < 5; ++i) REQUIRE(net.write(0, 1, 100000) == Status::kOk);
  net.core(1).close_endpoint(net.nodes[1]->ep, net.now);
  REQUIRE(net.run_all(seconds(3)));
  REQUIRE(net.count(0, EventKind::kConnClosed) + net.count(0, EventKind::kConnFailed) == 1);
  for (std::uint64_t i = 1; i < 6; ++i) REQUIRE(net.status_of(i) != Status::kTimedOut);
}

TEST_CASE("close towards nobody ends at linger") {
  NetConfig c = config(42);
  c.core.linger = milliseconds(300);
  Net net(c);
  REQUIRE(net.write(0, 1, 100) == Status::kOk);
  REQUIRE(net.run_all(seconds(1)));
  net.nodes[1]->alive = false;
  REQUIRE(net.write(0, 1, 100000) == Status::kOk);
  net.core(0).close_endpoint(net.nodes[0]->ep, net.now);
  const Tick begin = net.now;
  REQUIRE(net.run([&] { return net.core(0).closed(net.nodes[0]->ep); }, seconds(3)));
  REQUIRE((net.now - begin).ns <= milliseconds(310).ns);
  REQUIRE(net.status_of(1) == Status::kClosed);
}

TEST_CASE("a forgotten endpoint fails what is outstanding") {
  NetConfig c = config(43);
  c.ns_per_byte = 0.8;
  Net net(c);
  for (int i = 0; i < 5; ++i) REQUIRE(net.write(0, 1, 100000) == Status::kOk);
  net.run([] { return false; }, microseconds(30));
  net.core(0).forget_endpoint(net.nodes[0]->ep, net.now);
  net.run([] { return false; }, milliseconds(1));
  for (std::uint64_t i = 0; i < 5; ++i) REQUIRE(net.status_of(i) == Status::kClosed);
  net.check_pools();
}

TEST_CASE("keys must agree") {
  NetConfig c = config(44);
  c.core.job_key_set = true;
  c.core.job_key[0] = std::byte{7};
  c.core.hmac = toy_hmac;
  Net net(c);
  REQUIRE(net.write(0, 1, 5000) == Status::kOk);
  REQUIRE(net.run_all(seconds(1)));
  net.check();
  // A third node with another key gets nowhere.
  NetConfig other = c;
  other.core.job_key[0] = std::byte{8};
  net.config = other;
  net.start(1);
  net.config = c;
  REQUIRE(net.write(1, 0, 5000) == Status::kOk);
  REQUIRE(net.run_all(seconds(1)));
  REQUIRE(net.status_of(1) == Status::kRefused);
  REQUIRE(net.core(0).counters().rx_refused > 0);
  // A key without a function refuses everything.
  other = c;
  other.core.hmac = nullptr;
  net.config = other;
  net.start(1);
  REQUIRE(net.write(1, 0, 5000) == Status::kOk);
  REQUIRE(net.run_all(seconds(1)));
  REQUIRE(net.status_of(2) == Status::kRefused);
}

TEST_CASE("a refused write fails alone") {
  Net net(config(45));
  net.nodes[1]->refuse_rkey = 66;
  REQUIRE(net.write(0, 1, 50000) == Status::kOk);
  REQUIRE(net.write(0, 1, 200000, false, 66) == Status::kOk);
  REQUIRE(net.write(0, 1, 50000) == Status::kOk);
  REQUIRE(net.write(0, 1, 10, true, 66) == Status::kOk);
  REQUIRE(net.run_all(seconds(1)));
  REQUIRE(net.status_of(0) == Status::kOk);
  REQUIRE(net.status_of(1) == Status::kAccess);
  REQUIRE(net.status_of(2) == Status::kOk);
  REQUIRE(net.status_of(3) == Status::kAccess);
  net.check(false);
  net.quiesce();
  net.check_pools();
}

// An application that computes for minutes and then sends to a peer that answers a little late: only silence after the
// question counts, not the time before it in which nobody drove the core.
TEST_CASE("a long pause without traffic is nobody's silence") {
  NetConfig c = config(50);
  Net net(c);
  REQUIRE(net.write(0, 1, 50000) == Status::kOk);
  REQUIRE(net.write(1, 0, 50000) == Status::kOk);
  REQUIRE(net.run_all(seconds(1)));
  net.quiesce();
  net.run([] { return false; }, c.core.peer_timeout * 2);
  const Tick again = net.now;
  net.passes = [&](unsigned, unsigned, std::uint8_t, std::uint32_t, Tick at) { return at - again > milliseconds(100); };
  REQUIRE(net.write(0, 1, 50000) == Status::kOk);
  REQUIRE(net.run_all(seconds(10)));
  net.check();
  REQUIRE(net.core(0).counters().peers_dead == 0);
  REQUIRE(net.core(0).counters().connects == 1);
}

TEST_CASE("limits are answered, not overrun") {
  NetConfig c = config(46);
  c.limits = {2, 2, 8, 256};
  c.nodes = 4;
  Net net(c);
  REQUIRE(net.conn(0, 1) != kNoId);
  REQUIRE(net.conn(0, 2) != kNoId);
  REQUIRE(net.conn(0, 3) == kNoId);
  WriteRequest r;
  r.length = (1u << 30) + 1;
  REQUIRE(net.core(0).post_write(net.conn(0, 1), r, net.now) == Status::kInvalid);
  REQUIRE(net.core(0).post_write(77, r, net.now) == Status::kInvalid);
  int accepted = 0;
  while (net.write(0, 1, 1000) == Status::kOk) ++accepted;
  REQUIRE(accepted == 8);
  REQUIRE(net.run_all(seconds(1)));
  net.check();
  REQUIRE(net.write(0, 1, 1000) == Status::kOk);
  REQUIRE(net.run_all(seconds(1)));
}

TEST_CASE("many connections into one node") {
  NetConfig c = config(47);
  c.nodes = 33;
  c.memory = 1 << 21;
  c.ns_per_byte = 0.08;
  c.trim = GENERATE(0.0, 1e-9);  // above 0: switches trim what overflows; else they drop it
  c.limits = {2, 64, 1024, 8192};
  Net net(c);
  for (unsigned i = 1; i < c.nodes; ++i) {
    REQUIRE(net.write(i, 0, 60000) == Status::kOk);
    REQUIRE(net.write(0, i, 1000) == Status::kOk);
  }
  const Tick begin = net.now;
  REQUIRE(net.run_all(seconds(5)));
  INFO((net.now - begin).ns / 1000);
  net.check();
  net.quiesce();
  net.check_pools();
}

}  // namespace mrc::transport::test
