// SPDX-License-Identifier: BSD-2-Clause
// What an experiment hands back: figures with goals, data for plots, counters; written as one JSON file that plot.py
// draws, and judged in one line.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace mrc::experiments {

struct Options {
  std::uint64_t seed = 1;
  std::filesystem::path out = ".";
  bool quick = false;      ///< small, with contents carried and compared
  bool full_time = false;  ///< t0-t1-failures: one a second
  bool progress = true;    ///< on stderr
};

/// One curve or set of bars. x may be labels (then `bars`).
struct Series {
  std::string label{};
  std::vector<double> x{}, y{};
  bool points = false, dashed = false;
};

/// One diagram; plot.py draws all of a report's plots below each other into one picture.
struct Plot {
  std::string title{}, x{}, y{};
  std::vector<Series> series{};
  std::vector<std::pair<double, std::string>> marks{};  ///< vertical lines: x, text
  bool log_x = false, log_y = false;
};

class Report {
 public:
  Report(std::string_view name, const Options& options);

  /// A figure with its goal. `text` is what people read: "97.3 % of capacity (goal >= 95 %)" comes out of
  /// judge(ok, "97.3 % of capacity", ">= 95 %").
  void judge(bool ok, std::string figure, std::string goal);
  /// A figure that is told, not judged.
  void note(std::string figure);
  void plot(Plot plot) { plots_.push_back(std::move(plot)); }
  nlohmann::json& data() { return data_; }

  bool passed() const { return passed_; }
  std::string verdict() const;  ///< "NAME: figure (goal …); figure (goal …) PASS"
  void write() const;           ///< OUT/NAME.json; throws std::runtime_error in words

 private:
  std::string name_;
  Options options_;
  bool passed_ = true;
  nlohmann::json figures_ = nlohmann::json::array();
  nlohmann::json data_;
  std::vector<Plot> plots_;
};

/// Says on stderr how far the experiment is, at most a few times a second.
void progress(const Options& options, const std::string& text, bool last = false);

}  // namespace mrc::experiments
