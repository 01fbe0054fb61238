// SPDX-License-Identifier: BSD-2-Clause
// Reports: figures against goals, in one line for people and one JSON file for plot.py.
#include "report.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <stdexcept>

namespace mrc::experiments {

Report::Report(std::string_view name, const Options& options) : name_(name), options_(options) {}

void Report::judge(bool ok, std::string figure, std::string goal) {
  passed_ = passed_ && ok;
  fmt::print("  {:<4} {} (goal {})\n", ok ? "ok" : "FAIL", figure, goal);
  figures_.push_back({{"figure", std::move(figure)}, {"goal", std::move(goal)}, {"pass", ok}});
}

void Report::note(std::string figure) {
  fmt::print("       {}\n", figure);
  figures_.push_back({{"figure", std::move(figure)}});
}

std::string Report::verdict() const {
  std::string text = name_ + ":";
  const char* separator = " ";
  for (const auto& f : figures_) {
    if (!f.contains("goal")) continue;
    text += fmt::format("{}{} (goal {})", separator, f["figure"].get<std::string>(), f["goal"].get<std::string>());
    separator = "; ";
  }
  return text + (passed_ ? " PASS" : " FAIL");
}

void Report::write() const {
  nlohmann::json plots = nlohmann::json::array();
  for (const Plot& p : plots_) {
    nlohmann::json series = nlohmann::json::array();
    for (const Series& s : p.series) {
      series.push_back({{"label", s.label}, {"x", s.x}, {"y", s.y}, {"points", s.points}, {"dashed", s.dashed}});
    }
    plots.push_back({{"title", p.title},
                     {"x", p.x},
                     {"y", p.y},
                     {"series", series},
                     {"marks", p.marks},
                     {"log_x", p.log_x},
                     {"log_y", p.log_y}});
  }
  const nlohmann::json all = {{"name", name_},       {"seed", options_.seed}, {"quick", options_.quick},
                              {"figures", figures_}, {"pass", passed_},       {"verdict", verdict()},
                              {"data", data_},       {"plots", plots}};
  std::error_code error;
  std::filesystem::create_directories(options_.out, error);
  const std::filesystem::path path = options_.out / (name_ + ".json");
  std::ofstream file(path);
  file << all.dump(1) << '\n';
  if (!file.flush()) {
    throw std::runtime_error(
        fmt::format("cannot write {}: choose a directory that you may write to with --out", path.string()));
  }
}

void progress(const Options& options, const std::string& text, bool last) {
  if (!options.progress) return;
  static auto shown = std::chrono::steady_clock::time_point{};
  static const bool terminal = isatty(STDERR_FILENO) != 0;
  const auto now = std::chrono::steady_clock::now();
  if (!last && now - shown < std::chrono::milliseconds(terminal ? 200 : 2000)) return;
  shown = now;
  std::fprintf(stderr, terminal ? "\r\033[K  … %s%s" : "  … %s%s", text.c_str(), terminal && !last ? "" : "\n");
}

}  // namespace mrc::experiments
