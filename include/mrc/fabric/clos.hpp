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
// Threads: one owner at a time. No allocation after the constructor.
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
  Duration link_delay{};  ///< of every link, beside its impairments
  std::uint64_t seed = 1;
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

/// offered + duplicated == delivered + sum of drops, always.
struct Totals {
  std::uint64_t offered = 0, delivered = 0, duplicated = 0, corrupted = 0, reordered = 0, marked = 0, trimmed = 0;
  std::array<std::uint64_t, kDropCauses> drops{};
  std::uint64_t dropped() const;
};

class Clos {
 public:
  explicit Clos(const ClosConfig& config);

  /// Carries the packet `l3` (from its outer IPv6 header on) through the fabric as it is at `now`.
  Outcome forward(std::span<std::byte> l3, const NicPort& from, Tick now);

  // Settings hold from the next packet on. Ids outside the fabric: false, nothing changes.
  void set_global(const Impairment& impairment);                 ///< once per packet, on its first link
  bool set_plane(unsigned plane, const Impairment& impairment);  ///< once per packet of the plane, on its first link
  bool set_switch(const SwitchId& id, const Impairment& impairment);  ///< once per packet that it forwards
  bool set_link(const LinkId& id, const Impairment& impairment);      ///< this direction of one link
  bool set_plane_down(unsigned plane, bool down);
  bool set_switch_down(const SwitchId& id, bool down);
  bool set_link_down(const LinkId& id, bool down);   ///< this direction
  bool set_cable_down(const LinkId& id, bool down);  ///< both directions

  /// What the NIC at this port sees: carrier. False if its cable (either way), its T0 or the plane is down.
  bool carrier(const NicPort& port) const;
  bool plane_down(unsigned plane) const;

  const ClosConfig& config() const { return config_; }
  /// nullptr outside the fabric. Settings as given, without those of plane, switch or fabric.
  const LinkCounters* link_counters(const LinkId& id) const;
  const Impairment* link_impairment(const LinkId& id) const;
  bool link_down(const LinkId& id) const;
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

 private:
  struct Cable {     // one direction
    Link link;       // with everything that applies folded in
    Impairment own;  // what set_link() said
  };
  struct Switch {
    Impairment impairment;
    bool down = false;
    SwitchCounters counters;
  };
  static constexpr std::size_t kNowhere = SIZE_MAX;

  std::size_t index_of(const LinkId& id) const;
  std::size_t index_of(const SwitchId& id) const;
  void refold(const LinkId& id);
  void refold_all();
  DropCause pass(const SwitchId& id, Switch& at, std::span<std::byte> l3) const;

  ClosConfig config_;
  Random random_;
  Impairment global_{};
  std::array<Impairment, path::kMaxPlanes> plane_impairments_{};
  std::array<bool, path::kMaxPlanes> plane_down_{};
  std::vector<Cable> links_;
  std::vector<Switch> switches_;
  Totals totals_{};  // offered, delivered and drops outside links and switches; totals() adds the rest
};

}  // namespace mrc::fabric
