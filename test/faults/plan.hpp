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
};

enum class FaultKind : std::uint8_t {
  kGlobal,      ///< impairment of every packet
  kPlane,       ///< … of one plane
  kSwitch,      ///< … of one switch
  kLink,        ///< … of one direction of a link
  kPlaneDown,   ///< all of a plane
  kSwitchDown,  ///< with all its links
  kCableDown,   ///< both directions
  kLinkDown,    ///< one direction
  kPause,       ///< a node makes no progress, packets wait
  kRestart,     ///< another process takes the node's place at once (its endpoint a new incarnation)
  kDie,         ///< a process that never comes back
  kClose,       ///< the endpoint closes cleanly
  kReopen,      ///< the endpoint closes, and is opened anew when the fault ends
};

struct Fault {
  FaultKind kind = FaultKind::kGlobal;
  Duration at{};
  Duration lasts{};
  Duration period{};  ///< not 0: flaps, half of each period down
  std::uint32_t node = 0;
  std::uint8_t plane = 0;
  fabric::LinkId link{};
  fabric::SwitchId at_switch{};
  fabric::Impairment impairment{};
};

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
std::string to_string(const Fault& fault);
std::string to_string(const Operation& operation);

/// Drops what refers to nodes, planes or switches that are no more; used when a plan was shortened.
void prune(Plan& plan);

}  // namespace mrc::faults
