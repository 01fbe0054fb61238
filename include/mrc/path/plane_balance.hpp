// SPDX-License-Identifier: BSD-2-Clause
// How much of a connection each plane may carry, judged by what the planes deliver, one against the other: planes of
// one transfer see the same demand, so that a plane which delivers less than the best one is slower, not less asked
// for.
//
// - A plane's bytes in flight stay under cap = w (1 + w/4) / sum of w × window, and two packets at least. While all are
//   healthy every w is 1 and no cap is reached: the walk over planes stays exactly equal. A slower plane clocks itself:
//   at first by the cap, then by its weight w, which follows what it delivers in comparison with the best.
// - Marks (ECN, trims) of a plane that the others do not show take its weight down and are its own business; the window
//   of the whole connection is for what all planes have in common (in_trouble()).
// - A plane that loses packets on most of its paths while the others do not, or delivers nothing at all any more, is
//   suspect: its link to a NIC, not one of its paths, and not its EVs (docs/protocol.md "Planes").
// Numbers are per epoch: a round trip at least, and kSample packets on the best plane. Not thread-safe, no clock.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

#include "mrc/path/route.hpp"
#include "mrc/time.hpp"

namespace mrc::path {

struct BalanceParams {
  bool weights = true;             ///< off: only the caps; so wherever no link rate is declared (core.cpp)
  std::uint16_t loss_packets = 8;  ///< a plane is suspect after this many losses in about the last 1024 packets …
  std::uint8_t loss_share = 6;     ///< … that are more than this many in 1000, and four times the others' share …
};                                 // … on at least 5/8 of its paths

class PlaneBalance {
 public:
  static constexpr std::uint16_t kOne = 1u << 12;     ///< weight 1
  static constexpr std::uint16_t kLeast = kOne / 64;  ///< smallest weight
  static constexpr unsigned kSample = 32;
  static constexpr Duration kStale = milliseconds(20);  ///< an epoch that finds no sample in this time proves nothing

  /// A new transfer over `planes` (mask).
  void reset(std::uint32_t planes, Tick now) {
    *this = PlaneBalance{};
    in_use_ = planes;
    epoch_ = now;
    recap();
  }

  // --- what is in flight
  void on_sent(unsigned plane, std::uint32_t bytes) {
    inflight_[plane] += bytes;
    if (inflight_[plane] >= cap_[plane]) open_ &= ~(1u << plane);
  }
  void on_gone(unsigned plane, std::uint32_t bytes) {
    inflight_[plane] -= std::min(bytes, inflight_[plane]);
    if (inflight_[plane] < cap_[plane]) open_ |= 1u << plane;
  }
  /// Nothing is in flight any more (the connection failed or starts over).
  void clear_inflight() {
    inflight_ = {};
    recap();
  }
  std::uint32_t inflight(unsigned plane) const { return inflight_[plane]; }
  std::uint32_t cap(unsigned plane) const { return cap_[plane]; }
  /// Planes below their cap.
  std::uint32_t open() const { return open_; }

  // --- what became of packets
  /// `path_bit` (0-31), here and below: which path of the plane it took.
  void on_delivered(unsigned plane, unsigned path_bit) {
    Tally& t = tallies_[plane];
    t.sick_paths |= t.lossy_paths & 1u << (path_bit & 31);
    t.silent = 0;
    bump(t.delivered);
    bump(t.long_delivered);
  }
  /// Marked by ECN, or trimmed.
  void on_marked(unsigned plane) { bump(tallies_[plane].marked); }
  /// Lost without a trace. On a path that delivers nothing at all it is the path's fault, however many of these the
  /// plane has; one that loses some and delivers others speaks against the plane.
  void on_lost(unsigned plane, unsigned path_bit) {
    Tally& t = tallies_[plane];
    bump(t.long_lost);
    t.lossy_paths |= 1u << (path_bit & 31);
  }
  /// … but it turned up after all.
  void on_spurious(unsigned plane) {
    Tally& t = tallies_[plane];
    if (t.long_lost != 0 && --t.long_lost == 0) t.lossy_paths = t.sick_paths = 0;
  }

  // --- judgement
  /// Ends the epoch if it is over. `in_use`: planes that carry data (a change begins a new epoch). `paths`: distinct
  /// paths of each plane (1-32). Returns the planes that have become suspect; the caller takes them out of use.
  std::uint32_t judge(Tick now, Duration srtt, std::uint32_t in_use, unsigned paths, const BalanceParams& params) {
    if (in_use != in_use_) {
      const std::uint32_t fresh = in_use & ~in_use_;
      in_use_ = in_use;
      for (unsigned p = 0; p < kMaxPlanes; ++p) {
        if (fresh >> p & 1) tallies_[p] = Tally{};
      }
      begin_epoch(now);
      recap();
      return 0;
    }
    if (now - epoch_ < srtt) return 0;
    unsigned best = 0;
    for (unsigned p = 0; p < kMaxPlanes; ++p) {
      if (in_use >> p & 1) best = std::max<unsigned>(best, tallies_[p].delivered);
    }
    if (best < kSample) {
      if (now - epoch_ < std::max(kStale, srtt * 4)) return 0;
      // Hardly anything was sent: nothing to be said against any plane.
      for (Tally& t : tallies_) t.weight = static_cast<std::uint16_t>(t.weight + (kOne - t.weight + 3) / 4);
      begin_epoch(now);
      recap();
      return 0;
    }
    if (params.weights) weigh(best);
    const std::uint32_t suspects = find_suspects(paths, params);
    for (Tally& t : tallies_) {
      t.long_delivered = static_cast<std::uint16_t>(t.long_delivered - t.long_delivered / 32);
      if (++t.loss_age >= 32) {  // the share of 1024 packets or so
        t.loss_age = 0;
        t.long_lost = static_cast<std::uint16_t>(t.long_lost - (t.long_lost + 1) / 2);
        if (t.long_lost == 0) t.lossy_paths = t.sick_paths = 0;
      }
    }
    begin_epoch(now);
    recap();
    return suspects;
  }
  /// The connection's window or packet size changed.
  void set_window(std::uint64_t window, std::uint32_t mtu) {
    const auto bytes = static_cast<std::uint32_t>(std::min<std::uint64_t>(window, UINT32_MAX / 4));
    if (bytes == window_ && mtu == mtu_) return;
    window_ = bytes;
    mtu_ = mtu;
    recap();
  }

  std::uint16_t weight(unsigned plane) const { return tallies_[plane].weight; }
  /// The plane is worse off than the others: its marks, trims, delays and losses say nothing about them.
  bool in_trouble(unsigned plane) const { return tallies_[plane].weight < kOne - kOne / 8 || !(in_use_ >> plane & 1); }
  std::uint32_t in_use() const { return in_use_; }
  /// Losses in a row that speak against one path: one where packets get lost rarely, or on some paths only; more where
  /// they get lost on all paths of the plane or on all planes.
  unsigned strikes(unsigned plane, unsigned paths) const {
    std::uint32_t share = UINT32_MAX;  // in 10 000, of the plane that loses least
    for (unsigned p = 0; p < kMaxPlanes; ++p) {
      if (in_use_ >> p & 1) share = std::min(share, everywhere(tallies_[p], paths) ? share_of(tallies_[p]) : 0);
    }
    if (share == UINT32_MAX) share = 0;
    if (spread(tallies_[plane], paths)) share = std::max(share, share_of(tallies_[plane]));
    return share < 2 ? 1 : share < 50 ? 2 : share < 500 ? 3 : 4;
  }

 private:
  struct Tally {
    std::uint16_t delivered = 0, marked = 0;          ///< in this epoch
    std::uint16_t long_delivered = 0, long_lost = 0;  ///< in about the last 1024 packets
    std::uint32_t lossy_paths = 0;                    ///< on which those were lost
    std::uint32_t sick_paths = 0;                     ///< of these, paths that delivered afterwards
    std::uint16_t weight = kOne;
    std::uint8_t loss_age = 0;
    std::uint8_t silent = 0;  ///< epochs since it delivered anything
  };

  static void bump(std::uint16_t& n) {
    if (n != UINT16_MAX) ++n;
  }
  static std::uint32_t share_of(const Tally& t) {
    return t.long_lost < 2 ? 0 : t.long_lost * 10000u / (std::uint32_t{t.long_lost} + t.long_delivered);
  }
  /// The losses lie on as many paths as if they fell by chance, or nearly so.
  static bool everywhere(const Tally& t, unsigned paths) {
    paths = std::clamp(paths, 1u, 32u);
    std::uint32_t expected = 0;  // distinct paths that so many losses meet, in 1/256
    for (unsigned n = std::min<unsigned>(t.long_lost, 4 * paths); n != 0; --n) expected += 256 - expected / paths;
    return static_cast<unsigned>(std::popcount(t.lossy_paths)) * 256u * 4 >= expected * 3;
  }
  static bool spread(const Tally& t, unsigned paths) {
    paths = std::clamp(paths, 1u, 32u);
    return t.long_lost >= 2 && static_cast<unsigned>(std::popcount(t.sick_paths)) >= (paths * 5 + 7) / 8;
  }

  void begin_epoch(Tick now) {
    epoch_ = now;
    for (Tally& t : tallies_) {
      t.delivered = t.marked = 0;
      if (t.silent != UINT8_MAX) ++t.silent;
    }
  }

  void weigh(unsigned best) {
    std::uint32_t delivered = 0, marked = 0;
    for (unsigned p = 0; p < kMaxPlanes; ++p) {
      if (!(in_use_ >> p & 1)) continue;
      delivered += tallies_[p].delivered;
      marked += tallies_[p].marked;
    }
    std::uint16_t most_weight = 0;
    for (unsigned p = 0; p < kMaxPlanes; ++p) {
      if (!(in_use_ >> p & 1)) continue;
      Tally& t = tallies_[p];
      const std::uint32_t share = t.delivered * std::uint32_t{kOne} / best;
      const std::uint64_t others = delivered - t.delivered, others_marked = marked - t.marked;
      const bool hot = t.marked * 8u > t.delivered && t.marked * others > 3 * others_marked * t.delivered;
      std::uint32_t weight = 0;
      if (hot) {
        weight = std::min<std::uint32_t>(t.weight, share) * 7 / 8;
      } else {
        const std::uint32_t most = std::min<std::uint32_t>(share, t.weight);
        weight = most + most / 4 + kOne / 32;
      }
      t.weight = static_cast<std::uint16_t>(std::clamp<std::uint32_t>(weight, kLeast, kOne));
      most_weight = std::max(most_weight, t.weight);
    }
    // Weights compare planes. What makes even the best one suffer is for the window of the whole to answer.
    for (unsigned p = 0; p < kMaxPlanes; ++p) {
      if (in_use_ >> p & 1 && tallies_[p].weight == most_weight) tallies_[p].weight = kOne;
    }
  }

  /// Losses that the others may just not have had yet: where all planes lose alike, one of them is ahead by chance.
  static constexpr std::uint64_t kByChance = 3;

  std::uint32_t find_suspects(unsigned paths, const BalanceParams& params) const {
    std::uint32_t found = 0;
    for (unsigned p = 0; p < kMaxPlanes; ++p) {
      const Tally& t = tallies_[p];
      if (!(in_use_ >> p & 1) || t.long_lost < params.loss_packets) continue;
      if (!spread(t, paths) && t.silent < 2) continue;
      const std::uint64_t all = std::uint64_t{t.long_lost} + t.long_delivered;
      if (t.long_lost * std::uint64_t{1000} <= params.loss_share * all) continue;
      std::uint64_t lost = kByChance, sent = 0;
      for (unsigned q = 0; q < kMaxPlanes; ++q) {
        if (q == p || !(in_use_ >> q & 1) || (found >> q & 1)) continue;
        lost += tallies_[q].long_lost;
        sent += tallies_[q].long_lost + std::uint64_t{tallies_[q].long_delivered};
      }
      if (sent != 0 && t.long_lost * sent > 4 * lost * all) found |= 1u << p;
    }
    return found;
  }

  void recap() {
    std::uint32_t sum = 0;
    for (std::uint32_t left = in_use_; left != 0; left &= left - 1) {
      sum += tallies_[static_cast<unsigned>(std::countr_zero(left))].weight;
    }
    const std::uint64_t unit = sum == 0 ? 0 : window_ * std::uint64_t{kOne} / sum;  // of weight 1
    open_ = 0;
    for (unsigned p = 0; p < kMaxPlanes; ++p) {
      const std::uint64_t w = tallies_[p].weight;
      const std::uint64_t share = sum == 0 ? window_ : unit * (w + w * w / (4 * kOne)) / kOne;
      const std::uint64_t bytes = share + (w == kOne ? 4u : 2u) * std::uint64_t{mtu_};
      cap_[p] = window_ == 0 ? UINT32_MAX : static_cast<std::uint32_t>(std::min<std::uint64_t>(bytes, UINT32_MAX));
      if (inflight_[p] < cap_[p]) open_ |= 1u << p;
    }
  }

  std::array<std::uint32_t, kMaxPlanes> inflight_{};
  std::array<std::uint32_t, kMaxPlanes> cap_{};
  std::array<Tally, kMaxPlanes> tallies_{};
  Tick epoch_{};
  std::uint32_t window_ = 0, mtu_ = 0;
  std::uint32_t in_use_ = 0, open_ = UINT32_MAX;
};
static_assert(sizeof(PlaneBalance) <= 288, "part of the 4 KiB of an idle connection");

}  // namespace mrc::path
