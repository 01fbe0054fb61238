// SPDX-License-Identifier: BSD-2-Clause
// Time as the transport core sees it: an argument, never a clock.
// Unit: nanoseconds in 64 bits (292 years). Plain types, so that core headers need no <chrono>.
#pragma once

#include <compare>
#include <cstdint>

namespace mrc {

/// A length of time in nanoseconds; may be negative.
struct Duration {
  std::int64_t ns = 0;
  constexpr auto operator<=>(const Duration&) const = default;
};

/// A point in time in nanoseconds since an origin that the driver chose (monotonic).
struct Tick {
  std::int64_t ns = 0;
  constexpr auto operator<=>(const Tick&) const = default;
};

/// "No deadline."
inline constexpr Tick kNever{INT64_MAX};
/// Before anything that a clock shows, also one that starts at 0; differences to it do not overflow.
inline constexpr Tick kLongAgo{INT64_MIN / 4};

constexpr Tick operator+(Tick t, Duration d) {
  return {t.ns + d.ns};
}
constexpr Tick operator-(Tick t, Duration d) {
  return {t.ns - d.ns};
}
constexpr Duration operator-(Tick a, Tick b) {
  return {a.ns - b.ns};
}
constexpr Duration operator+(Duration a, Duration b) {
  return {a.ns + b.ns};
}
constexpr Duration operator-(Duration a, Duration b) {
  return {a.ns - b.ns};
}
constexpr Duration operator*(Duration a, std::int64_t n) {
  return {a.ns * n};
}
constexpr Duration operator/(Duration a, std::int64_t n) {
  return {a.ns / n};
}

constexpr Duration nanoseconds(std::int64_t n) {
  return {n};
}
constexpr Duration microseconds(std::int64_t n) {
  return {n * 1000};
}
constexpr Duration milliseconds(std::int64_t n) {
  return {n * 1000000};
}
constexpr Duration seconds(std::int64_t n) {
  return {n * 1000000000};
}

}  // namespace mrc
