// SPDX-License-Identifier: BSD-2-Clause
// A script of fabric commands over time, e.g. as TOML:
//
//   scale = 0.1                 # optional: all times are multiplied by it
//   [[event]]
//   at = "1.5s"                 # or a number: seconds
//   do = "link t0-1 t1-2 down"  # or several: do = ["plane 1 down", "loss 0.1%"]
//
// No clock: the owner asks what is due. parse() lives in a source of its own, so that users of a finished Timeline do
// not need the TOML library. Threads: one owner at a time.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "mrc/result.hpp"
#include "mrc/time.hpp"

namespace mrc::fabric {

class Timeline {
 public:
  struct Event {
    Duration at{};  ///< since the timeline's start, scaled
    std::string command;
    unsigned line = 0;  ///< in the file; 0: added by add()
  };

  /// `origin` names the text in errors: "plan.toml, line 7: …". Unknown keys, bad times and empty commands are errors;
  /// whether a command fits a fabric is check_command()'s business.
  static Result<Timeline> parse(std::string_view toml, const std::string& origin, double scale = 1);
  static Result<Timeline> load(const std::string& path, double scale = 1);

  /// Kept sorted by time; at one time in the order they were added.
  void add(Duration at, std::string command, unsigned line = 0);
  const std::vector<Event>& events() const { return events_; }

  /// From here on at() counts. Until then nothing is due.
  void start(Tick now) { start_ = now, next_ = 0; }
  /// When next() will have something; kNever at the end.
  Tick next_due() const;
  /// The next event that is due at `now`, in order; nullptr when there is none (yet).
  const Event* next(Tick now);
  bool done() const { return next_ == events_.size(); }

 private:
  std::vector<Event> events_;
  Tick start_ = kNever;
  std::size_t next_ = 0;
};

}  // namespace mrc::fabric
