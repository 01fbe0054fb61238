// SPDX-License-Identifier: BSD-2-Clause
// The words of `mrc-switch ctl`: settings of the running fabric, and reports.
#include <errno.h>
#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <sstream>

#include "log.hpp"
#include "server.hpp"

namespace mrc::soft {
namespace {

constexpr const char* kUsage =
    "want: stats | list | plane P up|down | t0 P N up|down | t1 P N up|down | link P T0 T1 up|down | "
    "nic P T0 N up|down | impair [plane P] loss|dup|reorder|corrupt|ecn|trim PROBABILITY … delay TIME … | "
    "impair [plane P] clear";

using Words = std::vector<std::string>;

std::optional<unsigned> number(const std::string& text) {
  unsigned value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

tl::unexpected<Error> no_such(const std::string& what) {
  return fail(ENOENT, fmt::format("this fabric has no {}", what));
}

/// Sets one field of an impairment from "name value".
Result<void> set_field(fabric::Impairment& out, const std::string& name, const std::string& value, bool may_corrupt) {
  if (name == "delay") {
    auto delay = parse_duration(value);
    if (!delay) return tl::make_unexpected(delay.error());
    out.delay = *delay;
    return {};
  }
  double* const field = name == "loss"      ? &out.loss
                        : name == "dup"     ? &out.duplicate
                        : name == "reorder" ? &out.reorder
                        : name == "corrupt" ? &out.corrupt
                        : name == "ecn"     ? &out.ecn
                        : name == "trim"    ? &out.trim
                                            : nullptr;
  if (field == nullptr) return fail(EINVAL, fmt::format("'{}' is nothing that can be impaired; {}", name, kUsage));
  double probability = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), probability);
  if (error != std::errc{} || end != value.data() + value.size() || !(probability >= 0 && probability <= 1)) {
    return fail(EINVAL, fmt::format("'{}' is no probability (0 to 1)", value));
  }
  if (name == "corrupt" && probability > 0 && !may_corrupt) {
    return fail(EPERM,
                "this switch told its clients that its memory corrupts nothing, so they send no iCRC; start it with "
                "--corrupt 0 to be able to corrupt later");
  }
  *field = probability;
  return {};
}

Result<std::string> impair(Server& server, const Words& words) {
  Forwarder& forwarder = server.forwarder();
  std::size_t at = 1;
  std::optional<unsigned> plane;
  if (words.size() > 2 && words[1] == "plane") {
    plane = number(words[2]);
    if (!plane || *plane >= forwarder.planes()) return no_such("plane " + words[2]);
    at = 3;
  }
  fabric::Impairment impairment = plane ? forwarder.plane_impairment(*plane) : forwarder.global_impairment();
  if (at >= words.size()) return fail(EINVAL, kUsage);
  for (; at < words.size(); at += 2) {
    if (words[at] == "clear") {
      impairment = fabric::Impairment{.reorder_delay = server.options().impairment.reorder_delay};
      --at;
      continue;
    }
    if (at + 1 >= words.size()) return fail(EINVAL, fmt::format("'{}' wants a value", words[at]));
    if (auto set = set_field(impairment, words[at], words[at + 1], server.options().may_corrupt); !set) {
      return tl::make_unexpected(set.error());
    }
  }
  if (plane) {
    forwarder.set_plane(*plane, impairment);
  } else {
    forwarder.set_global(impairment);
  }
  return "ok\n";
}

/// "plane P", "t0 P N", "t1 P N", "link P T0 T1", "nic P T0 N", then up or down.
Result<std::string> set_up(Server& server, const Words& words) {
  Forwarder& forwarder = server.forwarder();
  fabric::Clos& clos = forwarder.clos();
  const std::string& what = words[0];
  const std::size_t numbers = what == "plane" ? 1 : what == "t0" || what == "t1" ? 2 : 3;
  if (words.size() != numbers + 2 || (words.back() != "up" && words.back() != "down")) return fail(EINVAL, kUsage);
  std::array<unsigned, 3> n{};
  for (std::size_t i = 0; i < numbers; ++i) {
    const auto value = number(words[i + 1]);
    if (!value || *value > 1023) return fail(EINVAL, fmt::format("'{}' is no index", words[i + 1]));
    n[i] = *value;
  }
  const bool down = words.back() == "down";
  const auto plane = static_cast<std::uint8_t>(n[0]);
  const auto a = static_cast<std::uint16_t>(n[1]), b = static_cast<std::uint16_t>(n[2]);
  if (n[0] >= forwarder.planes()) return no_such("plane " + words[1]);
  bool done = false;
  if (what == "plane") {
    done = clos.set_plane_down(plane, down);
    if (done) server.tell_plane(plane, !down);
  } else if (forwarder.uplinks() != nullptr) {
    return fail(ENOTSUP, "with uplinks the fabric is real: only planes can be taken down here");
  } else if (what == "link") {
    done = clos.set_cable_down({fabric::LinkKind::kT0ToT1, plane, a, b}, down);
  } else if (what == "nic") {
    done = clos.set_cable_down({fabric::LinkKind::kNicToT0, plane, a, b}, down);
    if (done) server.tell_carrier({{a, b}, plane}, !down);
  } else {
    done = clos.set_switch_down({what == "t0" ? path::UsidKind::kT0 : path::UsidKind::kT1, plane, a}, down);
    if (done && what == "t0") {
      for (std::uint16_t nic = 0; nic < clos.config().nics; ++nic) server.tell_carrier({{a, nic}, plane}, !down);
    }
  }
  if (!done) return no_such(fmt::format("{} with these indices", what));
  return "ok\n";
}

}  // namespace

Result<std::string> run_command(Server& server, const std::string& text) {
  Words words;
  std::istringstream stream(text);
  for (std::string word; stream >> word && words.size() < 64;) words.push_back(word);
  if (words.empty()) return fail(EINVAL, kUsage);
  if (words[0] == "stats" && words.size() == 1) return server.stats_json();
  if (words[0] == "list" && words.size() == 1) return server.list_json();
  Result<std::string> result = fail(EINVAL, fmt::format("'{}' is no command; {}", words[0].substr(0, 32), kUsage));
  if (words[0] == "impair") result = impair(server, words);
  for (const char* what : {"plane", "t0", "t1", "link", "nic"}) {
    if (words[0] == what) result = set_up(server, words);
  }
  if (result) log("ctl: {}", text);
  return result;
}

}  // namespace mrc::soft
