// SPDX-License-Identifier: BSD-2-Clause
// Commands: read and checked as a whole, then applied.
#include "mrc/fabric/command.hpp"

#include <cerrno>

#include "command_words.hpp"

namespace mrc::fabric {
namespace {

void change_impairment(Impairment& out, const Change& change) {
  switch (change.kind) {
    case Change::Kind::kField:
      out.*change.field = change.value;
      break;
    case Change::Kind::kDelay:
      out.delay = *change.time;
      break;
    case Change::Kind::kReorder:
      out.reorder = change.value;
      if (change.time) out.reorder_delay = *change.time;
      break;
    case Change::Kind::kBurst:
      out.burst_enter = change.value;
      out.burst_length = change.length;
      out.burst_loss = change.loss;
      break;
    default:  // clear
      out = Impairment{.reorder_delay = out.reorder_delay};
      break;
  }
}

void set_rate(Clos& clos, const LinkId& id, const Change& change) {
  if (change.value == 0) {
    clos.set_rate(id, change.bps);
    return;
  }
  const double full = static_cast<double>(clos.model(id).bps) * clos.config().plane_rate[id.plane];
  clos.set_rate(id, std::max<std::uint64_t>(static_cast<std::uint64_t>(full * change.value), 1));
}

void clear_link(Clos& clos, const LinkId& id) {
  clos.set_link(id, {});
  clos.set_link_down(id, false);
  clos.set_flap(id, {});
  clos.set_rate(id, 0);
}

void to_link(Clos& clos, const LinkId& id, const Change& change) {
  switch (change.kind) {
    case Change::Kind::kDown:
      clos.set_link_down(id, true);
      break;
    case Change::Kind::kUp:
      clos.set_link_down(id, false);
      clos.set_flap(id, {});
      break;
    case Change::Kind::kClear:
      clear_link(clos, id);
      break;
    case Change::Kind::kFlap:
      clos.set_flap(id, change.flap);
      break;
    case Change::Kind::kRate:
      set_rate(clos, id, change);
      break;
    default: {
      Impairment impairment = *clos.link_impairment(id);
      change_impairment(impairment, change);
      clos.set_link(id, impairment);
      break;
    }
  }
}

void to_switch(Clos& clos, const SwitchId& id, const Change& change) {
  if (change.kind == Change::Kind::kDown || change.kind == Change::Kind::kUp || change.kind == Change::Kind::kClear) {
    clos.set_switch_down(id, change.kind == Change::Kind::kDown);
  }
  if (change.kind == Change::Kind::kDown || change.kind == Change::Kind::kUp) return;
  Impairment impairment = *clos.switch_impairment(id);
  change_impairment(impairment, change);
  clos.set_switch(id, impairment);
}

void to_plane(Clos& clos, unsigned plane, const Change& change) {
  const auto each_link = [&](auto&& fn) {
    clos.for_each_link([&](const LinkId& id) {
      if (id.plane == plane) fn(id);
    });
  };
  switch (change.kind) {
    case Change::Kind::kDown:
    case Change::Kind::kUp:
      clos.set_plane_down(plane, change.kind == Change::Kind::kDown);
      return;
    case Change::Kind::kRate:
      each_link([&](const LinkId& id) { set_rate(clos, id, change); });
      return;
    case Change::Kind::kClear:
      clos.set_plane_down(plane, false);
      each_link([&](const LinkId& id) { clear_link(clos, id); });
      clos.for_each_switch([&](const SwitchId& id) {
        if (id.plane == plane) to_switch(clos, id, change);
      });
      break;
    default:
      break;
  }
  Impairment impairment = *clos.plane_impairment(plane);
  change_impairment(impairment, change);
  clos.set_plane(plane, impairment);
}

void to_fabric(Clos& clos, const Change& change) {
  switch (change.kind) {
    case Change::Kind::kClear: {
      const Duration held = clos.global_impairment().reorder_delay;
      clos.clear();
      clos.set_global(Impairment{.reorder_delay = held});
      return;
    }
    case Change::Kind::kEcn:
      clos.set_ecn(change.on);
      return;
    case Change::Kind::kTrim:
      clos.set_trim(change.on);
      return;
    case Change::Kind::kRate:
      clos.for_each_link([&](const LinkId& id) { set_rate(clos, id, change); });
      return;
    default:
      break;
  }
  Impairment impairment = clos.global_impairment();
  change_impairment(impairment, change);
  clos.set_global(impairment);
}

Result<Plan> read(const Clos& clos, std::string_view text, const CommandRules& rules) {
  Words words(text);
  if (words.too_long()) return fail(EINVAL, "the command has more than 64 words");
  const bool impair = words.accept("impair");  // the older word: chances only, of the fabric or a plane
  if (impair && !words.done() && words.peek() != "plane") {
    for (const std::string_view what : {"link", "port", "switch", "t0", "t1", "nic"}) {
      if (words.peek() == what) return fail(EINVAL, "'impair' is for the fabric or a plane: leave it out");
    }
  }
  auto plan = read_where(clos, words);
  if (!plan) return plan;
  if (const auto ok = read_actions(clos, words, *plan, rules); !ok) return tl::make_unexpected(ok.error());
  for (Change& change : plan->changes) {
    if (!impair) break;
    if (change.kind == Change::Kind::kClear) change.kind = Change::Kind::kClearImpairment;
    if (change.kind == Change::Kind::kDown || change.kind == Change::Kind::kUp) {
      return fail(EINVAL, "'impair' sets chances; leave it out to take things down or up");
    }
  }
  return plan;
}

Applied touched(Plan&& plan) {
  Applied applied{.links = std::move(plan.links), .switches = std::move(plan.switches)};
  if (plan.scope == Scope::kPlane) applied.planes.push_back(plan.plane);
  applied.fabric = plan.scope == Scope::kFabric;
  return applied;
}

}  // namespace

Result<Applied> check_command(const Clos& clos, std::string_view text, const CommandRules& rules) {
  auto plan = read(clos, text, rules);
  if (!plan) return tl::make_unexpected(plan.error());
  return touched(std::move(*plan));
}

Result<Applied> apply_command(Clos& clos, std::string_view text, const CommandRules& rules) {
  auto plan = read(clos, text, rules);
  if (!plan) return tl::make_unexpected(plan.error());
  for (const Change& change : plan->changes) {
    switch (plan->scope) {
      case Scope::kFabric:
        to_fabric(clos, change);
        break;
      case Scope::kPlane:
        to_plane(clos, plan->plane, change);
        break;
      case Scope::kLinks:
        for (const LinkId& id : plan->links) to_link(clos, id, change);
        break;
      case Scope::kSwitches:
        for (const SwitchId& id : plan->switches) to_switch(clos, id, change);
        break;
    }
  }
  return touched(std::move(*plan));
}

}  // namespace mrc::fabric
