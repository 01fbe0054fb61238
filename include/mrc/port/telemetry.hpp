// SPDX-License-Identifier: BSD-2-Clause
// Answers of DPDK's telemetry socket, as plain values: PortLayer::serve_telemetry() turns them into DPDK's.
// DPDK's limits hold: 256 members of an object, 512 numbers of a list, texts of 127 characters (longer ones are cut),
// 16 KB an answer; names are letters, digits and '_' (others become '_').
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace mrc::port {

struct TelemetryValue {
  enum class Kind : std::uint8_t { kNumber, kText, kNumbers, kObject };
  std::string name;  ///< within the object that it is a member of
  Kind kind = Kind::kObject;
  std::uint64_t number = 0;
  std::string text;
  std::vector<std::uint64_t> numbers;
  std::vector<TelemetryValue> members;
};

struct TelemetryCommand {
  std::string command;  ///< "/mrc/info"
  std::string help;
};

/// Answers command number `command` with the parameters given (what followed the comma, may be empty); nothing: null.
/// Runs in DPDK's own thread, one call at a time.
using TelemetryHandler =
    std::function<std::optional<TelemetryValue>(std::size_t command, const std::string& parameters)>;

}  // namespace mrc::port
