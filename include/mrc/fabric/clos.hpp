// SPDX-License-Identifier: BSD-2-Clause
// The emulated fabric: planes × (T0 and T1 switches) with SRv6 uSID forwarding (RFC 9800 NEXT-CSID). One library for
// both clocks: mrc-switch runs it in real time, the simulator in virtual time.
//
//   NIC ──▶ T0 ──▶ T1 ──▶ T0 ──▶ NIC      each plane is such a tree of its own; a NIC (t0, index) sits at the same
//            └───────────────▶ NIC        place in all of them. Each link is two Links, one for each direction.
//
// Each switch takes only packets whose active uSID is its own (plane, kind, index), counts the hop limit down, shifts
// the carrier and forwards to the neighbour that the next uSID names. The last T0 delivers to the NIC's port, whose
// uSID stays active. Bytes are the caller's and are changed in place. Who may send what is the caller's business.
//
// Two ways to carry a packet:
//   enter() and step(): hop by hop. A driver with a heap of events calls step() for each packet at the time that the
//     call before gave, so that every queue sees packets in time order. Where no link has a rate there is one step
//     only.
//   forward(): all at once, at send time. Right where no link has a rate; with rates, queues see packets as early as
//     they are sent.
// Threads: one owner at a time. No allocation on the packet path.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "mrc/fabric/link.hpp"
#include "mrc/path/route.hpp"
#include "mrc/path/usid.hpp"
#include "mrc/random.hpp"
#include "mrc/time.hpp"
#include "mrc/wire/params.hpp"

namespace mrc::fabric {

/// Counts are clamped to what a uSID can number (UsidLayout::index_bits) and to path::kMaxPlanes.
struct ClosConfig {
  std::uint8_t planes = 4;
  std::uint16_t t0s = 2;
  std::uint16_t t1s = 4;    ///< per plane: the uplinks of each T0
  std::uint16_t nics = 16;  ///< ports to NICs per T0
  std::uint32_t locator = path::kDefaultLocator;
  path::UsidLayout usid{};
  wire::Dscp dscp{};      ///< which packets may be trimmed, and what trimmed ones are called
  Duration link_delay{};  ///< of every link, beside its model's and its impairments'
  std::uint64_t seed = 1;
  LinkModel nic_to_t0{}, t0_to_nic{}, t0_t1{};  ///< t0_t1: both ways
  /// Uneven planes: what share of the models' rates each plane's links have. Thresholds stay as they are.
  std::array<double, path::kMaxPlanes> plane_rate{1, 1, 1, 1, 1, 1, 1, 1};
  Duration base_rtt = microseconds(10);  ///< for link_model() where a command gives a rate to a link without one

  /// Every link at `bps`, with link_model()'s thresholds for `rtt` (the base RTT). NIC links and T0-T1 links may
  /// differ.
  void set_rates(std::uint64_t nic_bps, std::uint64_t t1_bps, Duration rtt);
  void set_rates(std::uint64_t bps, Duration rtt) { set_rates(bps, bps, rtt); }
};

/// Where a packet enters: the port of one NIC in one plane.
struct NicPort {
  path::Location nic{};
  std::uint8_t plane = 0;
  bool operator==(const NicPort&) const = default;
};

enum class LinkKind : std::uint8_t { kNicToT0, kT0ToNic, kT0ToT1, kT1ToT0 };

struct LinkId {
  LinkKind kind = LinkKind::kNicToT0;
  std::uint8_t plane = 0;
  std::uint16_t t0 = 0;
  std::uint16_t far = 0;  ///< NIC index or T1 index
};

struct SwitchId {
  path::UsidKind kind = path::UsidKind::kT0;  ///< kT0 or kT1
  std::uint8_t plane = 0;
  std::uint16_t index = 0;
};

struct SwitchCounters {
  std::uint64_t packets = 0;  ///< that reached it
  std::array<std::uint64_t, kDropCauses> drops{};
};

struct Delivery {
  path::Location to{};
  std::uint8_t plane = 0;
  Duration delay{};  ///< from entry to here
};

/// What became of a packet. With count == 2 both deliveries have the same bytes: copy before giving them away.
struct Outcome {
  unsigned count = 0;
  std::array<Delivery, 2> deliveries{};
  DropCause drop = DropCause::kNone;  ///< why, when count is 0
  std::size_t length = 0;             ///< L3 bytes left (a trimmed packet is shorter)

  std::span<const Delivery> all() const { return {deliveries.data(), count}; }
};

/// A packet between two calls of step(). Plain data: a twin's is a copy of its original's.
struct InFlight {
  std::uint32_t link = 0;    ///< index of the link that it is crossing
  std::uint32_t length = 0;  ///< L3 bytes left
  std::uint8_t plane = 0;
  bool arriving = false;  ///< on the link to the NIC `to`: the next step() delivers (or drops) it
  path::Location to{};
  Flips flips{};  ///< what corruption did to it so far
};

enum class Progress : std::uint8_t { kMoving, kDelivered, kDropped };

struct Step {
  Progress progress = Progress::kDropped;
  DropCause drop = DropCause::kNone;  ///< why, when dropped
  bool twin = false;  ///< moving, and the link made a second packet: the driver copies bytes and InFlight …
  Tick when{};        ///< moving: call step() then
  Tick twin_when{};   ///< … and steps the copy then; a packet of its own from here on
};

/// offered + duplicated == delivered + sum of drops + in_flight, always.
struct Totals {
  std::uint64_t in_flight = 0;  ///< entered, and not yet delivered or dropped by step()
  std::uint64_t offered = 0, delivered = 0, duplicated = 0, corrupted = 0, reordered = 0, marked = 0, trimmed = 0;
  std::array<std::uint64_t, kDropCauses> drops{};
  std::uint64_t dropped() const;
};

class Clos {
 public:
  explicit Clos(const ClosConfig& config);

  /// Carries the packet `l3` (from its outer IPv6 header on) through the fabric as it is at `now`.
  Outcome forward(std::span<std::byte> l3, const NicPort& from, Tick now);

  /// Presents the packet to its NIC's link at `now`, and carries it as far as no queue can matter. `l3` must hold the
  /// same bytes (or a copy of them) at each step; only its first flight.length are the packet.
  Step enter(InFlight& flight, std::span<std::byte> l3, const NicPort& from, Tick now) {
    return enter(flight, l3, static_cast<std::uint32_t>(l3.size()), from, now);
  }
  /// The same for a packet of `length` bytes of which the driver holds only the first: headers without their payload.
  Step enter(InFlight& flight, std::span<std::byte> l3, std::uint32_t length, const NicPort& from, Tick now);
  /// The packet reaches the end of its link at `now`: delivered, or switched and sent over the next. Down links,
  /// switches and planes take the packets that are on their way, too.
  Step step(InFlight& flight, std::span<std::byte> l3, Tick now);
  /// The driver gives up a packet that it would have had to step (counted as loss of the link that it is on).
  void abandon(const InFlight& flight);
  /// What the NIC's own queue holds: a driver sends no more than its ring takes. 0 without a rate.
  Duration port_wait(const NicPort& port, Tick now) const;

  // Settings hold from the next packet on. Ids outside the fabric: false, nothing changes.
  void set_global(const Impairment& impairment);                 ///< once per packet, on its first link
  bool set_plane(unsigned plane, const Impairment& impairment);  ///< once per packet of the plane, on its first link
  bool set_switch(const SwitchId& id, const Impairment& impairment);  ///< once per packet that it forwards
  bool set_link(const LinkId& id, const Impairment& impairment);      ///< this direction of one link
  bool set_model(const LinkId& id, const LinkModel& model);           ///< this direction; link_delay is added
  bool set_rate(const LinkId& id, std::uint64_t bps);                 ///< degraded; 0: the model's own again
  bool set_flap(const LinkId& id, const Flap& flap);                  ///< this direction
  void set_ecn(bool on);                                              ///< false: no queue marks
  void set_trim(bool on);  ///< false: no queue trims, data is dropped at drop_at
  /// All faults off: impairments, flapping, everything up, models' rates, ECN and trimming on.
  void clear();
  bool set_plane_down(unsigned plane, bool down);
  bool set_switch_down(const SwitchId& id, bool down);
  bool set_link_down(const LinkId& id, bool down);   ///< this direction
  bool set_cable_down(const LinkId& id, bool down);  ///< both directions

  /// What the NIC at this port sees: carrier. False if its cable (either way), its T0 or the plane is down.
  bool carrier(const NicPort& port) const;            ///< flapping apart
  bool carrier(const NicPort& port, Tick now) const;  ///< with flapping
  Tick next_flap(Tick now) const;                     ///< when a flapping NIC link next changes; kNever
  bool plane_down(unsigned plane) const;
  bool switch_down(const SwitchId& id) const;  ///< itself; true outside the fabric
  bool ecn() const { return ecn_; }
  bool trim() const { return trim_; }
  bool rated() const { return rated_ != 0; }  ///< any link has a rate: forward() is not exact

  const ClosConfig& config() const { return config_; }
  /// nullptr outside the fabric. Settings as given, without those of plane, switch or fabric.
  const LinkCounters* link_counters(const LinkId& id) const;
  const Impairment* link_impairment(const LinkId& id) const;
  bool link_down(const LinkId& id) const;
  const Link* link(const LinkId& id) const;  ///< with everything folded in: model, queue, flap, counters
  const Impairment& global_impairment() const { return global_; }
  const Impairment* plane_impairment(unsigned plane) const;
  const Impairment* switch_impairment(const SwitchId& id) const;
  LinkModel model(const LinkId& id) const;  ///< as set_model() or the configuration said; {} outside the fabric
  const SwitchCounters* switch_counters(const SwitchId& id) const;
  Totals totals() const;

  /// For every link: fn(LinkId). For status tables and counters.
  template <class Fn>
  void for_each_link(Fn&& fn) const {
    for (std::uint8_t plane = 0; plane < config_.planes; ++plane) {
      for (std::uint16_t t0 = 0; t0 < config_.t0s; ++t0) {
        for (std::uint16_t n = 0; n < config_.nics; ++n) {
          fn(LinkId{LinkKind::kNicToT0, plane, t0, n});
          fn(LinkId{LinkKind::kT0ToNic, plane, t0, n});
        }
        for (std::uint16_t n = 0; n < config_.t1s; ++n) {
          fn(LinkId{LinkKind::kT0ToT1, plane, t0, n});
          fn(LinkId{LinkKind::kT1ToT0, plane, t0, n});
        }
      }
    }
  }
  template <class Fn>
  void for_each_switch(Fn&& fn) const {
    for (std::uint8_t plane = 0; plane < config_.planes; ++plane) {
      for (std::uint16_t n = 0; n < config_.t0s; ++n) fn(SwitchId{path::UsidKind::kT0, plane, n});
      for (std::uint16_t n = 0; n < config_.t1s; ++n) fn(SwitchId{path::UsidKind::kT1, plane, n});
    }
  }

 private:
  struct Cable {            // one direction
    Link link;              // with everything that applies folded in
    std::uint32_t end = 0;  // index of the switch behind it; of the T0 for links to NICs
    std::uint16_t far = 0;  // LinkId::far
    bool to_nic = false;
    std::uint64_t rate = 0;  // set_rate()
    LinkModel model;         // set_model()
    Impairment own;          // what set_link() said
  };
  struct Switch {
    SwitchId id;
    std::uint16_t usid = 0;  // its own
    bool down = false;
    std::size_t first = 0;    // index of its link to NIC 0 (a T0's) or to T0 0 (a T1's)
    std::uint32_t rated = 0;  // links from it that have a rate
    SwitchCounters counters;
    Impairment impairment;
  };
  struct Hop {
    DropCause cause = DropCause::kNone;
    std::uint32_t link = 0;
  };
  static constexpr std::size_t kNowhere = SIZE_MAX;

  std::size_t index_of(const LinkId& id) const;
  std::size_t index_of(const SwitchId& id) const;
  void refold(const LinkId& id);
  void refold_all();
  DropCause admit(std::span<const std::byte> l3, const NicPort& from, std::size_t& link);
  Hop pass(const Switch& at, std::span<std::byte> l3) const;
  Step move(InFlight& flight, std::span<std::byte> l3, Tick now);
  Step refuse(DropCause cause);

  ClosConfig config_;
  Random random_;
  Impairment global_{};
  std::array<Impairment, path::kMaxPlanes> plane_impairments_{};
  std::array<bool, path::kMaxPlanes> plane_down_{};
  bool ecn_ = true, trim_ = true;
  std::uint32_t rated_ = 0;  // links with a rate
  Tick now_{};               // of the newest packet: settings have no clock of their own
  std::vector<Cable> links_;
  std::vector<Switch> switches_;
  std::vector<LinkId> flapping_;  // NIC links, either direction
  Totals totals_{};  // offered, delivered, in_flight and drops outside links and switches; totals() adds the rest
};

}  // namespace mrc::fabric
