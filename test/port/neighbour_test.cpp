// SPDX-License-Identifier: BSD-2-Clause
// NS/NA byte for byte, and what the cache does with good, bad and too many of them.
#include "mrc/port/neighbour.hpp"

#include <rapidcheck.h>

#include <string>
#include <vector>

#include "support/catch.hpp"

using namespace mrc;
using namespace mrc::port;
using wire::Ipv6Address;

namespace {

constexpr MacAddress kMacA{0x02, 0, 0, 0, 0, 0x0a}, kMacB{0x02, 0, 0, 0, 0, 0x0b};
/// fd00:0:0:N::last
Ipv6Address address(std::uint8_t n, std::uint8_t last = 1) {
  return {{0xfd, 0, 0, 0, 0, 0, 0, n, 0, 0, 0, 0, 0, 0xaa, 0xbb, last}};
}
constexpr Tick at_ms(std::int64_t ms) {
  return Tick{0} + milliseconds(ms);
}

std::vector<std::byte> poll(NeighbourCache& cache, Tick now) {
  std::vector<std::byte> frame(128);
  frame.resize(cache.poll_tx(frame, now));
  return frame;
}

std::vector<std::byte> bytes(std::string_view hex) {
  std::vector<std::byte> out;
  std::string pair;
  for (const char c : hex) {
    if (c == ' ' || c == '\n') continue;
    pair += c;
    if (pair.size() < 2) continue;
    out.push_back(static_cast<std::byte>(std::stoi(pair, nullptr, 16)));
    pair.clear();
  }
  return out;
}

/// The ones' complement sum of pseudo-header and message, written a second way: 0xffff when the checksum is right.
unsigned checksum_sum(const std::vector<std::byte>& frame) {
  std::vector<unsigned> octets{0, static_cast<unsigned>(frame.size() - 54), 0, 58};
  for (std::size_t i = 22; i < frame.size(); ++i) octets.push_back(std::to_integer<unsigned>(frame[i]));
  unsigned long sum = 0;
  for (std::size_t i = 0; i < octets.size(); i += 2) sum += octets[i] * 256 + octets[i + 1];
  while (sum > 0xffff) sum = sum % 0x10000 + sum / 0x10000;
  return static_cast<unsigned>(sum);
}

}  // namespace

TEST_CASE("solicitation and advertisement, byte for byte", "[neighbour]") {
  NeighbourCache a(kMacA, 8), b(kMacB, 8);
  a.add_own(address(1));
  b.add_own(address(2));
  REQUIRE(a.lookup(address(2), at_ms(0)) == nullptr);
  const auto solicitation = poll(a, at_ms(0));
  const auto expected = bytes(
      "3333ffaabb01 02000000000a 86dd"
      "60000000 0020 3aff fd000000000000010000000000aabb01 ff0200000000000000000001ffaabb01"
      "8700 4a8d 00000000 fd000000000000020000000000aabb01 0101 02000000000a");
  REQUIRE(checksum_sum(solicitation) == 0xffff);
  REQUIRE(solicitation == expected);

  REQUIRE(b.on_frame(solicitation, at_ms(1)));
  REQUIRE(b.tx_pending(at_ms(1)));
  const auto advertisement = poll(b, at_ms(1));
  REQUIRE(checksum_sum(advertisement) == 0xffff);
  REQUIRE(advertisement == bytes("02000000000a 02000000000b 86dd"
                                 "60000000 0020 3aff fd000000000000020000000000aabb01 fd000000000000010000000000aabb01"
                                 "8800 e98d 60000000 fd000000000000020000000000aabb01 0201 02000000000b"));
  // B learnt A from the question; A learns B from the answer.
  REQUIRE(b.lookup(address(1), at_ms(1)) != nullptr);
  REQUIRE(*b.lookup(address(1), at_ms(1)) == kMacA);
  REQUIRE(a.on_frame(advertisement, at_ms(1)));
  REQUIRE(*a.lookup(address(2), at_ms(1)) == kMacB);
  REQUIRE(!a.tx_pending(at_ms(5000)));
}

TEST_CASE("solicitations need an own address and end with the interest", "[neighbour]") {
  NeighbourCache a(kMacA, 8);
  a.lookup(address(2), at_ms(0));
  REQUIRE(!a.tx_pending(at_ms(0)));  // nothing to be answered to
  REQUIRE(poll(a, at_ms(0)).empty());
  a.add_own(address(1));
  int late = 0;
  for (std::int64_t ms = 0; ms < 20'000; ++ms) {
    const bool pending = a.tx_pending(at_ms(ms));
    REQUIRE(poll(a, at_ms(ms)).empty() != pending);
    if (ms > 3'000) late += pending;
  }
  REQUIRE(late == 0);
  a.lookup(address(2), at_ms(30'000));
  REQUIRE(!poll(a, at_ms(30'000)).empty());
}

TEST_CASE("solicitations leave exactly when the back-off says", "[neighbour]") {
  NeighbourCache a(kMacA, 8);
  a.add_own(address(1));
  std::vector<std::int64_t> when;
  for (std::int64_t ms = 0; ms < 1'300; ++ms) {
    a.lookup(address(2), at_ms(ms));
    if (!poll(a, at_ms(ms)).empty()) when.push_back(ms);
  }
  REQUIRE(when == std::vector<std::int64_t>{0, 1, 3, 7, 15, 31, 63, 127, 255, 505, 755, 1005, 1255});
}

TEST_CASE("the cache holds its capacity, least recently used first out", "[neighbour]") {
  NeighbourCache a(kMacA, 4);
  a.add_own(address(1));
  for (std::uint8_t i = 2; i < 6; ++i) a.learn(address(i), {2, 0, 0, 0, 0, i}, at_ms(i));
  REQUIRE(a.lookup(address(2), at_ms(10)) != nullptr);  // used: 3 is now the oldest
  a.learn(address(9), kMacB, at_ms(11));
  REQUIRE(a.lookup(address(2), at_ms(12)) != nullptr);
  REQUIRE(a.lookup(address(9), at_ms(12)) != nullptr);
  REQUIRE(a.lookup(address(5), at_ms(12)) != nullptr);
  REQUIRE(a.lookup(address(3), at_ms(12)) == nullptr);
}

TEST_CASE("what must not be learnt is not", "[neighbour]") {
  NeighbourCache a(kMacA, 8);
  a.add_own(address(1));
  a.learn(address(1), kMacB, at_ms(0));  // our own address
  a.learn(address(2), {0x33, 0x33, 0, 0, 0, 1}, at_ms(0));
  a.learn(address(3), {}, at_ms(0));
  a.learn(Ipv6Address{{0xff, 2}}, kMacB, at_ms(0));
  for (std::uint8_t i = 1; i < 4; ++i) REQUIRE(a.lookup(address(i), at_ms(0)) == nullptr);
}

TEST_CASE("duplicate address detection is answered to all nodes; removed addresses are not answered", "[neighbour]") {
  NeighbourCache b(kMacB, 8);
  b.add_own(address(2));
  // A kernel probing for our address: unspecified source, no option.
  auto probe = bytes(
      "3333ffaabb01 02000000000a 86dd 60000000 0018 3aff 00000000000000000000000000000000"
      "ff0200000000000000000001ffaabb01 8700 0000 00000000 fd000000000000020000000000aabb01");
  const unsigned right = 0xffff - checksum_sum(probe);
  probe[56] = static_cast<std::byte>(right >> 8);
  probe[57] = static_cast<std::byte>(right);
  REQUIRE(b.on_frame(probe, at_ms(0)));
  const auto answer = poll(b, at_ms(0));
  REQUIRE(answer.size() == 86);
  REQUIRE(checksum_sum(answer) == 0xffff);
  REQUIRE(std::vector(answer.begin(), answer.begin() + 6) == bytes("333300000001"));
  REQUIRE(answer[58] == std::byte{0x20});  // override, not solicited
  b.remove_own(address(2));
  REQUIRE(b.on_frame(probe, at_ms(1)));
  REQUIRE(poll(b, at_ms(1)).empty());
}

TEST_CASE("an advertisement replaces with override only; unasked ones are ignored", "[neighbour]") {
  NeighbourCache a(kMacA, 8), b(kMacB, 8), c({2, 0, 0, 0, 0, 0x0c}, 8), stranger(kMacB, 8);
  a.add_own(address(1));
  b.add_own(address(2));
  c.add_own(address(2));
  a.lookup(address(2), at_ms(0));
  const auto question = poll(a, at_ms(0));
  b.on_frame(question, at_ms(0));
  c.on_frame(question, at_ms(0));
  const auto from_b = poll(b, at_ms(0));
  auto from_c = poll(c, at_ms(0));
  stranger.add_own(address(1));
  REQUIRE(stranger.on_frame(from_b, at_ms(0)));
  REQUIRE(stranger.lookup(address(2), at_ms(0)) == nullptr);

  a.on_frame(from_b, at_ms(0));
  auto weak = from_c;
  weak[58] &= std::byte{0xdf};  // no override; the checksum's high byte takes the difference
  const unsigned sum = std::to_integer<unsigned>(weak[56]) * 256 + std::to_integer<unsigned>(weak[57]) + 0x2000;
  const unsigned folded = sum % 0x10000 + sum / 0x10000;
  weak[56] = static_cast<std::byte>(folded >> 8);
  weak[57] = static_cast<std::byte>(folded);
  REQUIRE(checksum_sum(weak) == 0xffff);
  a.on_frame(weak, at_ms(1));
  REQUIRE(*a.lookup(address(2), at_ms(1)) == kMacB);
  a.on_frame(from_c, at_ms(2));
  REQUIRE((*a.lookup(address(2), at_ms(2)))[5] == 0x0c);
}

TEST_CASE("malformed frames are taken and have no effect", "[neighbour]") {
  NeighbourCache a(kMacA, 8), b(kMacB, 8);
  a.add_own(address(1));
  b.add_own(address(2));
  a.lookup(address(2), at_ms(0));
  const auto good = poll(a, at_ms(0));
  const auto refused = [&](std::vector<std::byte> frame) {
    NeighbourCache victim(kMacB, 8);
    victim.add_own(address(2));
    const bool taken = victim.on_frame(frame, at_ms(0));
    return taken && !victim.tx_pending(at_ms(0)) && victim.lookup(address(1), at_ms(0)) == nullptr;
  };
  auto frame = good;
  frame[21] = std::byte{254};  // hop limit: came through a router
  REQUIRE(refused(frame));
  frame = good;
  frame[57] ^= std::byte{1};  // checksum
  REQUIRE(refused(frame));
  frame = good;
  frame[79] = std::byte{0};  // option of length 0
  REQUIRE(refused(frame));
  frame = good;
  frame[79] = std::byte{9};  // option beyond the end
  REQUIRE(refused(frame));
  frame = good;
  frame.resize(70);  // cut off
  REQUIRE(refused(frame));
  // Not for us at all: data, ARP, short.
  frame = good;
  frame[20] = std::byte{17};
  REQUIRE(!b.on_frame(frame, at_ms(0)));
  frame = good;
  frame[13] = std::byte{6};
  REQUIRE(!b.on_frame(frame, at_ms(0)));
  REQUIRE(!b.on_frame(std::span(good).first(20), at_ms(0)));
  REQUIRE(!b.on_frame({}, at_ms(0)));

  REQUIRE(rc::check("random damage", [&] {
    auto damaged = good;
    damaged.resize(*rc::gen::inRange<std::size_t>(0, good.size() + 1));
    const auto hits = *rc::gen::inRange(0, 4);
    for (int i = 0; i < hits && !damaged.empty(); ++i)
      damaged[*rc::gen::inRange<std::size_t>(0, damaged.size())] = static_cast<std::byte>(*rc::gen::arbitrary<char>());
    NeighbourCache victim(kMacB, 2);
    victim.add_own(address(2));
    victim.on_frame(damaged, at_ms(0));
    std::vector<std::byte> out(86);
    victim.poll_tx(out, at_ms(0));
  }));
}

TEST_CASE("a flood of questions is bounded", "[neighbour]") {
  NeighbourCache a(kMacA, 8), b(kMacB, 8);
  a.add_own(address(1));
  b.add_own(address(2));
  a.lookup(address(2), at_ms(0));
  const auto question = poll(a, at_ms(0));
  for (int i = 0; i < 10'000; ++i) b.on_frame(question, at_ms(0));
  int answers = 0;
  while (!poll(b, at_ms(0)).empty()) ++answers;
  REQUIRE(answers == 64);
  std::vector<std::byte> small(85);
  b.on_frame(question, at_ms(0));
  REQUIRE(b.poll_tx(small, at_ms(0)) == 0);  // no room: nothing is lost
  REQUIRE(b.tx_pending(at_ms(0)));
}
