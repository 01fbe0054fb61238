// SPDX-License-Identifier: BSD-2-Clause
// Own ports: planning, opening, next hops.
#include "mrc/engine/own_ports.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "mrc/engine/identity.hpp"

namespace mrc::engine {
namespace {

constexpr std::size_t kNeighbours = 4096;

port::PortLayer* port_layer = nullptr;  // of this process's ports; set before any of them is open

std::uint32_t layer_crc32(std::span<const std::byte> bytes) {
  return port_layer->crc32(bytes);
}

std::string group_text(const port::PortGroup& group) {
  std::string out;
  for (const port::PortSpec& spec : group.ports) out += (out.empty() ? "" : ";") + spec.text;
  return out;
}

wire::Ipv6Address link_local(const port::MacAddress& mac) {  // EUI-64, RFC 4291 appendix A
  return {{0xfe, 0x80, 0, 0, 0, 0, 0, 0, static_cast<std::uint8_t>(mac[0] ^ 2), mac[1], mac[2], 0xff, 0xfe, mac[3],
           mac[4], mac[5]}};
}

}  // namespace

Result<OwnPortsPlan> plan_group(const FileConfig& config, std::size_t index) {
  const port::PortGroup& group = config.groups[index];
  OwnPortsPlan plan;
  plan.fabric = config.fabric;
  plan.prefixes = config.prefixes;
  plan.link_bps = group.link_bps;
  plan.ipv4 = primary_ipv4();
  if (!group.ipv4.empty()) {
    auto ipv4 = parse_ipv4(group.ipv4);
    if (!ipv4) return tl::unexpected(ipv4.error());
    plan.ipv4 = *ipv4;
  }
  for (std::size_t i = 0; i < config.groups.size(); ++i) {
    if (i == index || config.groups[i].ipv4.empty()) continue;
    if (auto other = parse_ipv4(config.groups[i].ipv4); other && *other != plan.ipv4) plan.foreign.push_back(*other);
  }
  if (group.ports.empty() || group.ports.size() > path::kMaxPlanes) {
    return fail(EINVAL, fmt::format("a port group needs 1 to {} ports, one a plane; \"{}\" has {}", path::kMaxPlanes,
                                    group_text(group), group.ports.size()));
  }
  if (config.fabric.planes != 0 && config.fabric.planes != group.ports.size()) {
    return fail(EINVAL, fmt::format("the fabric has {} planes, port group \"{}\" has {} ports: give one port a plane",
                                    config.fabric.planes, group_text(group), group.ports.size()));
  }
  if (!group.gateway.empty()) {
    wire::Ipv6Address gateway{};
    if (inet_pton(AF_INET6, group.gateway.c_str(), gateway.bytes.data()) != 1) {
      return fail(EINVAL, fmt::format("gateway \"{}\" is not an IPv6 address such as fe80::1", group.gateway));
    }
    plan.gateway = gateway;
  }
  if (plan.prefixes.empty()) {
    if (group.t0 > 0) {
      return fail(EINVAL, fmt::format("port group \"{}\" has t0={} but no [[prefix]] says where its peers are: give "
                                      "them in the file that FI_MRC_CONFIG names",
                                      group_text(group), group.t0));
    }
    return plan;  // point to point: T0 is 0 on both sides
  }
  if (!plan.gateway) {
    return fail(EINVAL, fmt::format("port group \"{}\" needs a gateway: with [[prefix]] entries packets go through "
                                    "T0 switches (gateway = \"fe80::…\")",
                                    group_text(group)));
  }
  const auto self = locate(plan.prefixes, plan.ipv4);
  if (!self && (group.t0 < 0 || group.nic < 0)) {
    return fail(EINVAL, fmt::format("nothing says below which T0 {} sits: give the group t0 and nic, or a [[prefix]] "
                                    "that holds it",
                                    to_text(plan.ipv4)));
  }
  plan.local = self.value_or(path::Location{});
  if (group.t0 >= 0) plan.local.t0 = static_cast<std::uint16_t>(group.t0);
  if (group.nic >= 0) plan.local.nic = static_cast<std::uint16_t>(group.nic);
  return plan;
}

Result<std::unique_ptr<Attachment>> OwnPorts::open(const EngineConfig& config) {
  FileConfig file;
  if (!config.config_file.empty()) {
    auto loaded = load_config(config.config_file);
    if (!loaded) return tl::unexpected(loaded.error());
    file = std::move(*loaded);
  }
  if (!config.ports.empty()) {
    auto groups = port::parse_groups(config.ports);
    if (!groups) return tl::unexpected(groups.error());
    file.groups = std::move(*groups);
  }
  std::vector<std::string> names;
  for (const port::PortGroup& group : file.groups) names.push_back(group_text(group));
  auto claim = Claim::first_free(names);
  if (!claim) return tl::unexpected(claim.error());
  auto plan = plan_group(file, claim->index());
  if (!plan) return tl::unexpected(plan.error());

  const port::PortGroup& group = file.groups[claim->index()];
  const bool pci = std::any_of(group.ports.begin(), group.ports.end(),
                               [](const port::PortSpec& spec) { return spec.kind == port::PortKind::kPci; });
  // EAL lives once in a process: the object that can open the rarest kind opens them all.
  port::PortKind rarest = group.ports.front().kind;
  for (const port::PortSpec& spec : group.ports) rarest = std::max(rarest, spec.kind);
  auto found = port::layer_for(rarest, config.provider_directory);
  if (!found) return tl::unexpected(found.error());
  port_layer = *found;
  if (auto started = port_layer->start({.pci = pci,
                                        .memory_mb = config.memory_mb,
                                        .telemetry = config.telemetry,
                                        .log_level = "error",
                                        .log = nullptr});
      !started) {
    return tl::unexpected(started.error());
  }
  std::vector<std::unique_ptr<port::Port>> ports;
  for (const port::PortSpec& spec : group.ports) {
    auto port = port_layer->open(spec);
    if (!port) return tl::unexpected(port.error());
    ports.push_back(std::move(*port));
  }
  auto out = std::make_unique<OwnPorts>(std::move(*plan), std::move(ports), layer_crc32);
  out->keep(std::move(*claim));
  return std::unique_ptr<Attachment>(std::move(out));
}

OwnPorts::OwnPorts(OwnPortsPlan plan, std::vector<std::unique_ptr<port::Port>> ports, wire::Crc32 crc)
    : plan_(std::move(plan)), ports_(std::move(ports)), crc_(crc) {
  for (const auto& port : ports_) {
    neighbours_.push_back(std::make_unique<port::NeighbourCache>(port->mac(), kNeighbours));
    neighbours_.back()->add_own(link_local(port->mac()));
    if (!srv6()) continue;
    // What the T0 has left of a carrier is our NIC's uSID: a T0 with an on-link route to it solicits that address.
    const auto plane = static_cast<unsigned>(neighbours_.size() - 1);
    const std::uint16_t nic = plan_.fabric.usid.make(plane, path::UsidKind::kNic, plan_.local.nic);
    neighbours_.back()->add_own(path::make_carrier(plan_.fabric.locator, std::array{nic}));
  }
}

OwnPorts::~OwnPorts() = default;

std::string OwnPorts::describe() const {
  std::string names;
  for (const auto& port : ports_) names += (names.empty() ? "" : ", ") + port->name();
  return fmt::format("{} ({}, {})", names, srv6() ? "SRv6" : "point to point", to_text(plan_.ipv4));
}

port::PortLayer* OwnPorts::layer() const {
  return port_layer;
}

bool OwnPorts::memory_only() const {
  return std::all_of(ports_.begin(), ports_.end(), [](const auto& port) { return port->lossless_memory(); });
}

bool OwnPorts::foreign(std::uint32_t ipv4) const {
  return std::find(plan_.foreign.begin(), plan_.foreign.end(), ipv4) != plan_.foreign.end();
}

wire::Ipv6Address OwnPorts::inner(std::uint16_t port) const {
  return path::EndpointAddress{plan_.fabric.prefix, plan_.local.t0, plan_.ipv4, port}.inner();
}

Result<void> OwnPorts::register_endpoint(std::uint16_t port) {
  for (const auto& cache : neighbours_) cache->add_own(inner(port));
  return {};
}

void OwnPorts::unregister_endpoint(std::uint16_t port) {
  for (const auto& cache : neighbours_) cache->remove_own(inner(port));
}

path::Directory::Answer OwnPorts::locate(std::uint32_t ipv4, std::uint16_t, path::Location& out) {
  using Answer = path::Directory::Answer;
  if (ipv4 == plan_.ipv4) return Answer::kUnknown;  // an endpoint of this process that is not open (yet)
  if (!srv6()) {
    out = {};
    return ipv4 == 0 || ipv4 >> 24 == 127 || ipv4 >> 28 >= 0xe ? Answer::kNoRoute : Answer::kFound;
  }
  const auto where = engine::locate(plan_.prefixes, ipv4);
  if (!where) return Answer::kNoRoute;
  out = *where;
  return Answer::kFound;
}

std::string OwnPorts::why_no_route(std::uint32_t ipv4, std::uint16_t) const {
  if (!srv6()) return fmt::format("no way to {}: it is not an address of another host", to_text(ipv4));
  return fmt::format("no way to {}: no [[prefix]] of the configuration (FI_MRC_CONFIG) holds it", to_text(ipv4));
}

void OwnPorts::route(const wire::Ipv6Address& remote, const path::Location& where, path::Route& out, Tick now) {
  out = {};
  out.mode = srv6() ? path::RouteMode::kSrv6 : path::RouteMode::kEcmp;
  out.planes = static_cast<std::uint8_t>(ports_.size());
  out.uplinks = plan_.fabric.uplinks;
  out.locator = plan_.fabric.locator;
  out.usid = plan_.fabric.usid;
  out.local = plan_.local;
  out.remote = where;
  out.outer_source = inner(0);
  out.hop = plan_.gateway ? kHopGateway : kHopDirect;
  out.mtu = ports_.front()->mtu();
  for (const auto& port : ports_) out.mtu = std::min(out.mtu, port->mtu());
  // Ask for all planes' next hops now, so that data finds them known.
  for (unsigned p = 0; p < ports_.size(); ++p) static_cast<void>(next_hop(p, out.hop, remote, now));
}

const port::MacAddress* OwnPorts::next_hop(unsigned plane, std::uint32_t hop, const wire::Ipv6Address& destination,
                                           Tick now) {
  return neighbours_[plane]->lookup(hop == kHopGateway && plan_.gateway ? *plan_.gateway : destination, now);
}

bool OwnPorts::on_neighbour(unsigned plane, std::span<const std::byte> frame, Tick now) {
  return neighbours_[plane]->on_frame(frame, now);
}

void OwnPorts::learn(unsigned plane, const wire::Ipv6Address& from, const port::MacAddress& mac, Tick now) {
  neighbours_[plane]->learn(from, mac, now);
}

std::size_t OwnPorts::poll_neighbours(unsigned plane, std::span<std::byte> out, Tick now) {
  return neighbours_[plane]->poll_tx(out, now);
}

bool OwnPorts::neighbours_pending(unsigned plane, Tick now) const {
  return neighbours_[plane]->tx_pending(now);
}

std::vector<int> OwnPorts::wake_fds() const {
  std::vector<int> out;
  for (const auto& port : ports_) {
    if (port->wake_fd() >= 0) out.push_back(port->wake_fd());
  }
  return out;
}

bool OwnPorts::wakes() const {
  return std::all_of(ports_.begin(), ports_.end(), [](const auto& port) { return port->wake_fd() >= 0; });
}

std::vector<int> OwnPorts::private_fds() const {
  return claim_.fd() >= 0 ? std::vector<int>{claim_.fd()} : std::vector<int>{};
}

}  // namespace mrc::engine
