// SPDX-License-Identifier: BSD-2-Clause
// A timeline's order and clock.
#include "mrc/fabric/timeline.hpp"

#include <algorithm>

namespace mrc::fabric {

void Timeline::add(Duration at, std::string command, unsigned line) {
  const auto later = [](Duration when, const Event& event) { return when < event.at; };
  const auto place = std::upper_bound(events_.begin() + static_cast<std::ptrdiff_t>(next_), events_.end(), at, later);
  events_.insert(place, Event{at, std::move(command), line});
}

Tick Timeline::next_due() const {
  return done() || start_ == kNever ? kNever : start_ + events_[next_].at;
}

const Timeline::Event* Timeline::next(Tick now) {
  if (start_ == kNever || next_due() > now || done()) return nullptr;
  return &events_[next_++];
}

}  // namespace mrc::fabric
