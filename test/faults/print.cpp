// SPDX-License-Identifier: BSD-2-Clause
// Plans in words.
#include <fmt/format.h>

#include "plan.hpp"

namespace mrc::faults {
namespace {

std::string time(Duration d) {
  if (d.ns < 1000) return fmt::format("{} ns", d.ns);
  if (d.ns < 1'000'000) return fmt::format("{:.3f} us", static_cast<double>(d.ns) / 1e3);
  return fmt::format("{:.3f} ms", static_cast<double>(d.ns) / 1e6);
}

std::string kind_of(const path::UsidKind kind) {
  return kind == path::UsidKind::kT0 ? "t0" : "t1";
}

/// Where, in the words of fabric::apply_command(); a link's ends in the order of its direction.
std::string place(const Fault& f, const Plan& plan) {
  using Where = Fault::Where;
  using Kind = fabric::LinkKind;
  switch (f.where) {
    case Where::kFabric:
      return "";
    case Where::kPlane:
      return fmt::format("plane {} ", f.plane);
    case Where::kSwitch:
      return fmt::format("switch {}-{} plane {} ", kind_of(f.at_switch.kind), f.at_switch.index, f.at_switch.plane);
    default:
      break;
  }
  const auto t0 = fmt::format("t0-{}", f.link.t0);
  const bool is_nic = f.link.kind == Kind::kNicToT0 || f.link.kind == Kind::kT0ToNic;
  const auto far =
      is_nic ? fmt::format("nic{}", f.link.far * plan.sim.clos.t0s + f.link.t0) : fmt::format("t1-{}", f.link.far);
  const bool from_t0 = f.link.kind == Kind::kT0ToNic || f.link.kind == Kind::kT0ToT1;
  return fmt::format("link {} {} plane {} {}", from_t0 ? t0 : far, from_t0 ? far : t0, f.link.plane,
                     f.where == Where::kOneWay ? "oneway " : "");
}

std::string impairment(const fabric::Impairment& i, bool begins) {
  std::string text;
  const auto rate = [&](const char* name, double value) {
    if (value != 0) text += fmt::format("{} {:.6f} ", name, begins ? value : 0);
  };
  rate("loss", i.loss);
  rate("duplicate", i.duplicate);
  rate("corrupt", i.corrupt);
  rate("ecn", i.ecn);
  rate("trim", i.trim);
  if (i.reorder != 0) text += fmt::format("reorder {:.6f} {}ns ", begins ? i.reorder : 0, i.reorder_delay.ns);
  if (i.burst_enter != 0) {
    text += begins ? fmt::format("burst {:.6f} {:.0f} {:.2f} ", i.burst_enter, i.burst_length, i.burst_loss)
                   : std::string("burst 0 1 ");
  }
  if (i.delay.ns != 0) text += fmt::format("delay {}ns ", begins ? i.delay.ns : 0);
  return text;
}

}  // namespace

bool is_fabric(const Fault& f) {
  return f.kind < FaultKind::kDeny;
}

std::string command(const Fault& f, const Plan& plan, bool begins) {
  std::string text = place(f, plan);
  switch (f.kind) {
    case FaultKind::kImpair: {
      const std::string what = impairment(f.impairment, begins);
      if (what.empty()) return {};
      text += what;
      break;
    }
    case FaultKind::kDown:
      text += begins ? "down" : "up";
      break;
    case FaultKind::kRate:
      text += begins ? fmt::format("rate {:.0f}%", f.share * 100) : "rate full";
      break;
    case FaultKind::kFlap:
      text += begins ? fmt::format("flap {}ns {:.2f}", f.period.ns, f.share) : "flap off";
      break;
    case FaultKind::kQueues:
      return fmt::format("{} {}", f.trim ? "trim" : "ecn", begins ? "off" : "on");
    default:
      return {};
  }
  while (!text.empty() && text.back() == ' ') text.pop_back();
  return text;
}

std::string to_string(const Fault& f, const Plan& plan) {
  const std::string when = fmt::format("at {:>12}", time(f.at));
  const std::string length = fmt::format(", for {}", time(f.lasts));
  if (is_fabric(f)) return fmt::format("{}  {}{}", when, command(f, plan, true), length);
  switch (f.kind) {
    case FaultKind::kDeny:
      return fmt::format("{}  node {} denies {}{}", when, f.node, place(f, plan), length);
    case FaultKind::kPause:
      return fmt::format("{}  node {} is paused{}", when, f.node, length);
    case FaultKind::kRestart:
      return fmt::format("{}  node {} restarts", when, f.node);
    case FaultKind::kDie:
      return fmt::format("{}  node {} dies", when, f.node);
    case FaultKind::kClose:
      return fmt::format("{}  node {} closes its endpoint", when, f.node);
    case FaultKind::kReopen:
      return fmt::format("{}  node {} closes its endpoint{}, then opens another", when, f.node, length);
    default:
      return when;
  }
}

std::string to_string(const Operation& op) {
  std::string text = fmt::format("at {:>12}  node {} writes {} B to node {}", time(op.at), op.from, op.length, op.to);
  if (op.imm) text += ", immediate";
  if (op.urgent) text += ", urgent";
  if (op.semantic) text += ", semantic";
  if (op.fate == Fate::kBadKey) text += ", with a wrong key";
  if (op.fate == Fate::kBeyond) text += ", half of it beyond the memory";
  return text;
}

std::string to_string(const Plan& plan) {
  const auto& s = plan.sim;
  const auto& c = s.transport;
  std::string text =
      fmt::format("seed {}: {} nodes, {} planes, {} T0 x {} T1, link delay {}, port rate {} Gb/s, MTU {}, tx ring {}\n",
                  plan.seed, s.nodes, s.clos.planes, s.clos.t0s, s.clos.t1s, time(s.clos.link_delay),
                  s.link_bps / 1'000'000'000, s.mtu, s.tx_ring);
  text += fmt::format(
      "  window {} packets, {} B; {} EVs, at least {} active, probed every {}; RTO {} … {}; SACK after {} B or {}; "
      "gap {}, blame after {}; first PSN {}; tail {} packets, {} WriteImms, retries {} + {}\n  congestion control {}, "
      "{} Gb/s declared, trimming {}; fabric links {} "
      "Gb/s and {} Gb/s to T1s\n  limits: {} messages, {} packets in flight, {} ordered; linger {}\n",
      c.window, c.window_bytes, c.ev.per_connection, c.ev.min_active, time(c.ev.probe_interval), time(c.rto_min),
      time(c.rto_max), c.sack_bytes, time(c.sack_delay), c.gap_packets, c.reorder_packets,
      c.first_psn == UINT32_MAX ? "random" : std::to_string(c.first_psn), c.tail_packets, c.imm_in_flight,
      c.retry_linear, c.retry_exponential, static_cast<int>(c.cc), c.link_bps / 1'000'000'000, c.trimming,
      s.clos.nic_to_t0.bps / 1'000'000'000, s.clos.t0_t1.bps / 1'000'000'000, s.limits.messages,
      s.limits.window_packets, s.limits.ordered, time(c.linger));
  text += fmt::format("  {} operations, {} B:\n", plan.operations.size(), plan.bytes());
  for (const auto& op : plan.operations) text += "    " + to_string(op) + "\n";
  text += fmt::format("  {} faults:\n", plan.faults.size());
  for (const auto& f : plan.faults) text += "    " + to_string(f, plan) + "\n";
  return text;
}

}  // namespace mrc::faults
