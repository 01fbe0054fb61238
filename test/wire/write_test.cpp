// SPDX-License-Identifier: BSD-2-Clause
// The writer: golden bytes, sizes, refusals, and that the parser reads back what it wrote.
#include <rapidcheck.h>

#include <array>

#include "random_packet.hpp"
#include "support/catch.hpp"

using namespace mrc::wire;
using namespace mrc::wire::test;

TEST_CASE("golden packets are written byte for byte") {
  for (const auto& g : golden_packets()) {
    INFO(g.name);
    // What the writer computes is taken away first.
    Packet p = g.packet;
    p.inner.flow_label = p.outer.flow_label = 0xfffff;
    p.inner.payload_length = p.outer.payload_length = 1;
    p.inner.next_header = p.outer.next_header = 0;
    p.outer.traffic_class = 0xff;
    p.udp = {.source_port = 1, .destination_port = 2, .length = 3, .checksum = 4};
    p.bth.pad = static_cast<std::uint8_t>(3 - g.packet.bth.pad);
    p.bth.version = 9;

    const std::size_t total = packet_size(p, g.payload.size(), g.params);
    CHECK(total == g.bytes.size());
    Bytes out = assemble(p, g.payload, g.params);
    for (std::size_t i = total - kIcrcSize; i < total; ++i) out.at(i) = g.bytes[i];
    CHECK(to_hex(out) == to_hex(g.bytes));
  }
}

TEST_CASE("no header run is longer than kMaxHeaders, and a short buffer is refused") {
  std::size_t longest = 0;
  for (const auto& g : golden_packets()) {
    INFO(g.name);
    const std::size_t size = header_size(g.packet);
    longest = std::max(longest, size);
    Bytes out(size);
    CHECK(write_headers(g.packet, g.payload.size(), g.params, out) == size);
    out.resize(size - 1);
    out.shrink_to_fit();
    CHECK(write_headers(g.packet, g.payload.size(), g.params, out) == 0);
    CHECK(write_headers(g.packet, g.payload.size(), g.params, {}) == 0);
  }
  CHECK(longest == 136);
  CHECK(longest <= kMaxHeaders);
}

TEST_CASE("what cannot be a packet is not written") {
  std::array<std::byte, kMaxHeaders> out;
  const Params params;
  Packet p;
  p.bth.opcode = static_cast<Opcode>(0xC5);
  CHECK(header_size(p) == 0);
  CHECK(write_headers(p, 0, params, out) == 0);
  for (const Opcode op : {Opcode::kAcknowledge, Opcode::kSack, Opcode::kNack}) {
    p.bth.opcode = op;
    CHECK(write_headers(p, 0, params, out) != 0);
    CHECK(write_headers(p, 4, params, out) == 0);
  }
  // IPv6 lengths have 16 bits: 65535 - UDP 8 - BTH 12 - METH 4 - RETH 16 - iCRC 4, down to a multiple of 4.
  p.bth.opcode = Opcode::kWriteOnly;
  CHECK(write_headers(p, 65488, params, out) != 0);
  CHECK(write_headers(p, 65489, params, out) == 0);
  p.has_outer = true;
  CHECK(write_headers(p, 65448, params, out) != 0);
  CHECK(write_headers(p, 65449, params, out) == 0);
  CHECK(write_headers(p, ~std::size_t{0}, params, out) == 0);
}

TEST_CASE("the timestamp flag goes with data only") {
  std::array<std::byte, kMaxHeaders> out;
  Packet p;
  p.bth.opcode = Opcode::kSack;
  p.bth.timestamp = true;
  const Params params{.icrc = false};
  const std::size_t size = write_headers(p, 0, params, out);
  REQUIRE(size == 60 + 28);
  Packet back;
  REQUIRE(parse(std::span(out).first(size), params, back) == ParseError::kNone);
  CHECK_FALSE(back.bth.timestamp);
}

TEST_CASE("entropy value: both splits") {
  Packet p;
  set_ev(p, 0xC1234567, EvSplit::kHighInPort);
  CHECK(p.ev == 0xC1234567);
  CHECK(p.udp.source_port == 0xC123);
  CHECK(p.inner.flow_label == 0x4567);
  CHECK(p.outer.flow_label == 0x4567);
  set_ev(p, 0xC1234567, EvSplit::kLowInPort);
  CHECK(p.udp.source_port == 0x4567);
  CHECK(p.inner.flow_label == 0xC123);
  // The flow label's four upper bits are no part of it.
  CHECK(get_ev(0xC123, 0xf4567, EvSplit::kHighInPort) == 0xC1234567);
  CHECK(get_ev(0x4567, 0xfC123, EvSplit::kLowInPort) == 0xC1234567);
  REQUIRE(rc::check([](std::uint32_t ev, bool high) {
    const EvSplit split = high ? EvSplit::kHighInPort : EvSplit::kLowInPort;
    Packet q;
    set_ev(q, ev, split);
    RC_ASSERT(get_ev(q.udp.source_port, q.inner.flow_label, split) == ev);
  }));
}

TEST_CASE("the parser reads back any packet") {
  REQUIRE(rc::check([] {
    const auto draw = [] { return *rc::gen::noShrink(rc::gen::arbitrary<std::uint64_t>()); };
    const RandomPacket r = random_packet(draw);
    const Bytes bytes = assemble(r.packet, r.payload, r.params);
    RC_ASSERT(bytes.size() == packet_size(r.packet, r.payload.size(), r.params));
    Packet p;
    RC_ASSERT(parse(bytes, r.params, p) == ParseError::kNone);
    RC_ASSERT(Bytes(p.payload.begin(), p.payload.end()) == r.payload);
    // Fields that the writer computes.
    Packet want = r.packet;
    set_ev(want, r.packet.ev, r.params.ev_split);
    want.inner.payload_length = static_cast<std::uint16_t>(bytes.size() - (p.has_outer ? 80 : 40));
    want.outer.payload_length = static_cast<std::uint16_t>(bytes.size() - 40);
    want.inner.next_header = Ipv6Header::kNextUdp;
    want.outer.next_header = Ipv6Header::kNextIpv6;
    want.outer.traffic_class = want.inner.traffic_class;
    want.udp.destination_port = r.params.udp_port;
    want.udp.length = want.inner.payload_length;
    want.bth.pad = static_cast<std::uint8_t>(pad_of(r.payload.size()));
    RC_ASSERT(same_headers(p, want));
  }));
}
