// SPDX-License-Identifier: BSD-2-Clause
// A read-only snapshot of one connection, for counters, telemetry and tests: plain data, made on request by
// Core::info(), never on the packet path. Bytes are payload bytes; durations in nanoseconds. Meaning of each field in
// words: datapath/engine/counter_table.cpp and docs/counters.md.
// Threads: the core's owner (the engine's lock).
#pragma once

#include <array>
#include <cstdint>

#include "mrc/path/route.hpp"
#include "mrc/time.hpp"
#include "mrc/transport/core.hpp"

namespace mrc::transport {

enum class ConnectionPhase : std::uint8_t {
  kFree,         ///< no such connection
  kIdle,         ///< no INIT sent or accepted, or the last attempt failed
  kConnecting,   ///< INITs are on their way
  kEstablished,  ///< both sides know each other
  kClosing,
  kClosed,
};

/// EVs by state; their sum is the size of the set (or of the plane's part of it).
struct EvCounts {
  std::uint16_t good = 0, skip = 0, assumed_bad = 0, denied = 0;
};

struct ConnectionPlaneInfo {
  bool up = false;  ///< our own link of this plane, as the core was told
  EvCounts evs{};
  std::uint32_t tx_packets = 0;     ///< data packets sent on it, retransmissions included; wraps at 2^32
  std::uint32_t retransmitted = 0;  ///< of these, retransmissions; wraps
  std::uint32_t lost = 0;           ///< packets sent on it that were declared lost; wraps
  std::uint16_t weight = 1000;      ///< share of the window that it may carry, 1000 = as much as the others
  bool in_use = true;               ///< false: its link to a NIC is suspect or down, data avoids it
  std::uint64_t inflight_bytes = 0;
  std::uint32_t marked = 0;   ///< ECN marks echoed by the peer; wraps
  std::uint32_t trimmed = 0;  ///< NACKs for trimmed packets; wraps
  Duration reordering{};      ///< how much later than its successors a packet arrives (estimate)
};

struct ConnectionInfo {
  ConnectionPhase phase = ConnectionPhase::kFree;
  EpId ep = kNoId;
  wire::Ipv6Address remote{};
  path::Location remote_location{};
  bool srv6 = false;
  std::uint8_t planes = 0;  ///< entries of `plane` that count

  std::uint64_t una = 0, next = 0;  ///< send window: oldest number not SACKed, next to be sent (PSN, continued)
  std::uint64_t rx_next = 0;        ///< receive window: lowest number that has not arrived
  std::uint32_t window = 0;         ///< packets that may be in the send window: the smaller of ours and the peer's
  std::uint32_t inflight_packets = 0;
  std::uint64_t inflight_bytes = 0;
  std::uint32_t lost_packets = 0;  ///< declared lost, waiting to be sent again
  std::uint32_t messages = 0;      ///< writes accepted and not yet completed
  std::uint64_t cwnd = 0;          ///< congestion window
  std::uint64_t cwnd_max = 0;      ///< what it may grow to
  CcKind cc = CcKind::kFixed;      ///< the controller; the next four are NSCC's
  Duration cc_base_rtt{}, cc_target{}, cc_delay{}, cc_average{};
  std::uint8_t penalty = 0;  ///< what we, as the receiver, demand of the peer (of 128)
  std::uint32_t payload_mtu = 0;
  bool rtt_valid = false;  ///< the next three count
  Duration srtt{}, rtt_var{}, rtt_min{};
  Duration rto{};
  std::uint8_t backoff = 0;      ///< time-outs in a row
  std::uint8_t tail_probes = 0;  ///< unanswered tail probes in a row

  EvCounts evs{};
  std::array<ConnectionPlaneInfo, path::kMaxPlanes> plane{};
};

}  // namespace mrc::transport
