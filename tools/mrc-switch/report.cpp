// SPDX-License-Identifier: BSD-2-Clause
// `mrc-switch ctl stats` and `list`: the state of the switch as JSON.
#include <fmt/format.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "server.hpp"

namespace mrc::soft {
namespace {

using Json = nlohmann::ordered_json;

std::string dotted(std::uint32_t ipv4) {
  return fmt::format("{}.{}.{}.{}", ipv4 >> 24, ipv4 >> 16 & 0xff, ipv4 >> 8 & 0xff, ipv4 & 0xff);
}

Json drops_json(const std::array<std::uint64_t, kDrops>& drops) {
  Json out = Json::object();
  for (std::size_t i = 1; i < kDrops; ++i) {
    if (drops[i] != 0) out[to_string(static_cast<Drop>(i))] = drops[i];
  }
  return out;
}

Json fabric_drops_json(const std::array<std::uint64_t, fabric::kDropCauses>& drops) {
  Json out = Json::object();
  for (std::size_t i = 1; i < fabric::kDropCauses; ++i) {
    if (drops[i] != 0) out[std::string(fabric::to_string(static_cast<fabric::DropCause>(i)))] = drops[i];
  }
  return out;
}

Json output_json(const Output& output) {
  return {{"rx_frames", output.rx_frames},
          {"rx_bytes", output.rx_bytes},
          {"tx_frames", output.tx_frames},
          {"tx_bytes", output.tx_bytes},
          {"tx_dropped", output.tx_dropped},
          {"waiting", output.waiting.size()},
          {"link_up", output.port && output.port->link_up()}};
}

Json member_json(const Member& member, bool counters) {
  Json out{{"name", member.name},
           {"pid", member.pid},
           {"ipv4", dotted(member.ipv4)},
           {"t0", member.location.t0},
           {"nic", member.location.nic}};
  Json endpoints = Json::array();
  for (const auto& key : member.endpoints) endpoints.push_back(fmt::format("{}:{}", dotted(key.ipv4), key.port));
  out["endpoints"] = std::move(endpoints);
  if (!counters) return out;
  out["dropped"] = drops_json(member.dropped);
  for (const auto& output : member.outputs) out["planes"].push_back(output_json(output));
  return out;
}

Json link_json(const fabric::LinkId& id, const fabric::LinkCounters& c, bool down) {
  static constexpr std::array kNames{"nic-t0", "t0-nic", "t0-t1", "t1-t0"};
  Json out{{"kind", kNames[static_cast<std::size_t>(id.kind)]},
           {"plane", id.plane},
           {"t0", id.t0},
           {"far", id.far},
           {"packets", c.packets},
           {"forwarded", c.forwarded}};
  if (down) out["down"] = true;
  if (auto drops = fabric_drops_json(c.drops); !drops.empty()) out["drops"] = std::move(drops);
  return out;
}

}  // namespace

std::string Server::list_json() const {
  Json out = Json::array();
  for (const auto& member : forwarder_.members()) {
    if (member) out.push_back(member_json(*member, false));
  }
  return out.dump(2) + "\n";
}

std::string Server::stats_json() const {
  fabric::Clos& clos = forwarder_.clos();
  Json out{{"pid", ::getpid()},
           {"incarnation", fmt::format("{:016x}", incarnation_)},
           {"planes", forwarder_.planes()},
           {"t0s", clos.config().t0s},
           {"t1s", clos.config().t1s},
           {"mtu", options_.mtu},
           {"uplinks", forwarder_.uplinks() != nullptr},
           {"frames_held", forwarder_.frames_held()},
           {"bad_messages", bad_messages_}};
  const auto totals = clos.totals();
  out["fabric"] = {
      {"offered", totals.offered},     {"delivered", totals.delivered}, {"duplicated", totals.duplicated},
      {"corrupted", totals.corrupted}, {"reordered", totals.reordered}, {"marked", totals.marked},
      {"trimmed", totals.trimmed},     {"dropped", totals.dropped()},   {"drops", fabric_drops_json(totals.drops)}};
  for (unsigned plane = 0; plane < forwarder_.planes(); ++plane) {
    const auto& c = forwarder_.counters(plane);
    Json one{{"plane", plane},
             {"up", forwarder_.plane_up(plane)},
             {"forwarded", c.forwarded},
             {"bytes", c.bytes},
             {"delayed", c.delayed},
             {"marked", c.marked},
             {"drops", drops_json(c.drops)}};
    one["fabric_drops"] = fabric_drops_json(c.fabric_drops);
    if (Uplinks* uplinks = forwarder_.uplinks()) one["uplink"] = output_json(uplinks->output(plane));
    out["plane_counters"].push_back(std::move(one));
  }
  out["clients"] = Json::array();
  for (const auto& member : forwarder_.members()) {
    if (member) out["clients"].push_back(member_json(*member, true));
  }
  out["links"] = Json::array();
  clos.for_each_link([&](const fabric::LinkId& id) {
    const auto* counters = clos.link_counters(id);
    const bool down = clos.link_down(id);
    if (counters != nullptr && (counters->packets != 0 || down)) out["links"].push_back(link_json(id, *counters, down));
  });
  return out.dump(1) + "\n";
}

}  // namespace mrc::soft
