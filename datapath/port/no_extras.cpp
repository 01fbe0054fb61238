// SPDX-License-Identifier: BSD-2-Clause
// The built-in layer's answer for kinds that only the second object opens. DpdkLayer never gets here for them: these
// exist so that the built-in layer need not link the PCI bus.
#include <cerrno>

#include "datapath/port/openers.hpp"

namespace mrc::port {

Result<std::unique_ptr<Port>> open_af_xdp_port(const PortSpec& spec) {
  return fail(ENOTSUP, "no DPDK port " + spec.text + ": af_xdp is in the second object");
}

Result<std::unique_ptr<Port>> open_pci_port(const PortSpec& spec) {
  return fail(ENOTSUP, "no DPDK port " + spec.text + ": PCI drivers are in the second object");
}

}  // namespace mrc::port
