// SPDX-License-Identifier: BSD-2-Clause
// The one text language for changing a running fabric: `mrc-switch ctl`, timelines and experiments.
//
//   [WHERE] ACTION …            words between blanks; several actions may follow one another
//
//   WHERE                       nothing: the whole fabric
//     plane P                   all of a plane
//     link A B [plane P]        both directions between A and B, in one plane or in all
//     port NIC [plane P]        the link between a NIC and its T0
//     switch S [plane P]
//     A, B, S                   t0-N, t1-N; NICs: nicN or nic-N, numbered in turn over the T0s (t0 = N mod t0s, as
//                               mrc-switch and the simulator place them), or nicT0.INDEX
//   ACTION
//     down | up                 not for the whole fabric. `up` also ends flapping
//     loss P | duplicate P | corrupt P | ecn P | trim P      chance per packet: 0.001 or 0.1%
//     reorder P [TIME]          held back by TIME
//     delay TIME                5us, 2ms, 1s, 300ns; a bare number is microseconds
//     burst P LENGTH [LOSS]     bursts of losses: chance to start one, its mean length in packets, loss within (1)
//     flap PERIOD SHARE [PHASE] links: down for the first SHARE of each PERIOD of the clock; `flap off`
//     rate 25% | rate 10G | rate full     links, ports and planes: of the configured rate; K, M, G, T bits per second
//     clear                     faults off here; for the whole fabric: everywhere
//     ecn on|off, trim on|off   whole fabric: whether queues mark and trim at all
//     oneway                    links: only from A to B
//
// Chances are set, not added up: `loss 0` ends it. A fabric-wide or plane-wide chance applies once per packet (on its
// first link), a switch's or link's at each crossing. Older words that stay: `t0 P N up|down`, `t1 P N up|down`,
// `link P T0 T1 up|down`, `nic P T0 N up|down`, `impair [plane P] loss|dup|reorder|corrupt|ecn|trim P … delay TIME …`.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "mrc/fabric/clos.hpp"
#include "mrc/result.hpp"

namespace mrc::fabric {

/// What a command touched (each direction of a link counts). A NIC whose port is among them may have lost or got
/// carrier: ask Clos::carrier().
struct Applied {
  std::vector<LinkId> links{};
  std::vector<SwitchId> switches{};
  std::vector<unsigned> planes{};
  bool fabric = false;  ///< the whole of it
};

struct CommandRules {
  /// False: `corrupt` is refused with this reason (mrc-switch, when its clients send no iCRC).
  bool may_corrupt = true;
  std::string_view why_not_corrupt = "nothing may be corrupted here";
};

/// Nothing changes where an error is returned: EINVAL for words, ENOENT for what this fabric does not have, EPERM.
Result<Applied> apply_command(Clos& clos, std::string_view text, const CommandRules& rules = {});
/// The same without applying it: for checking a timeline before it runs.
Result<Applied> check_command(const Clos& clos, std::string_view text, const CommandRules& rules = {});

// Parts of the language, for option parsers. Errors are sentences.
Result<double> parse_chance(std::string_view text);       ///< "0.01", "1%"
Result<Duration> parse_time(std::string_view text);       ///< "5us"; a bare number is microseconds
Result<std::uint64_t> parse_rate(std::string_view text);  ///< "10G", "2.5G", "400000000"
/// "t0-1", "t1-2", "nic3", "nic-3", "nic0.3": as the language writes them.
std::string name_of(const Clos& clos, const SwitchId& id);
std::string nic_name(const Clos& clos, const path::Location& nic);

}  // namespace mrc::fabric
