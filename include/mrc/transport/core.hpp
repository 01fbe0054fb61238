// SPDX-License-Identifier: BSD-2-Clause
// The transport core: connections that carry RDMA writes reliably over sprayed paths. Sans-IO: time, randomness and
// packets are arguments, packets leave by being polled, memory is an arena. The same object runs under DPDK, under a
// virtual clock and in unit tests.
//
// Calling order of a driver, per loop:  on_rx(burst, now) → on_deadline(now) if due → poll_tx(…, now) until 0 →
// poll_events(). Upper::place() runs inside on_rx and must not call back into the core.
// Threads: one owner at a time (the engine's lock); no call blocks, allocates or reads a clock.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "mrc/arena.hpp"
#include "mrc/path/denylist.hpp"
#include "mrc/path/ev_set.hpp"
#include "mrc/path/plane_balance.hpp"
#include "mrc/path/route.hpp"
#include "mrc/random.hpp"
#include "mrc/time.hpp"
#include "mrc/transport/cc_kind.hpp"
#include "mrc/wire/packet.hpp"

namespace mrc::transport {

using EpId = std::uint32_t;
using ConnId = std::uint32_t;
inline constexpr std::uint32_t kNoId = UINT32_MAX;

enum class Status : std::uint8_t {
  kOk,
  kAgain,          ///< a limit was reached: progress and try again; nothing was queued
  kInvalid,        ///< arguments (no such endpoint/connection, length > 1 GiB)
  kNoRoute,        ///< no way to the peer
  kTimedOut,       ///< nobody answered INIT within connect_timeout
  kPeerDead,       ///< peer process gone or silent for peer_timeout
  kPeerRestarted,  ///< another incarnation answers at this address; what was outstanding failed once
  kRefused,        ///< version or authenticator not accepted
  kAccess,         ///< the peer NAKed the message: no such key, bound or right
  kClosed,         ///< this endpoint/connection was closed locally
  kProtocol,       ///< the peer met something that the protocol does not allow (NACK UNEXP_EVENT)
};

/// Of a Config duration or count: derived when the core is made, from whether a link rate is declared (then clocks are
/// precise and delay means queues) or not (then it mostly means the scheduler of a software host).
inline constexpr Duration kDerived{-1};

struct Config {
  wire::Params wire{};
  path::EvParams ev{};
  path::BalanceParams balance{};
  /// A plane that loses packets on all its paths: probes of it, and answers in a row until it is used again (doubling
  /// with each relapse within a second, four times at most).
  Duration plane_probe_interval = microseconds(500);
  std::uint16_t plane_probe_answers = 128;
  /// Loop-back probes to our own T0s, each plane: while it is to be found out whose end is bad, and while ours is.
  bool loopback_probes = true;
  Duration loopback_test_interval = nanoseconds(62500);
  Duration loopback_interval = microseconds(250);
  std::uint16_t loopback_answers = 256;
  std::uint32_t window = 1024;     ///< send window and advertised MPR, packets (power of two, 128..4096)
  std::uint64_t window_bytes = 0;  ///< limit of the congestion window, 0 = window × payload MTU
  std::uint64_t link_bps =
      0;  ///< rate of one plane's port, bits per second; 0 = not declared (FI_MRC_LINK_RATE, or what the ports declare)
  CcKind cc = CcKind::kAuto;                 ///< FI_MRC_CC
  bool trimming = true;                      ///< the fabric trims packets where it is congested
  Duration cc_target_min = microseconds(5);  ///< floor of the target queueing delay (FI_MRC_CC_TARGET_MIN)
  bool ecn_balancing = true;                 ///< an ECN echo moves packets to other EVs; off for comparisons only
  /// Time-out: srtt + 4 variations, within these. The same for the first retry_linear tries in a row, then doubled each
  /// time up to rto_max. (The specification's base is 1.024 us x 2^t: t = 14 is 17 ms.)
  Duration rto_min = milliseconds(20);
  Duration rto_max = seconds(1);
  std::uint8_t retry_linear = 7;
  std::uint8_t retry_exponential = 25;
  /// True: a connection is in error (kPeerDead) when the tries are used up. False: they are counted
  /// (Counters::retries_exhausted), and only peer_timeout decides: a peer that computes for long is not dead.
  bool retry_error = false;
  Duration connect_timeout = seconds(60);  ///< FI_MRC_CONNECT_TIMEOUT
  Duration peer_timeout = seconds(60);     ///< FI_MRC_PEER_TIMEOUT
  Duration init_retry = milliseconds(5);   ///< first INIT repeat; doubles to 200 ms
  Duration linger = seconds(2);            ///< FI_MRC_LINGER
  std::uint32_t sack_bytes = 16384;    ///< SACK when this much arrived since the last (a packet counts max(size,1024))
  Duration sack_delay = kDerived;      ///< or this long after the first unSACKed packet: 5 us with a link rate, else 50
  std::uint16_t reorder_packets = 64;  ///< an EV is blamed only when this many later packets of its plane were SACKed …
  Duration reorder_floor = kDerived;  ///< … and at least max(2 srtt, this) passed: 3 us with a link rate, else 100
  /// A packet with nothing SACKed after it is sent again after srtt + max(4 variations, this): 2 us with a link rate,
  /// else 100. The wait doubles each time, until the time-out takes over.
  Duration tail_floor = kDerived;
  std::uint8_t tail_packets = 0;     ///< that many of the oldest, 32 KiB at most; 0: 8 with a link rate, else 2
  std::uint16_t imm_in_flight = 32;  ///< WriteImms of one connection sent and not yet complete; further ones wait
  std::uint16_t gap_packets =
      32;  ///< a gap is retransmitted after this many later packets were SACKed (sooner than blame)
  std::array<std::byte, 32> job_key{};  ///< HMAC key of INIT
  bool job_key_set = false;
  /// HMAC-SHA-256 (or what the driver has), for INIT; must be given where a key is set, else everything is refused.
  void (*hmac)(std::span<const std::byte, 32> key, std::span<const std::byte> message,
               std::span<std::byte, 32> out) = nullptr;
  std::uint32_t upper_version = 0;       ///< of the layer above, told in INIT
  std::uint32_t first_psn = UINT32_MAX;  ///< where each connection's PSNs begin; random unless a test says otherwise
};

/// How much the arena must hold. Nothing grows on the packet path; kAgain at each limit.
struct Limits {
  std::uint32_t endpoints = 64;
  std::uint32_t connections = 1024;
  std::uint32_t messages = 16384;        ///< outstanding writes of all connections
  std::uint32_t window_packets = 65536;  ///< in-flight packets of all connections
  /// WriteImms and semantic writes that arrived ahead of something missing, of all connections (then NACK NO_RESOURCE);
  /// and as many kImmediate events.
  std::uint32_t ordered = 1024;
  std::uint8_t planes = path::kMaxPlanes;  ///< most planes that a route or a packet has
};

/// What the upper layer asks to be written. `source` stays the upper layer's: the core hands it back with each packet
/// (also retransmitted ones) and never looks inside; it must stay valid until the kWriteDone event of `cookie`.
struct WriteRequest {
  std::uint64_t va = 0;
  std::uint32_t rkey = 0;
  std::uint32_t length = 0;  ///< ≤ 1 GiB; 0 is one packet without payload
  const void* source = nullptr;
  std::uint64_t source_offset = 0;
  std::uint64_t cookie = 0;
  bool has_imm = false;
  std::uint32_t imm = 0;
  bool urgent = false;  ///< small control message: goes before queued bulk of the same connection (not a WriteImm)
  /// Done only when the peer says that it took effect (0xD1), in order with other semantic writes and WriteImms.
  bool semantic = false;
};

/// One packet to send: headers from the first IPv6 header to the last extension header, then where the payload is.
struct TxPacket {
  std::array<std::byte, wire::kMaxHeaders + 192> header;  ///< control packets carry their body here too
  std::uint16_t header_length = 0;
  std::uint8_t plane = 0;
  bool control = false;
  bool outer = false;            ///< header starts with the outer IPv6 header
  bool icrc = true;              ///< append iCRC
  const void* source = nullptr;  ///< payload: `length` bytes at `offset` of `source`; pad and iCRC are the driver's
  std::uint64_t offset = 0;
  std::uint32_t length = 0;
  std::uint32_t padding = 0;        ///< zero bytes to append as payload (MTU probes), instead of source
  std::uint32_t hop = 0;            ///< Route::hop
  wire::Ipv6Address destination{};  ///< inner destination (for neighbour look-up)
};

/// One received packet: L3 bytes as they arrived (Ethernet header stripped), iCRC already checked by the driver
/// where it is on.
struct RxPacket {
  std::span<const std::byte> l3;
  std::uint8_t plane = 0;
};

/// One write packet, for the upper layer to place.
struct RxWrite {
  ConnId conn = kNoId;
  EpId ep = kNoId;
  std::uint64_t va = 0;  ///< of this packet's first byte
  std::uint32_t rkey = 0;
  std::uint32_t message_length = 0;  ///< RETH.length
  std::uint16_t msn = 0;
  bool has_imm = false;
  std::uint32_t imm = 0;
  std::span<const std::byte> payload;  ///< valid during the call only
};

enum class Placement : std::uint8_t {
  kPlaced,
  kRefused,  ///< bad key, bound or right: the packet counts as arrived, nothing was written, the sender gets a NAK
};

/// What the core asks of its surroundings.
class Upper {
 public:
  virtual ~Upper() = default;
  /// Copies the payload where it belongs, now: the SACK that covers it leaves after this returns.
  /// Each PSN is placed at most once. Never refuses for lack of room (admission is above the transport).
  virtual Placement place(const RxWrite& write) = 0;
  /// Fills `out` with the way to `remote`. kOk, kAgain (not known yet: INIT is retried), kNoRoute.
  virtual Status route(const wire::Ipv6Address& remote, path::Route& out) = 0;
};

enum class EventKind : std::uint8_t {
  kWriteDone,   ///< status kOk: all packets SACKed; else why it failed. Exactly one per accepted WriteRequest.
  kConnected,   ///< first time both ways are known
  kAccepted,    ///< the peer opened this connection; remote(conn) says who
  kConnFailed,  ///< status says why; outstanding writes have failed (their events come first). The next post_write
                ///< on the same connection starts over (a new INIT).
  kConnClosed,  ///< the peer closed cleanly after draining
  kImmediate,   ///< a WriteImm of the peer, and all that it sent before, is in place: imm, length, msn; once, in order
};

struct Event {
  EventKind kind = EventKind::kWriteDone;
  Status status = Status::kOk;
  EpId ep = kNoId;
  ConnId conn = kNoId;
  std::uint64_t cookie = 0;  ///< kWriteDone
  std::uint32_t imm = 0;     ///< kImmediate: ImmDt
  std::uint32_t length = 0;  ///< … bytes of the message
  std::uint16_t msn = 0;     ///< … and its number
};

struct Counters {
  std::uint64_t tx_data = 0, tx_retransmit = 0, tx_sack = 0, tx_nack = 0, tx_ack = 0, tx_probe = 0, tx_endpoint = 0;
  std::uint64_t rx_data = 0, rx_duplicate = 0, rx_out_of_window = 0, rx_sack = 0, rx_nack = 0, rx_ack = 0, rx_probe = 0,
                rx_endpoint = 0, rx_trimmed = 0, rx_ecn = 0;
  std::uint64_t rx_no_endpoint = 0;    ///< inner destination is nobody here
  std::uint64_t rx_no_connection = 0;  ///< QPN unknown, or source/incarnation do not match it
  std::uint64_t rx_refused = 0;        ///< version/authenticator
  std::array<std::uint64_t, static_cast<std::size_t>(wire::ParseError::kCount)> rx_malformed{};
  std::uint64_t plane_suspected = 0;  ///< a connection found that a plane loses packets on all its paths
  std::uint64_t plane_degraded = 0;   ///< a NIC-T0 link of our own was found to lose packets
  std::uint64_t port_status_sent = 0, port_status_received = 0;
  std::uint64_t loopback_probes = 0, loopback_lost = 0;  ///< to our own T0s
  std::uint64_t ev_replaced = 0;                         ///< seats of bad EVs that backups took
  std::uint64_t rto = 0, spurious = 0, ev_blamed = 0, ev_restored = 0, connects = 0, accepts = 0, peers_dead = 0;
  std::uint64_t tail_timeouts = 0;      ///< times that a tail was sent again because nothing was heard of it
  std::uint64_t tail_copies = 0;        ///< packets sent again for that reason (also in tx_retransmit)
  std::uint64_t retries_exhausted = 0;  ///< connections that used up retry_linear + retry_exponential time-outs
  std::uint64_t nacks_dropped = 0;      ///< NACKs not sent for want of room: other recovery mends it
  std::uint64_t tx_nack_window = 0;     ///< NACKs PSN_OOR_WINDOW sent: packets beyond our window
  std::uint64_t tx_nack_resource = 0;   ///< NACKs NO_RESOURCE sent: pool of Limits::ordered or NAKs full
  std::uint64_t tx_nack_fatal = 0;      ///< NACKs UNEXP_EVENT sent: a peer that breaks the protocol
  std::uint64_t rx_nack_window = 0;     ///< NACKs NO_BITMAP and PSN_OOR_WINDOW received
  std::uint64_t rx_nack_resource = 0;   ///< NACKs NO_PKT_BUFFER and NO_RESOURCE received
  std::uint64_t rx_nack_fatal = 0;      ///< NACKs UNEXP_EVENT received: the connection failed
  std::uint64_t rx_below_window = 0;    ///< packets that had arrived long before: acknowledged again (in rx_duplicate)
  std::uint64_t rx_immediate = 0;       ///< kImmediate events
  std::uint64_t writes_refused = 0;     ///< messages of peers that were NAKed (remote access error)
  std::uint64_t tx_bytes = 0, rx_bytes = 0;  ///< payload bytes of first transmissions / of placed packets
  std::array<std::uint64_t, path::kMaxPlanes> tx_plane{}, rx_plane{};              ///< packets of any kind per plane
  std::array<std::uint64_t, path::kMaxPlanes> tx_plane_bytes{}, rx_plane_bytes{};  ///< payload bytes per plane
};

/// Free items of the shared pools: back at their initial level when nothing is outstanding (for tests, telemetry).
struct PoolLevels {
  std::uint32_t messages = 0, segments = 0, suspects = 0, connections = 0;
  bool operator==(const PoolLevels&) const = default;
};

struct ConnectionInfo;  // info.hpp

class Core {
 public:
  static std::size_t memory_needed(const Config&, const Limits&);
  /// `memory` must outlive the core and hold memory_needed() bytes (page-aligned, zero is fine).
  Core(const Config&, const Limits&, std::span<std::byte> memory, std::uint64_t seed);
  ~Core();
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;

  /// `upper` must outlive the endpoint. `incarnation` is random, new for each endpoint. kNoId at the limit.
  EpId add_endpoint(const wire::Ipv6Address& inner, std::uint64_t incarnation, Upper* upper);
  /// Starts a clean close: no new writes; drains up to linger, tells the peers, then leaves a tombstone that answers
  /// late packets with kNoEndpoint. closed() turns true at the end. Its Upper is not called any more after
  /// forget_endpoint().
  void close_endpoint(EpId, Tick now);
  bool closed(EpId) const;
  void forget_endpoint(EpId, Tick now);  ///< at once: outstanding writes fail with kClosed events

  /// The connection to `remote` (found or made; INIT leaves with the first write). kNoId at the limit.
  /// A connection to the endpoint's own address is allowed (loopback by the driver).
  ConnId connect(EpId, const wire::Ipv6Address& remote);
  const wire::Ipv6Address& remote(ConnId) const;
  EpId endpoint_of(ConnId) const;
  std::uint32_t payload_mtu(ConnId) const;  ///< largest payload of one packet now; ≥ 1024 once connected
  bool established(ConnId) const;

  Status post_write(ConnId, const WriteRequest&, Tick now);
  /// The control socket or the upper layer knows better than time-outs.
  void peer_gone(const wire::Ipv6Address& remote, Tick now);
  void set_plane_up(unsigned plane, bool up, Tick now);
  /// The operator's denylist, instead of the one before: EVs that it covers are DENIED, those that it covers no more
  /// are GOOD again; connections made later follow it too. A connection all of whose EVs are covered fails with
  /// kNoRoute. False, and nothing changes, if there are more than path::kMaxDenyRules.
  bool set_denylist(std::span<const path::DenyRule> rules, Tick now);

  void on_rx(std::span<const RxPacket> burst, Tick now);
  /// Fills up to out.size() packets; plane_room[p] = frames that plane p can take now (0 = none, link down).
  /// Control first, then retransmissions, then new data, round robin over connections. Returns how many.
  std::size_t poll_tx(std::span<TxPacket> out, std::span<std::uint16_t> plane_room, Tick now);
  Tick next_deadline() const;
  void on_deadline(Tick now);
  std::size_t poll_events(std::span<Event> out);
  bool tx_pending() const;  ///< poll_tx would have something to send, room permitting
  bool idle() const;        ///< nothing outstanding, nothing to send

  const Counters& counters() const;
  const Config& config() const;
  /// EVs of a connection, for counters and tests: state and packets are per EV value.
  std::span<const path::Ev> evs(ConnId) const;
  std::uint64_t inflight_packets(ConnId) const;
  /// Everything there is to watch about one connection, at once (info.hpp). Any id; phase kFree where there is none.
  ConnectionInfo info(ConnId) const;
  PoolLevels pool_levels() const;

  struct State;                                   ///< internal to datapath/transport
  const State& state() const { return *state_; }  ///< for audit.hpp

 private:
  State* state_;  ///< lives in the arena
};

}  // namespace mrc::transport
