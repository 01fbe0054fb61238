// SPDX-License-Identifier: BSD-2-Clause
// What the public sources leave open ("[?]"), as named parameters with this project's defaults.
#pragma once

#include <cstdint>

namespace mrc::wire {

/// Which half of the 32-bit entropy value travels where.
enum class EvSplit : std::uint8_t {
  kHighInPort,  ///< UDP source port = EV >> 16, flow label = EV & 0xffff
  kLowInPort,   ///< UDP source port = EV & 0xffff, flow label = EV >> 16
};

/// DSCP values are the operator's; these defaults are ours (6-bit values).
struct Dscp {
  std::uint8_t control = 48;          ///< SACK, NACK, ACK, probes, endpoint requests
  std::uint8_t no_trim = 8;           ///< data that switches must not trim
  std::uint8_t trimmable = 10;        ///< first transmission of data
  std::uint8_t trimmable_retx = 12;   ///< retransmitted data
  std::uint8_t trimmed = 50;          ///< set by a switch that trimmed the packet
  std::uint8_t trimmed_lasthop = 52;  ///< the same on the last hop
};

struct Params {
  EvSplit ev_split = EvSplit::kHighInPort;
  std::uint16_t udp_port = 4791;  ///< 4791 (RoCEv2) or 4971
  Dscp dscp{};
  bool icrc = true;  ///< a 4-byte iCRC ends each packet; false only where negotiated off (memif)
};

}  // namespace mrc::wire
