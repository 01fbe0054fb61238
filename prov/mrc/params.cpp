// SPDX-License-Identifier: BSD-2-Clause
// Reading the knobs from libfabric, telling the user what is wrong with them, and turning them into EngineConfig.
#include "params.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cstring>
#include <numeric>

#include "log.hpp"

namespace mrc::prov {

namespace {

/// Edit distance, for "did you mean".
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1])});
      diagonal = above;
    }
  }
  return row[b.size()];
}

std::array<std::byte, 32> key_bytes(const std::string& text) {
  std::array<std::byte, 32> key{};
  const auto digit = [](char c) { return static_cast<unsigned>(c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10); };
  if (text.size() == 64) {
    for (std::size_t i = 0; i < 32; ++i)
      key[i] = static_cast<std::byte>(digit(text[2 * i]) << 4 | digit(text[2 * i + 1]));
  } else {
    std::memcpy(key.data(), text.data(), std::min(text.size(), key.size()));
  }
  return key;
}

std::string own_directory() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&own_directory), &info) == 0 || info.dli_fname == nullptr) return {};
  const std::string path = info.dli_fname;
  const auto slash = path.rfind('/');
  return slash == path.npos ? std::string(".") : path.substr(0, slash);
}

void engine_log(int level, const char* text) {
  if (level <= 0)
    MRC_WARN(DOMAIN, "%s", text);
  else if (level == 1)
    MRC_INFO(DOMAIN, "%s", text);
  else
    MRC_DEBUG(DOMAIN, "%s", text);
}

struct Loaded {
  std::optional<Params> params;
  std::string why;
};

Loaded load() {
  const std::size_t count = [] {
    std::size_t n = 0;
    while (environ != nullptr && environ[n] != nullptr) ++n;
    return n;
  }();
  for (const std::string& text : unknown_variables({environ, count})) MRC_WARN(CORE, "%s", text.c_str());

  const auto get = [](const char* name) -> std::optional<std::string> {
    char* value = nullptr;
    if (fi_param_get_str(&provider, name, &value) != 0 || value == nullptr) return std::nullopt;
    return std::string(value);
  };
  auto parsed = parse_params(get);
  Loaded loaded;
  if (parsed)
    loaded.params = std::move(*parsed);
  else
    loaded.why = parsed.error().text;
  return loaded;
}

}  // namespace

std::string variable_of(std::string_view name) {
  std::string variable = "FI_MRC_";
  for (char c : name) variable += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return variable;
}

Result<Params> parse_params(const std::function<std::optional<std::string>(const char*)>& get) {
  Params params;
  for (const ParamSpec& spec : param_specs()) {
    const auto text = get(spec.name);
    if (!text) continue;
    const std::string allowed = spec.set(*text, params);
    if (allowed.empty()) continue;
    const bool secret = std::string_view(spec.name) == "job_key";
    return fail(EINVAL,
                variable_of(spec.name) + "=\"" + (secret ? "…" : *text) + "\" is not valid: it must be " + allowed);
  }
  if (!params.ports.empty() && !params.switch_socket.empty())
    return fail(
        EINVAL,
        "FI_MRC_PORTS and FI_MRC_SWITCH_SOCKET are both set: a process uses its own ports or a switch; unset one");
  return params;
}

std::vector<std::string> unknown_variables(std::span<const char* const> environment) {
  std::vector<std::string> warnings;
  for (const char* entry : environment) {
    std::string_view name(entry);
    name = name.substr(0, name.find('='));
    if (!name.starts_with("FI_MRC_")) continue;
    std::string nearest;
    std::size_t best = SIZE_MAX;
    for (const ParamSpec& spec : param_specs()) {
      std::string known = variable_of(spec.name);
      const std::size_t d = distance(name, known);
      if (d < best) {
        best = d;
        nearest = std::move(known);
      }
    }
    if (best == 0) continue;
    warnings.push_back("the environment has " + std::string(name) + ", which mrc does not know; did you mean " +
                       nearest + "? (fi_info -e lists all)");
  }
  return warnings;
}

void define_params() {
  for (const ParamSpec& spec : param_specs()) fi_param_define(&provider, spec.name, FI_PARAM_STRING, "%s", spec.help);
}

const Params* params() {
  static const Loaded loaded = load();
  if (!loaded.params) {
    static std::atomic<bool> told{false};  // fi_getinfo comes here hundreds of times
    if (!told.exchange(true))
      MRC_WARN(CORE, "%s", loaded.why.c_str());
    else
      MRC_INFO(CORE, "%s", loaded.why.c_str());
    return nullptr;
  }
  return &*loaded.params;
}

engine::EngineConfig engine_config(const Params& p) {
  engine::EngineConfig config;
  config.ports = p.ports;
  config.config_file = p.config;
  config.switch_socket = p.switch_socket;
  config.switch_program = p.switch_program;
  config.provider_directory = own_directory();
  config.autostart = p.autostart;
  config.service_thread = p.service_thread;
  config.memory_mb = p.memory_mb;
  config.icrc = p.icrc;
  config.denylist_file = p.denylist;
  config.stats_path = p.stats;
  config.stats_interval = p.stats_interval;
  config.telemetry = p.telemetry;
  config.capture_path = p.pcap;
  config.transport.wire.ev_split = p.ev_split;
  config.transport.wire.udp_port = p.udp_port;
  config.transport.ev.per_connection = p.evs;
  config.transport.window = p.window;
  config.transport.cc = p.cc;
  config.transport.link_bps = p.link_bps;
  config.transport.cc_target_min = p.cc_target_min;
  config.transport.connect_timeout = p.connect_timeout;
  config.transport.peer_timeout = p.peer_timeout;
  config.transport.linger = p.linger;
  config.transport.job_key_set = !p.job_key.empty();
  config.transport.job_key = key_bytes(p.job_key);
  config.limits.connections = p.connections;
  config.log = engine_log;
  return config;
}

}  // namespace mrc::prov
