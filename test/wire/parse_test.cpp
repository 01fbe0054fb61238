// SPDX-License-Identifier: BSD-2-Clause
// The parser on golden packets, on every way of cutting them off, on wrong fields, and on trimmed ones.
#include "mrc/wire/packet.hpp"

#include <rapidcheck.h>

#include <set>

#include "random_packet.hpp"
#include "support/catch.hpp"

using namespace mrc::wire;
using namespace mrc::wire::test;

namespace {

const std::vector<Golden>& goldens() {
  static const auto all = golden_packets();
  return all;
}

const Golden& find(std::string_view name) {
  for (const auto& g : goldens()) {
    if (g.name == name) return g;
  }
  FAIL("no golden packet " << name);
  return goldens().front();
}

/// The parser's verdict on a copy that ends exactly where the bytes do (so that sanitizers see any over-read).
ParseError verdict(const Bytes& bytes, const Params& params = {}) {
  const Bytes exact(bytes.begin(), bytes.end());
  Packet out;
  return parse(exact, params, out);
}

Bytes with(Bytes bytes, std::size_t at, unsigned value) {
  bytes.at(at) = static_cast<std::byte>(value);
  return bytes;
}

Bytes with16(const Bytes& bytes, std::size_t at, unsigned value) {
  return with(with(bytes, at, value >> 8 & 0xff), at + 1, value & 0xff);
}

// Offsets in a packet without outer header.
constexpr std::size_t kUdp = 40, kBth = 48, kExt = 60;

}  // namespace

TEST_CASE("golden packets parse to what they mean") {
  std::set<Opcode> opcodes;
  for (const auto& g : goldens()) {
    INFO(g.name);
    Packet p;
    REQUIRE(parse(g.bytes, g.params, p) == ParseError::kNone);
    CHECK(same_headers(p, g.packet));
    CHECK(p.cc_present == g.packet.cc_present);
    CHECK(p.reth_present == g.packet.reth_present);
    CHECK_FALSE(p.trimmed);
    CHECK(Bytes(p.payload.begin(), p.payload.end()) == g.payload);
    CHECK(p.ce() == (g.name.starts_with("write_last_imm")));
    opcodes.insert(p.bth.opcode);
  }
  CHECK(opcodes.size() == std::size(kAllOpcodes));
}

TEST_CASE("every truncation of every golden packet is an error") {
  for (const auto& g : goldens()) {
    for (std::size_t n = 0; n < g.bytes.size(); ++n) {
      INFO(g.name << " cut to " << n);
      const auto error = verdict(Bytes(g.bytes.begin(), g.bytes.begin() + static_cast<std::ptrdiff_t>(n)), g.params);
      const std::size_t to_bth = g.packet.has_outer ? 88 : 48;
      CHECK(error == (n < to_bth ? ParseError::kTooShort : ParseError::kBadLength));
    }
  }
}

TEST_CASE("bytes after the IPv6 packet are Ethernet padding") {
  for (const auto& g : goldens()) {
    Bytes longer = g.bytes;
    longer.resize(longer.size() + 7, std::byte{0xee});
    Packet p;
    REQUIRE(parse(longer, g.params, p) == ParseError::kNone);
    CHECK(same_headers(p, g.packet));
    CHECK(Bytes(p.payload.begin(), p.payload.end()) == g.payload);
  }
}

TEST_CASE("what is not for us") {
  const Bytes good = find("write_first_plain_a").bytes;
  CHECK(verdict({}) == ParseError::kTooShort);
  CHECK(verdict(with(good, 0, 0x45)) == ParseError::kNotIpv6);
  CHECK(verdict(from_hex("45")) == ParseError::kNotIpv6);
  CHECK(verdict(with(good, 6, 6)) == ParseError::kNotMrc);   // TCP
  CHECK(verdict(with(good, 6, 58)) == ParseError::kNotMrc);  // ICMPv6
  CHECK(verdict(with16(good, kUdp + 2, 4790)) == ParseError::kNotMrc);
  Params other;
  other.udp_port = 4971;
  CHECK(verdict(good, other) == ParseError::kNotMrc);
  CHECK(verdict(with16(good, kUdp + 2, 4971), other) == ParseError::kNone);

  const Bytes outer = find("write_first_outer_a").bytes;
  CHECK(verdict(with(outer, 40, 0x45)) == ParseError::kNotIpv6);  // IPv4 announced as IPv6
  CHECK(verdict(with(outer, 46, 41)) == ParseError::kNotMrc);     // a third IPv6 header
  CHECK(verdict(with(outer, 6, 43)) == ParseError::kNotMrc);      // a routing header
}

TEST_CASE("lengths that contradict each other") {
  const Bytes good = find("write_first_plain_a").bytes;
  const Bytes outer = find("write_first_outer_a").bytes;
  for (const int d : {-56, -52, -44, -8, -4, -3, -1, 1, 3, 4, 8, 1000}) {
    INFO(d);
    const auto inner_length = static_cast<unsigned>(0x34 + d) & 0xffff;
    CHECK(verdict(with16(good, 4, inner_length)) == ParseError::kBadLength);
    CHECK(verdict(with16(good, kUdp + 4, inner_length)) == ParseError::kBadLength);
    CHECK(verdict(with16(outer, 4, static_cast<unsigned>(0x5c + d) & 0xffff)) == ParseError::kBadLength);
    CHECK(verdict(with16(outer, 44, inner_length)) == ParseError::kBadLength);
    // All lengths agree with each other, but not with a multiple of 4 or with the frame.
    if (d % 4 != 0) {
      Bytes agreeing = with16(with16(good, 4, inner_length), kUdp + 4, inner_length);
      agreeing.resize(agreeing.size() + 8);
      CHECK(verdict(agreeing) == ParseError::kBadLength);
    }
  }
  // Consistent lengths that leave too little for BTH, for iCRC, for the extension headers.
  for (unsigned length = 0; length < 44; ++length) {
    INFO(length);
    CHECK(verdict(with16(with16(good, 4, length), kUdp + 4, length)) == ParseError::kBadLength);
  }
  // Bytes after a header that carries none.
  for (const char* name : {"acknowledge_plain_a", "sack_plain_a", "nack_trimmed_plain_a"}) {
    Bytes longer = find(name).bytes;
    const auto length = static_cast<unsigned>(longer.size() - 40 + 4);
    longer.resize(longer.size() + 4);
    CHECK(verdict(with16(with16(longer, 4, length), kUdp + 4, length)) == ParseError::kBadLength);
  }
  // CC_STATE announced but missing; present but not announced.
  CHECK(verdict(with(find("sack_plain_a").bytes, kExt + 15, 0x10)) == ParseError::kBadLength);
  CHECK(verdict(with(find("sack_cc_state_plain_a").bytes, kExt + 15, 0x03)) == ParseError::kBadLength);
}

TEST_CASE("wrong fields") {
  const Bytes good = find("write_first_plain_a").bytes;
  for (unsigned version = 1; version < 16; ++version) {
    CHECK(verdict(with(good, kBth + 1, 0x40 | version)) == ParseError::kBadVersion);
  }
  const std::set<Opcode> valid(std::begin(kAllOpcodes), std::end(kAllOpcodes));
  for (unsigned op = 0; op < 256; ++op) {
    if (!valid.contains(static_cast<Opcode>(op))) CHECK(verdict(with(good, kBth, op)) == ParseError::kBadOpcode);
  }
  // Padding where there is nothing to pad.
  CHECK(verdict(with(find("write_only_empty_plain_a").bytes, kBth + 1, 0x50)) == ParseError::kBadField);
  CHECK(verdict(with(find("acknowledge_plain_a").bytes, kBth + 1, 0x50)) == ParseError::kBadField);
  // A timestamp flag where no TSETH can be.
  CHECK(verdict(with(find("acknowledge_plain_a").bytes, kBth + 8, 0x10)) == ParseError::kBadField);
  // SETH.M = 3.
  CHECK(verdict(with(find("sack_plain_a").bytes, kExt, 0xc0)) == ParseError::kBadField);
  // NACK reasons and endpoint operations nobody defined.
  const Bytes nack = find("nack_trimmed_plain_a").bytes;
  const Bytes request = find("endpoint_request_port_status_plain_a").bytes;
  const Bytes response = find("endpoint_response_ev_probe_plain_a").bytes;
  std::size_t reasons = 0, ops = 0;
  for (unsigned v = 0; v < 256; ++v) {
    reasons += verdict(with(nack, kExt, v)) == ParseError::kNone;
    ops += verdict(with(request, kExt, v)) == ParseError::kNone;
    CHECK(verdict(with(request, kExt, v)) == verdict(with(response, kExt, v)));
  }
  CHECK(reasons == std::size(kAllReasons));
  CHECK(ops == std::size(kAllOps));
  // A body longer than the payload.
  CHECK(verdict(with16(find("endpoint_request_init_plain_a").bytes, kExt + 2, 9)) == ParseError::kBadField);
  CHECK(verdict(with16(response, kExt + 2, 1)) == ParseError::kBadField);
  // More payload than the whole message.
  CHECK(verdict(with16(good, kExt + 4 + 14, 7)) == ParseError::kBadField);
  CHECK(verdict(with16(good, kExt + 4 + 14, 8)) == ParseError::kNone);
}

TEST_CASE("without iCRC the last four bytes are payload") {
  const Golden& g = find("write_first_plain_a");
  Params params;
  params.icrc = false;
  Packet p;
  REQUIRE(parse(g.bytes, params, p) == ParseError::kNone);
  CHECK(to_hex(p.payload) == "deadbeeff00dcafea5b6c7d8");
}

TEST_CASE("trimmed packets are known by DSCP, from METH on") {
  const Params params;
  for (const auto& g : goldens()) {
    if (g.params.ev_split != params.ev_split) continue;
    const std::size_t inner_at = g.packet.has_outer ? 40 : 0;
    const std::size_t ext = inner_at + kExt;
    const bool data = is_write(g.packet.bth.opcode);
    const std::size_t tseth = g.packet.bth.timestamp ? 4 : 0;
    for (const bool last_hop : {false, true}) {
      // The switch rewrites the header it routes by, and cuts; lengths stay.
      const unsigned dscp = last_hop ? params.dscp.trimmed_lasthop : params.dscp.trimmed;
      Bytes bytes = with(with(g.bytes, 0, 0x60 | dscp >> 2), 1, (dscp & 3) << 6);
      for (std::size_t n = bytes.size(); n > 0; --n) {
        bytes.resize(n);
        bytes.shrink_to_fit();
        INFO(g.name << " trimmed to " << n);
        Packet p;
        p.tseth = {.timestamp = 7, .flags = 7};  // left over from an earlier packet
        p.imm.value = 7;
        const auto error = parse(bytes, params, p);
        if (n < ext + (data ? 4 : 0)) {
          CHECK(error == ParseError::kTooShort);
          continue;
        }
        REQUIRE(error == ParseError::kNone);
        CHECK(p.trimmed);
        CHECK(p.trimmed_lasthop == last_hop);
        CHECK(p.payload.empty());
        CHECK(p.bth == g.packet.bth);
        CHECK(p.inner.source == g.packet.inner.source);
        CHECK(p.reth_present == (data && n >= ext + 20 + tseth));
        CHECK_FALSE(p.cc_present);
        if (data) CHECK(p.meth == g.packet.meth);
        if (p.reth_present) CHECK(p.reth == g.packet.reth);
        if (data && tseth != 0) CHECK(p.tseth == (n >= ext + 8 ? g.packet.tseth : Tseth{}));
        const bool imm_whole = has_imm(g.packet.bth.opcode) && n >= ext + 24 + tseth;
        if (data) CHECK(p.imm.value == (imm_whole ? g.packet.imm.value : 0));
      }
    }
  }
}

TEST_CASE("a trimmed packet's inner DSCP counts too") {
  const Golden& g = find("write_first_outer_a");
  const Params params;
  const unsigned dscp = params.dscp.trimmed;
  const Bytes bytes = with(with(g.bytes, 40, 0x60 | dscp >> 2), 41, (dscp & 3) << 6);
  Packet p;
  REQUIRE(parse(bytes, params, p) == ParseError::kNone);
  CHECK(p.trimmed);
  CHECK_FALSE(p.trimmed_lasthop);
}

TEST_CASE("the 128 bytes that switches keep are enough for a NACK") {
  // Eth 14 + 114: outer, inner, UDP, BTH, METH and ten bytes of RETH.
  Golden g = find("write_first_outer_a");
  const Params params;
  Bytes bytes = with(with(g.bytes, 0, 0x60 | params.dscp.trimmed >> 2), 1, (params.dscp.trimmed & 3u) << 6);
  bytes.resize(114);
  Packet p;
  REQUIRE(parse(bytes, params, p) == ParseError::kNone);
  CHECK_FALSE(p.reth_present);
  CHECK(p.ev == 0xc1234567);
  CHECK(p.meth.msn == 0x0304);
  CHECK(p.bth.psn == 0xabcdef);
}

TEST_CASE("congestion marks count from either header") {
  const Bytes good = find("write_first_outer_a").bytes;
  Packet p;
  REQUIRE(parse(with(good, 1, 0xb0), Params{}, p) == ParseError::kNone);  // outer CE only
  CHECK(p.ce());
  REQUIRE(parse(with(good, 41, 0xb0), Params{}, p) == ParseError::kNone);  // inner CE only
  CHECK(p.ce());
}

TEST_CASE("any bytes give a verdict") {
  REQUIRE(rc::check("one golden packet, a few bytes changed, cut anywhere", [] {
    const auto& g = *rc::gen::elementOf(goldens());
    Bytes bytes = g.bytes;
    const auto changes = *rc::gen::container<std::vector<std::pair<std::uint16_t, std::uint8_t>>>(
        3, rc::gen::arbitrary<std::pair<std::uint16_t, std::uint8_t>>());
    for (const auto& [at, value] : changes) bytes[at % bytes.size()] = static_cast<std::byte>(value);
    bytes.resize(*rc::gen::inRange<std::size_t>(0, bytes.size() + 8));
    bytes.shrink_to_fit();
    Packet p;
    const auto error = parse(bytes, g.params, p);
    RC_ASSERT(error < ParseError::kBadIcrc);
    if (error == ParseError::kNone && !p.payload.empty()) {
      RC_ASSERT(p.payload.data() >= bytes.data());
      RC_ASSERT(p.payload.data() + p.payload.size() <= bytes.data() + bytes.size());
    }
  }));
}

TEST_CASE("each error has its name") {
  std::set<std::string_view> names;
  for (unsigned i = 0; i < static_cast<unsigned>(ParseError::kCount); ++i) {
    names.insert(to_string(static_cast<ParseError>(i)));
  }
  CHECK(names.size() == static_cast<std::size_t>(ParseError::kCount));
  CHECK_FALSE(names.contains("unknown"));
  CHECK(to_string(ParseError::kCount) == "unknown");
}
