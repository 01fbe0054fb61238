// SPDX-License-Identifier: BSD-2-Clause
// SHA-256 against FIPS 180-4's examples, HMAC against values computed with Python's hmac module.
#include "mrc/engine/hmac.hpp"

#include <string>

#include "support/catch.hpp"

using namespace mrc::engine;

namespace {

std::span<const std::byte> bytes(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

std::string hex(std::span<const std::byte> digest) {
  std::string out;
  for (const std::byte b : digest) {
    out += "0123456789abcdef"[static_cast<unsigned>(b) >> 4];
    out += "0123456789abcdef"[static_cast<unsigned>(b) & 15];
  }
  return out;
}

}  // namespace

TEST_CASE("SHA-256 of the standard's examples") {
  REQUIRE(hex(sha256(bytes(""))) == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  REQUIRE(hex(sha256(bytes("abc"))) == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  REQUIRE(hex(sha256(bytes("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"))) ==
          "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  REQUIRE(hex(sha256(bytes(std::string(1000000, 'a')))) ==
          "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST_CASE("HMAC-SHA-256 with a key of 32 bytes") {
  std::array<std::byte, 32> key{}, out{};
  for (std::size_t i = 0; i < key.size(); ++i) key[i] = static_cast<std::byte>(i);
  hmac_sha256(key, bytes("what do ya want for nothing?"), out);
  REQUIRE(hex(out) == "099805f4ac310786968565c098db515cc50862b420ae31e20238312344bed36a");
  hmac_sha256(key, bytes(std::string(200, 'x')), out);
  REQUIRE(hex(out) == "7b48ae507721b7feb27d8403d20568ca6d1e003dba73751f869cae6163653c59");
}
