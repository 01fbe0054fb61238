// SPDX-License-Identifier: BSD-2-Clause
// The simulator's packets: fixed slots, found from their index without a look-up, bookkeeping and headers side by side.
// Without payload a slot holds the headers only, however long its packet claims to be: the memory that thousands of
// packets in flight touch stays small.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <vector>

#include "mrc/fabric/clos.hpp"

namespace mrc::fabric {

struct SimPacket {
  static constexpr std::uint32_t kNowhere = UINT32_MAX;

  std::byte* bytes = nullptr;     ///< L3; SimPackets::kHeadroom bytes lie before it
  std::uint32_t capacity = 0;     ///< bytes that may be read there
  std::uint32_t written = 0;      ///< bytes from the start that hold something: all, or the headers only
  std::uint32_t node = kNowhere;  ///< where it arrives with its next event
  std::uint8_t plane = 0;
  bool outer = false;
  InFlight flight{};  ///< length, position, and what happened to it

  /// As long as it claims to be; what lies behind `written` is undefined.
  std::span<std::byte> l3() const { return {bytes, flight.length}; }
  /// What may be changed.
  std::span<std::byte> held() const { return {bytes, std::min(written, flight.length)}; }
};

class SimPackets {
 public:
  /// Before the first IPv6 header: the iCRC's leading ones borrow wire::kIcrcPrefix bytes there.
  static constexpr std::size_t kHeadroom = 16;

  /// Slots hold `held` bytes of packets of up to `length`; longer packets get memory of their own.
  SimPackets(std::size_t held, std::size_t length)
      : stride_((sizeof(SimPacket) + kHeadroom + held + kLine - 1) / kLine * kLine), length_(length) {
    // No multiple of a page: headers of different packets would share cache sets.
    if (stride_ % 1024 == 0) stride_ += kLine;
  }

  SimPacket& operator[](std::uint32_t index) const { return *std::launder(reinterpret_cast<SimPacket*>(at(index))); }
  std::uint32_t take(std::size_t l3_bytes) {
    if (free_.empty()) grow();
    const std::uint32_t index = free_.back();
    free_.pop_back();
    SimPacket& packet = (*this)[index];
    if (packet.capacity < l3_bytes) {
      own_.push_back(std::make_unique<std::byte[]>(kHeadroom + l3_bytes));
      packet.bytes = own_.back().get() + kHeadroom;
      packet.capacity = static_cast<std::uint32_t>(l3_bytes);
    }
    return index;
  }
  std::uint32_t copy(std::uint32_t index) {
    const std::uint32_t made = take((*this)[index].flight.length);
    const SimPacket& original = (*this)[index];
    SimPacket& twin = (*this)[made];
    twin.written = static_cast<std::uint32_t>(original.held().size());
    twin.node = original.node;
    twin.plane = original.plane;
    twin.outer = original.outer;
    twin.flight = original.flight;
    std::memcpy(twin.bytes, original.bytes, twin.written);
    return made;
  }
  void drop(std::uint32_t index) { free_.push_back(index); }
  void prefetch(std::uint32_t index) const {
    for (std::size_t line = 0; line < 4; ++line) __builtin_prefetch(at(index) + line * kLine);
  }
  std::size_t in_use() const { return chunks_.size() * kChunk - free_.size(); }

 private:
  static constexpr std::size_t kLine = 64;
  static constexpr std::uint32_t kChunk = 256;  ///< slots
  struct Free {
    void operator()(std::byte* memory) const { ::operator delete[](memory, std::align_val_t{kLine}); }
  };

  std::byte* at(std::uint32_t index) const { return chunks_[index / kChunk].get() + index % kChunk * stride_; }
  void grow() {
    const auto first = static_cast<std::uint32_t>(chunks_.size() * kChunk);
    // Behind the last slot lies what its packet claims beyond it.
    chunks_.emplace_back(new (std::align_val_t{kLine}) std::byte[stride_ * kChunk + length_]());
    for (std::uint32_t i = 0; i < kChunk; ++i) {
      std::byte* slot = at(first + i);
      new (slot)
          SimPacket{.bytes = slot + sizeof(SimPacket) + kHeadroom, .capacity = static_cast<std::uint32_t>(length_)};
      free_.push_back(first + kChunk - 1 - i);
    }
  }

  std::size_t stride_, length_;
  std::vector<std::unique_ptr<std::byte[], Free>> chunks_;
  std::vector<std::unique_ptr<std::byte[]>> own_;
  std::vector<std::uint32_t> free_;
};

}  // namespace mrc::fabric
