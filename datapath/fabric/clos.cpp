// SPDX-License-Identifier: BSD-2-Clause
// The Clos's structure, settings and counters; forward.cpp carries packets through it.
#include "mrc/fabric/clos.hpp"

#include <algorithm>

namespace mrc::fabric {

std::uint64_t Totals::dropped() const {
  std::uint64_t sum = 0;
  for (const auto n : drops) sum += n;
  return sum;
}

void ClosConfig::set_rates(std::uint64_t nic_bps, std::uint64_t t1_bps, Duration rtt) {
  base_rtt = rtt;
  nic_to_t0 = link_model(LinkRole::kFromNic, nic_bps, rtt);
  t0_to_nic = link_model(LinkRole::kToNic, nic_bps, rtt);
  t0_t1 = link_model(LinkRole::kInner, t1_bps, rtt);
}

Clos::Clos(const ClosConfig& config) : config_(config), random_(config.seed) {
  const auto most = static_cast<std::uint16_t>(1u << config_.usid.index_bits());
  const unsigned planes = std::min(path::kMaxPlanes, 1u << config_.usid.plane_bits);
  config_.planes = static_cast<std::uint8_t>(std::clamp<unsigned>(config_.planes, 1, planes));
  config_.t0s = std::clamp<std::uint16_t>(config_.t0s, 1, most);
  config_.t1s = std::min<std::uint16_t>(config_.t1s, most);
  config_.nics = std::clamp<std::uint16_t>(config_.nics, 1, most);
  links_.resize(std::size_t{2} * config_.planes * config_.t0s * (std::size_t{config_.nics} + config_.t1s));
  switches_.resize(std::size_t{config_.planes} * (std::size_t{config_.t0s} + config_.t1s));
  for_each_switch([this](const SwitchId& id) {
    Switch& at = switches_[index_of(id)];
    at.id = id;
    at.usid = config_.usid.make(id.plane, id.kind, id.index);
    at.first = id.kind == path::UsidKind::kT0 ? index_of(LinkId{LinkKind::kT0ToNic, id.plane, id.index, 0})
                                              : index_of(LinkId{LinkKind::kT1ToT0, id.plane, 0, id.index});
  });
  for_each_link([this](const LinkId& id) {
    Cable& cable = links_[index_of(id)];
    const bool nic = id.kind == LinkKind::kNicToT0 || id.kind == LinkKind::kT0ToNic;
    const SwitchId end = id.kind == LinkKind::kT0ToT1 ? SwitchId{path::UsidKind::kT1, id.plane, id.far}
                                                      : SwitchId{path::UsidKind::kT0, id.plane, id.t0};
    cable.end = static_cast<std::uint32_t>(index_of(end));
    cable.far = id.far;
    cable.to_nic = id.kind == LinkKind::kT0ToNic;
    cable.model = !nic ? config_.t0_t1 : cable.to_nic ? config_.t0_to_nic : config_.nic_to_t0;
  });
  refold_all();
}

std::size_t Clos::index_of(const LinkId& id) const {
  const bool nic = id.kind == LinkKind::kNicToT0 || id.kind == LinkKind::kT0ToNic;
  if (id.plane >= config_.planes || id.t0 >= config_.t0s || id.far >= (nic ? config_.nics : config_.t1s)) {
    return kNowhere;
  }
  const std::size_t ports = std::size_t{config_.nics} + config_.t1s;
  const std::size_t port = nic ? id.far : std::size_t{config_.nics} + id.far;
  const std::size_t reverse = id.kind == LinkKind::kT0ToNic || id.kind == LinkKind::kT1ToT0;
  return ((std::size_t{id.plane} * config_.t0s + id.t0) * ports + port) * 2 + reverse;
}

std::size_t Clos::index_of(const SwitchId& id) const {
  const bool t0 = id.kind == path::UsidKind::kT0;
  if (!t0 && id.kind != path::UsidKind::kT1) return kNowhere;
  if (id.plane >= config_.planes || id.index >= (t0 ? config_.t0s : config_.t1s)) return kNowhere;
  return std::size_t{id.plane} * (std::size_t{config_.t0s} + config_.t1s) + (t0 ? 0u : config_.t0s) + id.index;
}

void Clos::refold(const LinkId& id) {
  Cable& cable = links_[index_of(id)];
  Impairment all = cable.own;
  all.delay = all.delay + config_.link_delay;
  Switch* from = nullptr;
  switch (id.kind) {
    case LinkKind::kNicToT0:
      all = combine(all, combine(global_, plane_impairments_[id.plane]));
      break;
    case LinkKind::kT0ToNic:
    case LinkKind::kT0ToT1:
      from = &switches_[index_of(SwitchId{path::UsidKind::kT0, id.plane, id.t0})];
      break;
    case LinkKind::kT1ToT0:
      from = &switches_[index_of(SwitchId{path::UsidKind::kT1, id.plane, id.far})];
      break;
  }
  if (from != nullptr) all = combine(all, from->impairment);
  if (!(all == cable.link.impairment())) cable.link.set(all);
  LinkModel model = cable.model;
  model.bps = static_cast<std::uint64_t>(static_cast<double>(model.bps) * config_.plane_rate[id.plane]);
  if (cable.rate != 0) {
    const LinkRole role = id.kind == LinkKind::kNicToT0   ? LinkRole::kFromNic
                          : id.kind == LinkKind::kT0ToNic ? LinkRole::kToNic
                                                          : LinkRole::kInner;
    if (model.bps == 0) model = link_model(role, cable.rate, config_.base_rtt, model.delay);
    model.bps = cable.rate;
  }
  if (!ecn_) model.ecn_min = model.ecn_max = 0;
  if (!trim_) model.trim_at = 0;
  if (model == cable.link.model()) return;
  const std::uint32_t before = cable.link.queue().rated();
  cable.link.set_model(model, now_);
  const std::uint32_t after = cable.link.queue().rated();
  rated_ += after - before;
  if (from != nullptr) from->rated += after - before;
}

void Clos::refold_all() {
  for_each_link([this](const LinkId& id) { refold(id); });
}

void Clos::set_global(const Impairment& impairment) {
  global_ = impairment;
  refold_all();
}

bool Clos::set_plane(unsigned plane, const Impairment& impairment) {
  if (plane >= config_.planes) return false;
  plane_impairments_[plane] = impairment;
  refold_all();
  return true;
}

bool Clos::set_switch(const SwitchId& id, const Impairment& impairment) {
  const std::size_t at = index_of(id);
  if (at == kNowhere) return false;
  switches_[at].impairment = impairment;
  refold_all();
  return true;
}

bool Clos::set_link(const LinkId& id, const Impairment& impairment) {
  const std::size_t at = index_of(id);
  if (at == kNowhere) return false;
  links_[at].own = impairment;
  refold(id);
  return true;
}

bool Clos::set_plane_down(unsigned plane, bool down) {
  if (plane >= config_.planes) return false;
  plane_down_[plane] = down;
  return true;
}

bool Clos::set_switch_down(const SwitchId& id, bool down) {
  const std::size_t at = index_of(id);
  if (at == kNowhere) return false;
  switches_[at].down = down;
  return true;
}

bool Clos::set_link_down(const LinkId& id, bool down) {
  const std::size_t at = index_of(id);
  if (at == kNowhere) return false;
  links_[at].link.set_down(down);
  return true;
}

bool Clos::set_cable_down(const LinkId& id, bool down) {
  const std::size_t at = index_of(id);
  if (at == kNowhere) return false;
  links_[at].link.set_down(down);
  links_[at ^ 1].link.set_down(down);  // the directions of one cable are neighbours
  return true;
}

bool Clos::set_model(const LinkId& id, const LinkModel& model) {
  const std::size_t at = index_of(id);
  if (at == kNowhere) return false;
  links_[at].model = model;
  refold(id);
  return true;
}

bool Clos::set_rate(const LinkId& id, std::uint64_t bps) {
  const std::size_t at = index_of(id);
  if (at == kNowhere) return false;
  links_[at].rate = bps;
  refold(id);
  return true;
}

bool Clos::set_flap(const LinkId& id, const Flap& flap) {
  const std::size_t at = index_of(id);
  if (at == kNowhere) return false;
  links_[at].link.set_flap(flap);
  if (id.kind != LinkKind::kNicToT0 && id.kind != LinkKind::kT0ToNic) return true;
  std::erase_if(flapping_, [&](const LinkId& other) { return index_of(other) == at; });
  if (flap.on()) flapping_.push_back(id);
  return true;
}

void Clos::set_ecn(bool on) {
  ecn_ = on;
  refold_all();
}

void Clos::set_trim(bool on) {
  trim_ = on;
  refold_all();
}

void Clos::clear() {
  global_ = {};
  plane_impairments_.fill({});
  plane_down_.fill(false);
  ecn_ = trim_ = true;
  flapping_.clear();
  for (Switch& at : switches_) {
    at.impairment = {};
    at.down = false;
  }
  for (Cable& cable : links_) {
    cable.own = {};
    cable.rate = 0;
    cable.link.set_down(false);
    cable.link.set_flap({});
  }
  refold_all();
}

bool Clos::carrier(const NicPort& port, Tick now) const {
  if (!carrier(port)) return false;
  const std::size_t up = index_of(LinkId{LinkKind::kNicToT0, port.plane, port.nic.t0, port.nic.nic});
  return !links_[up].link.down_at(now) && !links_[up ^ 1].link.down_at(now);
}

Tick Clos::next_flap(Tick now) const {
  Tick next = kNever;
  for (const LinkId& id : flapping_) next = std::min(next, links_[index_of(id)].link.flap().next_change(now));
  return next;
}

Duration Clos::port_wait(const NicPort& port, Tick now) const {
  const std::size_t at = index_of(LinkId{LinkKind::kNicToT0, port.plane, port.nic.t0, port.nic.nic});
  return at == kNowhere ? Duration{} : Duration{links_[at].link.queue().wait(now)};
}

bool Clos::carrier(const NicPort& port) const {
  const std::size_t up = index_of(LinkId{LinkKind::kNicToT0, port.plane, port.nic.t0, port.nic.nic});
  if (up == kNowhere || plane_down_[port.plane]) return false;
  if (links_[up].link.down() || links_[up ^ 1].link.down()) return false;
  return !switches_[index_of(SwitchId{path::UsidKind::kT0, port.plane, port.nic.t0})].down;
}

bool Clos::plane_down(unsigned plane) const {
  return plane >= config_.planes || plane_down_[plane];
}

bool Clos::switch_down(const SwitchId& id) const {
  const std::size_t at = index_of(id);
  return at == kNowhere || switches_[at].down;
}

const Link* Clos::link(const LinkId& id) const {
  const std::size_t at = index_of(id);
  return at == kNowhere ? nullptr : &links_[at].link;
}

LinkModel Clos::model(const LinkId& id) const {
  const std::size_t at = index_of(id);
  return at == kNowhere ? LinkModel{} : links_[at].model;
}

const Impairment* Clos::plane_impairment(unsigned plane) const {
  return plane >= config_.planes ? nullptr : &plane_impairments_[plane];
}

const Impairment* Clos::switch_impairment(const SwitchId& id) const {
  const std::size_t at = index_of(id);
  return at == kNowhere ? nullptr : &switches_[at].impairment;
}

const LinkCounters* Clos::link_counters(const LinkId& id) const {
  const std::size_t at = index_of(id);
  return at == kNowhere ? nullptr : &links_[at].link.counters();
}

const Impairment* Clos::link_impairment(const LinkId& id) const {
  const std::size_t at = index_of(id);
  return at == kNowhere ? nullptr : &links_[at].own;
}

bool Clos::link_down(const LinkId& id) const {
  const std::size_t at = index_of(id);
  return at == kNowhere || links_[at].link.down();
}

const SwitchCounters* Clos::switch_counters(const SwitchId& id) const {
  const std::size_t at = index_of(id);
  return at == kNowhere ? nullptr : &switches_[at].counters;
}

Totals Clos::totals() const {
  Totals sum = totals_;
  for (const Cable& cable : links_) {
    const LinkCounters& c = cable.link.counters();
    sum.duplicated += c.duplicated;
    sum.corrupted += c.corrupted;
    sum.reordered += c.reordered;
    sum.marked += c.marked;
    sum.trimmed += c.trimmed;
    for (std::size_t i = 0; i < kDropCauses; ++i) sum.drops[i] += c.drops[i];
  }
  for (const Switch& at : switches_) {
    for (std::size_t i = 0; i < kDropCauses; ++i) sum.drops[i] += at.counters.drops[i];
  }
  return sum;
}

}  // namespace mrc::fabric
