// SPDX-License-Identifier: BSD-2-Clause
// Frames out and in: every way in which a frame can be wrong has its own verdict.
#include "mrc/engine/frame.hpp"

#include <rapidcheck.h>

#include "fakes.hpp"
#include "mrc/engine/gather.hpp"
#include "support/catch.hpp"

using namespace mrc;
using namespace mrc::engine;

namespace {

const path::EndpointAddress kTo{path::kDefaultFabric, 3, 0x0a4d0002, 4711};

FrameRules rules(bool icrc = true) {
  FrameRules out;
  const auto inner = kTo.inner();
  std::memcpy(out.node.data(), inner.bytes.data(), out.node.size());
  out.crc = icrc ? test::crc32 : nullptr;
  return out;
}

// A write packet as the core emits it.
transport::TxPacket packet(const Gather* source, std::uint32_t length, bool outer, bool icrc = true,
                           std::uint64_t offset = 0) {
  wire::Packet p;
  p.has_outer = outer;
  p.inner.source = path::EndpointAddress{path::kDefaultFabric, 0, 0x0a4d0001, 1}.inner();
  p.inner.destination = kTo.inner();
  p.outer.destination.bytes[0] = 0xfc;
  p.ev = 0x12345678;
  p.inner.traffic_class = 10 << 2;
  p.bth.opcode = wire::Opcode::kWriteOnly;
  p.reth.length = length;
  wire::Params params;
  params.icrc = icrc;
  transport::TxPacket out;
  out.header_length = static_cast<std::uint16_t>(wire::write_headers(p, length, params, out.header));
  REQUIRE(out.header_length > 0);
  out.outer = outer;
  out.icrc = icrc;
  out.source = source;
  out.length = length;
  out.offset = offset;
  out.destination = p.inner.destination;
  return out;
}

std::vector<std::byte> framed(const transport::TxPacket& packet, bool icrc = true) {
  std::vector<std::byte> out(1514);
  out.resize(write_frame(packet, {}, icrc ? test::crc32 : nullptr, out));
  return out;
}

}  // namespace

TEST_CASE("a frame carries headers, gathered payload, pad and iCRC, and comes back as it was") {
  REQUIRE(rc::check(
      "any payload, outer or not, iCRC or not", [](const std::string& a, const std::string& b, bool outer, bool icrc) {
        const GatherPiece pieces[] = {{a.data(), a.size()}, {b.data(), b.size()}};
        const Gather gather{pieces, 2};
        const std::string whole = a + b;
        RC_PRE(whole.size() < 1200);
        const auto offset = *rc::gen::inRange<std::size_t>(0, whole.size() + 1);
        const auto length = static_cast<std::uint32_t>(whole.size() - offset);
        auto frame = framed(packet(&gather, length, outer, icrc, offset), icrc);
        RC_ASSERT(!frame.empty());
        const auto before = frame;
        frame.resize(std::max<std::size_t>(frame.size(), 200));  // Ethernet padding
        const CheckedFrame checked = check_frame(frame, rules(icrc));
        RC_ASSERT(checked.kind == FrameKind::kPacket);
        RC_ASSERT(checked.l3.size() == before.size() - kEthernet);
        RC_ASSERT(std::equal(before.begin(), before.end(), frame.begin()));
        wire::Packet parsed;
        wire::Params params;
        params.icrc = icrc;
        RC_ASSERT(wire::parse(checked.l3, params, parsed) == wire::ParseError::kNone);
        RC_ASSERT(std::string(reinterpret_cast<const char*>(parsed.payload.data()), parsed.payload.size()) ==
                  whole.substr(offset));
        RC_ASSERT(frame_ev(checked.l3, checked.inner, params.ev_split) == 0x12345678u);
      }));
}

TEST_CASE("one flipped bit behind the addresses is a bad iCRC") {
  const std::string text(333, 'x');
  const GatherPiece piece{text.data(), text.size()};
  const Gather gather{&piece, 1};
  for (const bool outer : {false, true}) {
    const auto good = framed(packet(&gather, 333, outer));
    const std::size_t bth = kEthernet + (outer ? 80 : 40) + 8;
    for (std::size_t at = bth; at < good.size(); ++at) {
      if (at == bth + 4) continue;  // BTH's reserved byte may change on the way
      auto bad = good;
      bad[at] ^= std::byte{0x10};
      REQUIRE(check_frame(bad, rules()).kind == FrameKind::kBadIcrc);
    }
    // Hop limit and traffic class change on the way.
    auto routed = good;
    const std::size_t inner = kEthernet + (outer ? 40 : 0);
    routed[inner + 7] = std::byte{3};
    routed[inner + 1] |= std::byte{0x30};
    REQUIRE(check_frame(routed, rules()).kind == FrameKind::kPacket);
  }
}

TEST_CASE("frames that are not for the core are told apart") {
  const std::string text(200, 'x');
  const GatherPiece piece{text.data(), text.size()};
  const Gather gather{&piece, 1};
  const auto good = framed(packet(&gather, 200, true));
  const auto kind = [](std::vector<std::byte> frame, const FrameRules& by = rules()) {
    return check_frame(frame, by).kind;
  };
  REQUIRE(kind(good) == FrameKind::kPacket);

  REQUIRE(kind({}) == FrameKind::kRunt);
  REQUIRE(kind(std::vector<std::byte>(53)) == FrameKind::kRunt);
  auto frame = good;
  frame[13] = std::byte{0};
  REQUIRE(kind(frame) == FrameKind::kNotIpv6);
  frame = good;
  frame[14] = std::byte{0x45};
  REQUIRE(kind(frame) == FrameKind::kNotIpv6);
  frame = good;
  frame.resize(1515);
  REQUIRE(kind(frame) == FrameKind::kTooLong);
  for (std::size_t length = 54; length < good.size(); ++length) {
    REQUIRE(kind({good.begin(), good.begin() + static_cast<std::ptrdiff_t>(length)}) == FrameKind::kCutOff);
  }
  frame = good;
  frame[14 + 6] = std::byte{58};
  REQUIRE(kind(frame) == FrameKind::kIcmp6);
  frame[14 + 6] = std::byte{6};
  REQUIRE(kind(frame) == FrameKind::kNotOurs);
  frame = good;
  frame[14 + 40 + 6] = std::byte{6};
  REQUIRE(kind(frame) == FrameKind::kNotOurs);
  auto other = rules();
  other.node[11] ^= 1;
  REQUIRE(kind(good, other) == FrameKind::kNotOurs);
}

TEST_CASE("a trimmed packet passes, though it has neither its length nor an iCRC") {
  const std::string text(900, 'x');
  const GatherPiece piece{text.data(), text.size()};
  const Gather gather{&piece, 1};
  auto frame = framed(packet(&gather, 900, true));
  frame.resize(14 + 128);
  const std::uint8_t dscp = wire::Dscp{}.trimmed;
  frame[14] = static_cast<std::byte>(0x60 | dscp >> 2);
  frame[15] = static_cast<std::byte>((dscp & 3) << 6);
  const CheckedFrame checked = check_frame(frame, rules());
  REQUIRE(checked.kind == FrameKind::kPacket);
  REQUIRE(checked.l3.size() == 128);
}

TEST_CASE("check_frame is total on garbage") {
  REQUIRE(rc::check("any bytes", [](std::vector<std::uint8_t> bytes) {
    if (bytes.size() > 20 && *rc::gen::arbitrary<bool>()) {
      bytes[12] = 0x86, bytes[13] = 0xdd, bytes[14] = 0x60;
    }
    std::vector<std::byte> frame(bytes.size());
    if (!bytes.empty()) std::memcpy(frame.data(), bytes.data(), bytes.size());
    const auto before = frame;
    const CheckedFrame checked = check_frame(frame, rules());
    RC_ASSERT(frame == before);
    RC_ASSERT(checked.l3.size() <= frame.size());
  }));
}

TEST_CASE("a packet that does not fit is not written") {
  const std::string text(1400, 'x');
  const GatherPiece piece{text.data(), text.size()};
  const Gather gather{&piece, 1};
  const auto p = packet(&gather, 1400, true);
  std::vector<std::byte> small(1400);
  REQUIRE(write_frame(p, {}, test::crc32, small) == 0);
  auto lying = p;
  lying.length = 1500;
  std::vector<std::byte> big(4000);
  REQUIRE(write_frame(lying, {}, test::crc32, big) == 0);
}
