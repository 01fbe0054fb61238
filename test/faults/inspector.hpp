// SPDX-License-Identifier: BSD-2-Clause
// Looks into the cores: the audit after every round of a node's loop, and the path of every data packet.
#pragma once

#include <vector>

#include "ledger.hpp"
#include "mrc/fabric/sim.hpp"

namespace mrc::faults {

class Inspector {
 public:
  Inspector(fabric::Sim& sim, Ledger& ledger) : sim_(sim), ledger_(ledger), nodes_(sim.nodes()) {}

  /// After each round: the quick audit; the full one in turn, so that its cost stays a few dozen records a round.
  void on_progress(unsigned node);
  /// Each data packet with a payload, as it leaves.
  void on_data(const Entry& entry, const transport::TxPacket& packet);
  std::uint64_t full_audits() const { return full_audits_; }

 private:
  struct PerNode {
    std::uint32_t rounds_left = 0;
    std::vector<std::uint32_t> scratch;
  };
  fabric::Sim& sim_;
  Ledger& ledger_;
  std::vector<PerNode> nodes_;
  std::uint64_t full_audits_ = 0;
};

}  // namespace mrc::faults
