// SPDX-License-Identifier: BSD-2-Clause
// The simulator's event queue: a 4-ary heap of small structs, ordered by time, then by when they were scheduled.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "mrc/time.hpp"

namespace mrc::fabric {

enum class SimEvent : std::uint8_t {
  kArrival,  ///< a packet at a node
  kHop,      ///< a packet at the end of a link
  kWake,
  kAction,
  kFlap,  ///< a NIC's carrier may have changed
};

struct Scheduled {
  std::int64_t when = 0;
  std::uint64_t order = 0;  ///< sequence number and kind
  std::uint32_t node = 0;
  std::uint32_t index = 0;  ///< of the packet or action

  SimEvent kind() const { return static_cast<SimEvent>(order & 7); }
  bool before(const Scheduled& other) const { return when < other.when || (when == other.when && order < other.order); }
};

class SimQueue {
 public:
  bool empty() const { return heap_.empty(); }
  const Scheduled& front() const { return heap_.front(); }
  std::size_t size() const { return heap_.size(); }
  std::uint64_t sequence() const { return sequence_; }  ///< pushed so far

  void push(Tick when, SimEvent kind, std::uint32_t node, std::uint32_t index) {
    const Scheduled made{when.ns, sequence_++ << 3 | static_cast<std::uint64_t>(kind), node, index};
    std::size_t at = heap_.size();
    heap_.push_back(made);
    while (at != 0) {
      const std::size_t parent = (at - 1) / 4;
      if (!made.before(heap_[parent])) break;
      heap_[at] = heap_[parent];
      at = parent;
    }
    heap_[at] = made;
  }

  Scheduled take() {
    const Scheduled first = heap_.front();
    const Scheduled last = heap_.back();
    heap_.pop_back();
    const std::size_t size = heap_.size();
    if (size == 0) return first;
    std::size_t at = 0;
    for (;;) {
      const std::size_t child = at * 4 + 1;
      if (child >= size) break;
      const std::size_t end = child + 4 < size ? child + 4 : size;
      std::size_t least = child;
      for (std::size_t i = child + 1; i < end; ++i) {
        if (heap_[i].before(heap_[least])) least = i;
      }
      if (!heap_[least].before(last)) break;
      heap_[at] = heap_[least];
      at = least;
    }
    heap_[at] = last;
    return first;
  }

 private:
  std::vector<Scheduled> heap_;
  std::uint64_t sequence_ = 0;
};

}  // namespace mrc::fabric
