// SPDX-License-Identifier: BSD-2-Clause
// Delta debugging over faults and operations (halves, quarters, … single ones), then fewer nodes and planes, shorter
// writes and milder faults.
#include "shrink.hpp"

#include <algorithm>

namespace mrc::faults {
namespace {

class Shrinker {
 public:
  Shrinker(Plan plan, const std::function<bool(const Plan&)>& fails, unsigned attempts)
      : best_(std::move(plan)), fails_(fails), left_(attempts) {}

  Plan run() {
    for (bool better = true; better && left_ != 0;) {
      better = drop_from(&Plan::faults);
      better |= drop_from(&Plan::operations);
      better |= fewer_nodes();
      better |= fewer_planes();
      better |= shorter();
      better |= milder();
    }
    return best_;
  }

 private:
  bool attempt(const Plan& candidate) {
    if (left_ == 0 || candidate.operations.empty()) return false;
    --left_;
    if (!fails_(candidate)) return false;
    best_ = candidate;
    return true;
  }

  template <class T>
  bool drop_from(std::vector<T> Plan::*member) {
    bool better = false;
    for (std::size_t chunk = std::max<std::size_t>((best_.*member).size() / 2, 1); chunk >= 1; chunk /= 2) {
      for (std::size_t at = 0; at < (best_.*member).size() && left_ != 0;) {
        Plan candidate = best_;
        auto& items = candidate.*member;
        const auto first = items.begin() + static_cast<std::ptrdiff_t>(at);
        items.erase(first, first + static_cast<std::ptrdiff_t>(std::min(chunk, items.size() - at)));
        if (attempt(candidate)) {
          better = true;
        } else {
          at += chunk;
        }
      }
    }
    return better;
  }

  bool fewer_nodes() {
    unsigned used = 1;
    for (const auto& op : best_.operations) used = std::max({used, op.from + 1, op.to + 1});
    Plan candidate = best_;
    candidate.sim.nodes = std::max(used, 2u);
    if (candidate.sim.nodes >= best_.sim.nodes) return false;
    prune(candidate);
    return attempt(candidate);
  }

  bool fewer_planes() {
    bool better = false;
    while (best_.sim.clos.planes > 1) {
      Plan candidate = best_;
      --candidate.sim.clos.planes;
      prune(candidate);
      if (!attempt(candidate)) break;
      better = true;
    }
    return better;
  }

  bool shorter() {
    bool better = false;
    for (std::size_t i = 0; i < best_.operations.size(); ++i) {
      while (best_.operations[i].length > 4096 && left_ != 0) {
        Plan candidate = best_;
        candidate.operations[i].length /= 2;
        if (!attempt(candidate)) break;
        better = true;
      }
    }
    return better;
  }

  bool milder() {
    bool better = false;
    const auto zero = [&](std::size_t i, auto fabric::Impairment::*field) {
      if (best_.faults[i].impairment.*field == fabric::Impairment{}.*field) return;
      Plan candidate = best_;
      candidate.faults[i].impairment.*field = fabric::Impairment{}.*field;
      better |= attempt(candidate);
    };
    for (std::size_t i = 0; i < best_.faults.size(); ++i) {
      if (best_.faults[i].kind != FaultKind::kImpair) continue;
      for (const auto field : {&fabric::Impairment::loss, &fabric::Impairment::duplicate, &fabric::Impairment::corrupt,
                               &fabric::Impairment::reorder, &fabric::Impairment::ecn, &fabric::Impairment::trim,
                               &fabric::Impairment::burst_enter}) {
        zero(i, field);
      }
      zero(i, &fabric::Impairment::delay);
    }
    return better;
  }

  Plan best_;
  const std::function<bool(const Plan&)>& fails_;
  unsigned left_;
};

}  // namespace

Plan shrink(Plan plan, const std::function<bool(const Plan&)>& fails, unsigned attempts) {
  return Shrinker(std::move(plan), fails, attempts).run();
}

}  // namespace mrc::faults
