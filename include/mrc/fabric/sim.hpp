// SPDX-License-Identifier: BSD-2-Clause
// Virtual time: N nodes, each with a production transport::Core, over the emulated Clos or over direct links.
// The clock jumps from event to event (integer nanoseconds; ties in the order they were scheduled), every random
// number comes from one seed: one seed gives one trace, and trace_hash() shows it.
//
// Packets go through the Clos hop by hop (Clos::step), each queue sees them in time order; links without a rate cost no
// event of their own.
//
// A node's loop is the documented one: on_rx → on_deadline if due → poll_tx until 0 → poll_events. It runs at every
// arrival, deadline, freed transmit slots and action. Packets are whole; the payload is gathered from TxPacket::source,
// a `const std::byte*` base to which the offset adds, unless set_gather() says otherwise. With carry_payload off nobody
// writes or reads payload bytes: lengths are right, contents undefined. A corrupted packet fails its iCRC as in a
// driver; the CRC is computed only for packets that a link corrupted, as it is right in all others.
// Threads: none. Not for a packet path: allocates as it goes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "mrc/fabric/clos.hpp"
#include "mrc/fabric/sim_packets.hpp"
#include "mrc/fabric/sim_queue.hpp"
#include "mrc/fabric/timeline.hpp"
#include "mrc/transport/core.hpp"

namespace mrc::fabric {

struct SimConfig {
  unsigned nodes = 2;
  std::uint64_t seed = 1;
  /// ECMP mode: each node has one plain Link per plane (of clos.planes) to everybody; no switches, no outer header.
  bool direct = false;
  Duration direct_delay = microseconds(1);
  /// nics is raised to what the nodes need; seed is replaced.
  ClosConfig clos{.link_delay = nanoseconds(500)};
  std::vector<path::Location> places{};  ///< node i's place; those not given: t0 = i mod t0s, nic = i / t0s
  std::uint64_t link_bps = 0;            ///< of each NIC port, sending, where clos.nic_to_t0 has no rate; 0: infinite
  std::uint32_t mtu = 4352;              ///< L3 bytes
  std::uint16_t tx_ring = 32;            ///< frames that a port takes ahead of the wire
  std::uint32_t rx_ring = 4096;          ///< frames that wait while a node is paused; more are lost
  bool carry_payload = true;
  transport::Config transport{};
  transport::Limits limits{.endpoints = 8, .connections = 64, .messages = 4096, .window_packets = 16384};
};

enum class NodeState : std::uint8_t {
  kRunning,
  kPaused,  ///< makes no progress; packets wait in its receive ring (a process that computes)
  kDead,    ///< packets vanish
};

struct SimNodeCounters {
  std::uint64_t tx = 0, tx_bytes = 0;  ///< packets and L3 bytes that left a port
  std::uint64_t rx = 0, rx_bytes = 0;  ///< handed to the core
  std::uint64_t rx_bad_icrc = 0, rx_bad_length = 0, rx_ring_full = 0, rx_dead = 0;
  std::uint64_t tx_nowhere = 0;  ///< direct mode: inner destination is no node
};

class Sim {
 public:
  explicit Sim(const SimConfig& config);
  ~Sim();
  Sim(const Sim&) = delete;
  Sim& operator=(const Sim&) = delete;

  Tick now() const { return now_; }
  unsigned nodes() const;
  const SimConfig& config() const { return config_; }
  transport::Core& core(unsigned node);
  const SimNodeCounters& counters(unsigned node) const;
  std::uint64_t trace_hash() const { return hash_; }  ///< over time, place and bytes of all packets delivered so far
  std::uint64_t events() const { return queue_.pushed(); }  ///< scheduled so far
  Random& random() { return random_; }                      ///< for the workload, so that it hangs on the seed too

  path::Location location(unsigned node) const;
  /// Inner address of (node, port); the node's IPv4 is 10.0.0.1 + node.
  wire::Ipv6Address address(unsigned node, std::uint16_t port) const;
  std::optional<unsigned> node_of(const wire::Ipv6Address& inner) const;
  /// For Upper::route(): from `node` to whoever owns `remote`.
  transport::Status route(unsigned node, const wire::Ipv6Address& remote, path::Route& out) const;
  /// `upper` must outlive the endpoint. Incarnations come from the seed.
  transport::EpId add_endpoint(unsigned node, std::uint16_t port, transport::Upper* upper);

  /// Called for each event of each core; may call into the core (post_write, close_endpoint, …).
  void on_event(std::function<void(unsigned node, const transport::Event&)> handler) { on_event_ = std::move(handler); }
  /// Called after each round of a node's loop, once received packets are placed; may call into the core.
  void on_progress(std::function<void(unsigned node)> handler) { on_progress_ = std::move(handler); }
  using Gather = std::function<void(const transport::TxPacket&, std::span<std::byte> payload)>;
  void set_gather(Gather gather) { gather_ = std::move(gather); }
  /// Called for each packet that a node hands to a port; must not call into the core.
  void on_transmit(std::function<void(unsigned node, const transport::TxPacket&)> tap) {
    on_transmit_ = std::move(tap);
  }

  /// Of the Clos, or on direct links: sent and not yet handed to a node, lost or waiting in a paused node's ring.
  std::size_t packets_in_flight() const;

  /// Runs `action` at `when` (not before now). It may do anything; carriers are looked at and all nodes run after it.
  void at(Tick when, std::function<void()> action);
  /// The same for an action that touches one node's core only: cheaper among many nodes.
  void at_node(Tick when, unsigned node, std::function<void()> action);

  /// Schedules every command of the timeline from now on. An error (nothing is scheduled then) where one does not fit.
  Result<void> play(const Timeline& timeline);

  // Faults. Each may be called between runs or from at(). A NIC sees its own carrier, nothing else.
  Clos& clos() { return *clos_; }                    ///< not in direct mode; settings there count at once
  Link& direct_link(unsigned node, unsigned plane);  ///< direct mode: what `node` sends on `plane`
  void set_direct(const Impairment& impairment);     ///< direct mode: all links (direct_delay is added)
  void set_node(unsigned node, NodeState state);
  NodeState node_state(unsigned node) const;
  /// The process dies and another starts in its place: a new core without endpoints.
  void restart(unsigned node);

  /// Until done() (asked after every event) or `limit`, or nothing is left to happen. True if done.
  bool run(const std::function<bool()>& done, Tick limit);
  void run_until(Tick limit);

 private:
  struct Node;
  struct Action {
    std::function<void()> run;
    std::uint32_t node = 0;
  };

  void schedule(Tick when, SimEvent kind, std::uint32_t index) { queue_.push(when < now_ ? now_ : when, kind, index); }
  void schedule_packet(Tick when, std::uint32_t packet) {
    schedule(when, packets_[packet].node == SimPacket::kNowhere ? SimEvent::kHop : SimEvent::kArrival, packet);
  }
  void prefetch_next() const;
  void start_core(Node& node);
  void refresh_carriers();
  void plan_flap();
  bool carrier(unsigned node, unsigned plane) const;
  void service_all();
  void service(unsigned node);
  void transmit(unsigned node);
  void fill_room(Node& node, std::span<std::uint16_t> room) const;
  void plan_wake(unsigned node);
  void send(unsigned node, const transport::TxPacket& packet);
  void launch_direct(Node& node, std::uint32_t packet, const wire::Ipv6Address& destination);
  void hop(std::uint32_t packet);
  void moved(std::uint32_t packet, const Step& step);
  std::uint32_t node_at(const path::Location& place) const;
  bool landed(std::uint32_t packet);
  void arrivals(std::uint32_t first);
  void receive(unsigned node, std::span<const std::uint32_t> packets);
  bool check(Node& node, SimPacket& packet) const;
  bool icrc_holds(SimPacket& packet, std::size_t inner) const;
  void note(unsigned node, const SimPacket& packet);

  SimConfig config_;
  Tick now_{};
  Random random_;
  Random link_random_;
  std::uint64_t hash_ = 0xcbf29ce484222325u;
  std::unique_ptr<Clos> clos_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::vector<std::uint32_t> by_place_;  ///< t0 × nics + nic → node
  SimQueue queue_;
  SimPackets packets_;
  std::vector<Action> actions_;
  std::vector<std::uint32_t> free_actions_;
  std::vector<transport::TxPacket> scratch_;
  Tick flap_ = kNever;  ///< the kFlap that is scheduled
  std::function<void(unsigned, const transport::Event&)> on_event_;
  std::function<void(unsigned)> on_progress_;
  std::function<void(unsigned, const transport::TxPacket&)> on_transmit_;
  Gather gather_;
};

/// An Upper for tests: routes through the Sim, places into registered memory (rkey → region, VA counts from its start).
class SimUpper : public transport::Upper {
 public:
  SimUpper(Sim& sim, unsigned node) : sim_(sim), node_(node) {}
  void add_region(std::uint32_t rkey, std::span<std::byte> memory) { regions_[rkey] = memory; }

  transport::Placement place(const transport::RxWrite& write) override;
  transport::Status route(const wire::Ipv6Address& remote, path::Route& out) override;

  std::uint64_t placed_packets = 0, placed_bytes = 0, refused = 0;

 protected:
  Sim& sim_;
  unsigned node_;
  std::map<std::uint32_t, std::span<std::byte>> regions_;
};

}  // namespace mrc::fabric
