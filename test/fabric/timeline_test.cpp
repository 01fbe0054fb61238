// SPDX-License-Identifier: BSD-2-Clause
// Timelines: order, scale, what is due when, and errors with line numbers.
#include "mrc/fabric/timeline.hpp"

#include <rapidcheck.h>

#include "mrc/random.hpp"
#include "support/catch.hpp"

using namespace mrc;
using mrc::fabric::Timeline;

namespace {

std::string error_of(const std::string& toml) {
  const auto timeline = Timeline::parse(toml, "plan.toml");
  REQUIRE_FALSE(timeline);
  return timeline.error().text;
}

bool contains(const std::string& text, const std::string& part) {
  INFO(text);
  CHECK(text.find(part) != std::string::npos);
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("events come in order of time, at one time in order of the file") {
  const auto timeline = Timeline::parse(R"(
[[event]]
at = "1.5s"
do = "plane 1 down"
[[event]]
at = 0.25
do = ["loss 1%", "duplicate 1%"]
[[event]]
at = "1500ms"
do = "plane 1 up"
[[event]]
at = 0
do = "clear"
)",
                                        "plan.toml");
  REQUIRE(timeline);
  std::vector<std::string> commands;
  for (const auto& event : timeline->events()) commands.push_back(event.command);
  REQUIRE(commands == std::vector<std::string>{"clear", "loss 1%", "duplicate 1%", "plane 1 down", "plane 1 up"});
  REQUIRE(timeline->events()[1].at == milliseconds(250));
  REQUIRE(timeline->events()[3].at == milliseconds(1500));
  REQUIRE(timeline->events()[3].line == 4);
}

TEST_CASE("scale: in the file, by the caller, both") {
  const char* text = "scale = 0.1\n[[event]]\nat = \"2s\"\ndo = \"clear\"\n";
  REQUIRE(Timeline::parse(text, "x")->events()[0].at == milliseconds(200));
  REQUIRE(Timeline::parse(text, "x", 0.5)->events()[0].at == milliseconds(100));
}

TEST_CASE("what is due when") {
  Timeline timeline;
  timeline.add(seconds(2), "b");
  timeline.add(seconds(1), "a");
  timeline.add(seconds(2), "c");
  REQUIRE(timeline.next(Tick{1'000'000'000'000}) == nullptr);  // not started
  REQUIRE(timeline.next_due() == kNever);
  const Tick start{500};
  timeline.start(start);
  REQUIRE(timeline.next_due() == start + seconds(1));
  REQUIRE(timeline.next(start) == nullptr);
  REQUIRE(timeline.next(start + seconds(1))->command == "a");
  REQUIRE(timeline.next(start + seconds(1)) == nullptr);
  REQUIRE(timeline.next(start + seconds(5))->command == "b");
  REQUIRE_FALSE(timeline.done());
  REQUIRE(timeline.next(start + seconds(5))->command == "c");
  REQUIRE(timeline.done());
  REQUIRE(timeline.next(start + seconds(9)) == nullptr);
  REQUIRE(timeline.next_due() == kNever);
  timeline.start(start);  // again
  REQUIRE(timeline.next(start + seconds(1))->command == "a");
}

TEST_CASE("errors name the file and the line") {
  contains(error_of("x = "), "plan.toml, line 1");
  contains(error_of(""), "no [[event]]");
  contains(error_of("speed = 2\n"), "unknown key \"speed\"");
  contains(error_of("scale = -1\n"), "above 0");
  contains(error_of("event = 3\n"), "[[event]]");
  contains(error_of("event = [1]\n"), "[[event]]");
  const std::string one = error_of("[[event]]\nat = 1\ndo = \"clear\"\n\n[[event]]\nat = \"soon\"\ndo = \"clear\"\n");
  contains(one, "line 6");
  contains(one, "\"soon\" is no time");
  contains(error_of("[[event]]\ndo = \"clear\"\n"), "has no time");
  contains(error_of("[[event]]\nat = 1\n"), "does nothing");
  contains(error_of("[[event]]\nat = 1\ndo = []\n"), "does nothing");
  contains(error_of("[[event]]\nat = 1\ndo = \"  \"\n"), "line 3");
  contains(error_of("[[event]]\nat = 1\ndo = 7\n"), "wants a command");
  contains(error_of("[[event]]\nat = 1\ndo = [\"clear\", 7]\n"), "wants a command");
  contains(error_of("[[event]]\nat = -1\ndo = \"clear\"\n"), "0 or more");
  contains(error_of("[[event]]\nat = true\ndo = \"clear\"\n"), "wants a time");
  contains(error_of("[[event]]\nat = 1\ndo = \"clear\"\nwhen = 2\n"), "unknown key \"when\"");
  const auto missing = Timeline::load("/nonexistent/plan.toml");
  REQUIRE_FALSE(missing);
  contains(missing.error().text, "/nonexistent/plan.toml");
}

TEST_CASE("garbage is an error, never a crash") {
  REQUIRE(rc::check([](std::uint64_t seed) {
    static constexpr std::array kParts{
        "[[event]]\n",         "at = ",    "do = ", "\"1.5s\"", "1",     "\n", "[",  "]",
        "\"plane 0 down\"",    "scale = ", "nan",   "inf",      "1e400", "=",  "\"", "event",
        "{at=1, do=\"clear\"}"};
    Random random(seed);
    std::string text;
    for (unsigned n = random.below(30); n > 0; --n) {
      if (random.below(30) == 0) {
        text += static_cast<char>(random.next());
      } else {
        text += kParts[random.below(kParts.size())];
      }
    }
    const auto timeline = Timeline::parse(text, "x");
    if (!timeline) RC_ASSERT(!timeline.error().text.empty());
    if (timeline) {
      for (const auto& event : timeline->events()) RC_ASSERT(event.at.ns >= 0);
    }
  }));
}
