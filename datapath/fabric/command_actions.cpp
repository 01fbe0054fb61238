// SPDX-License-Identifier: BSD-2-Clause
// The command language's actions and values: what is to be done, checked before anything is.
#include <fmt/format.h>

#include <cerrno>
#include <charconv>
#include <cmath>

#include "command_words.hpp"

namespace mrc::fabric {
namespace {

constexpr std::string_view kActions =
    "down, up, loss P, duplicate P, corrupt P, reorder P [TIME], delay TIME, ecn P|on|off, trim P|on|off, "
    "burst P LENGTH [LOSS], flap PERIOD SHARE [PHASE], rate R, clear";

std::optional<double> number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

// Splits "1.5ms" into 1.5 and "ms".
std::optional<double> number_with_unit(std::string_view text, std::string_view& unit) {
  std::size_t digits = 0;
  while (digits < text.size() && (text[digits] == '.' || (text[digits] >= '0' && text[digits] <= '9'))) ++digits;
  unit = text.substr(digits);
  return number(text.substr(0, digits));
}

bool starts_number(std::string_view word) {
  return !word.empty() && (word[0] == '.' || (word[0] >= '0' && word[0] <= '9'));
}

tl::unexpected<Error> missing(std::string_view action, std::string_view what) {
  return fail(EINVAL, fmt::format("'{}' wants {}", action, what));
}

struct Field {
  std::string_view word;
  double Impairment::*field;
};
constexpr std::array kFields{Field{"loss", &Impairment::loss},     Field{"duplicate", &Impairment::duplicate},
                             Field{"dup", &Impairment::duplicate}, Field{"corrupt", &Impairment::corrupt},
                             Field{"ecn", &Impairment::ecn},       Field{"trim", &Impairment::trim}};

Result<Change> read_burst(Words& words) {
  Change change{.kind = Change::Kind::kBurst};
  if (words.done()) return missing("burst", "a chance and a mean length, e.g. burst 0.01% 20");
  const auto chance = parse_chance(words.take());
  if (!chance) return tl::make_unexpected(chance.error());
  change.value = *chance;
  if (*chance == 0 && !starts_number(words.peek())) return change;
  const std::string_view word = words.take();
  const auto length = number(word);
  if (!length || *length < 1 || *length > 1e9) {
    return fail(EINVAL, fmt::format("{} is no mean length of bursts: want packets, 1 or more", quoted(word)));
  }
  change.length = *length;
  if (!starts_number(words.peek())) return change;
  const auto loss = parse_chance(words.take());
  if (!loss) return tl::make_unexpected(loss.error());
  change.loss = *loss;
  return change;
}

Result<Change> read_flap(Words& words) {
  Change change{.kind = Change::Kind::kFlap};
  if (words.accept("off")) return change;
  if (words.done()) return missing("flap", "a period and the share of it that the link is down, e.g. flap 10ms 50%");
  const std::string_view word = words.take();
  const auto period = parse_time(word);
  if (!period) return tl::make_unexpected(period.error());
  if (period->ns < 1000)
    return fail(EINVAL, fmt::format("{} is no period of flapping: want 1us or more", quoted(word)));
  if (words.done()) return missing("flap", "the share of each period that the link is down, e.g. 50%");
  const auto share = parse_chance(words.take());
  if (!share) return tl::make_unexpected(share.error());
  change.flap.period = *period;
  change.flap.down.ns = static_cast<std::int64_t>(std::llround(static_cast<double>(period->ns) * *share));
  if (!starts_number(words.peek())) return change;
  const auto phase = parse_time(words.take());
  if (!phase) return tl::make_unexpected(phase.error());
  change.flap.phase = *phase;
  return change;
}

bool all_rated(const Clos& clos, const Plan& plan) {
  bool rated = true;
  const auto look = [&](const LinkId& id) { rated = rated && clos.model(id).bps != 0; };
  if (plan.scope == Scope::kLinks) {
    for (const LinkId& id : plan.links) look(id);
  } else {
    clos.for_each_link([&](const LinkId& id) {
      if (plan.scope == Scope::kFabric || id.plane == plan.plane) look(id);
    });
  }
  return rated;
}

Result<Change> read_rate(const Clos& clos, const Plan& plan, Words& words) {
  Change change{.kind = Change::Kind::kRate};
  if (plan.scope == Scope::kSwitches) return fail(EINVAL, "rates belong to links, ports and planes, not to switches");
  if (words.done()) return missing("rate", "a rate, e.g. rate 25%, rate 10G, rate full");
  const std::string_view word = words.take();
  if (word == "full") return change;
  if (word.ends_with('%')) {
    const auto share = number(word.substr(0, word.size() - 1));
    if (!share || *share <= 0 || *share > 1000) {
      return fail(EINVAL, fmt::format("{} is no share of a rate: want more than 0%, or 'down'", quoted(word)));
    }
    if (!all_rated(clos, plan)) {
      return fail(EINVAL,
                  "there are links here whose rate is not limited: a share of it means nothing, say e.g. rate 10G");
    }
    change.value = *share / 100;
    return change;
  }
  const auto bps = parse_rate(word);
  if (!bps) return tl::make_unexpected(bps.error());
  change.bps = *bps;
  return change;
}

Result<Change> read_up_down(const Plan& plan, bool down) {
  if (plan.scope == Scope::kFabric) {
    return fail(EINVAL,
                fmt::format("say what goes {}: link A B, port NIC, switch S or plane P; 'clear' ends all faults",
                            (down ? "down" : "up")));
  }
  return Change{.kind = down ? Change::Kind::kDown : Change::Kind::kUp};
}

Result<Change> read_field(std::string_view word, double Impairment::*field, const Plan& plan, Words& words,
                          const CommandRules& rules) {
  const bool marks = word == "ecn" || word == "trim";
  if (marks && (words.peek() == "on" || words.peek() == "off")) {
    if (plan.scope != Scope::kFabric) {
      return fail(EINVAL, fmt::format("'{} on|off' is for the whole fabric, without naming a part of it", word));
    }
    return Change{.kind = word == "ecn" ? Change::Kind::kEcn : Change::Kind::kTrim, .on = words.take() == "on"};
  }
  if (words.done()) return missing(word, marks ? "a chance, on or off" : "a chance, e.g. 0.1%");
  const auto chance = parse_chance(words.take());
  if (!chance) return tl::make_unexpected(chance.error());
  if (word == "corrupt" && *chance > 0 && !rules.may_corrupt) return fail(EPERM, std::string(rules.why_not_corrupt));
  return Change{.kind = Change::Kind::kField, .field = field, .value = *chance};
}

Result<Change> read_timed(std::string_view word, Words& words) {
  Change change{.kind = word == "delay" ? Change::Kind::kDelay : Change::Kind::kReorder};
  if (words.done()) return missing(word, word == "delay" ? "a time, e.g. 5us" : "a chance and a time, e.g. 1% 50us");
  if (change.kind == Change::Kind::kReorder) {
    const auto chance = parse_chance(words.take());
    if (!chance) return tl::make_unexpected(chance.error());
    change.value = *chance;
    if (!starts_number(words.peek())) return change;
  }
  const auto time = parse_time(words.take());
  if (!time) return tl::make_unexpected(time.error());
  change.time = *time;
  return change;
}

Result<Change> read_action(const Clos& clos, Words& words, const Plan& plan, const CommandRules& rules) {
  const std::string_view word = words.take();
  if (word == "down" || word == "up") return read_up_down(plan, word == "down");
  if (word == "clear") return Change{.kind = Change::Kind::kClear};
  if (word == "delay" || word == "reorder") return read_timed(word, words);
  if (word == "burst") return read_burst(words);
  if (word == "rate") return read_rate(clos, plan, words);
  if (word == "flap") {
    if (plan.scope != Scope::kLinks) return fail(EINVAL, "only links and ports flap: want link A B flap PERIOD SHARE");
    return read_flap(words);
  }
  for (const Field& known : kFields) {
    if (word == known.word) return read_field(word, known.field, plan, words, rules);
  }
  return fail(EINVAL, fmt::format("{} is no action; known are {}", quoted(word), kActions));
}

}  // namespace

Result<double> parse_chance(std::string_view text) {
  const bool percent = text.ends_with('%');
  const auto value = number(percent ? text.substr(0, text.size() - 1) : text);
  const double most = percent ? 100 : 1;
  if (!value || *value < 0 || *value > most || std::signbit(*value)) {
    return fail(EINVAL, fmt::format("{} is no chance: want 0 to 1, or a percentage such as 0.1%", quoted(text)));
  }
  return percent ? *value / 100 : *value;
}

Result<Duration> parse_time(std::string_view text) {
  std::string_view unit;
  const auto value = number_with_unit(text, unit);
  const double scale = unit == "ns"                   ? 1
                       : unit.empty() || unit == "us" ? 1e3
                       : unit == "ms"                 ? 1e6
                       : unit == "s"                  ? 1e9
                                                      : 0;
  if (!value || scale == 0 || *value * scale > 1e15) {
    return fail(EINVAL, fmt::format("{} is no time: want e.g. 300ns, 5us, 2ms or 1s (a bare number is microseconds)",
                                    quoted(text)));
  }
  return Duration{static_cast<std::int64_t>(std::llround(*value * scale))};
}

Result<std::uint64_t> parse_rate(std::string_view text) {
  std::string_view unit;
  const auto value = number_with_unit(text, unit);
  const double scale = unit.empty()                 ? 1
                       : unit == "K" || unit == "k" ? 1e3
                       : unit == "M"                ? 1e6
                       : unit == "G" || unit == "g" ? 1e9
                       : unit == "T"                ? 1e12
                                                    : 0;
  if (!value || scale == 0 || *value * scale < 1e5 || *value * scale > 1e15) {
    return fail(EINVAL,
                fmt::format("{} is no rate: want bits per second, e.g. 10G, 2.5G, 100M (100K or more)", quoted(text)));
  }
  return static_cast<std::uint64_t>(std::llround(*value * scale));
}

Result<void> read_actions(const Clos& clos, Words& words, Plan& plan, const CommandRules& rules) {
  if (words.done()) return fail(EINVAL, fmt::format("the command names no action; known are {}", kActions));
  while (!words.done()) {
    if (plan.scope == Scope::kLinks && words.accept("oneway")) {
      // Said last: "link A B down oneway". Links come in pairs, A to B first.
      std::vector<LinkId> forward;
      for (const LinkId& id : plan.links) {
        if (forward.empty() || id.kind == forward.front().kind) forward.push_back(id);
      }
      plan.links = std::move(forward);
      if (plan.changes.empty() && words.done()) return fail(EINVAL, "'oneway' needs an action, e.g. down oneway");
      continue;
    }
    auto change = read_action(clos, words, plan, rules);
    if (!change) return tl::make_unexpected(change.error());
    plan.changes.push_back(*change);
  }
  return {};
}

}  // namespace mrc::fabric
