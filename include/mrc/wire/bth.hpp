// SPDX-License-Identifier: BSD-2-Clause
// Base Transport Header and the opcodes (mrc-protocol §1; data and ACK opcodes are RoCE RC's + 0xC0).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace mrc::wire {

enum class Opcode : std::uint8_t {
  kWriteFirst = 0xC6,
  kWriteMiddle = 0xC7,
  kWriteLast = 0xC8,
  kWriteLastImm = 0xC9,
  kWriteOnly = 0xCA,
  kWriteOnlyImm = 0xCB,
  kAcknowledge = 0xD1,
  kEndpointRequest = 0xD8,
  kEndpointResponse = 0xD9,
  kSack = 0xDC,
  kNack = 0xDD,
  kProbeRequest = 0xDE,
};

constexpr bool is_write(Opcode op) {
  return op >= Opcode::kWriteFirst && op <= Opcode::kWriteOnlyImm;
}
constexpr bool has_imm(Opcode op) {
  return op == Opcode::kWriteLastImm || op == Opcode::kWriteOnlyImm;
}
constexpr bool ends_message(Opcode op) {
  return op >= Opcode::kWriteLast && op <= Opcode::kWriteOnlyImm;
}

inline constexpr std::uint32_t kPsnMask = 0xffffff;
inline constexpr std::uint32_t kEndpointQpn = 0x2;  ///< ENDPOINT_REQUEST/_RESPONSE are addressed here

/// a - b on the 24-bit circle, in [-2^23, 2^23).
constexpr std::int32_t psn_diff(std::uint32_t a, std::uint32_t b) {
  return static_cast<std::int32_t>((a - b) << 8) >> 8;
}

struct Bth {
  static constexpr std::size_t kSize = 12;
  Opcode opcode = Opcode::kWriteOnly;
  bool solicited = false;
  bool migrated = true;      ///< MigReq, 1 as RoCE senders set it
  std::uint8_t pad = 0;      ///< 0..3 bytes that bring the payload to a multiple of 4
  std::uint8_t version = 0;  ///< transport header version, 4 bits
  std::uint16_t pkey = 0xffff;
  std::uint32_t dest_qpn = 0;  ///< 24 bits
  bool ack_request = false;    ///< flag A, bit 7 of byte 8
  bool retransmit = false;     ///< flag rtx, bit 5
  bool timestamp = false;      ///< flag ts, bit 4: a TSETH follows METH
  std::uint32_t psn = 0;       ///< 24 bits

  void encode(std::span<std::byte, kSize> out) const;
  static Bth decode(std::span<const std::byte, kSize> in);  ///< any opcode value; the caller checks it
  bool operator==(const Bth&) const = default;
};

}  // namespace mrc::wire
