// SPDX-License-Identifier: BSD-2-Clause
// A Port over one queue pair of an rte_ethdev. Private to datapath/port: this header shows DPDK types.
#pragma once

#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>

#include <atomic>
#include <cstdint>
#include <string>

#include "mrc/port/port.hpp"

namespace mrc::port {

/// What an opener knows about the device that it wants to become a port.
struct EthdevSetup {
  std::string name;    ///< as the user wrote it
  std::string device;  ///< vdev name or bus address
  PortKind kind = PortKind::kOther;
  std::uint32_t mtu = 1500;
  std::uint32_t room = 0;         ///< data bytes an mbuf must hold, 0 = max_frame
  std::uint32_t buffers = 512;    ///< in the pool
  std::uint16_t descriptors = 0;  ///< of the rings, 0 = the driver's choice
  bool defer_start = false;       ///< leave rte_eth_dev_start to the subclass
  bool set_mtu = false;           ///< tell the driver; vdevs over kernel interfaces follow the interface instead
};

class EthdevPort : public Port {
 public:
  static constexpr std::size_t kBurst = 32;

  ~EthdevPort() override;

  std::size_t receive(std::span<RxFrame> out) override;
  void release(std::span<const RxFrame> frames) override;
  std::size_t reserve(std::span<TxFrame> out) override;
  std::size_t send(std::span<const TxFrame> frames) override;
  void cancel(std::span<const TxFrame> frames) override;
  bool link_up() const override;
  PortCounters counters() const override;

 protected:
  EthdevPort() = default;

  /// Configures and starts a probed device with one queue pair. On failure the destructor cleans up.
  Result<void> start_device(const EthdevSetup& setup, bool is_vdev);
  /// Makes the vdev and starts it.
  Result<void> start_vdev(const EthdevSetup& setup, const std::string& arguments);
  void stop_device();

  std::uint16_t port_id() const { return port_id_; }
  /// receive() and send() without what a subclass puts round them.
  std::size_t receive_burst(std::span<RxFrame> out);
  std::size_t send_burst(std::span<const TxFrame> frames);
  void drop(std::span<const TxFrame> frames);

  template <class T>
  static void bump(std::atomic<T>& counter, T by) {
    // One writer (the port's owner), any readers: no locked instruction.
    counter.store(counter.load(std::memory_order_relaxed) + by, std::memory_order_relaxed);
  }

 private:
  Result<void> make_pool(const EthdevSetup& setup, int socket);

  std::uint16_t port_id_ = RTE_MAX_ETHPORTS;
  rte_mempool* pool_ = nullptr;
  std::string device_;
  bool vdev_ = false;
  bool started_ = false;
  std::atomic<std::uint64_t> rx_frames_{0}, rx_bytes_{0}, tx_frames_{0}, tx_bytes_{0}, tx_dropped_{0}, rx_dropped_{0};
};

/// A name for a vdev or pool that nobody in this process has used yet, e.g. "net_memif3".
std::string unique_name(const char* prefix);

}  // namespace mrc::port
