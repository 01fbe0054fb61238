// SPDX-License-Identifier: BSD-2-Clause
// How many different EVs this process's packets carried: one bit of 65 536 per hashed EV, so that the packet path pays
// one store and the memory does not grow. Collisions make the count a little low (under 1 % up to 1000 EVs).
#pragma once

#include <array>
#include <bit>
#include <cstdint>

namespace mrc::engine {

class EvUsage {
 public:
  void add(std::uint32_t ev) {
    const std::uint32_t hash = (ev * 0x9e3779b1u) >> 16;
    bits_[hash >> 6] |= std::uint64_t{1} << (hash & 63);
  }
  unsigned distinct() const {
    unsigned n = 0;
    for (const std::uint64_t word : bits_) n += static_cast<unsigned>(std::popcount(word));
    return n;
  }

 private:
  std::array<std::uint64_t, 1024> bits_{};
};

}  // namespace mrc::engine
