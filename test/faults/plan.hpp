// SPDX-License-Identifier: BSD-2-Clause
// One run, as data: everything that a seed determines, so that a failing run can be printed, shortened and repeated.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mrc/fabric/sim.hpp"

namespace mrc::faults {

/// What is right about a write, and so how it must end.
enum class Fate : std::uint8_t {
  kGood,    ///< must arrive
  kBadKey,  ///< names no memory: the peer refuses all of it
  kBeyond,  ///< leaves its memory half-way: the peer refuses what lies outside
};

struct Operation {
  std::uint32_t from = 0, to = 0;
  Duration at{};  ///< since the start of the run
  std::uint32_t length = 0;
  Fate fate = Fate::kGood;
  bool imm = false;
  bool urgent = false;
  bool semantic = false;  ///< done when the peer says that it took effect
};

enum class FaultKind : std::uint8_t {
  kImpair,   ///< chances of loss, bursts, corruption, …, and delay
  kDown,     ///< link (or one direction of it), switch, plane
  kRate,     ///< link or plane gets slower
  kFlap,     ///< a link goes up and down
  kQueues,   ///< no queue marks, or none trims, any more
  kDeny,     ///< a node's operator denies some paths
  kPause,    ///< a node makes no progress, packets wait
  kRestart,  ///< another process takes the node's place at once (its endpoint a new incarnation)
  kDie,      ///< a process that never comes back
  kClose,    ///< the endpoint closes cleanly
  kReopen,   ///< the endpoint closes, and is opened anew when the fault ends
};

struct Fault {
  enum class Where : std::uint8_t { kFabric, kPlane, kSwitch, kLink, kOneWay };
  FaultKind kind = FaultKind::kImpair;
  Where where = Where::kFabric;
  Duration at{};
  Duration lasts{};
  Duration period{};  ///< kFlap
  double share = 0;   ///< kFlap: of the period, down; kRate: of the configured rate
  std::uint32_t node = 0;
  std::uint8_t plane = 0;
  fabric::LinkId link{};  ///< kOneWay: in this direction
  fabric::SwitchId at_switch{};
  fabric::Impairment impairment{};
  bool trim = false;  ///< kQueues: no trimming instead of no marking
};

struct Plan;

/// A fault of the fabric in the language of fabric::apply_command(): how it begins, and how it ends.
std::string command(const Fault& fault, const Plan& plan, bool begins);
bool is_fabric(const Fault& fault);

struct Plan {
  std::uint64_t seed = 0;
  fabric::SimConfig sim{};
  std::vector<Operation> operations;
  std::vector<Fault> faults;

  Duration clear_at() const;  ///< when the last fault has ended
  std::uint64_t bytes() const;
};

/// Everything hangs on the seed.
Plan make_plan(std::uint64_t seed);

/// For people: topology, knobs, each operation, each fault.
std::string to_string(const Plan& plan);
std::string to_string(const Fault& fault, const Plan& plan);
std::string to_string(const Operation& operation);

/// Drops what refers to nodes, planes or switches that are no more; used when a plan was shortened.
void prune(Plan& plan);

}  // namespace mrc::faults
