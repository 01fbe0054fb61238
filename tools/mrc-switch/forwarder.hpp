// SPDX-License-Identifier: BSD-2-Clause
// The packet path: takes bursts from every member's ports (and the uplinks), checks who sent them, finds their way,
// rolls the dice, and sends them on. Frames are copied once, ring to ring; a full ring makes frames wait in a bounded
// queue (marked CE where it grows long), as in a switch.
// Where links have rates, frames go hop by hop instead (rated.cpp): a heap of events takes each of them from link to
// link at the times that the fabric says, so that queues, marks, trims and cuts are those of the moment.
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "member.hpp"
#include "mrc/fabric/clos.hpp"
#include "uplink.hpp"

namespace mrc::soft {

class Forwarder {
 public:
  /// `clients`: that there are ports for.
  Forwarder(const Options& options, std::unique_ptr<Uplinks> uplinks, std::size_t clients);

  /// One round over all ports and timers. True if any frame moved.
  bool pass(Tick now);
  /// When pass() has something to do even if no frame comes.
  Tick next_due(Tick now) const;

  fabric::Clos& clos() { return clos_; }
  const PlaneCounters& counters(unsigned plane) const { return counters_[plane]; }
  unsigned planes() const { return options_.planes; }
  bool plane_up(unsigned plane) const { return !clos_.plane_down(plane); }
  /// The planes on which a member has carrier: a bit each.
  std::uint32_t carriers(const Member& member, Tick now) const;
  /// After changes of clos(): with uplinks its settings for fabric and planes count for the real ports, too.
  void settings_changed();
  Uplinks* uplinks() { return uplinks_.get(); }

  // --- members ------------------------------------------------------------------------------------------------------
  /// A free slot and place; nullptr when full. With a wish: that T0 (and NIC if free).
  Member* add(const path::Location* wish);
  void remove(std::uint32_t slot);
  Member* member(std::uint32_t slot) { return slot < members_.size() ? members_[slot].get() : nullptr; }
  const std::vector<std::unique_ptr<Member>>& members() const { return members_; }
  std::size_t member_count() const { return count_; }
  bool somebody_at(path::Location place) const { return places_.contains(std::uint32_t{place.t0} << 16 | place.nic); }

  // --- endpoints ----------------------------------------------------------------------------------------------------
  Member* owner(EndpointKey key);
  void bind(EndpointKey key, Member& member);
  void unbind(EndpointKey key);

  std::uint32_t frames_held() const { return store_.in_use(); }
  std::size_t frames_flying() const { return events_.size(); }

 private:
  struct Headers {
    std::uint8_t* outer = nullptr;  ///< nullptr: none
    std::uint8_t* inner = nullptr;
  };
  Drop parse(std::span<std::byte> frame, bool may_be_trimmed, Headers& out) const;
  bool genuine(const Member& member, const std::uint8_t* inner) const;
  Member* at(path::Location location);
  Member* by_destination(const std::uint8_t* inner);

  bool poll_member(Member& member, Tick now);
  bool poll_uplinks(Tick now);
  Drop from_member(Member& member, unsigned plane, std::span<std::byte> frame, Tick now);
  Drop from_uplink(unsigned plane, std::span<std::byte> frame, Tick now);
  Drop through_clos(Member& from, unsigned plane, std::span<std::byte> frame, Tick now);
  Drop hop_by_hop(Member& from, unsigned plane, std::span<std::byte> frame, Tick now);
  bool advance(Tick now);
  bool keep_flying(std::uint32_t frame, const fabric::Step& step);
  void land(std::uint32_t frame);
  void flush_landed();
  bool port_busy(const Member& member, unsigned plane, Tick now);
  /// Uplink mode has no Clos, only one impaired link per plane. Gives the copies and their delays.
  Drop through_link(unsigned plane, std::span<std::byte>& frame, fabric::Transit& transit);
  Drop deliver(Member& to, unsigned plane, std::span<const std::byte> frame, Duration delay, Tick now);
  Drop fabric_drop(unsigned plane, fabric::DropCause why);
  void count_drop(unsigned plane, Drop why) { ++counters_[plane].drops[static_cast<std::size_t>(why)]; }

  void stage(Output& output, std::span<const std::byte> frame);
  void flush(Output& output);
  void flush_staged();
  void hold(Output& output, std::span<const std::byte> frame);
  bool retry_waiting();
  bool release_delayed(Tick now);
  void sent(Output& output, std::size_t frames);
  void kick();

  Options options_;
  fabric::Clos clos_;
  std::array<fabric::Link, control::kMaxControlPlanes> links_;  ///< uplink mode
  std::array<PlaneCounters, control::kMaxControlPlanes> counters_{};
  std::unique_ptr<Uplinks> uplinks_;
  Random random_;
  FrameStore store_;
  DelayQueue delayed_;
  DelayQueue events_;                      ///< frames on a link that has a rate, or behind one
  std::vector<fabric::InFlight> flights_;  ///< by index of the store
  std::vector<std::uint32_t> landed_;      ///< staged, and not yet flushed
  Tick ports_free_ = kNever;               ///< when the first of the ports that were too busy may send again
  std::vector<std::unique_ptr<Member>> members_;
  std::vector<std::uint32_t> generations_;
  std::unordered_map<std::uint32_t, std::uint32_t> places_;  ///< location → slot
  std::unordered_map<std::uint64_t, std::uint32_t> endpoints_;
  std::vector<Output*> staged_;
  std::vector<Output*> waiting_;
  std::size_t count_ = 0;
  unsigned next_t0_ = 0;
};

}  // namespace mrc::soft
