// SPDX-License-Identifier: BSD-2-Clause
// The engine's connections as the layer above names them. A core connection needs the peer's whole inner address, T0
// included, which the directory may not know yet, and which changes when a peer comes back elsewhere; the name (IPv4,
// port) stays. So the upper layer holds a link, and the link points at a core connection once there is one.
// Grows when a connection is made, never per packet. One owner (the engine's lock).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "mrc/engine/engine.hpp"

namespace mrc::engine {

struct Link {
  transport::EpId ep = transport::kNoId;
  EndpointName peer{};
  transport::ConnId core = transport::kNoId;
  bool recheck = false;                                   ///< it failed: look the peer up again before the next write
  Tick waiting_since{};                                   ///< when a look-up first had no answer; 0 = not waiting
  transport::Status why_status = transport::Status::kOk;  ///< what `why` explains
  std::string why;                                        ///< the last failure in words
};

class LinkTable {
 public:
  explicit LinkTable(std::uint32_t limit) : limit_(limit) {}

  /// Found or made; kNoId at the limit.
  transport::ConnId open(transport::EpId ep, const EndpointName& peer);
  Link* at(transport::ConnId id);
  const Link* at(transport::ConnId id) const;
  void bind(transport::ConnId id, transport::ConnId core);
  /// The link of a core connection, kNoId if unbound.
  transport::ConnId of(transport::ConnId core) const {
    return core < by_core_.size() ? by_core_[core] : transport::kNoId;
  }
  /// Calls call(id, link), ids ascending.
  template <class F>
  void each_id(F&& call) const {
    for (transport::ConnId id = 0; id < links_.size(); ++id) {
      if (links_[id].ep != transport::kNoId) call(id, links_[id]);
    }
  }
  /// Forgets every link of an endpoint.
  void drop(transport::EpId ep);

 private:
  using Key = std::pair<transport::EpId, std::uint64_t>;
  static Key key(transport::EpId ep, const EndpointName& peer) {
    return {ep, static_cast<std::uint64_t>(peer.ipv4) << 16 | peer.port};
  }
  std::uint32_t limit_;
  std::vector<Link> links_;
  std::vector<transport::ConnId> free_;
  std::vector<transport::ConnId> by_core_;
  std::map<Key, transport::ConnId> by_name_;
};

}  // namespace mrc::engine
