// SPDX-License-Identifier: BSD-2-Clause
// Messages, tagged messages and RMA above MRC writes: one Messenger per endpoint. It knows no libfabric object, only
// flags and completions, and reaches the fabric through Transport, so that tests can run several over a fake one.
// Threads: every function needs the engine's lock. place() never calls into the transport: what it has to say waits
// for on_progress(). Limits: -FI_EAGAIN at the call, nothing is lost.
#pragma once

#include <rdma/fi_errno.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "match_table.hpp"
#include "mrc/random.hpp"
#include "types.hpp"

namespace mrc::prov::msg {

/// The part of the engine that messaging needs, for one endpoint.
class Transport {
 public:
  virtual ~Transport() = default;
  virtual transport::ConnId connect(const EndpointName&) = 0;
  virtual EndpointName peer_name(transport::ConnId) const = 0;
  virtual std::string why(transport::ConnId) const = 0;
  virtual transport::Status post_write(transport::ConnId, const transport::WriteRequest&) = 0;
  virtual std::uint32_t payload_mtu(transport::ConnId) const = 0;
};

/// One finished operation, or something a peer did to our memory.
struct Done {
  OpKind kind = OpKind::kSend;
  Completion completion{};
  bool signal = false;  ///< wants an entry in the CQ; errors get one even without, except for injects
  bool inject = false;
  bool counts = true;  ///< counts in the endpoint's counters (a mere release of a multi-receive buffer does not)
  int error = 0;       ///< positive FI_E…
  std::size_t overflow = 0;
  const Peer* peer = nullptr;    ///< who, where known
  EndpointName from{};           ///< the peer's name when its message came
  void* owner = nullptr;         ///< transmits: whose they are (Transmit::owner)
  std::uint16_t rx_context = 0;  ///< remote RMA: the receive context that it was addressed to
  bool deferred = false;         ///< deferred work, which is told to `counter` alone
  Counter* counter = nullptr;
  std::string_view why{};
};

/// Hears of finished receives: an endpoint, or one receive context.
class Listener {
 public:
  virtual ~Listener() = default;
  virtual void done(const Done&) = 0;
  /// Room for a completion that no posted operation has reserved.
  virtual bool room() const = 0;
};

/// The endpoint as the messenger sees it.
class Host : public Listener {
 public:
  /// The same for what a peer's RMA tells receive context `context`.
  virtual bool remote_room(std::uint32_t context) const {
    (void)context;
    return room();
  }
  virtual int resolve(std::uint64_t key, std::uint64_t address, std::size_t length, std::uint64_t access,
                      RegionPiece* out, std::size_t* count, Region* region) = 0;
  virtual std::uint64_t mr_generation() const = 0;
};

struct Config {
  std::uint32_t tx_size = 1024;
  std::uint32_t rx_size = 1024;
  std::uint32_t inject_size = 256;
  std::uint32_t copy_size = 128;               ///< bytes up to here are copied into the mailbox message, not gathered
  std::uint32_t eager_size = 16 * 1024;        ///< longest send or write whose bytes travel in the record
  std::uint32_t inline_read = kMaxInlineRead;  ///< longest read that asks to be answered in a record
  std::uint32_t mails = 320;                   ///< mailbox messages on their way
  std::size_t min_multi_recv = 64;
  std::uint64_t seed = 1;
};

struct Transmit {
  OpKind kind = OpKind::kSend;  ///< kSend, kWrite, kRead, kAtomic, kFetchAtomic
  Peer* peer = nullptr;
  bool tagged = false, signal = true, inject = false, want_ack = false, has_data = false;
  bool fence = false;       ///< FI_FENCE
  bool trigger = false;     ///< FI_TRIGGER: the endpoint's, not the messenger's
  bool asked = false;       ///< FI_COMPLETION, for deferred work
  bool deferred = false;    ///< comes back in Done, with `counter`
  bool more = false;        ///< FI_MORE: may wait for the next call, or for the next pass of progress
  bool keep_place = false;  ///< FI_ORDER_RAS, FI_ORDER_WAS: RMA does not overtake messages that wait for credits
  std::uint8_t after = 0;   ///< kFlagAfterWrites, kFlagAfterReads
  std::span<const engine::GatherPiece> pieces{};
  std::uint64_t tag = 0, data = 0;
  std::span<const Segment> segments{};  ///< RMA, atomics
  AtomicType atomic{};                  ///< atomics, with `pieces` as the operand; must be one that there is
  std::span<const engine::GatherPiece> compare{}, results{};
  void* context = nullptr;
  void* owner = nullptr;         ///< comes back in Done: the transmit context
  std::uint16_t rx_context = 0;  ///< the peer's receive context
  Counter* counter = nullptr;
};

struct Statistics {
  std::uint64_t malformed = 0, refused = 0, stale = 0, resets = 0, unexpected = 0, out_of_order = 0, stalls = 0;
  std::uint64_t mails = 0, records = 0, rendezvous = 0;
};

class Messenger {
 public:
  /// Receives into `table`, which outlives it; null: into one of its own, of config.rx_size.
  Messenger(const Config&, Transport&, Host&, MatchTable* table = nullptr);
  ~Messenger();
  Messenger(const Messenger&) = delete;
  Messenger& operator=(const Messenger&) = delete;

  /// The peer of that name; null if the transport has no room for another connection.
  Peer* peer(const EndpointName&);
  /// One that peer() gave (Peer::conn).
  Peer* at(transport::ConnId conn) { return peers_[conn].get(); }

  /// 0, -FI_EAGAIN, -FI_EMSGSIZE (inject), -FI_EINVAL.
  int transmit(const Transmit&);

  /// Where receive context `index` receives (0: what the constructor said).
  MatchTable& table(std::size_t index = 0) { return *tables_[index]; }
  /// Another receive context; returns its index. The table outlives the messenger.
  std::size_t attach(MatchTable&);
  /// Ends receives of this table that are under way, without a word: their buffers are nobody's any more.
  void abandon(const MatchTable&);
  // Those of the first table.
  int receive(const Receive& r) { return table().receive(r); }
  int peek(const Receive& r, bool claim, bool discard) { return table().peek(r, claim, discard); }
  int claim(const Receive& r, bool discard) { return table().claim(r, discard); }
  int cancel(void* context) { return table().cancel(context); }

  transport::Placement place(const transport::RxWrite&);
  void on_event(const transport::Event&);
  bool on_progress();

  /// Something that the transport has not been given yet, although no answer of a peer is missing.
  bool unsent() const;
  /// Operations that have not completed.
  std::uint32_t outstanding() const { return tx_ops_.taken(); }
  std::uint32_t tx_left() const { return tx_ops_.available(); }
  const Statistics& statistics() const { return statistics_; }
  /// Chunks, control records and handles in use: zero when all is quiet.
  std::uint32_t in_use() const { return chunks_.taken() + controls_.taken() + handles_.taken() + targets_.taken(); }

 private:
  friend class MatchTable;
  enum class Outcome : std::uint8_t { kTaken, kStall, kMalformed };

  // messenger.cpp
  Peer& peer_of(transport::ConnId);
  void start_session(Peer&);
  void reset(Peer&, int error, std::string_view why);
  void mark(Peer& peer) {
    if (!peer.dirty.is_linked()) dirty_.push_back(peer);
  }
  void on_write_done(const transport::Event&);
  void finish(TxOp&);
  void finish_if_done(TxOp&);
  void fail(TxOp&, int error);
  void leave_queue(TxOp&);
  /// `into`: what will be written.
  Handle* take_handle(Peer&, Handle::Use, std::uint64_t length, std::span<const engine::GatherPiece> into);
  void free_handle(Handle*);
  void add_control(Peer&, const Record&, Chunk* chunk = nullptr);
  void credit_message(Peer&, std::uint32_t epoch, std::uint64_t bytes);
  void credit_request(Peer&, std::uint32_t epoch);
  bool credits_due(const Peer&, unsigned fraction) const;

  // outgoing.cpp
  void flush(Peer&);
  TxOp* next_op(const Peer&) const;
  Mail* open_mail(Peer&, bool control);
  bool fill_control(Peer&, Mail&, std::size_t mtu);
  bool add_op(Peer&, Mail&, TxOp&, std::size_t mtu);
  bool affordable(const Peer&, const TxOp&) const;
  transport::Status post_mail(Peer&, Mail&);
  void post_data(Peer&, TxOp&);
  void release_mail(Mail&);

  // incoming.cpp
  transport::Placement place_mail(const transport::RxWrite&);
  transport::Placement place_direct(const transport::RxWrite&);
  static bool land(Handle&, std::span<const engine::GatherPiece>, const transport::RxWrite&);
  bool open_mailbox(Peer&, std::span<const std::byte> bytes, Chunk* chunk);
  bool check_session(Peer&, const MailHead&);
  bool on_ordered(Peer&, const Record&, std::span<const std::byte> raw, Chunk** owner);
  bool hold(Peer&, std::uint32_t sequence, std::span<const std::byte> raw, Chunk** owner);
  void give_ring(Peer&);
  void drain(Peer&);
  Outcome act(Peer&, const Record&, Chunk** owner);
  bool on_control(Peer&, const Record&);
  TxOp* op_of(Peer&, std::uint32_t id);

  // matching.cpp
  Outcome on_message(Peer&, const Record&, Chunk** owner);
  int deliver(RxOp&, Peer&, const Message&, std::span<const std::byte> bytes);
  /// deliver() of a message that waited, and its end as one; `later`: what it has to say waits for on_progress().
  int deliver(RxOp&, Unexpected&, bool later);
  void complete_receive(RxOp&, const Message&, std::size_t placed, std::byte* where, int error);
  void complete_rendezvous(RxOp&, Peer&, std::size_t placed, int error);
  void retire_multi(RxOp&);
  void drop(Unexpected&);
  void discard_message(Unexpected&);

  // atomic.cpp
  int prepare_atomic(const Transmit&, AtomicOp*&);
  void release_atomic(TxOp&);
  Outcome on_atomic(Peer&, const Record&);

  // rma.cpp
  Outcome on_write(Peer&, const Record&);
  Outcome on_write_request(Peer&, const Record&);
  Outcome on_read_request(Peer&, const Record&);
  int resolve(const Record&, std::uint64_t access, TargetOp&);
  bool must_wait(const Peer&, const Record&, const TargetOp* rma) const;
  void fin(Peer&, std::uint32_t op, int error);
  void advance(TargetOp&);
  void finish_target(TargetOp&);
  void remote_done(const TargetOp&, Peer&);
  int stage_source(TargetOp&);
  bool still_valid(TargetOp&);

  Config config_;
  Transport& transport_;
  Host& host_;
  Random random_;
  bool placing_ = false;
  bool moved_ = false;       ///< something was posted or taken in since the pass began
  bool reset_seen_ = false;  ///< some peer has resets_ahead
  bool more_ = false;        ///< operations with FI_MORE wait for the next one without
  std::uint64_t pass_ = 1;
  Statistics statistics_{};
  SlabPool<TxOp> tx_ops_;
  SlabPool<TargetOp> targets_{1u << 20};
  SlabPool<Handle> handles_{kMaxHandles};
  SlabPool<Control> controls_{1u << 24};
  SlabPool<Assembly> assemblies_{1u << 22};
  SlabPool<Mail> mails_;
  SlabPool<AtomicOp> atomics_{65536};
  ChunkPool chunks_;
  std::vector<std::unique_ptr<Ring>> rings_;  ///< not in use
  std::unique_ptr<std::byte[]> bounce_;
  std::vector<std::unique_ptr<Peer>> peers_;  ///< by ConnId
  List<Peer, &Peer::dirty> dirty_;
  List<TargetOp, &TargetOp::pending> pending_targets_;
  std::unique_ptr<MatchTable> own_table_;
  std::vector<MatchTable*> tables_;  ///< by receive context
};

/// Flags of a transmit's completion.
std::uint64_t transmit_flags(OpKind kind, bool tagged);
/// Flags of a receive's completion.
std::uint64_t receive_flags(bool tagged, bool has_data);
/// libfabric's code for what the transport says.
int error_of(transport::Status);
std::uint64_t length_of(std::span<const engine::GatherPiece> pieces);
/// Copies `bytes` to `offset` of the concatenated pieces (which are long enough). False if a device refused them.
bool scatter(std::span<const engine::GatherPiece> pieces, std::uint64_t offset, std::span<const std::byte> bytes);

}  // namespace mrc::prov::msg
