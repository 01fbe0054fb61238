// SPDX-License-Identifier: BSD-2-Clause
// State of one connection (internal to the core). Bounded when nothing is in flight: window records and messages come
// from pools that all connections share. Changes of meaning are made by the sources in datapath/transport.
#pragma once

#include <array>
#include <cstdint>

#include "mrc/path/ev_set.hpp"
#include "mrc/path/plane_balance.hpp"
#include "mrc/path/route.hpp"
#include "mrc/time.hpp"
#include "mrc/transport/cc.hpp"
#include "mrc/transport/cc_receiver.hpp"
#include "mrc/transport/core.hpp"
#include "mrc/transport/rtt.hpp"
#include "mrc/transport/rx_window.hpp"
#include "mrc/transport/tx_window.hpp"

namespace mrc::transport {

inline constexpr std::uint32_t kNone = UINT32_MAX;

/// An accepted write until its kWriteDone event is queued.
struct Message {
  WriteRequest request{};
  std::uint32_t queue_next = kNone;              ///< send queue, while packets are left to be sent the first time
  std::uint32_t previous = kNone, next = kNone;  ///< all messages of the connection, oldest first
  std::uint32_t mtu = 0;                         ///< fixed by the first packet; 0 before
  std::uint32_t packets = 0, sent = 0, acked = 0;
  std::uint16_t msn = 0, rqmsn = 0;  ///< given with the first packet
  std::uint64_t end = 0;             ///< of ordered ones: one past the last packet's number, once that is sent
  Status status = Status::kOk;       ///< kAccess once NAKed
  bool cut = false;                  ///< NAKed: no further packets, done when those sent are SACKed
};

/// A packet declared lost and retransmitted, while it is not yet known whether its path is to blame.
struct Suspect {
  Tick sent{};
  std::uint64_t seq = 0;
  std::uint32_t ev_value = 0;
  std::uint32_t order = 0;
  std::uint32_t next = kNone;
  std::uint16_t ev = 0;
  std::uint8_t plane = 0;
  bool counted : 1 = false;  ///< among the losses of its plane
  bool tail : 1 = false;     ///< sent again on a timer, and not known to have been lost: perhaps its SACK was
};

/// A WriteImm or the end of a semantic write that arrived before something sent earlier.
struct Ordered {
  std::uint64_t seq = 0;
  std::uint32_t next = kNone;
  std::uint32_t imm = 0, length = 0;
  std::uint16_t msn = 0, rqmsn = 0;
  bool has_imm = false, semantic = false;
};

/// Messages of the peer that were refused, until the peer has seen the NAKs: by the NAK's number modulo 8.
struct Refused {
  static constexpr unsigned kSize = 8;
  std::array<std::uint32_t, kSize> seq{};  ///< low bits of the number of the packet that was refused first
  std::array<std::uint16_t, kSize> msn{};
  std::uint8_t used = 0;  ///< bit i: there is one
};

/// Singly linked queue of pool indices.
struct IndexQueue {
  std::uint32_t head = kNone, tail = kNone;
  bool empty() const { return head == kNone; }
};

/// What happened to the data packets of one plane, for Core::info(). Counters that wrap.
struct PlaneTally {
  std::uint32_t retransmitted = 0, lost = 0, marked = 0, trimmed = 0;
};

/// What the sender knows about one plane.
struct TxPlane {
  std::uint32_t head = kNone, tail = kNone;  ///< records in flight, in order of transmission
  std::uint32_t order = 0;                   ///< packets sent on this plane
  std::uint32_t high_order = 0;              ///< highest `order` that was SACKed
  Tick high_sent{};                          ///< … and when it was sent
  std::uint32_t reordering = 0;              ///< ns, estimate: how much later than its successors a packet arrives
  std::uint32_t control_ev = 0;  ///< EV of SACKs and other control packets: the last heard there, else renewed each RTT
  IndexQueue suspects{};
  PlaneTally tally{};
};
static_assert(sizeof(TxPlane) == 56, "as many as there are planes, in each connection");

inline constexpr std::uint8_t kBaseProbe = 0xff;
inline constexpr std::uint8_t kPlaneProbe = 0xfe;

/// An outstanding path probe: of an ASSUMED_BAD EV, of a plane that is shunned, of the MTU, or of the base round trip.
struct PathProbe {
  Tick sent{};
  std::uint16_t id = 0;
  std::uint16_t ev = 0;
  std::uint8_t plane = 0;
  std::uint8_t step = 0;  ///< MTU probe: 1 + index of the size; 0 = EV probe; kBaseProbe, kPlaneProbe
  bool live = false;
};

/// A packet that a SACK must name: it was ECN-marked, or had arrived before.
struct Echo {
  std::uint64_t seq = 0;
  std::uint32_t ev = 0;
  bool marked = false;
  bool duplicate = false;
};

/// Those not named yet, 8 at most (further ones are not named); the latest is taken first.
class Echoes {
 public:
  bool empty() const { return count_ == 0; }
  void clear() { count_ = 0; }
  void push(const Echo& echo) {
    if (count_ == seq_.size()) return;
    const auto bit = static_cast<std::uint8_t>(1u << count_), others = static_cast<std::uint8_t>(~bit);
    seq_[count_] = static_cast<std::uint32_t>(echo.seq);
    ev_[count_] = echo.ev;
    marked_ = static_cast<std::uint8_t>((marked_ & others) | (echo.marked ? bit : 0));
    duplicate_ = static_cast<std::uint8_t>((duplicate_ & others) | (echo.duplicate ? bit : 0));
    ++count_;
  }
  /// `near`: some number of the same connection. Numbers are kept in 32 bits.
  Echo pop(std::uint64_t near) {
    --count_;
    const auto distance = static_cast<std::int32_t>(seq_[count_] - static_cast<std::uint32_t>(near));
    return {near + static_cast<std::uint64_t>(std::int64_t{distance}), ev_[count_], (marked_ >> count_ & 1) != 0,
            (duplicate_ >> count_ & 1) != 0};
  }

 private:
  std::array<std::uint32_t, 8> seq_{}, ev_{};
  std::uint8_t marked_ = 0, duplicate_ = 0;  ///< bit i: of entry i
  std::uint8_t count_ = 0;
};

/// What is known of the planes between us and this peer, as masks; and port status both ways (port_status.cpp).
struct PlaneHealth {
  std::uint8_t peer_down = 0;   ///< the peer says that its port is down
  std::uint8_t peer_lossy = 0;  ///< … is up, but loses packets between its NIC and its T0
  std::uint8_t shunned = 0;     ///< loses packets on all its paths, seen from here
  std::uint8_t probes_due = 0;  ///< shunned ones to be probed now
  bool peer_told = false;       ///< `peer_version` holds
  std::uint8_t tries = 0;       ///< of telling the peer
  std::uint32_t version = 0;    ///< of our port status, 24 bits
  std::uint32_t peer_version = 0;
  Tick peer_told_at{};
  Tick tell_next = kNever;                                ///< kNever: answered, or nothing to tell
  Tick probe_next = kNever;                               ///< of shunned planes
  Tick back_at{};                                         ///< when a plane was last taken back into use
  std::array<std::uint16_t, path::kMaxPlanes> answers{};  ///< probes answered in a row
  std::array<std::uint8_t, path::kMaxPlanes> relapses{};
  std::array<std::uint32_t, path::kMaxPlanes> silent_paths{};  ///< on which the last such probe was lost
};

struct Connection {
  enum ControlFlag : std::uint16_t {
    kSendInit = 1,
    kSendSack = 2,
    kSendNak = 4,
    kSendProbe = 8,  ///< reliability probe
    kSendMtuProbe = 16,
    kSendEvProbe = 32,
    kSendClose = 64,
    kSendInitAnswer = 128,
    kSendProbeReply = 256,
    kSendBaseProbe = 512,  ///< round trip of the control class, for congestion control
    kSendAck = 1024,       ///< semantic ACK
    kSendPlaneProbe = 0x4000,
    kSendPortStatus = 0x8000,
  };
  enum class Phase : std::uint8_t {
    kFree,
    kIdle,     ///< no INIT sent or accepted, or the last attempt failed: a write starts over
    kOpen,     ///< set-up under way or done (peer_known, peer_knows_us)
    kClosing,  ///< drained, CLOSE sent
    kClosed,
  };

  // --- who
  wire::Ipv6Address remote{};
  EpId ep = kNoId;
  std::uint32_t hash_next = kNone;
  std::uint32_t ep_next = kNone, ep_previous = kNone;  ///< connections of one endpoint
  Phase phase = Phase::kFree;
  std::uint8_t pending_events = 0;  ///< bit per EventKind: already in the queue
  bool peer_known = false;          ///< its QPN, PSN and incarnation
  bool peer_knows_us = false;
  bool announced = false;    ///< kConnected was reported
  bool init_active = false;  ///< INITs of our own are being sent
  bool route_known = false;
  bool self = false;
  bool touched = false;  ///< on the list of connections to look at after a burst
  bool in_control = false, in_data = false, in_starved = false;
  std::uint16_t control = 0;  ///< ControlFlag
  std::uint16_t probe_id = 0;
  std::uint32_t qpn = 0, peer_qpn = 0;
  std::uint32_t instance = 0, peer_instance = 0;  ///< 24 bits, ordered within one incarnation (BTH.psn of INIT)
  std::uint64_t peer_incarnation = 0, former_incarnation = 0;
  Tick learnt_at{};  ///< when its present life was learnt of
  std::uint32_t first_psn = 0;
  std::uint32_t peer_window = 0, peer_mtu = 0;
  std::uint32_t init_answer_psn = 0, init_answer_ev = 0;
  std::uint32_t next_control = kNone, next_data = kNone, next_touched = kNone, next_starved = kNone;

  path::Route route{};

  // --- set-up and close timers
  Tick init_started{}, init_next = kNever;
  Tick close_next = kNever, close_until = kNever;
  std::uint32_t init_interval = 0, close_interval = 0;  ///< ns

  path::EvSet evs{};
  path::PlaneBalance balance{};
  PlaneHealth health{};
  std::uint32_t mtu = 1024;       ///< payload bytes of one packet, of messages begun from now on
  std::uint32_t full_mtu = 1024;  ///< to be confirmed by probes
  std::uint8_t mtu_tries = 0;
  std::uint8_t mtu_retries = 0;  ///< whole searches begun anew
  std::uint8_t mtu_planes = 0;   ///< planes that this round of MTU probes still has to go out on
  std::uint8_t mtu_step = 0;     ///< 1 + index of the size being probed, 0 = not probing
  std::array<std::uint8_t, path::kMaxPlanes> mtu_steps{};  ///< … of the largest confirmed on each plane, 0 = none yet
  std::uint8_t probe_next = 0;                             ///< ring position in `probes`
  std::uint8_t next_control_plane = 0;
  std::uint8_t denied_planes = 0;  ///< bit p: the denylist leaves no EV of plane p
  std::uint8_t cc_planes = 0;      ///< bit p: the controller counts on plane p
  Tick mtu_next = kNever;
  std::array<PathProbe, 8> probes{};

  // --- sending
  std::array<std::byte, 88> headers{};  ///< of data packets: [outer,] inner, UDP
  TxWindow tx{};
  IndexQueue queue{}, urgent{};  ///< messages with packets not yet sent
  IndexQueue ordered{};          ///< WriteImms and semantic writes sent, by number: they end in this order
  std::uint32_t first_message = kNone, last_message = kNone;
  std::uint32_t messages = 0;
  std::uint16_t msn = 0, rqmsn = 0;
  std::uint32_t imms = 0;       ///< WriteImms begun and not complete
  std::uint16_t acked_msn = 0;  ///< latest semantic ACK …
  bool acked_any = false;       ///< … if any
  bool parked = false;          ///< messages wait for NAKs that the peer tells of
  std::uint8_t naks_told = 0;   ///< messages refused so far, as the peer says (modulo 256) …
  std::uint8_t naks_seen = 0;   ///< … of which all these NAKs have come …
  std::uint8_t naks_ahead = 0;  ///< … and these after them (bit i: naks_seen + 1 + i)
  std::uint8_t ask_tries = 0;
  std::uint8_t tail_credit = 0;      ///< packets that may be sent again though the congestion window is full
  bool asked = false;                ///< the last packet sent asks for a SACK
  std::uint8_t template_length = 0;  ///< of `headers`
  std::uint8_t base_probes = 0;      ///< sent so far, saturating
  Tick ask_at = kNever;              ///< when to ask for a semantic ACK or NAK that is overdue
  Tick hold_until = kNever;          ///< nothing is sent again before: the peer had no room
  std::uint64_t inflight_bytes = 0;
  std::uint32_t inflight_packets = 0;   ///< linked records: sent, neither SACKed nor declared lost
  std::uint32_t since_ack_request = 0;  ///< bytes
  std::uint32_t suspects = 0, blamed_count = 0;
  Cc cc{};
  Tick base_probe_next{};  ///< when to measure the base round trip again
  Rtt rtt{};
  Tick high_sent{};                ///< latest send time of anything that was SACKed
  std::uint8_t sacked_planes = 0;  ///< bit p: something sent on plane p was SACKed
  std::uint8_t samples_discarded = 0;
  std::uint8_t backoff = 0;
  std::uint8_t tail_probes = 0;
  std::uint16_t gap = 0;  ///< packets of one plane until a gap is retransmitted, adaptive
  std::uint16_t tail_probe_id = 0;
  Duration reordering{};  ///< extra patience, grows with each spurious retransmission
  std::uint32_t clean_acks = 0;
  std::uint32_t silence_budget = kNone;  ///< packets that may go out before anything is heard, after a time-out
  Tick last_sent{}, last_progress{}, last_activity{};
  Tick tail_probe_sent = kNever;
  std::int64_t silent_since = 0;  ///< active time (State::active) since when nothing was heard
  std::span<TxPlane> planes{};    ///< Limits::planes of them
  IndexQueue blamed{};
  std::uint32_t peer_received = 0;  ///< CC_STATE.rcvd_bytes last seen
  std::uint32_t named_ev = 0;
  std::uint64_t named_seq = 0;  ///< the packet last named, and when it was sent: several reports name it
  Tick named_sent{};

  // --- receiving (the small ones in an order that leaves no holes)
  RxWindow rx{};
  Tick sack_at = kNever;
  std::uint64_t echo_seq = 0;  ///< the packet that the next SACK answers
  std::uint32_t unsacked_bytes = 0;
  std::uint32_t echo_ev = 0;
  Tick echo_arrived{};
  std::uint16_t echo_timestamp = 0;
  bool echo_timestamp_valid = false;
  std::uint8_t reports_left = 0;              ///< further SACKs that the probe's answer still needs
  bool probe_reporting = false;               ///< … they answer the probe too
  std::uint8_t naks = 0, naks_confirmed = 0;  ///< messages refused so far (modulo 256)
  std::uint8_t nak_next = 0;                  ///< number of the NAK to be sent next
  std::uint16_t ack_msn = 0;                  ///< semantic ACK
  std::uint16_t rx_rqmsn = 0;                 ///< of the last WriteImm …
  bool rx_rqmsn_any = false;                  ///< … if any
  bool ack_any = false;
  std::uint8_t planes_heard = 0, planes_heard_before = 0;
  Echoes echoes{};
  static constexpr std::uint8_t kMaxRefused = 4;  ///< NAKs that the peer has not confirmed
  Refused refused{};
  IndexQueue waiting{};  ///< Ordered, by number
  std::uint16_t probe_reply_id = 0;
  std::uint16_t probe_reply_timestamp = 0;
  std::uint32_t probe_reply_ev = 0;
  ReceiverShare::Flow share{};
  std::uint32_t sacks_sent = 0;
  Tick window_nack_at{};
  Tick probe_reply_arrived{};
  std::uint64_t rcvd_bytes = 0;
  Tick control_evs_at = kLongAgo;  ///< when control_ev was drawn in each plane
};

}  // namespace mrc::transport
