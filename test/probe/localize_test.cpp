// SPDX-License-Identifier: BSD-2-Clause
// Faults put into random fabrics are named: one fault always and exactly, several never at the cost of a good link.
#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>

#include "mrc/probe/mesh.hpp"
#include "mrc/random.hpp"
#include "support/catch.hpp"

using namespace mrc;
using namespace mrc::probe;

namespace {

std::uint64_t seed_of(std::uint64_t fallback) {
  const char* text = std::getenv("MRC_SEED");
  return text == nullptr ? fallback : std::strtoull(text, nullptr, 0);
}

Shape random_shape(Random& random) {
  Shape shape;
  shape.planes = static_cast<std::uint8_t>(1 + random.below(4));
  const auto t0s = static_cast<std::uint16_t>(1 + random.below(6));
  for (std::uint16_t i = 0; i < t0s; ++i) shape.t0s.push_back(i);
  shape.t1s = static_cast<std::uint16_t>(1 + random.below(6));
  shape.self = {static_cast<std::uint16_t>(random.below(t0s)), static_cast<std::uint16_t>(random.below(8))};
  return shape;
}

bool on(const Element& fault, const Element& link) {
  if (fault.plane != link.plane) return false;
  if (fault.part == Part::kT0) return fault.t0 == link.t0;
  if (fault.part == Part::kT1) return link.part == Part::kLink && fault.far == link.far;
  return fault == link;
}

bool crosses(const std::vector<Element>& links, const Element& fault) {
  return std::any_of(links.begin(), links.end(), [&](const Element& link) { return on(fault, link); });
}

/// Probes of all paths; a fault takes its share of those that cross it.
std::vector<Result> probe_all(const std::vector<Path>& paths, const std::map<Element, double>& faults, unsigned sent,
                              Random& random) {
  std::vector<Result> out;
  for (const Path& path : paths) {
    Result& one = out.emplace_back();
    one.links = path.links;
    for (unsigned i = 0; i < sent; ++i) {
      bool lost = false;
      for (const auto& [fault, loss] : faults) lost |= crosses(path.links, fault) && random.chance(loss);
      ++one.sent;
      one.lost += lost;
    }
  }
  return out;
}

std::vector<Element> elements_of(const std::vector<Path>& paths) {
  std::set<Element> all;
  for (const Path& path : paths) {
    for (const Element& link : path.links) {
      all.insert(link);
      all.insert({Part::kT0, link.plane, link.t0, 0});
      if (link.part == Part::kLink) all.insert({Part::kT1, link.plane, 0, link.far});
    }
  }
  return {all.begin(), all.end()};
}

std::string told(const Diagnosis& diagnosis) {
  std::string out;
  for (const Finding& f : diagnosis.findings) out += to_string(f.element) + " " + std::to_string(f.loss) + "; ";
  return out;
}

}  // namespace

TEST_CASE("nothing is wrong with a fabric that loses nothing, or a little everywhere") {
  Random random(seed_of(11));
  for (int i = 0; i < 200; ++i) {
    const auto paths = paths_of(random_shape(random));
    REQUIRE(localize(probe_all(paths, {}, 100, random)).findings.empty());
    std::map<Element, double> background;
    for (const Path& path : paths) background[path.links[0]] = 0.001;
    const auto diagnosis = localize(probe_all(paths, background, 1000, random));
    INFO(told(diagnosis));
    REQUIRE(diagnosis.findings.empty());
    for (const LinkState& link : diagnosis.links) REQUIRE(link.verdict == Verdict::kGood);
  }
  REQUIRE(localize({}).findings.empty());
}

TEST_CASE("a single fault is always named, exactly") {
  const std::uint64_t seed = seed_of(12);
  Random random(seed);
  unsigned unsure = 0, cases = 0;
  for (int i = 0; i < 2000; ++i) {
    INFO("seed " << seed << ", case " << i);
    const auto paths = paths_of(random_shape(random));
    const auto elements = elements_of(paths);
    const Element fault = elements[random.below(static_cast<std::uint32_t>(elements.size()))];
    const double loss = i % 2 == 0 ? 1.0 : 0.1 + 0.8 * static_cast<double>(random.below(1000)) / 1000;
    const auto diagnosis = localize(probe_all(paths, {{fault, loss}}, i % 2 == 0 ? 10 : 300, random));
    INFO(to_string(fault) << " loses " << loss << "; told: " << told(diagnosis));
    REQUIRE(diagnosis.findings.size() == 1);
    const Finding& finding = diagnosis.findings[0];
    // What is named leads over the same paths as the fault: no probe of this host can tell them apart.
    for (const Path& path : paths) REQUIRE(crosses(path.links, finding.element) == crosses(path.links, fault));
    const bool named =
        finding.element == fault || std::count(finding.or_else.begin(), finding.or_else.end(), fault) == 1;
    REQUIRE(named);
    REQUIRE(std::abs(finding.loss - loss) < 0.12);
    REQUIRE(finding.down() == (loss > 0.98));
    ++cases;
    unsure += finding.or_else.empty() ? 0 : 1;
  }
  INFO(unsure << " of " << cases << " could be something else too");
  REQUIRE(unsure < cases);
}

TEST_CASE("hosts under two T0s together tell a switch from its links") {
  const std::uint64_t seed = seed_of(13);
  Random random(seed);
  for (int i = 0; i < 500; ++i) {
    INFO("seed " << seed << ", case " << i);
    Shape shape = random_shape(random);
    shape.t0s = {0, 1, 2, 3};
    shape.t1s = static_cast<std::uint16_t>(2 + random.below(4));
    std::vector<Path> paths;
    for (const std::uint16_t t0 : shape.t0s) {
      for (const std::uint16_t nic : {0, 1}) {
        shape.self = {t0, nic};
        for (Path& path : paths_of(shape)) paths.push_back(std::move(path));
      }
    }
    const auto elements = elements_of(paths);
    const Element fault = elements[random.below(static_cast<std::uint32_t>(elements.size()))];
    const auto diagnosis = localize(probe_all(paths, {{fault, 1.0}}, 10, random));
    INFO(to_string(fault) << "; told: " << told(diagnosis));
    REQUIRE(diagnosis.findings.size() == 1);
    REQUIRE(diagnosis.findings[0].element == fault);
    REQUIRE(diagnosis.findings[0].or_else.empty());
  }
}

TEST_CASE("several faults: no link is accused that good paths lead over, and no fault stays unexplained") {
  const std::uint64_t seed = seed_of(14);
  Random random(seed);
  std::size_t faults_total = 0, named_total = 0;
  for (int i = 0; i < 1000; ++i) {
    INFO("seed " << seed << ", case " << i);
    const auto paths = paths_of(random_shape(random));
    const auto elements = elements_of(paths);
    std::map<Element, double> faults;
    for (unsigned n = 2 + random.below(5); n > 0; --n) {
      const double loss = random.chance(0.5) ? 1.0 : 0.15 + 0.8 * static_cast<double>(random.below(1000)) / 1000;
      faults[elements[random.below(static_cast<std::uint32_t>(elements.size()))]] = loss;
    }
    const auto results = probe_all(paths, faults, 400, random);
    const auto diagnosis = localize(results);
    std::string truth;
    for (const auto& [fault, loss] : faults) truth += to_string(fault) + " " + std::to_string(loss) + "; ";
    INFO("truth: " << truth << "told: " << told(diagnosis));
    const auto faulty = [&](const std::vector<Element>& links) {
      return std::any_of(faults.begin(), faults.end(), [&](const auto& fault) { return crosses(links, fault.first); });
    };
    for (const Finding& finding : diagnosis.findings) {
      INFO(to_string(finding.element));
      for (const Result& result : results) {
        if (crosses(result.links, finding.element)) REQUIRE(faulty(result.links));
      }
    }
    for (const LinkState& link : diagnosis.links) {
      if (link.verdict == Verdict::kBad) continue;
      if (link.verdict == Verdict::kGood) {
        REQUIRE_FALSE(faults.contains(link.link));
      }
    }
    for (const auto& [fault, loss] : faults) {
      ++faults_total;
      named_total += std::any_of(diagnosis.findings.begin(), diagnosis.findings.end(), [&](const Finding& finding) {
        return finding.element == fault || std::count(finding.or_else.begin(), finding.or_else.end(), fault) != 0;
      });
      for (const Result& result : results) {
        if (!crosses(result.links, fault)) continue;
        REQUIRE(std::any_of(diagnosis.findings.begin(), diagnosis.findings.end(),
                            [&](const Finding& finding) { return crosses(result.links, finding.element); }));
      }
    }
  }
  INFO(named_total << " of " << faults_total << " faults named (the others are hidden behind those)");
  REQUIRE(named_total * 2 > faults_total);
}
