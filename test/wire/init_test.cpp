// SPDX-License-Identifier: BSD-2-Clause
// INIT bodies: golden bytes, unknown TLVs, everything malformed, round trips.
#include "mrc/wire/init.hpp"

#include <rapidcheck.h>

#include <algorithm>
#include <array>

#include "golden.hpp"
#include "support/catch.hpp"

using namespace mrc::wire;
using namespace mrc::wire::test;

namespace {

constexpr std::string_view kGolden =
    "0001 0004 0003 0001"
    "0002 0004 00000002"
    "0003 0004 00123456"
    "0004 0004 00abcdef"
    "0005 0008 0102030405060708"
    "0006 0008 1112131415161718"
    "0007 0004 00001000"
    "0008 0004 00000800"
    "0009 0004 00000007"
    "000a 0003 aabbcc";
constexpr std::size_t kWithoutAuthenticator = 7 * 8 + 2 * 12;

bool equal(const InitBody& a, const InitBody& b) {
  return a.version == b.version && a.min_version == b.min_version && a.features == b.features && a.qpn == b.qpn &&
         a.psn == b.psn && a.incarnation == b.incarnation && a.peer_incarnation == b.peer_incarnation &&
         a.mtu == b.mtu && a.window == b.window && a.upper_version == b.upper_version &&
         to_hex(a.authenticator) == to_hex(b.authenticator);
}

Bytes concat(std::span<const std::byte> a, std::span<const std::byte> b) {
  Bytes out(a.size() + b.size());
  std::copy(a.begin(), a.end(), out.begin());
  std::copy(b.begin(), b.end(), out.begin() + static_cast<std::ptrdiff_t>(a.size()));
  return out;
}

}  // namespace

TEST_CASE("golden body, both ways") {
  const Bytes authenticator = from_hex("aabbcc");
  const InitBody want{.version = 3,
                      .min_version = 1,
                      .features = kFeatureTimestamps,
                      .qpn = 0x123456,
                      .psn = 0xabcdef,
                      .incarnation = 0x0102030405060708,
                      .peer_incarnation = 0x1112131415161718,
                      .mtu = 4096,
                      .window = 2048,
                      .upper_version = 7,
                      .authenticator = authenticator};
  const Bytes bytes = from_hex(kGolden);
  const auto got = decode_init(bytes);
  REQUIRE(got);
  CHECK(equal(*got, want));

  std::array<std::byte, kMaxInitBody> out;
  REQUIRE(encode(want, out) == bytes.size());
  CHECK(to_hex(std::span(out).first(bytes.size())) == to_hex(bytes));

  // What the authenticator covers is what the sender encodes without one.
  InitBody bare = want;
  bare.authenticator = {};
  const std::size_t n = encode(bare, out);
  CHECK(n == kWithoutAuthenticator);
  CHECK(to_hex(authenticated_part(*got, bytes)) == to_hex(std::span(out).first(n)));
  const auto again = decode_init(std::span(out).first(n));
  REQUIRE(again);
  CHECK(authenticated_part(*again, std::span(out).first(n)).size() == n);
}

TEST_CASE("types of later versions are skipped") {
  const Bytes bytes = concat(from_hex("7777 0005 0102030405 8000 0000"), from_hex(kGolden));
  const auto got = decode_init(bytes);
  REQUIRE(got);
  CHECK(got->qpn == 0x123456);
  CHECK(authenticated_part(*got, bytes).size() == 9 + 4 + kWithoutAuthenticator);  // they are covered too
}

TEST_CASE("a body cut off anywhere is malformed") {
  const Bytes bytes = from_hex(kGolden);
  for (std::size_t n = 0; n < bytes.size(); ++n) {
    INFO(n);
    const Bytes cut(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(n));
    // With these two lengths only the optional TLVs at the end are missing.
    const bool whole = n == kWithoutAuthenticator || n == kWithoutAuthenticator - 8;
    CHECK(decode_init(cut).has_value() == whole);
  }
}

TEST_CASE("malformed bodies") {
  const Bytes bytes = from_hex(kGolden);
  const auto bad = [&](std::size_t at, std::string_view hex) {
    Bytes b = bytes;
    const Bytes change = from_hex(hex);
    std::copy(change.begin(), change.end(), b.begin() + static_cast<std::ptrdiff_t>(at));
    return !decode_init(b);
  };
  CHECK(bad(2, "0003"));                                           // wrong length
  CHECK(bad(4, "0000 0000"));                                      // version 0
  CHECK(bad(4, "0001 0002"));                                      // lowest above highest
  CHECK(bad(16 + 4, "01000000"));                                  // QPN over 24 bits
  CHECK(bad(24 + 4, "ff000000"));                                  // PSN over 24 bits
  CHECK(bad(16, "0004"));                                          // PSN twice, QPN missing
  CHECK(bad(32 + 2, "0004"));                                      // a 4-byte incarnation
  CHECK(bad(kWithoutAuthenticator + 2, "0004"));                   // runs past the end
  CHECK_FALSE(decode_init(concat(bytes, from_hex("7777 0000"))));  // something after the authenticator
  CHECK_FALSE(decode_init(concat(Bytes(bytes.begin(), bytes.begin() + kWithoutAuthenticator), from_hex("000a 0000"))));
  Bytes long_authenticator(bytes.begin(), bytes.begin() + kWithoutAuthenticator);
  long_authenticator = concat(long_authenticator, from_hex("000a 0041"));
  long_authenticator.resize(long_authenticator.size() + 65);
  CHECK_FALSE(decode_init(long_authenticator));
  // Each TLV twice.
  for (std::size_t at = 0; at < kWithoutAuthenticator;) {
    const std::size_t size = at == 32 || at == 44 ? 12 : 8;
    CHECK_FALSE(decode_init(concat(std::span(bytes).subspan(at, size), bytes)));
    at += size;
  }
  // Each mandatory TLV, renamed away.
  for (const std::size_t at : {0, 16, 24, 32, 56, 64}) CHECK(bad(at, "7777"));
  // The others may be missing.
  for (const std::size_t at : {8, 44, 72, 80}) CHECK_FALSE(bad(at, "7777"));
}

TEST_CASE("what does not fit is not written") {
  std::array<std::byte, kMaxInitBody> out;
  const Bytes longest(kMaxAuthenticator, std::byte{1}), longer(kMaxAuthenticator + 1, std::byte{1});
  InitBody body;
  body.authenticator = longest;
  const std::size_t size = encode(body, out);
  CHECK(size == kWithoutAuthenticator + 4 + kMaxAuthenticator);
  CHECK(size <= kMaxInitBody);
  for (std::size_t n = 0; n < size; ++n) CHECK(encode(body, std::span(out).first(n)) == 0);
  body.authenticator = longer;
  CHECK(encode(body, out) == 0);
}

TEST_CASE("any body comes back") {
  REQUIRE(rc::check([](std::uint32_t features, std::uint32_t qpn, std::uint32_t psn, std::uint64_t incarnation,
                       std::uint64_t peer, std::uint32_t mtu, std::uint32_t window, std::uint32_t upper) {
    const auto raw =
        *rc::gen::container<std::vector<std::uint8_t>>(*rc::gen::inRange(0, 65), rc::gen::arbitrary<std::uint8_t>());
    const InitBody body{.features = features,
                        .qpn = qpn & kPsnMask,
                        .psn = psn & kPsnMask,
                        .incarnation = incarnation,
                        .peer_incarnation = peer,
                        .mtu = mtu,
                        .window = window,
                        .upper_version = upper,
                        .authenticator = std::as_bytes(std::span(raw))};
    std::array<std::byte, kMaxInitBody> out;
    const std::size_t n = encode(body, out);
    RC_ASSERT(n > 0u);
    const auto got = decode_init(std::span(out).first(n));
    RC_ASSERT(got.has_value());
    RC_ASSERT(equal(*got, body));
  }));
}
