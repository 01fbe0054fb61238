// SPDX-License-Identifier: BSD-2-Clause
// Packets between endpoints of this process (self included): a bounded ring in memory instead of a port. Filled by
// the send half of a pass, emptied by the receive half of the next one. One owner (the engine's lock).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "mrc/transport/core.hpp"
#include "mrc/wire/icrc.hpp"

namespace mrc::engine {

class LoopRing {
 public:
  static constexpr std::size_t kMtu = 9000;     ///< L3 bytes of one packet
  static constexpr std::size_t kCapacity = 64;  ///< packets

  /// The memory (about 600 KB) comes with the first endpoint that talks to its own process.
  void allocate();
  bool allocated() const { return memory_ != nullptr; }
  std::size_t room() const { return kCapacity - count_; }

  /// Takes one packet; false if it is full or the packet does not fit: then it is lost, as on a link.
  bool push(const transport::TxPacket& packet);
  /// The oldest packets, in order, at most out.size(); valid until pop().
  std::size_t peek(std::span<transport::RxPacket> out) const;
  void pop(std::size_t count);

 private:
  static constexpr std::size_t kSlot = wire::kIcrcPrefix + kMtu;
  std::byte* slot(std::size_t index) const { return memory_.get() + (index % kCapacity) * kSlot; }

  std::unique_ptr<std::byte[]> memory_;
  std::uint16_t lengths_[kCapacity] = {};
  std::uint8_t planes_[kCapacity] = {};
  std::size_t first_ = 0, count_ = 0;
};

}  // namespace mrc::engine
