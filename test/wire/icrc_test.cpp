// SPDX-License-Identifier: BSD-2-Clause
// iCRC: which bytes count, that masking leaves no trace, and one value computed elsewhere.
#include "mrc/wire/icrc.hpp"

#include <algorithm>
#include <boost/crc.hpp>

#include "golden.hpp"
#include "support/catch.hpp"

using namespace mrc::wire;
using namespace mrc::wire::test;

namespace {

std::uint32_t crc32(std::span<const std::byte> bytes) {
  boost::crc_32_type crc;
  crc.process_bytes(bytes.data(), bytes.size());
  return crc.checksum();
}

/// Prefix + inner packet without its iCRC.
Bytes frame(const Golden& g) {
  const std::size_t inner = g.packet.has_outer ? 40 : 0;
  const auto packet = std::span(g.bytes).subspan(inner).first(g.bytes.size() - inner - kIcrcSize);
  Bytes out(kIcrcPrefix + packet.size(), std::byte{0x55});
  std::copy(packet.begin(), packet.end(), out.begin() + kIcrcPrefix);
  return out;
}

const Golden& first() {
  static const auto all = golden_packets();
  return all.front();
}

}  // namespace

TEST_CASE("masked while the CRC runs, whole again afterwards") {
  for (const auto& g : golden_packets()) {
    Bytes bytes = frame(g);
    const Bytes before = bytes;
    {
      const IcrcMask mask(bytes);
      CHECK(mask.bytes().size() == bytes.size());
      Bytes want = before;
      for (const std::size_t at : {0, 1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 15, 54, 55, 60}) want[at] = std::byte{0xff};
      want[8] = std::byte{0x6f};
      CHECK(to_hex(mask.bytes()) == to_hex(want));
    }
    CHECK(bytes == before);
  }
}

TEST_CASE("each bit counts unless a hop may change it") {
  const Bytes bytes = frame(first());
  Bytes copy = bytes;
  const auto good = icrc(copy, crc32);
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    for (unsigned b = 0; b < 8; ++b) {
      Bytes changed = bytes;
      changed[at] ^= static_cast<std::byte>(1u << b);
      const bool may_change = at < 12 || at == 15 || at == 54 || at == 55 || at == 60;
      INFO("byte " << at << " bit " << b);
      CHECK((icrc(changed, crc32) == good) == may_change);
    }
  }
}

TEST_CASE("the outer header and what precedes it do not count") {
  const auto all = golden_packets();
  for (std::size_t i = 0; i + 2 < all.size(); i += 4) {
    Bytes plain = frame(all[i]), tunnelled = frame(all[i + 2]);
    CHECK(icrc(plain, crc32) == icrc(tunnelled, crc32));
  }
}

TEST_CASE("a value computed by zlib in Python, least significant byte first") {
  Bytes bytes = frame(first());
  CHECK(to_hex(icrc(bytes, crc32)) == "c5a12c90");
}

TEST_CASE("too short to be a packet: nothing is touched") {
  Bytes bytes(kIcrcPrefix + 59, std::byte{0x11});
  const Bytes before = bytes;
  const IcrcMask mask(bytes);
  CHECK(mask.bytes().empty());
  CHECK(bytes == before);
}
