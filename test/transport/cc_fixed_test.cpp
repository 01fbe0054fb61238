// SPDX-License-Identifier: BSD-2-Clause
// The fixed window, through the interface that the transport uses.
#include "mrc/transport/cc.hpp"
#include "support/catch.hpp"

namespace mrc::transport {

TEST_CASE("fixed window") {
  CcLink link;
  link.limit = 64000;
  Cc cc(CcKind::kAuto, link);  // no rate declared
  REQUIRE(cc.kind() == CcKind::kFixed);
  REQUIRE(cc.can_send(0, 100000));  // a packet always goes out when nothing is in flight
  REQUIRE(cc.can_send(60000, 4000));
  REQUIRE(!cc.can_send(60001, 4000));
  SECTION("gives way to loss and grows back") {
    for (int i = 0; i < 1000; ++i) cc.on_loss(1000, {});
    REQUIRE(cc.window() == 4000);
    for (int i = 0; i < 1000; ++i) cc.on_ack(1000, Duration{-1}, false, {});
    REQUIRE(cc.window() == 64000);
  }
  SECTION("stays full at one loss in ten") {
    for (int i = 0; i < 10000; ++i) {
      if (i % 10 == 0) {
        cc.on_loss(1000, {});
      } else {
        cc.on_ack(1000, Duration{-1}, false, {});
      }
    }
    REQUIRE(cc.window() >= 62000);
  }
  SECTION("time-outs halve it down to a floor") {
    for (int i = 0; i < 20; ++i) cc.on_timeout({});
    REQUIRE(cc.window() == 4000);
  }
  SECTION("is counted in packets") {
    cc.on_timeout({});
    link.limit = 256000;
    cc.set_link(link);
    REQUIRE(cc.window() == 128000);
  }
}

}  // namespace mrc::transport
