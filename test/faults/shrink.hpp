// SPDX-License-Identifier: BSD-2-Clause
// Makes a failing plan small: greedily, as long as the same violation is seen.
#pragma once

#include <functional>
#include <string>

#include "plan.hpp"

namespace mrc::faults {

/// `fails(plan)`: whether it still fails in the same way. At most `attempts` calls.
Plan shrink(Plan plan, const std::function<bool(const Plan&)>& fails, unsigned attempts);

}  // namespace mrc::faults
