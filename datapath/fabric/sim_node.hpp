// SPDX-License-Identifier: BSD-2-Clause
// What the simulator keeps for each node (private to sim*.cpp).
#pragma once

#include <array>
#include <memory>
#include <new>
#include <optional>
#include <vector>

#include "mrc/fabric/sim.hpp"

namespace mrc::fabric {

inline constexpr std::uint32_t kFirstIpv4 = 0x0a000001;
inline constexpr std::uint32_t kEveryNode = UINT32_MAX;
inline constexpr std::size_t kBurst = 32;

struct Sim::Node {
  static constexpr std::size_t kPage = 4096;
  struct Free {
    void operator()(std::byte* memory) const { ::operator delete[](memory, std::align_val_t{kPage}); }
  };

  Node() { up.fill(true); }

  path::Location place{};
  NodeState state = NodeState::kRunning;
  SimNodeCounters counters{};
  std::unique_ptr<std::byte[], Free> memory;
  std::optional<transport::Core> core;
  std::array<Link, path::kMaxPlanes> direct{};
  std::array<bool, path::kMaxPlanes> up{};           ///< what the core was told
  std::array<const Link*, path::kMaxPlanes> port{};  ///< what it sends on, per plane
  std::vector<std::uint32_t> waiting;                ///< arrived while paused
  Tick wake = kNever;                                ///< the kWake that counts
};

}  // namespace mrc::fabric
