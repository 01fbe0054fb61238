// SPDX-License-Identifier: BSD-2-Clause
// Faults as calls of the fabric and of the nodes.
#include "injector.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace mrc::faults {

void Injector::plan_all(Tick start) {
  for (const Fault& fault : plan_.faults) plan_fault(fault, start);
}

void Injector::plan_fault(const Fault& fault, Tick start) {
  const auto at = [this](Tick when, const Fault& what, bool begins) {
    sim_.at(when, [this, &what, begins] {
      if (!cleared_) apply(what, begins);
    });
  };
  if (fault.period.ns == 0 || fault.kind >= FaultKind::kPause) {
    at(start + fault.at, fault, true);
    return at(start + fault.at + fault.lasts, fault, false);
  }
  for (Duration t{}; t < fault.lasts; t = t + fault.period) {
    at(start + fault.at + t, fault, true);
    at(start + fault.at + std::min(t + fault.period / 2, fault.lasts), fault, false);
  }
}

void Injector::apply(const Fault& f, bool begins) {
  if (trace_) fmt::print("{:>12} {}: {}\n", sim_.now().ns, begins ? "begins" : "ends", to_string(f));
  const fabric::Impairment impairment = begins ? f.impairment : fabric::Impairment{};
  fabric::Clos& clos = sim_.clos();
  switch (f.kind) {
    case FaultKind::kGlobal:
      return clos.set_global(impairment);
    case FaultKind::kPlane:
      clos.set_plane(f.plane, impairment);
      return;
    case FaultKind::kSwitch:
      clos.set_switch(f.at_switch, impairment);
      return;
    case FaultKind::kLink:
      clos.set_link(f.link, impairment);
      return;
    case FaultKind::kPlaneDown:
      clos.set_plane_down(f.plane, begins);
      return;
    case FaultKind::kSwitchDown:
      clos.set_switch_down(f.at_switch, begins);
      return;
    case FaultKind::kCableDown:
      clos.set_cable_down(f.link, begins);
      return;
    case FaultKind::kLinkDown:
      clos.set_link_down(f.link, begins);
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
  }
}

void Injector::clear() {
  if (cleared_) return;
  cleared_ = true;
  fabric::Clos& clos = sim_.clos();
  clos.set_global({});
  for (const Fault& f : plan_.faults) {
    clos.set_plane(f.plane, {});
    clos.set_switch(f.at_switch, {});
    clos.set_link(f.link, {});
    clos.set_plane_down(f.plane, false);
    clos.set_switch_down(f.at_switch, false);
    clos.set_cable_down(f.link, false);
    if (f.kind == FaultKind::kPause) members_.resume(f.node);
  }
}

}  // namespace mrc::faults
