// SPDX-License-Identifier: BSD-2-Clause
// net_af_packet: frames through the kernel's packet rings on any interface. The PMD cuts long frames silently and may
// wait without end for room in its send ring: geometry and a look at that ring (mapped once more) prevent both.
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/if_packet.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <numeric>

#include "datapath/port/eal.hpp"
#include "datapath/port/ethdev_port.hpp"
#include "datapath/port/netdev.hpp"
#include "datapath/port/openers.hpp"
#include "datapath/port/options.hpp"
#include "datapath/port/process.hpp"

namespace mrc::port {
namespace {

/// Ring geometry: frames lie one behind the other without a gap, as the PMD indexes them.
struct Geometry {
  std::uint32_t frame = 0, block = 0, count = 0;
  std::size_t ring_bytes() const { return std::size_t{frame} * count; }
};

Geometry geometry_for(std::uint32_t mtu, std::uint32_t count) {
  // TPACKET_V2 puts a received frame at 66; 4 for a VLAN tag. Longer ones than MTU + 14 must still fit a little,
  // so that a cut frame is never as short as a good one.
  const std::uint32_t need = 66 + 14 + 4 + 64 + mtu;
  Geometry geometry;
  geometry.frame = need <= 2048 ? 2048 : (need + 1023) / 1024 * 1024;
  const auto page = static_cast<std::uint32_t>(sysconf(_SC_PAGESIZE));
  geometry.block = std::lcm(geometry.frame, page);
  const std::uint32_t per_block = geometry.block / geometry.frame;
  geometry.count = std::max(per_block, count / per_block * per_block);
  return geometry;
}

class AfPacketPort final : public EthdevPort {
 public:
  ~AfPacketPort() override {
    // The PMD closes its own descriptor of the same socket.
    if (rings_ != nullptr) munmap(rings_, 2 * geometry_.ring_bytes());
    if (socket_ >= 0) close(socket_);
  }

  Result<void> open(const PortSpec& spec);

  std::size_t receive(std::span<RxFrame> out) override {
    const std::size_t count = receive_burst(out);
    if (count == 0 && waiting_) [[unlikely]]
      kick();
    return count;
  }

  std::size_t reserve(std::span<TxFrame> out) override {
    return EthdevPort::reserve(out.first(std::min(out.size(), room(out.size()))));
  }

  std::size_t send(std::span<const TxFrame> frames) override {
    const std::size_t fits = room(frames.size());
    const std::size_t sent = fits == 0 ? 0 : send_burst(frames.first(fits));
    // The driver puts exactly what it took into the ring: frames that are too long never get there.
    next_ = static_cast<std::uint32_t>((next_ + sent) % geometry_.count);
    if (fits < frames.size()) drop(frames.subspan(fits));
    waiting_ = status((next_ + geometry_.count - 1) % geometry_.count) == TP_STATUS_SEND_REQUEST;
    if (sent == 0 && waiting_) kick();
    return sent;
  }

  bool link_up() const override { return link_.up(); }

  PortCounters counters() const override {
    PortCounters all = EthdevPort::counters();
    // The PMD of 22.11 does not report them. Reading them sets the kernel's own to zero.
    tpacket_stats stats{};
    socklen_t length = sizeof stats;
    if (getsockopt(socket_, SOL_PACKET, PACKET_STATISTICS, &stats, &length) == 0)
      missed_.fetch_add(stats.tp_drops, std::memory_order_relaxed);
    all.rx_dropped += missed_.load(std::memory_order_relaxed);
    return all;
  }

  int wake_fd() const override { return socket_; }

 private:
  Result<void> adopt_socket(const DescriptorSnapshot& before, const Netdev& netdev);

  std::uint32_t status(std::uint32_t slot) const {
    const auto* header =
        reinterpret_cast<const tpacket2_hdr*>(rings_ + geometry_.ring_bytes() + std::size_t{slot} * geometry_.frame);
    return __atomic_load_n(&header->tp_status, __ATOMIC_ACQUIRE) & ~(TP_STATUS_TS_SOFTWARE | TP_STATUS_TS_RAW_HARDWARE);
  }

  /// Free slots in a row from the next one on, at most `wanted`.
  std::size_t room(std::size_t wanted) const {
    wanted = std::min<std::size_t>(wanted, geometry_.count - 1);
    std::size_t free = 0;
    for (std::uint32_t slot = next_; free < wanted && status(slot) == TP_STATUS_AVAILABLE; ++free)
      slot = slot + 1 == geometry_.count ? 0 : slot + 1;
    return free;
  }

  /// The kernel stopped half way (socket buffer or device queue full): ask it to go on.
  void kick() {
    if (sendto(socket_, nullptr, 0, MSG_DONTWAIT | MSG_NOSIGNAL, nullptr, 0) < 0 && errno == ENETDOWN) return;
    waiting_ = status((next_ + geometry_.count - 1) % geometry_.count) == TP_STATUS_SEND_REQUEST;
  }

  Geometry geometry_;
  LinkWatch link_;
  int socket_ = -1;             ///< a duplicate of the PMD's
  std::byte* rings_ = nullptr;  ///< receive ring, then send ring
  std::uint32_t next_ = 0;      ///< the send slot that the PMD fills next
  mutable std::atomic<std::uint64_t> missed_{0};
  bool waiting_ = false;  ///< frames are in the ring that the kernel has not taken
};

Result<void> AfPacketPort::adopt_socket(const DescriptorSnapshot& before, const Netdev& netdev) {
  for (const int descriptor : before.opened_since()) {
    sockaddr_ll address{};
    socklen_t length = sizeof address;
    if (getsockname(descriptor, reinterpret_cast<sockaddr*>(&address), &length) != 0 ||
        address.sll_family != AF_PACKET || address.sll_ifindex != netdev.index)
      continue;
    socket_ = fcntl(descriptor, F_DUPFD_CLOEXEC, 3);
    break;
  }
  if (socket_ < 0) return fail(EIO, "the packet driver's socket was not found");
  void* rings = mmap(nullptr, 2 * geometry_.ring_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, socket_, 0);
  if (rings == MAP_FAILED) return fail(errno, "mapping the packet rings: " + std::string(std::strerror(errno)));
  rings_ = static_cast<std::byte*>(rings);
  // Room for a whole ring in flight: with the default the kernel stops half way and reports nothing.
  const int bytes = static_cast<int>(std::min<std::size_t>(2 * geometry_.ring_bytes(), 1U << 30));
  if (setsockopt(socket_, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof bytes) != 0)
    setsockopt(socket_, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
  // Neighbour solicitations come to multicast groups; ends with the socket.
  packet_mreq membership{};
  membership.mr_ifindex = netdev.index;
  membership.mr_type = PACKET_MR_ALLMULTI;
  setsockopt(socket_, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &membership, sizeof membership);
  return {};
}

Result<void> AfPacketPort::open(const PortSpec& spec) {
  const auto netdev = find_netdev(spec.target, spec.text);
  if (!netdev) return tl::unexpected(netdev.error());
  if (auto allowed = check_packet_socket(spec.text); !allowed) return allowed;
  if (auto watched = link_.open(spec.target); !watched) return watched;

  EthdevSetup setup;
  setup.name = spec.text;
  setup.kind = PortKind::kAfPacket;
  setup.mtu = netdev->mtu;
  std::uint32_t count = number_option(spec, "framecnt", 512);
  for (;; count /= 2) {
    geometry_ = geometry_for(netdev->mtu, count);
    setup.device = unique_name("net_af_packet");
    setup.room = geometry_.frame;  // the PMD copies without looking at the mbuf's size
    const auto arguments =
        fmt::format("iface={},qpairs=1,blocksz={},framesz={},framecnt={},qdisc_bypass={}", spec.target, geometry_.block,
                    geometry_.frame, geometry_.count, number_option(spec, "qdisc_bypass", 0));
    const DescriptorSnapshot descriptors;
    auto started = start_vdev(setup, arguments);
    descriptors.close_on_exec(false);
    if (started) {
      if (auto adopted = adopt_socket(descriptors, *netdev); !adopted)
        return fail(adopted.error().code, fmt::format("DPDK port {}: {}", spec.text, adopted.error().text));
      break;
    }
    stop_device();
    // The rings are locked into memory: a small RLIMIT_MEMLOCK is met with smaller rings.
    if (count / 2 < 64)
      return fail(started.error().code, started.error().text + " (its rings must fit ulimit -l or CAP_IPC_LOCK)");
  }
  // Its socket was open before it was bound: frames of every interface may lie in the ring.
  std::array<RxFrame, kBurst> foreign;
  for (std::uint32_t drained = 0; drained < geometry_.count;) {
    const std::size_t got = receive_burst(foreign);
    if (got == 0) break;
    release({foreign.data(), got});
    drained += static_cast<std::uint32_t>(got);
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<Port>> open_af_packet_port(const PortSpec& spec) {
  auto port = std::make_unique<AfPacketPort>();
  if (auto opened = port->open(spec); !opened) return tl::unexpected(opened.error());
  return port;
}

}  // namespace mrc::port
