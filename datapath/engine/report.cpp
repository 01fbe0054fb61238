// SPDX-License-Identifier: BSD-2-Clause
// The parts of the report (report.hpp). All with the engine locked.
#include "mrc/engine/report.hpp"

#include <unistd.h>

#include <nlohmann/json.hpp>

#include "mrc/engine/counter_table.hpp"
#include "mrc/engine/engine_impl.hpp"
#include "mrc/transport/info.hpp"

namespace mrc::engine {
namespace {

using Json = nlohmann::ordered_json;

template <class T, class Table>
Json table_json(const T& counters, const Table& table) {
  Json out = Json::object();
  for (const auto& counter : table) out[counter.text.name] = counters.*(counter.value);
  return out;
}

Json transport_json(const transport::Counters& c) {
  Json out = table_json(c, transport_counters());
  Json& malformed = out["rx_malformed"] = Json::object();
  for (std::size_t i = 1; i < c.rx_malformed.size(); ++i) {
    malformed[std::string(wire::to_string(static_cast<wire::ParseError>(i)))] = c.rx_malformed[i];
  }
  return out;
}

const char* state_name(path::EvState state) {
  switch (state) {
    case path::EvState::kGood:
      return "good";
    case path::EvState::kSkip:
      return "skip";
    case path::EvState::kAssumedBad:
      return "assumed_bad";
    case path::EvState::kDenied:
      return "denied";
  }
  return "?";
}

const char* phase_name(transport::ConnectionPhase phase) {
  using transport::ConnectionPhase;
  switch (phase) {
    case ConnectionPhase::kFree:
    case ConnectionPhase::kIdle:
      return "idle";
    case ConnectionPhase::kConnecting:
      return "connecting";
    case ConnectionPhase::kEstablished:
      return "established";
    case ConnectionPhase::kClosing:
      return "closing";
    case ConnectionPhase::kClosed:
      return "closed";
  }
  return "?";
}

const char* cc_name(transport::CcKind kind) {
  using transport::CcKind;
  switch (kind) {
    case CcKind::kAuto:
    case CcKind::kFixed:
      return "fixed";
    case CcKind::kNscc:
      return "nscc";
    case CcKind::kSwift:
      return "swift";
  }
  return "?";
}

Json counts_json(const transport::EvCounts& counts) {
  return {{"good", counts.good}, {"skip", counts.skip}, {"assumed_bad", counts.assumed_bad}, {"denied", counts.denied}};
}

std::string peer_text(const Link& link) {
  return to_text(link.peer.ipv4) + ":" + std::to_string(link.peer.port);
}

Json connection_json(transport::ConnId id, const Link& link, std::uint16_t local,
                     const transport::ConnectionInfo& info) {
  Json out = {{"id", id},
              {"local", local},
              {"peer", peer_text(link)},
              {"phase", phase_name(info.phase)},
              {"established", info.phase == transport::ConnectionPhase::kEstablished},
              {"remote_t0", info.remote_location.t0},
              {"remote_nic", info.remote_location.nic},
              {"payload_mtu", info.payload_mtu},
              {"una", info.una},
              {"next", info.next},
              {"rx_next", info.rx_next},
              {"window", info.window},
              {"inflight", info.inflight_packets},
              {"inflight_bytes", info.inflight_bytes},
              {"lost_packets", info.lost_packets},
              {"messages", info.messages},
              {"cc", cc_name(info.cc)},
              {"cwnd", info.cwnd},
              {"cwnd_max", info.cwnd_max},
              {"cc_base_rtt_ns", info.cc_base_rtt.ns},
              {"cc_target_ns", info.cc_target.ns},
              {"cc_delay_ns", info.cc_delay.ns},
              {"cc_average_ns", info.cc_average.ns},
              {"penalty", info.penalty},
              {"srtt_ns", info.rtt_valid ? info.srtt.ns : 0},
              {"rtt_var_ns", info.rtt_valid ? info.rtt_var.ns : 0},
              {"rtt_min_ns", info.rtt_valid ? info.rtt_min.ns : 0},
              {"rto_ns", info.rto.ns},
              {"backoff", info.backoff},
              {"tail_probes", info.tail_probes},
              {"ev_states", counts_json(info.evs)}};
  Json& planes = out["planes"] = Json::array();
  for (unsigned p = 0; p < info.planes; ++p) {
    const transport::ConnectionPlaneInfo& plane = info.plane[p];
    planes.push_back({{"plane", p},
                      {"up", plane.up},
                      {"tx_packets", plane.tx_packets},
                      {"retransmitted", plane.retransmitted},
                      {"lost", plane.lost},
                      {"in_use", plane.in_use},
                      {"weight", plane.weight},
                      {"inflight_bytes", plane.inflight_bytes},
                      {"marked", plane.marked},
                      {"trimmed", plane.trimmed},
                      {"reordering_ns", plane.reordering.ns},
                      {"ev_states", counts_json(plane.evs)}});
  }
  return out;
}

}  // namespace

std::string_view to_string(ReportPart part) {
  return telemetry_texts()[static_cast<std::size_t>(part)].command;
}

Json EngineImpl::port_report(unsigned index) const {
  const port::Port* port = planes_[index].port;
  if (port == nullptr) return nullptr;
  Json out = {{"name", port->name()}, {"mtu", port->mtu()}};
  out.update(table_json(port->counters(), port_counters()));
  return out;
}

Json EngineImpl::report_locked(ReportPart part, std::uint32_t id) const {
  const transport::Counters& core = core_->counters();
  Json out = Json::object();
  switch (part) {
    case ReportPart::kInfo:
      out["pid"] = getpid();
      out["ipv4"] = to_text(ipv4());
      out["attachment"] = attachment_->describe();
      out["icrc"] = icrc_;
      out["distinct_evs"] = {{"tx", tx_evs_.distinct()}, {"rx", rx_evs_.distinct()}};
      break;
    case ReportPart::kCounters:
      out["transport"] = transport_json(core);
      out["driver"] = table_json(counters_, driver_counters());
      out["pools"] = table_json(core_->pool_levels(), pool_levels());
      break;
    case ReportPart::kPorts:
      out = Json::array();
      for (unsigned p = 0; p < planes_count_; ++p) out.push_back(port_report(p));
      break;
    case ReportPart::kPlanes:
      out = Json::array();
      for (unsigned p = 0; p < planes_count_; ++p) {
        out.push_back({{"plane", p},
                       {"up", planes_[p].told_up},
                       {"tx_packets", core.tx_plane[p]},
                       {"rx_packets", core.rx_plane[p]},
                       {"tx_bytes", core.tx_plane_bytes[p]},
                       {"rx_bytes", core.rx_plane_bytes[p]}});
      }
      break;
    case ReportPart::kConnections: {
      unsigned listed = 0;
      std::uint32_t total = 0;
      std::uint32_t more = transport::kNoId;
      Json list = Json::object();
      links_.each_id([&](transport::ConnId at, const Link& link) {
        ++total;
        if (at < id) return;
        if (listed == kConnectionsAtOnce) {
          more = std::min(more, at);
          return;
        }
        ++listed;
        const auto phase =
            link.core == transport::kNoId ? transport::ConnectionPhase::kIdle : core_->info(link.core).phase;
        list[std::to_string(at)] = peer_text(link) + " " + phase_name(phase);
      });
      out["total"] = total;
      if (more != transport::kNoId) out["next"] = more;
      out["list"] = std::move(list);
      break;
    }
    case ReportPart::kConnection: {
      const Link* link = links_.at(id);
      if (link == nullptr) return nullptr;
      const transport::ConnectionInfo info =
          link->core == transport::kNoId ? transport::ConnectionInfo{} : core_->info(link->core);
      return connection_json(id, *link, endpoints_[link->ep]->name.port, info);
    }
    case ReportPart::kEvs: {
      const Link* link = links_.at(id);
      if (link == nullptr) return nullptr;
      if (link->core == transport::kNoId) return out;
      for (const path::Ev& ev : core_->evs(link->core)) {
        out["plane" + std::to_string(ev.plane)][state_name(ev.state)].push_back(ev.value);
      }
      break;
    }
  }
  return out;
}

std::string EngineImpl::stats_json_locked(bool evs) const {
  Json out = report_locked(ReportPart::kInfo, 0);
  out.update(report_locked(ReportPart::kCounters, 0));
  Json& planes = out["planes"] = report_locked(ReportPart::kPlanes, 0);
  for (unsigned p = 0; p < planes_count_; ++p) {
    if (planes_[p].port != nullptr) planes[p]["port"] = port_report(p);
  }
  if (!evs) return out.dump(1);
  Json& connections = out["connections"] = Json::array();
  links_.each_id([&](transport::ConnId id, const Link& link) {
    if (link.core == transport::kNoId) return;
    Json one = report_locked(ReportPart::kConnection, id);
    Json& list = one["evs"] = Json::array();
    for (const path::Ev& ev : core_->evs(link.core)) {
      list.push_back({{"ev", ev.value}, {"plane", ev.plane}, {"state", state_name(ev.state)}});
    }
    connections.push_back(std::move(one));
  });
  return out.dump(1);
}

}  // namespace mrc::engine
