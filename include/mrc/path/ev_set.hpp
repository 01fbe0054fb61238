// SPDX-License-Identifier: BSD-2-Clause
// The entropy values of one connection: 128-256, the same number in every plane, walked in a pseudo-random order
// that is re-drawn each rotation; a few backups in every plane; states GOOD / SKIP / ASSUMED_BAD / DENIED
// (mrc-protocol §2). Memory: 8 bytes an EV, from the caller. Not thread-safe. No clock: time is an argument.
//
// The walk has two levels. Planes: each gets one pick a round, in random order, so that planes stay exactly equal
// whatever the state of their EVs. Seats of a plane: start + k * stride with the stride coprime to their number, both
// re-drawn each rotation, so that each seat is met once a rotation and no two picks in a row are the same. On each seat
// sits an EV; one that turns bad gives its seat to a good backup of its own plane and is probed as a backup itself.
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
  std::uint16_t per_connection = 128;  ///< rounded up to a multiple of the planes; with backups at most kMaxSize
  std::uint16_t min_active = 8;        ///< floor of usable EVs, shared out to the planes (see EvSet::next)
  std::uint8_t backup_divisor = 8;     ///< backups of a plane: its EVs divided by this, rounded up; 0 = none
  std::uint8_t probes_to_restore = 2;  ///< answers in a row; doubles with each relapse, 64 at most
  Duration probe_interval = milliseconds(20);  ///< between probes of one ASSUMED_BAD path, jittered by a quarter
  Duration relapse_memory = seconds(1);        ///< a relapse is forgotten after so long
  Duration group_window = milliseconds(2);     ///< two EVs of one uplink blamed within this: the uplink is to blame
};

struct Ev {  // 8 bytes
  std::uint32_t value;
  EvState state : 2;
  std::uint32_t plane : 3;
  std::uint32_t conscripted : 1;  ///< ASSUMED_BAD, yet in use to keep the floor
  std::uint32_t active : 1;       ///< has a seat in the walk; else a backup
  std::uint32_t relapse : 3;      ///< how often blamed lately: answers needed double with each
  std::uint32_t good_probes : 6;  ///< answers in a row while ASSUMED_BAD; rotations left to pass over while SKIP
  std::uint32_t marks : 3;        ///< marked so often of late: each doubles the rotations that the next mark costs
  std::uint32_t strikes : 2;      ///< losses in a row, while more than one is needed
  std::uint32_t seat : 10;        ///< not about this EV: who sits on the seat of this number in its plane
};
static_assert(sizeof(Ev) == 8);

class EvSet {
 public:
  static constexpr unsigned kMaxSize = 1024;

  EvSet() = default;
  /// Draws params.per_connection EVs and the backups over the route's planes into `storage` (size_for() of them).
  /// With less storage the set is smaller, the same number in every plane all the same. `storage` and `params` must
  /// outlive it.
  /// SRv6 mode: the EVs of a plane are spread evenly over its uplinks, starting anywhere.
  EvSet(const Route& route, wire::EvSplit split, const EvParams& params, std::span<Ev> storage, Random& random);
  EvSet(const Route&, wire::EvSplit, const EvParams&&, std::span<Ev>, Random&) = delete;

  /// EVs that the constructor will draw with enough storage, backups included: for sizing it.
  static unsigned size_for(const EvParams& params, unsigned planes);

  struct Pick {
    std::uint32_t ev;
    std::uint16_t index;
    std::uint8_t plane;
  };
  /// The next EV of the walk whose plane is in `plane_mask` (planes with room and link up). Every packet takes another
  /// one. nullopt if no plane in the mask has a usable EV.
  /// `avoid_plane`: for retransmissions, prefer another plane if there is one (-1 = any).
  /// `up_mask`: planes that may be used, room or not. Of these: one with fewer usable EVs than its share of min_active
  /// gets ASSUMED_BAD ones back into use; one without any stays out (that is trouble of the plane) unless none of them
  /// has any. DENIED ones are never used.
  std::optional<Pick> next(std::uint32_t plane_mask, Random& random, int avoid_plane = -1,
                           std::uint32_t up_mask = UINT32_MAX);

  // Reports about EVs; all but deny() and permit() leave a DENIED one alone. An index out of range is ignored.
  /// GOOD → SKIP: passed over once, which takes about one rotation; 2, 4 … 64 times if it is marked again and again.
  void on_ecn(std::uint16_t index);
  void on_trim(std::uint16_t index);  ///< the same
  /// A packet was lost: GOOD/SKIP → ASSUMED_BAD, at the `strikes`-th loss without a packet acknowledged in between
  /// (1-4; more than one where packets get lost on all paths alike). True if it turned bad now.
  /// Where EVs share paths (SRv6 across T1s): the second EV of an uplink blamed within group_window takes the others
  /// with it.
  bool on_lost(std::uint16_t index, Tick now, unsigned strikes = 1);
  void on_acknowledged(std::uint16_t index) {
    if (struck_ != 0) [[unlikely]]
      forgive(index);
  }
  void on_spurious(std::uint16_t index);      ///< "lost" packet was SACKed after all: back to GOOD
  void on_probe_answer(std::uint16_t index);  ///< counts towards restoration, for all EVs that share the path
  void on_probe_lost(std::uint16_t index);
  void deny(std::uint16_t index);    ///< the operator's denylist: any → DENIED
  void permit(std::uint16_t index);  ///< taken off the denylist: DENIED → GOOD
  /// The whole plane was at fault, not its EVs: all ASSUMED_BAD ones of it are GOOD again, and nothing is remembered.
  void pardon(unsigned plane);
  /// SACK echoes EVs by value: index of it, if it is in the set.
  std::optional<std::uint16_t> find(std::uint32_t ev) const;
  /// Some EV of the plane for control packets: not known to be bad if a few draws find one, DENIED only if all are.
  std::uint32_t draw(unsigned plane, Random& random) const;

  /// An ASSUMED_BAD EV (of a plane in `up_mask`) whose probe is due, at most one per call; next_probe() says when to
  /// ask again (kNever while nothing is ASSUMED_BAD). Several bad paths take turns, evenly over the interval; EVs that
  /// share one take turns at its probes.
  std::optional<Pick> due_probe(Tick now, Random& random, std::uint32_t up_mask = UINT32_MAX);
  Tick next_probe() const { return next_probe_; }

  std::span<const Ev> all() const { return evs_; }  ///< plane by plane, backups included
  unsigned good() const { return good_; }           ///< of all(), as are the next two
  unsigned bad() const { return bad_; }
  unsigned denied() const { return denied_; }
  unsigned size() const { return static_cast<unsigned>(evs_.size()); }
  unsigned active() const { return unsigned{seats_} * planes_; }  ///< EVs in the walk
  unsigned per_plane() const { return seats_; }
  unsigned stride() const { return stride_; }  ///< EVs of a plane in all()
  unsigned usable(unsigned plane) const { return walks_[plane].usable; }
  std::uint32_t usable_planes() const { return usable_planes_; }
  /// Paths of one plane that can be told apart, 1-32, and which of them an EV takes.
  unsigned paths() const { return paths_; }
  unsigned path_bit(std::uint16_t index) const {
    if (paths_ == 1 || index >= evs_.size()) return 0;
    return (shared_paths_ ? EvLayout::uplink(evs_[index].value) : index % stride_) & 31;
  }
  std::uint64_t replaced() const { return replaced_; }  ///< seats given to backups so far
  unsigned answers_needed(std::uint16_t index) const;   ///< of probes in a row, until it is GOOD again

 private:
  static constexpr EvParams kDefaults{};

  using PlaneMask = std::uint8_t;  ///< bit p: plane p
  static void set_bit(PlaneMask& mask, unsigned plane, bool on) {
    const unsigned bit = 1u << plane;
    mask = static_cast<PlaneMask>(on ? mask | bit : mask & ~bit);
  }

  struct PlaneWalk {
    std::uint16_t cursor = 0;  ///< seat
    std::uint16_t stride = 0;  ///< 0 only where there is one seat
    std::uint16_t left = 0;    ///< steps left in this rotation
    std::uint16_t usable = 0;  ///< seated GOOD, SKIP and conscripted ones
  };

  void set_state(Ev& ev, EvState state);
  void count(const Ev& ev, int by);
  void release_conscripts();
  void keep_floor(std::uint32_t up_mask);
  bool conscript_one(unsigned plane);
  unsigned choose_plane(std::uint32_t mask, Random& random);
  void redraw(PlaneWalk& walk, Random& random);
  Pick pick(unsigned plane, Random& random);
  Ev* movable(std::uint16_t index);
  void forgive(std::uint16_t index);
  void turn_bad(Ev& ev);
  void restore(Ev& ev);
  void unseat(Ev& ev);
  void find_seat(Ev& ev);
  void swap_seats(Ev& leaving, Ev& coming);
  void blame_group(std::uint16_t index, Tick now);
  void decay(Tick now);
  unsigned group_of(std::size_t index) const;
  void recount_groups();
  std::span<Ev> plane_evs(unsigned plane) { return evs_.subspan(std::size_t{plane} * stride_, stride_); }

  std::span<Ev> evs_;  ///< plane by plane, stride_ each
  const EvParams* params_ = &kDefaults;
  std::uint32_t key_ = 0;     ///< masks the index in the EVs' low bits
  std::uint16_t seats_ = 0;   ///< per plane
  std::uint16_t stride_ = 0;  ///< per plane, backups included
  std::uint16_t good_ = 0, bad_ = 0, denied_ = 0, conscripts_ = 0, struck_ = 0;
  std::uint16_t floor_ = 0;  ///< of each plane
  std::uint16_t bad_groups_ = 0;
  std::uint16_t conscript_cursor_ = 0;
  std::uint32_t probe_group_ = 0;  ///< whose turn it was
  std::uint32_t replaced_ = 0;
  PlaneMask usable_planes_ = 0;  ///< those that have a usable EV
  PlaneMask short_planes_ = 0;   ///< those below their floor, where conscripts might help
  PlaneMask round_ = 0;          ///< those that have not had their turn in this round
  std::uint8_t planes_ = 1;
  std::uint8_t bits_left_ = 0;  ///< 3-bit draws left in bits_
  std::uint8_t paths_ = 1;
  bool shared_paths_ = false;  ///< EVs of one uplink share the path
  bool relapses_ = false;      ///< some EV remembers one
  std::uint64_t bits_ = 0;
  std::array<PlaneWalk, kMaxPlanes> walks_{};
  Tick next_probe_ = kNever;
  Tick forget_at_{};
  Tick blamed_at_{};                                                                     ///< of blamed_
  std::array<std::uint16_t, 4> blamed_{UINT16_MAX, UINT16_MAX, UINT16_MAX, UINT16_MAX};  ///< the latest, newest first
};

}  // namespace mrc::path
