// SPDX-License-Identifier: BSD-2-Clause
// Frames that the switch holds: a bounded store, queues before full rings, and the timer queue of delayed frames.
// All memory is taken at start (untouched pages cost nothing); every limit is a counted drop.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "mrc/arena.hpp"
#include "mrc/time.hpp"

namespace mrc::soft {

class FrameStore {
 public:
  static constexpr std::uint32_t kNone = UINT32_MAX;

  FrameStore(std::uint32_t count, std::uint32_t frame_bytes);
  ~FrameStore();
  FrameStore(const FrameStore&) = delete;
  FrameStore& operator=(const FrameStore&) = delete;

  /// A copy of `frame`, or kNone at the limit.
  std::uint32_t put(std::span<const std::byte> frame);
  std::span<std::byte> at(std::uint32_t index) { return {base_ + std::size_t{index} * bytes_, held_[index].length}; }
  void drop(std::uint32_t index);
  std::uint32_t& next(std::uint32_t index) { return held_[index].next; }
  std::uint32_t in_use() const { return in_use_; }

 private:
  struct Held {
    std::uint32_t next = kNone;
    std::uint32_t length = 0;
  };
  std::byte* base_ = nullptr;
  std::size_t mapped_ = 0;
  std::uint32_t bytes_;
  std::uint32_t free_ = kNone;
  std::uint32_t in_use_ = 0;
  std::vector<Held> held_;
};

/// First in, first out, through the store's links.
class FrameQueue {
 public:
  bool empty() const { return count_ == 0; }
  std::uint32_t size() const { return count_; }
  std::uint32_t front() const { return head_; }
  void push(FrameStore& store, std::uint32_t frame);
  std::uint32_t pop(FrameStore& store);
  void clear(FrameStore& store);

 private:
  std::uint32_t head_ = FrameStore::kNone, tail_ = FrameStore::kNone, count_ = 0;
};

/// Frames on their way for a while, earliest first; equal times keep their order.
class DelayQueue {
 public:
  struct Entry {
    Tick due{};
    std::uint64_t order = 0;
    std::uint32_t frame = FrameStore::kNone;
    std::uint32_t member = 0;
    std::uint32_t generation = 0;  ///< of the member's slot
    std::uint8_t plane = 0;
  };

  explicit DelayQueue(std::size_t limit) : limit_(limit) { heap_.reserve(limit); }
  bool push(Entry entry);
  /// True and the entry if one is due.
  bool pop(Tick now, Entry& out);
  Tick next() const { return heap_.empty() ? kNever : heap_.front().due; }
  std::size_t size() const { return heap_.size(); }

 private:
  static bool later(const Entry& a, const Entry& b) { return a.due != b.due ? a.due > b.due : a.order > b.order; }
  std::size_t limit_;
  std::uint64_t order_ = 0;
  std::vector<Entry> heap_;
};

}  // namespace mrc::soft
