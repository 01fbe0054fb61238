// SPDX-License-Identifier: BSD-2-Clause
// The states of EVs: blame, backups, the floor, shared paths, probes and relapses (mrc-protocol §2, docs/protocol.md).
#include <algorithm>
#include <array>
#include <bit>

#include "mrc/path/ev_set.hpp"

namespace mrc::path {
namespace {

constexpr unsigned kMaxAnswers = 64;  // good_probes counts up to the one before
constexpr unsigned kMaxRelapse = 7;
constexpr unsigned kMaxMarks = 6;        // 64 rotations
constexpr unsigned kOwnPath = 1u << 16;  // group numbers of EVs that share their path with nobody

}  // namespace

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
  if (!ev.active) return;
  PlaneWalk& walk = walks_[ev.plane];
  add(walk.usable);
  set_bit(usable_planes_, ev.plane, walk.usable != 0);
  set_bit(short_planes_, ev.plane, walk.usable < floor_);
}

void EvSet::set_state(Ev& ev, EvState state) {
  count(ev, -1);
  ev.state = state;
  ev.conscripted = 0;
  ev.good_probes = 0;
  if (ev.strikes != 0) --struck_;
  ev.strikes = 0;
  count(ev, 1);
  if (bad_ == 0) next_probe_ = kNever;
}

Ev* EvSet::movable(std::uint16_t index) {
  if (index >= evs_.size() || evs_[index].state == EvState::kDenied) return nullptr;
  return &evs_[index];
}

void EvSet::forgive(std::uint16_t index) {
  if (index >= evs_.size() || evs_[index].strikes == 0) return;
  evs_[index].strikes = 0;
  --struck_;
}

// --- seats

void EvSet::swap_seats(Ev& leaving, Ev& coming) {
  const auto evs = plane_evs(leaving.plane);
  const auto from = static_cast<std::uint32_t>(&leaving - evs.data());
  for (unsigned seat = 0; seat < seats_; ++seat) {
    if (evs[seat].seat != from) continue;
    count(leaving, -1);
    count(coming, -1);
    leaving.active = 0;
    leaving.conscripted = 0;
    coming.active = 1;
    evs[seat].seat = static_cast<std::uint32_t>(&coming - evs.data()) & 0x3ff;
    count(leaving, 1);
    count(coming, 1);
    ++replaced_;
    return;
  }
}

/// `ev` is of no use any more: a good backup of its plane takes its seat, one without a record first.
void EvSet::unseat(Ev& ev) {
  if (!ev.active) return;
  Ev* best = nullptr;
  for (Ev& other : plane_evs(ev.plane)) {
    if (other.active || other.state != EvState::kGood) continue;
    if (best == nullptr || other.relapse < best->relapse) best = &other;
  }
  if (best != nullptr) swap_seats(ev, *best);
}

/// `ev` is good again: should a seat of its plane be held by one that is not, it takes it.
void EvSet::find_seat(Ev& ev) {
  if (ev.active || ev.state != EvState::kGood) return;
  for (Ev& other : plane_evs(ev.plane)) {
    if (other.active && (other.state == EvState::kAssumedBad || other.state == EvState::kDenied)) {
      return swap_seats(other, ev);
    }
  }
}

// --- the floor

/// One ASSUMED_BAD EV of the plane back into use: one that answered probes if there is such, else whose turn it is.
bool EvSet::conscript_one(unsigned plane) {
  const auto evs = plane_evs(plane);
  Ev* chosen = nullptr;
  for (unsigned i = 0; i < evs.size(); ++i) {
    Ev& ev = evs[(conscript_cursor_ + i) % evs.size()];
    if (ev.state != EvState::kAssumedBad || ev.conscripted || !ev.active) continue;
    if (chosen == nullptr || (ev.good_probes != 0 && chosen->good_probes == 0)) chosen = &ev;
  }
  if (chosen == nullptr) return false;
  conscript_cursor_ = static_cast<std::uint16_t>((chosen - evs.data() + 1) % static_cast<int>(evs.size()));
  count(*chosen, -1);
  chosen->conscripted = 1;
  count(*chosen, 1);
  return true;
}

void EvSet::keep_floor(std::uint32_t up_mask) {
  // A plane without any usable EV stays out, as long as another one works.
  const bool nothing = (usable_planes_ & up_mask) == 0;
  for (unsigned plane = 0; plane < planes_; ++plane) {
    const std::uint32_t bit = 1u << plane;
    if (!(up_mask & bit) || (!nothing && !(usable_planes_ & bit))) continue;
    while (walks_[plane].usable < std::max<unsigned>(floor_, 1) && conscript_one(plane)) {
    }
    set_bit(short_planes_, plane, false);  // everything that could be done is done
  }
}

void EvSet::release_conscripts() {
  if (conscripts_ == 0) return;
  for (Ev& ev : evs_) {
    if (!ev.conscripted) continue;
    count(ev, -1);
    ev.conscripted = 0;
    count(ev, 1);
  }
}

// --- shared paths

unsigned EvSet::group_of(std::size_t index) const {
  const Ev& ev = evs_[index];
  return shared_paths_ ? ev.plane << 8 | EvLayout::uplink(ev.value) : kOwnPath + static_cast<unsigned>(index);
}

void EvSet::recount_groups() {
  if (!shared_paths_ || bad_ == 0) {
    bad_groups_ = bad_;
    return;
  }
  std::array<std::uint64_t, kMaxPlanes * 4> seen{};
  for (std::size_t i = 0; i < evs_.size(); ++i) {
    if (evs_[i].state != EvState::kAssumedBad) continue;
    const unsigned group = group_of(i);
    seen[group >> 6] |= std::uint64_t{1} << (group & 63);
  }
  unsigned groups = 0;
  for (const std::uint64_t word : seen) groups += static_cast<unsigned>(std::popcount(word));
  bad_groups_ = static_cast<std::uint16_t>(groups);
}

/// Two EVs of one uplink blamed close together: it is the uplink, and the others on it need not lose anything first.
void EvSet::blame_group(std::uint16_t index, Tick now) {
  if (!shared_paths_) return;
  if (now - blamed_at_ > params_->group_window) blamed_.fill(UINT16_MAX);
  blamed_at_ = now;
  const unsigned group = group_of(index);
  bool again = false;
  for (const std::uint16_t before : blamed_) {
    again = again || (before != UINT16_MAX && before != index && group_of(before) == group);
  }
  std::shift_right(blamed_.begin(), blamed_.end(), 1);
  blamed_[0] = index;
  if (!again) return;
  for (std::size_t i = 0; i < evs_.size(); ++i) {
    Ev& other = evs_[i];
    if (other.state != EvState::kGood && other.state != EvState::kSkip) continue;
    if (group_of(i) != group) continue;
    other.relapse = evs_[index].relapse;
    turn_bad(other);
  }
}

// --- blame and restoration

unsigned EvSet::answers_needed(std::uint16_t index) const {
  if (index >= evs_.size() || params_->probes_to_restore == 0) return 1;
  const unsigned relapse = evs_[index].relapse;
  const unsigned doublings = relapse <= 1 ? 0 : relapse - 1;
  return std::min(unsigned{params_->probes_to_restore} << doublings, kMaxAnswers);
}

/// What happened more than relapse_memory ago counts half, then nothing.
void EvSet::decay(Tick now) {
  if (!relapses_ || now < forget_at_) return;
  const auto period = std::max<std::int64_t>(params_->relapse_memory.ns, 1);
  const auto steps = static_cast<unsigned>(std::min<std::int64_t>((now - forget_at_).ns / period + 1, kMaxRelapse));
  forget_at_ = now + params_->relapse_memory;
  relapses_ = false;
  for (Ev& ev : evs_) {
    if (ev.relapse == 0) continue;
    if (ev.state != EvState::kAssumedBad) ev.relapse = ev.relapse > steps ? (ev.relapse - steps) & 7u : 0u;
    relapses_ = relapses_ || ev.relapse != 0;
  }
}

void EvSet::turn_bad(Ev& ev) {
  set_state(ev, EvState::kAssumedBad);
  unseat(ev);
}

bool EvSet::on_lost(std::uint16_t index, Tick now, unsigned strikes) {
  Ev* ev = movable(index);
  if (ev == nullptr) return false;
  if (ev->state != EvState::kAssumedBad) {
    if (ev->strikes + 1u < std::min(strikes, 4u)) {
      if (ev->strikes == 0) ++struck_;
      ev->strikes = (ev->strikes + 1u) & 3u;
      return false;
    }
    decay(now);
    if (!relapses_) forget_at_ = now + params_->relapse_memory;
    relapses_ = true;
    ev->relapse = std::min<unsigned>(ev->relapse + 1u, kMaxRelapse) & 7u;
    turn_bad(*ev);
    blame_group(index, now);
    recount_groups();
    if (next_probe_ == kNever) next_probe_ = now + params_->probe_interval;
    return true;
  }
  // A conscript that loses again makes way, so that another one is tried in its place.
  if (ev->conscripted) conscript_cursor_ = static_cast<std::uint16_t>((index % stride_ + 1u) % stride_);
  set_state(*ev, EvState::kAssumedBad);
  return false;
}

void EvSet::on_ecn(std::uint16_t index) {
  Ev* ev = movable(index);
  if (ev == nullptr || ev->state != EvState::kGood || !ev->active) return;
  set_state(*ev, EvState::kSkip);
  ev->good_probes = ((1u << ev->marks) - 1) & 63u;
  ev->marks = std::min(ev->marks + 1u, kMaxMarks) & 7u;
}

void EvSet::on_trim(std::uint16_t index) {
  on_ecn(index);
}

void EvSet::restore(Ev& ev) {
  set_state(ev, EvState::kGood);
  find_seat(ev);
}

void EvSet::on_spurious(std::uint16_t index) {
  Ev* ev = movable(index);
  if (ev == nullptr || ev->state != EvState::kAssumedBad) return;
  if (ev->relapse != 0) --ev->relapse;  // it never was bad
  restore(*ev);
  release_conscripts();  // next() takes on again what the floor still needs
  recount_groups();
}

void EvSet::on_probe_answer(std::uint16_t index) {
  const Ev* asked = movable(index);
  if (asked == nullptr || asked->state != EvState::kAssumedBad) return;
  const unsigned group = group_of(index);
  bool restored = false;
  for (std::size_t i = shared_paths_ ? 0 : index; i < evs_.size(); ++i) {
    Ev& ev = evs_[i];
    if (ev.state == EvState::kAssumedBad && group_of(i) == group) {
      if (ev.good_probes + 1u >= answers_needed(static_cast<std::uint16_t>(i))) {
        restore(ev);
        restored = true;
      } else {
        ev.good_probes = (ev.good_probes + 1u) & 63u;
      }
    }
    if (!shared_paths_) break;
  }
  if (!restored) return;
  release_conscripts();
  recount_groups();
}

void EvSet::on_probe_lost(std::uint16_t index) {
  const Ev* asked = movable(index);
  if (asked == nullptr || asked->state != EvState::kAssumedBad) return;
  const unsigned group = group_of(index);
  for (std::size_t i = shared_paths_ ? 0 : index; i < evs_.size(); ++i) {
    if (group_of(i) == group) evs_[i].good_probes = 0;
    if (!shared_paths_) break;
  }
}

void EvSet::deny(std::uint16_t index) {
  Ev* ev = movable(index);
  if (ev == nullptr) return;
  set_state(*ev, EvState::kDenied);
  unseat(*ev);
  recount_groups();
}

void EvSet::permit(std::uint16_t index) {
  if (index >= evs_.size() || evs_[index].state != EvState::kDenied) return;
  restore(evs_[index]);
  release_conscripts();
}

void EvSet::pardon(unsigned plane) {
  if (plane >= planes_) return;
  for (Ev& ev : plane_evs(plane)) {
    if (ev.strikes != 0) --struck_;
    ev.strikes = 0;
    if (ev.state != EvState::kAssumedBad) continue;
    ev.relapse = 0;
    restore(ev);
  }
  release_conscripts();
  recount_groups();
}

// --- probes

std::optional<EvSet::Pick> EvSet::due_probe(Tick now, Random& random, std::uint32_t up_mask) {
  if (bad_ == 0 || now < next_probe_) return std::nullopt;
  decay(now);
  const auto interval =
      static_cast<std::uint64_t>(std::max<std::int64_t>(params_->probe_interval.ns / std::max<int>(bad_groups_, 1), 4));
  // 3/4 to 5/4 of the interval: probes of several connections must not march in step.
  const auto jittered = interval - interval / 4 + (interval / 2 * (random.next() >> 32) >> 32);
  next_probe_ = now + nanoseconds(static_cast<std::int64_t>(jittered));
  // The next group after the last one, and any EV of it.
  std::uint32_t best = UINT32_MAX;
  std::size_t chosen = 0;
  unsigned members = 0;
  for (std::size_t i = 0; i < evs_.size(); ++i) {
    const Ev& ev = evs_[i];
    if (ev.state != EvState::kAssumedBad || !(up_mask >> ev.plane & 1)) continue;
    const std::uint32_t distance = (group_of(i) - probe_group_ - 1) & 0xfffff;
    if (distance > best) continue;
    if (distance < best) members = 0;
    best = distance;
    if (random.below(++members) == 0) chosen = i;
  }
  if (members == 0) {
    next_probe_ = now + params_->probe_interval;  // all of them in planes that are down
    return std::nullopt;
  }
  probe_group_ = group_of(chosen);
  return Pick{evs_[chosen].value, static_cast<std::uint16_t>(chosen), static_cast<std::uint8_t>(evs_[chosen].plane)};
}

}  // namespace mrc::path
