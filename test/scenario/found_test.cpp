// SPDX-License-Identifier: BSD-2-Clause
// What test/faults found, each reduced to the smallest scenario that shows it.
#include "mrc/transport/cc_fixed.hpp"
#include "transport/pair.hpp"

namespace mrc::transport::test {
namespace {

/// How often a driver that goes by next_deadline() has to wake within `span`; nothing that is sent arrives.
unsigned wakes(Core& core, Tick from, Duration span, std::uint16_t room_each) {
  unsigned count = 0;
  std::array<TxPacket, 16> out;
  for (Tick now = from; now <= from + span && count < 100'000; ++count) {
    core.on_deadline(now);
    std::array<std::uint16_t, path::kMaxPlanes> room{};
    room.fill(room_each);
    while (core.poll_tx(out, room, now) != 0) room.fill(room_each);
    const Tick next = core.next_deadline();
    if (next == kNever) break;
    now = std::max(next, now + nanoseconds(1));
  }
  return count;
}

NetConfig lossy(std::uint64_t seed) {
  NetConfig c;
  c.seed = seed_from_environment(seed);
  c.loss = 0.1;
  c.ns_per_byte = 0.3;
  return c;
}

}  // namespace

TEST_CASE("while all links are down no probe of a bad path keeps the driver awake") {
  Net net(lossy(81));
  net.passes = [](unsigned, unsigned, std::uint8_t, std::uint32_t ev, Tick) {
    return path::EvLayout::uplink(ev) != 0 || ev % 8 == 0;
  };
  for (int i = 0; i < 20; ++i) REQUIRE(net.write(0, 1, 60000) == Status::kOk);
  REQUIRE(net.run([&] { return net.core(0).counters().ev_blamed > 4; }, seconds(1)));
  for (unsigned p = 0; p < net.config.planes; ++p) net.core(0).set_plane_up(p, false, net.now);
  REQUIRE(wakes(net.core(0), net.now, milliseconds(500), 0) < 500);
}

TEST_CASE("while all paths are silent nothing that waits to be judged keeps the driver awake") {
  for (std::uint64_t seed = 200; seed < 260; ++seed) {
    NetConfig c = lossy(seed);
    c.planes = 1;
    c.memory = 1 << 18;
    c.core.rto_min = milliseconds(1);
    c.core.gap_packets = 4;
    Net net(c);
    for (int i = 0; i < 4; ++i) REQUIRE(net.write(0, 1, 60000) == Status::kOk);
    net.run([] { return false; }, microseconds(static_cast<std::int64_t>(20 + 7 * (seed - 200))));
    REQUIRE(wakes(net.core(0), net.now, milliseconds(500), 64) < 1500);
  }
}

TEST_CASE("a set-up packet of a life that ended cleanly does not end the next one") {
  NetConfig c;
  c.seed = seed_from_environment(83);
  Net net(c);
  std::vector<std::vector<std::byte>> inits;
  net.seen = [&](unsigned to, const std::vector<std::byte>& frame) {
    wire::Packet p;
    if (to != 1 || wire::parse(frame, c.core.wire, p) != wire::ParseError::kNone) return;
    if (p.bth.opcode == wire::Opcode::kEndpointRequest && p.erth.op == wire::EndpointOp::kInit) inits.push_back(frame);
  };
  REQUIRE(net.write(0, 1, 5000) == Status::kOk);
  REQUIRE(net.run_all(seconds(1)));
  REQUIRE(!inits.empty());
  const auto former = inits.front();
  net.core(0).close_endpoint(net.nodes[0]->ep, net.now);
  REQUIRE(net.run([&] { return net.core(0).closed(net.nodes[0]->ep); }, seconds(5)));
  net.start(0);
  REQUIRE(net.write(0, 1, 5000) == Status::kOk);
  REQUIRE(net.run_all(seconds(1)));
  const auto failed = [&] { return net.count(0, EventKind::kConnFailed) + net.count(1, EventKind::kConnFailed); };
  const auto before = failed();
  net.inject(1, 0, former, Duration{});
  REQUIRE(net.write(0, 1, 500'000) == Status::kOk);
  REQUIRE(net.run_all(seconds(5)));
  REQUIRE(failed() == before);
  net.check();
}

TEST_CASE("a fixed window gives way to trimming down to a few packets") {
  // With a floor of many packets two senders kept a slower link busy with the headers of trimmed packets alone.
  FixedWindow window;
  CcLink link;
  link.limit = 1 << 20;
  link.mtu = 4096;
  window.set_link(link);
  for (int i = 0; i < 10'000; ++i) window.on_nack(4096, false, {});
  REQUIRE(window.window() <= 2 * 4096);
  REQUIRE(window.window() > 0);
  for (int i = 0; i < 10'000; ++i) window.on_ack(4096, Duration{-1}, false, {});
  REQUIRE(window.window() == link.limit);
}

}  // namespace mrc::transport::test
