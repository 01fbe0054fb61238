// SPDX-License-Identifier: BSD-2-Clause
// The experiments by name. Each runs in virtual time, judges its figures in the report and says what it plots there.
#pragma once

#include <span>
#include <string_view>

#include "report.hpp"

namespace mrc::experiments {

struct Experiment {
  std::string_view name;
  std::string_view what;
  void (*run)(const Options&, Report&);
};

void nic_link_removal(const Options&, Report&);
void t0_t1_failures(const Options&, Report&);
void bad_ev(const Options&, Report&);
void loss(const Options&, Report&);
void incast(const Options&, Report&);
void shared_ev(const Options&, Report&);
void uneven_planes(const Options&, Report&);
void lossy_nic_link(const Options&, Report&);
void sweeps(const Options&, Report&);

std::span<const Experiment> all_experiments();

}  // namespace mrc::experiments
