// SPDX-License-Identifier: BSD-2-Clause
// What the messaging layer keeps: operations, peers, handles, and messages that wait. Owned by a Messenger, used under
// the engine's lock. Objects live in pools and are linked into their peer's lists, so that a peer's failure finds all.
#pragma once

#include <array>
#include <boost/intrusive/list.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "../device.hpp"
#include "../objects.hpp"
#include "pools.hpp"
#include "records.hpp"

namespace mrc::prov::msg {

namespace bi = boost::intrusive;
/// Unlinks itself when its object dies or is told to.
using Hook = bi::list_member_hook<bi::link_mode<bi::auto_unlink>>;
template <class T, Hook T::*Member>
using List = bi::list<T, bi::member_hook<T, Hook, Member>, bi::constant_time_size<false>>;

inline constexpr std::size_t kMaxIov = 8;
/// Pieces of one registered region (mr_iov_limit).
inline constexpr std::size_t kMaxRegionPieces = 8;
inline constexpr std::uint32_t kNoHandle = UINT32_MAX;

struct Peer;
struct Handle;
class MatchTable;
class Messenger;

/// kFetchAtomic: fetching and comparing ones; those of peers are kRemoteWrite and kRemoteRead with FI_ATOMIC.
enum class OpKind : std::uint8_t { kSend, kRecv, kWrite, kRead, kRemoteWrite, kRemoteRead, kAtomic, kFetchAtomic };

constexpr bool is_atomic(OpKind kind) {
  return kind == OpKind::kAtomic || kind == OpKind::kFetchAtomic;
}

/// What only atomics have. Operands are copied when the operation is posted.
struct AtomicOp {
  std::uint32_t index = 0;
  AtomicType type{};
  std::uint64_t length = 0;   ///< of the target
  Chunk* operands = nullptr;  ///< the operand, then the one to compare with; null to read
  std::array<engine::GatherPiece, kMaxIov> results{};
  std::uint32_t result_count = 0;
};

/// An operation of ours towards a peer.
struct TxOp {
  std::uint32_t index = 0;
  std::uint16_t generation = 0;  ///< ids of finished operations do not match
  Hook queue;                    ///< peer's requests, messages or data
  Hook all;                      ///< peer's ops
  TxOp* mail_next = nullptr;     ///< others in the same mailbox message
  Peer* peer = nullptr;
  OpKind kind = OpKind::kSend;
  bool tagged = false, signal = false, inject = false, want_ack = false, has_data = false;
  bool large = false;      ///< the bytes travel by themselves, not in the record
  bool mail_done = false;  ///< our record was SACKed
  bool answered = false;   ///< CTS (large send), ACK, FIN, or all bytes of a read are here
  bool granted = false;    ///< CTS came
  bool fence = false;      ///< nothing of it leaves before everything earlier to this peer has completed
  bool strict = false;     ///< queued: neither it nor what is behind it may be overtaken
  bool deferred = false;   ///< comes back in Done, with `counter`
  Counter* counter = nullptr;
  std::uint8_t after = 0;    ///< kFlagAfter… of its record
  std::uint32_t number = 0;  ///< order of submission to the peer
  int error = 0;
  std::uint32_t refs = 0;  ///< transport writes that still read our buffers
  void* context = nullptr;
  void* owner = nullptr;         ///< transmit context
  std::uint16_t rx_context = 0;  ///< the peer's receive context
  std::uint64_t tag = 0, data = 0, length = 0;
  std::array<engine::GatherPiece, kMaxIov> pieces{};
  engine::Gather gather{};
  std::array<Segment, kMaxSegments> segments{};
  std::uint32_t segment_count = 0;
  std::uint32_t remote_handle = kNoHandle;
  std::uint64_t remote_base = 0, to_send = 0, posted = 0;
  Handle* handle = nullptr;  ///< where a large read lands
  std::byte* bounce = nullptr;
  AtomicOp* atomic = nullptr;
  device::Staging staging;  ///< the bytes of a device, in host memory

  /// Where what the peer sends back goes.
  std::span<const engine::GatherPiece> landing() const {
    if (atomic != nullptr) return {atomic->results.data(), atomic->result_count};
    return {pieces.data(), gather.count};
  }
  std::uint32_t id() const { return static_cast<std::uint32_t>(generation) << 16 | index; }
};

/// A receive: posted, or in progress of a rendezvous.
struct RxOp {
  std::uint32_t index = 0;
  // What matching looks at comes first (MatchTable keeps order, hash and shape).
  std::uint32_t hash = 0;
  Hook posted;
  std::uint64_t order = 0;
  std::uint64_t tag = 0, ignore = 0;
  EndpointName from{};
  bool tagged = false, directed = false, signal = true, multi = false;
  bool detached = false;  ///< multi: no more messages go into it
  bool deferred = false;  ///< comes back in Done, with `counter`
  std::uint8_t shape = 0;
  MatchTable* table = nullptr;
  void* context = nullptr;
  std::uint32_t piece_count = 0;
  std::uint32_t children = 0;  ///< multi: rendezvous still running into it
  std::size_t length = 0;
  std::size_t used = 0;  ///< multi
  std::array<engine::GatherPiece, kMaxIov> pieces{};
  RxOp* parent = nullptr;
  Counter* counter = nullptr;
  Hook hungry;  ///< multi: messages that it could not take yet wait for it
  // of the rendezvous:
  std::uint64_t total = 0, matched_tag = 0, data = 0;
  bool has_data = false;
};

/// RMA that a peer asked of us and that takes more than one step.
struct TargetOp {
  std::uint32_t index = 0;
  Hook all;      ///< peer's targets
  Hook pending;  ///< the messenger's list of those to be tried again
  Peer* peer = nullptr;
  std::uint32_t epoch = 0;
  std::uint32_t op = 0;  ///< the peer's id
  std::uint16_t rx_context = 0;
  bool read = false, has_data = false, dead = false, complete = false;
  bool atomic = false;     ///< carried out and reported; only its result is on its way
  Chunk* chunk = nullptr;  ///< the result of an atomic
  int error = 0;
  std::uint64_t data = 0, length = 0, posted = 0;
  std::uint32_t refs = 0;
  std::uint32_t remote_handle = kNoHandle;
  std::uint64_t mr_generation = 0;
  Handle* handle = nullptr;
  std::array<Segment, kMaxSegments> segments{};
  std::uint32_t segment_count = 0;
  std::array<Counter*, kMaxSegments> counters{};
  std::array<engine::GatherPiece, kMaxSegments * kMaxRegionPieces> pieces{};
  std::uint32_t piece_count = 0;
  engine::Gather gather{};
  device::Staging staging;  ///< a read's source, if it is on a device
  engine::GatherPiece staged{};
};

/// A grant: a peer may write these bytes directly.
struct Handle {
  enum class Use : std::uint8_t { kNone, kReceive, kRead, kTarget };
  std::uint32_t index = 0;
  std::uint16_t generation = 0;
  Use use = Use::kNone;
  Hook all;  ///< peer's handles
  Peer* peer = nullptr;
  union {
    RxOp* receive;
    TxOp* read;
    TargetOp* target = nullptr;
  };
  std::uint64_t length = 0, arrived = 0;
  bool failed = false;      ///< a device refused bytes
  device::Staging staging;  ///< where bytes for a device are collected

  std::uint32_t rkey() const { return static_cast<std::uint32_t>(generation) << 16 | index; }
};
/// One less than 16 bits: no handle's R_Key is the mailbox's.
inline constexpr std::uint32_t kMaxHandles = 0xFFFF;

/// What matching and delivery need to know of a message that came.
struct Message {
  Peer* peer = nullptr;
  EndpointName from{};  ///< the peer's name when it came: a connection's number may get another owner
  std::uint32_t epoch = 0;
  std::uint32_t op = 0;
  bool tagged = false, rts = false, has_data = false, want_ack = false;
  std::uint64_t tag = 0, data = 0, length = 0;
};

/// A message that no receive has matched yet.
struct Unexpected : Message {
  static constexpr std::uint8_t kShapes = 6;
  /// Its place among those that receives of one shape look at.
  struct Shaped {
    Hook hook;
    Unexpected* self = nullptr;
    std::uint32_t hash = 0;
  };
  std::uint32_t index = 0;
  bool claimed = false;
  bool dead = false;  ///< claimed, and then its sender failed
  Hook link;          ///< all of its side, in order, or the claimed ones
  Hook of_peer;
  MatchTable* table = nullptr;
  Messenger* messenger = nullptr;
  Chunk* chunk = nullptr;
  std::array<Shaped, kShapes> shaped{};

  std::span<const std::byte> bytes() const;
};

/// An answer that waits for a mailbox message.
struct Control {
  std::uint32_t index = 0;
  Hook link;
  Record record;
  Chunk* chunk = nullptr;  ///< bytes of READ_DATA
};

/// A mailbox message that arrives in several packets.
struct Assembly {
  std::uint32_t index = 0;
  Hook link;
  std::uint32_t sequence = 0;
  std::uint32_t arrived = 0;
  std::uint64_t pass = 0;  ///< progress pass in which it began
  Chunk* chunk = nullptr;
};

/// A mailbox message on its way out. The buffer holds heads, control records and small data; pieces refer to it and
/// to users' buffers.
struct Mail {
  static constexpr std::size_t kBuffer = 2048;
  static constexpr std::size_t kPieces = 16;
  std::uint32_t index = 0;
  Peer* peer = nullptr;
  std::uint32_t epoch = 0;
  TxOp* ops = nullptr;
  std::uint32_t length = 0;
  std::uint32_t used = 0;         ///< of the buffer
  std::uint32_t piece_start = 0;  ///< buffer bytes from here on are not in a piece yet
  engine::Gather gather{};
  std::array<engine::GatherPiece, kPieces> pieces{};
  std::array<std::byte, kBuffer> buffer;
};

/// Records that came ahead of their turn, by sequence.
using Ring = std::array<Chunk*, kOrderWindow>;

/// Longest bytes that are copied into a mailbox message: they fit its buffer with their record.
inline constexpr std::uint32_t kMaxCopy = 1024;

/// Everything about one remote endpoint.
struct Peer {
  transport::ConnId conn = transport::kNoId;
  EndpointName name{};
  std::uint32_t session = 0, their_session = 0;
  std::uint32_t epoch = 0;         ///< local count of lives of this pair
  std::uint32_t resets_ahead = 0;  ///< found out by session before the connection event came
  // sending
  std::uint32_t next_number = 0, strict_queued = 0;
  std::uint32_t tx_sequence = 0, mail_sequence = 0;
  std::uint16_t mails_in_flight = 0;
  std::uint16_t assembly_count = 0;
  std::uint32_t sent_messages = 0, sent_requests = 0, allowed_messages = 0, allowed_requests = 0;
  std::uint64_t sent_bytes = 0, allowed_bytes = 0;
  List<TxOp, &TxOp::queue> requests, messages, data;
  List<TxOp, &TxOp::all> ops;
  List<Control, &Control::link> control;
  Mail* unposted = nullptr;
  // receiving
  std::uint32_t rx_next = 0;
  bool stalled = false;
  std::uint16_t held = 0;  ///< records in the ring
  std::uint32_t done_messages = 0, done_requests = 0, told_messages = 0, told_requests = 0;
  std::uint64_t done_bytes = 0, told_bytes = 0;
  std::unique_ptr<Ring> ring;  ///< only while records wait for one that they overtook
  List<Assembly, &Assembly::link> assemblies;
  List<Handle, &Handle::all> handles;
  List<TargetOp, &TargetOp::all> targets;
  List<Unexpected, &Unexpected::of_peer> waiting;
  Hook dirty;
};

inline std::span<const std::byte> Unexpected::bytes() const {
  if (chunk == nullptr) return {};
  return {chunk->data + chunk->offset, chunk->length};
}

}  // namespace mrc::prov::msg
