// SPDX-License-Identifier: BSD-2-Clause
// An engine without a network, for tests of the libfabric objects: it counts what it is asked, can be told to do
// something in the next progress pass, and its wait descriptor is an eventfd that tests write.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>

#include "mrc/engine/engine.hpp"

namespace mrc::test {

class FakeEngine final : public engine::Engine {
 public:
  static constexpr std::uint32_t kIpv4 = 0x0a4d0001;  // 10.77.0.1
  static constexpr std::uint32_t kAlias = 0x0a4d0163;

  FakeEngine();
  ~FakeEngine() override;
  /// The one that Engine::acquire hands out.
  static std::shared_ptr<FakeEngine> instance();
  /// Engine::acquire fails with this while it is set.
  static std::string& failure();

  void lock() override;
  bool try_lock() override;
  void unlock() override;
  std::uint32_t ipv4() const override { return kIpv4; }
  unsigned planes() const override { return 4; }
  std::string describe() const override { return "a fake engine"; }
  std::uint32_t canonical(std::uint32_t ipv4) const override;
  Result<transport::EpId> open_endpoint_locked(engine::EndpointName& name, engine::Client* client) override;
  void close_endpoint(transport::EpId id) override;
  transport::ConnId connect_locked(transport::EpId ep, const engine::EndpointName& peer) override;
  engine::EndpointName peer_name_locked(transport::ConnId conn) const override;
  std::string why_locked(transport::ConnId conn) const override;
  transport::Status post_write_locked(transport::ConnId conn, const transport::WriteRequest& request) override;
  std::uint32_t payload_mtu_locked(transport::ConnId conn) const override;
  bool progress_locked() override;
  Tick now() const override { return {}; }
  int wait_fd() override { return event_fd_; }
  bool arm_locked() override;
  void disarm_locked() override;
  const transport::Core& core_locked() const override;
  engine::DriverCounters driver_counters_locked() const override { return {}; }
  std::string stats_json_locked(bool evs) const override;

  /// Runs in the next progress pass, once, with the engine locked.
  std::function<void()> next_progress;
  unsigned passes = 0;
  bool armed = false;
  bool held = false;  ///< by whom does not matter: tests look whether the lock is taken where it must be
  void wake();

 private:
  std::recursive_mutex mutex_;
  int event_fd_;
};

}  // namespace mrc::test
