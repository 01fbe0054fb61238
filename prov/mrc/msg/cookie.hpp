// SPDX-License-Identifier: BSD-2-Clause
// What a transport write's cookie says: which kind of object waits for its kWriteDone, and which one.
#pragma once

#include <cstdint>

namespace mrc::prov::msg {

enum class CookieKind : std::uint8_t {
  kMail = 1,    ///< Mail
  kData = 2,    ///< TxOp: bytes of a large send or write
  kTarget = 3,  ///< TargetOp: bytes that a peer reads from us
};

constexpr std::uint64_t cookie(CookieKind kind, std::uint32_t index) {
  return static_cast<std::uint64_t>(kind) << 56 | index;
}
constexpr CookieKind cookie_kind(std::uint64_t value) {
  return static_cast<CookieKind>(value >> 56);
}
constexpr std::uint32_t cookie_index(std::uint64_t value) {
  return static_cast<std::uint32_t>(value);
}

}  // namespace mrc::prov::msg
