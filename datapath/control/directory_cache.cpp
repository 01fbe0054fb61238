// SPDX-License-Identifier: BSD-2-Clause
// The client's copy of the directory.
#include "directory_cache.hpp"

namespace mrc::control {

bool DirectoryCache::lookup(std::uint32_t ipv4, std::uint16_t port, Tick now, Answer& answer, path::Location& out) {
  answer = Answer::kPending;
  const auto at = entries_.find(key(ipv4, port));
  if (at == entries_.end()) return true;
  if (at->second.expires <= now) {
    entries_.erase(at);
    return true;
  }
  answer = at->second.answer;
  if (answer == Answer::kFound) out = at->second.location;
  return false;
}

void DirectoryCache::asked(std::uint32_t ipv4, std::uint16_t port) {
  make_room();
  entries_.insert_or_assign(key(ipv4, port), Entry{});
}

void DirectoryCache::learn(std::uint32_t ipv4, std::uint16_t port, Answer answer, path::Location location, Tick now) {
  make_room();
  Entry entry{answer, location, kNever};
  if (answer == Answer::kUnknown) entry.expires = now + kUnknownLife;
  if (answer == Answer::kNoRoute) entry.expires = now + kNoRouteLife;
  entries_.insert_or_assign(key(ipv4, port), entry);
}

void DirectoryCache::forget(std::uint32_t ipv4, std::uint16_t port) {
  entries_.erase(key(ipv4, port));
}

void DirectoryCache::make_room() {
  if (entries_.size() < capacity_) return;
  // Negative answers go first: asking again is cheap. Then everything, for the same reason.
  std::erase_if(entries_, [](const auto& e) { return e.second.answer != Answer::kFound; });
  if (entries_.size() >= capacity_) entries_.clear();
}

}  // namespace mrc::control
