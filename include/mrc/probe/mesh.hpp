// SPDX-License-Identifier: BSD-2-Clause
// Mesh probing (mrc-protocol §2): which source-routed loop-back paths a host has, and which links or switches are bad,
// judged by what came back over each path. Sans-IO; tools/mrc-probe is the driver.
//
//   T0 | NIC                         out and back over our own link (as uSIDs; a = our T0)
//   T0 | T1(k) | T0 | NIC            … and over a – k, both ways
//   T0 | T1(k) | T0(j) | T1(k) | T0 | NIC     … and over k – j, both ways: six uSIDs, all that a carrier holds
//
// From one host some faults look alike: all its paths to T1 k lead over the link a – k. Findings name what else it may
// be; results of hosts under other T0s, taken together, tell them apart.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "mrc/path/denylist.hpp"
#include "mrc/path/route.hpp"
#include "mrc/path/usid.hpp"

namespace mrc::probe {

enum class Part : std::uint8_t { kNicLink, kLink, kT0, kT1 };

/// A link (of a NIC to its T0, or between T0 and T1, both directions) or a switch of one plane.
struct Element {
  Part part = Part::kLink;
  std::uint8_t plane = 0;
  std::uint16_t t0 = 0;   ///< all but kT1
  std::uint16_t far = 0;  ///< kNicLink: the NIC's index; kLink, kT1: the T1's
  auto operator<=>(const Element&) const = default;
};

/// "t0-1 – t1-2 plane 0", "nic-3 – t0-1 plane 0", "t1-2 plane 0".
std::string to_string(const Element& element);
/// The denylist entry that keeps packets away from it.
path::DenyRule deny_rule(const Element& element);

struct Path {
  std::uint8_t plane = 0;
  std::uint8_t count = 0;  ///< uSIDs
  std::array<std::uint16_t, path::kMaxUsids> usids{};
  std::vector<Element> links;  ///< each once, though crossed twice
};

struct Shape {
  std::uint8_t planes = 1;
  std::vector<std::uint16_t> t0s;  ///< indices of the T0 switches; ours need not be among them
  std::uint16_t t1s = 1;           ///< per plane
  path::Location self{};
  path::UsidLayout usid{};
};

/// Every path of the host, plane by plane.
std::vector<Path> paths_of(const Shape& shape);

/// What happened on one path.
struct Result {
  std::vector<Element> links;
  std::uint64_t sent = 0, lost = 0;
};

struct Rules {
  double threshold = 0.01;     ///< a path that loses no more than this is good
  std::uint64_t min_lost = 3;  ///< fewer losses on a path are chance
};

struct Finding {
  Element element{};
  std::vector<Element> or_else;      ///< what no path tells from it
  double loss = 0;                   ///< of probes that cross it (twice), others' losses taken out
  std::uint64_t sent = 0, lost = 0;  ///< of all paths over it
  bool down() const { return loss > 0.98; }
};

enum class Verdict : std::uint8_t {
  kGood,    ///< probes came back over it
  kBad,     ///< it, or a switch at its end, is named by a finding
  kHidden,  ///< every path over it is bad for another reason: nothing is known
};

struct LinkState {
  Element link{};
  Verdict verdict = Verdict::kGood;
  std::uint64_t sent = 0, lost = 0;
};

struct Diagnosis {
  std::vector<Finding> findings;  ///< what explains most comes first
  std::vector<LinkState> links;   ///< every link that was probed, in order
};

/// The smallest set of bad elements that explains the losses, found greedily. A link that good paths lead over is never
/// accused; of what explains the same, links are named before switches.
Diagnosis localize(std::span<const Result> results, const Rules& rules = {});

}  // namespace mrc::probe
