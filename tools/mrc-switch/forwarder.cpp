// SPDX-License-Identifier: BSD-2-Clause
// From a frame to the outputs it goes to.
#include "forwarder.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "mrc/wire/params.hpp"

namespace mrc::soft {
namespace {

constexpr std::size_t kEthernet = 14;
constexpr std::size_t kIpv6 = 40;
constexpr std::uint32_t kHeldFrames = 16384;
/// Under one T0: as many as there can be clients.
constexpr std::uint16_t kMaxNics = 2 * PortPool::kPortsPerLayer;

std::uint32_t place_key(path::Location location) {
  return std::uint32_t{location.t0} << 16 | location.nic;
}
std::size_t ipv6_length(const std::uint8_t* header) {
  return kIpv6 + (std::size_t{header[4]} << 8 | header[5]);
}

/// A switch cut this packet short: its lengths are those of the whole.
bool trimmed(const std::uint8_t* header) {
  const unsigned dscp = (header[0] << 2 & 0x3c) | header[1] >> 6;
  const wire::Dscp values;
  return dscp == values.trimmed || dscp == values.trimmed_lasthop;
}

fabric::ClosConfig clos_config(const Options& options) {
  fabric::ClosConfig config;
  config.planes = static_cast<std::uint8_t>(options.planes);
  config.t0s = static_cast<std::uint16_t>(options.t0s);
  config.t1s = static_cast<std::uint16_t>(options.t1s);
  config.nics = kMaxNics;
  config.seed = options.seed;
  config.link_delay = options.link_delay;
  config.base_rtt = options.base_rtt;
  if (options.rate != 0 || options.t1_rate != 0) {
    config.set_rates(options.rate, options.t1_rate != 0 ? options.t1_rate : options.rate, options.base_rtt);
  }
  return config;
}

}  // namespace

const char* to_string(Drop drop) {
  switch (drop) {
    case Drop::kNone:
      return "none";
    case Drop::kMalformed:
      return "malformed";
    case Drop::kSpoofed:
      return "spoofed";
    case Drop::kFabric:
      return "fabric";
    case Drop::kNoReceiver:
      return "no_receiver";
    case Drop::kQueueFull:
      return "queue_full";
    case Drop::kNoNeighbour:
      return "no_neighbour";
    case Drop::kCount:
      break;
  }
  return "?";
}

Member::~Member() {
  if (page != nullptr) ::munmap(page, control::kWakePageSize);
  for (const auto& path : socket_paths) ::unlink(path.c_str());
}

Forwarder::Forwarder(const Options& options, std::unique_ptr<Uplinks> uplinks, std::size_t clients)
    : options_(options),
      clos_(clos_config(options)),
      uplinks_(std::move(uplinks)),
      random_(options.seed),
      store_(kHeldFrames, options.mtu + kEthernet),
      delayed_(kHeldFrames),
      events_(kHeldFrames) {
  landed_.reserve(kBurst);
  clos_.set_global(options.impairment);
  settings_changed();
  members_.resize(options.max_clients == 0 ? clients : std::min<std::size_t>(clients, options.max_clients));
  generations_.resize(members_.size());
}

Drop Forwarder::parse(std::span<std::byte> frame, bool may_be_trimmed, Headers& out) const {
  auto* bytes = reinterpret_cast<std::uint8_t*>(frame.data());
  if (frame.size() < kEthernet + kIpv6 + 8 || bytes[12] != 0x86 || bytes[13] != 0xdd) return Drop::kMalformed;
  std::uint8_t* header = bytes + kEthernet;
  std::size_t left = frame.size() - kEthernet;
  for (int depth = 0; depth < 2; ++depth) {
    if (left < kIpv6 + 8 || header[0] >> 4 != 6) return Drop::kMalformed;
    if (ipv6_length(header) > left && !(may_be_trimmed && trimmed(header))) return Drop::kMalformed;
    left = std::min(left, ipv6_length(header));
    if (header[6] == wire::Ipv6Header::kNextUdp) {
      out.inner = header;
      return left < kIpv6 + 8 ? Drop::kMalformed : Drop::kNone;
    }
    if (header[6] != wire::Ipv6Header::kNextIpv6) return Drop::kMalformed;
    out.outer = header;
    header += kIpv6;
    left -= kIpv6;
  }
  return Drop::kMalformed;
}

bool Forwarder::genuine(const Member& member, const std::uint8_t* inner) const {
  wire::Ipv6Address source;
  std::memcpy(source.bytes.data(), inner + 8, 16);
  const auto claimed = path::EndpointAddress::from_inner(source);
  const bool own = std::find(member.endpoints.begin(), member.endpoints.end(),
                             EndpointKey{claimed.ipv4, claimed.port}) != member.endpoints.end();
  return own &&
         path::EndpointAddress{path::kDefaultFabric, member.location.t0, claimed.ipv4, claimed.port}.inner() == source;
}

Member* Forwarder::at(path::Location location) {
  const auto found = places_.find(place_key(location));
  return found == places_.end() ? nullptr : members_[found->second].get();
}

Member* Forwarder::by_destination(const std::uint8_t* inner) {
  wire::Ipv6Address destination;
  std::memcpy(destination.bytes.data(), inner + 24, 16);
  const auto address = path::EndpointAddress::from_inner(destination);
  Member* to = owner({address.ipv4, address.port});
  return to != nullptr && to->location.t0 == address.t0 && address.fabric == path::kDefaultFabric ? to : nullptr;
}

Drop Forwarder::from_member(Member& from, unsigned plane, std::span<std::byte> frame, Tick now) {
  Headers headers;
  if (const Drop bad = parse(frame, false, headers); bad != Drop::kNone) return bad;
  if (!genuine(from, headers.inner)) return Drop::kSpoofed;
  if (!uplinks_) return through_clos(from, plane, frame, now);

  fabric::Transit transit;
  if (const Drop why = through_link(plane, frame, transit); why != Drop::kNone) return why;
  if (Member* to = by_destination(headers.inner)) {
    for (unsigned copy = 0; copy < transit.copies; ++copy) {
      if (const Drop why = deliver(*to, plane, frame, transit.delay[copy], now); why != Drop::kNone) return why;
    }
    return Drop::kNone;
  }
  wire::Ipv6Address next_hop = options_.gateway;
  if (next_hop == wire::Ipv6Address{}) std::memcpy(next_hop.bytes.data(), headers.inner + 24, 16);
  if (!uplinks_->address(plane, frame, next_hop, now)) return Drop::kNoNeighbour;
  for (unsigned copy = 0; copy < transit.copies; ++copy) stage(uplinks_->output(plane), frame);
  return Drop::kNone;
}

Drop Forwarder::fabric_drop(unsigned plane, fabric::DropCause why) {
  ++counters_[plane].fabric_drops[static_cast<std::size_t>(why)];
  return Drop::kFabric;
}

Drop Forwarder::through_clos(Member& from, unsigned plane, std::span<std::byte> frame, Tick now) {
  if (clos_.rated()) return hop_by_hop(from, plane, frame, now);
  const auto out = clos_.forward(frame.subspan(kEthernet), {from.location, static_cast<std::uint8_t>(plane)}, now);
  if (out.count == 0) return fabric_drop(plane, out.drop);
  Drop worst = Drop::kNone;
  for (const auto& delivery : out.all()) {
    Member* to = at(delivery.to);
    const Drop why = to == nullptr ? Drop::kNoReceiver
                                   : deliver(*to, plane, frame.first(kEthernet + out.length), delivery.delay, now);
    if (why != Drop::kNone) worst = why;
  }
  return worst;
}

Drop Forwarder::through_link(unsigned plane, std::span<std::byte>& frame, fabric::Transit& transit) {
  transit.l3 = frame.subspan(kEthernet);
  transit.length = transit.l3.size();
  const auto why = clos_.plane_down(plane) ? fabric::DropCause::kPlaneDown
                                           : links_[plane].carry(transit, random_, wire::Dscp{}, false);
  if (why != fabric::DropCause::kNone) return fabric_drop(plane, why);
  frame = frame.first(kEthernet + transit.length);
  return Drop::kNone;
}

Drop Forwarder::from_uplink(unsigned plane, std::span<std::byte> frame, Tick now) {
  if (uplinks_->neighbours(plane).on_frame(frame, now)) return Drop::kNone;
  Headers headers;
  if (const Drop bad = parse(frame, true, headers); bad != Drop::kNone) return bad;
  Member* to = by_destination(headers.inner);
  if (to == nullptr) return Drop::kNoReceiver;
  fabric::Transit transit;
  if (const Drop why = through_link(plane, frame, transit); why != Drop::kNone) return why;
  for (unsigned copy = 0; copy < transit.copies; ++copy) {
    if (const Drop why = deliver(*to, plane, frame, transit.delay[copy], now); why != Drop::kNone) return why;
  }
  return Drop::kNone;
}

Drop Forwarder::deliver(Member& to, unsigned plane, std::span<const std::byte> frame, Duration delay, Tick now) {
  if (delay.ns <= 0) {
    stage(to.outputs[plane], frame);
  } else {
    const std::uint32_t held = store_.put(frame);
    if (held == FrameStore::kNone) return Drop::kQueueFull;
    if (!delayed_.push({now + delay, 0, held, to.slot, to.generation, static_cast<std::uint8_t>(plane)})) {
      store_.drop(held);
      return Drop::kQueueFull;
    }
    ++counters_[plane].delayed;
  }
  ++counters_[plane].forwarded;
  counters_[plane].bytes += frame.size();
  return Drop::kNone;
}

void Forwarder::settings_changed() {
  if (clos_.rated()) flights_.resize(kHeldFrames);
  for (unsigned plane = 0; plane < options_.planes; ++plane) {
    links_[plane].set(fabric::combine(clos_.global_impairment(), *clos_.plane_impairment(plane)));
  }
}

std::uint32_t Forwarder::carriers(const Member& member, Tick now) const {
  std::uint32_t mask = 0;
  for (unsigned plane = 0; plane < options_.planes; ++plane) {
    const bool up =
        uplinks_ ? plane_up(plane) : clos_.carrier({member.location, static_cast<std::uint8_t>(plane)}, now);
    mask |= up ? 1u << plane : 0;
  }
  return mask;
}

bool Forwarder::poll_member(Member& member, Tick now) {
  bool any = false;
  std::array<port::RxFrame, kBurst> frames;
  for (unsigned plane = 0; plane < member.outputs.size(); ++plane) {
    Output& input = member.outputs[plane];
    if (clos_.rated() && port_busy(member, plane, now)) continue;
    const std::size_t n = input.port->receive(frames);
    if (n == 0) continue;
    any = true;
    for (std::size_t i = 0; i < n; ++i) {
      ++input.rx_frames;
      input.rx_bytes += frames[i].data.size();
      const Drop why = from_member(member, plane, frames[i].data, now);
      if (why == Drop::kNone) continue;
      ++member.dropped[static_cast<std::size_t>(why)];
      count_drop(plane, why);
    }
    flush_staged();
    input.port->release({frames.data(), n});
  }
  return any;
}

bool Forwarder::poll_uplinks(Tick now) {
  bool any = false;
  std::array<port::RxFrame, kBurst> frames;
  for (unsigned plane = 0; plane < uplinks_->planes(); ++plane) {
    Output& input = uplinks_->output(plane);
    const std::size_t n = input.port->receive(frames);
    if (n == 0) continue;
    any = true;
    for (std::size_t i = 0; i < n; ++i) {
      ++input.rx_frames;
      input.rx_bytes += frames[i].data.size();
      if (const Drop why = from_uplink(plane, frames[i].data, now); why != Drop::kNone) count_drop(plane, why);
    }
    flush_staged();
    input.port->release({frames.data(), n});
  }
  return uplinks_->send_neighbour_frames(now) || any;
}

bool Forwarder::pass(Tick now) {
  bool any = release_delayed(now);
  if (events_.size() != 0) any |= advance(now);
  ports_free_ = kNever;
  for (auto& member : members_) {
    if (member) any |= poll_member(*member, now);
  }
  if (uplinks_) any |= poll_uplinks(now);
  if (!waiting_.empty()) any |= retry_waiting();
  kick();
  return any;
}

Tick Forwarder::next_due(Tick now) const {
  const Tick delayed = std::min({delayed_.next(), events_.next(), ports_free_});
  return waiting_.empty() ? delayed : std::min(delayed, now + microseconds(200));
}

Member* Forwarder::owner(EndpointKey key) {
  const auto found = endpoints_.find(key.value());
  return found == endpoints_.end() ? nullptr : members_[found->second].get();
}

void Forwarder::bind(EndpointKey key, Member& member) {
  endpoints_[key.value()] = member.slot;
  member.endpoints.push_back(key);
  if (uplinks_) {
    uplinks_->add_own(path::EndpointAddress{path::kDefaultFabric, member.location.t0, key.ipv4, key.port}.inner());
  }
}

void Forwarder::unbind(EndpointKey key) {
  Member* member = owner(key);
  if (member == nullptr) return;
  if (uplinks_) {
    uplinks_->remove_own(path::EndpointAddress{path::kDefaultFabric, member->location.t0, key.ipv4, key.port}.inner());
  }
  std::erase(member->endpoints, key);
  endpoints_.erase(key.value());
}

}  // namespace mrc::soft
