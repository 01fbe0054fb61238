// SPDX-License-Identifier: BSD-2-Clause
// All counters of the process as JSON: what FI_MRC_STATS writes at exit and what tests read. Meaning of each name:
// the comments of transport::Counters, DriverCounters and port::PortCounters.
#include <unistd.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "mrc/engine/engine_impl.hpp"

namespace mrc::engine {
namespace {

using Json = nlohmann::ordered_json;

Json transport_json(const transport::Counters& c) {
  Json out;
#define MRC_PUT(name) out[#name] = c.name
  MRC_PUT(tx_data), MRC_PUT(tx_retransmit), MRC_PUT(tx_sack), MRC_PUT(tx_nack), MRC_PUT(tx_ack), MRC_PUT(tx_probe);
  MRC_PUT(tx_endpoint), MRC_PUT(rx_data), MRC_PUT(rx_duplicate), MRC_PUT(rx_out_of_window), MRC_PUT(rx_sack);
  MRC_PUT(rx_nack), MRC_PUT(rx_ack), MRC_PUT(rx_probe), MRC_PUT(rx_endpoint), MRC_PUT(rx_trimmed), MRC_PUT(rx_ecn);
  MRC_PUT(rx_no_endpoint), MRC_PUT(rx_no_connection), MRC_PUT(rx_refused), MRC_PUT(rto), MRC_PUT(spurious);
  MRC_PUT(ev_blamed), MRC_PUT(ev_restored), MRC_PUT(ev_replaced), MRC_PUT(connects), MRC_PUT(accepts),
      MRC_PUT(peers_dead);
  MRC_PUT(tx_bytes), MRC_PUT(rx_bytes);
#undef MRC_PUT
  Json& malformed = out["rx_malformed"] = Json::object();
  for (std::size_t i = 1; i < c.rx_malformed.size(); ++i) {
    malformed[std::string(wire::to_string(static_cast<wire::ParseError>(i)))] = c.rx_malformed[i];
  }
  return out;
}

Json driver_json(const DriverCounters& c) {
  Json out;
#define MRC_PUT(name) out[#name] = c.name
  MRC_PUT(rx_frames), MRC_PUT(tx_frames), MRC_PUT(loop_frames), MRC_PUT(rx_bad_icrc), MRC_PUT(rx_not_ipv6);
  MRC_PUT(rx_not_ours), MRC_PUT(rx_neighbour), MRC_PUT(rx_too_long), MRC_PUT(rx_runt), MRC_PUT(rx_cut_off);
  MRC_PUT(tx_no_neighbour), MRC_PUT(tx_unfit), MRC_PUT(tx_no_room), MRC_PUT(polls), MRC_PUT(empty_polls);
  MRC_PUT(yields), MRC_PUT(naps), MRC_PUT(service_wakeups), MRC_PUT(restarts);
#undef MRC_PUT
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

}  // namespace

std::string EngineImpl::stats_json_locked(bool evs) const {
  const transport::Counters& core = core_->counters();
  Json out;
  out["pid"] = getpid();
  out["ipv4"] = to_text(ipv4());
  out["attachment"] = attachment_->describe();
  out["icrc"] = icrc_;
  out["transport"] = transport_json(core);
  out["driver"] = driver_json(counters_);
  out["distinct_evs"] = {{"tx", tx_evs_.distinct()}, {"rx", rx_evs_.distinct()}};
  Json& planes = out["planes"] = Json::array();
  for (unsigned p = 0; p < planes_count_; ++p) {
    const Plane& plane = planes_[p];
    Json one = {{"plane", p},
                {"up", plane.told_up},
                {"tx_packets", core.tx_plane[p]},
                {"rx_packets", core.rx_plane[p]},
                {"tx_bytes", core.tx_plane_bytes[p]},
                {"rx_bytes", core.rx_plane_bytes[p]}};
    if (plane.port != nullptr) {
      const port::PortCounters c = plane.port->counters();
      one["port"] = {{"name", plane.port->name()}, {"mtu", plane.port->mtu()},  {"rx_frames", c.rx_frames},
                     {"rx_bytes", c.rx_bytes},     {"tx_frames", c.tx_frames},  {"tx_bytes", c.tx_bytes},
                     {"tx_dropped", c.tx_dropped}, {"rx_dropped", c.rx_dropped}};
    }
    planes.push_back(std::move(one));
  }
  if (evs) {
    Json& connections = out["connections"] = Json::array();
    links_.each([&](const Link& link) {
      if (link.core == transport::kNoId) return;
      Json one = {{"local", endpoints_[link.ep]->name.port},
                  {"peer", to_text(link.peer.ipv4) + ":" + std::to_string(link.peer.port)},
                  {"established", core_->established(link.core)},
                  {"payload_mtu", core_->payload_mtu(link.core)},
                  {"inflight", core_->inflight_packets(link.core)}};
      Json& list = one["evs"] = Json::array();
      for (const path::Ev& ev : core_->evs(link.core)) {
        list.push_back({{"ev", ev.value}, {"plane", ev.plane}, {"state", state_name(ev.state)}});
      }
      connections.push_back(std::move(one));
    });
  }
  return out.dump(1);
}

void EngineImpl::finish() {
  if (dead() || finished_.exchange(true)) return;
  stop_service();
  const bool locked = try_lock();  // at exit another thread may hold it for ever
  if (!config_.stats_path.empty()) {
    const std::string path = config_.stats_path + "." + std::to_string(getpid()) + ".json";
    if (std::FILE* file = std::fopen(path.c_str(), "we")) {
      const std::string text = stats_json_locked(true);
      std::fwrite(text.data(), 1, text.size(), file);
      std::fputc('\n', file);
      std::fclose(file);
    } else {
      log(0, "cannot write " + path + " (FI_MRC_STATS): " + std::strerror(errno));
    }
  }
  if (capture_) capture_->flush();
  if (locked) unlock();
}

}  // namespace mrc::engine
