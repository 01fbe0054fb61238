// SPDX-License-Identifier: BSD-2-Clause
// net_tap: a new tap interface, to be put into a bridge. A system call a frame: for smoke tests.
#include <fcntl.h>
#include <fmt/format.h>
#include <net/if.h>
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
  return {};
}

}  // namespace

Result<std::unique_ptr<Port>> open_tap_port(const PortSpec& spec) {
  auto port = std::make_unique<TapPort>();
  if (auto opened = port->open(spec); !opened) return tl::unexpected(opened.error());
  return port;
}

}  // namespace mrc::port
