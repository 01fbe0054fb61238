// SPDX-License-Identifier: BSD-2-Clause
// Links by name and by core connection.
#include "mrc/engine/link_table.hpp"

namespace mrc::engine {

using transport::ConnId;
using transport::kNoId;

ConnId& LinkTable::bucket(transport::EpId ep, const EndpointName& peer) {
  std::uint64_t x = (std::uint64_t{peer.ipv4} << 16 | peer.port) ^ std::uint64_t{ep} << 48;
  x *= 0x9E3779B97F4A7C15u;
  return buckets_[(x >> 32 ^ x >> 52) & (buckets_.size() - 1)];
}

/// Twice the buckets.
void LinkTable::grow() {
  buckets_.assign(buckets_.size() * 2, kNoId);
  for (ConnId id = 0; id < links_.size(); ++id) {
    Link& link = links_[id];
    if (link.ep == kNoId) continue;
    ConnId& head = bucket(link.ep, link.peer);
    link.next = head;
    head = id;
  }
}

ConnId LinkTable::open(transport::EpId ep, const EndpointName& peer) {
  for (ConnId id = bucket(ep, peer); id != kNoId; id = links_[id].next)
    if (links_[id].ep == ep && links_[id].peer == peer) return id;
  ConnId id = kNoId;
  if (!free_.empty()) {
    id = free_.back();
    free_.pop_back();
  } else if (links_.size() < limit_) {
    id = static_cast<ConnId>(links_.size());
    links_.emplace_back();
    if (links_.size() > buckets_.size()) grow();
  } else {
    return kNoId;
  }
  Link& link = links_[id];
  link.ep = ep;
  link.peer = peer;
  ConnId& head = bucket(ep, peer);
  link.next = head;
  head = id;
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
  for (ConnId& bound : by_core_)
    if (bound != kNoId && links_[bound].ep == ep) bound = kNoId;
  for (ConnId id = 0; id < links_.size(); ++id) {
    Link& link = links_[id];
    if (link.ep != ep) continue;
    ConnId* at = &bucket(ep, link.peer);
    while (*at != id) at = &links_[*at].next;
    *at = link.next;
    link = Link{};
    free_.push_back(id);
  }
}

}  // namespace mrc::engine
