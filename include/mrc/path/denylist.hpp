// SPDX-License-Identifier: BSD-2-Clause
// The operator's denylist: which links and switches no packet may take (mrc-protocol §2, "any -> DENIED"). Made by hand
// or by mrc-probe; the core turns the rules into DENIED EVs, connection by connection (Core::set_denylist).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "mrc/path/route.hpp"

namespace mrc::path {

inline constexpr std::size_t kMaxDenyRules = 512;

/// One entry; -1 = any. What it names:
///   t0 and t1   the link between these two switches        t0 alone   that T0 switch
///   t1 alone    that T1 switch                             t0 and nic the link between that NIC and its T0
///   plane alone the whole plane                            ev         this one value, wherever it leads
/// `plane` narrows each of them to one plane; without it they count in every plane. Switches and NICs are known in
/// SRv6 mode only: elsewhere only rules with nothing but plane or EV count.
struct DenyRule {
  std::int16_t plane = -1;
  std::int16_t t0 = -1;   ///< index of a T0 switch
  std::int16_t t1 = -1;   ///< index of a T1 switch = uplink of its T0s
  std::int16_t nic = -1;  ///< index below `t0`
  std::int64_t ev = -1;   ///< 0 … 2^32-1
  bool operator==(const DenyRule&) const = default;

  /// Whether a packet with this EV and plane, on this route, would take what the rule names (both ways alike).
  bool covers(const Route& route, std::uint32_t value, unsigned on_plane) const;
};

/// Whether any of the rules covers it.
bool denied(std::span<const DenyRule> rules, const Route& route, std::uint32_t value, unsigned on_plane);

}  // namespace mrc::path
