// SPDX-License-Identifier: BSD-2-Clause
// The provider's own records inside mailbox writes: types, fields, encode and decode. The layouts are documented in
// docs/protocol.md; every integer is in network byte order; decoding never reads past its input.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "atomic_kernels.hpp"

namespace mrc::prov::msg {

/// R_Key of every endpoint's mailbox; never the handle of a grant.
inline constexpr std::uint32_t kMailboxRkey = 0xFFFFFFFFu;
/// Version of mailbox header and records; INIT's upper_version carries the same number.
inline constexpr std::uint8_t kRecordVersion = 1;
/// Target ranges of one RMA operation (rma_iov_limit).
inline constexpr std::size_t kMaxSegments = 8;

/// What both ends assume before the first CREDIT record: part of the protocol, not a parameter.
inline constexpr std::uint32_t kCreditMessages = 256;
inline constexpr std::uint32_t kCreditRequests = 64;
inline constexpr std::uint64_t kCreditBytes = 512 * 1024;
/// Ordered records that can be on their way at once: a power of two ≥ kCreditMessages + kCreditRequests.
inline constexpr std::uint32_t kOrderWindow = 512;
/// Longest data of an EAGER or WRITE record that a receiver must take.
inline constexpr std::uint32_t kMaxEager = 64 * 1024;
/// Longest data of READ_DATA: it fits the smallest MTU with its heads.
inline constexpr std::uint32_t kMaxInlineRead = 960;

/// Longest operands (both together) of an ATOMIC record, and longest result.
inline constexpr std::uint32_t kMaxAtomic = 16 * 1024;

/// 0x41-0x4F are set aside for more kinds of atomics.
enum class RecordType : std::uint8_t {
  kEager = 0x01,         ///< ordered: a message with its bytes
  kRts = 0x02,           ///< ordered: a message whose bytes wait for CTS
  kCts = 0x03,           ///< write your operation's bytes to this handle
  kFin = 0x04,           ///< an RMA operation ended with this status
  kAck = 0x05,           ///< the message was matched and its bytes placed
  kCredit = 0x06,        ///< cumulative grants
  kWrite = 0x10,         ///< ordered: RMA write with its bytes
  kWriteRequest = 0x11,  ///< ordered: RMA write whose bytes wait for CTS
  kReadRequest = 0x12,   ///< ordered: RMA read; answered by writes to `handle`, or by READ_DATA
  kReadData = 0x13,      ///< the bytes of a small read or the result of a small atomic
  kAtomic = 0x40,        ///< ordered: atomic with its operands; answered by FIN, READ_DATA, or writes to `handle`
};

enum RecordFlag : std::uint8_t {
  kFlagTagged = 1,
  kFlagCqData = 2,
  kFlagAck = 4,          ///< DELIVERY_COMPLETE or MATCH_COMPLETE: answer with ACK
  kFlagAfterWrites = 8,  ///< act after the bytes of earlier RMA writes: all of them (messages), overlapping ones (RMA)
  kFlagAfterReads = 16,  ///< the same for the bytes of earlier RMA reads
};

/// One target range of an RMA record.
struct Segment {
  std::uint64_t key = 0;
  std::uint64_t address = 0;
  std::uint64_t length = 0;
};

/// Any record, flat. Which members count depends on the type; the others are zero.
struct Record {
  RecordType type = RecordType::kEager;
  std::uint8_t flags = 0;
  std::uint16_t context = 0;   ///< receive context that it is for, ordered types only
  std::uint32_t sequence = 0;  ///< order within the pair, ordered types only
  std::uint32_t op = 0;        ///< id of the operation: the sender's own in requests, the receiver's in answers
  std::uint32_t handle = 0;
  std::uint32_t status = 0;  ///< FI_E… code of libfabric, 0 = fine
  std::uint64_t tag = 0;
  std::uint64_t data = 0;    ///< FI_REMOTE_CQ_DATA
  std::uint64_t length = 0;  ///< total length (RTS, WRITE_REQUEST), granted length (CTS)
  std::uint64_t base = 0;
  std::uint32_t credit_messages = 0;
  std::uint32_t credit_requests = 0;
  std::uint64_t credit_bytes = 0;
  AtomicType atomic{};
  std::uint32_t segment_count = 0;
  std::array<Segment, kMaxSegments> segments{};
  std::span<const std::byte> bytes{};  ///< EAGER, WRITE, READ_DATA, ATOMIC

  bool ordered() const {
    return type == RecordType::kEager || type == RecordType::kRts || type == RecordType::kWrite ||
           type == RecordType::kWriteRequest || type == RecordType::kReadRequest || type == RecordType::kAtomic;
  }
};

/// Head of every mailbox write. `session` is the sender's name for this life of the pair, `peer_session` the
/// receiver's as last learnt (0: not known yet).
struct MailHead {
  std::uint32_t session = 0;
  std::uint32_t peer_session = 0;
};
inline constexpr std::size_t kMailHead = 12;
/// Longest record without its bytes.
inline constexpr std::size_t kMaxRecordHead = 8 + 28 + kMaxSegments * 24;

std::size_t encode(const MailHead& head, std::byte* out);
/// Writes everything but the bytes, which the caller puts right behind. Returns how much it wrote.
std::size_t encode(const Record& record, std::byte* out);
/// What encode() would write.
std::size_t head_length(RecordType type, std::uint32_t segments = 1);

/// Strips the head off `in`; false if it is too short or of another version.
bool decode(std::span<const std::byte>& in, MailHead& head);
/// Strips one record off `in`; false if it is malformed or of an unknown mandatory type. Types from 0x80 on that are
/// not known are skipped (out.type keeps the number), so that later versions may add hints.
bool decode(std::span<const std::byte>& in, Record& out);

}  // namespace mrc::prov::msg
