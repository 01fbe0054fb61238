// SPDX-License-Identifier: BSD-2-Clause
// The engine binds ports and transport: one per process, shared by all domains and endpoints. It finds the way to the
// fabric (own ports or mrc-switch), runs the poll loop, loops packets between endpoints of this process back in
// memory, and owns the service thread that keeps promises while the application computes.
//
// Threads: the engine is a lock (BasicLockable). "…_locked" functions require it; the others take it themselves or
// need none. One owner at a time; the service thread takes it only when the application has not progressed for 10 ms.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "mrc/engine/gather.hpp"
#include "mrc/result.hpp"
#include "mrc/transport/core.hpp"

namespace mrc::engine {

struct EngineConfig {
  std::string ports;           ///< FI_MRC_PORTS; empty: TOML's, else mrc-switch (autostarted)
  std::string config_file;     ///< FI_MRC_CONFIG (TOML: [fabric] [[group]] prefixes …), may be empty
  std::string switch_socket;   ///< FI_MRC_SWITCH_SOCKET: control socket of a running switch, empty = the default place
  std::string switch_program;  ///< FI_MRC_SWITCH: the executable to autostart, empty = search
  std::string provider_directory;  ///< where libmrc-fi.so lies
  bool autostart = true;           ///< FI_MRC_AUTOSTART
  bool service_thread = true;      ///< FI_MRC_SERVICE_THREAD
  std::uint32_t memory_mb = 64;    ///< EAL memory per process
  std::string icrc = "auto";       ///< FI_MRC_ICRC: auto (off only where memory all the way), on
  std::string denylist_file;       ///< FI_MRC_DENYLIST: [[deny]] entries, read again when it changes
  std::string stats_path;          ///< FI_MRC_STATS: `<prefix>.<pid>.json` is written at exit
  Duration stats_interval{};       ///< FI_MRC_STATS_INTERVAL: … and this often before; 0 = not
  bool telemetry = false;          ///< FI_MRC_TELEMETRY: DPDK's telemetry socket answers /mrc/…
  std::string
      capture_path;  ///< FI_MRC_PCAP: all frames of our ports go to `<prefix>.<pid>.pcap` (I/O on the packet path)
  transport::Config transport{};
  transport::Limits limits{};
  void (*log)(int level, const char* text) = nullptr;  ///< 0 warn, 1 info, 2 debug; may be called from any thread
};

/// An endpoint's upper layer. Called with the engine locked, inside progress.
class Client {
 public:
  virtual ~Client() = default;
  /// See transport::Upper::place: copy now; do not call back into the engine.
  virtual transport::Placement place(const transport::RxWrite& write) = 0;
  /// Completion or connection event; may post writes.
  virtual void on_event(const transport::Event& event) = 0;
  /// Once per progress pass, after events: the upper layer's own work (queues, credits). Returns true if it did any.
  virtual bool on_progress(Tick now) = 0;
};

struct EndpointName {
  std::uint32_t ipv4 = 0;  ///< host order
  std::uint16_t port = 0;
  bool operator==(const EndpointName&) const = default;
};

struct DriverCounters {
  std::uint64_t rx_frames = 0, tx_frames = 0, loop_frames = 0;
  std::uint64_t rx_bad_icrc = 0;      ///< corrupted on the way: dropped
  std::uint64_t rx_not_ipv6 = 0;      ///< another ethertype or IP version
  std::uint64_t rx_not_ours = 0;      ///< IPv6 for another node, or not UDP
  std::uint64_t rx_neighbour = 0;     ///< neighbour solicitations and advertisements
  std::uint64_t rx_too_long = 0;      ///< longer than the port's MTU allows
  std::uint64_t rx_runt = 0;          ///< too short for Ethernet + IPv6
  std::uint64_t rx_cut_off = 0;       ///< shorter than the IPv6 header says (and not trimmed)
  std::uint64_t tx_no_neighbour = 0;  ///< dropped: the next hop's MAC is not known yet (retransmitted)
  std::uint64_t tx_unfit = 0;         ///< dropped: longer than the port's MTU, or contradictory
  std::uint64_t tx_no_room = 0;       ///< dropped: no buffer, or the loopback ring was full
  std::uint64_t polls = 0, empty_polls = 0, yields = 0, service_wakeups = 0, restarts = 0;
};

class Engine {
 public:
  /// The process's engine; the first call builds it with its configuration (later configurations are ignored, with a
  /// log line if they differ). Errors are sentences for the user. After fork() in the child: fails with EOWNERDEAD.
  static Result<std::shared_ptr<Engine>> acquire(const EngineConfig& config);
  virtual ~Engine() = default;

  virtual void lock() = 0;
  virtual bool try_lock() = 0;
  virtual void unlock() = 0;

  // --- who and where we are -------------------------------------------------------------------------------------
  virtual std::uint32_t ipv4() const = 0;  ///< identity: canonical address of this process's host or group
  virtual unsigned planes() const = 0;
  virtual std::string describe() const = 0;  ///< one line for logs: "mrc-switch …, 4 planes" or the port names
  /// Loopback and every local address → ipv4(); other addresses unchanged.
  virtual std::uint32_t canonical(std::uint32_t ipv4) const = 0;

  // --- endpoints --------------------------------------------------------------------------------------------------
  /// Reserves the name (a kernel UDP socket, see design.md), registers it with the directory and the core.
  /// port 0 = any free one. EADDRINUSE in words.
  virtual Result<transport::EpId> open_endpoint_locked(EndpointName& name, Client* client) = 0;
  /// Drains up to linger while polling, then forgets the client. Takes the lock itself (do not hold it).
  virtual void close_endpoint(transport::EpId) = 0;
  virtual transport::ConnId connect_locked(transport::EpId, const EndpointName& peer) = 0;
  virtual EndpointName peer_name_locked(transport::ConnId) const = 0;
  /// Why the last attempt towards this peer failed, in words ("no way to 10.9.9.9: …"); empty if nothing is known.
  virtual std::string why_locked(transport::ConnId) const = 0;
  /// `request.source` must be a Gather* (or null with length 0).
  virtual transport::Status post_write_locked(transport::ConnId, const transport::WriteRequest&) = 0;
  virtual std::uint32_t payload_mtu_locked(transport::ConnId) const = 0;

  // --- progress ---------------------------------------------------------------------------------------------------
  /// One pass: receive, deadlines, send, events, clients. True if anything happened. Yields the CPU by itself after
  /// many empty passes (spin briefly, then sched_yield).
  virtual bool progress_locked() = 0;
  virtual Tick now() const = 0;

  // --- sleeping ---------------------------------------------------------------------------------------------------
  /// An epoll descriptor, readable when packets or a deadline may be waiting. Owned by the engine.
  virtual int wait_fd() = 0;
  /// Before sleeping on wait_fd(): announces "asleep", polls once more. False = there is work, do not sleep.
  virtual bool arm_locked() = 0;
  virtual void disarm_locked() = 0;

  // --- watching ---------------------------------------------------------------------------------------------------
  virtual const transport::Core& core_locked() const = 0;
  virtual DriverCounters driver_counters_locked() const = 0;
  /// All counters as JSON (also per EV when `evs`): what FI_MRC_STATS writes at exit.
  virtual std::string stats_json_locked(bool evs) const = 0;
};

}  // namespace mrc::engine
