// SPDX-License-Identifier: BSD-2-Clause
// EV sets: drawing them and the walk (mrc-protocol §2). States and their transitions: ev_states.cpp.
#include "mrc/path/ev_set.hpp"

#include <algorithm>
#include <bit>
#include <numeric>

#include "mrc/planted.hpp"
namespace mrc::path {
namespace {

constexpr unsigned kIndexBits = 10;
constexpr std::uint32_t kForgetMark = 8;  // picks until a mark is forgotten, on average
constexpr std::uint32_t kIndexMask = (1u << kIndexBits) - 1;
static_assert(EvSet::kMaxSize == 1u << kIndexBits);
static_assert(kIndexBits <= 12, "only the random bits of an SRv6 EV are free");

unsigned coprime_to(unsigned size, Random& random) {
  if (size <= 2) return size - 1;  // size 1 stands still, size 2 alternates
  unsigned stride = 1 + random.below(size - 1);
  while (std::gcd(stride, size) != 1) stride = stride % (size - 1) + 1;
  return stride;
}

/// Seats of a plane.
unsigned seats_for(const EvParams& params, unsigned planes) {
  return (std::max<unsigned>(params.per_connection, 1) + planes - 1) / planes;
}

/// EVs of a plane that has so many seats.
unsigned with_backups(const EvParams& params, unsigned seats) {
  return params.backup_divisor == 0 ? seats : seats + (seats + params.backup_divisor - 1) / params.backup_divisor;
}

}  // namespace

unsigned EvSet::size_for(const EvParams& params, unsigned planes) {
  planes = std::clamp(planes, 1u, kMaxPlanes);
  return std::min(with_backups(params, seats_for(params, planes)), kMaxSize / planes) * planes;
}

EvSet::EvSet(const Route& route, wire::EvSplit split, const EvParams& params, std::span<Ev> storage, Random& random)
    : params_(&params) {
  planes_ = static_cast<std::uint8_t>(std::clamp<unsigned>(route.planes, 1, kMaxPlanes));
  const std::size_t size = std::min<std::size_t>(size_for(params, planes_), storage.size());
  stride_ = static_cast<std::uint16_t>(size / planes_);
  // With little room: fewer seats first, then fewer backups.
  unsigned seats = std::min<unsigned>(seats_for(params, planes_), stride_);
  while (seats > 1 && with_backups(params, seats) > stride_) --seats;
  seats_ = static_cast<std::uint16_t>(seats);
  evs_ = storage.first(static_cast<std::size_t>(stride_) * planes_);
  key_ = static_cast<std::uint32_t>(random.next()) & kIndexMask;
  const unsigned uplinks = std::max<unsigned>(route.uplinks, 1);
  shared_paths_ = route.mode == RouteMode::kSrv6 && uplinks > 1 && route.local.t0 != route.remote.t0;
  // Below one T0 there is one path in each plane.
  const bool one = route.mode == RouteMode::kSrv6 && !shared_paths_;
  paths_ = static_cast<std::uint8_t>(
      one ? 1u : std::clamp(std::min<unsigned>(shared_paths_ ? uplinks : stride_, stride_), 1u, 32u));
  for (unsigned plane = 0; plane < planes_ && stride_ != 0; ++plane) {
    // Evenly over the uplinks, from anywhere and in any step: where uplinks are many, a random subset of them.
    unsigned uplink = random.below(uplinks);
    const unsigned step = uplinks == 1 ? 0 : coprime_to(uplinks, random);
    for (unsigned i = 0; i < stride_; ++i) {
      const unsigned index = plane * stride_ + i;
      const auto noise = static_cast<std::uint32_t>(random.next());
      const std::uint32_t value = route.make_ev(plane, uplink, noise, split);
      Ev ev{};
      ev.value = (value & ~kIndexMask) | (index ^ key_);
      ev.state = EvState::kGood;
      ev.plane = plane & 7;
      ev.active = i < seats_;
      ev.seat = i & kIndexMask;
      evs_[index] = ev;
      uplink = (uplink + step) % uplinks;
    }
    walks_[plane].usable = seats_;
    set_bit(usable_planes_, plane, true);
  }
  good_ = static_cast<std::uint16_t>(evs_.size());
  floor_ = static_cast<std::uint16_t>((params.min_active + planes_ - 1u) / planes_);
  for (unsigned plane = 0; plane < planes_ && stride_ != 0; ++plane) {
    walks_[plane].cursor = static_cast<std::uint16_t>(random.below(seats_));
    redraw(walks_[plane], random);
    if (seats_ < floor_) set_bit(short_planes_, plane, true);
  }
}

void EvSet::redraw(PlaneWalk& walk, Random& random) {
  // The cursor stands on the last pick; the new rotation's first step must not come back to it.
  const unsigned size = seats_;
  const unsigned stride = coprime_to(size, random);
  if (size > 1) {
    const unsigned first = (walk.cursor + 1 + random.below(size - 1)) % size;
    walk.cursor = static_cast<std::uint16_t>((first + size - stride) % size);
  }
  walk.stride = static_cast<std::uint16_t>(stride);
  walk.left = seats_;
}

unsigned EvSet::choose_plane(std::uint32_t mask, Random& random) {
  std::uint32_t left = round_ & mask;
  if (left == 0) {
    // A new round. A plane that was masked out has lost its turn: no debt that would come back as a burst.
    round_ = usable_planes_;
    left = mask;
  }
  if (bits_left_ == 0) {
    bits_ = random.next();
    bits_left_ = 21;
  }
  const auto turn = static_cast<unsigned>(bits_ & 7);
  bits_ >>= 3;
  --bits_left_;
  // First plane at or after a random one, cyclically (8 = kMaxPlanes).
  const auto plane = (static_cast<unsigned>(std::countr_zero((left | left << 8) >> turn)) + turn) & 7;
  set_bit(round_, plane, false);
  return plane;
}

EvSet::Pick EvSet::pick(unsigned plane, Random& random) {
  PlaneWalk& walk = walks_[plane];
  const unsigned size = seats_;
  const unsigned base = plane * stride_;
  Ev* const evs = &evs_[base];
  const unsigned last = walk.cursor;
  // Ends: the plane has a usable EV, and after a rotation in which all of those were SKIP the next one has to do.
  for (unsigned met = 0;; ++met) {
    if (walk.left == 0) [[unlikely]]
      redraw(walk, random);
    unsigned at = walk.cursor + walk.stride;
    if (at >= size) at -= size;
    walk.cursor = static_cast<std::uint16_t>(at);
    --walk.left;
    const unsigned who = evs[at].seat;
    Ev& ev = evs[who];
    if (ev.state != EvState::kGood) [[unlikely]] {
      if (ev.state == EvState::kSkip) {
        if (ev.good_probes != 0 && met <= size) {
          ev.good_probes = (ev.good_probes - 1u) & 63u;
          continue;
        }
        set_state(ev, EvState::kGood);
        if (met <= size) continue;
      } else if (!ev.conscripted && !planted(Bug::kDeadEvInUse)) {
        continue;
      }
    }
    if (at == last && walk.usable > 1) [[unlikely]]
      continue;  // others were passed over between the two
    // Used without being marked again, by and by its record is forgotten.
    if (ev.marks != 0 && random.below(kForgetMark) == 0) [[unlikely]]
      ev.marks = (ev.marks - 1u) & 7u;
    return {ev.value, static_cast<std::uint16_t>(base + who), static_cast<std::uint8_t>(plane)};
  }
}

std::optional<EvSet::Pick> EvSet::next(std::uint32_t plane_mask, Random& random, int avoid_plane,
                                       std::uint32_t up_mask) {
  if ((short_planes_ & usable_planes_ & up_mask) != 0 || (usable_planes_ & up_mask) == 0) [[unlikely]]
    keep_floor(up_mask);
  std::uint32_t mask = plane_mask & usable_planes_;
  if (mask == 0) return std::nullopt;
  if (avoid_plane >= 0 && avoid_plane < static_cast<int>(kMaxPlanes)) {
    const std::uint32_t others = mask & ~(1u << avoid_plane);
    if (others != 0) mask = others;
  }
  return pick(choose_plane(mask, random), random);
}

std::optional<std::uint16_t> EvSet::find(std::uint32_t ev) const {
  const std::uint32_t index = (ev ^ key_) & kIndexMask;
  if (index >= evs_.size() || evs_[index].value != ev) return std::nullopt;
  return static_cast<std::uint16_t>(index);
}

std::uint32_t EvSet::draw(unsigned plane, Random& random) const {
  if (plane >= planes_ || stride_ == 0) return 0;
  const Ev* const evs = &evs_[plane * stride_];
  const Ev* ev = &evs[evs[random.below(seats_)].seat];
  for (int i = 0; i < 4 && ev->state != EvState::kGood && ev->state != EvState::kSkip; ++i) {
    ev = &evs[evs[random.below(seats_)].seat];
  }
  for (unsigned i = 0; i < stride_ && ev->state == EvState::kDenied; ++i) ev = &evs[i];
  return ev->value;
}

}  // namespace mrc::path
