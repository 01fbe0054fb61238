// SPDX-License-Identifier: BSD-2-Clause
// A simulated node's loop: packets between its core and the fabric, as a driver would move them.
#include "sim_node.hpp"

#include <algorithm>
#include <cstring>

#ifdef MRC_HAVE_ZLIB
#include <zlib.h>
#else
#include <boost/crc.hpp>
#endif

#include "mrc/wire/icrc.hpp"
#include "mrc/wire/packet.hpp"

namespace mrc::fabric {
namespace {

constexpr std::size_t kIp = wire::Ipv6Header::kSize;
constexpr std::size_t kLeastWithIcrc = kIp + wire::UdpHeader::kSize + wire::Bth::kSize + wire::kIcrcSize;
constexpr std::size_t kLengthAt = 4, kNextHeaderAt = 6;

std::uint32_t crc32_of(std::span<const std::byte> bytes) {
#ifdef MRC_HAVE_ZLIB
  return static_cast<std::uint32_t>(
      crc32(0, reinterpret_cast<const Bytef*>(bytes.data()), static_cast<uInt>(bytes.size())));
#else
  boost::crc_32_type crc;
  crc.process_bytes(bytes.data(), bytes.size());
  return crc.checksum();
#endif
}

std::size_t said_length(std::span<const std::byte> l3) {
  return kIp + (static_cast<std::size_t>(l3[kLengthAt]) << 8 | static_cast<std::size_t>(l3[kLengthAt + 1]));
}

bool is_trimmed(std::span<const std::byte> ip, const wire::Dscp& dscp) {
  const unsigned tclass = (static_cast<unsigned>(ip[0]) & 0xf) << 4 | static_cast<unsigned>(ip[1]) >> 4;
  return tclass >> 2 == dscp.trimmed || tclass >> 2 == dscp.trimmed_lasthop;
}

// `l3` must have kHeadroom bytes before it; its last four are the iCRC's place.
std::array<std::byte, 4> icrc_of(std::span<std::byte> l3, std::size_t inner) {
  std::byte* from = l3.data() + inner - wire::kIcrcPrefix;
  return wire::icrc({from, wire::kIcrcPrefix + l3.size() - inner - wire::kIcrcSize}, crc32_of);
}

}  // namespace

void Sim::service(unsigned index) {
  Node& node = *nodes_[index];
  if (node.state != NodeState::kRunning) return;
  if (node.core->next_deadline() <= now_) node.core->on_deadline(now_);
  for (bool more = true; more;) {
    transmit(index);
    more = false;
    std::array<transport::Event, 64> events;
    while (const std::size_t count = node.core->poll_events(events)) {
      more = true;
      if (!on_event_) continue;
      for (std::size_t i = 0; i < count; ++i) on_event_(index, events[i]);
    }
    if (!on_progress_) continue;
    on_progress_(index);
    if (node.state != NodeState::kRunning) return;
    if (!more) transmit(index);
  }
  if (node.state != NodeState::kRunning) return;
  plan_wake(index);
}

void Sim::fill_room(Node& node, std::span<std::uint16_t> room) const {
  std::fill(room.begin(), room.end(), std::uint16_t{0});
  for (unsigned plane = 0; plane < config_.clos.planes; ++plane) {
    if (!node.up[plane]) continue;
    const LinkQueue& queue = node.port[plane]->queue();
    const std::int64_t wait = queue.wait(now_);
    std::int64_t queued = 0;
    if (wait != 0) {
      const std::int64_t frame = queue.serialisation(config_.mtu);
      queued = (wait + frame - 1) / frame;
    }
    room[plane] = static_cast<std::uint16_t>(std::max<std::int64_t>(config_.tx_ring - queued, 0));
  }
}

void Sim::transmit(unsigned index) {
  Node& node = *nodes_[index];
  for (;;) {
    std::array<std::uint16_t, path::kMaxPlanes> room;
    fill_room(node, room);
    const std::size_t count = node.core->poll_tx(scratch_, room, now_);
    if (count == 0) return;
    for (std::size_t i = 0; i < count; ++i) send(index, scratch_[i]);
  }
}

void Sim::plan_wake(unsigned index) {
  Node& node = *nodes_[index];
  Tick when = node.core->next_deadline();
  if (node.core->tx_pending()) {
    // A full ring is looked at again when an eighth of it is out: often enough to keep the wire busy.
    const std::int64_t keep = std::max(config_.tx_ring - std::max(config_.tx_ring / 8, 1), 0);
    for (unsigned plane = 0; plane < config_.clos.planes; ++plane) {
      const LinkQueue& queue = node.port[plane]->queue();
      if (!node.up[plane] || !queue.rated()) continue;
      const std::int64_t slot = queue.wait(now_) - queue.serialisation(config_.mtu) * keep;
      if (slot > 0) when = std::min(when, now_ + Duration{slot});
    }
  }
  if (when == kNever) return;
  when = std::max(when, now_ + nanoseconds(1));
  if (when >= node.wake) return;
  node.wake = when;
  schedule(when, SimEvent::kWake, index);
}

void Sim::send(unsigned index, const transport::TxPacket& packet) {
  if (on_transmit_) on_transmit_(index, packet);
  Node& node = *nodes_[index];
  const std::span header(packet.header.data(), packet.header_length);
  const std::size_t total = said_length(header);
  const std::uint32_t slot = packets_.take(total);
  SimPacket& frame = packets_[slot];
  frame.flight = InFlight{};
  frame.flight.length = static_cast<std::uint32_t>(total);
  frame.plane = packet.plane;
  frame.outer = packet.outer;
  frame.written = packet.header_length;
  std::memcpy(frame.bytes, header.data(), header.size());
  if (config_.carry_payload) {
    frame.written = frame.flight.length;
    const std::span rest(frame.bytes + header.size(), total - header.size());
    std::size_t filled = 0;
    if (packet.length != 0 && gather_) {
      filled = packet.length;
      gather_(packet, rest.first(filled));
    } else if (packet.length != 0 && packet.source != nullptr) {
      filled = packet.length;
      std::memcpy(rest.data(), static_cast<const std::byte*>(packet.source) + packet.offset, filled);
    }
    std::memset(rest.data() + filled, 0, rest.size() - filled);
  }
  ++node.counters.tx;
  node.counters.tx_bytes += total;
  if (config_.direct) {
    launch_direct(node, slot, packet.destination);
  } else {
    moved(slot, clos_->enter(frame.flight, frame.held(), frame.flight.length, {node.place, packet.plane}, now_));
  }
}

void Sim::launch_direct(Node& node, std::uint32_t slot, const wire::Ipv6Address& destination) {
  SimPacket& packet = packets_[slot];
  Transit transit{.l3 = packet.held(), .length = packet.flight.length, .flips = &packet.flight.flips};
  node.direct[packet.plane].carry(transit, link_random_, config_.clos.dscp, false, now_);
  packet.flight.length = static_cast<std::uint32_t>(transit.length);
  const auto peer = node_of(destination);
  if (!peer) ++node.counters.tx_nowhere;
  if (!peer || transit.copies == 0) {
    packets_.drop(slot);
    return;
  }
  packet.node = *peer;
  if (transit.copies == 2) schedule_packet(now_ + transit.delay[1], packets_.copy(slot));
  schedule_packet(now_ + transit.delay[0], slot);
}

std::uint32_t Sim::node_at(const path::Location& place) const {
  return by_place_[std::size_t{place.t0} * config_.clos.nics + place.nic];
}

void Sim::hop(std::uint32_t slot) {
  SimPacket& packet = packets_[slot];
  moved(slot, clos_->step(packet.flight, packet.held(), now_));
}

void Sim::moved(std::uint32_t slot, const Step& step) {
  if (step.progress != Progress::kMoving) {  // dropped, or delivered to a port where no node is
    packets_.drop(slot);
    return;
  }
  SimPacket& packet = packets_[slot];
  packet.node = packet.flight.arriving ? node_at(packet.flight.to) : SimPacket::kNowhere;
  if (step.twin) schedule_packet(step.twin_when, packets_.copy(slot));
  schedule_packet(step.when, slot);
}

bool Sim::landed(std::uint32_t slot) {
  if (config_.direct) return true;
  SimPacket& packet = packets_[slot];
  if (clos_->step(packet.flight, packet.held(), now_).progress == Progress::kDelivered) return true;
  packets_.drop(slot);
  return false;
}

void Sim::arrivals(std::uint32_t first) {
  const std::uint32_t index = packets_[first].node;
  std::array<std::uint32_t, kBurst> burst;
  std::size_t count = 0;
  burst[count] = first;
  count += landed(first);
  while (count < kBurst && !queue_.empty() && queue_.front().when == now_.ns &&
         queue_.front().kind() == SimEvent::kArrival && packets_[queue_.front().index()].node == index) {
    const std::uint32_t slot = queue_.take().index();
    burst[count] = slot;
    count += landed(slot);
  }
  if (count == 0) return;
  Node& node = *nodes_[index];
  if (node.state == NodeState::kRunning) {
    receive(index, {burst.data(), count});
    service(index);
    return;
  }
  for (std::size_t i = 0; i < count; ++i) {
    if (node.state == NodeState::kPaused && node.waiting.size() < config_.rx_ring) {
      node.waiting.push_back(burst[i]);
      continue;
    }
    ++(node.state == NodeState::kPaused ? node.counters.rx_ring_full : node.counters.rx_dead);
    packets_.drop(burst[i]);
  }
}

bool Sim::check(Node& node, SimPacket& packet) const {
  auto bytes = packet.l3();
  if (bytes.size() < kIp) {
    ++node.counters.rx_bad_length;
    return false;
  }
  const std::size_t inner = static_cast<std::uint8_t>(bytes[kNextHeaderAt]) == wire::Ipv6Header::kNextIpv6 ? kIp : 0;
  const wire::Dscp& dscp = config_.transport.wire.dscp;
  const bool trimmed =
      is_trimmed(bytes, dscp) || (inner != 0 && bytes.size() >= inner + kIp && is_trimmed(bytes.subspan(inner), dscp));
  const std::size_t said = said_length(bytes);
  if (said < bytes.size()) {
    packet.flight.length = static_cast<std::uint32_t>(said);
    bytes = packet.l3();
  } else if (said > bytes.size() && !trimmed) {
    ++node.counters.rx_bad_length;
    return false;
  }
  if (packet.flight.flips.count == 0 || !config_.transport.wire.icrc || trimmed) return true;
  if (bytes.size() < inner + kLeastWithIcrc || icrc_holds(packet, inner)) return true;
  ++node.counters.rx_bad_icrc;
  return false;
}

// Puts the sender's bits back, computes the iCRC that it sent, and compares as a driver would. A flip in a payload that
// is not there changes the iCRC, too: CRC-32 sees every error of so few bits.
bool Sim::icrc_holds(SimPacket& packet, std::size_t inner) const {
  const Flips& flips = packet.flight.flips;
  if (flips.count > Flips::kKept || (inner != 0) != packet.outer) return false;
  const auto bytes = packet.l3();
  const auto held = packet.held();
  std::array<std::byte, wire::kIcrcSize> trailer{};  // which of its bits flipped
  for (unsigned i = 0; i < flips.count; ++i) {
    const std::size_t at = flips.bit[i] / 8;
    if (at >= bytes.size() - wire::kIcrcSize && at < bytes.size()) {
      trailer[at - (bytes.size() - wire::kIcrcSize)] ^= static_cast<std::byte>(1u << flips.bit[i] % 8);
    } else if (at >= held.size() && at < bytes.size()) {
      return false;
    }
  }
  const auto flip = [&] {
    for (unsigned i = 0; i < flips.count; ++i) {
      const std::size_t at = flips.bit[i] / 8;
      if (at >= inner && at < held.size()) held[at] ^= static_cast<std::byte>(1u << flips.bit[i] % 8);
    }
  };
  flip();
  auto sent = icrc_of(bytes, inner);
  flip();
  for (std::size_t i = 0; i < sent.size(); ++i) sent[i] ^= trailer[i];
  return sent == icrc_of(bytes, inner);
}

// Four lanes: one would wait for each multiplication before the next.
void Sim::note(unsigned node, const SimPacket& packet) {
  constexpr std::uint64_t kPrime = 0x9e3779b97f4a7c15u;
  std::array<std::uint64_t, 4> lane{hash_ ^ static_cast<std::uint64_t>(now_.ns),
                                    static_cast<std::uint64_t>(node) << 32 | packet.plane, packet.flight.length,
                                    ~hash_};
  const std::byte* at = packet.bytes;
  std::size_t left = packet.held().size();
  for (; left >= 32; left -= 32, at += 32) {
    std::array<std::uint64_t, 4> word;
    std::memcpy(word.data(), at, 32);
    for (unsigned i = 0; i < 4; ++i) lane[i] = (lane[i] ^ word[i]) * kPrime;
  }
  std::array<std::uint64_t, 4> tail{};
  std::memcpy(tail.data(), at, left);
  for (unsigned i = 0; i < 4; ++i) {
    lane[i] = (lane[i] ^ tail[i]) * kPrime;
    hash_ = (hash_ ^ lane[i] ^ lane[i] >> 29) * kPrime;
  }
}

void Sim::receive(unsigned index, std::span<const std::uint32_t> slots) {
  Node& node = *nodes_[index];
  std::array<transport::RxPacket, kBurst> burst;
  std::size_t count = 0;
  for (const std::uint32_t slot : slots) {
    SimPacket& packet = packets_[slot];
    note(index, packet);
    if (!check(node, packet)) continue;
    burst[count++] = {packet.l3(), packet.plane};
    ++node.counters.rx;
    node.counters.rx_bytes += packet.flight.length;
  }
  if (count != 0) node.core->on_rx({burst.data(), count}, now_);
  for (const std::uint32_t slot : slots) packets_.drop(slot);
}

}  // namespace mrc::fabric
