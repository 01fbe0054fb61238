// SPDX-License-Identifier: BSD-2-Clause
// Hostile input in the midst of traffic: random and mutated packets never crash the core, never place a wrong byte and
// never stop the transfer for good.
#include "transport/pair.hpp"

namespace mrc::transport::test {
namespace {

/// A node whose target must not be written by anything that was not sent to it.
struct Sent {
  std::vector<std::vector<std::byte>> frames;
};

void mutate(std::vector<std::byte>& bytes, Random& random) {
  const unsigned flips = 1 + random.below(4);
  for (unsigned i = 0; i < flips; ++i) {
    const std::size_t at = random.below(static_cast<std::uint32_t>(std::min<std::size_t>(bytes.size(), 180)));
    bytes[at] ^= static_cast<std::byte>(1u << random.below(8));
  }
  if (random.chance(0.2)) bytes.resize(random.below(static_cast<std::uint32_t>(bytes.size()) + 1));
}

}  // namespace

TEST_CASE("random bytes") {
  NetConfig c;
  c.seed = seed_from_environment(51);
  Net net(c);
  REQUIRE(net.write(0, 1, 1000) == Status::kOk);
  REQUIRE(net.run_all(seconds(1)));
  Random random(c.seed);
  std::vector<std::byte> bytes;
  for (int i = 0; i < 20000; ++i) {
    bytes.resize(random.below(400));
    for (auto& b : bytes) b = static_cast<std::byte>(random.next());
    if (!bytes.empty()) bytes[0] = static_cast<std::byte>(0x60);
    const RxPacket packet{bytes, static_cast<std::uint8_t>(random.below(256))};
    net.core(1).on_rx({&packet, 1}, net.now);
  }
  REQUIRE(net.nodes[1]->placed_total == 1000);
}

/// Headers that came through the iCRC wrongly, or were forged by somebody who sees our packets. A forged SACK
/// acknowledges what did not arrive, by design of the protocol: then only the promise of one event a write is left.
/// Without SACKs contents must stay right; connections may fail.
TEST_CASE("mutated control packets beside the real ones") {
  NetConfig c;
  c.seed = seed_from_environment(52);
  c.ns_per_byte = 0.8;
  c.loss = 0.01;
  c.core.peer_timeout = seconds(2);
  c.core.connect_timeout = seconds(2);
  const bool sacks = GENERATE(false, true);
  for (int round = 0; round < 6; ++round) {
    ++c.seed;
    Net net(c);
    Random random(c.seed);
    Sent sent;
    net.seen = [&](unsigned to, const std::vector<std::byte>& frame) {
      wire::Packet p;
      if (wire::parse(frame, c.core.wire, p) != wire::ParseError::kNone || wire::is_write(p.bth.opcode)) return;
      if (!sacks && p.bth.opcode == wire::Opcode::kSack) return;
      if (sent.frames.size() < 4000) sent.frames.push_back(frame);
      if (!random.chance(sacks ? 0.3 : 1)) return;
      auto copy = sent.frames[random.below(static_cast<std::uint32_t>(sent.frames.size()))];
      mutate(copy, random);
      net.inject(to, static_cast<std::uint8_t>(random.below(4)), copy, microseconds(random.below(200)));
    };
    for (int i = 0; i < 6; ++i) {
      REQUIRE(net.write(0, 1, 150000) == Status::kOk);
      REQUIRE(net.write(1, 0, 150000) == Status::kOk);
    }
    REQUIRE(net.run_all(seconds(30)));
    for (const auto& w : net.writes) REQUIRE(net.nodes[w.from]->done[w.cookie].size() == 1);
    if (!sacks) REQUIRE(net.sane());
  }
}

TEST_CASE("mutated data packets never crash") {
  NetConfig c;
  c.seed = seed_from_environment(53);
  c.ns_per_byte = 0.8;
  c.core.peer_timeout = seconds(2);
  c.core.connect_timeout = seconds(2);
  for (int round = 0; round < 6; ++round) {
    ++c.seed;
    Net net(c);
    Random random(c.seed);
    net.mangle = [&](std::vector<std::byte>& bytes) {
      if (random.chance(0.05)) mutate(bytes, random);
    };
    for (int i = 0; i < 6; ++i) {
      REQUIRE(net.write(0, 1, 100000) == Status::kOk);
      REQUIRE(net.write(1, 0, 100000) == Status::kOk);
    }
    REQUIRE(net.run_all(seconds(60)));
    for (const auto& w : net.writes) REQUIRE(net.nodes[w.from]->done[w.cookie].size() == 1);
  }
}

/// Any sequence of calls keeps the promises: one event per write, pools whole at the end.
TEST_CASE("a random user") {
  NetConfig c;
  c.seed = seed_from_environment(54);
  c.nodes = 3;
  c.loss = 0.05;
  c.jitter = microseconds(100);
  c.duplicate = 0.02;
  c.ns_per_byte = 0.2;
  c.core.peer_timeout = seconds(2);
  c.core.connect_timeout = seconds(2);
  c.core.linger = milliseconds(100);
  c.limits = {4, 8, 64, 512};
  for (int round = 0; round < 12; ++round) {
    ++c.seed;
    Net net(c);
    Random random(c.seed);
    std::array<unsigned, 3> closed{};
    for (int i = 0; i < 300; ++i) {
      const unsigned node = random.below(3);
      const unsigned other = random.below(3);
      Node& n = *net.nodes[node];
      switch (random.below(24)) {
        case 0:
          n.core->peer_gone(net.nodes[other]->inner, net.now);
          break;
        case 1:
          n.core->set_plane_up(random.below(5), random.chance(0.7), net.now);
          break;
        case 2:
          if (!closed[node]++) n.core->close_endpoint(n.ep, net.now);
          break;
        case 3:
          n.core->forget_endpoint(n.ep, net.now);
          n.ep = n.core->add_endpoint(n.inner, random.next(), &n);
          closed[node] = 0;
          REQUIRE(n.ep != kNoId);
          break;
        case 4:
          n.stalled_until = net.now + microseconds(random.below(20000));
          break;
        default:
          if (n.core->closed(n.ep)) break;
          net.write(node, other, random.below(20000), random.chance(0.3));
      }
      net.run([] { return false; }, microseconds(random.below(300)));
    }
    for (unsigned i = 0; i < 3; ++i) {
      for (unsigned p = 0; p < 4; ++p) net.core(i).set_plane_up(p, true, net.now);
    }
    REQUIRE(net.run_all(seconds(20)));
    net.check(false);
    for (auto& n : net.nodes) n->core->forget_endpoint(n->ep, net.now);
    net.run([] { return false; }, milliseconds(10));
    for (auto& n : net.nodes) REQUIRE(n->core->pool_levels() == net.initial);
  }
}

}  // namespace mrc::transport::test
