// SPDX-License-Identifier: BSD-2-Clause
// The command language's names: which links, switches and planes a command is about.
#include <fmt/format.h>

#include <cerrno>
#include <charconv>

#include "command_words.hpp"

namespace mrc::fabric {
namespace {

using path::UsidKind;

constexpr std::size_t kMaxWords = 64;

// One end of a link: a switch or a NIC, in any plane.
struct End {
  UsidKind kind = UsidKind::kT0;
  path::Location nic{};     // kNic
  std::uint16_t index = 0;  // kT0, kT1
};

std::string range(std::string_view name, unsigned count) {
  return count > 1 ? fmt::format("{0}-0 to {0}-{1}", name, count - 1) : fmt::format("{}-0", name);
}

std::string what_there_is(const Clos& clos) {
  const ClosConfig& c = clos.config();
  return fmt::format("{}, {}nic0 to nic{} in planes 0 to {}", range("t0", c.t0s),
                     c.t1s == 0 ? "" : range("t1", c.t1s) + ", ", unsigned{c.t0s} * c.nics - 1, c.planes - 1);
}

tl::unexpected<Error> no_such(const Clos& clos, std::string_view what) {
  return fail(ENOENT, fmt::format("this fabric has no {}; it has {}", quoted(what), what_there_is(clos)));
}

// "3" or "0.3", behind "nic".
std::optional<path::Location> place_of(const Clos& clos, std::string_view number) {
  const std::size_t dot = number.find('.');
  const unsigned t0s = clos.config().t0s;
  if (dot == std::string_view::npos) {
    const auto n = index_number(number);
    if (!n) return std::nullopt;
    return path::Location{static_cast<std::uint16_t>(*n % t0s), static_cast<std::uint16_t>(*n / t0s)};
  }
  const auto t0 = index_number(number.substr(0, dot)), nic = index_number(number.substr(dot + 1));
  if (!t0 || !nic) return std::nullopt;
  return path::Location{static_cast<std::uint16_t>(*t0), static_cast<std::uint16_t>(*nic)};
}

Result<End> read_end(const Clos& clos, Words& words, std::string_view wanted) {
  const ClosConfig& c = clos.config();
  std::string_view word = words.take();
  if (word.empty()) return fail(EINVAL, fmt::format("the command ends where {} should be named", wanted));
  if (word.starts_with("nic")) {
    std::string_view number = word.substr(3);
    if (number.empty()) number = words.take();
    if (number.starts_with("-")) number.remove_prefix(1);
    const auto place = place_of(clos, number);
    if (!place) {
      return fail(
          EINVAL,
          fmt::format("{} is no NIC's name: nic3 counts all NICs in turn over the T0s, nic0.1 is the second under t0-0",
                      quoted(word)));
    }
    if (place->t0 >= c.t0s || place->nic >= c.nics) return no_such(clos, word);
    return End{.kind = UsidKind::kNic, .nic = *place};
  }
  const bool t0 = word.starts_with("t0-");
  const auto index = t0 || word.starts_with("t1-") ? index_number(word.substr(3)) : std::nullopt;
  if (!index) {
    return fail(EINVAL, fmt::format("{} is no name of {}: want t0-N, t1-N or nicN", quoted(word), wanted));
  }
  if (*index >= (t0 ? c.t0s : c.t1s)) return no_such(clos, word);
  return End{.kind = t0 ? UsidKind::kT0 : UsidKind::kT1, .index = static_cast<std::uint16_t>(*index)};
}

std::string name(const Clos& clos, const End& end) {
  if (end.kind == UsidKind::kNic) return nic_name(clos, end.nic);
  return name_of(clos, SwitchId{end.kind, 0, end.index});
}

// From `a` to `b`, in plane 0.
Result<LinkId> link_between(const Clos& clos, const End& a, const End& b) {
  if (a.kind == UsidKind::kT0 && b.kind == UsidKind::kT1) return LinkId{LinkKind::kT0ToT1, 0, a.index, b.index};
  if (a.kind == UsidKind::kT1 && b.kind == UsidKind::kT0) return LinkId{LinkKind::kT1ToT0, 0, b.index, a.index};
  const bool up = a.kind == UsidKind::kNic && b.kind == UsidKind::kT0;
  if (!up && !(a.kind == UsidKind::kT0 && b.kind == UsidKind::kNic)) {
    return fail(ENOENT,
                fmt::format("there is no link between {} and {}: links go from NICs to their T0 and from T0s to T1s",
                            name(clos, a), name(clos, b)));
  }
  const End& nic = up ? a : b;
  const std::uint16_t t0 = up ? b.index : a.index;
  if (nic.nic.t0 != t0) {
    return fail(ENOENT, fmt::format("{} sits under t0-{}, not under t0-{}", name(clos, nic), nic.nic.t0, t0));
  }
  return LinkId{up ? LinkKind::kNicToT0 : LinkKind::kT0ToNic, 0, t0, nic.nic.nic};
}

LinkId reversed(LinkId id) {
  constexpr std::array kOther{LinkKind::kT0ToNic, LinkKind::kNicToT0, LinkKind::kT1ToT0, LinkKind::kT0ToT1};
  id.kind = kOther[static_cast<std::size_t>(id.kind)];
  return id;
}

Result<unsigned> read_plane(const Clos& clos, Words& words) {
  const std::string_view word = words.take();
  const auto plane = index_number(word);
  if (!plane)
    return fail(EINVAL, word.empty() ? "'plane' wants a number" : fmt::format("{} is no plane's number", quoted(word)));
  if (*plane >= clos.config().planes) {
    return fail(ENOENT, fmt::format("this fabric has no plane {}, only 0 to {}", word, clos.config().planes - 1));
  }
  return *plane;
}

// The last words of a named link or switch: in which plane (all, if none is said), and whether one way only.
struct Rest {
  std::optional<unsigned> plane;
  bool oneway = false;
};

Result<Rest> read_rest(const Clos& clos, Words& words, bool link) {
  Rest rest;
  for (;;) {
    if (words.accept("plane")) {
      const auto plane = read_plane(clos, words);
      if (!plane) return tl::make_unexpected(plane.error());
      rest.plane = *plane;
    } else if (link && words.accept("oneway")) {
      rest.oneway = true;
    } else {
      return rest;
    }
  }
}

void add_link(const Clos& clos, Plan& plan, LinkId id, const Rest& rest) {
  plan.scope = Scope::kLinks;
  for (std::uint8_t plane = 0; plane < clos.config().planes; ++plane) {
    if (rest.plane && plane != *rest.plane) continue;
    id.plane = plane;
    plan.links.push_back(id);
    if (!rest.oneway) plan.links.push_back(reversed(id));
  }
}

// "t0 P N", "t1 P N", "link P T0 T1", "nic P T0 N".
Result<Plan> read_numbered(const Clos& clos, std::string_view what, Words& words) {
  const ClosConfig& c = clos.config();
  Plan plan;
  const auto plane = read_plane(clos, words);
  if (!plane) return tl::make_unexpected(plane.error());
  std::array<std::uint16_t, 2> n{};
  const bool box = what == "t0" || what == "t1";
  for (std::size_t i = 0; i < (box ? 1u : 2u); ++i) {
    const std::string_view word = words.take();
    const auto value = index_number(word);
    if (!value) return fail(EINVAL, fmt::format("{} is no index; '{}' wants numbers", quoted(word), what));
    const unsigned limit = i == 0 ? (what == "t1" ? c.t1s : c.t0s) : what == "nic" ? c.nics : c.t1s;
    if (*value >= limit) {
      return fail(ENOENT,
                  fmt::format("this fabric has no {} with index {}; it has {}", what, *value, what_there_is(clos)));
    }
    n[i] = static_cast<std::uint16_t>(*value);
  }
  if (box) {
    plan.scope = Scope::kSwitches;
    plan.switches.push_back({what == "t0" ? UsidKind::kT0 : UsidKind::kT1, static_cast<std::uint8_t>(*plane), n[0]});
  } else {
    add_link(clos, plan, {what == "nic" ? LinkKind::kNicToT0 : LinkKind::kT0ToT1, 0, n[0], n[1]}, {.plane = *plane});
  }
  return plan;
}

Result<Plan> read_link(const Clos& clos, Words& words, bool port) {
  Plan plan;
  const auto a = read_end(clos, words, port ? "a NIC" : "a link's end");
  if (!a) return tl::make_unexpected(a.error());
  if (port && a->kind != UsidKind::kNic) return fail(EINVAL, "a port is a NIC's: want port nicN");
  Result<End> b = End{.kind = UsidKind::kT0, .index = a->nic.t0};
  if (!port) b = read_end(clos, words, "a link's other end");
  if (!b) return tl::make_unexpected(b.error());
  const auto id = link_between(clos, *a, *b);
  if (!id) return tl::make_unexpected(id.error());
  const auto rest = read_rest(clos, words, true);
  if (!rest) return tl::make_unexpected(rest.error());
  add_link(clos, plan, *id, *rest);
  return plan;
}

Result<Plan> read_switch(const Clos& clos, Words& words) {
  Plan plan{.scope = Scope::kSwitches};
  const auto box = read_end(clos, words, "a switch");
  if (!box) return tl::make_unexpected(box.error());
  if (box->kind == UsidKind::kNic) return fail(EINVAL, "a NIC is no switch: want switch t0-N or t1-N");
  const auto rest = read_rest(clos, words, false);
  if (!rest) return tl::make_unexpected(rest.error());
  for (std::uint8_t plane = 0; plane < clos.config().planes; ++plane) {
    if (!rest->plane || plane == *rest->plane) plan.switches.push_back({box->kind, plane, box->index});
  }
  return plan;
}

}  // namespace

Words::Words(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n";
  for (std::size_t at = text.find_first_not_of(kBlank); at != std::string_view::npos;) {
    const std::size_t end = std::min(text.find_first_of(kBlank, at), text.size());
    if (words_.size() == kMaxWords) {
      too_long_ = true;
      return;
    }
    words_.push_back(text.substr(at, end - at));
    at = text.find_first_not_of(kBlank, end);
  }
}

std::string quoted(std::string_view word) {
  std::string out = "'";
  for (const char c : word.substr(0, 32)) out += c >= ' ' && c <= '~' ? c : '?';
  return out + (word.size() > 32 ? "…'" : "'");
}

std::optional<unsigned> index_number(std::string_view word) {
  unsigned value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc{} || end != word.data() + word.size() || value > UINT16_MAX) return std::nullopt;
  return value;
}

std::string name_of(const Clos&, const SwitchId& id) {
  return fmt::format("{}-{}", id.kind == UsidKind::kT0 ? "t0" : "t1", id.index);
}

std::string nic_name(const Clos& clos, const path::Location& nic) {
  return fmt::format("nic{}", unsigned{nic.nic} * clos.config().t0s + nic.t0);
}

Result<Plan> read_where(const Clos& clos, Words& words) {
  const auto numbered = [&] { return index_number(words.peek()).has_value(); };
  if (words.accept("plane")) {
    const auto plane = read_plane(clos, words);
    if (!plane) return tl::make_unexpected(plane.error());
    return Plan{.scope = Scope::kPlane, .plane = *plane};
  }
  if (words.accept("port")) return read_link(clos, words, true);
  if (words.accept("switch")) return read_switch(clos, words);
  if (words.accept("link")) return numbered() ? read_numbered(clos, "link", words) : read_link(clos, words, false);
  for (const std::string_view what : {"t0", "t1", "nic"}) {
    if (words.accept(what)) return read_numbered(clos, what, words);
  }
  return Plan{};
}

}  // namespace mrc::fabric
