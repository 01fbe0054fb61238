// SPDX-License-Identifier: BSD-2-Clause
// uSID carriers against RFC 9800's NEXT-CSID behaviour.
#include "mrc/path/usid.hpp"

#include <rapidcheck.h>

#include <array>
#include <vector>

#include "support/catch.hpp"

using namespace mrc;

namespace {
// fcbb:bb00 | u1 | u2 | … as 16-bit groups, to write addresses the way the RFC prints them.
wire::Ipv6Address groups(std::array<std::uint16_t, 8> g) {
  wire::Ipv6Address a;
  for (std::size_t i = 0; i < 8; ++i) {
    a.bytes[2 * i] = static_cast<std::uint8_t>(g[i] >> 8);
    a.bytes[2 * i + 1] = static_cast<std::uint8_t>(g[i]);
  }
  return a;
}
}  // namespace

TEST_CASE("a NEXT-CSID carrier shifts left by one uSID and fills with zero") {
  // RFC 9800 section 4.1: DA.Argument moves up behind the locator block, the bits freed at the end are 0.
  auto a = groups({0xfcbb, 0xbb00, 0x0123, 0x0456, 0x0789, 0, 0, 0});
  REQUIRE(path::locator_of(a) == 0xfcbbbb00u);
  REQUIRE(path::active_usid(a) == 0x0123);
  a = path::shift(a);
  REQUIRE(a == groups({0xfcbb, 0xbb00, 0x0456, 0x0789, 0, 0, 0, 0}));
  a = path::shift(a);
  REQUIRE(a == groups({0xfcbb, 0xbb00, 0x0789, 0, 0, 0, 0, 0}));
  a = path::shift(a);
  REQUIRE(path::active_usid(a) == 0);
  REQUIRE(a == groups({0xfcbb, 0xbb00, 0, 0, 0, 0, 0, 0}));
}

TEST_CASE("a full carrier holds six uSIDs, a seventh is not taken") {
  const std::array<std::uint16_t, 7> usids{1, 2, 3, 4, 5, 6, 7};
  REQUIRE(path::make_carrier(path::kDefaultLocator, usids) == groups({0xfcbb, 0xbb00, 1, 2, 3, 4, 5, 6}));
  REQUIRE(path::make_carrier(0x20010db8, {}) == groups({0x2001, 0x0db8, 0, 0, 0, 0, 0, 0}));
}

TEST_CASE("shifting walks through the uSIDs in order") {
  REQUIRE(rc::check([](std::uint32_t locator, std::vector<std::uint16_t> usids) {
    if (usids.size() > path::kMaxUsids) usids.resize(path::kMaxUsids);
    auto carrier = path::make_carrier(locator, usids);
    for (const auto usid : usids) {
      RC_ASSERT(path::locator_of(carrier) == locator);
      RC_ASSERT(path::active_usid(carrier) == usid);
      carrier = path::shift(carrier);
    }
    RC_ASSERT(path::active_usid(carrier) == 0);
  }));
}

TEST_CASE("uSID layout round trip for any plane width") {
  REQUIRE(rc::check([] {
    path::UsidLayout layout;
    layout.plane_bits = *rc::gen::inRange<std::uint8_t>(1, 7);
    const auto plane = *rc::gen::inRange<unsigned>(0, 1u << layout.plane_bits);
    const auto index = *rc::gen::inRange<unsigned>(0, 1u << layout.index_bits());
    const auto kind = *rc::gen::element(path::UsidKind::kT0, path::UsidKind::kT1, path::UsidKind::kNic);
    const auto usid = layout.make(plane, kind, index);
    RC_ASSERT(usid != 0);  // 0 would end the carrier
    RC_ASSERT(layout.plane(usid) == plane);
    RC_ASSERT(layout.kind(usid) == kind);
    RC_ASSERT(layout.index(usid) == index);
  }));
}
