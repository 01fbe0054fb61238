// SPDX-License-Identifier: BSD-2-Clause
// DPDK's environment (EAL), started once per process and never stopped: DPDK cannot start it a second time.
#pragma once

#include <string>

#include "mrc/port/port.hpp"

namespace mrc::port {

/// Starts EAL on the first call; later calls return the first outcome, whatever their options.
Result<void> start_eal(const EalOptions& options);
bool eal_started();
/// Whether PCI devices may be plugged in (EalOptions::pci of the first start).
bool eal_has_pci();

/// Forgets the last line that EAL or a PMD logged; last_eal_line() is what came since, for error messages.
void clear_eal_line();
std::string last_eal_line();

/// `text` with the driver's own last words added, when there are any.
std::string with_eal_line(std::string text);

}  // namespace mrc::port
