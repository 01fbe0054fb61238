// SPDX-License-Identifier: BSD-2-Clause
// Inside of the core: tables, pools and the operations that its sources share (internal to datapath/transport).
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "mrc/arena.hpp"
#include "mrc/planted.hpp"
#include "mrc/transport/connection.hpp"
#include "mrc/transport/core.hpp"
#include "mrc/transport/timers.hpp"
#include "mrc/wire/init.hpp"

namespace mrc::transport {

/// Bytes between the L3 MTU and the payload MTU (design.md).
inline constexpr std::uint32_t kHeaderBudget = 136;
inline constexpr std::uint32_t kBaseMtu = 1024;
/// A driver that comes later than this after a deadline has stalled: what it finds says little about the network.
inline constexpr Duration kStall = milliseconds(2);
/// … and may look at what arrived meanwhile for this long before anything is declared lost.
inline constexpr Duration kStallGrace = milliseconds(1);
inline constexpr std::uint8_t kStallLoops = 8;

/// SETH.cc_flags, this project's use: CC_STATE's timestamp counts; the packet named had arrived before;
/// the receiver's own links are full.
inline constexpr std::uint8_t kSackTimestamp = 1;
inline constexpr std::uint8_t kSackDuplicate = 2;
inline constexpr std::uint8_t kSackFull = 4;

enum class EndpointStatus : std::uint8_t { kOk = 0, kVersion = 1, kAuthenticator = 2, kFull = 3 };

struct Endpoint {
  wire::Ipv6Address inner{};
  std::uint64_t incarnation = 0;
  Upper* upper = nullptr;
  std::uint32_t hash_next = kNone;
  std::uint32_t first_connection = kNone;
  std::uint32_t instance = 0;  ///< last one given to a connection
  bool used = false;
  bool closing = false;
  bool closed = false;
};

/// Loop-back probes to our own T0s: whether it is our end of a plane that loses packets (loopback_probe.cpp).
struct LoopCheck {
  struct Plane {
    std::uint64_t pending = 0;  ///< of the latest 64 probes: not answered
    std::uint32_t next = 0;     ///< number of the next one
    std::uint16_t answered = 0, lost = 0, streak = 0, needed = 0;
    Tick healed_at{};
  };
  path::Route route{};
  wire::Ipv6Address via{};  ///< whom the route led to, for the driver's next hop
  EpId ep = kNoId;
  std::uint32_t nonce = 0;
  std::uint32_t testing = 0;  ///< planes under suspicion: all planes are probed, to compare
  std::uint32_t lossy = 0;    ///< planes found to lose packets: probed until they have healed
  std::uint32_t due = 0;      ///< planes with a probe to be sent now
  Tick next = kNever;
  std::array<Plane, path::kMaxPlanes> planes{};
};

/// An answer that belongs to no connection's state.
struct Reply {
  EpId ep = kNoId;
  wire::Ipv6Address source{}, destination{};
  wire::EndpointOp op = wire::EndpointOp::kNoEndpoint;
  std::uint8_t status = 0;
  std::uint32_t argument = 0;
  std::uint32_t source_qpn = 0;
  std::uint32_t request_psn = 0;
  std::uint32_t echoed_ev = 0;
  std::uint64_t incarnation = 0;
  std::uint32_t received_length = 0;
};

struct NackEntry {
  ConnId conn = kNoId;
  std::uint32_t ev = 0;
  std::uint32_t psn = 0;
  std::uint16_t timestamp = 0;
  wire::NackReason reason = wire::NackReason::kTrimmed;
  std::uint32_t qpn = 0;  ///< of the connection then
};

/// Bounded FIFO over arena memory.
template <class T>
class Ring {
 public:
  Ring() = default;
  explicit Ring(std::span<T> items) : items_(items) {}
  bool push(const T& item) {
    if (count_ == items_.size()) return false;
    std::size_t at = head_ + count_;
    if (at >= items_.size()) at -= items_.size();
    items_[at] = item;
    ++count_;
    return true;
  }
  const T& front() const { return items_[head_]; }
  void pop() {
    if (++head_ == items_.size()) head_ = 0;
    --count_;
  }
  bool empty() const { return count_ == 0; }
  std::size_t size() const { return count_; }

 private:
  std::span<T> items_;
  std::size_t head_ = 0, count_ = 0;
};

/// An Event as it waits: every connection has room for four of them.
struct QueuedEvent {
  EventKind kind{};
  Status status{};
  std::uint16_t msn = 0;
  EpId ep = kNoId;
  ConnId conn = kNoId;
  std::array<std::uint32_t, 2> data{};  ///< kWriteDone: the cookie; kImmediate: ImmDt and length

  QueuedEvent() = default;
  explicit QueuedEvent(const Event& e) : kind(e.kind), status(e.status), msn(e.msn), ep(e.ep), conn(e.conn) {
    if (kind == EventKind::kImmediate)
      data = {e.imm, e.length};
    else
      data = {static_cast<std::uint32_t>(e.cookie), static_cast<std::uint32_t>(e.cookie >> 32)};
  }
  Event event() const {
    if (kind == EventKind::kImmediate) return {kind, status, ep, conn, 0, data[0], data[1], msn};
    return {kind, status, ep, conn, std::uint64_t{data[1]} << 32 | data[0], 0, 0, msn};
  }
};
static_assert(sizeof(QueuedEvent) == 20);

struct Core::State {
  enum class Sent : std::uint8_t { kPacket, kNothing, kNoRoom };

  State(const Config& c, const Limits& l, std::uint64_t seed) : config(c), limits(l), random(seed) {}

  Config config;
  Limits limits;
  Random random;
  Counters counters{};
  wire::Packet parsed{};  ///< the packet being looked at: too large to be cleared for each
  std::uint64_t hash_key = 0;
  std::uint32_t index_bits = 0;
  std::uint32_t links_up = UINT32_MAX;  ///< bit p: plane p's link is up
  LoopCheck loop;
  std::span<path::DenyRule> deny_storage;
  std::uint32_t deny_count = 0;
  std::span<const path::DenyRule> denylist() const { return deny_storage.first(deny_count); }

  std::span<Endpoint> endpoints;
  std::span<std::uint32_t> endpoint_buckets;
  std::span<Connection> connections;
  std::span<std::uint32_t> connection_buckets;
  std::span<std::uint32_t> free_connections;
  std::uint32_t free_connection_count = 0;
  std::span<path::Ev> ev_storage;
  std::uint32_t evs_per_connection = 0;

  Pool<Message> messages;
  SegmentPool segments;
  Pool<Suspect> suspects;
  Pool<Ordered> ordered;
  Ring<QueuedEvent> events;
  std::uint32_t imm_events = 0;    ///< kImmediate events in the queue
  std::uint32_t imms_waiting = 0;  ///< WriteImms in `ordered`
  std::uint32_t write_events = 0;  ///< kWriteDone events in the queue: they hold their share of limits.messages
  Ring<Reply> replies;
  Ring<NackEntry> nacks;
  DeadlineHeap timers;
  ReceiverShare rx_share;

  /// What the SACK that is being looked at says, besides what it acknowledges.
  struct SackNews {
    std::uint64_t match = UINT64_MAX;  ///< whose latest transmission it echoes
    Duration rtt{-1};                  ///< … and the round trip of that
    Tick evidence{};                   ///< when the latest packet was sent that it says arrived
    bool marked = false;               ///< the echoed packet was ECN-marked
    bool named_only = false;           ///< it lies beyond what the SACK reports in full
  };
  SackNews sack;

  // Intrusive FIFO lists of connections.
  IndexQueue control, data, starved;
  std::uint32_t touched = kNone;
  std::uint32_t outstanding = 0;  ///< messages of all connections

  // Time as the driver lets it pass.
  Tick last_call{};
  std::int64_t active = 0;  ///< nanoseconds of time in which the driver was prompt
  bool called = false;
  Tick stalled_at{};  ///< packets sent before this give no RTT sample
  Tick grace_until{};
  std::uint8_t grace_loops = 0;  ///< rounds of the driver's loop that the grace still lasts
  bool grace_used = false;       ///< no second grace before the timers ran: a slow driver must still retransmit
  bool in_grace(Tick now) const { return grace_loops != 0 && now < grace_until; }
  Tick tokens_at{};
  std::uint32_t tokens = 64;  ///< kNoEndpoint answers that may be sent

  // --- tables.cpp
  EpId find_endpoint(const wire::Ipv6Address& inner) const;
  EpId find_sibling(const wire::Ipv6Address& inner) const;
  ConnId find_connection(EpId ep, const wire::Ipv6Address& remote) const;
  ConnId find_qpn(std::uint32_t qpn) const;
  ConnId make_connection(EpId ep, const wire::Ipv6Address& remote);
  void free_connection(ConnId id);
  std::uint32_t endpoint_bucket(const wire::Ipv6Address& inner) const;
  std::uint32_t connection_bucket(EpId ep, const wire::Ipv6Address& remote) const;

  // --- lists.cpp
  void push_event(ConnId id, EventKind kind, Status status);
  void push_done(ConnId id, std::uint32_t message, Status status);
  void want_control(ConnId id, std::uint16_t flags);
  void want_data(ConnId id);
  void touch(ConnId id);
  void wake_starved();
  void settle(ConnId id, Tick now);  ///< after anything happened: lists, timers, close
  Tick deadline(const Connection& c, Tick now) const;
  void schedule(ConnId id, Tick now);
  void expire(ConnId id, Tick now);
  void enter(Tick now);  ///< each call of the driver: stalls
  void push(IndexQueue& list, ConnId id, std::uint32_t Connection::*next);
  ConnId pop(IndexQueue& list, std::uint32_t Connection::*next);

  // --- denylist.cpp
  bool apply_denylist(Connection& c) const;  ///< false: no EV is left
  void draw_path(const path::Route& route, std::uint32_t planes, std::uint32_t& ev, std::uint8_t& plane);

  // --- setup.cpp
  void new_instance(ConnId id);
  void start_init(ConnId id, Tick now);
  Status find_route(ConnId id);
  void init_due(ConnId id, Tick now);
  void on_init(EpId ep, const wire::Packet& p, std::uint8_t plane, Tick now);
  void on_init_answer(EpId ep, const wire::Packet& p, Tick now);
  void on_no_endpoint(EpId ep, const wire::Packet& p, Tick now);
  void learn_peer(ConnId id, const wire::InitBody& body, std::uint32_t instance, Tick now);
  void peer_knows(ConnId id, Tick now);
  void fail_connection(ConnId id, Status status, Tick now);
  void fail_messages(ConnId id, Status status);
  std::size_t init_body(ConnId id, bool answer, std::span<std::byte> out) const;
  void init_mac(const wire::Ipv6Address& from, const wire::Ipv6Address& to, bool answer, std::uint32_t instance,
                std::span<const std::byte> body, std::span<std::byte, 32> out) const;
  bool authentic(const wire::Packet& p, const wire::InitBody& body, std::span<const std::byte> raw, bool answer) const;

  // --- close.cpp
  void try_close(ConnId id, Tick now);
  void close_due(ConnId id, Tick now);
  void on_close(EpId ep, const wire::Packet& p, Tick now);
  void on_close_answer(EpId ep, const wire::Packet& p);
  bool take_token(Tick now);
  void closed_connection(ConnId id);
  void refuse(const wire::Packet& p, EpId ep, std::uint32_t argument, std::uint64_t incarnation, Tick now);

  // --- rx.cpp
  void receive(const RxPacket& packet, Tick now);
  void on_data(ConnId id, const wire::Packet& p, std::uint8_t plane, Tick now);
  void on_endpoint_packet(const wire::Packet& p, const RxPacket& raw, Tick now);
  void heard(Connection& c, std::uint8_t plane);
  bool mirrors(const Connection& c) const;

  // --- sack_rx.cpp
  void on_sack(ConnId id, const wire::Packet& p, Tick now);
  void on_nack(ConnId id, const wire::Packet& p, Tick now);
  void acknowledged(ConnId id, std::uint64_t seq, TxRecord& record, bool echoed, Tick now);
  Duration sample_rtt(Connection& c, Tick sent, std::uint16_t echoed_timestamp, bool timestamp_valid, Tick now);

  // --- ordered.cpp: WriteImm, semantic ACK and NAK, both ends
  bool held_back(const Connection& c) const;
  /// The peer's silence counts: not while we have sent it nothing for want of window segments, which others hold.
  bool expects_answer(const Connection& c) const {
    return (c.messages != 0 && !(c.in_starved && c.tx.span() == 0)) || !c.waiting.empty();
  }
  IndexQueue& next_queue(Connection& c);
  void finished(ConnId id, std::uint32_t message);
  void end_ordered(ConnId id);
  void on_acknowledge(ConnId id, const wire::Packet& p, Tick now);
  void naks_told(Connection& c, std::uint8_t told);
  void naks_answered(Connection& c, std::uint8_t told, std::uint8_t seen);
  bool overdue(const Connection& c) const;
  void confirmed(Connection& c, std::uint8_t seen);
  bool room_for(Connection& c, const wire::Packet& p, std::uint64_t seq) const;
  bool refuse_write(ConnId id, std::uint64_t seq, std::uint16_t msn);
  void arrived_ordered(ConnId id, const wire::Packet& p, std::uint64_t seq);
  void take_effect(ConnId id, const Ordered& item);
  void deliver_ordered(ConnId id);
  void drop_ordered(Connection& c);
  void send_nack_for(ConnId id, const wire::Packet& p, wire::NackReason reason);

  // --- loss.cpp
  void link(Connection& c, std::uint32_t number, TxRecord& record);
  void unlink(Connection& c, TxRecord& record, std::uint32_t bytes);
  std::uint32_t record_bytes(const TxRecord& record) const;
  void detect_losses(ConnId id, Tick now);
  void declare_lost(ConnId id, std::uint32_t number, bool suspect, Tick now);
  void lose(ConnId id, std::uint32_t number);
  Duration tail_wait(const Connection& c) const;
  Tick tail_at(const Connection& c, Tick oldest) const;
  void tail_due(ConnId id, Tick now);
  void loss_timers(ConnId id, Tick now);
  Tick loss_deadline(const Connection& c) const;
  Duration patience(const Connection& c) const;
  Duration rto(const Connection& c) const;

  // --- blame.cpp
  void suspect_path(Connection& c, std::uint64_t seq, const TxRecord& record, bool tail = false);
  void judge_suspects(ConnId id, Tick now);
  void count_loss(Connection& c, Suspect& s);
  void blame(Connection& c, std::uint32_t suspect, Tick now);
  void lost_on(Connection& c, std::uint16_t ev, unsigned strikes, Tick now);
  Tick spurious(Connection& c, std::uint64_t seq, std::uint32_t ev, bool duplicate, Tick now);
  void settle_tail(Connection& c, std::uint64_t seq, bool named);
  void forgive_tails(Connection& c);
  void drop_suspects(Connection& c);

  // --- plane_health.cpp
  std::uint32_t planes_for(const Connection& c) const;    ///< that may carry its data
  std::uint32_t planes_there(const Connection& c) const;  ///< up at both ends, as far as we know
  bool plane_sound(const Connection& c, unsigned plane) const;
  void judge_planes(ConnId id, Tick now);
  void shun_plane(ConnId id, unsigned plane, Tick now);
  void take_back_plane(ConnId id, unsigned plane, Tick now);
  void drop_plane(ConnId id, unsigned plane);
  void excuse_plane(Connection& c, unsigned plane);
  void plane_probes_due(ConnId id, Tick now);
  void plane_probe_result(ConnId id, unsigned plane, bool answered, Tick now);

  // --- port_status.cpp
  void tell_ports(ConnId id, Tick now);
  void tell_ports_again(ConnId id, Tick now);
  void port_status(Connection& c, wire::Packet& p) const;
  void on_port_status(EpId ep, const wire::Packet& p, Tick now);
  void on_port_status_answer(EpId ep, const wire::Packet& p);
  void link_changed(unsigned plane, bool up, Tick now);

  // --- loopback_probe.cpp
  void check_own_end(const Connection& c, std::uint32_t planes, Tick now);
  void loop_due(Tick now);
  Sent send_loop(TxPacket& out, std::uint32_t room);
  bool on_loop(EpId ep, const wire::Packet& p, unsigned plane, Tick now);
  void judge_loop(Tick now);
  void own_plane_lossy(unsigned plane, bool lossy, Tick now);

  // --- signals.cpp
  CcLink cc_link(const Connection& c) const;
  void signal_base(Connection& c, Duration rtt, Tick sent);
  void signal_sent(Connection& c, std::uint32_t bytes, Tick now);
  void signal_ack(Connection& c, const TxRecord& record, std::uint32_t bytes, Duration rtt, bool marked, Tick now);
  void signal_received(Connection& c, std::uint32_t bytes, Tick now);
  void signal_receiver(Connection& c, const wire::CcState& state, bool full);
  void signal_ecn(Connection& c, unsigned plane, Tick now);
  void signal_trim(Connection& c, unsigned plane, std::uint32_t bytes, bool last_hop, Tick now);
  void signal_loss(Connection& c, unsigned plane, std::uint32_t bytes, Tick now);
  void signal_timeout(Connection& c, Tick now);
  void signal_batch_end(Connection& c, Tick now);

  // --- probe.cpp
  void start_mtu_probes(ConnId id, Tick now);
  void mtu_probe_due(ConnId id, Tick now);
  void on_path_probe_answer(ConnId id, const wire::Packet& p, Tick now);
  void expire_probes(Connection& c, Tick now);
  std::uint32_t mtu_size(const Connection& c, unsigned step) const;  ///< step counts from 1
  void mtu_found(Connection& c, std::uint32_t mtu, Tick now);
  void set_mtu(Connection& c, std::uint32_t mtu);
  std::uint32_t draw_plane_probe(Connection& c, PathProbe& probe);
  void plane_probe_lost(Connection& c, const PathProbe& probe);
  PathProbe& new_probe(Connection& c, Tick now);

  // --- tx.cpp
  bool window_open(const Connection& c) const;
  bool has_data(const Connection& c) const;
  bool resend_ready(const Connection& c) const;
  Sent send_data(ConnId id, TxPacket& out, std::uint32_t room, Tick now);
  wire::Packet packet_to(const Connection& c, wire::Opcode op, std::uint32_t qpn) const;
  void make_template(Connection& c) const;
  std::uint16_t data_headers(const Connection& c, wire::Opcode op, std::uint32_t ev, std::uint32_t length, bool again,
                             std::span<std::byte> out) const;
  void emit_data(ConnId id, std::uint64_t seq, const path::EvSet::Pick& pick, TxPacket& out, Tick now);

  // --- control_tx.cpp
  Sent send_control(ConnId id, TxPacket& out, std::uint32_t room, Tick now);
  Sent send_reply(TxPacket& out, std::uint32_t room, Tick now);
  Sent send_nack(TxPacket& out, std::uint32_t room, Tick now);
  void write_nak(Connection& c, wire::Packet& p);
  void write_sack(Connection& c, wire::Packet& p, bool probe_reply, Tick now);
  bool control_path(Connection& c, std::uint32_t room, Tick now, std::uint32_t& ev, std::uint8_t& plane);
  void path_probe(const Connection& c, const PathProbe& probe, std::uint32_t ev, std::uint32_t payload, TxPacket& out);
  void finish(const path::Route& route, wire::Packet& p, std::uint32_t ev, std::uint8_t plane, std::size_t payload,
              bool is_control, TxPacket& out) const;
  void write_body(const path::Route& route, wire::Packet& p, std::uint32_t ev, std::uint8_t plane,
                  std::span<const std::byte> body, TxPacket& out);

  std::span<path::Ev> storage_of(ConnId id) {
    return ev_storage.subspan(std::size_t{id} * evs_per_connection, evs_per_connection);
  }
};

/// Planes of a route as a mask.
constexpr std::uint32_t plane_mask(const path::Route& route) {
  return (1u << route.planes) - 1;
}

}  // namespace mrc::transport
