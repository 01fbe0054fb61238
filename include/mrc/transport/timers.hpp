// SPDX-License-Identifier: BSD-2-Clause
// Deadlines of connections: an indexed 4-ary heap over arena memory, one deadline an item, no allocation.
// Moving a deadline later may be put off by the caller (an early wake-up only costs a look).
#pragma once

#include <cassert>
#include <cstdint>
#include <span>

#include "mrc/arena.hpp"
#include "mrc/time.hpp"

namespace mrc::transport {

class DeadlineHeap {
 public:
  struct Entry {
    Tick when;
    std::uint32_t id;
  };
  static constexpr std::uint32_t kAbsent = UINT32_MAX;

  DeadlineHeap() = default;
  /// Room for the ids 0 … items-1.
  DeadlineHeap(Arena& arena, std::size_t items)
      : heap_(arena.make<Entry>(items)), position_(arena.make<std::uint32_t>(items, kAbsent)) {}
  static constexpr std::size_t bytes(std::size_t items) {
    return items * (sizeof(Entry) + sizeof(std::uint32_t)) + alignof(Entry) + alignof(std::uint32_t);
  }

  Tick next() const { return count_ == 0 ? kNever : heap_[0].when; }
  std::uint32_t top() const { return heap_[0].id; }
  bool empty() const { return count_ == 0; }
  std::uint32_t size() const { return count_; }
  Tick when(std::uint32_t id) const { return position_[id] == kAbsent ? kNever : heap_[position_[id]].when; }

  /// Sets, moves or (kNever) removes the deadline of `id`.
  void set(std::uint32_t id, Tick when) {
    std::uint32_t at = position_[id];
    if (when == kNever) {
      if (at != kAbsent) remove_at(at);
      return;
    }
    if (at == kAbsent) {
      at = count_++;
      assert(count_ <= heap_.size());
      heap_[at] = {when, id};
      position_[id] = at;
      up(at);
      return;
    }
    const Tick before = heap_[at].when;
    heap_[at].when = when;
    if (when < before) {
      up(at);
    } else if (before < when) {
      down(at);
    }
  }

 private:
  void put(std::uint32_t at, const Entry& entry) {
    heap_[at] = entry;
    position_[entry.id] = at;
  }
  void up(std::uint32_t at) {
    const Entry entry = heap_[at];
    while (at > 0) {
      const std::uint32_t parent = (at - 1) / 4;
      if (heap_[parent].when <= entry.when) break;
      put(at, heap_[parent]);
      at = parent;
    }
    put(at, entry);
  }
  void down(std::uint32_t at) {
    const Entry entry = heap_[at];
    for (;;) {
      const std::uint32_t first = at * 4 + 1;
      if (first >= count_) break;
      std::uint32_t least = first;
      for (std::uint32_t i = first + 1; i < first + 4 && i < count_; ++i) {
        if (heap_[i].when < heap_[least].when) least = i;
      }
      if (entry.when <= heap_[least].when) break;
      put(at, heap_[least]);
      at = least;
    }
    put(at, entry);
  }
  void remove_at(std::uint32_t at) {
    position_[heap_[at].id] = kAbsent;
    const Entry last = heap_[--count_];
    if (at == count_) return;
    put(at, last);
    up(at);
    down(position_[last.id]);
  }

  std::span<Entry> heap_;
  std::span<std::uint32_t> position_;
  std::uint32_t count_ = 0;
};

}  // namespace mrc::transport
