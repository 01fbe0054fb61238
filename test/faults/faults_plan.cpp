// SPDX-License-Identifier: BSD-2-Clause
// Fault schedules: a handful of faults of any kind, at any time, of any length, overlapping as they like.
#include <algorithm>
#include <array>

#include "draw.hpp"

namespace mrc::faults {
namespace {

/// Long against round trips, short against peer_timeout: no live peer may be taken for dead.
constexpr std::int64_t kLongest = 100'000'000;

fabric::Impairment draw_impairment(Random& random) {
  fabric::Impairment i;
  const auto rate = [&random] { return static_cast<double>(draw_log(random, 100, 300'000)) / 1e6; };  // 0.01 … 30 %
  if (random.chance(0.4)) i.loss = rate();
  if (random.chance(0.3)) i.duplicate = rate();
  if (random.chance(0.3)) i.corrupt = rate();
  if (random.chance(0.3)) i.reorder = rate();
  if (random.chance(0.3)) i.trim = rate();
  if (random.chance(0.3)) i.ecn = rate() * 3;
  if (random.chance(0.2)) i.delay = microseconds(draw_log(random, 1, 500));
  i.reorder_delay = microseconds(draw_log(random, 1, 2000));
  if (random.chance(0.2)) {
    i.burst_enter = rate() / 10;
    i.burst_length = static_cast<double>(draw_log(random, 2, 200));
    if (random.chance(0.5)) i.burst_loss = 0.5;
  }
  return i;
}

fabric::LinkId draw_link(Random& random, const Plan& plan) {
  const auto& clos = plan.sim.clos;
  const std::uint32_t node = random.below(plan.sim.nodes);
  fabric::LinkId link;
  link.kind = static_cast<fabric::LinkKind>(random.below(4));
  link.plane = static_cast<std::uint8_t>(random.below(clos.planes));
  if (link.kind == fabric::LinkKind::kNicToT0 || link.kind == fabric::LinkKind::kT0ToNic) {
    link.t0 = static_cast<std::uint16_t>(node % clos.t0s);
    link.far = static_cast<std::uint16_t>(node / clos.t0s);
  } else {
    link.t0 = static_cast<std::uint16_t>(random.below(clos.t0s));
    link.far = static_cast<std::uint16_t>(random.below(clos.t1s));
  }
  return link;
}

FaultKind draw_kind(Random& random, bool gone) {
  // Kinds of nodes that go are rarer: with them less can be demanded.
  if (gone) return static_cast<FaultKind>(static_cast<unsigned>(FaultKind::kRestart) + random.below(4));
  constexpr std::array kKinds = {FaultKind::kImpair, FaultKind::kImpair, FaultKind::kImpair, FaultKind::kDown,
                                 FaultKind::kDown,   FaultKind::kDown,   FaultKind::kRate,   FaultKind::kFlap,
                                 FaultKind::kPause,  FaultKind::kQueues, FaultKind::kDeny};
  return kKinds[random.below(kKinds.size())];
}

Fault draw_fault(Random& random, const Plan& plan, bool gone) {
  const auto& clos = plan.sim.clos;
  Fault f;
  f.kind = draw_kind(random, gone);
  if (f.kind == FaultKind::kRate && clos.nic_to_t0.bps == 0) f.kind = FaultKind::kDown;  // a share of nothing
  f.where = static_cast<Fault::Where>(random.below(5));
  f.node = random.below(plan.sim.nodes);
  f.plane = static_cast<std::uint8_t>(random.below(clos.planes));
  f.link = draw_link(random, plan);
  f.at_switch.kind = random.chance(0.5) ? path::UsidKind::kT0 : path::UsidKind::kT1;
  f.at_switch.plane = f.plane;
  f.at_switch.index =
      static_cast<std::uint16_t>(random.below(f.at_switch.kind == path::UsidKind::kT0 ? clos.t0s : clos.t1s));
  f.impairment = draw_impairment(random);
  f.lasts = Duration{draw_log(random, 1'000, kLongest)};
  f.period = Duration{draw_log(random, 2'000, std::max<std::int64_t>(f.lasts.ns, 4'000))};
  f.trim = random.chance(0.5);
  using Where = Fault::Where;
  switch (f.kind) {
    case FaultKind::kDown:
      if (f.where == Where::kFabric) f.where = Where::kLink;
      break;
    case FaultKind::kRate:
      f.where = random.chance(0.3) ? Where::kPlane : Where::kLink;
      f.share = static_cast<double>(draw_log(random, 5, 90)) / 100;
      break;
    case FaultKind::kFlap:
      if (f.where != Where::kOneWay) f.where = Where::kLink;
      f.share = static_cast<double>(draw_log(random, 5, 90)) / 100;
      break;
    case FaultKind::kDeny:
      // Of several planes one; of one plane's T1s one. A route must be left.
      f.where = clos.planes > 1 ? Where::kPlane : Where::kSwitch;
      f.at_switch.kind = path::UsidKind::kT1;
      f.at_switch.index = static_cast<std::uint16_t>(random.below(clos.t1s));
      if (clos.planes == 1 && clos.t1s == 1) f.kind = FaultKind::kPause;
      break;
    default:
      break;
  }
  return f;
}

}  // namespace

namespace {

Duration within(Random& random, std::int64_t horizon) {
  return Duration{static_cast<std::int64_t>(random.next() >> 33) * (horizon >> 10) >> 21};
}

/// All planes of the fabric at once.
void cut_all(Plan& plan, Duration at, Duration lasts) {
  for (std::uint8_t p = 0; p < plan.sim.clos.planes; ++p) {
    plan.faults.push_back(
        {.kind = FaultKind::kDown, .where = Fault::Where::kPlane, .at = at, .lasts = lasts, .plane = p});
  }
}

/// Silence on all paths for longer than a time-out, and in the midst of it the links themselves go down and come back.
void silence(Random& random, Plan& plan, std::int64_t horizon) {
  Fault f{.at = within(random, horizon), .lasts = Duration{draw_log(random, 2'000'000, kLongest)}};
  f.impairment.loss = 1;
  plan.faults.push_back(f);
  cut_all(plan, f.at + f.lasts / (2 + random.below(8)), Duration{draw_log(random, 1'000, kLongest / 4)});
}

/// Packets of a former life turn up when the next has begun.
void ghosts(Random& random, Plan& plan) {
  if (plan.operations.empty()) return;
  const Operation& op = plan.operations[random.below(static_cast<std::uint32_t>(plan.operations.size()))];
  Fault f{.lasts = op.at + Duration{draw_log(random, 100'000, 10'000'000)}};
  f.impairment.duplicate = f.impairment.reorder = 0.4;
  f.impairment.reorder_delay = microseconds(draw_log(random, 50, 5000));
  plan.faults.push_back(f);
  Fault gone{.kind = random.chance(0.5) ? FaultKind::kRestart : FaultKind::kReopen};
  gone.at = Duration{std::max<std::int64_t>(op.at.ns - draw_log(random, 100, 1'000'000), 0)};
  gone.lasts = Duration{draw_log(random, 1'000, 1'000'000)};
  gone.node = random.chance(0.7) ? op.from : op.to;
  plan.faults.push_back(gone);
}

}  // namespace

void draw_faults(Random& random, Plan& plan) {
  const Duration last = plan.operations.empty() ? Duration{} : plan.operations.back().at;
  const std::int64_t horizon = last.ns + draw_log(random, 20'000, 20'000'000);
  const unsigned count = random.chance(0.05) ? 0 : static_cast<unsigned>(draw_log(random, 1, 24));
  const bool gone = random.chance(0.25);
  for (unsigned i = 0; i < count; ++i) {
    Fault f = draw_fault(random, plan, gone && random.chance(0.2));
    f.at = within(random, horizon);
    plan.faults.push_back(f);
  }
  // What chance alone would hardly bring together.
  if (random.chance(0.08)) cut_all(plan, within(random, horizon), Duration{draw_log(random, 10'000, kLongest)});
  if (random.chance(0.08)) silence(random, plan, horizon);
  if (random.chance(0.15)) ghosts(random, plan);
  std::stable_sort(plan.faults.begin(), plan.faults.end(), [](const Fault& a, const Fault& b) { return a.at < b.at; });
}

void prune(Plan& plan) {
  const auto& sim = plan.sim;
  std::erase_if(plan.operations, [&](const Operation& op) { return op.from >= sim.nodes || op.to >= sim.nodes; });
  std::erase_if(plan.faults, [&](const Fault& f) {
    using Where = Fault::Where;
    if (!is_fabric(f)) {
      const bool path = f.kind == FaultKind::kDeny && f.where == Where::kPlane;
      return f.node >= sim.nodes || (path && (f.plane >= sim.clos.planes || sim.clos.planes == 1));
    }
    if (f.where == Where::kPlane) return f.plane >= sim.clos.planes;
    if (f.where == Where::kSwitch) return f.at_switch.plane >= sim.clos.planes;
    if (f.where == Where::kLink || f.where == Where::kOneWay) {
      const bool nic = f.link.kind == fabric::LinkKind::kNicToT0 || f.link.kind == fabric::LinkKind::kT0ToNic;
      return f.link.plane >= sim.clos.planes || (nic && unsigned{f.link.far} * sim.clos.t0s + f.link.t0 >= sim.nodes);
    }
    return false;
  });
}

}  // namespace mrc::faults
