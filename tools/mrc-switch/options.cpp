// SPDX-License-Identifier: BSD-2-Clause
// The command line, with CLI11.
#include "options.hpp"

#include <arpa/inet.h>
#include <errno.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>

#include "mrc/fabric/command.hpp"

namespace mrc::soft {
namespace {

constexpr const char* kExamples = R"(
Examples:
  mrc-switch --stay                          an emulated fabric for this user, until SIGTERM
  mrc-switch --planes 2 --t1 8 --loss 0.01   two planes, eight T1 switches in each, one packet in a hundred lost
  mrc-switch --uplink af_packet:eth1 --uplink af_packet:eth2 --route 10.77.0.0/24=3/1
                                             local processes share two NIC ports; that network sits behind T0 3, NIC 1
  mrc-switch --stay --rate 10G --t1-rate 40G --link-delay 2us
                                             links with rates: queues that mark, trim and drop
  mrc-switch --stay --fabric lab.toml --timeline cuts.toml
                                             options from a file (rate = "10G"), and a script of commands over time
  mrc-switch ctl status                      what is not as usual, and totals; --all: every link; --json
  mrc-switch ctl link t0-1 t1-2 down         cut the cable between T0 1 and T1 2 in every plane, silently; … up
  mrc-switch ctl link t0-1 t1-2 plane 0 loss 0.1% oneway
  mrc-switch ctl port nic3 plane 2 rate 25%  a slow NIC port (NICs are numbered as clients come: ctl list)
  mrc-switch ctl switch t1-2 plane 0 down    switch off one T1, silently
  mrc-switch ctl plane 1 down                cut a plane (clients see their link go down); … up
  mrc-switch ctl link t0-0 t1-1 flap 10ms 50%
  mrc-switch ctl loss 0.1% delay 50us        the whole fabric
  mrc-switch ctl clear                       all faults off
  mrc-switch ctl timeline cuts.toml          [[event]] at = "1.5s" do = "plane 1 down" …; timeline stop
  mrc-switch ctl stats                       all counters as JSON
  mrc-switch ctl list                        who is attached

A process that uses the provider "mrc" and finds no switch starts one by itself, with the further arguments that
FI_MRC_SWITCH_ARGS holds, e.g. FI_MRC_SWITCH_ARGS="--loss 0.01 --reorder 0.01".)";

CLI::Validator probability() {
  return CLI::Range(0.0, 1.0);
}

template <class T, class Parse>
auto checked(T& into, Parse parse) {
  return [&into, parse](const std::string& text) {
    auto value = parse(text);
    if (!value) throw CLI::ValidationError(value.error().text);
    into = *value;
  };
}

template <class T>
std::optional<T> number(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

Result<std::uint32_t> parse_ipv4(const std::string& text) {
  in_addr address{};
  if (::inet_pton(AF_INET, text.c_str(), &address) != 1) {
    return fail(EINVAL, fmt::format("'{}' is no IPv4 address", text));
  }
  return ntohl(address.s_addr);
}

Result<wire::Ipv6Address> parse_ipv6(const std::string& text) {
  wire::Ipv6Address address;
  if (::inet_pton(AF_INET6, text.c_str(), address.bytes.data()) != 1) {
    return fail(EINVAL, fmt::format("'{}' is no IPv6 address", text));
  }
  return address;
}

Result<path::Location> parse_location(const std::string& text) {
  const auto slash = text.find('/');
  if (slash != std::string::npos) {
    const auto t0 = number<std::uint16_t>(std::string_view(text).substr(0, slash));
    const auto nic = number<std::uint16_t>(std::string_view(text).substr(slash + 1));
    if (t0 && nic && *t0 < 1024 && *nic < 1024) return path::Location{*t0, *nic};
  }
  return fail(EINVAL, fmt::format("'{}' is no location: want T0/NIC, both below 1024, e.g. 3/1", text));
}

Result<RemoteRoute> parse_route(const std::string& text) {
  const auto slash = text.find('/');
  const auto equal = text.find('=');
  if (slash == std::string::npos || equal == std::string::npos || slash > equal) {
    return fail(EINVAL, fmt::format("'{}' is no route: want NETWORK/BITS=T0/NIC, e.g. 10.77.0.0/24=3/1", text));
  }
  auto network = parse_ipv4(text.substr(0, slash));
  const auto bits = number<unsigned>(std::string_view(text).substr(slash + 1, equal - slash - 1));
  auto location = parse_location(text.substr(equal + 1));
  if (!network) return tl::make_unexpected(network.error());
  if (!location) return tl::make_unexpected(location.error());
  if (!bits || *bits > 32) return fail(EINVAL, fmt::format("'{}': the prefix length is 0 to 32", text));
  const std::uint32_t mask = *bits == 0 ? 0 : ~std::uint32_t{0} << (32 - *bits);
  return RemoteRoute{*network & mask, mask, *location};
}

Result<Duration> parse_duration(const std::string& text) {
  auto time = fabric::parse_time(text);
  if (time && time->ns > 10'000'000'000) return fail(EINVAL, fmt::format("'{}': at most 10s here", text));
  return time;
}

bool parse_options(int argc, char** argv, Options& out, int& exit_code) {
  CLI::App app{
      "mrc-switch: a fabric in software. Gives each local process one memif port per plane and forwards\n"
      "MRC packets between them by uSID, through an emulated Clos or out of real ports."};
  app.footer(kExamples);
  app.add_option("--socket", out.socket, "control socket (default: in the runtime folder of this user, under /tmp)");
  app.add_option("--planes", out.planes, "planes")->check(CLI::Range(1, 8))->capture_default_str();
  app.add_option("--t1,--t1s", out.t1s, "T1 switches per plane")->check(CLI::Range(1, 256))->capture_default_str();
  app.add_option("--t0s", out.t0s, "T0 switches per plane; clients attach to them in turn")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  app.add_option("--loss", out.impairment.loss, "probability that a packet is lost")->check(probability());
  app.add_option("--dup", out.impairment.duplicate, "probability that a packet arrives twice")->check(probability());
  app.add_option("--reorder", out.impairment.reorder, "probability that later packets overtake a packet")
      ->check(probability());
  app.add_option("--corrupt", out.impairment.corrupt,
                 "probability that a bit of a packet flips; clients keep the iCRC on")
      ->check(probability());
  app.add_option_function<std::string>("--delay", checked(out.impairment.delay, parse_duration),
                                       "added to every packet, e.g. 50us");
  app.add_option("--ecn", out.impairment.ecn, "probability that a packet gets a congestion mark")->check(probability());
  app.add_option("--trim", out.impairment.trim, "probability that a data packet is trimmed")->check(probability());
  const auto rate = [](std::uint64_t& into) {
    return checked(into, [](const std::string& t) { return fabric::parse_rate(t); });
  };
  app.add_option_function<std::string>("--rate", rate(out.rate),
                                       "of every link in bits per second, e.g. 10G (default: as fast as it goes)");
  app.add_option_function<std::string>("--t1-rate", rate(out.t1_rate), "of the links between T0s and T1s, if another");
  app.add_option_function<std::string>("--link-delay", checked(out.link_delay, parse_duration), "of every link");
  app.add_option_function<std::string>(
      "--base-rtt", checked(out.base_rtt, parse_duration),
      "queues mark at 0.2-0.8, trim at 1 and drop at 3 times rate x this (default 1ms)");
  app.add_option_function<std::string>("--nic-queue", checked(out.nic_queue, parse_duration),
                                       "what a NIC takes ahead of the wire, where it has a rate (default 500us)");
  app.add_option("--do", out.commands, "a command of `ctl`, at start; may be given several times")
      ->type_name("COMMAND")
      ->allow_extra_args(false);
  app.add_option("--timeline", out.timeline, "a script of commands; it starts with the first client")
      ->type_name("FILE");
  app.set_config("--fabric", "", "a TOML file with any of these options: planes = 2, rate = \"10G\", do = [\"…\"]")
      ->type_name("FILE");
  app.allow_config_extras(CLI::config_extras_mode::error);
  app.add_option("--seed", out.seed, "of the dice")->capture_default_str();
  app.add_option("--mtu", out.mtu, "L3 bytes, outer header included")
      ->check(CLI::Range(1280, 9600))
      ->capture_default_str();
  app.add_option("--ring", out.ring_log2, "log2 of the memif rings' slots")
      ->check(CLI::Range(6, 14))
      ->capture_default_str();
  app.add_option("--queue", out.queue, "frames that may wait for a full ring, per port")
      ->check(CLI::Range(0, 65536))
      ->capture_default_str();
  app.add_option("--clients", out.max_clients, "processes at a time (default: what DPDK's port limit allows)");
  app.add_option("--uplink", out.uplinks, "a port of the real fabric, once per plane, e.g. af_packet:eth1")
      ->type_name("PORT");
  app.add_option_function<std::vector<std::string>>(
         "--route",
         [&out](const std::vector<std::string>& texts) {
           for (const auto& text : texts) {
             RemoteRoute route;
             checked(route, parse_route)(text);
             out.routes.push_back(route);
           }
         },
         "where remote addresses sit (with --uplink), e.g. 10.77.0.0/24=3/1")
      ->type_name("NET=T0/NIC");
  app.add_option_function<std::string>("--location", checked(out.location, parse_location),
                                       "where this machine sits in the real fabric (with --uplink)")
      ->type_name("T0/NIC");
  app.add_option_function<std::string>("--gateway", checked(out.gateway, parse_ipv6),
                                       "next hop of the uplinks (default: destinations are on link)")
      ->type_name("IPV6");
  app.add_flag("--srv6", out.uplink_srv6, "the real fabric forwards by uSID (default: plain IPv6)");
  app.add_flag("--stay", out.stay, "do not leave 5 s after the last client");
  app.add_flag("--autostarted", out.autostarted, "started by a client: log to the place it prepared");
  app.add_option_function<std::string>("--sleep-after", checked(out.sleep_after, parse_duration),
                                       "idle time before the poll loop sleeps (default 500us)");
  app.add_option_function<std::string>("--leave-after", checked(out.leave_after, parse_duration),
                                       "time after the last client before leaving (default 5s)");
  app.add_option("--log", out.log, "log file (kept below 1 MiB)");
  auto* ctl =
      app.add_subcommand("ctl", "talk to a running switch: status, stats, list, timeline, and whatever changes it");
  ctl->add_option("command", out.ctl, "what to do or to report, in as many words as it takes")
      ->required()
      ->expected(1, 64);
  bool all = false, json = false;
  ctl->add_flag("--all", all, "status: every link and switch");
  ctl->add_flag("--json", json, "status: as JSON, complete");
  ctl->fallthrough();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ConfigError& error) {
    constexpr std::string_view kUnknown = "INI was not able to parse ";
    std::string what = error.what();
    if (what.starts_with(kUnknown)) what = "'" + what.substr(kUnknown.size()) + "' is none of the options";
    fmt::print(stderr, "mrc-switch: the file of --fabric: {} (see mrc-switch --help)\n", what);
    exit_code = 1;
    return false;
  } catch (const CLI::ParseError& error) {
    exit_code = error.get_exit_code();
    if (exit_code == 0) {
      app.exit(error);
    } else {
      if (ctl->parsed()) exit_code = 1;
      // One line with the reason: a client that started us passes on our last one.
      fmt::print(stderr, "mrc-switch: {} (see mrc-switch --help)\n", error.what());
    }
    return false;
  }
  if (all) out.ctl.push_back("--all");
  if (json) out.ctl.push_back("--json");
  out.may_corrupt = app.count("--corrupt") > 0 || !out.uplinks.empty();
  if (!out.uplinks.empty()) {
    if (out.uplinks.size() > 8) {
      fmt::print(stderr, "mrc-switch: at most 8 uplinks: one per plane\n");
      exit_code = 2;
      return false;
    }
    out.planes = static_cast<unsigned>(out.uplinks.size());
  } else if (!out.routes.empty()) {
    fmt::print(stderr, "mrc-switch: --route leads out of a machine: give --uplink too\n");
    exit_code = 2;
    return false;
  }
  return true;
}

}  // namespace mrc::soft
