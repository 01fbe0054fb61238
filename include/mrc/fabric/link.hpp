// SPDX-License-Identifier: BSD-2-Clause
// One direction of one cable: its queue, what it does to the packets that cross it, and its counters.
// Sans-IO: packets are the caller's bytes, changed in place; delays are reported, not waited for; time and randomness
// are arguments. Order in a link: down? → queue (mark, trim, drop, wait, serialise) → loss, copies, corruption on the
// wire → delay. Packets must come in time order where the link has a rate.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "mrc/fabric/link_model.hpp"
#include "mrc/random.hpp"
#include "mrc/time.hpp"
#include "mrc/wire/params.hpp"

namespace mrc::fabric {

/// Why a packet (or one copy of it) went no further.
enum class DropCause : std::uint8_t {
  kNone,
  kLoss,   ///< random loss of a link
  kBurst,  ///< a burst of losses of a link
  kQueue,  ///< a link's data queue was full
  kControlQueue,
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
  // Bursts of losses (Gilbert-Elliott): each packet starts one with chance burst_enter; it then ends after each packet
  // with chance 1 / burst_length; while it lasts packets are lost with chance burst_loss.
  double burst_enter = 0;
  double burst_length = 1;  ///< mean, in packets of this link; ≥ 1
  double burst_loss = 1;

  bool operator==(const Impairment&) const = default;
};

/// One after the other: chances of either, delays added, the longer reorder_delay and bursts of those that have them.
Impairment combine(const Impairment& a, const Impairment& b);

/// Down for the first `down` of every `period`, counted from `phase` on the caller's clock. No events: asked per
/// packet.
struct Flap {
  Duration period{};  ///< 0: does not flap
  Duration down{};
  Duration phase{};

  bool on() const { return period.ns > 0; }
  bool down_at(Tick now) const { return on() && into(now) < down.ns; }
  Tick next_change(Tick now) const;  ///< the first after now; kNever if it does not flap
  bool operator==(const Flap&) const = default;

 private:
  std::int64_t into(Tick now) const {
    const std::int64_t at = (now.ns - phase.ns) % period.ns;
    return at < 0 ? at + period.ns : at;
  }
};

/// packets + duplicated == forwarded + sum of drops; bytes are L3 bytes as offered.
struct LinkCounters {
  std::uint64_t packets = 0, bytes = 0;
  std::uint64_t forwarded = 0;  ///< over the wire, or still on it
  std::uint64_t duplicated = 0, corrupted = 0, reordered = 0;
  std::uint64_t marked = 0, trimmed = 0;  ///< by the queue or by chance
  std::array<std::uint64_t, kDropCauses> drops{};
};

/// Which bits links flipped in a packet, so that a simulator can compute its iCRC only where it could be wrong.
struct Flips {
  static constexpr unsigned kKept = 6;
  std::uint8_t count = 0;                  ///< may exceed kKept: then `bit` holds the first ones only
  std::array<std::uint32_t, kKept> bit{};  ///< offset in bits from the first L3 byte
};

/// A packet under way. `length` shrinks when it is trimmed; both copies of a duplicated packet have the same bytes.
struct Transit {
  std::span<std::byte> l3;  ///< may hold less than `length`: where a simulator carries no payload
  std::size_t length = 0;
  unsigned copies = 1;              ///< 1 or 2
  std::array<Duration, 2> delay{};  ///< since it entered the fabric, per copy
  Flips* flips = nullptr;           ///< where to record corruption, if anybody wants to know
};

/// L3 bytes that are left of a trimmed packet: 128 (SAI's default) less the Ethernet header.
inline constexpr std::size_t kTrimmedL3 = 128 - 14;

class Link {
 public:
  // Settings take effect with the next packet.
  void set(const Impairment& impairment);
  void set_model(const LinkModel& model, Tick now = {});  ///< what waits in the queue stays, see LinkQueue::set
  void set_down(bool down);
  void set_flap(const Flap& flap);
  bool down() const { return down_; }  ///< as set; flapping apart
  bool down_at(Tick now) const { return down_ || flap_.down_at(now); }
  const Flap& flap() const { return flap_; }
  const Impairment& impairment() const { return impairment_; }
  const LinkModel& model() const { return model_; }
  const LinkQueue& queue() const { return queue_; }
  const LinkCounters& counters() const { return counters_; }

  /// Carries what is left of a packet that arrives at `now`; kNone while at least one copy goes on. `last_hop`: the
  /// link to the NIC. Precondition: transit.length ≥ 40 and the bytes start with an IPv6 header.
  DropCause carry(Transit& transit, Random& random, const wire::Dscp& dscp, bool last_hop, Tick now = {});
  /// A packet that carry() let pass is lost after all: the link went down under it.
  void lose(unsigned copies = 1);

 private:
  void drop(Transit& transit, DropCause cause);
  DropCause enqueue(Transit& transit, Random& random, const wire::Dscp& dscp, bool last_hop, Tick now);
  DropCause impair(Transit& transit, Random& random, const wire::Dscp& dscp, bool last_hop);
  bool burst_takes(Random& random);
  void trim(Transit& transit, const wire::Dscp& dscp, bool last_hop);

  // First what every packet needs.
  LinkQueue queue_;
  Duration delay_{};          ///< of model and impairment
  bool random_ = false;       ///< any probability is not 0: a clean link draws no random number
  bool may_be_down_ = false;  ///< down or flapping
  bool down_ = false;
  bool in_burst_ = false;
  LinkCounters counters_{};
  // The probabilities as 63-bit thresholds: a comparison per packet instead of floating point.
  std::uint64_t loss_ = 0, duplicate_ = 0, corrupt_ = 0, reorder_ = 0, ecn_ = 0, trim_ = 0;
  std::uint64_t burst_enter_ = 0, burst_end_ = 0, burst_loss_ = 0;
  Flap flap_{};
  LinkModel model_{};
  Impairment impairment_{};
};

}  // namespace mrc::fabric
