// SPDX-License-Identifier: BSD-2-Clause
// The entropy values of one connection: 128-256, the same number in every plane, walked in a pseudo-random order
// that is re-drawn each rotation; states GOOD / SKIP / ASSUMED_BAD / DENIED (mrc-protocol §2).
// Memory: 8 bytes an EV, from the caller. Not thread-safe. No clock: time is an argument.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "mrc/path/route.hpp"
#include "mrc/random.hpp"
#include "mrc/time.hpp"

namespace mrc::path {

enum class EvState : std::uint8_t { kGood, kSkip, kAssumedBad, kDenied };

/// Numbers that nobody has published; to be swept (mrc-protocol §2 "[?]").
struct EvParams {
  std::uint16_t per_connection = 128;   ///< rounded up to a multiple of the planes
  std::uint16_t min_active = 8;         ///< floor of GOOD EVs: below it, the oldest SKIP/ASSUMED_BAD ones are used too
  Duration probe_interval = milliseconds(20);  ///< between probes of one ASSUMED_BAD EV, jittered
  std::uint8_t probes_to_restore = 2;   ///< answers in a row
};

struct Ev {               // 8 bytes
  std::uint32_t value;
  std::uint8_t plane;
  EvState state;
  std::uint8_t good_probes;  ///< answers in a row while ASSUMED_BAD; rotations left while SKIP
  std::uint8_t reserved;
};
static_assert(sizeof(Ev) == 8);

class EvSet {
 public:
  EvSet() = default;
  /// Draws params.per_connection EVs over the route's planes into `storage` (≥ that many; rounded to the planes).
  EvSet(const Route& route, wire::EvSplit split, const EvParams& params, std::span<Ev> storage, Random& random);

  struct Pick {
    std::uint32_t ev;
    std::uint16_t index;
    std::uint8_t plane;
  };
  /// The next EV of the walk whose plane is in `plane_mask` (planes with room and link up). Every packet takes another
  /// one. nullopt if no plane in the mask has a usable EV; falls back to ASSUMED_BAD ones when fewer than min_active are GOOD.
  /// `avoid_plane`: for retransmissions, prefer another plane if there is one (-1 = any).
  std::optional<Pick> next(std::uint32_t plane_mask, Random& random, int avoid_plane = -1);

  void on_ecn(std::uint16_t index);            ///< GOOD → SKIP for about one rotation
  void on_trim(std::uint16_t index);           ///< the same
  void on_lost(std::uint16_t index, Tick now); ///< GOOD/SKIP → ASSUMED_BAD at once
  void on_spurious(std::uint16_t index);       ///< "lost" packet was SACKed after all: back to GOOD
  void on_probe_answer(std::uint16_t index);   ///< counts towards restoration
  void on_probe_lost(std::uint16_t index);
  /// SACK echoes EVs by value: index of it, if it is in the set (small hash or scan bounded by the set).
  std::optional<std::uint16_t> find(std::uint32_t ev) const;

  /// An ASSUMED_BAD EV whose probe is due, at most one per call; next_probe() says when to ask again.
  std::optional<Pick> due_probe(Tick now, Random& random);
  Tick next_probe() const;

  std::span<const Ev> all() const { return evs_; }
  unsigned good() const { return good_; }
  unsigned size() const { return static_cast<unsigned>(evs_.size()); }

 private:
  void set_state(Ev& ev, EvState state);

  std::span<Ev> evs_;
  EvParams params_{};
  std::uint16_t good_ = 0;
  std::uint16_t cursor_ = 0;   ///< position of the walk
  std::uint16_t stride_ = 1;   ///< odd/coprime step, re-drawn each rotation
  std::uint16_t left_ = 0;     ///< picks left in this rotation
  std::uint16_t probe_cursor_ = 0;
  Tick next_probe_ = kNever;
};

}  // namespace mrc::path
