// SPDX-License-Identifier: BSD-2-Clause
// Each header by itself: bytes in, bytes out again, reserved bits as zeros.
#include <rapidcheck.h>

#include <algorithm>
#include <array>

#include "golden.hpp"
#include "mrc/wire/ext.hpp"
#include "support/catch.hpp"

using namespace mrc::wire;
using mrc::wire::test::from_hex;

namespace {

template <class Header>
Header decode(std::string_view hex) {
  const auto bytes = from_hex(hex);
  REQUIRE(bytes.size() == Header::kSize);
  return Header::decode(std::span<const std::byte, Header::kSize>(bytes.data(), Header::kSize));
}

template <class Header>
std::string encode(const Header& h) {
  std::array<std::byte, Header::kSize> out;
  out.fill(std::byte{0xcc});  // every byte must be written, reserved ones too
  h.encode(out);
  return test::to_hex(out);
}

/// decode ∘ encode is the identity on what any bytes decode to, and encode clears nothing but reserved bits.
template <class Header>
void round_trip(std::array<std::uint8_t, Header::kSize> reserved) {
  REQUIRE(rc::check([&] {
    const auto raw = *rc::gen::container<std::vector<std::uint8_t>>(Header::kSize, rc::gen::arbitrary<std::uint8_t>());
    std::array<std::byte, Header::kSize> in, out, want;
    for (std::size_t i = 0; i < in.size(); ++i) {
      in[i] = static_cast<std::byte>(raw[i]);
      want[i] = in[i] & ~static_cast<std::byte>(reserved[i]);
    }
    out.fill(std::byte{0xcc});
    const Header h = Header::decode(in);
    h.encode(out);
    RC_ASSERT(out == want);
    RC_ASSERT(Header::decode(out) == h);
  }));
}

}  // namespace

TEST_CASE("IPv6 header, RFC 8200 layout") {
  const auto h =
      decode<Ipv6Header>("6 2b abcde 0123 29 3f 000102030405060708090a0b0c0d0e0f fcbbbb00010102010e01000000000001");
  CHECK(h.traffic_class == 0x2b);
  CHECK(h.dscp() == 10);
  CHECK(h.ecn() == kEcnCe);
  CHECK(h.flow_label == 0xabcde);
  CHECK(h.payload_length == 0x123);
  CHECK(h.next_header == Ipv6Header::kNextIpv6);
  CHECK(h.hop_limit == 0x3f);
  CHECK(h.source.bytes[15] == 0x0f);
  CHECK(h.destination.bytes[0] == 0xfc);
  CHECK(encode(h) == "62babcde0123293f000102030405060708090a0b0c0d0e0ffcbbbb00010102010e01000000000001");
}

TEST_CASE("UDP header, RFC 768 layout") {
  const auto h = decode<UdpHeader>("c123 12b7 0034 beef");
  CHECK(h == UdpHeader{.source_port = 0xc123, .destination_port = 4791, .length = 0x34, .checksum = 0xbeef});
  CHECK(encode(h) == "c12312b70034beef");
}

TEST_CASE("BTH: each flag has its bit") {
  const auto plain = decode<Bth>("ca 00 ffff 00 123456 00 abcdef");
  CHECK(plain == Bth{.opcode = Opcode::kWriteOnly, .migrated = false, .dest_qpn = 0x123456, .psn = 0xabcdef});
  CHECK(decode<Bth>("ca 80 ffff 00 000000 00 000000").solicited);
  CHECK(decode<Bth>("ca 40 ffff 00 000000 00 000000").migrated);
  CHECK(decode<Bth>("ca 30 ffff 00 000000 00 000000").pad == 3);
  CHECK(decode<Bth>("ca 0f ffff 00 000000 00 000000").version == 15);
  CHECK(decode<Bth>("ca 00 8001 00 000000 00 000000").pkey == 0x8001);
  CHECK(decode<Bth>("ca 00 ffff 00 000000 80 000000").ack_request);
  CHECK(decode<Bth>("ca 00 ffff 00 000000 20 000000").retransmit);
  CHECK(decode<Bth>("ca 00 ffff 00 000000 10 000000").timestamp);
  CHECK(encode(Bth{.opcode = Opcode::kSack,
                   .solicited = true,
                   .pad = 2,
                   .version = 1,
                   .pkey = 0x8001,
                   .dest_qpn = 0xfedcba,
                   .ack_request = true,
                   .retransmit = true,
                   .timestamp = true,
                   .psn = 0x010203}) == "dce1800100fedcbab0010203");
}

TEST_CASE("data headers") {
  CHECK(decode<Meth>("0102 0304") == Meth{.rqmsn = 0x0102, .msn = 0x0304});
  CHECK(decode<Tseth>("a1a2 8001") == Tseth{.timestamp = 0xa1a2, .flags = 0x8001});
  CHECK(decode<Reth>("1122334455667788 99aabbcc ddeeff00") ==
        Reth{.va = 0x1122334455667788, .rkey = 0x99aabbcc, .length = 0xddeeff00});
  CHECK(decode<ImmDt>("01020304") == ImmDt{.value = 0x01020304});
  CHECK(decode<Aeth>("62 fffffe") == Aeth{.syndrome = Aeth::kNakAccess, .msn = 0xfffffe});
}

TEST_CASE("fields wider in C++ than on the wire are cut, never spilled into their neighbours") {
  CHECK(encode(Ipv6Header{.flow_label = 0xfffabcde}).substr(0, 8) == "600abcde");
  CHECK(encode(Bth{.opcode = Opcode::kNack,
                   .migrated = false,
                   .pad = 4,
                   .version = 0x10,
                   .dest_qpn = 0xff000001,
                   .psn = 0xff000002}) == "dd00ffff0000000100000002");
  CHECK(encode(Aeth{.syndrome = 0, .msn = 0xff000001}) == "00000001");
  CHECK(encode(CcState{.ooo_count = 0xffff, .rcv_cwnd_pen = 0xff, .rcvd_bytes = 0xff000001}) == "00007fff7f000001");
  CHECK(encode(Seth{.cumulative_psn = 0xff000003, .cc_type = 0xf1, .cc_flags = 0xf2, .mpr = 0, .sack_offset = 0})
            .substr(24, 8) == "00000312");
}

TEST_CASE("PSN differences on the 24-bit circle") {
  CHECK(psn_diff(5, 3) == 2);
  CHECK(psn_diff(0, 0xffffff) == 1);
  CHECK(psn_diff(0xffffff, 0) == -1);
  CHECK(psn_diff(0x800000, 0) == -0x800000);
}

TEST_CASE("round trips of arbitrary bytes") {
  round_trip<UdpHeader>({});
  round_trip<Bth>({0, 0, 0, 0, 0xff, 0, 0, 0, 0x4f});
  round_trip<Meth>({});
  round_trip<Tseth>({});
  round_trip<Reth>({});
  round_trip<ImmDt>({});
  round_trip<Seth>({0x1f, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff});
  round_trip<CcState>({0, 0, 0x80});
  round_trip<Neth>({0, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff});
  round_trip<Peth>({0, 0, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff});
  round_trip<Erth>({0, 0, 0, 0, 0, 0, 0, 0, 0xff});
  round_trip<Eeth>({0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0, 0,    0,    0,    0,
                    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,    0, 0xff, 0xff, 0xff, 0xff});
  round_trip<Aeth>({});
}
