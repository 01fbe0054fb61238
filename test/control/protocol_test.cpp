// SPDX-License-Identifier: BSD-2-Clause
// Control messages: round trips, and that decode() is total.
#include "mrc/control/protocol.hpp"

#include <rapidcheck.h>

#include "support/catch.hpp"

using namespace mrc::control;

namespace {
std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}
}  // namespace

TEST_CASE("a message comes back as it was sent") {
  Hello hello;
  hello.pid = 77;
  hello.ipv4 = 0x0a630001;
  hello.has_wish = 1;
  hello.wish_t0 = 3;
  set_text(hello.name, "rank 7");
  const std::string record = encode(Type::kHello, 42, hello);
  Message message;
  REQUIRE(decode(bytes_of(record), message) == DecodeError::kNone);
  CHECK(message.type == Type::kHello);
  CHECK(message.sequence == 42);
  const auto back = message.as<Hello>();
  CHECK(back.pid == 77);
  CHECK(back.ipv4 == 0x0a630001);
  CHECK(back.wish_t0 == 3);
  CHECK(text_of(back.name) == "rank 7");
}

TEST_CASE("texts come along, cut to the longest message") {
  const std::string record = encode(Type::kReport, 1, TextBody{0, 1}, std::string(100000, 'x'));
  CHECK(record.size() == kMaxMessage);
  Message message;
  REQUIRE(decode(bytes_of(record), message) == DecodeError::kNone);
  CHECK(message.as<TextBody>().more == 1);
  CHECK(message.text() == std::string(kMaxText, 'x'));
  const std::string empty = encode(Type::kDone, 1, TextBody{5, 0});
  REQUIRE(decode(bytes_of(empty), message) == DecodeError::kNone);
  CHECK(message.text().empty());
  CHECK(message.as<TextBody>().code == 5);
}

TEST_CASE("what is wrong with a message is said") {
  const std::string good = encode(Type::kRegister, 1, EndpointBody{1, 2, 0});
  Message message;
  const auto outcome = [&](std::size_t at, char value) {
    std::string bad = good;
    bad[at] = value;
    return decode(bytes_of(bad), message);
  };
  CHECK(outcome(0, 'x') == DecodeError::kNotOurs);
  CHECK(outcome(4, 9) == DecodeError::kVersion);
  CHECK(outcome(6, 0) == DecodeError::kType);
  CHECK(outcome(6, 100) == DecodeError::kType);
  CHECK(outcome(6, static_cast<char>(Type::kHello)) == DecodeError::kLength);
  CHECK(outcome(8, 23) == DecodeError::kLength);
  CHECK(decode(bytes_of(good).first(15), message) == DecodeError::kTooShort);
  CHECK(decode(bytes_of(good).first(23), message) == DecodeError::kLength);
  CHECK(decode({}, message) == DecodeError::kTooShort);
}

TEST_CASE("any bytes give an error or a message that is safe to read") {
  REQUIRE(rc::check("random bytes behind a header that is right to some degree", [] {
    auto text = *rc::gen::container<std::string>(rc::gen::arbitrary<char>());
    if (*rc::gen::inRange(0, 4) > 0) {
      Header header;
      header.type = *rc::gen::inRange<std::uint16_t>(0, 15);
      header.length = static_cast<std::uint32_t>(sizeof header + text.size());
      text.insert(0, reinterpret_cast<const char*>(&header), sizeof header);
    }
    Message message;
    if (decode(bytes_of(text), message) != DecodeError::kNone) return;
    RC_ASSERT(message.body.size() == text.size() - sizeof(Header));
    RC_ASSERT(message.text().size() <= message.body.size());
    (void)message.as<Welcome>();
    (void)text_of(message.as<Hello>().name);
  }));
}

TEST_CASE("texts in fixed fields end, and hold nothing that a terminal obeys") {
  std::array<char, 8> field{};
  set_text(field, "a longer name");
  CHECK(text_of(field) == "a longe");
  field = {'a', '\x1b', '\n', static_cast<char>(0xff), 'b', 'c', 'd', 'e'};
  CHECK(text_of(field) == "a???bcde");
}
