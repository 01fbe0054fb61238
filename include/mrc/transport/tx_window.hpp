// SPDX-License-Identifier: BSD-2-Clause
// Send window: one record for each packet in flight, in segments of 64 taken from a pool that all connections share,
// so that an idle connection holds none. Sequence numbers are PSNs continued to 64 bits (rx_window.hpp).
#pragma once

#include <array>
#include <bit>
#include <cassert>
#include <cstdint>
#include <span>

#include "mrc/arena.hpp"
#include "mrc/time.hpp"
#include "mrc/transport/rx_window.hpp"

namespace mrc::transport {

/// What must be known about a packet until it is SACKed. Linked in order of transmission within its plane.
struct TxRecord {
  enum Flag : std::uint8_t {
    kLinked = 1,  ///< in its plane's list: sent, and not yet known to be lost
    kRetransmitted = 2,
    kNoBlame = 4,  ///< sent into silence: its loss says nothing about its EV
    kTail = 8,     ///< sent again on a timer, without anything SACKed after it
  };
  Tick sent{};
  std::uint32_t next = UINT32_MAX, previous = UINT32_MAX;  ///< record numbers
  std::uint32_t message = UINT32_MAX;
  std::uint32_t packet = 0;  ///< index in the message
  std::uint32_t order = 0;   ///< count of packets of this connection on its plane
  std::uint16_t ev = 0;      ///< index in the connection's EV set
  std::uint8_t plane = 0;
  std::uint8_t flags = 0;
};
static_assert(sizeof(TxRecord) == 32);

struct TxSegment {
  std::uint64_t acked = 0;
  std::uint64_t lost = 0;  ///< to be retransmitted
  Tick reported{};         ///< latest evidence that came with a SACK reporting on all of this segment: when the
                           ///< latest packet was sent that had arrived by then
  std::uint64_t base = 0;  ///< sequence number of records[0]
  std::array<TxRecord, 64> records{};
};
using SegmentPool = Pool<TxSegment>;
/// Index of a segment in the pool, which has fewer than 2^16.
using TxSlot = std::uint16_t;

class TxWindow {
 public:
  static constexpr TxSlot kNone = UINT16_MAX;

  TxWindow() = default;
  /// `slots`: twice as many as the window has segments, a power of two.
  explicit TxWindow(std::span<TxSlot> slots)
      : slots_(slots.data()), mask_(static_cast<std::uint32_t>(slots.size() - 1)) {
    assert(std::has_single_bit(slots.size()));
    for (auto& s : slots) s = kNone;
  }
  static constexpr std::size_t slots_for(std::uint32_t window) { return window / 32; }

  void reset(SegmentPool& pool, std::uint32_t first_psn) {
    for (TxSlot& s : std::span(slots_, count())) {
      if (s != kNone) pool.give(s);
      s = kNone;
    }
    una_ = next_ = lost_hint_ = first_sequence(first_psn);
    lost_ = 0;
  }

  std::uint64_t una() const { return una_; }
  std::uint64_t next() const { return next_; }
  std::uint64_t span() const { return next_ - una_; }  ///< window used, SACKed ones above una included
  std::uint32_t lost() const { return lost_; }
  std::span<const TxSlot> slots() const { return {slots_, count()}; }  ///< segments held, kNone where there is none

  /// Makes sure that next() has a record; false when the shared pool is used up.
  bool prepare(SegmentPool& pool) {
    TxSlot& s = slot(next_);
    if (s != kNone) return true;
    const std::uint32_t taken = pool.take();
    if (taken == SegmentPool::kNone) return false;
    s = static_cast<TxSlot>(taken);
    TxSegment& segment = pool[s];
    segment.acked = segment.lost = 0;
    segment.reported = Tick{};
    segment.base = next_ & ~std::uint64_t{63};
    return true;
  }
  /// prepare() was for nothing: an unused segment goes back.
  void unprepare(SegmentPool& pool) {
    if (una_ != next_ && (next_ & 63) != 0) return;
    TxSlot& s = slot(next_);
    if (s == kNone) return;
    pool.give(s);
    s = kNone;
  }
  /// Takes the next sequence number; prepare() was true.
  std::uint64_t push() { return next_++; }

  std::uint32_t number(std::uint64_t seq) const {
    return slots_[index(seq)] * 64u + static_cast<std::uint32_t>(seq & 63);
  }
  static TxRecord& at(SegmentPool& pool, std::uint32_t number) { return pool[number / 64].records[number % 64]; }
  static std::uint64_t sequence(const SegmentPool& pool, std::uint32_t number) {
    return pool[number / 64].base + number % 64;
  }
  TxRecord& record(SegmentPool& pool, std::uint64_t seq) const { return pool[slots_[index(seq)]].records[seq & 63]; }

  bool contains(std::uint64_t seq) const { return seq >= una_ && seq < next_; }
  bool acked(const SegmentPool& pool, std::uint64_t seq) const {
    return (pool[slots_[index(seq)]].acked >> (seq & 63)) & 1;
  }
  bool is_lost(const SegmentPool& pool, std::uint64_t seq) const {
    return (pool[slots_[index(seq)]].lost >> (seq & 63)) & 1;
  }

  void mark_lost(SegmentPool& pool, std::uint64_t seq) {
    std::uint64_t& lost = pool[slots_[index(seq)]].lost;
    const std::uint64_t bit = std::uint64_t{1} << (seq & 63);
    if (lost & bit) return;
    lost |= bit;
    ++lost_;
    if (seq < lost_hint_ || lost_ == 1) lost_hint_ = seq;
  }
  /// The oldest number to be retransmitted; lost() > 0.
  std::uint64_t oldest_lost(const SegmentPool& pool) const {
    if (lost_hint_ < una_) lost_hint_ = una_;
    for (;;) {
      const std::uint64_t bits = pool[slots_[index(lost_hint_)]].lost >> (lost_hint_ & 63);
      if (bits != 0) return lost_hint_ += static_cast<unsigned>(std::countr_zero(bits));
      lost_hint_ = (lost_hint_ & ~std::uint64_t{63}) + 64;
      assert(lost_hint_ < next_);
    }
  }
  void clear_lost(SegmentPool& pool, std::uint64_t seq) {
    std::uint64_t& lost = pool[slots_[index(seq)]].lost;
    const std::uint64_t bit = std::uint64_t{1} << (seq & 63);
    if (!(lost & bit)) return;
    lost &= ~bit;
    --lost_;
  }

  /// SACKs [base, base+64) ∩ `bits` ∩ window: calls fn(seq, record) once for each number newly SACKed (ascending).
  template <class Fn>
  void acknowledge(SegmentPool& pool, std::uint64_t base, std::uint64_t bits, Fn&& fn) {
    if (base < una_) {
      const std::uint64_t below = una_ - base;
      if (below >= 64) return;
      bits = bits >> below;
      base = una_;
    }
    if (base >= next_ || bits == 0) return;
    const std::uint64_t room = next_ - base;
    if (room < 64) bits &= (std::uint64_t{1} << room) - 1;
    const unsigned shift = base & 63;
    acknowledge_word(pool, base & ~std::uint64_t{63}, bits << shift, fn);
    if (shift != 0 && bits >> (64 - shift) != 0) {
      acknowledge_word(pool, (base & ~std::uint64_t{63}) + 64, bits >> (64 - shift), fn);
    }
  }
  /// A SACK told all there is to tell about [base, base+64), when what was sent at `evidence` had arrived.
  void note_report(SegmentPool& pool, std::uint64_t base, Tick evidence) {
    if (una_ == next_) return;
    for (std::uint64_t start = base & ~std::uint64_t{63}; start < base + 64 && start < next_; start += 64) {
      if (start + 64 <= una_) continue;
      const std::uint64_t from = start > una_ ? start : una_;
      const std::uint64_t to = start + 64 < next_ ? start + 64 : next_;
      if (from < base || to > base + 64) continue;
      Tick& reported = pool[slots_[index(start)]].reported;
      if (reported < evidence) reported = evidence;
    }
  }
  /// SACKs everything below `end` (which may lie beyond the window).
  template <class Fn>
  void acknowledge_below(SegmentPool& pool, std::uint64_t end, Fn&& fn) {
    if (end > next_) end = next_;
    for (std::uint64_t seq = una_; seq < end;) {
      const std::uint64_t stop = (seq & ~std::uint64_t{63}) + 64;
      const std::uint64_t n = (stop < end ? stop : end) - seq;
      const std::uint64_t ones = n == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << n) - 1;
      acknowledge_word(pool, seq & ~std::uint64_t{63}, ones << (seq & 63), fn);
      seq += n;
    }
  }

  /// Moves una over what is SACKed and gives segments back; true if any segment was given back.
  bool advance(SegmentPool& pool) {
    bool released = false;
    while (una_ < next_) {
      const TxSlot s = slot(una_);
      const unsigned shift = una_ & 63;
      std::uint64_t run = static_cast<unsigned>(std::countr_one(pool[s].acked >> shift));
      if (run > 64 - shift) run = 64 - shift;
      if (run > next_ - una_) run = next_ - una_;
      if (run == 0) return released;
      una_ += run;
      if (((una_ + (planted(Bug::kSegmentGivenEarly) ? 1 : 0)) & 63) == 0 || una_ == next_) {
        slot(una_ - 1) = kNone;
        if (!planted(Bug::kSegmentLeaked) || una_ != next_) pool.give(s);
        released = true;
      }
    }
    return released;
  }

 private:
  std::size_t index(std::uint64_t seq) const { return (seq >> 6) & mask_; }
  std::size_t count() const { return slots_ == nullptr ? 0 : std::size_t{mask_} + 1; }
  TxSlot& slot(std::uint64_t seq) { return slots_[index(seq)]; }

  template <class Fn>
  void acknowledge_word(SegmentPool& pool, std::uint64_t start, std::uint64_t bits, Fn&& fn) {
    TxSegment& segment = pool[slot(start)];
    std::uint64_t fresh = bits & ~segment.acked;
    segment.acked |= fresh;
    const std::uint64_t was_lost = fresh & segment.lost;
    segment.lost &= ~was_lost;
    lost_ -= static_cast<std::uint32_t>(std::popcount(was_lost));
    for (; fresh != 0; fresh &= fresh - 1) {
      const auto i = static_cast<unsigned>(std::countr_zero(fresh));
      fn(start + i, segment.records[i]);
    }
  }

  TxSlot* slots_ = nullptr;
  std::uint64_t una_ = 0;
  std::uint64_t next_ = 0;
  mutable std::uint64_t lost_hint_ = 0;  ///< none lower is lost
  std::uint32_t lost_ = 0;
  std::uint32_t mask_ = 0;  ///< slots - 1
};

}  // namespace mrc::transport
