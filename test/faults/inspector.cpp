// SPDX-License-Identifier: BSD-2-Clause
// Audits of the cores, and the rule that no dead EV is used while enough live ones are there.
#include "inspector.hpp"

#include <fmt/format.h>

#include "mrc/transport/audit.hpp"
#include "mrc/transport/state.hpp"

namespace mrc::faults {
namespace {

/// A full walk waits for this many rounds per … records (and lists) that the last one looked at.
constexpr std::uint32_t kRecordsPerRound = 24;

std::uint32_t ev_of(const transport::TxPacket& packet, wire::EvSplit split) {
  const std::size_t inner = packet.outer ? 40 : 0;
  const auto byte = [&](std::size_t at) { return static_cast<std::uint32_t>(packet.header[inner + at]); };
  const std::uint32_t label = byte(2) << 8 | byte(3);
  const std::uint32_t port = byte(40) << 8 | byte(41);
  return split == wire::EvSplit::kHighInPort ? port << 16 | label : label << 16 | port;
}

}  // namespace

void Inspector::on_progress(unsigned node) {
  PerNode& n = nodes_[node];
  const transport::Core& core = sim_.core(node);
  transport::Finding finding;
  if (n.rounds_left != 0) {
    --n.rounds_left;
    finding = transport::audit_quick(core, sim_.now());
  } else {
    n.scratch.resize(transport::audit_scratch(core));
    std::uint32_t walked = 0;
    finding = transport::audit_full(core, sim_.now(), n.scratch, &walked);
    n.rounds_left = (walked + static_cast<std::uint32_t>(n.scratch.size()) / 16) / kRecordsPerRound;
    ++full_audits_;
  }
  if (!finding) return;
  ledger_.violate(finding.what, fmt::format("node {}, connection {}: {} against {}", node, finding.conn, finding.found,
                                            finding.expected));
}

void Inspector::on_data(const Entry& entry, const transport::TxPacket& packet) {
  const transport::Core::State& s = sim_.core(entry.op.from).state();
  const transport::EpId ep = 0;
  transport::ConnId id = s.find_connection(ep, packet.destination);
  for (transport::EpId other = 1; id == transport::kNoId && other < s.endpoints.size(); ++other) {
    id = s.find_connection(other, packet.destination);
  }
  if (id == transport::kNoId) return ledger_.violate("data is sent on a connection that is no more", {});
  const path::EvSet& set = s.connections[id].evs;
  const std::uint32_t value = ev_of(packet, s.config.wire.ev_split);
  const auto index = set.find(value);
  const auto where = [&] { return fmt::format("node {}, connection {}, EV {:#x}", entry.op.from, id, value); };
  if (!index) return ledger_.violate("data is sent on an EV that is not the connection's", where());
  const path::Ev& ev = set.all()[*index];
  if (ev.plane != packet.plane) ledger_.violate("data is sent on another plane than its EV's", where());
  if (!(s.links_up >> packet.plane & 1)) ledger_.violate("data is sent on a plane whose link is down", where());
  if (ev.state == path::EvState::kDenied) return ledger_.violate("data is sent on a denied EV", where());
  if (ev.state != path::EvState::kAssumedBad) return;
  // Bad ones are taken on only where their plane has less than its share of the floor.
  unsigned live = 0;
  for (const path::Ev& other : set.all()) {
    live += other.plane == ev.plane && other.active &&
            (other.state == path::EvState::kGood || other.state == path::EvState::kSkip);
  }
  const unsigned planes = std::max<unsigned>(s.connections[id].route.planes, 1);
  const unsigned share = std::max((s.config.ev.min_active + planes - 1) / planes, 1u);
  if (!ev.conscripted || live >= share) {
    ledger_.violate("data is sent on a dead EV while enough live ones are there",
                    where() + fmt::format(", {} live", live));
  }
}

}  // namespace mrc::faults
