// SPDX-License-Identifier: BSD-2-Clause
// Flows over the simulated fabric for congestion tests: each keeps a few writes in flight; bytes placed are counted.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <vector>

#include "mrc/fabric/sim.hpp"
#include "support/catch.hpp"

namespace mrc::transport::test {

/// Nodes below two T0s of four planes at `bps`, thresholds as mrc-protocol §4 has them for the base RTT.
inline fabric::SimConfig clos_config(unsigned nodes, std::uint64_t bps, std::uint64_t seed,
                                     Duration rtt = microseconds(8)) {
  fabric::SimConfig c;
  c.nodes = nodes;
  c.seed = seed;
  c.mtu = 4096 + 136;
  c.limits = {.endpoints = 64, .connections = 64, .messages = 4096, .window_packets = 65536};
  c.clos.planes = 4;
  c.clos.t0s = 2;
  c.clos.t1s = 8;
  c.clos.set_rates(bps, rtt);
  c.carry_payload = false;
  c.transport.wire.icrc = false;
  c.transport.link_bps = bps;
  c.transport.sack_delay = microseconds(5);
  c.transport.reorder_floor = microseconds(5);
  c.transport.rto_min = milliseconds(1);
  return c;
}

struct Flow {
  unsigned from = 0, to = 0;
  EpId ep = kNoId;
  ConnId conn = kNoId;
  bool running = false;
  std::uint64_t placed = 0;
  std::uint64_t posted = 0, done = 0, failed = 0;
  unsigned outstanding = 0;
};

class Traffic {
 public:
  static constexpr std::uint32_t kMessage = 1 << 20;
  static constexpr unsigned kDepth = 8;

  explicit Traffic(const fabric::SimConfig& config) : sim(config) {
    sim.run_until(Tick{1'000'000});  // a clock that has been running, as real ones have
    sim.on_event([this](unsigned, const Event& e) {
      if (e.kind != EventKind::kWriteDone) return;
      Flow& flow = *flows[e.cookie];
      --flow.outstanding;
      ++(e.status == Status::kOk ? flow.done : flow.failed);
      if (flow.running) post(flow);
    });
  }

  /// All flows before connect().
  Flow& add(unsigned from, unsigned to) {
    flows.push_back(std::make_unique<Flow>());
    Flow& flow = *flows.back();
    flow.from = from;
    flow.to = to;
    const auto port = static_cast<std::uint16_t>(1000 + flows.size());
    ends_.push_back(std::make_unique<End>(*this, flow, from));
    flow.ep = sim.add_endpoint(from, port, ends_.back().get());
    ends_.push_back(std::make_unique<End>(*this, flow, to));
    REQUIRE(sim.add_endpoint(to, static_cast<std::uint16_t>(port + 5000), ends_.back().get()) != kNoId);
    flow.conn = sim.core(from).connect(flow.ep, sim.address(to, static_cast<std::uint16_t>(port + 5000)));
    return flow;
  }
  /// Connections and MTUs are set up with a first write of each flow.
  void connect() {
    for (auto& flow : flows) post(*flow);
    const auto ready = [this] {
      return std::all_of(flows.begin(), flows.end(), [this](const auto& f) {
        return f->outstanding == 0 && sim.core(f->from).payload_mtu(f->conn) == 4096;
      });
    };
    REQUIRE(sim.run(ready, sim.now() + seconds(2)));
    sim.run_until(sim.now() + milliseconds(1));
    clear();
  }
  /// From now on payloads are a pattern, and each byte placed is compared. Needs SimConfig::carry_payload.
  void check_contents() {
    REQUIRE(sim.config().carry_payload);
    check_ = true;
    sim.set_gather([](const TxPacket& packet, std::span<std::byte> out) {
      for (std::size_t i = 0; i < out.size(); ++i) out[i] = pattern(packet.offset + i);
    });
  }
  static std::byte pattern(std::uint64_t at) { return static_cast<std::byte>(at * 167 >> 4); }
  std::uint64_t wrong = 0;  ///< bytes placed that are not what was sent

  void start(Flow& flow) {
    flow.running = true;
    while (flow.outstanding < kDepth) post(flow);
  }
  void start_all() {
    for (auto& flow : flows) start(*flow);
  }
  void run(Duration span) {
    sim.run_until(sim.now() + span);
    span_ = span_ + span;
  }
  /// Forgets what was measured.
  void clear() {
    for (auto& flow : flows) flow->placed = 0;
    span_ = {};
  }
  /// Of the payload that `planes` planes carry since clear().
  double share(const Flow& flow, double planes) const {
    const double line = static_cast<double>(sim.config().transport.link_bps) / 8e9 * planes * 4096 / (4096 + 166);
    return static_cast<double>(flow.placed) / (line * static_cast<double>(span_.ns));
  }
  static double jain(const std::vector<double>& x) {
    double sum = 0, squares = 0;
    for (const double v : x) sum += v, squares += v * v;
    return squares == 0 ? 0 : sum * sum / (static_cast<double>(x.size()) * squares);
  }
  std::uint64_t failed() const {
    std::uint64_t n = 0;
    for (const auto& flow : flows) n += flow->failed;
    return n;
  }

  fabric::Sim sim;
  std::vector<std::unique_ptr<Flow>> flows;

 private:
  class End : public Upper {
   public:
    End(Traffic& traffic, Flow& flow, unsigned node) : traffic_(traffic), flow_(flow), node_(node) {}
    Placement place(const RxWrite& write) override {
      flow_.placed += write.payload.size();
      for (std::size_t i = 0; traffic_.check_ && i < write.payload.size(); ++i) {
        traffic_.wrong += write.payload[i] != pattern((write.va & 0xffffff) + i);
      }
      return Placement::kPlaced;
    }
    Status route(const wire::Ipv6Address& remote, path::Route& out) override {
      return traffic_.sim.route(node_, remote, out);
    }

   private:
    Traffic& traffic_;
    Flow& flow_;
    unsigned node_;
  };

  void post(Flow& flow) {
    WriteRequest request;
    request.va = flow.posted++ << 24;
    request.rkey = 1;
    request.length = kMessage;
    std::size_t index = 0;
    while (flows[index].get() != &flow) ++index;
    request.cookie = index;
    REQUIRE(sim.core(flow.from).post_write(flow.conn, request, sim.now()) == Status::kOk);
    ++flow.outstanding;
  }

  std::vector<std::unique_ptr<End>> ends_;
  Duration span_{};
  bool check_ = false;
};

}  // namespace mrc::transport::test
