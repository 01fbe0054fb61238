// SPDX-License-Identifier: BSD-2-Clause
// The ring between endpoints of one process: order, bounds, contents.
#include "mrc/engine/loopback.hpp"

#include <cstring>

#include "mrc/engine/gather.hpp"
#include "support/catch.hpp"

using namespace mrc;
using namespace mrc::engine;

namespace {

transport::TxPacket numbered(std::uint32_t number, const Gather& gather) {
  transport::TxPacket p;
  p.header_length = 40;
  p.header.fill({});
  p.header[5] = std::byte{12};  // 8 bytes of payload and the iCRC
  std::memcpy(p.header.data() + 8, &number, sizeof(number));
  p.source = &gather;
  p.length = 8;
  p.plane = static_cast<std::uint8_t>(number % 4);
  return p;
}

}  // namespace

TEST_CASE("packets leave the ring in order, and a full one refuses") {
  const GatherPiece piece{"payload!", 8};
  const Gather gather{&piece, 1};
  LoopRing ring;
  REQUIRE_FALSE(ring.push(numbered(0, gather)));  // nobody needs it yet
  ring.allocate();
  std::uint32_t in = 0, out = 0;
  for (int round = 0; round < 7; ++round) {
    while (ring.room() > 0) REQUIRE(ring.push(numbered(in++, gather)));
    REQUIRE_FALSE(ring.push(numbered(in, gather)));
    transport::RxPacket packets[10];
    for (int i = 0; i < 5; ++i) {
      const std::size_t n = ring.peek(packets);
      REQUIRE(n > 0);
      for (std::size_t k = 0; k < n; ++k, ++out) {
        REQUIRE(packets[k].l3.size() == 52);
        std::uint32_t number = 0;
        std::memcpy(&number, packets[k].l3.data() + 8, sizeof(number));
        REQUIRE(number == out);
        REQUIRE(packets[k].plane == out % 4);
        REQUIRE(std::memcmp(packets[k].l3.data() + 40, "payload!\0\0\0\0", 12) == 0);
      }
      ring.pop(n);
    }
  }
}
