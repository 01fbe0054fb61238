// SPDX-License-Identifier: BSD-2-Clause
// Link rates as people write them, in the configuration file and in FI_MRC_LINK_RATE.
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>

namespace mrc::engine {

inline constexpr const char* kRateRule = "bits per second from 1M to 10000G, such as 100G or 2500M";

/// Bits per second: a number with an optional k, M or G (decimal); nothing if it is not what kRateRule says.
inline std::optional<std::uint64_t> parse_rate(std::string_view text) {
  std::uint64_t unit = 1;
  if (!text.empty()) {
    switch (text.back()) {
      case 'k':
      case 'K':
        unit = 1'000;
        break;
      case 'm':
      case 'M':
        unit = 1'000'000;
        break;
      case 'g':
      case 'G':
        unit = 1'000'000'000;
        break;
      default:
        break;
    }
    if (unit != 1) text.remove_suffix(1);
  }
  constexpr std::uint64_t kLeast = 1'000'000, kMost = 10'000'000'000'000;
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value > kMost / unit) return std::nullopt;
  return value * unit < kLeast ? std::nullopt : std::optional(value * unit);
}

}  // namespace mrc::engine
