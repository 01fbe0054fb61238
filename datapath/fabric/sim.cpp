// SPDX-License-Identifier: BSD-2-Clause
// The simulator's clock: events, actions, faults, and what nodes know of each other. sim_node.cpp moves the packets.
#include "mrc/fabric/sim.hpp"

#include <algorithm>
#include <cassert>

#include "mrc/path/address.hpp"
#include "sim_node.hpp"

namespace mrc::fabric {

Sim::Sim(const SimConfig& config)
    : config_(config), random_(config.seed), link_random_(config.seed ^ 0x6c696e6b73), scratch_(16) {
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
  clos_ = std::make_unique<Clos>(config_.clos);
  config_.clos = clos_->config();
  for (unsigned i = 0; i < config_.nodes; ++i) {
    nodes_.push_back(std::make_unique<Node>());
    nodes_[i]->place = config_.places[i];
    by_place_[static_cast<std::uint32_t>(config_.places[i].t0) << 16 | config_.places[i].nic] = i;
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

void Sim::schedule(Tick when, Kind kind, std::uint32_t node, std::uint32_t index) {
  heap_.push_back({std::max(when, now_), sequence_++, kind, node, index});
  std::push_heap(heap_.begin(), heap_.end(), Later{});
}

Sim::Scheduled Sim::take() {
  std::pop_heap(heap_.begin(), heap_.end(), Later{});
  const Scheduled next = heap_.back();
  heap_.pop_back();
  return next;
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
  actions_[slot] = std::move(action);
  schedule(when, Kind::kAction, node, slot);
}

bool Sim::carrier(unsigned node, unsigned plane) const {
  if (config_.direct) return !nodes_[node]->direct[plane].down();
  return clos_->carrier({nodes_[node]->place, static_cast<std::uint8_t>(plane)});
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

void Sim::set_node(unsigned index, NodeState state) {
  Node& node = *nodes_[index];
  const NodeState before = node.state;
  node.state = state;
  if (state == NodeState::kDead) {
    for (const std::uint32_t packet : node.waiting) free_packets_.push_back(packet);
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
  for (unsigned i = 0; i < nodes(); ++i) service(i);
}

bool Sim::run(const std::function<bool()>& done, Tick limit) {
  service_all();  // the caller may have touched anything
  while (!done()) {
    if (heap_.empty() || heap_.front().when > limit) {
      if (limit != kNever) now_ = std::max(now_, limit);
      return false;
    }
    const Scheduled next = take();
    assert(next.when >= now_);
    now_ = next.when;
    switch (next.kind) {
      case Kind::kArrival:
        arrivals(next);
        break;
      case Kind::kWake:
        if (nodes_[next.node]->wake != next.when) break;  // overtaken by an earlier one
        nodes_[next.node]->wake = kNever;
        service(next.node);
        break;
      case Kind::kAction: {
        const auto action = std::move(actions_[next.index]);
        free_actions_.push_back(next.index);
        action();
        if (next.node == kEveryNode) {
          service_all();
        } else {
          service(next.node);
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
