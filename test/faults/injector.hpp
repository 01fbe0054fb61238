// SPDX-License-Identifier: BSD-2-Clause
// Lets the faults of a plan happen, and end.
#pragma once

#include "members.hpp"
#include "plan.hpp"

namespace mrc::faults {

class Injector {
 public:
  Injector(fabric::Sim& sim, const Plan& plan, Members& members, Ledger& ledger, bool trace)
      : sim_(sim), plan_(plan), members_(members), ledger_(ledger), trace_(trace) {}

  void plan_all(Tick start);
  /// All faults end now, and those to come do not.
  void clear();

 private:
  void plan_fault(const Fault& fault, Tick start);
  void apply(const Fault& fault, bool begins);

  fabric::Sim& sim_;
  const Plan& plan_;
  Members& members_;
  Ledger& ledger_;
  bool trace_;
  bool cleared_ = false;
};

}  // namespace mrc::faults
