// SPDX-License-Identifier: BSD-2-Clause
// EV sets: drawing them, the walk, and the states' transitions (mrc-protocol §2).
#include "mrc/path/ev_set.hpp"

#include <algorithm>
#include <bit>
#include <numeric>

namespace mrc::path {
namespace {

constexpr unsigned kIndexBits = 10;
constexpr std::uint32_t kIndexMask = (1u << kIndexBits) - 1;
static_assert(EvSet::kMaxSize == 1u << kIndexBits);
static_assert(kIndexBits <= 12, "only the random bits of an SRv6 EV are free");

unsigned coprime_to(unsigned size, Random& random) {
  if (size <= 2) return size - 1;  // size 1 stands still, size 2 alternates
  unsigned stride = 1 + random.below(size - 1);
  while (std::gcd(stride, size) != 1) stride = stride % (size - 1) + 1;
  return stride;
}

}  // namespace

unsigned EvSet::size_for(const EvParams& params, unsigned planes) {
  planes = std::clamp(planes, 1u, kMaxPlanes);
  const unsigned each = (std::max<unsigned>(params.per_connection, 1) + planes - 1) / planes;
  return std::min(each, kMaxSize / planes) * planes;
}

EvSet::EvSet(const Route& route, wire::EvSplit split, const EvParams& params, std::span<Ev> storage, Random& random)
    : params_(params) {
  planes_ = static_cast<std::uint8_t>(std::clamp<unsigned>(route.planes, 1, kMaxPlanes));
  const std::size_t size = std::min<std::size_t>(size_for(params, planes_), storage.size());
  per_plane_ = static_cast<std::uint16_t>(size / planes_);
  evs_ = storage.first(static_cast<std::size_t>(per_plane_) * planes_);
  key_ = static_cast<std::uint32_t>(random.next()) & kIndexMask;
  const unsigned uplinks = std::max<unsigned>(route.uplinks, 1);
  for (unsigned plane = 0; plane < planes_ && per_plane_ != 0; ++plane) {
    // Evenly over the uplinks, from anywhere and in any step: where uplinks are many, a random subset of them.
    unsigned uplink = random.below(uplinks);
    const unsigned step = uplinks == 1 ? 0 : coprime_to(uplinks, random);
    for (unsigned i = 0; i < per_plane_; ++i) {
      const unsigned index = plane * per_plane_ + i;
      const auto noise = static_cast<std::uint32_t>(random.next());
      const std::uint32_t value = route.make_ev(plane, uplink, noise, split);
      evs_[index] = Ev{.value = (value & ~kIndexMask) | (index ^ key_),
                       .plane = static_cast<std::uint8_t>(plane),
                       .state = EvState::kGood,
                       .good_probes = 0,
                       .conscripted = 0,
                       .age = 0};
      uplink = (uplink + step) % uplinks;
    }
    walks_[plane].usable = per_plane_;
    usable_planes_ |= 1u << plane;
  }
  good_ = usable_ = static_cast<std::uint16_t>(evs_.size());
  floor_ = std::min<std::uint16_t>(params.min_active, good_);
  for (unsigned plane = 0; plane < planes_ && per_plane_ != 0; ++plane) {
    walks_[plane].cursor = static_cast<std::uint16_t>(random.below(per_plane_));
    redraw(walks_[plane], random);
  }
}

void EvSet::redraw(PlaneWalk& walk, Random& random) {
  // The cursor stands on the last pick; the new rotation's first step must not come back to it.
  const unsigned size = per_plane_;
  const unsigned stride = coprime_to(size, random);
  if (size > 1) {
    const unsigned first = (walk.cursor + 1 + random.below(size - 1)) % size;
    walk.cursor = static_cast<std::uint16_t>((first + size - stride) % size);
  }
  walk.stride = static_cast<std::uint16_t>(stride);
  walk.left = per_plane_;
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
  round_ &= ~(1u << plane);
  return plane;
}

EvSet::Pick EvSet::pick(unsigned plane, Random& random) {
  PlaneWalk& walk = walks_[plane];
  const unsigned size = per_plane_;
  Ev* const evs = &evs_[plane * size];
  const unsigned last = walk.cursor;
  // Ends: the plane has a usable EV, and a SKIP one turns GOOD when passed over. Two rotations and a bit at most.
  for (;;) {
    if (walk.left == 0) [[unlikely]]
      redraw(walk, random);
    unsigned at = walk.cursor + walk.stride;
    if (at >= size) at -= size;
    walk.cursor = static_cast<std::uint16_t>(at);
    --walk.left;
    Ev& ev = evs[at];
    if (ev.state != EvState::kGood) [[unlikely]] {
      if (ev.state == EvState::kSkip) {
        set_state(ev, EvState::kGood);
        continue;
      }
      if (!ev.conscripted) continue;
    }
    if (at == last && walk.usable > 1) [[unlikely]]
      continue;  // others were passed over between the two
    return {ev.value, static_cast<std::uint16_t>(plane * size + at), static_cast<std::uint8_t>(plane)};
  }
}

std::optional<EvSet::Pick> EvSet::next(std::uint32_t plane_mask, Random& random, int avoid_plane,
                                       std::uint32_t up_mask) {
  if (usable_ < floor_ || (usable_planes_ & ~up_mask) != 0 || usable_planes_ == 0) [[unlikely]]
    keep_floor(up_mask);
  std::uint32_t mask = plane_mask & usable_planes_;
  if (mask == 0) return std::nullopt;
  if (avoid_plane >= 0 && avoid_plane < static_cast<int>(kMaxPlanes)) {
    const std::uint32_t others = mask & ~(1u << avoid_plane);
    if (others != 0) mask = others;
  }
  return pick(choose_plane(mask, random), random);
}

unsigned EvSet::usable_in(std::uint32_t mask) const {
  unsigned usable = 0;
  for (unsigned plane = 0; plane < planes_; ++plane) {
    if (mask >> plane & 1) usable += walks_[plane].usable;
  }
  return usable;
}

void EvSet::keep_floor(std::uint32_t up_mask) {
  unsigned usable = usable_in(up_mask);
  while (usable < floor_) {
    Ev* oldest = nullptr;
    unsigned oldest_age = 0;
    for (Ev& ev : evs_) {
      if (ev.state != EvState::kAssumedBad || ev.conscripted || !(up_mask >> ev.plane & 1)) continue;
      const unsigned age = (age_ - ev.age) & 0x7f;
      if (oldest == nullptr || age > oldest_age) {
        oldest = &ev;
        oldest_age = age;
      }
    }
    if (oldest == nullptr) return;  // everything that is up and not denied is in use
    count(*oldest, -1);
    oldest->conscripted = 1;
    count(*oldest, 1);
    ++usable;
  }
}

void EvSet::release_conscripts() {
  for (Ev& ev : evs_) {
    if (conscripts_ == 0) return;
    if (!ev.conscripted) continue;
    count(ev, -1);
    ev.conscripted = 0;
    count(ev, 1);
  }
}

void EvSet::count(const Ev& ev, int by) {
  const auto add = [by](std::uint16_t& to) { to = static_cast<std::uint16_t>(to + by); };
  switch (ev.state) {
    case EvState::kGood:
      add(good_);
      break;
    case EvState::kSkip:
      break;
    case EvState::kAssumedBad:
      add(bad_);
      if (!ev.conscripted) return;
      add(conscripts_);
      break;
    case EvState::kDenied:
      add(denied_);
      return;
  }
  PlaneWalk& walk = walks_[ev.plane];
  add(walk.usable);
  add(usable_);
  const std::uint32_t bit = 1u << ev.plane;
  usable_planes_ = walk.usable == 0 ? usable_planes_ & ~bit : usable_planes_ | bit;
}

void EvSet::set_state(Ev& ev, EvState state) {
  count(ev, -1);
  ev.state = state;
  ev.conscripted = 0;
  ev.good_probes = 0;
  count(ev, 1);
  if (bad_ == 0) next_probe_ = kNever;
}

Ev* EvSet::movable(std::uint16_t index) {
  if (index >= evs_.size() || evs_[index].state == EvState::kDenied) return nullptr;
  return &evs_[index];
}

void EvSet::on_ecn(std::uint16_t index) {
  Ev* ev = movable(index);
  if (ev != nullptr && ev->state == EvState::kGood) set_state(*ev, EvState::kSkip);
}

void EvSet::on_trim(std::uint16_t index) {
  on_ecn(index);
}

void EvSet::on_lost(std::uint16_t index, Tick now) {
  Ev* ev = movable(index);
  if (ev == nullptr) return;
  // A conscript that loses again becomes the youngest, so that another one is tried in its place.
  set_state(*ev, EvState::kAssumedBad);
  age_ = static_cast<std::uint8_t>((age_ + 1) & 0x7f);
  ev->age = age_ & 0x7f;
  if (next_probe_ == kNever) next_probe_ = now + params_.probe_interval;
}

void EvSet::on_spurious(std::uint16_t index) {
  Ev* ev = movable(index);
  if (ev == nullptr || ev->state != EvState::kAssumedBad) return;
  set_state(*ev, EvState::kGood);
  release_conscripts();  // next() takes on again what the floor still needs
}

void EvSet::on_probe_answer(std::uint16_t index) {
  Ev* ev = movable(index);
  if (ev == nullptr || ev->state != EvState::kAssumedBad) return;
  if (++ev->good_probes >= params_.probes_to_restore) on_spurious(index);
}

void EvSet::on_probe_lost(std::uint16_t index) {
  Ev* ev = movable(index);
  if (ev != nullptr && ev->state == EvState::kAssumedBad) ev->good_probes = 0;
}

void EvSet::deny(std::uint16_t index) {
  Ev* ev = movable(index);
  if (ev == nullptr) return;
  set_state(*ev, EvState::kDenied);
  floor_ = static_cast<std::uint16_t>(std::min<std::size_t>(params_.min_active, evs_.size() - denied_));
}

void EvSet::permit(std::uint16_t index) {
  if (index >= evs_.size() || evs_[index].state != EvState::kDenied) return;
  set_state(evs_[index], EvState::kGood);
  floor_ = static_cast<std::uint16_t>(std::min<std::size_t>(params_.min_active, evs_.size() - denied_));
}

std::optional<std::uint16_t> EvSet::find(std::uint32_t ev) const {
  const std::uint32_t index = (ev ^ key_) & kIndexMask;
  if (index >= evs_.size() || evs_[index].value != ev) return std::nullopt;
  return static_cast<std::uint16_t>(index);
}

std::optional<EvSet::Pick> EvSet::due_probe(Tick now, Random& random, std::uint32_t up_mask) {
  if (bad_ == 0 || now < next_probe_) return std::nullopt;
  const auto interval = static_cast<std::uint64_t>(std::max<std::int64_t>(params_.probe_interval.ns / bad_, 4));
  // 3/4 to 5/4 of the interval: probes of several connections must not march in step.
  const auto jittered = interval - interval / 4 + (interval / 2 * (random.next() >> 32) >> 32);
  next_probe_ = now + nanoseconds(static_cast<std::int64_t>(jittered));
  const unsigned count = size();
  for (unsigned i = 1; i <= count; ++i) {
    const unsigned index = (probe_cursor_ + i) % count;
    const Ev& ev = evs_[index];
    if (ev.state != EvState::kAssumedBad || !(up_mask >> ev.plane & 1)) continue;
    probe_cursor_ = static_cast<std::uint16_t>(index);
    return Pick{ev.value, probe_cursor_, ev.plane};
  }
  next_probe_ = now + params_.probe_interval;  // all of them in planes that are down
  return std::nullopt;
}

}  // namespace mrc::path
