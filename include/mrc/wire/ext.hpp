// SPDX-License-Identifier: BSD-2-Clause
// Extension headers (mrc-protocol §1). Sizes and field names are spec-derived; where the public sources
// give no byte positions, the order here is this project's (docs/wire-format.md lists every offset).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace mrc::wire {

#define MRC_WIRE_CODEC(Type)                             \
  void encode(std::span<std::byte, kSize> out) const;    \
  static Type decode(std::span<const std::byte, kSize>); \
  bool operator==(const Type&) const = default

/// Message header of a data packet.
struct Meth {
  static constexpr std::size_t kSize = 4;
  std::uint16_t rqmsn = 0;  ///< counts WriteImm at the receiver
  std::uint16_t msn = 0;    ///< message number, the same in every packet of a message
  MRC_WIRE_CODEC(Meth);
};

/// Transmit timestamp, present when BTH.ts.
struct Tseth {
  static constexpr std::size_t kSize = 4;
  std::uint16_t timestamp = 0;  ///< units of 128 ns, wraps at 8.4 ms
  std::uint16_t flags = 0;
  MRC_WIRE_CODEC(Tseth);
};

/// In every data packet: where this packet's bytes go.
struct Reth {
  static constexpr std::size_t kSize = 16;
  std::uint64_t va = 0;  ///< of this packet's first byte
  std::uint32_t rkey = 0;
  std::uint32_t length = 0;  ///< the whole message's
  MRC_WIRE_CODEC(Reth);
};

struct ImmDt {
  static constexpr std::size_t kSize = 4;
  std::uint32_t value = 0;
  MRC_WIRE_CODEC(ImmDt);
};

/// SETH.M: what became of the packet whose EV is echoed.
enum class EvMark : std::uint8_t { kNone = 0, kSkipOnce = 1, kAlwaysSkip = 2 };

/// Selective acknowledgement. A cleared bitmap bit means "no information", not "lost".
struct Seth {
  static constexpr std::size_t kSize = 28;
  EvMark mark = EvMark::kNone;
  bool probe_reply = false;         ///< pr: ack_psn_offset holds a probe id
  std::int16_t ack_psn_offset = 0;  ///< PSN that triggered this SACK, minus cumulative; or the probe id
  std::uint32_t echoed_ev = 0;
  std::uint16_t source_context = 0;
  std::uint16_t dest_context = 0;
  std::uint32_t cumulative_psn = 0;  ///< 24 bits: every PSN up to and including this one arrived
  std::uint8_t cc_type = 0;          ///< 4 bits; not 0: CC_STATE follows
  std::uint8_t cc_flags = 0;         ///< 4 bits
  std::uint8_t mpr = 8;              ///< receive window in units of 128 PSNs
  std::int16_t sack_offset = 1;      ///< bitmap base = cumulative + sack_offset
  std::uint64_t bitmap = 0;          ///< bit i: PSN base + i arrived
  MRC_WIRE_CODEC(Seth);
};

struct CcState {
  static constexpr std::size_t kSize = 8;
  std::uint16_t echoed_timestamp = 0;  ///< 128 ns
  std::uint16_t ooo_count = 0;         ///< 15 bits
  bool restore_cwnd = false;
  std::uint8_t rcv_cwnd_pen = 0;  ///< 7 bits
  std::uint32_t rcvd_bytes = 0;   ///< 24 bits, units of 256 B, cumulative
  MRC_WIRE_CODEC(CcState);
};

enum class NackReason : std::uint8_t {
  kTrimmed = 0x01,
  kTrimmedLastHop = 0x02,
  kNoBitmap = 0x06,
  kNoPacketBuffer = 0x07,
  kNoResource = 0x0A,
  kPsnOutOfWindow = 0x0B,
  kUnexpectedEvent = 0x19,
};

struct Neth {
  static constexpr std::size_t kSize = 20;
  NackReason reason = NackReason::kTrimmed;
  std::uint32_t ev = 0;
  std::uint16_t source_context = 0;
  std::uint16_t dest_context = 0;
  std::uint32_t nack_psn = 0;  ///< 24 bits
  std::uint8_t cc_type = 0;
  std::uint16_t timestamp = 0;
  MRC_WIRE_CODEC(Neth);
};

/// Reliability probe; consumes no PSN; answered by a SACK with pr.
struct Peth {
  static constexpr std::size_t kSize = 16;
  std::uint16_t probe_id = 0;
  std::uint16_t source_context = 0;
  std::uint16_t dest_context = 0;
  std::uint16_t timestamp = 0;
  MRC_WIRE_CODEC(Peth);
};

/// Operations of endpoint requests. 0 and 1 are MRC's; 0x80 and up are this project's (docs/wire-format.md).
enum class EndpointOp : std::uint8_t {
  kPortStatus = 0,    ///< argument: mask of ports that are up
  kEvProbe = 1,       ///< probe id = BTH.PSN[15:0]; may be padded: confirms MTU and plane
  kInit = 0x80,       ///< request + InitBody; answered with the same op and the answerer's InitBody
  kClose = 0x81,      ///< clean close after drain
  kNoEndpoint = 0x82  ///< response only: no such endpoint, QPN or incarnation here
};

/// Endpoint request.
struct Erth {
  static constexpr std::size_t kSize = 16;
  EndpointOp op = EndpointOp::kPortStatus;
  std::uint8_t version = 0;       ///< of this project's own operations
  std::uint16_t body_length = 0;  ///< bytes of TLV body after this header (padding not counted)
  std::uint32_t argument = 0;     ///< port mask
  std::uint32_t source_qpn = 0;   ///< 24 bits; whom to answer
  std::uint32_t ev = 0;           ///< echoed in the response
  MRC_WIRE_CODEC(Erth);
};

/// Endpoint response.
struct Eeth {
  static constexpr std::size_t kSize = 36;
  EndpointOp op = EndpointOp::kPortStatus;
  std::uint8_t version = 0;
  std::uint16_t body_length = 0;
  std::uint8_t status = 0;  ///< 0 ok, else an EndpointStatus
  std::uint32_t argument = 0;
  std::uint32_t source_qpn = 0;   ///< 24 bits
  std::uint32_t request_psn = 0;  ///< 24 bits, of the request
  std::uint32_t echoed_ev = 0;
  std::uint64_t incarnation = 0;      ///< of the answering endpoint
  std::uint32_t received_length = 0;  ///< L3 bytes of the request as it arrived (MTU probe)
  MRC_WIRE_CODEC(Eeth);
};

/// As IBTA; the credit field is always 0x1F.
struct Aeth {
  static constexpr std::size_t kSize = 4;
  std::uint8_t syndrome = 0x1f;  ///< 0x1f ACK; 0x60|code NAK (code 2 = remote access error)
  std::uint32_t msn = 0;         ///< 24 bits
  static constexpr std::uint8_t kNakAccess = 0x62;
  MRC_WIRE_CODEC(Aeth);
};

#undef MRC_WIRE_CODEC

}  // namespace mrc::wire
