// SPDX-License-Identifier: BSD-2-Clause
// The simulator's event queue: a 4-ary heap of 16-byte events, ordered by time, then by when they were scheduled. Four
// children share one cache line.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <new>
#include <span>
#include <vector>

#include "mrc/time.hpp"

namespace mrc::fabric {

enum class SimEvent : std::uint8_t {
  kArrival,  ///< a packet at a node
  kHop,      ///< a packet at the end of a link; kinds up to here are of packets
  kWake,     ///< of a node
  kAction,
  kFlap,  ///< a NIC's carrier may have changed
};

struct Scheduled {
  std::int64_t when = 0;
  std::uint32_t sequence = 0;  ///< wraps: right for events of one time that were scheduled within 2^31 of each other
  std::uint32_t what = 0;      ///< index (29 bits) and kind

  SimEvent kind() const { return static_cast<SimEvent>(what & 7); }
  std::uint32_t index() const { return what >> 3; }
  bool before(const Scheduled& other) const {
    return when < other.when || (when == other.when && static_cast<std::int32_t>(sequence - other.sequence) < 0);
  }
};

class SimQueue {
 public:
  SimQueue() : heap_(kRoot) {}
  bool empty() const { return heap_.size() == kRoot; }
  const Scheduled& front() const { return heap_[kRoot]; }
  /// The next event and up to four of those that may come after it.
  std::span<const Scheduled> soon() const { return {heap_.data() + kRoot, std::min<std::size_t>(size(), 5)}; }
  std::size_t size() const { return heap_.size() - kRoot; }
  std::uint64_t pushed() const { return pushed_; }

  void push(Tick when, SimEvent kind, std::uint32_t index) {
    const Scheduled made{when.ns, static_cast<std::uint32_t>(pushed_++), index << 3 | static_cast<std::uint32_t>(kind)};
    std::size_t at = heap_.size();
    heap_.push_back(made);
    while (at != kRoot) {
      const std::size_t parent = at / 4 + 2;
      if (!made.before(heap_[parent])) break;
      heap_[at] = heap_[parent];
      at = parent;
    }
    heap_[at] = made;
  }

  Scheduled take() {
    const Scheduled first = heap_[kRoot];
    const Scheduled last = heap_.back();
    heap_.pop_back();
    const std::size_t size = heap_.size();
    if (size == kRoot) return first;
    std::size_t at = kRoot;
    for (;;) {
      const std::size_t child = at * 4 - 8;
      if (child >= size) break;
      std::size_t least = child;
      const std::size_t end = child + 4 < size ? child + 4 : size;
      for (std::size_t i = child + 1; i < end; ++i) least = heap_[i].before(heap_[least]) ? i : least;
      if (!heap_[least].before(last)) break;
      heap_[at] = heap_[least];
      at = least;
    }
    heap_[at] = last;
    return first;
  }

 private:
  // The root is element 3, so that the children of element i, 4 i - 8 and on, begin a line.
  static constexpr std::size_t kRoot = 3;

  template <class T>
  struct LineAllocator {
    using value_type = T;
    LineAllocator() = default;
    template <class U>
    explicit LineAllocator(const LineAllocator<U>&) {}
    T* allocate(std::size_t n) { return static_cast<T*>(::operator new (n * sizeof(T), std::align_val_t{64})); }
    void deallocate(T* memory, std::size_t) { ::operator delete (memory, std::align_val_t{64}); }
    bool operator==(const LineAllocator&) const { return true; }
  };

  std::vector<Scheduled, LineAllocator<Scheduled>> heap_;
  std::uint64_t pushed_ = 0;
};

}  // namespace mrc::fabric
