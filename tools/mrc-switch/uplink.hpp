// SPDX-License-Identifier: BSD-2-Clause
// Ports of the real fabric that all local processes share: one per plane. Next hops come from neighbour discovery; the
// switch answers for its clients' addresses, because no kernel does.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "member.hpp"
#include "mrc/port/neighbour.hpp"

namespace mrc::soft {

class Uplinks {
 public:
  /// `directory` is where the second port object lies, for ports beyond the built-in kinds.
  static Result<std::unique_ptr<Uplinks>> open(const Options& options, const std::string& directory);

  unsigned planes() const { return static_cast<unsigned>(planes_.size()); }
  Output& output(unsigned plane) { return planes_[plane]->output; }
  port::NeighbourCache& neighbours(unsigned plane) { return *planes_[plane]->neighbours; }
  std::uint32_t mtu() const { return mtu_; }

  void add_own(const wire::Ipv6Address& address);
  void remove_own(const wire::Ipv6Address& address);
  /// Writes the Ethernet header for a packet to `next_hop`. False: its MAC is not known yet.
  bool address(unsigned plane, std::span<std::byte> frame, const wire::Ipv6Address& next_hop, Tick now);
  /// Sends what neighbour discovery has to say.
  bool send_neighbour_frames(Tick now);

 private:
  struct Plane {
    Output output;
    std::unique_ptr<port::NeighbourCache> neighbours;
  };
  std::vector<std::unique_ptr<Plane>> planes_;
  std::uint32_t mtu_ = 1500;
};

}  // namespace mrc::soft
