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

std::string place(const fabric::LinkId& l) {
  switch (l.kind) {
    case fabric::LinkKind::kNicToT0:
      return fmt::format("link nic {} -> t0-{} plane {}", l.far, l.t0, l.plane);
    case fabric::LinkKind::kT0ToNic:
      return fmt::format("link t0-{} -> nic {} plane {}", l.t0, l.far, l.plane);
    case fabric::LinkKind::kT0ToT1:
      return fmt::format("link t0-{} -> t1-{} plane {}", l.t0, l.far, l.plane);
    case fabric::LinkKind::kT1ToT0:
      return fmt::format("link t1-{} -> t0-{} plane {}", l.far, l.t0, l.plane);
  }
  return "?";
}

std::string place(const fabric::SwitchId& s) {
  return fmt::format("switch {}-{} plane {}", s.kind == path::UsidKind::kT0 ? "t0" : "t1", s.index, s.plane);
}

std::string impairment(const fabric::Impairment& i) {
  std::string text;
  const auto rate = [&text](const char* name, double value) {
    if (value != 0) text += fmt::format(" {} {:.3g}%", name, value * 100);
  };
  rate("loss", i.loss);
  rate("duplicate", i.duplicate);
  rate("corrupt", i.corrupt);
  rate("reorder", i.reorder);
  if (i.reorder != 0) text += fmt::format(" by {}", time(i.reorder_delay));
  rate("ecn", i.ecn);
  rate("trim", i.trim);
  if (i.delay.ns != 0) text += fmt::format(" delay {}", time(i.delay));
  return text.empty() ? " nothing" : text;
}

std::string what(const Fault& f) {
  switch (f.kind) {
    case FaultKind::kGlobal:
      return "fabric" + impairment(f.impairment);
    case FaultKind::kPlane:
      return fmt::format("plane {}", f.plane) + impairment(f.impairment);
    case FaultKind::kSwitch:
      return place(f.at_switch) + impairment(f.impairment);
    case FaultKind::kLink:
      return place(f.link) + impairment(f.impairment);
    case FaultKind::kPlaneDown:
      return fmt::format("plane {} down", f.plane);
    case FaultKind::kSwitchDown:
      return place(f.at_switch) + " down";
    case FaultKind::kCableDown:
      return place(f.link) + " down, both ways";
    case FaultKind::kLinkDown:
      return place(f.link) + " down, this way";
    case FaultKind::kPause:
      return fmt::format("node {} paused", f.node);
    case FaultKind::kRestart:
      return fmt::format("node {} restarts", f.node);
    case FaultKind::kDie:
      return fmt::format("node {} dies", f.node);
    case FaultKind::kClose:
      return fmt::format("node {} closes its endpoint", f.node);
    case FaultKind::kReopen:
      return fmt::format("node {} closes its endpoint and opens another", f.node);
  }
  return "?";
}

}  // namespace

std::string to_string(const Fault& f) {
  std::string text = fmt::format("at {:>12}  {}", time(f.at), what(f));
  const bool once = f.kind == FaultKind::kRestart || f.kind == FaultKind::kDie || f.kind == FaultKind::kClose;
  if (!once) text += fmt::format(", for {}", time(f.lasts));
  if (!once && f.period.ns != 0 && f.kind != FaultKind::kReopen)
    text += fmt::format(", flapping every {}", time(f.period));
  return text;
}

std::string to_string(const Operation& op) {
  std::string text = fmt::format("at {:>12}  node {} writes {} B to node {}", time(op.at), op.from, op.length, op.to);
  if (op.imm) text += ", immediate";
  if (op.urgent) text += ", urgent";
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
      "gap {}, blame after {}; first PSN {}\n  limits: {} messages, {} packets in flight; linger {}\n",
      c.window, c.window_bytes, c.ev.per_connection, c.ev.min_active, time(c.ev.probe_interval), time(c.rto_min),
      time(c.rto_max), c.sack_bytes, time(c.sack_delay), c.gap_packets, c.reorder_packets,
      c.first_psn == UINT32_MAX ? "random" : std::to_string(c.first_psn), s.limits.messages, s.limits.window_packets,
      time(c.linger));
  text += fmt::format("  {} operations, {} B:\n", plan.operations.size(), plan.bytes());
  for (const auto& op : plan.operations) text += "    " + to_string(op) + "\n";
  text += fmt::format("  {} faults:\n", plan.faults.size());
  for (const auto& f : plan.faults) text += "    " + to_string(f) + "\n";
  return text;
}

}  // namespace mrc::faults
