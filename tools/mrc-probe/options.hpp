// SPDX-License-Identifier: BSD-2-Clause
// mrc-probe's command line.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mrc/probe/mesh.hpp"

namespace mrc::tool {

struct Options {
  std::string ports, config, socket;  ///< as FI_MRC_PORTS, FI_MRC_CONFIG, FI_MRC_SWITCH_SOCKET
  unsigned t0s = 0;                   ///< 0: from the configuration or the switch
  double rate = 2000;                 ///< probes a second, all paths together
  double duration = 5;                ///< seconds
  double wait = 0.5;                  ///< seconds for the last ones to come back
  unsigned size = 0;                  ///< bytes to pad probes with
  unsigned rounds = 1;                ///< 0: until interrupted
  probe::Rules rules{};
  std::uint64_t seed = 1;
  bool all = false;
  bool json = false;
  std::string denylist;
  std::vector<std::string> merge;  ///< files written by --json
};

/// False: leave with `exit_code`.
bool parse_options(int argc, char** argv, Options& out, int& exit_code);

}  // namespace mrc::tool
