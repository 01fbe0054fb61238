// SPDX-License-Identifier: BSD-2-Clause
// `mrc-switch ctl status`: the fabric's settings and state, as an aligned table or as JSON.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "mrc/fabric/command.hpp"
#include "mrc/fabric/status.hpp"
#include "server.hpp"

namespace mrc::soft {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kUnusedShown = 8;  // rows of links at which nobody is, or ever was, plugged in

std::string rate_text(std::uint64_t bps) {
  if (bps == 0) return "-";
  for (const auto& [unit, name] : {std::pair{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "K"}}) {
    if (static_cast<double>(bps) >= unit) return fmt::format("{:.4g}{}", static_cast<double>(bps) / unit, name);
  }
  return fmt::format("{}", bps);
}

std::string time_text(Duration time) {
  for (const auto& [unit, name] : {std::pair{1e9, "s"}, {1e6, "ms"}, {1e3, "us"}}) {
    if (static_cast<double>(time.ns) >= unit) return fmt::format("{:.4g}{}", static_cast<double>(time.ns) / unit, name);
  }
  return fmt::format("{}ns", time.ns);
}

/// What is set, in the words that set it; empty: nothing.
std::string words_of(const fabric::Impairment& i) {
  std::string out;
  const auto chance = [&](const char* name, double value) {
    if (value > 0) out += fmt::format("{}{} {:.4g}%", out.empty() ? "" : " ", name, value * 100);
  };
  chance("loss", i.loss);
  chance("duplicate", i.duplicate);
  chance("corrupt", i.corrupt);
  chance("reorder", i.reorder);
  if (i.delay.ns > 0) out += fmt::format("{}delay {}", out.empty() ? "" : " ", time_text(i.delay));
  chance("ecn", i.ecn);
  chance("trim", i.trim);
  chance("burst", i.burst_enter);
  return out;
}

Json json_of(const fabric::Impairment& i) {
  return {{"loss", i.loss},       {"duplicate", i.duplicate}, {"corrupt", i.corrupt},
          {"reorder", i.reorder}, {"delay_ns", i.delay.ns},   {"ecn", i.ecn},
          {"trim", i.trim},       {"burst", i.burst_enter},   {"burst_length", i.burst_length}};
}

Json drops_of(const std::array<std::uint64_t, fabric::kDropCauses>& drops) {
  Json out = Json::object();
  for (std::size_t i = 1; i < fabric::kDropCauses; ++i) {
    if (drops[i] != 0) out[std::string(fabric::to_string(static_cast<fabric::DropCause>(i)))] = drops[i];
  }
  return out;
}

std::uint64_t sum(const std::array<std::uint64_t, fabric::kDropCauses>& drops) {
  std::uint64_t all = 0;
  for (const auto n : drops) all += n;
  return all;
}

/// Rows of words, as wide as they need to be; columns from `numbers` on are aligned to the right.
class Table {
 public:
  Table(std::vector<std::string> head, std::size_t numbers) : numbers_(numbers) { add(std::move(head)); }
  void add(std::vector<std::string> row) {
    width_.resize(std::max(width_.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) width_[i] = std::max(width_[i], row[i].size());
    rows_.push_back(std::move(row));
  }
  bool empty() const { return rows_.size() < 2; }
  std::string text() const {
    std::string out;
    for (const auto& row : rows_) {
      std::string line;
      for (std::size_t i = 0; i < row.size(); ++i) {
        line += i < numbers_ ? fmt::format("{:<{}}  ", row[i], width_[i]) : fmt::format("{:>{}}  ", row[i], width_[i]);
      }
      line.erase(line.find_last_not_of(' ') + 1);
      out.append(line).append("\n");
    }
    return out;
  }

 private:
  std::size_t numbers_;
  std::vector<std::vector<std::string>> rows_;
  std::vector<std::size_t> width_;
};

std::string state_of(const fabric::Clos& clos, const fabric::LinkStatus& row) {
  const bool itself = clos.link_down(row.id);
  if (row.flapping) return row.up ? "flapping" : "flapping, down";
  return row.up ? "up" : itself ? "down" : "plane down";
}

}  // namespace

std::string Server::status_table(Tick now, bool all) const {
  const fabric::Clos& clos = forwarder_.clos();
  const auto& config = clos.config();
  const fabric::Status status = fabric::status(clos, now);
  std::string out = fmt::format("{} planes, {} T0 and {} T1 switches in each, {} clients{}\n", config.planes,
                                config.t0s, config.t1s, forwarder_.member_count(),
                                forwarder_.uplinks() != nullptr ? "; uplinks instead of the emulated fabric" : "");
  const std::string global = words_of(clos.global_impairment());
  out += fmt::format("fabric: {}{}{}\n", global.empty() ? "no impairment" : global, clos.ecn() ? "" : ", ecn off",
                     clos.trim() ? "" : ", trim off");
  const auto& t = status.totals;
  out += fmt::format(
      "packets: {} offered, {} delivered, {} dropped, {} duplicated, {} corrupted, {} reordered, {} marked, {} "
      "trimmed, {} on their way\n",
      t.offered, t.delivered, t.dropped(), t.duplicated, t.corrupted, t.reordered, t.marked, t.trimmed, t.in_flight);
  if (!timeline_name_.empty()) {
    out += fmt::format("timeline {}: {}\n", timeline_name_,
                       timeline_.done() ? "done" : fmt::format("next in {}", time_text(timeline_.next_due() - now)));
  }

  Table planes({"plane", "state", "settings", "forwarded", "dropped"}, 3);
  for (unsigned plane = 0; plane < forwarder_.planes(); ++plane) {
    const std::string words = words_of(*clos.plane_impairment(plane));
    const auto& c = forwarder_.counters(plane);
    std::uint64_t dropped = 0;
    for (std::size_t i = 0; i < kDrops; ++i) dropped += c.drops[i];
    if (all || clos.plane_down(plane) || !words.empty()) {
      planes.add({fmt::format("{}", plane), clos.plane_down(plane) ? "down" : "up", words.empty() ? "-" : words,
                  fmt::format("{}", c.forwarded), fmt::format("{}", dropped)});
    }
  }
  Table switches({"switch", "plane", "state", "settings", "packets", "dropped"}, 4);
  for (const auto& row : status.switches) {
    const std::string words = words_of(*clos.switch_impairment(row.id));
    if (all || clos.switch_down(row.id) || !words.empty()) {
      switches.add({row.name, fmt::format("{}", row.id.plane), row.up ? "up" : "down", words.empty() ? "-" : words,
                    fmt::format("{}", row.counters.packets), fmt::format("{}", sum(row.counters.drops))});
    }
  }
  Table links({"link", "plane", "state", "rate", "settings", "packets", "dropped", "marked", "trimmed", "waiting"}, 5);
  std::size_t unused = 0;
  for (const auto& row : status.links) {
    const bool nic = row.id.kind == fabric::LinkKind::kNicToT0 || row.id.kind == fabric::LinkKind::kT0ToNic;
    const bool used = !nic || row.counters.packets != 0 || forwarder_.somebody_at({row.id.t0, row.id.far});
    const bool special = clos.link_down(row.id) || row.flapping || row.degraded;
    if (!special && !(all && used)) continue;
    if (!used && ++unused > kUnusedShown) continue;  // a plane's rate, say, is that of its unused places, too
    const std::string words = words_of(*clos.link_impairment(row.id));
    links.add({fmt::format("{} > {}", row.from, row.to), fmt::format("{}", row.id.plane), state_of(clos, row),
               rate_text(row.bps), words.empty() ? "-" : words, fmt::format("{}", row.counters.packets),
               fmt::format("{}", fabric::dropped(row.counters)), fmt::format("{}", row.counters.marked),
               fmt::format("{}", row.counters.trimmed), fmt::format("{} B", row.backlog)});
  }
  for (const Table* table : {&planes, &switches, &links}) {
    if (!table->empty()) out.append("\n").append(table->text());
  }
  if (unused > kUnusedShown) {
    out += fmt::format("and {} more links of NICs that nobody uses\n", unused - kUnusedShown);
  }
  if (!all && planes.empty() && switches.empty() && links.empty()) out += "all links, switches and planes as usual\n";
  return out;
}

std::string Server::status_json(Tick now) const {
  const fabric::Clos& clos = forwarder_.clos();
  const auto& config = clos.config();
  const fabric::Status status = fabric::status(clos, now);
  const auto& t = status.totals;
  Json out{{"planes", config.planes}, {"t0s", config.t0s}, {"t1s", config.t1s}, {"nics", config.nics}};
  out["clients"] = forwarder_.member_count();
  out["uplinks"] = forwarder_.uplinks() != nullptr;
  out["impairment"] = json_of(clos.global_impairment());
  out["ecn"] = clos.ecn();
  out["trim"] = clos.trim();
  out["totals"] = {{"offered", t.offered},       {"delivered", t.delivered}, {"dropped", t.dropped()},
                   {"duplicated", t.duplicated}, {"corrupted", t.corrupted}, {"reordered", t.reordered},
                   {"marked", t.marked},         {"trimmed", t.trimmed},     {"in_flight", t.in_flight},
                   {"drops", drops_of(t.drops)}};
  if (!timeline_name_.empty()) {
    out["timeline"] = {{"file", timeline_name_}, {"events", timeline_.events().size()}, {"done", timeline_.done()}};
  }
  out["plane"] = Json::array();
  for (unsigned plane = 0; plane < forwarder_.planes(); ++plane) {
    const auto& c = forwarder_.counters(plane);
    out["plane"].push_back({{"plane", plane},
                            {"up", !clos.plane_down(plane)},
                            {"impairment", json_of(*clos.plane_impairment(plane))},
                            {"forwarded", c.forwarded},
                            {"bytes", c.bytes}});
  }
  out["switches"] = Json::array();
  for (const auto& row : status.switches) {
    out["switches"].push_back({{"name", row.name},
                               {"plane", row.id.plane},
                               {"up", row.up},
                               {"impairment", json_of(*clos.switch_impairment(row.id))},
                               {"packets", row.counters.packets},
                               {"drops", drops_of(row.counters.drops)}});
  }
  out["links"] = Json::array();
  for (const auto& row : status.links) {
    const auto& c = row.counters;
    out["links"].push_back({{"from", row.from},
                            {"to", row.to},
                            {"plane", row.id.plane},
                            {"t0", row.id.t0},
                            {"up", row.up},
                            {"flapping", row.flapping},
                            {"degraded", row.degraded},
                            {"bps", row.bps},
                            {"delay_ns", row.delay.ns},
                            {"impairment", json_of(*clos.link_impairment(row.id))},
                            {"backlog_bytes", row.backlog},
                            {"peak_bytes", row.peak},
                            {"packets", c.packets},
                            {"bytes", c.bytes},
                            {"forwarded", c.forwarded},
                            {"duplicated", c.duplicated},
                            {"corrupted", c.corrupted},
                            {"reordered", c.reordered},
                            {"marked", c.marked},
                            {"trimmed", c.trimmed},
                            {"drops", drops_of(c.drops)}});
  }
  return out.dump(1) + "\n";
}

}  // namespace mrc::soft
