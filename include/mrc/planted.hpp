// SPDX-License-Identifier: BSD-2-Clause
// Bugs planted on purpose, to prove that test/faults finds such things. In every build but that test's own core
// (-DMRC_PLANTED) planted() is a constant false and leaves no trace in the code.
#pragma once

#include <cstdint>
#include <type_traits>

namespace mrc {

enum class Bug : std::uint8_t {
  kNone,
  kWindowOffByOne,      ///< one packet more than the window allows
  kSackBaseOffByOne,    ///< a SACK's bitmap is said to begin one packet later than it does
  kCompletionTwice,     ///< the completion of a long message comes twice
  kSilentAfterRevival,  ///< nothing is retransmitted after all planes were down and one comes back
  kLostBytesInFlight,   ///< a lost packet's bytes are not taken off the flight
  kTrimmedForgotten,    ///< a trimmed packet is not queued for retransmission
  kDeadEvInUse,         ///< ASSUMED_BAD EVs stay in the walk
  kPsnWrap,             ///< sequence numbers jump where the 24-bit PSN wraps
  kSegmentLeaked,       ///< a window's last segment is not given back
  kSegmentGivenEarly,   ///< a window's segment is given back one packet too early
  kDuplicatePlaced,     ///< a duplicate above the cumulative number is placed again
  kTimerNotRearmed,     ///< the timer is not set again after a tail probe
  kStaleInitAccepted,   ///< a late INIT of a former life or instance starts the connection over
  kCount
};

#ifdef MRC_PLANTED
inline Bug planted_bug = Bug::kNone;  ///< the one that is active; set before anything runs
constexpr bool planted(Bug bug) {
  return !std::is_constant_evaluated() && planted_bug == bug;
}
#else
constexpr bool planted(Bug) {
  return false;
}
#endif

}  // namespace mrc
