// SPDX-License-Identifier: BSD-2-Clause
// What was found, for people (table and sentences), for programs (JSON), and for mrc (a denylist).
#pragma once

#include <span>
#include <string>
#include <vector>

#include "mrc/probe/mesh.hpp"
#include "mrc/result.hpp"

namespace mrc::tool {

/// Table of links (all, or those that are not plainly good) and one sentence a finding.
std::string text_report(std::span<const probe::Result> results, const probe::Diagnosis& diagnosis, bool all);
std::string json_report(std::span<const probe::Result> results, const probe::Diagnosis& diagnosis);
/// The paths of a json_report().
Result<std::vector<probe::Result>> read_results(const std::string& path);

/// [[deny]] entries, written so that a reader never sees half a file. Refused where it would leave no plane.
Result<void> write_denylist(const std::string& path, const probe::Diagnosis& diagnosis);

}  // namespace mrc::tool
