// SPDX-License-Identifier: BSD-2-Clause
// The table of knobs, and how the text of each becomes a value.
#include <algorithm>
#include <array>
#include <charconv>
#include <limits>

#include "mrc/engine/rate.hpp"
#include "params.hpp"

namespace mrc::prov {

namespace {

constexpr const char* kBool = "0, 1, no, yes, false, true, off or on";

std::string set_bool(std::string_view text, bool& out) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  for (const char* yes : {"1", "yes", "true", "on", "y"})
    if (lower == yes) return out = true, std::string();
  for (const char* no : {"0", "no", "false", "off", "n"})
    if (lower == no) return out = false, std::string();
  return kBool;
}

std::string range(std::uint64_t low, std::uint64_t high, const char* what) {
  return "a number from " + std::to_string(low) + " to " + std::to_string(high) + what;
}

template <class T>
std::string set_number(std::string_view text, T& out, std::uint64_t low, std::uint64_t high, const char* what = "") {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < low || value > high)
    return range(low, high, what);
  out = static_cast<T>(value);
  return {};
}

/// Bytes, with an optional k or m (binary).
std::string set_size(std::string_view text, std::size_t& out, std::uint64_t low, std::uint64_t high) {
  unsigned shift = 0;
  if (!text.empty() && (text.back() == 'k' || text.back() == 'K')) shift = 10;
  if (!text.empty() && (text.back() == 'm' || text.back() == 'M')) shift = 20;
  if (shift != 0) text.remove_suffix(1);
  std::uint64_t value = 0;
  if (!set_number(text, value, 0, high >> shift).empty() || (value << shift) < low)
    return range(low, high, ", or so many k or m");
  out = value << shift;
  return {};
}

std::string set_rate(std::string_view text, std::uint64_t& out) {
  const auto rate = engine::parse_rate(text);
  if (!rate) return engine::kRateRule;
  out = *rate;
  return {};
}

std::string set_cc(std::string_view text, Params& p) {
  constexpr std::pair<std::string_view, transport::CcKind> kKinds[] = {{"auto", transport::CcKind::kAuto},
                                                                       {"nscc", transport::CcKind::kNscc},
                                                                       {"fixed", transport::CcKind::kFixed},
                                                                       {"swift", transport::CcKind::kSwift}};
  for (const auto& [name, kind] : kKinds)
    if (text == name) return p.cc = kind, std::string();
  return "auto, nscc, fixed or swift";
}

/// A short time with its unit: 5us, 1ms.
std::string set_short_time(std::string_view text, Duration& out) {
  std::int64_t unit = 0;
  if (text.ends_with("us")) unit = 1000;
  if (text.ends_with("ms")) unit = 1'000'000;
  std::uint64_t value = 0;
  if (unit != 0) text.remove_suffix(2);
  constexpr std::int64_t kMost = 100'000'000;
  if (unit == 0 || !set_number(text, value, 0, static_cast<std::uint64_t>(kMost / unit)).empty())
    return "a time from 0us to 100ms, such as 5us or 1ms";
  out = Duration{static_cast<std::int64_t>(value) * unit};
  return {};
}

/// Seconds, or with a unit: 500ms, 2s, 5min.
std::string set_duration(std::string_view text, Duration& out, Duration low, Duration high) {
  std::int64_t unit = seconds(1).ns;
  const auto strip = [&](std::string_view suffix, Duration of) {
    if (!text.ends_with(suffix)) return false;
    text.remove_suffix(suffix.size());
    unit = of.ns;
    return true;
  };
  if (!strip("ms", milliseconds(1)) && !strip("min", seconds(60))) strip("s", seconds(1));
  std::uint64_t value = 0;
  const auto most = static_cast<std::uint64_t>(high.ns / unit);
  if (!set_number(text, value, 0, most).empty() || static_cast<std::int64_t>(value) * unit < low.ns)
    return "a time from " + std::to_string(low.ns / 1000000) + "ms to " + std::to_string(high.ns / 1000000000) +
           "s, such as 500ms, 60 or 60s";
  out = Duration{static_cast<std::int64_t>(value) * unit};
  return {};
}

std::string set_text(std::string_view text, std::string& out) {
  out = text;
  return {};
}

std::string set_path(std::string_view text, std::string& out) {
  if (text.empty()) return "a file name, not an empty string (unset the variable for the default)";
  return set_text(text, out);
}

std::string set_window(std::string_view text, Params& p) {
  std::uint32_t value = 0;
  if (!set_number(text, value, 128, 4096).empty() || (value & (value - 1)) != 0)
    return "128, 256, 512, 1024, 2048 or 4096";
  p.window = value;
  return {};
}

std::string set_udp_port(std::string_view text, Params& p) {
  if (text != "4791" && text != "4971") return "4791 or 4971";
  return set_number(text, p.udp_port, 1, 65535);
}

std::string set_ev_split(std::string_view text, Params& p) {
  if (text != "high-in-port" && text != "low-in-port") return "high-in-port or low-in-port";
  p.ev_split = text == "high-in-port" ? wire::EvSplit::kHighInPort : wire::EvSplit::kLowInPort;
  return {};
}

std::string set_icrc(std::string_view text, Params& p) {
  if (text != "auto" && text != "on") return "auto or on";
  return set_text(text, p.icrc);
}

std::string set_stats_interval(std::string_view text, Params& p) {
  if (text == "0") return p.stats_interval = Duration{0}, std::string();
  auto allowed = set_duration(text, p.stats_interval, milliseconds(10), seconds(86400));
  return allowed.empty() ? allowed : "0 or " + allowed;
}

std::string set_job_key(std::string_view text, Params& p) {
  const bool hex = text.size() == 64 && text.find_first_not_of("0123456789abcdefABCDEF") == text.npos;
  if (text.empty() || (text.size() > 32 && !hex)) return "1 to 32 characters, or 64 hexadecimal digits";
  return set_text(text, p.job_key);
}

constexpr ParamSpec kSpecs[] = {
    {"ports",
     "ports that this process uses itself instead of mrc-switch, one a plane: \"eth1;eth2\"; groups of ports, of which "
     "each process takes a free one, are separated by |. See fi_mrc(7) (default: none)",
     [](std::string_view t, Params& p) { return set_text(t, p.ports); }},
    {"config", "TOML file that names the fabric and its port groups (default: none)",
     [](std::string_view t, Params& p) { return set_path(t, p.config); }},
    {"switch", "mrc-switch program to start (default: looked for next to the provider, then where it was installed)",
     [](std::string_view t, Params& p) { return set_path(t, p.switch_program); }},
    // Read where the switch is started (control/autostart.cpp), as tools start it too; the switch itself judges them.
    {"switch_args", "words for an mrc-switch that is started, as on its command line (default: none)",
     [](std::string_view, Params&) { return std::string(); }},
    {"switch_socket", "control socket of a running mrc-switch (default: this user's own, in the runtime folder)",
     [](std::string_view t, Params& p) { return set_path(t, p.switch_socket); }},
    {"autostart", "start mrc-switch when no ports are configured and none runs: 0 or 1 (default: 1)",
     [](std::string_view t, Params& p) { return set_bool(t, p.autostart); }},
    {"service_thread", "a thread that answers peers while the application does not call libfabric: 0 or 1 (default: 1)",
     [](std::string_view t, Params& p) { return set_bool(t, p.service_thread); }},
    {"connect_timeout", "how long a first contact with a peer may take, seconds or with a unit (default: 60s)",
     [](std::string_view t, Params& p) {
       return set_duration(t, p.connect_timeout, milliseconds(10), seconds(86400));
     }},
    {"peer_timeout",
     "a peer that is silent for so long with operations outstanding is dead, seconds or with a unit (default: 60s)",
     [](std::string_view t, Params& p) { return set_duration(t, p.peer_timeout, milliseconds(100), seconds(86400)); }},
    {"linger", "how long fi_close waits for what was sent to arrive, seconds or with a unit (default: 2s)",
     [](std::string_view t, Params& p) { return set_duration(t, p.linger, Duration{0}, seconds(3600)); }},
    {"icrc", "invariant CRC of packets: auto = off only where the whole way is memory, or on (default: auto)",
     set_icrc},
    {"denylist",
     "TOML file of links and switches that no packet may take, as mrc-probe writes it; read again when it changes "
     "(default: none)",
     [](std::string_view t, Params& p) { return set_path(t, p.denylist); }},
    {"stats", "write all counters as JSON to <value>.<pid>.json at exit (default: off)",
     [](std::string_view t, Params& p) { return set_path(t, p.stats); }},
    {"stats_interval",
     "rewrite the file of FI_MRC_STATS this often while the process runs, seconds or with a unit; 0 = at exit only "
     "(default: 0)",
     set_stats_interval},
    {"telemetry", "answer /mrc/... on DPDK's telemetry socket, see docs/counters.md: 0 or 1 (default: 0)",
     [](std::string_view t, Params& p) { return set_bool(t, p.telemetry); }},
    {"pcap", "write every frame of this process to <value>.<pid>.pcap; slow (default: off)",
     [](std::string_view t, Params& p) { return set_path(t, p.pcap); }},
    {"udp_port", "UDP destination port of MRC packets: 4791 or 4971, the same everywhere (default: 4791)",
     set_udp_port},
    {"ev_split",
     "half of the entropy value in the UDP source port: high-in-port or low-in-port (default: high-in-port)",
     set_ev_split},
    {"evs", "entropy values (paths) of a connection, 128 to 256 (default: 128)",
     [](std::string_view t, Params& p) { return set_number(t, p.evs, 128, 256); }},
    {"window", "packets in flight of a connection: 128, 256, 512, 1024, 2048 or 4096 (default: 1024)", set_window},
    {"cc",
     "congestion control: auto (nscc where a link rate is known, else fixed), nscc, fixed or swift (default: auto)",
     set_cc},
    {"link_rate",
     "rate of one port in bits per second, such as 100G, for congestion control (default: as in the file of "
     "FI_MRC_CONFIG, else unknown)",
     [](std::string_view t, Params& p) { return set_rate(t, p.link_bps); }},
    {"cc_target_min", "smallest queueing delay that congestion control aims at, such as 5us or 1ms (default: 5us)",
     [](std::string_view t, Params& p) { return set_short_time(t, p.cc_target_min); }},
    {"memory", "packet memory of this process in MiB, 16 to 65536 (default: 64)",
     [](std::string_view t, Params& p) { return set_number(t, p.memory_mb, 16, 65536, " MiB"); }},
    {"connections",
     "peers that its open endpoints can meet, those included that have left, 16 to 1048576 (default: 1024)",
     [](std::string_view t, Params& p) { return set_number(t, p.connections, 16, 1048576); }},
    {"job_key",
     "secret that all processes of a job share; others cannot connect: 1 to 32 characters, or 64 hexadecimal "
     "digits (default: none)",
     set_job_key},
    {"tx_size", "outstanding transmit operations of an endpoint, 64 to 65536 (default: 1024)",
     [](std::string_view t, Params& p) { return set_number(t, p.tx_size, 64, 65536); }},
    {"rx_size", "outstanding receive operations of an endpoint, 64 to 65536 (default: 1024)",
     [](std::string_view t, Params& p) { return set_number(t, p.rx_size, 64, 65536); }},
    {"max_inject", "largest message of fi_inject in bytes, 256 to 4096 (default: 1024)",
     [](std::string_view t, Params& p) { return set_size(t, p.inject_size, 256, 4096); }},
    {"copy_size",
     "messages up to so many bytes are copied when they are sent, so that several share a packet; larger ones are read "
     "where they are; 0 to 1k (default: 128)",
     [](std::string_view t, Params& p) { return set_size(t, p.copy_size, 0, 1024); }},
    {"eager_size",
     "messages and RMA writes up to so many bytes leave at once, larger ones when their receive is posted or their "
     "target is known; 1k to 64k (default: 16k)",
     [](std::string_view t, Params& p) { return set_size(t, p.eager_size, 1024, 1 << 16); }},
    {"read_size",
     "RMA reads up to so many bytes are answered in a record, larger ones by writes into the reader's memory; 0 to 960 "
     "(default: 960)",
     [](std::string_view t, Params& p) { return set_size(t, p.read_size, 0, 960); }},
};

}  // namespace

std::span<const ParamSpec> param_specs() {
  return kSpecs;
}

}  // namespace mrc::prov
