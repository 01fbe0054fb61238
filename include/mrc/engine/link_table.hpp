// SPDX-License-Identifier: BSD-2-Clause
// The engine's connections as the layer above names them. A core connection needs the peer's whole inner address, T0
// included, which the directory may not know yet, and which changes when a peer comes back elsewhere; the name (IPv4,
// port) stays. So the upper layer holds a link, and the link points at a core connection once there is one.
// Grows when a connection is made, never per packet. One owner (the engine's lock).
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "mrc/engine/engine.hpp"

namespace mrc::engine {

/// A sentence that most never have: a pointer where there is none.
class Words {
 public:
  Words& operator=(std::string text) {
    text_ = std::make_unique<std::string>(std::move(text));
    return *this;
  }
  std::string str() const { return text_ ? *text_ : std::string(); }

 private:
  std::unique_ptr<std::string> text_;
};

struct Link {
  transport::EpId ep = transport::kNoId;
  EndpointName peer{};
  transport::ConnId core = transport::kNoId;
  transport::ConnId next = transport::kNoId;              ///< another of the same hash (LinkTable's)
  bool recheck = false;                                   ///< it failed or was closed: look the peer up before a write
  transport::Status why_status = transport::Status::kOk;  ///< what `why` explains
  Tick waiting_since{};                                   ///< when a look-up first had no answer; 0 = not waiting
  Words why;                                              ///< the last failure
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
  transport::ConnId& bucket(transport::EpId ep, const EndpointName& peer);
  void grow();

  std::uint32_t limit_;
  std::deque<Link> links_;
  std::vector<transport::ConnId> free_;
  std::vector<transport::ConnId> by_core_;
  std::vector<transport::ConnId> buckets_ = std::vector<transport::ConnId>(16, transport::kNoId);  ///< 2^n
};

}  // namespace mrc::engine
