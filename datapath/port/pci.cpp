// SPDX-License-Identifier: BSD-2-Clause
// NICs on the PCI bus (second object): by address when bound to vfio-pci, or an RDMA device (mlx5), which keeps its
// kernel driver. Plugged in one by one; EAL's own scan is told to leave every device alone.
#include <fmt/format.h>
#include <rte_dev.h>
#include <rte_errno.h>
#include <rte_pci.h>

#include <cerrno>
#include <filesystem>

#include "datapath/port/eal.hpp"
#include "datapath/port/ethdev_port.hpp"
#include "datapath/port/openers.hpp"
#include "datapath/port/options.hpp"
#include "datapath/port/process.hpp"

namespace mrc::port {
namespace {

namespace fs = std::filesystem;

class PciPort final : public EthdevPort {
 public:
  Result<void> open(const PortSpec& spec);
};

Result<std::string> address_of(const PortSpec& spec) {
  std::error_code ignored;
  if (find_option(spec, kRdmaDeviceOption) != nullptr) {
    const fs::path device = fs::path("/sys/class/infiniband") / spec.target / "device";
    if (!fs::exists(device, ignored))
      return fail(ENODEV, fmt::format("no DPDK port {}: RDMA device {} does not exist (see `rdma link` and mrc-info)",
                                      spec.text, spec.target));
    return fs::canonical(device, ignored).filename().string();
  }
  rte_pci_addr address{};
  if (rte_pci_addr_parse(spec.target.c_str(), &address) != 0)
    return fail(EINVAL, fmt::format("no DPDK port {}: {} is not a PCI address", spec.text, spec.target));
  std::string text =
      fmt::format("{:04x}:{:02x}:{:02x}.{:x}", address.domain, address.bus, address.devid, address.function);
  const fs::path device = fs::path("/sys/bus/pci/devices") / text;
  if (!fs::exists(device, ignored))
    return fail(ENODEV, fmt::format("no DPDK port {}: there is no PCI device {} (see lspci)", spec.text, text));
  const auto driver = fs::canonical(device / "driver", ignored).filename().string();
  if (driver != "vfio-pci" && driver != "uio_pci_generic" && driver != "igb_uio" && !driver.starts_with("mlx5"))
    return fail(EBUSY,
                fmt::format("no DPDK port {0}: {1} belongs to {2}; give it to DPDK first (driverctl set-override "
                            "{1} vfio-pci), or use af_packet on its interface",
                            spec.text, text, driver.empty() ? "no driver" : "the kernel's driver " + driver));
  return text;
}

Result<void> PciPort::open(const PortSpec& spec) {
  if (!eal_has_pci())
    return fail(EINVAL, fmt::format("no DPDK port {}: DPDK was started without PCI (EalOptions::pci)", spec.text));
  const auto address = address_of(spec);
  if (!address) return tl::unexpected(address.error());
  EthdevSetup setup;
  setup.name = spec.text;
  setup.device = *address;
  setup.kind = PortKind::kPci;
  setup.mtu = number_option(spec, "mtu", 1500);
  setup.set_mtu = true;
  setup.descriptors = 1024;
  setup.buffers = 4096;  // both rings full, and what is in hand
  const DescriptorSnapshot descriptors;
  {
    const SignalBlock signals;
    clear_eal_line();
    if (const int status = rte_eal_hotplug_add("pci", address->c_str(), ""); status < 0) {
      descriptors.close_on_exec(false);
      return fail(-status, with_eal_line(fmt::format("no DPDK port {}: no driver of this build takes {} ({})",
                                                     spec.text, *address, rte_strerror(-status))));
    }
  }
  auto started = start_device(setup, false);
  descriptors.close_on_exec(false);
  return started;
}

}  // namespace

Result<std::unique_ptr<Port>> open_pci_port(const PortSpec& spec) {
  auto port = std::make_unique<PciPort>();
  if (auto opened = port->open(spec); !opened) return tl::unexpected(opened.error());
  return port;
}

}  // namespace mrc::port
