// SPDX-License-Identifier: BSD-2-Clause
// Where the report goes: the file of FI_MRC_STATS, while the process runs and at its end, and DPDK's telemetry.
#include <unistd.h>

#include <charconv>
#include <chrono>
#include <nlohmann/json.hpp>

#include "mrc/engine/counter_table.hpp"
#include "mrc/engine/engine_impl.hpp"

namespace mrc::engine {
namespace {

using Json = nlohmann::ordered_json;
using port::TelemetryValue;

constexpr auto kPatience = std::chrono::milliseconds(200);  ///< how long a reader waits for the engine's lock

TelemetryValue to_value(const std::string& name, const Json& json) {
  TelemetryValue out;
  out.name = name;
  using Kind = TelemetryValue::Kind;
  if (json.is_boolean() || json.is_number()) {
    out.kind = Kind::kNumber;
    out.number = json.is_boolean() ? json.get<bool>() : json.get<std::uint64_t>();
  } else if (json.is_string()) {
    out.kind = Kind::kText;
    out.text = json.get<std::string>();
  } else if (json.is_array() && !json.empty() && json.front().is_number()) {
    out.kind = Kind::kNumbers;
    out.numbers = json.get<std::vector<std::uint64_t>>();
  } else if (json.is_structured()) {
    std::size_t index = 0;
    for (const auto& [key, value] : json.items()) {
      out.members.push_back(to_value(json.is_array() ? std::to_string(index) : key, value));
      ++index;
    }
  }
  return out;
}

}  // namespace

bool EngineImpl::lock_soon() {
  const auto until = std::chrono::steady_clock::now() + kPatience;
  while (!try_lock()) {
    if (std::chrono::steady_clock::now() >= until) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(500));
  }
  return true;
}

std::string EngineImpl::stats_file() const {
  return config_.stats_path + "." + std::to_string(getpid()) + ".json";
}

void EngineImpl::start_watching() {
  if (!config_.stats_path.empty() && config_.stats_interval.ns > 0) {
    stats_writer_ = std::make_unique<StatsWriter>(
        stats_file(), config_.stats_interval,
        [this]() -> std::optional<std::string> {
          if (!lock_soon()) return std::nullopt;
          std::string text = stats_json_locked(true) + "\n";
          unlock();
          return text;
        },
        [this](const std::string& text) { log(0, text); });
  }
  port::PortLayer* layer = config_.telemetry ? attachment_->layer() : nullptr;
  if (layer == nullptr) return;
  std::vector<port::TelemetryCommand> commands;
  for (const TelemetryText& text : telemetry_texts()) commands.push_back({text.command, text.help});
  const auto served = layer->serve_telemetry(
      commands, [this](std::size_t command, const std::string& parameters) -> std::optional<TelemetryValue> {
        std::uint32_t id = 0;
        const auto part = static_cast<ReportPart>(command);
        const char* const end = parameters.data() + parameters.size();
        const auto parsed = std::from_chars(parameters.data(), end, id);
        const bool given = parsed.ec == std::errc() && parsed.ptr == end;
        if (part >= ReportPart::kConnections && !given && !(part == ReportPart::kConnections && parameters.empty())) {
          return to_value("", Json{{"error", "the parameter must be a connection's id, see /mrc/connections"}});
        }
        if (!lock_soon()) return to_value("", Json{{"busy", 1}});
        const Json json = report_locked(part, id);
        unlock();
        if (json.is_null()) return to_value("", Json{{"error", "there is no such connection, see /mrc/connections"}});
        return to_value("", json);
      });
  if (!served) return log(0, served.error().text);
  log(1, "telemetry at " + layer->telemetry_folder() + "/dpdk_telemetry.v2");
}

void EngineImpl::stop_watching() {
  stats_writer_.reset();
  if (port::PortLayer* layer = config_.telemetry ? attachment_->layer() : nullptr) layer->stop_telemetry();
}

void EngineImpl::finish() {
  if (dead() || finished_.exchange(true)) return;
  stop_service();
  stop_watching();
  const bool locked = try_lock();  // at exit another thread may hold it for ever
  if (!config_.stats_path.empty()) {
    if (const auto written = replace_file(stats_file(), stats_json_locked(true) + "\n"); !written) {
      log(0, written.error().text);
    }
  }
  if (capture_) capture_->flush();
  if (locked) unlock();
}

}  // namespace mrc::engine
