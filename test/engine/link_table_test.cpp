// SPDX-License-Identifier: BSD-2-Clause
// Links keep their number while the core connection behind them changes.
#include "mrc/engine/link_table.hpp"

#include "support/catch.hpp"

using namespace mrc::engine;
using mrc::transport::kNoId;

TEST_CASE("a name has one link per endpoint, up to the limit") {
  LinkTable table(3);
  const auto a = table.open(0, {1, 10}), b = table.open(0, {1, 11}), c = table.open(1, {1, 10});
  REQUIRE(a != b);
  REQUIRE(a != c);
  REQUIRE(table.open(0, {1, 10}) == a);
  REQUIRE(table.open(2, {1, 10}) == kNoId);
  REQUIRE(table.open(0, {1, 11}) == b);
  table.bind(a, 7);
  REQUIRE(table.of(7) == a);
  REQUIRE(table.of(6) == kNoId);
  REQUIRE(table.of(kNoId) == kNoId);
  table.bind(a, 2);  // the peer came back elsewhere
  REQUIRE(table.of(2) == a);
  REQUIRE(table.of(7) == a);
  table.drop(0);
  REQUIRE(table.at(a) == nullptr);
  REQUIRE(table.of(2) == kNoId);
  REQUIRE(table.of(7) == kNoId);
  REQUIRE(table.at(c) != nullptr);
  REQUIRE(table.open(2, {1, 10}) != kNoId);
}
