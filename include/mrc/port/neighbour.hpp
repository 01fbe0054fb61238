// SPDX-License-Identifier: BSD-2-Clause
// Next hops on Ethernet links: our own neighbour discovery (RFC 4861 NS/NA only), because no kernel does it for
// the endpoints' addresses. Pure state machine over frames: no DPDK, no clock; one per port.
// Point to point needs no special case: the first solicitation goes to the solicited-node multicast group and
// the peer's solicitation teaches us its address.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "mrc/port/port.hpp"
#include "mrc/time.hpp"
#include "mrc/wire/ip.hpp"

namespace mrc::port {

class NeighbourCache {
 public:
  /// `capacity` entries at most; the least recently used goes first.
  NeighbourCache(MacAddress own_mac, std::size_t capacity);
  ~NeighbourCache();

  /// Addresses that we answer for (an endpoint's inner address, or our port's own).
  void add_own(const wire::Ipv6Address& address);
  void remove_own(const wire::Ipv6Address& address);

  /// The next hop's MAC, or nullptr: then a solicitation becomes due (rate-limited: 1 ms first, doubling to 250 ms).
  const MacAddress* lookup(const wire::Ipv6Address& next_hop, Tick now);

  /// True if the frame was NS/NA (and has been dealt with); other frames are the caller's.
  bool on_frame(std::span<const std::byte> frame, Tick now);
  /// Learns from any packet that was accepted for us (source MAC of a valid INIT).
  void learn(const wire::Ipv6Address& address, const MacAddress& mac, Tick now);

  /// Writes one due NS or NA frame; 0 = nothing due. `out` ≥ 86 bytes.
  std::size_t poll_tx(std::span<std::byte> out, Tick now);
  bool tx_pending(Tick now) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace mrc::port
