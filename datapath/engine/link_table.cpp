// SPDX-License-Identifier: BSD-2-Clause
// Links by name and by core connection.
#include "mrc/engine/link_table.hpp"

namespace mrc::engine {

using transport::ConnId;
using transport::kNoId;

ConnId LinkTable::open(transport::EpId ep, const EndpointName& peer) {
  const auto [it, fresh] = by_name_.try_emplace(key(ep, peer), kNoId);
  if (!fresh) return it->second;
  ConnId id = kNoId;
  if (!free_.empty()) {
    id = free_.back();
    free_.pop_back();
  } else if (links_.size() < limit_) {
    id = static_cast<ConnId>(links_.size());
    links_.emplace_back();
  } else {
    by_name_.erase(it);
    return kNoId;
  }
  links_[id] = Link{};
  links_[id].ep = ep;
  links_[id].peer = peer;
  it->second = id;
  return id;
}

Link* LinkTable::at(ConnId id) {
  return id < links_.size() && links_[id].ep != kNoId ? &links_[id] : nullptr;
}

const Link* LinkTable::at(ConnId id) const {
  return id < links_.size() && links_[id].ep != kNoId ? &links_[id] : nullptr;
}

void LinkTable::bind(ConnId id, ConnId core) {
  if (core >= by_core_.size()) by_core_.resize(static_cast<std::size_t>(core) + 1, kNoId);
  by_core_[core] = id;
  links_[id].core = core;
}

void LinkTable::drop(transport::EpId ep) {
  for (ConnId id = 0; id < links_.size(); ++id) {
    Link& link = links_[id];
    if (link.ep != ep) continue;
    by_name_.erase(key(ep, link.peer));
    for (ConnId& bound : by_core_) {
      if (bound == id) bound = kNoId;
    }
    link = Link{};
    free_.push_back(id);
  }
}

}  // namespace mrc::engine
