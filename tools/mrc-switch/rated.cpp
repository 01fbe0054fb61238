// SPDX-License-Identifier: BSD-2-Clause
// Frames over links that have a rate: hop by hop, each step at the time that the fabric gave for it. A step that is
// late (this process did not run for a while) is taken as of its own time, so queues see what they would have seen.
#include <algorithm>

#include "forwarder.hpp"

namespace mrc::soft {
namespace {

constexpr std::size_t kEthernet = 14;

}  // namespace

bool Forwarder::port_busy(const Member& member, unsigned plane, Tick now) {
  // A NIC takes no more from its ring than it can send soon; the rest waits there, and the sender sees a full ring.
  const Duration wait = clos_.port_wait({member.location, static_cast<std::uint8_t>(plane)}, now);
  if (wait <= options_.nic_queue) return false;
  ports_free_ = std::min(ports_free_, now + (wait - options_.nic_queue));
  return true;
}

Drop Forwarder::hop_by_hop(Member& from, unsigned plane, std::span<std::byte> frame, Tick now) {
  fabric::InFlight flight;
  const auto step =
      clos_.enter(flight, frame.subspan(kEthernet), {from.location, static_cast<std::uint8_t>(plane)}, now);
  if (step.progress == fabric::Progress::kDropped) return fabric_drop(plane, step.drop);
  const std::uint32_t held = store_.put(frame.first(kEthernet + flight.length));
  if (held == FrameStore::kNone) {
    for (unsigned copy = 0; copy < (step.twin ? 2u : 1u); ++copy) clos_.abandon(flight);
    return Drop::kQueueFull;
  }
  flights_[held] = flight;
  return keep_flying(held, step) ? Drop::kNone : Drop::kQueueFull;
}

/// False if there was no room for the twin.
bool Forwarder::keep_flying(std::uint32_t frame, const fabric::Step& step) {
  const fabric::InFlight& flight = flights_[frame];
  bool room = true;
  if (step.twin) {
    const std::uint32_t copy = store_.put(store_.at(frame));
    room = copy != FrameStore::kNone;
    if (room) {
      flights_[copy] = flight;
      events_.push({.due = step.twin_when, .frame = copy});
    } else {
      clos_.abandon(flight);
    }
  }
  events_.push({.due = step.when, .frame = frame});  // has room: as many as the store has frames
  return room;
}

bool Forwarder::advance(Tick now) {
  bool any = false;
  DelayQueue::Entry event;
  while (events_.pop(now, event)) {
    any = true;
    fabric::InFlight& flight = flights_[event.frame];
    const auto step = clos_.step(flight, store_.at(event.frame).subspan(kEthernet), event.due);
    switch (step.progress) {
      case fabric::Progress::kMoving:
        if (!keep_flying(event.frame, step)) count_drop(flight.plane, Drop::kQueueFull);
        break;
      case fabric::Progress::kDelivered:
        land(event.frame);
        break;
      case fabric::Progress::kDropped:
        count_drop(flight.plane, fabric_drop(flight.plane, step.drop));
        store_.drop(event.frame);
        break;
    }
  }
  flush_landed();
  return any;
}

void Forwarder::land(std::uint32_t frame) {
  const fabric::InFlight& flight = flights_[frame];
  Member* to = at(flight.to);
  if (to == nullptr) {
    count_drop(flight.plane, Drop::kNoReceiver);
    store_.drop(frame);
    return;
  }
  if (landed_.size() == kBurst) flush_landed();
  const auto bytes = store_.at(frame).first(kEthernet + flight.length);
  stage(to->outputs[flight.plane], bytes);
  landed_.push_back(frame);
  ++counters_[flight.plane].forwarded;
  counters_[flight.plane].bytes += bytes.size();
}

void Forwarder::flush_landed() {
  flush_staged();
  for (const std::uint32_t frame : landed_) store_.drop(frame);
  landed_.clear();
}

}  // namespace mrc::soft
