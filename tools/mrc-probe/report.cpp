// SPDX-License-Identifier: BSD-2-Clause
// Findings in words, JSON and TOML.
#include "report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>

#include "mrc/engine/stats_writer.hpp"

namespace mrc::tool {
namespace {

using Json = nlohmann::ordered_json;
using probe::Element;
using probe::Finding;
using probe::Part;
using probe::Verdict;

const char* verdict_name(Verdict verdict) {
  switch (verdict) {
    case Verdict::kGood:
      return "good";
    case Verdict::kBad:
      return "BAD";
    case Verdict::kHidden:
      return "unknown";
  }
  return "?";
}

double share(std::uint64_t lost, std::uint64_t sent) {
  return sent == 0 ? 0 : static_cast<double>(lost) / static_cast<double>(sent);
}

std::string sentence(const Finding& finding) {
  std::string out = to_string(finding.element);
  if (finding.down()) {
    out += " is down";
  } else {
    fmt::format_to(std::back_inserter(out), " loses {:.1f} % of the probes that cross it there and back",
                   finding.loss * 100);
  }
  return out;
}

std::string doubt(const Finding& finding) {
  std::string out;
  for (const Element& other : finding.or_else) out += (out.empty() ? "" : ", ") + to_string(other);
  return out;
}

Json element_json(const Element& e) {
  return Json::array({static_cast<unsigned>(e.part), e.plane, e.t0, e.far});
}

}  // namespace

std::string text_report(std::span<const probe::Result> results, const probe::Diagnosis& diagnosis, bool all) {
  std::string out;
  const auto to = std::back_inserter(out);
  std::uint64_t sent = 0, lost = 0;
  for (const auto& result : results) {
    sent += result.sent;
    lost += result.lost;
  }
  std::size_t good = 0;
  for (const auto& link : diagnosis.links) good += link.verdict == Verdict::kGood;
  fmt::format_to(to, "{} paths over {} links, {} probes, {} lost; {} links are good\n", results.size(),
                 diagnosis.links.size(), sent, lost, good);
  bool head = false;
  for (const auto& link : diagnosis.links) {
    if (!all && link.verdict == Verdict::kGood) continue;
    if (!head) fmt::format_to(to, "\n{:<28} {:>9} {:>9}  {}\n", "link", "sent", "lost", "verdict");
    head = true;
    fmt::format_to(to, "{:<28} {:>9} {:>7.1f} %  {}\n", to_string(link.link), link.sent,
                   share(link.lost, link.sent) * 100, verdict_name(link.verdict));
  }
  fmt::format_to(to, "\n");
  for (const Finding& finding : diagnosis.findings) {
    fmt::format_to(to, "{}\n", sentence(finding));
    if (!finding.or_else.empty()) {
      fmt::format_to(to,
                     "  (or {}: the same paths lead over it; results of a host under another T0 can tell, --merge)\n",
                     doubt(finding));
    }
  }
  if (sent == 0) {
    fmt::format_to(to, "no probe could be sent\n");
  } else if (diagnosis.findings.empty()) {
    fmt::format_to(to, "no link or switch is bad\n");
  }
  return out;
}

std::string json_report(std::span<const probe::Result> results, const probe::Diagnosis& diagnosis) {
  Json out;
  Json& findings = out["findings"] = Json::array();
  for (const Finding& f : diagnosis.findings) {
    Json or_else = Json::array();
    for (const Element& other : f.or_else) or_else.push_back(to_string(other));
    findings.push_back({{"text", sentence(f)},
                        {"element", to_string(f.element)},
                        {"or", std::move(or_else)},
                        {"loss", f.loss},
                        {"sent", f.sent},
                        {"lost", f.lost}});
  }
  Json& links = out["links"] = Json::array();
  for (const auto& link : diagnosis.links) {
    links.push_back({{"link", to_string(link.link)},
                     {"sent", link.sent},
                     {"lost", link.lost},
                     {"verdict", verdict_name(link.verdict)}});
  }
  Json& paths = out["paths"] = Json::array();
  for (const auto& result : results) {
    Json over = Json::array();
    for (const Element& link : result.links) over.push_back(element_json(link));
    paths.push_back({{"links", std::move(over)}, {"sent", result.sent}, {"lost", result.lost}});
  }
  return out.dump(1) + "\n";
}

Result<std::vector<probe::Result>> read_results(const std::string& path) {
  std::ifstream file(path);
  if (!file) return fail(errno, fmt::format("cannot read {}: {}", path, std::strerror(errno)));
  const Json json = Json::parse(file, nullptr, false);
  const auto wrong = [&] { return fail(EINVAL, path + " was not written by mrc-probe --json"); };
  if (!json.is_object() || !json.contains("paths") || !json["paths"].is_array()) return wrong();
  std::vector<probe::Result> out;
  for (const Json& one : json["paths"]) {
    probe::Result& result = out.emplace_back();
    try {
      result.sent = one.at("sent");
      result.lost = one.at("lost");
      for (const Json& link : one.at("links")) {
        const auto part = link.at(0).get<unsigned>();
        if (part > static_cast<unsigned>(Part::kLink) || link.size() != 4) return wrong();
        result.links.push_back({static_cast<Part>(part), link.at(1), link.at(2), link.at(3)});
      }
    } catch (const Json::exception&) {
      return wrong();
    }
    if (result.lost > result.sent || result.links.empty()) return wrong();
  }
  return out;
}

Result<void> write_denylist(const std::string& path, const probe::Diagnosis& diagnosis) {
  std::set<unsigned> planes, gone;
  for (const auto& link : diagnosis.links) planes.insert(link.link.plane);
  std::string text =
      "# Written by mrc-probe. FI_MRC_DENYLIST=<this file> keeps packets away from these links and switches;\n"
      "# processes that run follow within a second when the file changes.\n";
  for (const Finding& finding : diagnosis.findings) {
    const Element& e = finding.element;
    if (e.part == Part::kNicLink) gone.insert(e.plane);
    const path::DenyRule rule = deny_rule(e);
    text += "\n[[deny]]\n";
    for (const auto& [name, value] :
         {std::pair{"plane", rule.plane}, {"t0", rule.t0}, {"t1", rule.t1}, {"nic", rule.nic}}) {
      if (value >= 0) text += fmt::format("{} = {}\n", name, value);
    }
    text += fmt::format("why = \"{}{}\"\n", sentence(finding),
                        finding.or_else.empty() ? "" : " (or " + doubt(finding) + ")");
  }
  if (!planes.empty() && gone == planes) {
    return fail(ENETDOWN, path + " is not written: it would deny the host's link of every plane");
  }
  auto written = engine::replace_file(path, text);
  if (!written)
    return fail(written.error().code, fmt::format("cannot write {}: {}", path, std::strerror(written.error().code)));
  return {};
}

}  // namespace mrc::tool
