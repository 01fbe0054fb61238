// SPDX-License-Identifier: BSD-2-Clause
// Everything that can be read about a process, described once: name, unit, meaning. The JSON of FI_MRC_STATS, the
// answers of telemetry and docs/counters.md all come from here. A new field of transport::Counters, DriverCounters,
// PortCounters or ConnectionInfo needs a line in counter_table.cpp: test/engine/counter_table_test.cpp says so.
// To bring the page up to date: MRC_UPDATE_DOCS=1 build/test/engine/engine_unit "docs/counters.md*".
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "mrc/engine/engine.hpp"
#include "mrc/port/port.hpp"
#include "mrc/transport/core.hpp"

namespace mrc::engine {

struct CounterText {
  const char* name;
  const char* unit;
  const char* meaning;
};

template <class T, class Value = std::uint64_t>
struct Counter {
  CounterText text;
  Value T::*value;
};

std::span<const Counter<transport::Counters>> transport_counters();
std::span<const Counter<DriverCounters>> driver_counters();
std::span<const Counter<port::PortCounters>> port_counters();
std::span<const Counter<transport::PoolLevels, std::uint32_t>> pool_levels();

/// Names that are put together in report.cpp, part by part.
std::span<const CounterText> process_texts();
std::span<const CounterText> plane_texts();
std::span<const CounterText> connection_texts();
std::span<const CounterText> connection_plane_texts();
std::span<const CounterText> ev_state_texts();

/// A command of DPDK's telemetry, without its parameters, and what its help says.
struct TelemetryText {
  const char* command;
  const char* help;
};
std::span<const TelemetryText> telemetry_texts();

/// docs/counters.md.
std::string counters_page();

}  // namespace mrc::engine
