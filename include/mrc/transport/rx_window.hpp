// SPDX-License-Identifier: BSD-2-Clause
// Receive window: which PSNs arrived, as a ring bitmap indexed by the absolute sequence number. Nothing is shifted;
// passed bits are cleared. Sequence numbers are the PSN continued to 64 bits, so that wrap-around is dealt with once.
#pragma once

#include <bit>
#include <cassert>
#include <cstdint>
#include <span>

#include "mrc/planted.hpp"
#include "mrc/wire/bth.hpp"

namespace mrc::transport {

/// The sequence number nearest to `near` whose low 24 bits are `psn`.
constexpr std::uint64_t expand_psn(std::uint32_t psn, std::uint64_t near) {
  if (planted(Bug::kPsnWrap)) return (near & ~std::uint64_t{wire::kPsnMask}) | psn;
  return near + static_cast<std::uint64_t>(
                    static_cast<std::int64_t>(wire::psn_diff(psn, static_cast<std::uint32_t>(near) & wire::kPsnMask)));
}
/// First sequence number for a first PSN: one turn up, so that numbers just below it are not negative.
constexpr std::uint64_t first_sequence(std::uint32_t psn) {
  return (std::uint64_t{1} << 24) + (psn & wire::kPsnMask);
}

class RxWindow {
 public:
  enum class Arrival : std::uint8_t { kNew, kDuplicate, kOutside };

  RxWindow() = default;
  /// `words`: window / 64 of them, a power of two, at most 64.
  explicit RxWindow(std::span<std::uint64_t> words)
      : words_(words.data()), count_(static_cast<std::uint8_t>(words.size())) {
    assert(std::has_single_bit(words.size()) && words.size() <= 64);
  }

  void reset(std::uint32_t first_psn) {
    for (auto& word : std::span(words_, count_)) word = 0;
    next_ = high_ = first_sequence(first_psn);
    dirty_ = 0;
    top_dirty_ = false;
  }

  std::uint64_t size() const { return std::uint64_t{count_} * 64; }
  std::uint64_t next() const { return next_; }  ///< lowest number that has not arrived
  std::uint64_t high() const { return high_; }  ///< one above the highest that has
  std::uint64_t expand(std::uint32_t psn) const { return expand_psn(psn, next_); }

  Arrival classify(std::uint64_t seq) const {
    if (seq < next_) return Arrival::kDuplicate;  // however long ago: it is acknowledged again
    if (seq - next_ >= size()) return Arrival::kOutside;
    return (word(seq) >> (seq & 63)) & 1 ? Arrival::kDuplicate : Arrival::kNew;
  }

  /// Notes the arrival of a kNew number.
  void mark(std::uint64_t seq) {
    word(seq) |= bit(seq);
    if (seq >= high_) high_ = seq + 1;
    touch(seq);
    if (seq == next_) advance();
  }

  /// A 64-bit report starting at `base`: bit i = base + i arrived (as far as this window knows).
  std::uint64_t bits_from(std::uint64_t base) const {
    if (base >= high_) return 0;
    const unsigned shift = base & 63;
    std::uint64_t bits = word(base) >> shift;
    if (shift != 0) bits |= word(base + 63) << (64 - shift);
    const std::uint64_t known = high_ - base;
    return known >= 64 ? bits : bits & ((std::uint64_t{1} << known) - 1);
  }

  /// Marks the report that holds `seq` as due (new information, or it must be said again).
  void touch(std::uint64_t seq) { dirty_ |= std::uint64_t{1} << index(seq); }
  /// All there is to say must be said again (an answer to a probe).
  void touch_all() {
    if (high_ - next_ == 0) return;
    for (std::uint64_t s = next_ & ~std::uint64_t{63}; s < high_; s += 64) touch(s);
  }
  /// More than one report is due beyond what the cumulative number says.
  bool more_reports() const { return high_ > next_ && (dirty_ != 0 || top_dirty_); }

  /// Base of the next report that is due; next() if there is nothing beyond the cumulative number to say.
  std::uint64_t take_report() {
    if (high_ <= next_) {
      dirty_ = 0;
      top_dirty_ = false;
      return next_;
    }
    const std::uint64_t start = next_ & ~std::uint64_t{63};
    if (top_dirty_) {
      top_dirty_ = false;
      if (high_ > start + size()) return start + size();
    }
    // A hole must be told of again and again, however old the last news of its neighbours.
    if ((++reports_ & 3) == 0) return next_;
    if (dirty_ == 0) return rotate();
    const unsigned count = count_;
    const unsigned first = index(next_);
    std::uint64_t turned = dirty_;
    if (first != 0) turned = dirty_ >> first | dirty_ << (count - first);
    const unsigned k = static_cast<unsigned>(std::countr_zero(turned)) % count;
    dirty_ &= ~(std::uint64_t{1} << ((first + k) % count));
    // The word that holds next() also holds the top of the window, one turn further on.
    if (k == 0 && high_ > start + size()) top_dirty_ = true;
    const std::uint64_t base = start + 64u * k;
    if (base >= high_) return rotate();
    return base < next_ ? next_ : base;
  }

  /// Numbers above the cumulative one that have arrived.
  std::uint32_t out_of_order() const {
    std::uint32_t n = 0;
    for (const auto w : std::span(words_, count_)) n += static_cast<std::uint32_t>(std::popcount(w));
    return n;
  }

 private:
  unsigned index(std::uint64_t seq) const { return static_cast<unsigned>((seq >> 6) & (count_ - 1u)); }
  std::uint64_t& word(std::uint64_t seq) { return words_[index(seq)]; }
  const std::uint64_t& word(std::uint64_t seq) const { return words_[index(seq)]; }
  static constexpr std::uint64_t bit(std::uint64_t seq) { return std::uint64_t{1} << (seq & 63); }

  void advance() {
    for (;;) {
      std::uint64_t& w = word(next_);
      const unsigned shift = next_ & 63;
      unsigned run = static_cast<unsigned>(std::countr_one(w >> shift));
      if (run > 64 - shift) run = 64 - shift;
      if (run > high_ - next_) run = static_cast<unsigned>(high_ - next_);
      if (run == 0) return;
      const std::uint64_t ones = run == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << run) - 1;
      w &= ~(ones << shift);
      next_ += run;
      if ((next_ & 63) != 0) return;
    }
  }
  /// Nothing new to say: repeat what was said about another part of the window, in turn.
  std::uint64_t rotate() {
    if (high_ - next_ <= 64) return next_;
    turn_ += 64;
    if (turn_ < next_ || turn_ >= high_) turn_ = next_;
    return turn_;
  }

  std::uint64_t* words_ = nullptr;
  std::uint64_t next_ = 0;
  std::uint64_t high_ = 0;
  std::uint64_t dirty_ = 0;  ///< one bit a word: changed since it was last reported
  std::uint64_t turn_ = 0;
  bool top_dirty_ = false;
  std::uint8_t reports_ = 0;
  std::uint8_t count_ = 0;  ///< words
};

}  // namespace mrc::transport
