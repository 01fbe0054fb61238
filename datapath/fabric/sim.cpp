// SPDX-License-Identifier: BSD-2-Clause
// The simulator's clock: events, actions, faults, and what nodes know of each other. sim_node.cpp moves the packets.
#include "mrc/fabric/sim.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cerrno>

#include "mrc/fabric/command.hpp"
#include "mrc/path/address.hpp"
#include "sim_node.hpp"

namespace mrc::fabric {

namespace {

std::size_t longest(const SimConfig& config) {
  return std::max<std::size_t>(config.mtu, 1280) + 256;
}

}  // namespace

Sim::Sim(const SimConfig& config)
    : config_(config),
      random_(config.seed),
      link_random_(config.seed ^ 0x6c696e6b73),
      packets_(config.carry_payload ? longest(config) : sizeof(transport::TxPacket::header), longest(config)),
      scratch_(16) {
  config_.nodes = std::max(config_.nodes, 1u);
  const unsigned t0s = std::max<unsigned>(config_.clos.t0s, 1);
  for (unsigned i = static_cast<unsigned>(config_.places.size()); i < config_.nodes; ++i) {
    config_.places.push_back({static_cast<std::uint16_t>(i % t0s), static_cast<std::uint16_t>(i / t0s)});
  }
  for (const auto& place : config_.places) {
    config_.clos.nics = std::max<std::uint16_t>(config_.clos.nics, static_cast<std::uint16_t>(place.nic + 1));
    config_.clos.t0s = std::max<std::uint16_t>(config_.clos.t0s, static_cast<std::uint16_t>(place.t0 + 1));
  }
  config_.clos.seed = random_.next();
  config_.clos.dscp = config_.transport.wire.dscp;
  if (config_.clos.nic_to_t0.bps == 0) config_.clos.nic_to_t0.bps = config_.link_bps;
  clos_ = std::make_unique<Clos>(config_.clos);
  config_.clos = clos_->config();
  by_place_.assign(std::size_t{config_.clos.t0s} * config_.clos.nics, SimPacket::kNowhere);
  for (unsigned i = 0; i < config_.nodes; ++i) {
    nodes_.push_back(std::make_unique<Node>());
    nodes_[i]->place = config_.places[i];
    const path::Location place = config_.places[i];
    by_place_[std::size_t{place.t0} * config_.clos.nics + place.nic] = i;
    for (std::uint8_t plane = 0; plane < config_.clos.planes; ++plane) {
      Link& direct = nodes_[i]->direct[plane];
      direct.set_model({.bps = config_.link_bps});
      nodes_[i]->port[plane] =
          config_.direct ? &direct : clos_->link(LinkId{LinkKind::kNicToT0, plane, place.t0, place.nic});
    }
    start_core(*nodes_[i]);
  }
  if (config_.direct) set_direct({});
}

Sim::~Sim() = default;

void Sim::start_core(Node& node) {
  node.core.reset();
  const std::size_t size = transport::Core::memory_needed(config_.transport, config_.limits);
  node.memory.reset(new (std::align_val_t{Node::kPage}) std::byte[size]());
  node.core.emplace(config_.transport, config_.limits, std::span(node.memory.get(), size), random_.next());
  for (unsigned plane = 0; plane < config_.clos.planes; ++plane) {
    if (!node.up[plane]) node.core->set_plane_up(plane, false, now_);
  }
}

unsigned Sim::nodes() const {
  return static_cast<unsigned>(nodes_.size());
}
transport::Core& Sim::core(unsigned node) {
  return *nodes_[node]->core;
}
const SimNodeCounters& Sim::counters(unsigned node) const {
  return nodes_[node]->counters;
}
path::Location Sim::location(unsigned node) const {
  return nodes_[node]->place;
}
NodeState Sim::node_state(unsigned node) const {
  return nodes_[node]->state;
}
Link& Sim::direct_link(unsigned node, unsigned plane) {
  return nodes_[node]->direct[plane];
}

wire::Ipv6Address Sim::address(unsigned node, std::uint16_t port) const {
  return path::EndpointAddress{.t0 = nodes_[node]->place.t0, .ipv4 = kFirstIpv4 + node, .port = port}.inner();
}

std::optional<unsigned> Sim::node_of(const wire::Ipv6Address& inner) const {
  const auto endpoint = path::EndpointAddress::from_inner(inner);
  const std::uint32_t node = endpoint.ipv4 - kFirstIpv4;
  if (endpoint.fabric != path::kDefaultFabric || node >= nodes_.size() || nodes_[node]->place.t0 != endpoint.t0) {
    return std::nullopt;
  }
  return node;
}

transport::Status Sim::route(unsigned node, const wire::Ipv6Address& remote, path::Route& out) const {
  const auto peer = node_of(remote);
  if (!peer) return transport::Status::kNoRoute;
  out = path::Route{};
  out.mode = config_.direct ? path::RouteMode::kEcmp : path::RouteMode::kSrv6;
  out.planes = config_.clos.planes;
  out.uplinks = std::max<std::uint16_t>(config_.clos.t1s, 1);
  out.locator = config_.clos.locator;
  out.usid = config_.clos.usid;
  out.local = nodes_[node]->place;
  out.remote = nodes_[*peer]->place;
  out.outer_source = address(node, 0);
  out.mtu = config_.mtu;
  return transport::Status::kOk;
}

transport::EpId Sim::add_endpoint(unsigned node, std::uint16_t port, transport::Upper* upper) {
  return nodes_[node]->core->add_endpoint(address(node, port), random_.next() | 1, upper);
}

void Sim::set_direct(const Impairment& impairment) {
  Impairment all = impairment;
  all.delay = all.delay + config_.direct_delay;
  for (auto& node : nodes_) {
    for (auto& link : node->direct) link.set(all);
  }
}

void Sim::at(Tick when, std::function<void()> action) {
  at_node(when, kEveryNode, std::move(action));
}

void Sim::at_node(Tick when, unsigned node, std::function<void()> action) {
  std::uint32_t slot = 0;
  if (free_actions_.empty()) {
    slot = static_cast<std::uint32_t>(actions_.size());
    actions_.emplace_back();
  } else {
    slot = free_actions_.back();
    free_actions_.pop_back();
  }
  actions_[slot] = {std::move(action), node};
  schedule(when, SimEvent::kAction, slot);
}

std::size_t Sim::packets_in_flight() const {
  std::size_t waiting = 0;
  for (const auto& node : nodes_) waiting += node->waiting.size();
  return packets_.in_use() - waiting;
}

bool Sim::carrier(unsigned node, unsigned plane) const {
  if (config_.direct) return !nodes_[node]->direct[plane].down_at(now_);
  return clos_->carrier({nodes_[node]->place, static_cast<std::uint8_t>(plane)}, now_);
}

void Sim::refresh_carriers() {
  for (unsigned i = 0; i < nodes(); ++i) {
    Node& node = *nodes_[i];
    for (unsigned plane = 0; plane < config_.clos.planes; ++plane) {
      const bool up = carrier(i, plane);
      if (up == node.up[plane]) continue;
      node.up[plane] = up;
      if (node.state == NodeState::kRunning) node.core->set_plane_up(plane, up, now_);
    }
  }
}

void Sim::plan_flap() {
  Tick next = kNever;
  if (config_.direct) {
    for (const auto& node : nodes_) {
      for (unsigned plane = 0; plane < config_.clos.planes; ++plane) {
        next = std::min(next, node->direct[plane].flap().next_change(now_));
      }
    }
  } else {
    next = clos_->next_flap(now_);
  }
  if (next == kNever || (flap_ > now_ && flap_ <= next)) return;
  flap_ = next;
  schedule(next, SimEvent::kFlap, 0);
}

Result<void> Sim::play(const Timeline& timeline) {
  if (config_.direct) return fail(EINVAL, "direct links have no fabric that a timeline could change");
  for (const auto& event : timeline.events()) {
    const auto fits = check_command(*clos_, event.command);
    if (fits) continue;
    return fail(fits.error().code,
                event.line == 0 ? fits.error().text : fmt::format("line {}: {}", event.line, fits.error().text));
  }
  for (const auto& event : timeline.events()) {
    // What was right above may have become wrong by then only for a rate's sake; the fabric then stays as it is.
    at(now_ + event.at, [this, command = event.command] { static_cast<void>(apply_command(*clos_, command)); });
  }
  return {};
}

void Sim::set_node(unsigned index, NodeState state) {
  Node& node = *nodes_[index];
  const NodeState before = node.state;
  node.state = state;
  if (state == NodeState::kDead) {
    for (const std::uint32_t packet : node.waiting) packets_.drop(packet);
    node.waiting.clear();
  }
  if (state != NodeState::kRunning || before == NodeState::kRunning) return;
  for (unsigned plane = 0; plane < config_.clos.planes; ++plane) {
    node.core->set_plane_up(plane, node.up[plane], now_);  // what it missed
  }
  // From the event loop, not from within the caller.
  at_node(now_, index, [this, index] {
    if (nodes_[index]->state != NodeState::kRunning) return;  // paused again at once
    const std::vector<std::uint32_t> waiting = std::move(nodes_[index]->waiting);
    nodes_[index]->waiting.clear();
    for (std::size_t i = 0; i < waiting.size(); i += kBurst) {
      receive(index, std::span(waiting).subspan(i, std::min(kBurst, waiting.size() - i)));
    }
  });
}

void Sim::restart(unsigned node) {
  set_node(node, NodeState::kDead);
  start_core(*nodes_[node]);
  nodes_[node]->state = NodeState::kRunning;
  nodes_[node]->wake = kNever;
}

void Sim::service_all() {
  refresh_carriers();
  plan_flap();
  for (unsigned i = 0; i < nodes(); ++i) service(i);
}

// Packets rest for thousands of events between two of theirs: they are out of the near caches by then. The root is the
// next event, its children the likely ones after it.
void Sim::prefetch_next() const {
  for (const Scheduled& next : queue_.soon()) {
    if (next.kind() <= SimEvent::kHop) packets_.prefetch(next.index());
  }
}

bool Sim::run(const std::function<bool()>& done, Tick limit) {
  service_all();  // the caller may have touched anything
  while (!done()) {
    if (queue_.empty() || Tick{queue_.front().when} > limit) {
      if (limit != kNever) now_ = std::max(now_, limit);
      return false;
    }
    const Scheduled next = queue_.take();
    assert(next.when >= now_.ns);
    now_ = Tick{next.when};
    prefetch_next();
    switch (next.kind()) {
      case SimEvent::kArrival:
        arrivals(next.index());
        break;
      case SimEvent::kHop:
        hop(next.index());
        break;
      case SimEvent::kWake:
        if (nodes_[next.index()]->wake != now_) break;  // overtaken by an earlier one
        nodes_[next.index()]->wake = kNever;
        service(next.index());
        break;
      case SimEvent::kFlap:
        if (flap_ == now_) service_all();
        break;
      case SimEvent::kAction: {
        const Action action = std::move(actions_[next.index()]);
        free_actions_.push_back(next.index());
        action.run();
        if (action.node == kEveryNode) {
          service_all();
        } else {
          service(action.node);
        }
        break;
      }
    }
  }
  return true;
}

void Sim::run_until(Tick limit) {
  run([] { return false; }, limit);
}

transport::Placement SimUpper::place(const transport::RxWrite& write) {
  const auto region = regions_.find(write.rkey);
  const std::size_t size = write.payload.size();
  if (region == regions_.end() || write.va > region->second.size() || size > region->second.size() - write.va) {
    ++refused;
    return transport::Placement::kRefused;
  }
  std::copy(write.payload.begin(), write.payload.end(), region->second.begin() + static_cast<std::ptrdiff_t>(write.va));
  ++placed_packets;
  placed_bytes += size;
  return transport::Placement::kPlaced;
}

transport::Status SimUpper::route(const wire::Ipv6Address& remote, path::Route& out) {
  return sim_.route(node_, remote, out);
}

}  // namespace mrc::fabric
