// SPDX-License-Identifier: BSD-2-Clause
// The entropy values of one connection: 128-256, the same number in every plane, walked in a pseudo-random order
// that is re-drawn each rotation; states GOOD / SKIP / ASSUMED_BAD / DENIED (mrc-protocol §2).
// Memory: 8 bytes an EV, from the caller. Not thread-safe. No clock: time is an argument.
//
// The walk has two levels. Planes: each gets one pick a round, in random order, so that planes stay exactly equal
// whatever the state of their EVs. EVs of a plane: start + k * stride with the stride coprime to their number, both
// re-drawn each rotation, so that each EV is met once a rotation and no two picks in a row are the same.
// The index of an EV is coded into its low bits (under a random mask): find() is O(1) and EVs are distinct.
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
  std::uint16_t per_connection = 128;  ///< rounded up to a multiple of the planes; at most EvSet::kMaxSize
  std::uint16_t min_active = 8;        ///< floor of usable EVs: below it, the oldest ASSUMED_BAD ones are used too
  Duration probe_interval = milliseconds(20);  ///< between probes of one ASSUMED_BAD EV, jittered by a quarter
  std::uint8_t probes_to_restore = 2;          ///< answers in a row
};

struct Ev {  // 8 bytes
  std::uint32_t value;
  std::uint8_t plane;
  EvState state;
  std::uint8_t good_probes;      ///< answers in a row while ASSUMED_BAD
  std::uint8_t conscripted : 1;  ///< ASSUMED_BAD, yet in use to keep the floor
  std::uint8_t age : 7;          ///< blame number, to tell the older of two ASSUMED_BAD ones
};
static_assert(sizeof(Ev) == 8);

class EvSet {
 public:
  static constexpr unsigned kMaxSize = 1024;

  EvSet() = default;
  /// Draws params.per_connection EVs over the route's planes into `storage` (≥ that many; rounded to the planes).
  /// With less storage the set is smaller, the same number in every plane all the same. `storage` must outlive it.
  /// SRv6 mode: the EVs of a plane are spread evenly over its uplinks, starting anywhere.
  EvSet(const Route& route, wire::EvSplit split, const EvParams& params, std::span<Ev> storage, Random& random);

  /// EVs that the constructor will draw with enough storage: for sizing it.
  static unsigned size_for(const EvParams& params, unsigned planes);

  struct Pick {
    std::uint32_t ev;
    std::uint16_t index;
    std::uint8_t plane;
  };
  /// The next EV of the walk whose plane is in `plane_mask` (planes with room and link up). Every packet takes another
  /// one. nullopt if no plane in the mask has a usable EV; ASSUMED_BAD ones are used while fewer than min_active
  /// others are left. DENIED ones never are.
  /// `avoid_plane`: for retransmissions, prefer another plane if there is one (-1 = any).
  /// `up_mask`: planes whose link is up, room or not: only their EVs count for the floor.
  std::optional<Pick> next(std::uint32_t plane_mask, Random& random, int avoid_plane = -1,
                           std::uint32_t up_mask = UINT32_MAX);

  // Reports about EVs; all but deny() and permit() leave a DENIED one alone. An index out of range is ignored.
  void on_ecn(std::uint16_t index);             ///< GOOD → SKIP: passed over once, which takes about one rotation
  void on_trim(std::uint16_t index);            ///< the same
  void on_lost(std::uint16_t index, Tick now);  ///< GOOD/SKIP → ASSUMED_BAD at once
  void on_spurious(std::uint16_t index);        ///< "lost" packet was SACKed after all: back to GOOD
  void on_probe_answer(std::uint16_t index);    ///< counts towards restoration; so does a SACK of data sent since
  void on_probe_lost(std::uint16_t index);
  void deny(std::uint16_t index);    ///< the operator's denylist: any → DENIED
  void permit(std::uint16_t index);  ///< taken off the denylist: DENIED → GOOD
  /// SACK echoes EVs by value: index of it, if it is in the set.
  std::optional<std::uint16_t> find(std::uint32_t ev) const;

  /// An ASSUMED_BAD EV (of a plane in `up_mask`) whose probe is due, at most one per call; next_probe() says when to
  /// ask again (kNever while nothing is ASSUMED_BAD). Several such EVs take turns, evenly over the interval.
  std::optional<Pick> due_probe(Tick now, Random& random, std::uint32_t up_mask = UINT32_MAX);
  Tick next_probe() const { return next_probe_; }

  std::span<const Ev> all() const { return evs_; }
  unsigned good() const { return good_; }
  unsigned bad() const { return bad_; }
  unsigned denied() const { return denied_; }
  unsigned size() const { return static_cast<unsigned>(evs_.size()); }
  unsigned per_plane() const { return per_plane_; }

 private:
  struct PlaneWalk {
    std::uint16_t cursor = 0;  ///< in the plane
    std::uint16_t stride = 0;  ///< 0 only where there is one EV
    std::uint16_t left = 0;    ///< steps left in this rotation
    std::uint16_t usable = 0;  ///< GOOD, SKIP and conscripted ones
  };

  void set_state(Ev& ev, EvState state);
  void count(const Ev& ev, int by);
  void release_conscripts();
  void keep_floor(std::uint32_t up_mask);
  unsigned usable_in(std::uint32_t mask) const;
  unsigned choose_plane(std::uint32_t mask, Random& random);
  void redraw(PlaneWalk& walk, Random& random);
  Pick pick(unsigned plane, Random& random);
  Ev* movable(std::uint16_t index);

  std::span<Ev> evs_;  ///< plane by plane, per_plane_ each
  EvParams params_{};
  std::uint32_t key_ = 0;            ///< masks the index in the EVs' low bits
  std::uint32_t usable_planes_ = 0;  ///< bit p: plane p has a usable EV
  std::uint32_t round_ = 0;          ///< planes that have not had their turn in this round
  std::uint16_t per_plane_ = 0;
  std::uint16_t good_ = 0, bad_ = 0, denied_ = 0, conscripts_ = 0;
  std::uint16_t usable_ = 0;  ///< sum over the planes
  std::uint16_t floor_ = 0;   ///< min_active, or what is not denied if that is less
  std::uint16_t probe_cursor_ = 0;
  std::uint8_t planes_ = 1;
  std::uint8_t age_ = 0;
  std::uint8_t bits_left_ = 0;  ///< 3-bit draws left in bits_
  std::uint64_t bits_ = 0;
  std::array<PlaneWalk, kMaxPlanes> walks_{};
  Tick next_probe_ = kNever;
};

}  // namespace mrc::path
