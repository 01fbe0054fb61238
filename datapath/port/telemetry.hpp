// SPDX-License-Identifier: BSD-2-Clause
// The telemetry of this object's copy of DPDK (behind PortLayer).
#pragma once

#include <span>
#include <string>

#include "mrc/port/telemetry.hpp"
#include "mrc/result.hpp"

namespace mrc::port {

Result<void> serve_telemetry(std::span<const TelemetryCommand> commands, TelemetryHandler handler);
void stop_telemetry();
/// Where the socket is; empty before EAL runs.
std::string telemetry_folder();

}  // namespace mrc::port
