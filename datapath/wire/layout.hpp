// SPDX-License-Identifier: BSD-2-Clause
// Which extension headers an opcode carries, for parser and writer alike.
#pragma once

#include "mrc/wire/packet.hpp"

namespace mrc::wire {

inline constexpr std::size_t kIp = Ipv6Header::kSize;
/// Inner IPv6, UDP and BTH: what every packet starts with.
inline constexpr std::size_t kBaseHeaders = kIp + UdpHeader::kSize + Bth::kSize;

/// Bytes between BTH and payload; -1 for an opcode that MRC does not have.
constexpr int extension_size(Opcode op, bool timestamp, bool cc_state) {
  switch (op) {
    case Opcode::kWriteFirst:
    case Opcode::kWriteMiddle:
    case Opcode::kWriteLast:
    case Opcode::kWriteOnly:
      return static_cast<int>(Meth::kSize + Reth::kSize + (timestamp ? Tseth::kSize : 0));
    case Opcode::kWriteLastImm:
    case Opcode::kWriteOnlyImm:
      return static_cast<int>(Meth::kSize + Reth::kSize + ImmDt::kSize + (timestamp ? Tseth::kSize : 0));
    case Opcode::kSack:
      return static_cast<int>(Seth::kSize + (cc_state ? CcState::kSize : 0));
    case Opcode::kNack:
      return static_cast<int>(Neth::kSize);
    case Opcode::kProbeRequest:
      return static_cast<int>(Peth::kSize);
    case Opcode::kEndpointRequest:
      return static_cast<int>(Erth::kSize);
    case Opcode::kEndpointResponse:
      return static_cast<int>(Eeth::kSize);
    case Opcode::kAcknowledge:
      return static_cast<int>(Aeth::kSize);
  }
  return -1;
}

/// Whether bytes may follow the extension headers.
constexpr bool may_carry_payload(Opcode op) {
  return is_write(op) || op == Opcode::kProbeRequest || op == Opcode::kEndpointRequest ||
         op == Opcode::kEndpointResponse;
}

static_assert(kIp + kBaseHeaders + extension_size(Opcode::kWriteOnlyImm, true, false) == 128);
static_assert(kIp + kBaseHeaders + extension_size(Opcode::kSack, false, true) <= kMaxHeaders);
static_assert(kIp + kBaseHeaders + extension_size(Opcode::kEndpointResponse, false, false) <= kMaxHeaders);

}  // namespace mrc::wire
