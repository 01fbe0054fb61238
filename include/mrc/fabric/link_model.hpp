// SPDX-License-Identifier: BSD-2-Clause
// A link's rate and the two queues in front of it, in O(1) per packet: no packet is kept, only the time until which
// each class is busy ("busy until"). Sans-IO; packets must come in time order for the figures to hold.
//
// Two classes, strict priority (mrc-protocol §1): control (SACK, NACK, ACK, trimmed packets) before data. What the
// busy-until times approximate: a control packet waits for the control packets ahead of it and for what is left of the
// one data packet on the wire; the data that it overtakes is already on its way in this model, so its serialisation
// time is added to what the *next* data packet waits. The link's total work is exact.
#pragma once

#include <cstdint>

#include "mrc/random.hpp"
#include "mrc/time.hpp"

namespace mrc::fabric {

/// What a frame takes on the wire beside its L3 bytes: Ethernet header, FCS, preamble and gap. Queues count it.
inline constexpr std::uint32_t kFrameOverhead = 14 + 4 + 20;

/// One direction of one link. Thresholds are bytes (with kFrameOverhead) that wait when a packet arrives; 0 = off.
struct LinkModel {
  std::uint64_t bps = 0;            ///< 0: infinite, no queue; else at least 100 000
  Duration delay{};                 ///< propagation and the switch behind it
  std::uint32_t ecn_min = 0;        ///< data: the chance of a mark rises from 0 here …
  std::uint32_t ecn_max = 0;        ///< … to 1 here. Never on the last hop
  std::uint32_t trim_at = 0;        ///< trimmable data above this is cut to 128 bytes and goes in the control class
  std::uint32_t drop_at = 0;        ///< data above this is dropped; 0: where a second's worth waits
  std::uint32_t control_limit = 0;  ///< the same for the control class

  bool operator==(const LinkModel&) const = default;
};

enum class LinkRole : std::uint8_t {
  kFromNic,  ///< a host's own queue: it neither marks nor trims, the driver's ring bounds it
  kInner,    ///< T0-T1, T1-T0
  kToNic,    ///< the last hop: no marks, trims later
};

/// mrc-protocol §4 with the plane's BDP = bps × base_rtt (at least eight frames of `mtu`): ECN 0.2-0.8, trim at 1
/// (last hop 1.5), drop at 3 (last hop 4), control class 1.
LinkModel link_model(LinkRole role, std::uint64_t bps, Duration base_rtt, Duration delay = {},
                     std::uint32_t mtu = 4352);

class LinkQueue {
 public:
  enum class Verdict : std::uint8_t { kPass, kMark, kTrim, kDrop };

  /// Takes effect with the next packet; what waits keeps its bytes and now leaves at the new rate.
  void set(const LinkModel& model, Tick now);
  bool rated() const { return per_byte_ != 0; }
  std::uint64_t bps() const { return bps_; }

  /// What becomes of a data packet that arrives now. kMark and kTrim only where the packet allows it.
  Verdict judge(Tick now, bool ect, bool trimmable, Random& random);
  bool control_full(Tick now) const { return control_wait(now) > control_limit_; }

  // Adds a packet; returns when its last bit has left. Precondition: rated().
  Tick push_data(Tick now, std::uint32_t l3_bytes);
  Tick push_control(Tick now, std::uint32_t l3_bytes);

  /// How long the link is busy with what it has. 0 when idle or not rated.
  std::int64_t wait(Tick now) const { return data_free_ > now.ns ? data_free_ - now.ns : 0; }
  std::int64_t control_wait(Tick now) const { return control_free_ > now.ns ? control_free_ - now.ns : 0; }
  std::uint64_t backlog_bytes(Tick now) const { return bytes_in(wait(now)); }  ///< of both classes
  std::uint64_t control_bytes(Tick now) const { return bytes_in(control_wait(now)); }
  std::uint64_t peak_bytes() const;  ///< largest backlog_bytes() so far
  void clear_peak() { peak_wait_ = 0, peak_before_ = 0; }
  /// Nanoseconds that `l3_bytes` take on the wire, rounded up. 0 when not rated.
  std::int64_t serialisation(std::uint32_t l3_bytes) const;

 private:
  static constexpr unsigned kFraction = 30;  ///< bits of a nanosecond

  std::uint64_t cost(std::uint32_t l3_bytes) const { return (std::uint64_t{l3_bytes} + kFrameOverhead) * per_byte_; }
  std::uint64_t bytes_in(std::int64_t wait) const;
  std::int64_t time_of(std::uint64_t bytes) const;
  void add(std::int64_t& free, std::uint32_t& rest, Tick now, std::uint64_t cost) const;

  std::uint64_t per_byte_ = 0;  ///< 2^-30 ns
  std::int64_t data_free_ = 0, control_free_ = 0;
  std::uint32_t data_rest_ = 0, control_rest_ = 0;  ///< 2^-30 ns beyond
  std::int64_t last_data_ = 0;                      ///< ns that the newest data packet takes
  // Thresholds in ns of waiting; INT64_MAX: off.
  std::int64_t ecn_min_ = INT64_MAX, ecn_max_ = INT64_MAX, trim_ = INT64_MAX, drop_ = INT64_MAX;
  std::int64_t control_limit_ = INT64_MAX;
  std::int64_t peak_wait_ = 0;     ///< at this rate
  std::uint64_t peak_before_ = 0;  ///< bytes, at earlier rates
  std::uint64_t bps_ = 0;
};

}  // namespace mrc::fabric
