// SPDX-License-Identifier: BSD-2-Clause
// The file that is kept up to date is whole at any time, and a text that cannot be had leaves it alone.
#include "mrc/engine/stats_writer.hpp"

#include <atomic>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <thread>

#include "support/catch.hpp"

using namespace mrc;
using namespace mrc::engine;

namespace {

std::string read(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

TEST_CASE("a reader sees whole texts only") {
  char name[] = "/tmp/mrc-writer-test.XXXXXX";
  const std::string folder = mkdtemp(name);
  const std::string path = folder + "/stats";
  std::atomic<int> made{0};
  std::string complaint;
  {
    const StatsWriter writer(
        path, milliseconds(10),
        [&]() -> std::optional<std::string> {
          const int n = ++made;
          if (n % 3 == 0) return std::nullopt;
          return std::string(100'000, static_cast<char>('a' + n % 26)) + "\n";
        },
        [&](const std::string& text) { complaint = text; });
    std::set<char> seen;
    while (made < 30) {
      const std::string text = read(path);
      if (text.empty()) {
        REQUIRE(made < 4);  // only before the first
        continue;
      }
      REQUIRE(text.size() == 100'001);
      REQUIRE(text.find_first_not_of(text[0]) == 100'000);
      seen.insert(text[0]);
    }
    REQUIRE(seen.size() > 5);
  }
  const int after = made;
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  REQUIRE(made == after);
  REQUIRE(complaint.empty());
  REQUIRE(std::distance(std::filesystem::directory_iterator(folder), {}) == 1);
  std::filesystem::remove_all(folder);
}

TEST_CASE("a file that cannot be written is complained about once, in words") {
  std::atomic<int> made{0}, complaints{0};
  std::string complaint;
  {
    const StatsWriter writer(
        "/nonexistent/stats", milliseconds(10),
        [&] {
          ++made;
          return std::optional<std::string>("x");
        },
        [&](const std::string& text) {
          ++complaints;
          complaint = text;
        });
    while (made < 4) std::this_thread::yield();
  }
  REQUIRE(complaints == 1);
  REQUIRE(complaint.find("/nonexistent/stats (FI_MRC_STATS)") != std::string::npos);
}
