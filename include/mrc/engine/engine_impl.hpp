// SPDX-License-Identifier: BSD-2-Clause
// The engine itself, buildable from parts: tests make several in one process over made-up ports and clocks, the
// provider gets the one that Engine::acquire() assembles. One file an idea: endpoints.cpp (names, connections),
// poll_loop.cpp (the packet path), wait.cpp (sleeping), service.cpp (the service thread), report.cpp and stats.cpp
// (what can be read about it, and where it goes).
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <thread>
#include <vector>

#include "mrc/engine/attachment.hpp"
#include "mrc/engine/capture.hpp"
#include "mrc/engine/clock.hpp"
#include "mrc/engine/engine.hpp"
#include "mrc/engine/ev_usage.hpp"
#include "mrc/engine/frame.hpp"
#include "mrc/engine/identity.hpp"
#include "mrc/engine/link_table.hpp"
#include "mrc/engine/loopback.hpp"
#include "mrc/engine/report.hpp"
#include "mrc/engine/stats_writer.hpp"
#include "mrc/engine/wait_set.hpp"

namespace mrc::engine {

struct EngineParts {
  EngineConfig config{};
  std::unique_ptr<Attachment> attachment;
  Clock* clock = nullptr;     ///< nullptr: monotonic_clock()
  std::uint64_t seed = 0;     ///< 0: from the kernel
  bool reserve_ports = true;  ///< false: names are taken as given, no kernel sockets (tests)
  bool may_yield = true;      ///< yield on empty passes
};

class EngineImpl final : public Engine {
 public:
  static Result<std::shared_ptr<EngineImpl>> create(EngineParts parts);
  ~EngineImpl() override;

  void lock() override;
  bool try_lock() override { return mutex_.try_lock(); }
  void unlock() override;

  std::uint32_t ipv4() const override { return attachment_->ipv4(); }
  unsigned planes() const override { return planes_count_; }
  std::string describe() const override;
  std::uint32_t canonical(std::uint32_t ipv4) const override;

  Result<transport::EpId> open_endpoint_locked(EndpointName& name, Client* client) override;
  void close_endpoint(transport::EpId) override;
  transport::ConnId connect_locked(transport::EpId, const EndpointName& peer) override;
  EndpointName peer_name_locked(transport::ConnId) const override;
  std::string why_locked(transport::ConnId) const override;
  transport::Status post_write_locked(transport::ConnId, const transport::WriteRequest&) override;
  std::uint32_t payload_mtu_locked(transport::ConnId) const override;

  bool progress_locked() override;
  Tick now() const override { return clock_->now(); }

  int wait_fd() override { return app_wait_.fd(); }
  bool arm_locked() override;
  void disarm_locked() override;

  const transport::Core& core_locked() const override { return *core_; }
  DriverCounters driver_counters_locked() const override { return counters_; }
  std::string stats_json_locked(bool evs) const override;
  /// One part of the report; null where `id` names no connection.
  nlohmann::ordered_json report_locked(ReportPart part, std::uint32_t id) const;

  /// Last words: stops the service thread, writes FI_MRC_STATS and the capture. Called at exit and by the destructor.
  void finish();
  /// In a forked child: everything fails from now on, nothing is touched.
  void die_in_child();
  bool dead() const { return dead_.load(std::memory_order_relaxed); }
  const EngineConfig& config() const { return config_; }

 private:
  static constexpr std::size_t kBurst = 32;    ///< frames received from a port at once
  static constexpr std::size_t kTxBurst = 16;  ///< packets taken from the core at once
  static constexpr unsigned kAsleepApp = 1, kAsleepService = 2;

  struct Plane {
    port::Port* port = nullptr;
    FrameRules rules{};
    port::MacAddress mac{};
    bool link_up = false;                       ///< as the port says
    bool far_up = true;                         ///< as the other end says
    bool told_up = true;                        ///< what the core was told last
    bool neighbours = true;                     ///< neighbour discovery may have something to send
    std::array<port::TxFrame, kBurst> spare{};  ///< reserved buffers, kept from pass to pass
    std::size_t spares = 0;
    std::array<port::TxFrame, kBurst> ready{};  ///< filled in this round
    std::size_t readies = 0;
  };

  struct Endpoint final : public transport::Upper {
    transport::Placement place(const transport::RxWrite& write) override;
    transport::Status route(const wire::Ipv6Address& remote, path::Route& out) override;
    EngineImpl* engine = nullptr;
    Client* client = nullptr;
    transport::EpId id = transport::kNoId;
    EndpointName name{};
    wire::Ipv6Address inner{};
    Reservation reservation;
  };

  struct Unmap {
    std::size_t length = 0;
    void operator()(std::byte* memory) const;
  };

  EngineImpl(EngineParts parts, std::unique_ptr<std::byte, Unmap> memory, std::uint64_t seed);
  void adopt_ports();

  // endpoints.cpp
  transport::Status resolve(transport::ConnId id, Link& link);
  transport::Status give_up_waiting(Link& link, std::string why);
  transport::ConnId link_of(transport::EpId ep, transport::ConnId core);
  Endpoint* endpoint(transport::EpId id);
  bool is_own(const EndpointName& name) const;
  void explain(Link& link, const transport::Event& event) const;

  // poll_loop.cpp
  bool pass(Tick now);
  bool receive(Tick now, bool drain);
  std::size_t receive_plane(unsigned plane, Tick now);
  bool loop_back(Tick now);
  bool deliver_events(std::size_t limit);
  bool transmit(Tick now);
  std::size_t room(std::span<std::uint16_t> out);
  void emit(const transport::TxPacket& packet, Tick now);
  bool flush_plane(Plane& plane);
  void chores(Tick now);
  void send_neighbours(unsigned plane, Tick now);
  void restart_ports(Tick now);
  void rest();

  // denylist.cpp
  Result<void> load_denylist(Tick now);
  void reload_denylist(Tick now);
  bool all_denied(transport::ConnId core) const;

  // wait.cpp
  void set_asleep(unsigned who, bool asleep);
  Tick sleep_until() const;
  void watch_fds();

  // service.cpp
  void start_service();
  void stop_service();
  void serve();
  bool serve_once();

  // report.cpp, stats.cpp
  nlohmann::ordered_json port_report(unsigned index) const;
  bool lock_soon();  ///< for readers: false when the engine stays busy
  std::string stats_file() const;
  void start_watching();
  void stop_watching();

  void log(int level, const std::string& text) const;

  EngineConfig config_;
  std::unique_ptr<Attachment> attachment_;
  Clock* clock_;
  bool reserve_ports_, may_yield_;
  std::unique_ptr<std::byte, Unmap> memory_;
  std::unique_ptr<transport::Core> core_;
  Random random_;
  std::mutex mutex_;
  std::atomic<int> waiters_{0};
  std::atomic<bool> dead_{false}, finished_{false};

  unsigned planes_count_ = 0;
  std::array<Plane, path::kMaxPlanes> planes_{};
  bool icrc_ = true;
  bool loops_ = false;  ///< some connection stays inside this process
  LoopRing loop_;
  LinkTable links_;
  std::vector<std::unique_ptr<Endpoint>> endpoints_;  ///< by EpId
  std::vector<Client*> clients_;                      ///< of open endpoints, in order
  mutable std::vector<std::uint32_t> aliases_;

  std::array<port::RxFrame, kBurst> rx_frames_{};
  std::array<transport::RxPacket, kBurst> rx_packets_{};
  std::array<transport::TxPacket, kTxBurst> tx_packets_;
  std::array<transport::Event, 64> events_{};
  DriverCounters counters_{};
  EvUsage tx_evs_, rx_evs_;
  std::unique_ptr<Capture> capture_;
  std::unique_ptr<StatsWriter> stats_writer_;

  Tick now_{};  ///< of the current or last pass
  bool in_pass_ = false;
  Tick chores_at_{}, restart_at_{};
  bool ports_dead_ = false;
  Tick denylist_at_{};              ///< when to look at the file again
  std::int64_t denylist_seen_ = 0;  ///< its time of change when it was last read
  unsigned empty_passes_ = 0, spin_passes_ = 0;
  bool yield_ = false;  ///< unlock() is to give the processor away

  WaitSet app_wait_, service_wait_;
  unsigned asleep_ = 0;
  std::thread service_;
  std::atomic<bool> service_stop_{false}, service_asleep_{false};
  std::atomic<std::uint64_t> app_passes_{0};
};

}  // namespace mrc::engine
