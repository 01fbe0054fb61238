// SPDX-License-Identifier: BSD-2-Clause
// Faults as calls of the fabric and of the nodes.
#include "injector.hpp"

#include <fmt/format.h>

#include "mrc/fabric/command.hpp"

namespace mrc::faults {

void Injector::plan_all(Tick start) {
  for (const Fault& fault : plan_.faults) plan_fault(fault, start);
}

void Injector::plan_fault(const Fault& fault, Tick start) {
  for (const bool begins : {true, false}) {
    sim_.at(start + fault.at + (begins ? Duration{} : fault.lasts), [this, &fault, begins] {
      if (!cleared_) apply(fault, begins);
    });
  }
}

void Injector::apply(const Fault& f, bool begins) {
  if (trace_) fmt::print("{:>12} {}: {}\n", sim_.now().ns, begins ? "begins" : "ends", to_string(f, plan_));
  if (is_fabric(f)) {
    const std::string text = command(f, plan_, begins);
    if (text.empty()) return;
    const auto applied = fabric::apply_command(sim_.clos(), text);
    if (!applied) ledger_.violate("the fabric does not understand a fault", text + ": " + applied.error().text);
    return;
  }
  switch (f.kind) {
    case FaultKind::kDeny:
      members_.deny(f.node, begins ? &f : nullptr);
      return;
    case FaultKind::kPause:
      begins ? members_.pause(f.node) : members_.resume(f.node);
      return;
    case FaultKind::kRestart:
      if (begins) members_.restart(f.node);
      return;
    case FaultKind::kDie:
      if (begins) members_.die(f.node);
      return;
    case FaultKind::kClose:
      if (begins) members_.close(f.node);
      return;
    case FaultKind::kReopen:
      begins ? members_.close(f.node) : members_.reopen(f.node);
      return;
    default:
      return;
  }
}

void Injector::clear() {
  if (cleared_) return;
  cleared_ = true;
  sim_.clos().clear();
  for (const Fault& f : plan_.faults) {
    if (f.kind == FaultKind::kPause) members_.resume(f.node);
  }
  for (const Fault& f : plan_.faults) {
    if (f.kind == FaultKind::kDeny) members_.deny(f.node, nullptr);
  }
}

}  // namespace mrc::faults
