// SPDX-License-Identifier: BSD-2-Clause
// Reading a timeline's TOML. Every key is looked at: what is not known is an error, not a silent default.
#include <fmt/format.h>

#include <cerrno>
#include <cmath>
#include <fstream>
#include <optional>
#include <sstream>

#include "mrc/fabric/command.hpp"
#include "mrc/fabric/timeline.hpp"
#include "mrc/toml.hpp"

namespace mrc::fabric {
namespace {

class Reader {
 public:
  Reader(const std::string& origin, double scale) : origin_(origin), scale_(scale) {}

  bool complain(const toml::node& at, const std::string& what) { return complain(at.source().begin.line, what); }
  bool complain(unsigned line, const std::string& what) {
    if (!error_) error_ = Error{EINVAL, fmt::format("{}, line {}: {}", origin_, line, what)};
    return false;
  }
  const std::optional<Error>& error() const { return error_; }

  bool root(const toml::table& table, Timeline& out) {
    for (const auto& [key, node] : table) {
      if (key == "scale") {
        const auto scale = node.value<double>();
        if (!scale || !std::isfinite(*scale) || *scale <= 0) return complain(node, "scale wants a number above 0");
        scale_ *= *scale;
      } else if (key != "event") {
        return complain(node, fmt::format("unknown key \"{}\"; known are scale and [[event]]", key.str()));
      }
    }
    const toml::node* events = table.get("event");
    if (events == nullptr) return complain(1, "there is no [[event]]");
    const toml::array* list = events->as_array();
    if (list == nullptr) return complain(*events, "event must be an array of tables: [[event]]");
    for (const toml::node& node : *list) {
      const toml::table* event = node.as_table();
      if (event == nullptr) return complain(node, "event must be an array of tables: [[event]]");
      if (!one(*event, out)) return false;
    }
    return true;
  }

 private:
  bool one(const toml::table& event, Timeline& out) {
    for (const auto& [key, node] : event) {
      if (key == "at" || key == "do") continue;
      return complain(node, fmt::format("unknown key \"{}\" in [[event]]; known are at and do", key.str()));
    }
    const toml::node* at = event.get("at");
    const toml::node* what = event.get("do");
    if (at == nullptr) return complain(event, "this event has no time: at = \"1.5s\"");
    if (what == nullptr) return complain(event, "this event does nothing: do = \"link t0-0 t1-1 down\"");
    Duration when{};
    if (!time(*at, when)) return false;
    const toml::array* several = what->as_array();
    if (several == nullptr) return command(*what, when, out);
    for (const toml::node& node : *several) {
      if (!command(node, when, out)) return false;
    }
    return !several->empty() || complain(*what, "this event does nothing");
  }

  bool time(const toml::node& node, Duration& out) {
    double ns = 0;
    if (const auto text = node.value<std::string>()) {
      const bool unit = !text->empty() && text->back() == 's';
      const auto parsed = parse_time(unit ? *text : *text + "s");  // without a unit: seconds, as a number would be
      if (!parsed)
        return complain(node, fmt::format("\"{}\" is no time: want e.g. \"1.5s\", \"20ms\" or seconds", *text));
      ns = static_cast<double>(parsed->ns);
    } else if (const auto number = node.value<double>()) {
      ns = *number * 1e9;
    } else {
      return complain(node, "at wants a time: \"1.5s\" or seconds");
    }
    ns *= scale_;
    if (!std::isfinite(ns) || ns < 0 || ns > 1e17) return complain(node, "at wants a time of 0 or more");
    out = Duration{static_cast<std::int64_t>(std::llround(ns))};
    return true;
  }

  bool command(const toml::node& node, Duration at, Timeline& out) {
    const auto text = node.value<std::string>();
    if (!text || text->find_first_not_of(" \t\r\n") == std::string::npos) {
      return complain(node, "do wants a command, e.g. \"plane 1 down\"");
    }
    out.add(at, *text, node.source().begin.line);
    return true;
  }

  const std::string& origin_;
  double scale_;
  std::optional<Error> error_;
};

}  // namespace

Result<Timeline> Timeline::parse(std::string_view text, const std::string& origin, double scale) {
  const toml::parse_result parsed = toml::parse(text, origin);
  Reader reader(origin, scale);
  if (!parsed) {
    reader.complain(parsed.error().source().begin.line, std::string(parsed.error().description()));
    return tl::make_unexpected(*reader.error());
  }
  Timeline timeline;
  if (!reader.root(parsed.table(), timeline)) return tl::make_unexpected(*reader.error());
  return timeline;
}

Result<Timeline> Timeline::load(const std::string& path, double scale) {
  std::ifstream file(path);
  if (!file) return fail(ENOENT, fmt::format("cannot read {}: does it exist, and may you read it?", path));
  std::stringstream text;
  text << file.rdbuf();
  return parse(text.str(), path, scale);
}

}  // namespace mrc::fabric
