// SPDX-License-Identifier: BSD-2-Clause
// Probes out and back.
#include "prober.hpp"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "mrc/control/client.hpp"
#include "mrc/engine/clock.hpp"
#include "mrc/engine/config.hpp"
#include "mrc/engine/engine.hpp"
#include "mrc/wire/packet.hpp"

namespace mrc::tool {
namespace {

constexpr std::uint32_t kMark = 0x6d726370;  ///< "mrcp"
constexpr std::size_t kBurst = 32;

/// Behind the ERTH.
struct Stamp {
  std::uint32_t mark = kMark, round = 0, path = 0, zero = 0;
  std::uint64_t number = 0;
};
static_assert(sizeof(Stamp) == 24);

/// As the switch says; 0 if it cannot be asked.
unsigned t0s_of_switch(const std::string& socket) {
  const auto answer = control::request(socket, "stats");
  if (!answer) return 0;
  const auto json = nlohmann::json::parse(*answer, nullptr, false);
  return json.is_object() && json.contains("t0s") ? json["t0s"].get<unsigned>() : 0;
}

}  // namespace

Result<std::unique_ptr<Prober>> Prober::open(const Options& options) {
  std::unique_ptr<Prober> out(new Prober(options));
  if (auto attached = out->attach(); !attached) return tl::unexpected(attached.error());
  return out;
}

Prober::~Prober() {
  if (registered_) attachment_->unregister_endpoint(name_.port());
}

Result<void> Prober::attach() {
  engine::EngineConfig config;
  config.ports = options_.ports;
  config.config_file = options_.config;
  config.switch_socket = options_.socket;
  config.autostart = false;
  auto attachment = engine::open_attachment(config);
  if (!attachment) return tl::unexpected(attachment.error());
  attachment_ = std::move(*attachment);

  auto name = engine::Reservation::take(attachment_->ipv4(), 0);
  if (!name) return tl::unexpected(name.error());
  name_ = std::move(*name);
  if (auto done = attachment_->register_endpoint(name_.port()); !done) return done;
  registered_ = true;
  inner_ = path::EndpointAddress{attachment_->fabric(), attachment_->t0(), attachment_->ipv4(), name_.port()}.inner();
  attachment_->route(inner_, {}, route_, engine::monotonic_clock().now());
  if (route_.mode != path::RouteMode::kSrv6) {
    return fail(EINVAL, attachment_->describe() +
                            ": there is no source routing on these ports, so no path can be chosen. Give the fabric's "
                            "[[prefix]] entries (--config), or a mrc-switch without --uplink (--socket)");
  }

  std::set<std::uint16_t> t0s{route_.local.t0};
  if (options_.t0s != 0) {
    for (unsigned i = 0; i < options_.t0s; ++i) t0s.insert(static_cast<std::uint16_t>(i));
  } else if (route_.hop == engine::kHopFixed) {
    const unsigned count = t0s_of_switch(options_.socket);
    if (count == 0) return fail(EPROTO, "mrc-switch does not say how many T0 switches there are: give --t0s");
    for (unsigned i = 0; i < count; ++i) t0s.insert(static_cast<std::uint16_t>(i));
  } else {
    auto file = engine::load_config(options_.config);
    if (!file) return tl::unexpected(file.error());
    for (const engine::PrefixEntry& prefix : file->prefixes) t0s.insert(prefix.t0);
  }
  shape_ = {.planes = route_.planes,
            .t0s = {t0s.begin(), t0s.end()},
            .t1s = route_.uplinks,
            .self = route_.local,
            .usid = route_.usid};
  paths_ = probe::paths_of(shape_);

  planes_.resize(attachment_->planes());
  for (unsigned p = 0; p < planes_.size(); ++p) {
    Plane& plane = planes_[p];
    plane.port = attachment_->port(p);
    std::memcpy(plane.rules.node.data(), inner_.bytes.data(), plane.rules.node.size());
    plane.rules.max_frame = plane.port->max_frame();
    plane.rules.crc = attachment_->crc32();
    const std::size_t room = plane.port->mtu() - std::min<std::size_t>(plane.port->mtu(), 200);
    if (options_.size > room) {
      return fail(EMSGSIZE, fmt::format("--size {} does not fit plane {}: at most {} with its MTU of {}", options_.size,
                                        p, room, plane.port->mtu()));
    }
  }
  return {};
}

std::size_t Prober::write(std::uint32_t index, std::uint64_t number, const port::MacAddress& to,
                          std::span<std::byte> out) {
  const probe::Path& path = paths_[index];
  wire::Packet p;
  p.has_outer = true;
  p.outer.source = route_.outer_source;
  p.outer.destination = path::make_carrier(route_.locator, {path.usids.data(), path.count});
  p.inner.source = p.inner.destination = inner_;
  const wire::Params params;
  p.inner.traffic_class = static_cast<std::uint8_t>(params.dscp.no_trim << 2);
  p.bth.opcode = wire::Opcode::kEndpointRequest;
  p.bth.dest_qpn = wire::kEndpointQpn;
  p.bth.psn = static_cast<std::uint32_t>(number & 0xffff);
  p.erth.op = wire::EndpointOp::kEvProbe;
  p.ev = p.erth.ev = path::EvLayout::make(path.plane, path.count > 2 ? route_.usid.index(path.usids[1]) : 0, 0, index);
  const Stamp stamp{.round = round_, .path = index, .number = number};
  transport::TxPacket packet;
  const std::size_t length = wire::write_headers(p, sizeof(stamp) + options_.size, params, packet.header);
  std::memcpy(packet.header.data() + length, &stamp, sizeof(stamp));
  packet.header_length = static_cast<std::uint16_t>(length + sizeof(stamp));
  packet.padding = options_.size;
  packet.outer = true;
  return engine::write_frame(packet, {.to = to, .from = planes_[path.plane].port->mac()}, planes_[path.plane].rules.crc,
                             out);
}

void Prober::send(std::uint32_t index, Tick now) {
  const unsigned p = paths_[index].plane;
  Plane& plane = planes_[p];
  const port::MacAddress* to = attachment_->next_hop(p, route_.hop, inner_, now);
  if (to == nullptr) {
    ++plane.no_neighbour;
    return;
  }
  port::TxFrame frame;
  if (plane.port->reserve({&frame, 1}) == 0) {
    ++plane.full;
    return;
  }
  PathState& state = state_[index];
  frame.length = static_cast<std::uint32_t>(write(index, state.sent, *to, {frame.data, plane.rules.max_frame}));
  if (plane.port->send({&frame, 1}) == 0) {
    ++plane.full;  // our own ring: no fault of the path
    return;
  }
  ++state.sent;
  ++plane.sent;
  state.back.push_back(false);
}

void Prober::take(std::span<const std::byte> l3) {
  wire::Packet p;
  if (wire::parse(l3, wire::Params{}, p) != wire::ParseError::kNone) return;
  Stamp stamp;
  if (p.bth.opcode != wire::Opcode::kEndpointRequest || p.inner.source != inner_ || p.inner.destination != inner_ ||
      p.payload.size() < sizeof(stamp)) {
    return;
  }
  std::memcpy(&stamp, p.payload.data(), sizeof(stamp));
  if (stamp.mark != kMark || stamp.round != round_ || stamp.path >= paths_.size()) return;
  PathState& state = state_[stamp.path];
  if (stamp.number >= state.sent || state.back[stamp.number]) return;
  state.back[stamp.number] = true;
  ++state.came;
}

void Prober::receive(Tick now) {
  std::array<port::RxFrame, kBurst> frames;
  for (unsigned p = 0; p < planes_.size(); ++p) {
    Plane& plane = planes_[p];
    const std::size_t n = plane.port->receive(frames);
    for (std::size_t i = 0; i < n; ++i) {
      const engine::CheckedFrame checked = engine::check_frame(frames[i].data, plane.rules);
      if (checked.kind == engine::FrameKind::kPacket) take(checked.l3);
      if (checked.kind == engine::FrameKind::kIcmp6) attachment_->on_neighbour(p, frames[i].data, now);
    }
    plane.port->release({frames.data(), n});
    neighbours(p, now);
  }
}

void Prober::neighbours(unsigned p, Tick now) {
  Plane& plane = planes_[p];
  while (attachment_->neighbours_pending(p, now)) {
    port::TxFrame frame;
    if (plane.port->reserve({&frame, 1}) == 0) return;
    const std::size_t length = attachment_->poll_neighbours(p, {frame.data, plane.rules.max_frame}, now);
    if (length == 0) return plane.port->cancel({&frame, 1});
    frame.length = static_cast<std::uint32_t>(length);
    plane.port->send({&frame, 1});
  }
}

Result<std::vector<probe::Result>> Prober::run(const volatile bool& stop) {
  engine::Clock& clock = engine::monotonic_clock();
  ++round_;
  state_.assign(paths_.size(), {});
  notes_.clear();
  for (Plane& plane : planes_) plane.no_neighbour = plane.full = plane.sent = 0;
  std::vector<std::uint32_t> order(paths_.size());
  std::iota(order.begin(), order.end(), 0u);
  std::size_t at = order.size();

  // Next hops first: what cannot leave says nothing about the fabric.
  for (const Tick until = clock.now() + seconds(1); clock.now() < until;) {
    bool known = true;
    for (unsigned p = 0; p < planes_.size(); ++p) {
      known &= attachment_->next_hop(p, route_.hop, inner_, clock.now()) != nullptr;
    }
    if (known) break;
    receive(clock.now());
    sched_yield();
  }

  const Tick start = clock.now();
  const Tick end = start + nanoseconds(static_cast<std::int64_t>(options_.duration * 1e9));
  const Tick last = end + nanoseconds(static_cast<std::int64_t>(options_.wait * 1e9));
  const double interval = 1e9 / options_.rate;
  std::uint64_t turns = 0;
  Tick chores{};
  for (Tick now = start; now < last && !stop; now = clock.now()) {
    receive(now);
    if (now >= chores) {
      chores = now + milliseconds(1);
      std::array<engine::AttachmentNotice, 16> notices;
      const std::size_t n = attachment_->poll(notices, now);
      for (std::size_t i = 0; i < n; ++i) {
        if (notices[i].kind == engine::AttachmentNotice::Kind::kPortsDead) {
          return fail(ECONNRESET, "mrc-switch went away while its fabric was being probed");
        }
      }
    }
    std::size_t sent = 0;
    while (now < end && sent < kBurst &&
           static_cast<double>((now - start).ns) >= static_cast<double>(turns) * interval) {
      if (at == order.size()) {  // every path once, in another order each time
        for (std::size_t i = order.size(); i > 1; --i) {
          std::swap(order[i - 1], order[random_.below(static_cast<std::uint32_t>(i))]);
        }
        at = 0;
      }
      send(order[at++], now);
      ++turns;
      ++sent;
    }
    if (sent != 0) attachment_->sent();
    if (sent < kBurst) sched_yield();
    if (now >= end && std::all_of(state_.begin(), state_.end(), [](const PathState& s) { return s.came == s.sent; })) {
      break;
    }
  }

  for (unsigned p = 0; p < planes_.size(); ++p) {
    const Plane& plane = planes_[p];
    if (!plane.port->link_up())
      notes_.push_back(fmt::format("plane {}: the link of {} is down", p, plane.port->name()));
    if (plane.no_neighbour != 0) {
      notes_.push_back(fmt::format("plane {}: the next hop does not answer neighbour discovery ({} probes not sent)", p,
                                   plane.no_neighbour));
    }
    if (plane.full != 0) {
      notes_.push_back(
          fmt::format("plane {}: {} probes not sent, the port's ring was full (lower --rate)", p, plane.full));
    }
  }
  std::vector<probe::Result> out;
  for (std::size_t i = 0; i < paths_.size(); ++i) {
    out.push_back({paths_[i].links, state_[i].sent, state_[i].sent - state_[i].came});
    // What could not even leave: the shortest path says that our own link is down.
    const Plane& plane = planes_[paths_[i].plane];
    if (plane.sent != 0 || paths_[i].links.size() != 1) continue;
    if (plane.no_neighbour != 0 || !plane.port->link_up()) {
      out.back().sent = out.back().lost = std::max(plane.no_neighbour + plane.full, options_.rules.min_lost);
    }
  }
  return out;
}

}  // namespace mrc::tool
