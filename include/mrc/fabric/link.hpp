// SPDX-License-Identifier: BSD-2-Clause
// One direction of one cable: what it does to the packets that cross it, and its counters.
// Sans-IO: packets are the caller's bytes, changed in place; delays are reported, not waited for; randomness is an
// argument. The seam for rates and queues is Link::carry(): it knows when a packet arrives (Transit) and may add delay,
// mark, trim or drop; marking and trimming by probability stand in for queues until a link has one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "mrc/random.hpp"
#include "mrc/time.hpp"
#include "mrc/wire/params.hpp"

namespace mrc::fabric {

/// Why a packet (or one copy of it) went no further.
enum class DropCause : std::uint8_t {
  kNone,
  kLoss,  ///< random loss of a link
  kLinkDown,
  kSwitchDown,
  kPlaneDown,
  kMalformed,    ///< shorter than an IPv6 header, or not version 6
  kHopLimit,     ///< used up
  kNotForMe,     ///< locator or active uSID is not the switch's own
  kUnknownUsid,  ///< the next uSID is no neighbour (or the carrier has ended)
  kNoSuchPort,   ///< the caller named a NIC port that the fabric does not have
  kCount
};
std::string_view to_string(DropCause);
inline constexpr std::size_t kDropCauses = static_cast<std::size_t>(DropCause::kCount);

/// Probabilities are 0..1, per packet; times are ≥ 0. Everything off by default.
struct Impairment {
  double loss = 0;
  double duplicate = 0;
  double corrupt = 0;  ///< one to three flipped bits, anywhere in the packet
  double reorder = 0;  ///< held back by reorder_delay
  Duration reorder_delay = microseconds(50);
  Duration delay{};  ///< for every packet
  double ecn = 0;    ///< ECT packets get CE; never on the last hop (mrc-protocol §4)
  double trim = 0;   ///< trimmable packets are cut to 128 bytes of Ethernet frame

  bool operator==(const Impairment&) const = default;
};

/// One after the other: chances of either, delays added, the longer reorder_delay of those that reorder.
Impairment combine(const Impairment& a, const Impairment& b);

/// packets + duplicated == forwarded + sum of drops; bytes are L3 bytes as offered.
struct LinkCounters {
  std::uint64_t packets = 0, bytes = 0;
  std::uint64_t forwarded = 0;
  std::uint64_t duplicated = 0, corrupted = 0, reordered = 0, marked = 0, trimmed = 0;
  std::array<std::uint64_t, kDropCauses> drops{};
};

/// A packet under way. `length` shrinks when it is trimmed; both copies of a duplicated packet have the same bytes.
struct Transit {
  std::span<std::byte> l3;
  std::size_t length = 0;
  unsigned copies = 1;              ///< 1 or 2
  std::array<Duration, 2> delay{};  ///< since it entered the fabric, per copy
};

/// L3 bytes that are left of a trimmed packet: 128 (SAI's default) less the Ethernet header.
inline constexpr std::size_t kTrimmedL3 = 128 - 14;

class Link {
 public:
  /// Takes effect with the next packet.
  void set(const Impairment& impairment);
  void set_down(bool down) { down_ = down; }
  bool down() const { return down_; }
  const Impairment& impairment() const { return impairment_; }
  const LinkCounters& counters() const { return counters_; }

  /// Carries what is left of a packet; kNone while at least one copy goes on. `last_hop`: the link to the NIC.
  /// Precondition: transit.length ≥ 40 and the bytes start with an IPv6 header.
  DropCause carry(Transit& transit, Random& random, const wire::Dscp& dscp, bool last_hop);

 private:
  void drop(Transit& transit, DropCause cause);

  Impairment impairment_{};
  // The probabilities as 63-bit thresholds: a comparison per packet instead of floating point.
  std::uint64_t loss_ = 0, duplicate_ = 0, corrupt_ = 0, reorder_ = 0, ecn_ = 0, trim_ = 0;
  bool random_ = false;  ///< any of them is not 0: a clean link draws no random number
  bool down_ = false;
  LinkCounters counters_{};
};

}  // namespace mrc::fabric
