// SPDX-License-Identifier: BSD-2-Clause
// net_tap: a new tap interface, to be put into a bridge. A system call a frame: for smoke tests.
#include <fcntl.h>
#include <fmt/format.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "datapath/port/ethdev_port.hpp"
#include "datapath/port/openers.hpp"
#include "datapath/port/options.hpp"
#include "datapath/port/process.hpp"

namespace mrc::port {
namespace {

class TapPort final : public EthdevPort {
 public:
  Result<void> open(const PortSpec& spec);
};

/// The driver gives the kernel's end our own address; a bridge would then keep our frames for itself, and a kernel that
/// is our peer would talk to itself. So the kernel's end gets another one.
Result<void> set_kernel_address(const std::string& interface, const MacAddress& ours, const std::string& port) {
  const int control = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  ifreq request{};
  interface.copy(request.ifr_name, IFNAMSIZ - 1);
  request.ifr_hwaddr.sa_family = ARPHRD_ETHER;
  std::memcpy(request.ifr_hwaddr.sa_data, ours.data(), ours.size());
  request.ifr_hwaddr.sa_data[0] = static_cast<char>((ours[0] ^ 0x40) | 0x02);
  const bool done = control >= 0 && ioctl(control, SIOCSIFHWADDR, &request) == 0;
  const int code = errno;
  if (control >= 0) close(control);
  if (done) return {};
  return fail(code, fmt::format("DPDK port {}: setting the address of {}: {}", port, interface, std::strerror(code)));
}

Result<void> TapPort::open(const PortSpec& spec) {
  if (if_nametoindex(spec.target.c_str()) != 0)
    return fail(EEXIST, fmt::format("no DPDK port {}: interface {} exists already; tap makes its own (for an existing "
                                    "interface use af_packet:{})",
                                    spec.text, spec.target, spec.target));
  const int tun = ::open("/dev/net/tun", O_RDWR | O_CLOEXEC);
  if (tun < 0)
    return fail(errno, fmt::format("no DPDK port {}: /dev/net/tun: {} (run as root, or go through mrc-switch)",
                                   spec.text, std::strerror(errno)));
  close(tun);
  EthdevSetup setup;
  setup.name = spec.text;
  setup.device = unique_name("net_tap");
  setup.kind = PortKind::kTap;
  setup.mtu = number_option(spec, "mtu", 1500);
  setup.set_mtu = true;
  setup.descriptors = 128;  // it keeps a receive buffer for each
  setup.buffers = 1024;
  std::string arguments = "iface=" + spec.target;
  if (const std::string* mac = find_option(spec, "mac"); mac != nullptr) arguments += ",mac=" + *mac;
  const DescriptorSnapshot descriptors;
  auto started = start_vdev(setup, arguments);
  descriptors.close_on_exec(false);
  if (!started) return fail(started.error().code, started.error().text + " (a tap interface needs CAP_NET_ADMIN)");
  return set_kernel_address(spec.target, mac_, spec.text);
}

}  // namespace

Result<std::unique_ptr<Port>> open_tap_port(const PortSpec& spec) {
  auto port = std::make_unique<TapPort>();
  if (auto opened = port->open(spec); !opened) return tl::unexpected(opened.error());
  return port;
}

}  // namespace mrc::port
