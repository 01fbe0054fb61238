// SPDX-License-Identifier: BSD-2-Clause
// The packet path over rte_ethdev, and setting a device up and taking it away again.
#include "datapath/port/ethdev_port.hpp"

#include <fmt/format.h>
#include <rte_bus_vdev.h>
#include <rte_dev.h>
#include <rte_errno.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <mutex>

#include "datapath/port/eal.hpp"
#include "datapath/port/process.hpp"

namespace mrc::port {
namespace {

constexpr std::uint32_t kEthernetHeader = 14;

/// DPDK's device tables have no lock of their own for this.
std::recursive_mutex& device_mutex() {
  static auto* const mutex = new std::recursive_mutex;
  return *mutex;
}

rte_mbuf* mbuf_of(void* handle) {
  return static_cast<rte_mbuf*>(handle);
}

Error driver_error(const std::string& name, const char* step, int status) {
  const int code = status < 0 ? -status : EIO;
  return {code, with_eal_line(fmt::format("DPDK port {}: {} failed ({})", name, step, rte_strerror(code)))};
}

}  // namespace

std::string unique_name(const char* prefix) {
  static std::atomic<unsigned> next{0};
  return fmt::format("{}{}", prefix, next.fetch_add(1));
}

EthdevPort::~EthdevPort() {
  stop_device();
}

void EthdevPort::stop_device() {
  const std::lock_guard lock(device_mutex());
  const SignalBlock signals;  // a PMD may write to a peer that is gone
  if (port_id_ != RTE_MAX_ETHPORTS) {
    if (started_) rte_eth_dev_stop(port_id_);
    started_ = false;
    if (!vdev_) {
      rte_eth_dev_info info{};
      const bool known = rte_eth_dev_info_get(port_id_, &info) == 0;
      rte_eth_dev_close(port_id_);
      if (known && info.device != nullptr) rte_dev_remove(info.device);
    }
    port_id_ = RTE_MAX_ETHPORTS;
  }
  if (vdev_) rte_vdev_uninit(device_.c_str());  // closes the ethdev
  vdev_ = false;
  // Frames that somebody still holds would be freed into nothing: their owner must go first (port.hpp).
  rte_mempool_free(pool_);
  pool_ = nullptr;
}

Result<void> EthdevPort::make_pool(const EthdevSetup& setup, int socket) {
  const std::uint32_t data = std::max(setup.room, setup.mtu + kEthernetHeader);
  const std::uint32_t room = RTE_PKTMBUF_HEADROOM + RTE_ALIGN_CEIL(data, RTE_CACHE_LINE_SIZE);
  if (room > UINT16_MAX)
    return fail(EINVAL, fmt::format("DPDK port {}: an MTU of {} does not fit an mbuf; set the link's MTU to 65000 or "
                                    "less",
                                    setup.name, setup.mtu));
  // A stack and no cache: last in, first out keeps the working set in L2, and threads that EAL does not know (all of
  // ours) have no mempool cache anyway.
  pool_ = rte_pktmbuf_pool_create_by_ops(unique_name("mrc_pool").c_str(), setup.buffers, 0, 0,
                                         static_cast<std::uint16_t>(room), socket, "stack");
  if (pool_ == nullptr && socket != SOCKET_ID_ANY) return make_pool(setup, SOCKET_ID_ANY);
  if (pool_ == nullptr)
    return fail(rte_errno != 0 ? rte_errno : ENOMEM,
                with_eal_line(fmt::format("DPDK port {}: no memory for {} buffers of {} bytes ({}); give DPDK more "
                                          "memory or use fewer ports",
                                          setup.name, setup.buffers, room, rte_strerror(rte_errno))));
  return {};
}

Result<void> EthdevPort::start_vdev(const EthdevSetup& setup, const std::string& arguments) {
  const std::lock_guard lock(device_mutex());
  const SignalBlock signals;
  clear_eal_line();
  const int status = rte_vdev_init(setup.device.c_str(), arguments.c_str());
  if (status < 0) return tl::unexpected(driver_error(setup.name, "making the device", status));
  device_ = setup.device;
  vdev_ = true;
  return start_device(setup, true);
}

Result<void> EthdevPort::start_device(const EthdevSetup& setup, bool is_vdev) {
  name_ = setup.name;
  kind_ = setup.kind;
  mtu_ = setup.mtu;
  device_ = setup.device;
  vdev_ = is_vdev;
  const auto failed = [&](const char* step, int status) {
    return tl::unexpected(driver_error(setup.name, step, status));
  };
  if (const int status = rte_eth_dev_get_port_by_name(device_.c_str(), &port_id_); status < 0) {
    port_id_ = RTE_MAX_ETHPORTS;
    return failed("finding the device", status);
  }
  rte_eth_dev_info info{};
  if (const int status = rte_eth_dev_info_get(port_id_, &info); status < 0) return failed("asking the device", status);
  const int socket = rte_eth_dev_socket_id(port_id_);
  if (auto made = make_pool(setup, socket < 0 ? SOCKET_ID_ANY : socket); !made) return made;

  rte_eth_conf configuration{};
  if (setup.set_mtu) configuration.rxmode.mtu = setup.mtu;
  // One segment a frame, all from one pool, never shared: exactly when this offload is allowed.
  configuration.txmode.offloads = info.tx_offload_capa & RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE;
  if (const int status = rte_eth_dev_configure(port_id_, 1, 1, &configuration); status < 0)
    return failed("configuring the device", status);
  std::uint16_t rx = setup.descriptors != 0 ? setup.descriptors : 512;
  std::uint16_t tx = rx;
  if (const int status = rte_eth_dev_adjust_nb_rx_tx_desc(port_id_, &rx, &tx); status < 0)
    return failed("sizing the rings", status);
  const unsigned node = socket < 0 ? static_cast<unsigned>(SOCKET_ID_ANY) : static_cast<unsigned>(socket);
  if (const int status = rte_eth_rx_queue_setup(port_id_, 0, rx, node, nullptr, pool_); status < 0)
    return failed("setting up the receive queue", status);
  rte_eth_txconf tx_configuration = info.default_txconf;
  tx_configuration.offloads = configuration.txmode.offloads;
  if (const int status = rte_eth_tx_queue_setup(port_id_, 0, tx, node, &tx_configuration); status < 0)
    return failed("setting up the send queue", status);
  if (!setup.defer_start) {
    if (const int status = rte_eth_dev_start(port_id_); status < 0) return failed("starting the device", status);
  }
  started_ = true;
  rte_ether_addr address{};
  if (const int status = rte_eth_macaddr_get(port_id_, &address); status < 0)
    return failed("reading the MAC address", status);
  std::memcpy(mac_.data(), address.addr_bytes, mac_.size());
  // Solicitations come to multicast groups that change with every endpoint. Not every driver has filters to open.
  if (rte_eth_allmulticast_enable(port_id_) < 0 && setup.kind == PortKind::kPci) rte_eth_promiscuous_enable(port_id_);
  return {};
}

std::size_t EthdevPort::receive_burst(std::span<RxFrame> out) {
  std::array<rte_mbuf*, kBurst> mbufs;
  const auto wanted = static_cast<std::uint16_t>(std::min(out.size(), kBurst));
  const std::uint16_t got = rte_eth_rx_burst(port_id_, 0, mbufs.data(), wanted);
  std::size_t kept = 0;
  std::uint64_t bytes = 0;
  for (std::uint16_t i = 0; i < got; ++i) {
    rte_mbuf* mbuf = mbufs[i];
    const std::uint32_t length = mbuf->pkt_len;
    // Longer than our MTU: cut off by the driver, or not ours. Chains come only from such frames.
    if (mbuf->nb_segs != 1 || length > max_frame() || length < kEthernetHeader) [[unlikely]] {
      rte_pktmbuf_free(mbuf);
      bump<std::uint64_t>(rx_dropped_, 1);
      continue;
    }
    bytes += length;
    out[kept++] = {{rte_pktmbuf_mtod(mbuf, std::byte*), length}, mbuf};
  }
  if (kept != 0) {
    bump<std::uint64_t>(rx_frames_, kept);
    bump(rx_bytes_, bytes);
  }
  return kept;
}

void EthdevPort::release(std::span<const RxFrame> frames) {
  for (std::size_t at = 0; at < frames.size();) {
    std::array<void*, kBurst> mbufs;
    const std::size_t count = std::min(frames.size() - at, kBurst);
    // Whole, unshared, single-segment mbufs of our own pool: back they go in one piece.
    for (std::size_t i = 0; i < count; ++i) mbufs[i] = frames[at + i].handle;
    rte_mempool_put_bulk(pool_, mbufs.data(), static_cast<unsigned>(count));
    at += count;
  }
}

std::size_t EthdevPort::reserve(std::span<TxFrame> out) {
  std::array<rte_mbuf*, kBurst> mbufs;
  const std::size_t count = std::min(out.size(), kBurst);
  if (count == 0 || rte_pktmbuf_alloc_bulk(pool_, mbufs.data(), static_cast<unsigned>(count)) != 0) return 0;
  for (std::size_t i = 0; i < count; ++i) out[i] = {rte_pktmbuf_mtod(mbufs[i], std::byte*), 0, mbufs[i]};
  return count;
}

std::size_t EthdevPort::send_burst(std::span<const TxFrame> frames) {
  std::size_t sent = 0;
  std::uint64_t bytes = 0;
  for (std::size_t at = 0; at < frames.size();) {
    std::array<rte_mbuf*, kBurst> mbufs;
    std::array<std::uint32_t, kBurst> lengths;
    std::uint16_t count = 0;
    for (; at < frames.size() && count < kBurst; ++at) {
      const auto& frame = frames[at];
      if (frame.length > max_frame() || frame.length < kEthernetHeader) [[unlikely]] {
        drop({&frame, 1});
        continue;
      }
      rte_mbuf* mbuf = mbuf_of(frame.handle);
      mbuf->data_len = static_cast<std::uint16_t>(frame.length);
      mbuf->pkt_len = frame.length;
      lengths[count] = frame.length;
      mbufs[count++] = mbuf;
    }
    const std::uint16_t took = count == 0 ? 0 : rte_eth_tx_burst(port_id_, 0, mbufs.data(), count);
    for (std::uint16_t i = 0; i < took; ++i) bytes += lengths[i];
    sent += took;
    if (took < count) [[unlikely]] {
      rte_mempool_put_bulk(pool_, reinterpret_cast<void**>(mbufs.data() + took), count - took);
      bump<std::uint64_t>(tx_dropped_, count - took);
      drop(frames.subspan(at));
      break;
    }
  }
  if (sent != 0) {
    bump<std::uint64_t>(tx_frames_, sent);
    bump(tx_bytes_, bytes);
  }
  return sent;
}

void EthdevPort::drop(std::span<const TxFrame> frames) {
  EthdevPort::cancel(frames);
  if (!frames.empty()) bump<std::uint64_t>(tx_dropped_, frames.size());
}

void EthdevPort::cancel(std::span<const TxFrame> frames) {
  for (const auto& frame : frames) rte_pktmbuf_free(mbuf_of(frame.handle));
}

std::size_t EthdevPort::receive(std::span<RxFrame> out) {
  return receive_burst(out);
}
std::size_t EthdevPort::send(std::span<const TxFrame> frames) {
  return send_burst(frames);
}

bool EthdevPort::link_up() const {
  rte_eth_link link{};
  return port_id_ != RTE_MAX_ETHPORTS && rte_eth_link_get_nowait(port_id_, &link) == 0 &&
         link.link_status == RTE_ETH_LINK_UP;
}

PortCounters EthdevPort::counters() const {
  PortCounters all;
  all.rx_frames = rx_frames_.load(std::memory_order_relaxed);
  all.rx_bytes = rx_bytes_.load(std::memory_order_relaxed);
  all.tx_frames = tx_frames_.load(std::memory_order_relaxed);
  all.tx_bytes = tx_bytes_.load(std::memory_order_relaxed);
  all.tx_dropped = tx_dropped_.load(std::memory_order_relaxed);
  all.rx_dropped = rx_dropped_.load(std::memory_order_relaxed);
  rte_eth_stats stats{};
  if (port_id_ != RTE_MAX_ETHPORTS && rte_eth_stats_get(port_id_, &stats) == 0)
    all.rx_dropped += stats.imissed + stats.rx_nombuf + stats.ierrors;
  return all;
}

}  // namespace mrc::port
