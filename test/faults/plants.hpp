// SPDX-License-Identifier: BSD-2-Clause
// Bugs planted on purpose (mrc/planted.hpp), and whether they are found.
#pragma once

#include <string>

#include "child.hpp"

namespace mrc::faults {

/// Switches one bug on, by number or name. False, with a sentence on stderr, if there is none or nothing can be
/// planted in this build.
bool plant(const std::string& which);

/// The campaign for one bug, or for each of them ("all"); "list" names them. Prints how many seeds each needed; exit
/// status 0 if all were found.
int run_planted(const std::string& which, const Campaign& campaign);

}  // namespace mrc::faults
