// SPDX-License-Identifier: BSD-2-Clause
// Ports that mrc-switch gives.
#include "mrc/engine/switch_ports.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

#include "mrc/engine/identity.hpp"

namespace mrc::engine {
namespace {

// The switch looks at L3 only; any MAC would do, so long as it is a unicast one.
constexpr port::MacAddress kSwitchMac{0x02, 'm', 'r', 'c', 0, 1};

std::uint32_t builtin_crc32(std::span<const std::byte> bytes) {
  return port::builtin_layer().crc32(bytes);
}

}  // namespace

Result<std::unique_ptr<Attachment>> SwitchPorts::open(const EngineConfig& config) {
  control::AttachOptions options;
  options.socket = config.switch_socket;
  options.program = config.switch_program;
  options.provider_directory = config.provider_directory;
  options.autostart = config.autostart;
  options.ipv4 = primary_ipv4();
  auto client = control::SwitchClient::attach(options);
  if (!client) return tl::unexpected(client.error());
  if (auto started = port::builtin_layer().start({.pci = false,
                                                  .memory_mb = config.memory_mb,
                                                  .telemetry = config.telemetry,
                                                  .log_level = "error",
                                                  .log = nullptr});
      !started) {
    return tl::unexpected(started.error());
  }
  std::unique_ptr<SwitchPorts> out(new SwitchPorts(std::move(*client), options.ipv4));
  if (auto opened = out->open_ports(); !opened) return tl::unexpected(opened.error());
  return std::unique_ptr<Attachment>(std::move(out));
}

SwitchPorts::SwitchPorts(std::unique_ptr<control::SwitchClient> client, std::uint32_t ipv4)
    : client_(std::move(client)), ipv4_(ipv4) {}

SwitchPorts::~SwitchPorts() = default;

Result<void> SwitchPorts::open_ports() {
  const control::SwitchInfo& info = client_->info();
  if (info.planes.empty() || info.planes.size() > path::kMaxPlanes) {
    return fail(EPROTO, fmt::format("mrc-switch (pid {}) offers {} planes; 1 to {} are possible", info.pid,
                                    info.planes.size(), path::kMaxPlanes));
  }
  ports_.clear();
  for (const control::PlanePort& plane : info.planes) {
    auto port = port::builtin_layer().open_memif({.socket_path = plane.memif_path,
                                                  .id = plane.memif_id,
                                                  .server = false,
                                                  .mtu = info.mtu,
                                                  .ring_log2 = info.ring_log2});
    if (!port) return tl::unexpected(port.error());
    ports_.push_back(std::move(*port));
  }
  first_poll_ = true;
  return {};
}

std::string SwitchPorts::describe() const {
  const control::SwitchInfo& info = client_->info();
  return fmt::format("mrc-switch (pid {}), {} planes, T0 {} NIC {}, {}", info.pid, ports_.size(), info.location.t0,
                     info.location.nic, to_text(ipv4_));
}

wire::Crc32 SwitchPorts::crc32() const {
  return builtin_crc32;
}

Result<void> SwitchPorts::register_endpoint(std::uint16_t port) {
  return client_->register_endpoint(ipv4_, port);
}

void SwitchPorts::unregister_endpoint(std::uint16_t port) {
  static_cast<void>(client_->unregister_endpoint(ipv4_, port));  // a dead switch has forgotten it anyway
}

path::Directory::Answer SwitchPorts::locate(std::uint32_t ipv4, std::uint16_t port, path::Location& out) {
  return client_->lookup(ipv4, port, out);
}

std::string SwitchPorts::why_no_route(std::uint32_t ipv4, std::uint16_t) const {
  return client_->why_no_route(ipv4);
}

void SwitchPorts::route(const wire::Ipv6Address&, const path::Location& where, path::Route& out, Tick) {
  const control::SwitchInfo& info = client_->info();
  out = {};
  out.mode = info.srv6 ? path::RouteMode::kSrv6 : path::RouteMode::kEcmp;
  out.planes = static_cast<std::uint8_t>(ports_.size());
  out.uplinks = info.uplinks;
  out.locator = info.locator;
  out.usid = info.usid;
  out.local = info.location;
  out.remote = where;
  out.outer_source = path::EndpointAddress{info.fabric, info.location.t0, ipv4_, 0}.inner();
  out.hop = kHopFixed;
  out.mtu = info.mtu;
}

const port::MacAddress* SwitchPorts::next_hop(unsigned, std::uint32_t, const wire::Ipv6Address&, Tick) {
  return &kSwitchMac;
}

std::size_t SwitchPorts::poll(std::span<AttachmentNotice> out, Tick) {
  std::size_t used = 0;
  if (first_poll_) {
    first_poll_ = false;
    const control::SwitchInfo& info = client_->info();
    for (std::size_t p = 0; p < ports_.size() && used < out.size(); ++p) {
      out[used++] = {.kind = AttachmentNotice::Kind::kPlane,
                     .peer = {},
                     .plane = static_cast<std::uint8_t>(p),
                     .up = (info.planes_up >> p & 1) != 0};
    }
    return used;
  }
  control::Notice notices[16];
  const std::size_t n = client_->poll({notices, std::min(std::size(notices), out.size())});
  for (std::size_t i = 0; i < n; ++i) {
    const control::Notice& notice = notices[i];
    AttachmentNotice& to = out[used];
    switch (notice.kind) {
      case control::NoticeKind::kEndpointGone:
        to.kind = AttachmentNotice::Kind::kPeerGone;
        to.peer = {client_->info().fabric, notice.location.t0, notice.ipv4, notice.port};
        ++used;
        break;
      case control::NoticeKind::kEndpointClosed:
        break;
      case control::NoticeKind::kPlane:
        to.kind = AttachmentNotice::Kind::kPlane;
        to.plane = notice.plane;
        to.up = notice.up;
        ++used;
        break;
      case control::NoticeKind::kSwitchDied:
        to.kind = AttachmentNotice::Kind::kPortsDead;
        ++used;
        break;
    }
  }
  return used;
}

Result<void> SwitchPorts::restart_ports() {
  ports_.clear();
  ports_.resize(client_->info().planes.size());
  if (auto attached = client_->reattach(); !attached) return attached;
  auto opened = open_ports();
  if (!opened) ports_.resize(std::max<std::size_t>(client_->info().planes.size(), 1));
  return opened;
}

std::vector<int> SwitchPorts::wake_fds() const {
  return {client_->wake_fd(), client_->fd()};
}

std::vector<int> SwitchPorts::private_fds() const {
  return {client_->fd()};
}

}  // namespace mrc::engine
