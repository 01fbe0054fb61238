// SPDX-License-Identifier: BSD-2-Clause
// The fabric's state, row by row.
#include "mrc/fabric/status.hpp"

#include "mrc/fabric/command.hpp"

namespace mrc::fabric {
namespace {

LinkStatus row(const Clos& clos, const LinkId& id, Tick now) {
  const Link& link = *clos.link(id);
  LinkStatus out{.id = id};
  const bool nic = id.kind == LinkKind::kNicToT0 || id.kind == LinkKind::kT0ToNic;
  const std::string t0 = name_of(clos, SwitchId{path::UsidKind::kT0, id.plane, id.t0});
  const std::string far = nic ? nic_name(clos, path::Location{id.t0, id.far})
                              : name_of(clos, SwitchId{path::UsidKind::kT1, id.plane, id.far});
  const bool up = id.kind == LinkKind::kNicToT0 || id.kind == LinkKind::kT1ToT0;
  out.from = up ? far : t0;
  out.to = up ? t0 : far;
  out.up = !link.down_at(now) && !clos.plane_down(id.plane);
  out.flapping = link.flap().on();
  out.bps = link.queue().bps();
  const auto full =
      static_cast<std::uint64_t>(static_cast<double>(clos.model(id).bps) * clos.config().plane_rate[id.plane]);
  const Impairment own{.reorder_delay = clos.link_impairment(id)->reorder_delay};
  out.degraded = out.bps != full || !(*clos.link_impairment(id) == own);
  out.delay = link.impairment().delay + link.model().delay;
  out.backlog = link.queue().backlog_bytes(now);
  out.peak = link.queue().peak_bytes();
  out.counters = link.counters();
  return out;
}

}  // namespace

Status status(const Clos& clos, Tick now) {
  Status out;
  clos.for_each_link([&](const LinkId& id) { out.links.push_back(row(clos, id, now)); });
  clos.for_each_switch([&](const SwitchId& id) {
    const bool up = !clos.switch_down(id) && !clos.plane_down(id.plane);
    out.switches.push_back({id, name_of(clos, id), up, *clos.switch_counters(id)});
  });
  out.totals = clos.totals();
  return out;
}

std::uint64_t dropped(const LinkCounters& counters) {
  std::uint64_t sum = 0;
  for (const auto n : counters.drops) sum += n;
  return sum;
}

}  // namespace mrc::fabric
