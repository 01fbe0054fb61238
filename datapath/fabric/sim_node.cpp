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

std::span<std::byte> Sim::l3(Packet& packet) const {
  return {packet.bytes.data() + kHeadroom, packet.length};
}

std::uint32_t Sim::take_packet() {
  if (free_packets_.empty()) {
    packets_.push_back(std::make_unique<Packet>());
    packets_.back()->bytes.resize(kHeadroom + std::max<std::size_t>(config_.mtu, 1280) + 256);
    return static_cast<std::uint32_t>(packets_.size() - 1);
  }
  const std::uint32_t index = free_packets_.back();
  free_packets_.pop_back();
  return index;
}

Duration Sim::wire_time(std::size_t l3_bytes) const {
  if (config_.link_bps == 0) return {};
  const std::uint64_t bits = (l3_bytes + kFrameOverhead) * 8;
  return nanoseconds(static_cast<std::int64_t>((bits * 1'000'000'000 + config_.link_bps - 1) / config_.link_bps));
}

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
    if (on_progress_) on_progress_(index);
    if (node.state != NodeState::kRunning) return;
  }
  transmit(index);
  plan_wake(index);
}

void Sim::fill_room(Node& node, std::span<std::uint16_t> room) const {
  const Duration frame = wire_time(config_.mtu);
  for (unsigned plane = 0; plane < room.size(); ++plane) {
    room[plane] = 0;
    if (plane >= config_.clos.planes || !node.up[plane]) continue;
    std::int64_t queued = 0;
    if (frame.ns > 0 && node.wire_free[plane] > now_) {
      queued = ((node.wire_free[plane] - now_).ns + frame.ns - 1) / frame.ns;
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
  if (node.core->tx_pending() && config_.link_bps != 0) {
    // The next slot of a full ring frees when one more frame is out.
    const Duration frame = wire_time(config_.mtu);
    for (unsigned plane = 0; plane < config_.clos.planes; ++plane) {
      const Tick slot = node.wire_free[plane] - frame * (config_.tx_ring - 1);
      if (node.up[plane] && slot > now_) when = std::min(when, slot);
    }
  }
  if (when == kNever) return;
  when = std::max(when, now_ + nanoseconds(1));
  if (when >= node.wake) return;
  node.wake = when;
  schedule(when, Kind::kWake, index, 0);
}

void Sim::send(unsigned index, const transport::TxPacket& packet) {
  Node& node = *nodes_[index];
  if (on_transmit_) on_transmit_(index, packet);
  const std::span header(packet.header.data(), packet.header_length);
  const std::size_t total = said_length(header);
  const std::uint32_t slot = take_packet();
  Packet& frame = *packets_[slot];
  if (frame.bytes.size() < kHeadroom + total) frame.bytes.resize(kHeadroom + total);
  frame.length = total;
  frame.plane = packet.plane;
  const auto bytes = l3(frame);
  std::copy(header.begin(), header.end(), bytes.begin());
  std::fill(bytes.begin() + packet.header_length, bytes.end(), std::byte{});
  if (config_.carry_payload && packet.length != 0) {
    const auto payload = bytes.subspan(packet.header_length, packet.length);
    if (gather_) {
      gather_(packet, payload);
    } else if (packet.source != nullptr) {
      std::memcpy(payload.data(), static_cast<const std::byte*>(packet.source) + packet.offset, payload.size());
    }
  }
  if (packet.icrc) {
    const auto value = icrc_of(bytes, packet.outer ? kIp : 0);
    std::copy(value.begin(), value.end(), bytes.end() - wire::kIcrcSize);
  }
  ++node.counters.tx;
  node.counters.tx_bytes += total;
  Tick& wire_free = node.wire_free[packet.plane];
  wire_free = std::max(wire_free, now_) + wire_time(total);
  launch(index, slot, wire_free, packet.destination);
}

void Sim::launch(unsigned from, std::uint32_t slot, Tick departure, const wire::Ipv6Address& destination) {
  Node& node = *nodes_[from];
  Packet& packet = *packets_[slot];
  std::array<std::optional<unsigned>, 2> to;
  std::array<Duration, 2> delay{};
  if (config_.direct) {
    Transit transit{.l3 = l3(packet), .length = packet.length};
    node.direct[packet.plane].carry(transit, link_random_, config_.clos.dscp, false);
    packet.length = transit.length;
    const auto peer = node_of(destination);
    if (!peer) ++node.counters.tx_nowhere;
    for (unsigned copy = 0; copy < transit.copies; ++copy) {
      to[copy] = peer;
      delay[copy] = transit.delay[copy];
    }
  } else {
    const Outcome outcome = clos_->forward(l3(packet), {node.place, packet.plane}, departure);
    packet.length = outcome.length;
    for (unsigned copy = 0; copy < outcome.count; ++copy) {
      const Delivery& delivery = outcome.deliveries[copy];
      const auto peer = by_place_.find(static_cast<std::uint32_t>(delivery.to.t0) << 16 | delivery.to.nic);
      if (peer != by_place_.end()) to[copy] = peer->second;
      delay[copy] = delivery.delay;
    }
  }
  if (to[1]) {
    const std::uint32_t twin = take_packet();
    Packet& original = *packets_[slot];
    Packet& copy = *packets_[twin];
    copy.bytes = original.bytes;
    copy.length = original.length;
    copy.plane = original.plane;
    schedule(departure + delay[1], Kind::kArrival, *to[1], twin);
  }
  if (to[0]) {
    schedule(departure + delay[0], Kind::kArrival, *to[0], slot);
  } else {
    free_packets_.push_back(slot);
  }
}

void Sim::arrivals(const Scheduled& first) {
  std::array<std::uint32_t, kBurst> burst;
  std::size_t count = 0;
  burst[count++] = first.index;
  while (count < kBurst && !heap_.empty() && heap_.front().when == first.when && heap_.front().kind == Kind::kArrival &&
         heap_.front().node == first.node) {
    burst[count++] = take().index;
  }
  Node& node = *nodes_[first.node];
  if (node.state == NodeState::kRunning) {
    receive(first.node, {burst.data(), count});
    service(first.node);
    return;
  }
  for (std::size_t i = 0; i < count; ++i) {
    if (node.state == NodeState::kPaused && node.waiting.size() < config_.rx_ring) {
      node.waiting.push_back(burst[i]);
      continue;
    }
    ++(node.state == NodeState::kPaused ? node.counters.rx_ring_full : node.counters.rx_dead);
    free_packets_.push_back(burst[i]);
  }
}

bool Sim::check(Node& node, Packet& packet) const {
  auto bytes = l3(packet);
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
    packet.length = said;
    bytes = l3(packet);
  } else if (said > bytes.size() && !trimmed) {
    ++node.counters.rx_bad_length;
    return false;
  }
  if (!config_.transport.wire.icrc || trimmed || bytes.size() < inner + kLeastWithIcrc) return true;
  const auto expected = icrc_of(bytes, inner);
  if (std::equal(expected.begin(), expected.end(), bytes.end() - wire::kIcrcSize)) return true;
  ++node.counters.rx_bad_icrc;
  return false;
}

void Sim::note(unsigned node, const Packet& packet) {
  const auto mix = [this](std::uint64_t word) {
    hash_ = (hash_ ^ word) * 0x9e3779b97f4a7c15u;
    hash_ ^= hash_ >> 32;
  };
  mix(static_cast<std::uint64_t>(now_.ns));
  mix(static_cast<std::uint64_t>(node) << 32 | packet.plane);
  mix(packet.length);
  const std::byte* at = packet.bytes.data() + kHeadroom;
  std::size_t left = packet.length;
  for (std::uint64_t word = 0; left != 0;) {
    const std::size_t part = std::min(left, sizeof word);
    word = 0;
    std::memcpy(&word, at, part);
    mix(word);
    at += part;
    left -= part;
  }
}

void Sim::receive(unsigned index, std::span<const std::uint32_t> slots) {
  Node& node = *nodes_[index];
  std::array<transport::RxPacket, kBurst> burst;
  std::size_t count = 0;
  for (const std::uint32_t slot : slots) {
    Packet& packet = *packets_[slot];
    note(index, packet);
    if (!check(node, packet)) continue;
    burst[count++] = {l3(packet), packet.plane};
    ++node.counters.rx;
    node.counters.rx_bytes += packet.length;
  }
  if (count != 0) node.core->on_rx({burst.data(), count}, now_);
  free_packets_.insert(free_packets_.end(), slots.begin(), slots.end());
}

}  // namespace mrc::fabric
