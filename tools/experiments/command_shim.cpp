// SPDX-License-Identifier: BSD-2-Clause
// The few commands that experiments give to the fabric, as text.
#include <sstream>
#include <stdexcept>

#include "bench.hpp"

namespace mrc::experiments {

void Bench::command(const std::string& text) {
  std::istringstream in(text);
  std::string word, verb;
  fabric::Clos& clos = sim_.clos();
  in >> word;
  fabric::LinkId id{};
  bool ok = false;
  const auto number = [](const std::string& s, const char* prefix) {
    if (s.rfind(prefix, 0) != 0) throw std::runtime_error("bad command");
    return static_cast<std::uint16_t>(std::stoul(s.substr(std::string(prefix).size())));
  };
  const auto plane = [&] {
    std::string p;
    unsigned n = 0;
    in >> p >> n;
    return static_cast<std::uint8_t>(n);
  };
  if (word == "link") {
    std::string a, b;
    in >> a >> b;
    id.t0 = number(a, "t0-");
    const bool nic = b.rfind("nic-", 0) == 0;
    id.kind = nic ? fabric::LinkKind::kNicToT0 : fabric::LinkKind::kT0ToT1;
    id.far = number(b, nic ? "nic-" : "t1-");
    id.plane = plane();
    in >> verb;
    if (verb == "loss") {
      std::string value;
      in >> value;
      const double p = std::stod(value) / (value.back() == '%' ? 100 : 1);
      ok = clos.set_link(id, {.loss = p});
      id.kind = nic ? fabric::LinkKind::kT0ToNic : fabric::LinkKind::kT1ToT0;
      ok = ok && clos.set_link(id, {.loss = p});
    } else {
      ok = clos.set_cable_down(id, verb == "down");
    }
  } else if (word == "port") {
    std::string nic;
    in >> nic;
    const auto dot = nic.find('.');
    id.t0 = number(nic.substr(0, dot), "nic");
    id.far = static_cast<std::uint16_t>(std::stoul(nic.substr(dot + 1)));
    id.plane = plane();
    in >> verb;
    std::string value;
    if (verb == "loss") {
      in >> value;
      const double p = std::stod(value) / (value.back() == '%' ? 100 : 1);
      ok = clos.set_link(id, {.loss = p});
      id.kind = fabric::LinkKind::kT0ToNic;
      ok = ok && clos.set_link(id, {.loss = p});
    } else if (verb == "rate") {
      ok = true;
    } else {
      ok = clos.set_cable_down(id, verb == "down");
    }
  } else if (word == "switch") {
    in >> word;
    const std::uint8_t p = plane();
    in >> verb;
    ok = clos.set_switch_down({path::UsidKind::kT1, p, number(word, "t1-")}, verb == "down");
  } else if (word == "plane") {
    unsigned p = 0;
    std::string value;
    in >> p >> verb >> value;
    const double loss = verb == "rate" ? 0 : std::stod(value) / (value.back() == '%' ? 100 : 1);
    ok = clos.set_plane(p, {.loss = loss});
  }
  if (!ok) throw std::runtime_error("the fabric does not take '" + text + "'");
}

}  // namespace mrc::experiments
