// SPDX-License-Identifier: BSD-2-Clause
// The TOML file: what it may say, and that each mistake is named with its line.
#include "mrc/engine/config.hpp"

#include <fstream>
#include <sstream>

#include "mrc/engine/own_ports.hpp"
#include "mrc/engine/rate.hpp"
#include "support/catch.hpp"

using namespace mrc;
using namespace mrc::engine;

namespace {

std::string error_of(const std::string& text) {
  const auto parsed = parse_config(text, "mrc.toml");
  REQUIRE_FALSE(parsed.has_value());
  INFO(parsed.error().text);
  REQUIRE(parsed.error().code == EINVAL);
  return parsed.error().text;
}

bool has(const std::string& text, const std::string& part) {
  UNSCOPED_INFO(text);
  return text.find(part) != std::string::npos;
}

constexpr const char* kTwoGroups = R"(
[fabric]
planes = 2
uplinks = 4
[[group]]
ip = "10.77.0.1"
gateway = "fe80::1"
ports = ["a0", "a1"]
[[group]]
ip = "10.77.1.7"
gateway = "fe80::1"
ports = ["b0", "b1"]
[[prefix]]
net = "10.77.0.0/24"
t0 = 3
nic = 100
[[prefix]]
net = "10.77.1.0/24"
t0 = 4
[[prefix]]
net = "10.77.1.7/32"
t0 = 5
nic = 9
)";

}  // namespace

TEST_CASE("a group's declared rate reaches its plan") {
  const auto parsed = parse_config("[[group]]\nrate = \"2500M\"\nports = [\"a\"]\n[[group]]\nports = [\"b\"]\n", "x");
  REQUIRE(parsed);
  REQUIRE(plan_group(*parsed, 0)->link_bps == 2'500'000'000);
  REQUIRE(plan_group(*parsed, 1)->link_bps == 0);
  REQUIRE(parse_rate("100G") == 100'000'000'000);
  REQUIRE(parse_rate("1000k") == 1'000'000);
  REQUIRE_FALSE(parse_rate("G"));
  REQUIRE_FALSE(parse_rate("99999999999G"));
}

TEST_CASE("the example configuration is valid") {
  std::ifstream file(MRC_EXAMPLE_TOML);
  std::ostringstream text;
  text << file.rdbuf();
  const auto parsed = parse_config(text.str(), "mrc.toml");
  INFO((parsed ? "" : parsed.error().text));
  REQUIRE(parsed.has_value());
  REQUIRE(parsed->groups.size() == 2);
  REQUIRE(parsed->prefixes.size() == 2);
  REQUIRE(plan_group(*parsed, 0).has_value());
  REQUIRE(plan_group(*parsed, 1).has_value());
}

TEST_CASE("fabric, groups and prefixes arrive as written") {
  const auto parsed = parse_config(kTwoGroups, "mrc.toml");
  INFO((parsed ? "" : parsed.error().text));
  REQUIRE(parsed.has_value());
  REQUIRE(parsed->fabric.uplinks == 4);
  REQUIRE(parsed->groups[1].ports.size() == 2);
  REQUIRE(parsed->groups[1].ports[0].target == "b0");
  REQUIRE(locate(parsed->prefixes, 0x0a4d0005) == path::Location{3, 105});
  REQUIRE(locate(parsed->prefixes, 0x0a4d0107) == path::Location{5, 9});  // the longer prefix wins
  REQUIRE(locate(parsed->prefixes, 0x0a4d0108) == path::Location{4, 8});
  REQUIRE_FALSE(locate(parsed->prefixes, 0x0a090909).has_value());
  const auto plan = plan_group(*parsed, 1);
  REQUIRE(plan.has_value());
  REQUIRE(plan->local == path::Location{5, 9});
  REQUIRE(plan->foreign == std::vector<std::uint32_t>{0x0a4d0001});
}

TEST_CASE("mistakes in the file are named with their line") {
  REQUIRE(has(error_of("[fabric]\nplans = 2\n"), "mrc.toml, line 2: unknown key \"plans\" in [fabric]"));
  REQUIRE(has(error_of("colour = 1\n"), "line 1: unknown key \"colour\""));
  REQUIRE(has(error_of("[fabric]\nplanes = 99\n"), "line 2: planes must be a whole number from 1 to 8"));
  REQUIRE(has(error_of("[fabric]\nplanes = \"2\"\n"), "planes must be a whole number"));
  REQUIRE(has(error_of("[fabric]\nprefix = \"fd6d::/64\"\n"), "line 2: prefix must be an IPv6 prefix of 48 bits"));
  REQUIRE(has(error_of("[fabric]\nprefix = \"fd6d::1/48\"\n"), "prefix must be"));
  REQUIRE(has(error_of("[fabric]\nlocator = 7\n"), "locator must be a text"));
  REQUIRE(has(error_of("[fabric]\nlocator = \"x\"\n"), "locator must be an IPv6 prefix of 32 bits"));
  REQUIRE(has(error_of("fabric = 3\n"), "[fabric]"));
  REQUIRE(has(error_of("group = 3\n"), "[[group]]"));
  REQUIRE(has(error_of("[[group]]\nip = \"10.0.0.300\"\nports = [\"a\"]\n"), "line 2: ip must be an IPv4 address"));
  REQUIRE(has(error_of("[[group]]\ngateway = \"10.0.0.1\"\nports = [\"a\"]\n"), "line 2: gateway must be"));
  REQUIRE(has(error_of("[[group]]\nip = \"10.0.0.3\"\n"), "ports must be a list of 1 to 8 ports"));
  REQUIRE(has(error_of("[[group]]\nports = []\n"), "ports must be a list"));
  REQUIRE(has(error_of("[[group]]\nrate = \"fast\"\nports = [\"a\"]\n"), "line 2: rate must be bits per second"));
  REQUIRE(has(error_of("[[group]]\nrate = 100\nports = [\"a\"]\n"), "rate must be a text"));
  REQUIRE(has(error_of("[[group]]\nports = [3]\n"), "a port must be a text"));
  REQUIRE(has(error_of("[[group]]\nports = [\"warp:x\"]\n"), "line 2"));
  REQUIRE(has(error_of("[[prefix]]\nnet = \"10.0.0.1/24\"\nt0 = 1\n"), "host bits"));
  REQUIRE(has(error_of("[[prefix]]\nnet = \"10.0.0.0\"\nt0 = 1\n"), "net must be an IPv4 prefix"));
  REQUIRE(has(error_of("[[prefix]]\nnet = \"10.0.0.0/33\"\nt0 = 1\n"), "net must be an IPv4 prefix"));
  REQUIRE(has(error_of("[[prefix]]\nnet = \"10.0.0.0/x\"\nt0 = 1\n"), "net must be an IPv4 prefix"));
  REQUIRE(has(error_of("[[prefix]]\nt0 = 1\n"), "net must be an IPv4 prefix"));
  REQUIRE(has(error_of("[[prefix]]\nnet = \"10.0.0.0/8\"\n"), "needs t0"));
  REQUIRE(has(error_of("[[prefix]]\nnet = \"10.0.0.0/8\"\nt0 = 5000\n"), "at most 1023"));
  REQUIRE(has(error_of("[fabric\n"), "mrc.toml, line 1"));
}

TEST_CASE("a file that is not there is named") {
  const auto loaded = load_config("/nonexistent/mrc.toml");
  REQUIRE_FALSE(loaded.has_value());
  REQUIRE(loaded.error().code == ENOENT);
  REQUIRE(has(loaded.error().text, "/nonexistent/mrc.toml (FI_MRC_CONFIG)"));
}

TEST_CASE("a plan that cannot work says why") {
  const auto why = [](const std::string& text) {
    const auto parsed = parse_config(text, "mrc.toml");
    INFO((parsed ? "" : parsed.error().text));
    REQUIRE(parsed.has_value());
    const auto plan = plan_group(*parsed, 0);
    REQUIRE_FALSE(plan.has_value());
    return plan.error().text;
  };
  REQUIRE(has(why("[fabric]\nplanes = 2\n[[group]]\nports = [\"a\"]\n"), "2 planes"));
  REQUIRE(has(why("[[group]]\nt0 = 1\nports = [\"a\"]\n"), "no [[prefix]]"));
  REQUIRE(has(why("[[group]]\nip = \"10.0.0.1\"\nports = [\"a\"]\n[[prefix]]\nnet = \"10.0.0.0/8\"\nt0 = 1\n"),
              "needs a gateway"));
  REQUIRE(has(why("[[group]]\nip = \"11.0.0.1\"\ngateway = \"fe80::1\"\nports = [\"a\"]\n[[prefix]]\nnet = "
                  "\"10.0.0.0/8\"\nt0 = 1\n"),
              "below which T0 11.0.0.1"));
}
