// SPDX-License-Identifier: BSD-2-Clause
// The paths of a host, and names of links and switches.
#include "mrc/probe/mesh.hpp"

#include <fmt/format.h>

#include <initializer_list>

namespace mrc::probe {

std::string to_string(const Element& e) {
  switch (e.part) {
    case Part::kNicLink:
      return fmt::format("nic-{} – t0-{} plane {}", e.far, e.t0, e.plane);
    case Part::kLink:
      return fmt::format("t0-{} – t1-{} plane {}", e.t0, e.far, e.plane);
    case Part::kT0:
      return fmt::format("t0-{} plane {}", e.t0, e.plane);
    case Part::kT1:
      return fmt::format("t1-{} plane {}", e.far, e.plane);
  }
  return "?";
}

path::DenyRule deny_rule(const Element& e) {
  path::DenyRule rule;
  rule.plane = e.plane;
  if (e.part != Part::kT1) rule.t0 = static_cast<std::int16_t>(e.t0);
  if (e.part == Part::kNicLink) rule.nic = static_cast<std::int16_t>(e.far);
  if (e.part == Part::kLink || e.part == Part::kT1) rule.t1 = static_cast<std::int16_t>(e.far);
  return rule;
}

std::vector<Path> paths_of(const Shape& shape) {
  using path::UsidKind;
  std::vector<Path> out;
  for (std::uint8_t plane = 0; plane < shape.planes; ++plane) {
    const auto add = [&](std::initializer_list<std::uint16_t> usids, std::vector<Element> links) {
      Path& one = out.emplace_back();
      one.plane = plane;
      for (const std::uint16_t usid : usids) one.usids[one.count++] = usid;
      one.links = std::move(links);
    };
    const auto usid = [&](UsidKind kind, unsigned index) { return shape.usid.make(plane, kind, index); };
    const std::uint16_t home = usid(UsidKind::kT0, shape.self.t0);
    const std::uint16_t nic = usid(UsidKind::kNic, shape.self.nic);
    const Element own{Part::kNicLink, plane, shape.self.t0, shape.self.nic};
    add({home, nic}, {own});
    for (std::uint16_t k = 0; k < shape.t1s; ++k) {
      const std::uint16_t t1 = usid(UsidKind::kT1, k);
      const Element up{Part::kLink, plane, shape.self.t0, k};
      add({home, t1, home, nic}, {own, up});
      for (const std::uint16_t j : shape.t0s) {
        if (j == shape.self.t0) continue;
        add({home, t1, usid(UsidKind::kT0, j), t1, home, nic}, {own, up, {Part::kLink, plane, j, k}});
      }
    }
  }
  return out;
}

}  // namespace mrc::probe
