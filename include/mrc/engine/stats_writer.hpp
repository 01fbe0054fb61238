// SPDX-License-Identifier: BSD-2-Clause
// Keeps a file up to date with a text that is made anew at an interval, from a thread of its own
// (FI_MRC_STATS_INTERVAL): readers see a whole text, old or new. Threads: made and destroyed by one owner; `text` is
// called from the thread.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "mrc/result.hpp"
#include "mrc/time.hpp"

namespace mrc::engine {

/// Writes another file next to it, then renames.
Result<void> replace_file(const std::string& path, std::string_view text);

class StatsWriter {
 public:
  /// Nothing: not to be had in time, the file stays as it is until the next turn.
  using Text = std::function<std::optional<std::string>()>;

  StatsWriter(std::string path, Duration interval, Text text, std::function<void(const std::string&)> complain);
  ~StatsWriter();  ///< stops; a write that is under way ends first
  StatsWriter(const StatsWriter&) = delete;
  StatsWriter& operator=(const StatsWriter&) = delete;

 private:
  void run();

  std::string path_;
  Duration interval_;
  Text text_;
  std::function<void(const std::string&)> complain_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace mrc::engine
