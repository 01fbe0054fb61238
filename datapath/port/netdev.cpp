// SPDX-License-Identifier: BSD-2-Clause
// Interface queries by ioctl. Plain kernel interfaces: nothing of DPDK here.
#include "datapath/port/netdev.hpp"

#include <fmt/format.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>

namespace mrc::port {
namespace {

ifreq request_for(const std::string& interface) {
  ifreq request{};
  interface.copy(request.ifr_name, IFNAMSIZ - 1);
  return request;
}

}  // namespace

Result<Netdev> find_netdev(const std::string& interface, const std::string& port) {
  const int socket_fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (socket_fd < 0) return fail(errno, fmt::format("no DPDK port {}: socket: {}", port, std::strerror(errno)));
  struct Closer {
    int descriptor;
    ~Closer() { close(descriptor); }
  } const closer{socket_fd};

  Netdev found;
  auto request = request_for(interface);
  if (interface.size() >= IFNAMSIZ || ioctl(socket_fd, SIOCGIFINDEX, &request) != 0)
    return fail(ENODEV, fmt::format("no DPDK port {}: interface {} does not exist (set FI_MRC_PORTS, see mrc-info)",
                                    port, interface));
  found.index = request.ifr_ifindex;
  if (ioctl(socket_fd, SIOCGIFHWADDR, &request) != 0 || request.ifr_hwaddr.sa_family != ARPHRD_ETHER)
    return fail(EINVAL, fmt::format("no DPDK port {}: {} is not an Ethernet interface", port, interface));
  std::memcpy(found.mac.data(), request.ifr_hwaddr.sa_data, found.mac.size());
  if (ioctl(socket_fd, SIOCGIFFLAGS, &request) != 0 || (request.ifr_flags & IFF_UP) == 0)
    return fail(ENETDOWN, fmt::format("no DPDK port {0}: interface {1} is down (ip link set {1} up)", port, interface));
  found.running = (request.ifr_flags & IFF_RUNNING) != 0;
  if (ioctl(socket_fd, SIOCGIFMTU, &request) != 0)
    return fail(errno, fmt::format("no DPDK port {}: cannot read the MTU of {}", port, interface));
  found.mtu = static_cast<std::uint32_t>(request.ifr_mtu);
  if (found.mtu < 1280)
    return fail(EINVAL, fmt::format("no DPDK port {0}: interface {1} has an MTU of {2}, IPv6 needs 1280 "
                                    "(ip link set {1} mtu 9000)",
                                    port, interface, found.mtu));
  return found;
}

Result<void> check_packet_socket(const std::string& port) {
  const int probe = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
  if (probe >= 0) {
    close(probe);
    return {};
  }
  const int code = errno;
  if (code == EPERM || code == EACCES)
    return fail(EPERM,
                fmt::format("no DPDK port {}: packet sockets need CAP_NET_RAW (run as root, setcap cap_net_raw+ep "
                            "on the program, or go through mrc-switch)",
                            port));
  return fail(code, fmt::format("no DPDK port {}: this kernel gives no packet socket ({})", port, std::strerror(code)));
}

LinkWatch::~LinkWatch() {
  if (socket_ >= 0) close(socket_);
}

Result<void> LinkWatch::open(const std::string& interface) {
  interface_ = interface;
  socket_ = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);  // stays in the namespace of now
  if (socket_ < 0) return fail(errno, fmt::format("watching the link of {}: {}", interface, std::strerror(errno)));
  return {};
}

bool LinkWatch::up() const {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
  const std::int64_t now = time.tv_sec * 1'000'000'000LL + time.tv_nsec;
  if (now - checked_.load(std::memory_order_relaxed) >= 10'000'000) {
    auto request = request_for(interface_);
    const bool good = ioctl(socket_, SIOCGIFFLAGS, &request) == 0;
    constexpr int kWanted = IFF_UP | IFF_RUNNING;
    up_.store(good && (request.ifr_flags & kWanted) == kWanted, std::memory_order_relaxed);
    checked_.store(now, std::memory_order_relaxed);
  }
  return up_.load(std::memory_order_relaxed);
}

}  // namespace mrc::port
