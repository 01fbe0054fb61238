// SPDX-License-Identifier: BSD-2-Clause
// The run: nodes, their uppers, the workload, and the end, when everything must come to rest.
#include "system.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <optional>

#include "injector.hpp"
#include "inspector.hpp"
#include "ledger.hpp"
#include "members.hpp"
#include "mrc/wire/packet.hpp"

namespace mrc::faults {
namespace {

constexpr std::uint64_t kMostEvents = 3'000'000;
constexpr Tick kStart{1'000'000};

class System {
 public:
  System(const Plan& plan, bool trace)
      : plan_(plan),
        trace_(trace),
        sim_(plan.sim),
        ledger_(plan),
        members_(sim_, ledger_, plan, trace),
        inspector_(sim_, ledger_),
        injector_(sim_, plan_, members_, ledger_, trace) {}

  Verdict run() {
    sim_.run_until(kStart);
    members_.start();
    sim_.set_gather([this](const transport::TxPacket& p, std::span<std::byte> payload) {
      const Entry& entry = *static_cast<const Entry*>(p.source);
      std::memcpy(payload.data(), entry.source + p.offset, payload.size());
      inspector_.on_data(entry, p);
    });
    if (trace_) sim_.on_transmit([this](unsigned node, const transport::TxPacket& p) { show(node, p); });
    sim_.on_event([this](unsigned node, const transport::Event& event) { members_.on_event(node, event); });
    sim_.on_progress([this](unsigned node) {
      members_.post_backlog(node);
      if (violated()) return;
      inspector_.on_progress(node);
    });
    for (Entry& entry : ledger_.entries()) {
      sim_.at_node(kStart + entry.op.at, entry.op.from, [this, &entry] { members_.post(entry); });
    }
    injector_.plan_all(kStart);
    carry_through();
    return verdict();
  }

 private:
  void show(unsigned node, const transport::TxPacket& packet) const {
    wire::Packet p;
    std::vector<std::byte> bytes(packet.header.begin(), packet.header.begin() + packet.header_length);
    bytes.resize(bytes.size() + packet.length + packet.padding + wire::pad_of(packet.length) + (packet.icrc ? 4u : 0u));
    const auto error = wire::parse(bytes, plan_.sim.transport.wire, p);
    fmt::print("{:>12} node {} sends opcode {:#x} PSN {} to QPN {:#x} on plane {}{}", sim_.now().ns, node,
               static_cast<unsigned>(p.bth.opcode), p.bth.psn, p.bth.dest_qpn, packet.plane,
               error == wire::ParseError::kNone ? "" : " (malformed)");
    if (p.bth.opcode == wire::Opcode::kSack) {
      fmt::print(", cumulative {}, base {:+}, bits {:#x}", p.seth.cumulative_psn, p.seth.sack_offset, p.seth.bitmap);
    }
    if (p.bth.opcode == wire::Opcode::kEndpointRequest) fmt::print(", request {}", static_cast<int>(p.erth.op));
    if (p.bth.opcode == wire::Opcode::kEndpointResponse) fmt::print(", response {}", static_cast<int>(p.eeth.op));
    fmt::print("\n");
  }
  bool violated() const { return !ledger_.violation().empty(); }
  bool busy() {
    if (sim_.events() > kMostEvents)
      ledger_.violate("packets go round without end", fmt::format("{} events", sim_.events()));
    return !violated();
  }

  void carry_through() {
    // What has no live peer fails after its time-outs; everything else just completes once nothing is in its way.
    const auto& c = plan_.sim.transport;
    const Tick clear = kStart + plan_.clear_at();
    const auto rounds = static_cast<std::int64_t>(plan_.operations.size() / plan_.sim.limits.messages + 1);
    const Tick limit = clear + c.peer_timeout + c.connect_timeout * rounds + c.rto_max * 4;
    const Tick alive_limit = clear + plan_.operations.back().at + c.rto_max * 4 + seconds(2);
    bool strict = false;
    const auto finished = [&] { return !busy() || ledger_.unfinished() == 0; };
    sim_.run([&] { return finished() || (strict = sim_.now() >= alive_limit); }, alive_limit);
    if (violated()) return;
    injector_.clear();
    if (ledger_.unfinished() != 0) {
      unfinished(true);
      if (violated()) return;
      sim_.run(finished, limit);
      if (violated()) return;
      unfinished(false);
      if (violated()) return;
    }
    settle();
  }

  /// Those whose peer lives may not be unfinished any more; at the last, nobody may.
  void unfinished(bool living_only) {
    // Writes to the gone hold places for messages and window segments that their sender's other writes wait for.
    std::vector<bool> burdened(sim_.nodes());
    for (const Entry& entry : ledger_.entries()) {
      if (entry.state == OpState::kPosted && members_.gone(entry.op.to)) burdened[entry.op.from] = true;
    }
    for (const Entry& entry : ledger_.entries()) {
      if (entry.state != OpState::kPosted && entry.state != OpState::kWaiting) continue;
      if (living_only && (members_.gone(entry.op.to) || burdened[entry.op.from])) continue;
      ledger_.violate("an operation does not complete although all faults have cleared",
                      fmt::format("operation {} ({}), at {} ns", entry.index, to_string(entry.op), sim_.now().ns));
    }
  }

  /// Nothing may be left: no traffic, no message, no window; after the endpoints close, no connection.
  void settle() {
    const auto quiet = [this] {
      for (unsigned i = 0; i < sim_.nodes(); ++i) {
        if (sim_.node_state(i) == fabric::NodeState::kRunning && !sim_.core(i).idle()) return false;
      }
      return true;
    };
    sim_.run([&] { return !busy() || quiet(); }, sim_.now() + seconds(3));
    if (violated()) return;
    if (!quiet()) return ledger_.violate("the nodes do not come to rest", {});
    members_.check_pools(false);
    members_.close_all();
    const auto closed = [this] { return members_.all_closed(); };
    sim_.run([&] { return !busy() || closed(); }, sim_.now() + plan_.sim.transport.linger + seconds(3));
    if (violated()) return;
    if (!closed()) return ledger_.violate("an endpoint does not close within its linger time", {});
    members_.forget_all();
    members_.check_pools(true);
  }

  Verdict verdict() {
    Verdict v;
    v.violation = ledger_.violation();
    v.details = ledger_.details();
    if (!v.violation.empty())
      v.details += fmt::format("{}virtual time {} ns", v.details.empty() ? "" : "; ", sim_.now().ns);
    v.hash = sim_.trace_hash();
    v.events = sim_.events();
    v.elapsed = sim_.now() - kStart;
    for (unsigned i = 0; i < sim_.nodes(); ++i) {
      v.packets += sim_.counters(i).tx;
      v.retransmitted += sim_.core(i).counters().tx_retransmit;
    }
    for (const Entry& entry : ledger_.entries()) {
      v.failed_writes += entry.state == OpState::kDone && entry.status != transport::Status::kOk;
    }
    v.audits = inspector_.full_audits();
    return v;
  }

  Plan plan_;
  bool trace_;
  fabric::Sim sim_;
  Ledger ledger_;
  Members members_;
  Inspector inspector_;
  Injector injector_;
};

}  // namespace

Verdict run(const Plan& plan, bool trace) {
  if (plan.operations.empty()) return {};
  System system(plan, trace);
  return system.run();
}

}  // namespace mrc::faults
