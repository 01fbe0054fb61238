// SPDX-License-Identifier: BSD-2-Clause
// net_af_xdp: frames through an XDP socket on one queue of an interface (second object).
#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

#include "datapath/port/ethdev_port.hpp"
#include "datapath/port/netdev.hpp"
#include "datapath/port/openers.hpp"
#include "datapath/port/options.hpp"
#include "datapath/port/process.hpp"

namespace mrc::port {
namespace {

/// A frame, its mbuf, both headrooms and the pool's padding share one page.
constexpr std::uint32_t kXdpMtuLimit = 3440;

class AfXdpPort final : public EthdevPort {
 public:
  Result<void> open(const PortSpec& spec);
  bool link_up() const override { return link_.up(); }

 private:
  LinkWatch link_;
};

Result<void> AfXdpPort::open(const PortSpec& spec) {
  const auto netdev = find_netdev(spec.target, spec.text);
  if (!netdev) return tl::unexpected(netdev.error());
  if (netdev->mtu > kXdpMtuLimit)
    return fail(EMSGSIZE,
                fmt::format("no DPDK port {0}: XDP sockets hold frames of one page, and the MTU of {1} is {2} "
                            "(ip link set {1} mtu {3}, at both ends)",
                            spec.text, spec.target, netdev->mtu, kXdpMtuLimit));
  constexpr int kFamilyXdp = 44;
  const int probe = socket(kFamilyXdp, SOCK_RAW | SOCK_CLOEXEC, 0);
  if (probe < 0) {
    const int code = errno;
    if (code == EPERM || code == EACCES)
      return fail(EPERM, fmt::format("no DPDK port {}: XDP sockets need CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF (run as "
                                     "root)",
                                     spec.text));
    return fail(code, fmt::format("no DPDK port {}: this kernel has no XDP sockets (use af_packet:{})", spec.text,
                                  spec.target));
  }
  close(probe);
  if (auto watched = link_.open(spec.target); !watched) return watched;
  EthdevSetup setup;
  setup.name = spec.text;
  setup.device = unique_name("net_af_xdp");
  setup.kind = PortKind::kAfXdp;
  setup.mtu = netdev->mtu;
  setup.descriptors = 512;
  // Object header, mbuf and headroom come out of the same page.
  setup.room = 4096 - 64 - 128 - RTE_PKTMBUF_HEADROOM - 64;
  setup.buffers = 4096;  // the fill ring keeps many
  const DescriptorSnapshot descriptors;
  auto started = start_vdev(
      setup, fmt::format("iface={},start_queue={},queue_count=1", spec.target, number_option(spec, "queue", 0)));
  descriptors.close_on_exec(false);
  return started;
}

}  // namespace

Result<std::unique_ptr<Port>> open_af_xdp_port(const PortSpec& spec) {
  auto port = std::make_unique<AfXdpPort>();
  if (auto opened = port->open(spec); !opened) return tl::unexpected(opened.error());
  return port;
}

}  // namespace mrc::port
