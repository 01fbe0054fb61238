// SPDX-License-Identifier: BSD-2-Clause
// What a client knows of the switch's directory, and for how long. Bounded; time is an argument.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "mrc/path/directory.hpp"
#include "mrc/time.hpp"

namespace mrc::control {

class DirectoryCache {
 public:
  using Answer = path::Directory::Answer;
  static constexpr Duration kUnknownLife = milliseconds(20);
  static constexpr Duration kNoRouteLife = seconds(1);

  explicit DirectoryCache(std::size_t capacity = 65536) : capacity_(capacity) {}

  /// True if the switch must be asked; `answer` and `out` say what is known meanwhile.
  bool lookup(std::uint32_t ipv4, std::uint16_t port, Tick now, Answer& answer, path::Location& out);
  /// The question left (or could not: then the next lookup asks again).
  void asked(std::uint32_t ipv4, std::uint16_t port);
  void learn(std::uint32_t ipv4, std::uint16_t port, Answer answer, path::Location location, Tick now);
  void forget(std::uint32_t ipv4, std::uint16_t port);
  void clear() { entries_.clear(); }
  std::size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    Answer answer = Answer::kPending;
    path::Location location{};
    Tick expires = kNever;
  };
  static std::uint64_t key(std::uint32_t ipv4, std::uint16_t port) { return std::uint64_t{ipv4} << 16 | port; }
  void make_room();

  std::size_t capacity_;
  std::unordered_map<std::uint64_t, Entry> entries_;
};

}  // namespace mrc::control
