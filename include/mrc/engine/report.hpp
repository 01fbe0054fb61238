// SPDX-License-Identifier: BSD-2-Clause
// What can be read about a running engine, part by part, as JSON: the source of FI_MRC_STATS and of telemetry.
// Names and meanings: counter_table.hpp.
#pragma once

#include <cstdint>
#include <string_view>

namespace mrc::engine {

enum class ReportPart : std::uint8_t {
  kInfo,         ///< who we are
  kCounters,     ///< transport, driver, pools
  kPorts,        ///< ports by plane
  kPlanes,       ///< planes, without their ports
  kConnections,  ///< ids, peers and phases of at most kConnectionsAtOnce connections from `id` on
  kConnection,   ///< all about connection `id`; null if there is none
  kEvs,          ///< EV values of connection `id` by plane and state; null if there is none
};

inline constexpr unsigned kConnectionsAtOnce = 100;

std::string_view to_string(ReportPart part);

}  // namespace mrc::engine
