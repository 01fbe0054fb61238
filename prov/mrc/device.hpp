// SPDX-License-Identifier: BSD-2-Clause
// Device memory (FI_HMEM): which addresses the processor must not touch, and how bytes get there and back. The
// registry knows the allocations behind registered regions; whoever copies asks it. While nothing is registered, which
// is always so without FI_HMEM, the question is one load.
// Threads: everything here needs the engine's lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>

#include "mrc/engine/gather.hpp"

namespace mrc::prov::device {

/// How one kind of device copies. Both block until the bytes are there; false = the device refused.
class Copier {
 public:
  virtual ~Copier() = default;
  virtual bool read(void* host, const void* at, std::size_t length, void* context) = 0;
  virtual bool write(void* at, const void* host, std::size_t length, void* context) = 0;
};

/// An allocation on a device. `context`: the copier's own.
struct Allocation {
  std::uintptr_t base = 0;
  std::size_t length = 0;
  Copier* copier = nullptr;
  void* context = nullptr;
};

/// Allocations are counted: as many removals as additions.
void add(const Allocation& allocation);
void remove(std::uintptr_t base);

extern std::size_t registered;  ///< allocations
inline bool any() {
  return registered != 0;
}
/// Of some device, or null for the host's own memory.
const Allocation* find(const void* address);
bool among(std::span<const engine::GatherPiece> pieces);

/// Copies between host memory and memory of either kind; false if the device refused.
bool copy_from(void* host, const void* at, std::size_t length);
bool copy_to(void* at, const void* host, std::size_t length);

using Staging = std::unique_ptr<std::byte[]>;
/// Host memory that stands in for `pieces`, if any of them is on a device; null if not, or if memory is short.
Staging stage(std::span<const engine::GatherPiece> pieces, std::size_t length);
/// All bytes of `pieces`, one after the other.
bool gather(std::byte* host, std::span<const engine::GatherPiece> pieces);

}  // namespace mrc::prov::device
