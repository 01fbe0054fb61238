// SPDX-License-Identifier: BSD-2-Clause
// copy_gather against std::string concatenation.
#include "mrc/engine/gather.hpp"

#include <rapidcheck.h>

#include <string>
#include <vector>

#include "support/catch.hpp"

using mrc::engine::copy_gather;
using mrc::engine::Gather;
using mrc::engine::GatherPiece;

namespace {

std::string copy(const std::vector<std::string>& parts, std::size_t offset, std::size_t length, std::size_t* got) {
  std::vector<GatherPiece> pieces;
  for (const std::string& part : parts) pieces.push_back({part.data(), part.size()});
  const Gather gather{pieces.data(), static_cast<std::uint32_t>(pieces.size())};
  std::string out(length, '\x7f');
  *got = copy_gather(reinterpret_cast<std::byte*>(out.data()), gather, offset, length);
  return out;
}

}  // namespace

TEST_CASE("a gather reads like the concatenation of its pieces") {
  REQUIRE(rc::check("any pieces, offset and length", [](const std::vector<std::string>& parts) {
    std::string whole;
    for (const std::string& part : parts) whole += part;
    const auto offset = *rc::gen::inRange<std::size_t>(0, whole.size() + 3);
    const auto length = *rc::gen::inRange<std::size_t>(0, whole.size() + 3);
    std::size_t got = 0;
    const std::string out = copy(parts, offset, length, &got);
    const std::string expected = offset < whole.size() ? whole.substr(offset, length) : "";
    RC_ASSERT(got == expected.size());
    RC_ASSERT(out.substr(0, got) == expected);
    RC_ASSERT(out.substr(got) == std::string(length - got, '\x7f'));
  }));
}

TEST_CASE("an empty gather gives nothing, and nothing can be asked of any gather") {
  std::size_t got = 7;
  REQUIRE(copy({}, 0, 0, &got).empty());
  REQUIRE(got == 0);
  REQUIRE(copy({""}, 0, 0, &got).empty());
  REQUIRE(got == 0);
}
