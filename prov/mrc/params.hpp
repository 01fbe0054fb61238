// SPDX-License-Identifier: BSD-2-Clause
// The provider's knobs: environment variables FI_MRC_<NAME>, defined through libfabric so that fi_info -e shows them.
// Values are checked here, once, with a sentence for the user; nothing falls back to a default silently.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mrc/engine/engine.hpp"
#include "mrc/result.hpp"

namespace mrc::prov {

struct Params {
  std::string ports;
  std::string config;
  std::string switch_program;
  std::string switch_socket;
  bool autostart = true;
  bool service_thread = true;
  Duration connect_timeout = seconds(60);
  Duration peer_timeout = seconds(60);
  Duration linger = seconds(2);
  std::string icrc = "auto";
  std::string denylist;
  std::string stats;
  Duration stats_interval{};
  bool telemetry = false;
  std::string pcap;
  std::uint16_t udp_port = 4791;
  wire::EvSplit ev_split = wire::EvSplit::kHighInPort;
  std::uint16_t evs = 128;
  std::uint32_t window = 1024;
  transport::CcKind cc = transport::CcKind::kAuto;
  std::uint64_t link_bps = 0;  ///< of one port, 0 = as the configuration file says
  Duration cc_target_min = microseconds(5);
  std::uint32_t memory_mb = 64;
  std::uint32_t connections = 1024;
  std::string job_key;
  std::size_t tx_size = 1024;      ///< default and largest transmit operations of an endpoint
  std::size_t rx_size = 1024;      ///< default and largest receive operations of an endpoint
  std::size_t inject_size = 1024;  ///< largest inject
  std::size_t copy_size = 128;     ///< longer messages are gathered from the user's memory
  std::size_t eager_size = 16384;  ///< larger messages go by rendezvous
  std::size_t read_size = 960;     ///< larger reads are answered by writes into the reader's memory
};

/// One knob: what fi_info -e prints, and how text becomes a value. `set` returns what is allowed if the text is not.
struct ParamSpec {
  const char* name;  ///< lower case; the variable is FI_MRC_ and this in upper case
  const char* help;  ///< ends with "(default: …)"
  std::string (*set)(std::string_view text, Params& params);
};

std::span<const ParamSpec> param_specs();

/// The environment variable of a knob: FI_MRC_PORTS for "ports".
std::string variable_of(std::string_view name);

/// Reads every knob with `get` (nothing = not set). The error names the variable, its value and what is allowed.
Result<Params> parse_params(const std::function<std::optional<std::string>(const char* name)>& get);

/// A warning for each FI_MRC_ variable of `environment` ("NAME=value" strings) that is no knob, with the nearest name.
std::vector<std::string> unknown_variables(std::span<const char* const> environment);

/// Declares the knobs to libfabric; from fi_prov_ini.
void define_params();

/// The process's knobs, read at first use. Null if one of them is wrong; then every call logs the reason.
const Params* params();

engine::EngineConfig engine_config(const Params& params);

}  // namespace mrc::prov
