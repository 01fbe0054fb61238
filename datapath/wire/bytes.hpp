// SPDX-License-Identifier: BSD-2-Clause
// Unaligned big-endian loads and stores. memcpy and a byte swap: compilers make one instruction (movbe or mov + bswap)
// of it.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace mrc::wire {

constexpr std::uint16_t swap_to_be(std::uint16_t v) {
  return std::endian::native == std::endian::little ? __builtin_bswap16(v) : v;
}
constexpr std::uint32_t swap_to_be(std::uint32_t v) {
  return std::endian::native == std::endian::little ? __builtin_bswap32(v) : v;
}
constexpr std::uint64_t swap_to_be(std::uint64_t v) {
  return std::endian::native == std::endian::little ? __builtin_bswap64(v) : v;
}

template <class T>
inline T load_be(const std::byte* p) {
  T v;
  std::memcpy(&v, p, sizeof v);
  return swap_to_be(v);
}

template <class T>
inline void store_be(std::byte* p, T v) {
  v = swap_to_be(v);
  std::memcpy(p, &v, sizeof v);
}

inline std::uint8_t load8(const std::byte* p) {
  return std::to_integer<std::uint8_t>(*p);
}
inline std::uint16_t load16(const std::byte* p) {
  return load_be<std::uint16_t>(p);
}
inline std::uint32_t load24(const std::byte* p) {
  return std::uint32_t{load8(p)} << 16 | std::uint32_t{load8(p + 1)} << 8 | load8(p + 2);
}
inline std::uint32_t load32(const std::byte* p) {
  return load_be<std::uint32_t>(p);
}
inline std::uint64_t load64(const std::byte* p) {
  return load_be<std::uint64_t>(p);
}

inline void store8(std::byte* p, unsigned v) {
  *p = static_cast<std::byte>(v);
}
inline void store16(std::byte* p, std::uint16_t v) {
  store_be(p, v);
}
inline void store24(std::byte* p, std::uint32_t v) {
  store8(p, v >> 16 & 0xff);
  store8(p + 1, v >> 8 & 0xff);
  store8(p + 2, v & 0xff);
}
inline void store32(std::byte* p, std::uint32_t v) {
  store_be(p, v);
}
inline void store64(std::byte* p, std::uint64_t v) {
  store_be(p, v);
}

}  // namespace mrc::wire
