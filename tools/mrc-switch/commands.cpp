// SPDX-License-Identifier: BSD-2-Clause
// The words of `mrc-switch ctl`: reports of its own, and the fabric's command language (mrc/fabric/command.hpp) for
// everything that can be changed, now or by a timeline.
#include <errno.h>
#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "log.hpp"
#include "mrc/fabric/command.hpp"
#include "server.hpp"

namespace mrc::soft {
namespace {

using Words = std::vector<std::string>;

constexpr const char* kReports = "reports are stats, list, status [--all] [--json], timeline FILE and timeline stop";

fabric::CommandRules rules(const Options& options) {
  return {.may_corrupt = options.may_corrupt,
          .why_not_corrupt =
              "this switch told its clients that its memory corrupts nothing, so they send no iCRC; start it "
              "with --corrupt 0 to be able to corrupt later"};
}

Words split(const std::string& text) {
  Words words;
  std::istringstream stream(text);
  for (std::string word; stream >> word && words.size() < 64;) words.push_back(word);
  return words;
}

Result<std::string> report_status(const Server& server, const Words& words) {
  bool all = false, json = false;
  for (std::size_t i = 1; i < words.size(); ++i) {
    if (words[i] == "--all") {
      all = true;
    } else if (words[i] == "--json") {
      json = true;
    } else {
      return fail(EINVAL, fmt::format("status knows --all and --json, not '{}'", words[i].substr(0, 32)));
    }
  }
  const Tick now = control::monotonic_now();
  return json ? server.status_json(now) : server.status_table(now, all);
}

Result<std::string> run_timeline(Server& server, const std::string& text) {
  const auto at = text.find_first_not_of(" \t", text.find("timeline") + 8);
  if (at == std::string::npos) return fail(EINVAL, "timeline wants a file, or stop");
  const std::string file = text.substr(at, text.find_last_not_of(" \t\r\n") + 1 - at);
  if (file == "stop") {
    server.stop_timeline();
    return "ok\n";
  }
  if (auto started = server.start_timeline(file, control::monotonic_now()); !started) {
    return tl::make_unexpected(started.error());
  }
  return "ok\n";
}

}  // namespace

// With uplinks the fabric is real: what there is here is one impaired link per plane.
Result<void> Server::refuse_with_uplinks(const std::string& text) const {
  const auto plan = fabric::check_command(forwarder_.clos(), text, rules(options_));
  if (!plan) return tl::make_unexpected(plan.error());
  const Words words = split(text);
  if (plan->links.empty() && plan->switches.empty() && std::ranges::find(words, "rate") == words.end()) return {};
  return fail(ENOTSUP, "with uplinks the fabric is real: only planes can be taken down or impaired here");
}

Result<void> Server::apply(const std::string& text, Tick now) {
  if (forwarder_.uplinks() != nullptr) {
    if (auto possible = refuse_with_uplinks(text); !possible) return possible;
  }
  if (auto applied = fabric::apply_command(forwarder_.clos(), text, rules(options_)); !applied) {
    return tl::make_unexpected(applied.error());
  }
  forwarder_.settings_changed();
  tell_carriers(now);
  plan_next_event(now);
  return {};
}

Result<fabric::Timeline> Server::load_timeline(const std::string& path) const {
  auto timeline = fabric::Timeline::load(path);
  if (!timeline) return timeline;
  for (const auto& event : timeline->events()) {
    const auto fits = fabric::check_command(forwarder_.clos(), event.command, rules(options_));
    if (!fits) {
      return fail(fits.error().code, fmt::format("{}, line {}: {}", path, event.line, fits.error().text));
    }
  }
  return timeline;
}

Result<void> Server::check_timeline() const {
  if (options_.timeline.empty()) return {};
  const auto timeline = load_timeline(options_.timeline);
  return timeline ? Result<void>{} : tl::make_unexpected(timeline.error());
}

Result<void> Server::start_timeline(const std::string& path, Tick now) {
  auto timeline = load_timeline(path);
  if (!timeline) return tl::make_unexpected(timeline.error());
  timeline_ = std::move(*timeline);
  timeline_name_ = path;
  timeline_.start(now);
  log("timeline {}: {} commands", path, timeline_.events().size());
  plan_next_event(now);
  return {};
}

void Server::tick(Tick now) {
  while (const auto* event = timeline_.next(now)) {
    const auto applied = apply(event->command, now);
    log("timeline: {}{}", event->command, applied ? "" : ": " + applied.error().text);
  }
  tell_carriers(now);
  plan_next_event(now);
}

void Server::plan_next_event(Tick now) {
  next_event_ = std::min(timeline_.next_due(), forwarder_.uplinks() ? kNever : forwarder_.clos().next_flap(now));
}

Result<std::string> run_command(Server& server, const std::string& text) {
  const Words words = split(text);
  if (words.empty()) return fail(EINVAL, fmt::format("no command; {}", kReports));
  if (words[0] == "stats" && words.size() == 1) return server.stats_json();
  if (words[0] == "list" && words.size() == 1) return server.list_json();
  if (words[0] == "status") return report_status(server, words);
  if (words[0] == "timeline") return run_timeline(server, text);
  if (auto applied = server.apply(text, control::monotonic_now()); !applied) {
    Error error = applied.error();
    if (error.text.find("is no action") != std::string::npos) error.text += fmt::format("; {}", kReports);
    return tl::make_unexpected(std::move(error));
  }
  log("ctl: {}", text);
  return "ok\n";
}

}  // namespace mrc::soft
