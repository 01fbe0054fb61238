// SPDX-License-Identifier: BSD-2-Clause
// The in-memory ring between endpoints of one process.
#include "mrc/engine/loopback.hpp"

#include <algorithm>

#include "mrc/engine/frame.hpp"

namespace mrc::engine {

void LoopRing::allocate() {
  if (!memory_) memory_ = std::make_unique<std::byte[]>(kSlot * kCapacity);
}

bool LoopRing::push(const transport::TxPacket& packet) {
  if (!memory_ || count_ == kCapacity) return false;
  const std::size_t index = (first_ + count_) % kCapacity;
  // Nothing can corrupt it here: the iCRC field stays zero and nobody looks at it.
  const std::size_t length = write_l3(packet, nullptr, {slot(index) + wire::kIcrcPrefix, kMtu});
  if (length == 0) return false;
  lengths_[index] = static_cast<std::uint16_t>(length);
  planes_[index] = packet.plane;
  ++count_;
  return true;
}

std::size_t LoopRing::peek(std::span<transport::RxPacket> out) const {
  const std::size_t n = std::min(out.size(), count_);
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t index = (first_ + i) % kCapacity;
    out[i] = {.l3 = {slot(index) + wire::kIcrcPrefix, lengths_[index]}, .plane = planes_[index]};
  }
  return n;
}

void LoopRing::pop(std::size_t count) {
  count = std::min(count, count_);
  first_ = (first_ + count) % kCapacity;
  count_ -= count;
}

}  // namespace mrc::engine
