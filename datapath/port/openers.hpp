// SPDX-License-Identifier: BSD-2-Clause
// One opener a port kind. Each checks what the user gave before DPDK sees it, so that errors are in words.
#pragma once

#include <memory>

#include "mrc/port/port.hpp"

namespace mrc::port {

Result<std::unique_ptr<Port>> open_memif_port(const MemifOptions& options, const std::string& name);
Result<std::unique_ptr<Port>> open_af_packet_port(const PortSpec& spec);
Result<std::unique_ptr<Port>> open_tap_port(const PortSpec& spec);
Result<std::unique_ptr<Port>> open_af_xdp_port(const PortSpec& spec);
/// PCI functions by address, and RDMA devices (mlx5) by name.
Result<std::unique_ptr<Port>> open_pci_port(const PortSpec& spec);

MemifOptions memif_options(const PortSpec& spec);

}  // namespace mrc::port
