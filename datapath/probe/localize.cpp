// SPDX-License-Identifier: BSD-2-Clause
// Tomography: from paths that lose to the links or switches that make them lose. Whatever a good path leads over is
// good; of the rest, what explains most of the bad paths is taken first, its loss is estimated from the paths that lose
// least, and what remains unexplained beyond it is looked at again.
#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "mrc/probe/mesh.hpp"

namespace mrc::probe {
namespace {

constexpr double kSigmas = 4;
constexpr double kSigmasOfTwo = 6;  ///< where both sides are estimates

struct Candidate {
  Element element{};
  std::vector<std::uint32_t> paths;  ///< ascending
  bool done = false;                 ///< accused already
  std::size_t bad = 0;               ///< its bad paths in this turn, …
  std::size_t shortest = 0;          ///< … links on the shortest of them; SIZE_MAX: not to be accused
  double loss = 0;                   ///< … and what it would have to lose
};

bool is_switch(const Element& element) {
  return element.part == Part::kT0 || element.part == Part::kT1;
}

std::vector<Candidate> candidates_of(std::span<const Result> results) {
  std::map<Element, std::vector<std::uint32_t>> by_element;
  for (std::uint32_t i = 0; i < results.size(); ++i) {
    if (results[i].sent == 0) continue;
    const auto add = [&](const Element& element) {
      auto& paths = by_element[element];
      if (paths.empty() || paths.back() != i) paths.push_back(i);
    };
    for (const Element& link : results[i].links) {
      add(link);
      add({Part::kT0, link.plane, link.t0, 0});
      if (link.part == Part::kLink) add({Part::kT1, link.plane, 0, link.far});
    }
  }
  std::vector<Candidate> out;
  for (auto& [element, paths] : by_element) out.push_back({element, std::move(paths)});
  return out;
}

class Search {
 public:
  Search(std::span<const Result> results, const Rules& rules)
      : results_(results), rules_(rules), passes_(results.size(), 1.0), candidates_(candidates_of(results)) {}

  Diagnosis run();

 private:
  /// Loses more than what is accused so far explains.
  bool bad(std::uint32_t path) const {
    const Result& r = results_[path];
    const double loss = 1 - passes_[path] * (1 - rules_.threshold);
    const auto sent = static_cast<double>(r.sent);
    const double expected = sent * loss;
    const double sigmas = passes_[path] < 1 ? kSigmasOfTwo : kSigmas;
    return r.lost >= rules_.min_lost &&
           static_cast<double>(r.lost) > expected + sigmas * std::sqrt(expected * (1 - loss)) + 0.5;
  }
  /// What the rest of the path loses.
  double remaining_loss(std::uint32_t path) const {
    const Result& r = results_[path];
    if (passes_[path] <= 0) return 0;
    const double passed = static_cast<double>(r.sent - r.lost) / static_cast<double>(r.sent);
    return std::clamp(1 - passed / passes_[path], 0.0, 1.0);
  }
  double estimate(const Candidate& candidate) const;
  bool exonerated(const Candidate& candidate, double loss) const;
  Candidate* next();

  std::span<const Result> results_;
  Rules rules_;
  std::vector<double> passes_;  ///< what the accused elements let through, path by path
  std::vector<Candidate> candidates_;
};

/// Loss of an element from its bad paths: of those that lose least, for the others have further reasons to.
double Search::estimate(const Candidate& candidate) const {
  double loss = 1;
  for (const std::uint32_t path : candidate.paths) {
    if (bad(path)) loss = std::min(loss, remaining_loss(path));
  }
  for (int round = 0; round < 4; ++round) {
    double weight = 0, sum = 0;
    for (const std::uint32_t path : candidate.paths) {
      if (!bad(path)) continue;
      const double sent = static_cast<double>(results_[path].sent) * passes_[path];
      const double own = remaining_loss(path);
      if (std::abs(own - loss) > kSigmasOfTwo * std::sqrt(std::max(loss * (1 - loss), 0.01) / std::max(sent, 1.0)))
        continue;
      weight += sent;
      sum += sent * own;
    }
    if (weight == 0) break;
    loss = sum / weight;
  }
  return loss;
}

/// Its good paths lose too little for an element with that loss to be on them.
bool Search::exonerated(const Candidate& candidate, double loss) const {
  double expected = 0, variance = 0, lost = 0;
  for (const std::uint32_t path : candidate.paths) {
    const Result& r = results_[path];
    if (bad(path) || passes_[path] <= 0) continue;
    const double p = 1 - passes_[path] * (1 - loss);
    expected += static_cast<double>(r.sent) * p;
    variance += static_cast<double>(r.sent) * p * (1 - p);
    lost += static_cast<double>(r.lost);
    // A path that loses nothing speaks for all on it, if it was asked often enough to say something.
    if (r.lost == 0 && static_cast<double>(r.sent) * loss >= 5) return true;
  }
  return lost < expected - kSigmas * std::sqrt(variance);
}

/// The next element to accuse: of those on the shortest bad paths what explains most. A short path that is bad decides
/// what the longer ones over the same links have to be blamed for.
Candidate* Search::next() {
  for (Candidate& candidate : candidates_) {
    candidate.bad = static_cast<std::size_t>(
        std::count_if(candidate.paths.begin(), candidate.paths.end(), [&](std::uint32_t p) { return bad(p); }));
    candidate.shortest = SIZE_MAX;
    if (candidate.done || candidate.bad == 0) continue;
    candidate.loss = estimate(candidate);
    if (exonerated(candidate, candidate.loss)) continue;
    for (const std::uint32_t path : candidate.paths) {
      if (bad(path)) candidate.shortest = std::min(candidate.shortest, results_[path].links.size());
    }
  }
  Candidate* best = nullptr;
  for (Candidate& candidate : candidates_) {
    if (candidate.shortest == SIZE_MAX) continue;
    // Links come before switches: of two alike the first stays.
    const auto rank = [](const Candidate& c) { return std::tuple(c.shortest, SIZE_MAX - c.bad, c.paths.size()); };
    if (best == nullptr || rank(candidate) < rank(*best)) best = &candidate;
  }
  return best;
}

Diagnosis Search::run() {
  Diagnosis out;
  for (std::size_t turn = 0; turn < candidates_.size(); ++turn) {
    Candidate* const best = next();
    if (best == nullptr) break;
    best->done = true;
    Finding& finding = out.findings.emplace_back();
    finding.element = best->element;
    finding.loss = best->loss;
    for (const Candidate& other : candidates_) {
      if (&other != best && other.paths == best->paths) finding.or_else.push_back(other.element);
    }
    for (const std::uint32_t path : best->paths) {
      finding.sent += results_[path].sent;
      finding.lost += results_[path].lost;
      passes_[path] *= 1 - best->loss;
    }
  }

  const auto accused = [&](const Element& link) {
    return std::any_of(out.findings.begin(), out.findings.end(), [&](const Finding& finding) {
      const Element& e = finding.element;
      if (e.plane != link.plane) return false;
      if (e.part == Part::kT0) return e.t0 == link.t0;
      if (e.part == Part::kT1) return link.part == Part::kLink && e.far == link.far;
      return e == link;
    });
  };
  for (const Candidate& candidate : candidates_) {
    if (is_switch(candidate.element)) continue;
    LinkState& state = out.links.emplace_back();
    state.link = candidate.element;
    bool clear = false;  // some path over it that no accused element is on
    for (const std::uint32_t path : candidate.paths) {
      state.sent += results_[path].sent;
      state.lost += results_[path].lost;
      clear |= std::none_of(results_[path].links.begin(), results_[path].links.end(), accused);
    }
    state.verdict = accused(candidate.element) ? Verdict::kBad : clear ? Verdict::kGood : Verdict::kHidden;
  }
  return out;
}

}  // namespace

Diagnosis localize(std::span<const Result> results, const Rules& rules) {
  return Search(results, rules).run();
}

}  // namespace mrc::probe
