// SPDX-License-Identifier: BSD-2-Clause
// All the core's memory: one block that the driver hands over, cut up once, never given back.
// The core archive therefore has no undefined symbol for malloc or operator new (a test checks).
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <new>
#include <span>
#include <utility>

namespace mrc {

class Arena {
 public:
  Arena() = default;
  explicit Arena(std::span<std::byte> block) : next_(block.data()), end_(block.data() + block.size()) {}

  /// `count` value-initialised T's, or an empty span when the block is used up.
  template <class T, class... Args>
  std::span<T> make(std::size_t count, const Args&... args) {
    auto at = (reinterpret_cast<std::uintptr_t>(next_) + alignof(T) - 1) & ~(alignof(T) - 1);
    if (at + count * sizeof(T) > reinterpret_cast<std::uintptr_t>(end_)) return {};
    auto* first = reinterpret_cast<T*>(at);
    for (std::size_t i = 0; i < count; ++i) ::new (static_cast<void*>(first + i)) T(args...);
    next_ = reinterpret_cast<std::byte*>(first + count);
    return {first, count};
  }

  std::size_t left() const { return static_cast<std::size_t>(end_ - next_); }

 private:
  std::byte* next_ = nullptr;
  std::byte* end_ = nullptr;
};

/// Fixed pool of T over arena memory, handed out by index; O(1), bounded, no allocation.
template <class T>
class Pool {
 public:
  static constexpr std::uint32_t kNone = UINT32_MAX;

  Pool() = default;
  Pool(std::span<T> items, std::span<std::uint32_t> links) : items_(items), links_(links) {
    assert(items.size() == links.size());
    for (std::size_t i = links.size(); i > 0; --i) {
      links_[i - 1] = free_;
      free_ = static_cast<std::uint32_t>(i - 1);
    }
    available_ = static_cast<std::uint32_t>(items.size());
  }

  static Pool carve(Arena& arena, std::size_t count) {
    return Pool(arena.make<T>(count), arena.make<std::uint32_t>(count));
  }
  static constexpr std::size_t bytes(std::size_t count) {
    return count * (sizeof(T) + sizeof(std::uint32_t)) + alignof(T) + alignof(std::uint32_t);
  }

  /// Index of an item (contents as last left), or kNone at the limit.
  std::uint32_t take() {
    const std::uint32_t index = free_;
    if (index == kNone) return kNone;
    free_ = links_[index];
    --available_;
    return index;
  }
  void give(std::uint32_t index) {
    assert(index < items_.size());
    links_[index] = free_;
    free_ = index;
    ++available_;
  }

  T& operator[](std::uint32_t index) { return items_[index]; }
  const T& operator[](std::uint32_t index) const { return items_[index]; }
  std::uint32_t available() const { return available_; }
  std::uint32_t size() const { return static_cast<std::uint32_t>(items_.size()); }
  /// The next free item after `index` (kNone: the first); kNone at the end. For audits.
  std::uint32_t next_free(std::uint32_t index) const { return index == kNone ? free_ : links_[index]; }

 private:
  std::span<T> items_;
  std::span<std::uint32_t> links_;
  std::uint32_t free_ = kNone;
  std::uint32_t available_ = 0;
};

}  // namespace mrc
