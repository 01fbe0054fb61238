// SPDX-License-Identifier: BSD-2-Clause
// Knobs: every one is read, a bad value is refused with its name and what is allowed.
#include "params.hpp"

#include <fstream>
#include <map>
#include <sstream>

#include "support/catch.hpp"

using namespace mrc;
using namespace mrc::prov;

namespace {

Result<Params> parse(const std::map<std::string, std::string>& values) {
  return parse_params([&](const char* name) -> std::optional<std::string> {
    const auto at = values.find(name);
    if (at == values.end()) return std::nullopt;
    return at->second;
  });
}

}  // namespace

TEST_CASE("nothing set gives the documented defaults") {
  const auto p = parse({});
  REQUIRE(p);
  CHECK(p->window == 1024);
  CHECK(p->connect_timeout == seconds(60));
  CHECK(p->linger == seconds(2));
  CHECK(p->evs == 128);
  CHECK(p->autostart);
  CHECK(p->cc == transport::CcKind::kAuto);
  CHECK(p->link_bps == 0);
  CHECK(p->cc_target_min == transport::Config{}.cc_target_min);
  for (const ParamSpec& spec : param_specs()) {
    INFO(spec.name);
    CHECK(std::string(spec.help).find("(default: ") != std::string::npos);
  }
}

TEST_CASE("values reach the engine's configuration") {
  const auto p = parse({{"ports", "a,b"},
                        {"config", "/c.toml"},
                        {"autostart", "no"},
                        {"service_thread", "OFF"},
                        {"connect_timeout", "500ms"},
                        {"peer_timeout", "5min"},
                        {"linger", "0"},
                        {"icrc", "on"},
                        {"stats", "/tmp/s"},
                        {"stats_interval", "250ms"},
                        {"telemetry", "1"},
                        {"denylist", "/d.toml"},
                        {"pcap", "/tmp/p"},
                        {"udp_port", "4971"},
                        {"ev_split", "low-in-port"},
                        {"evs", "256"},
                        {"window", "4096"},
                        {"cc", "swift"},
                        {"link_rate", "100G"},
                        {"cc_target_min", "250us"},
                        {"memory", "128"},
                        {"connections", "2048"},
                        {"job_key", std::string(62, '0') + "fF"},
                        {"switch", "/bin/mrc-switch"}});
  REQUIRE(p);
  const engine::EngineConfig c = engine_config(*p);
  CHECK(c.ports == "a,b");
  CHECK(c.config_file == "/c.toml");
  CHECK(c.switch_program == "/bin/mrc-switch");
  CHECK_FALSE(c.autostart);
  CHECK_FALSE(c.service_thread);
  CHECK(c.transport.connect_timeout == milliseconds(500));
  CHECK(c.transport.peer_timeout == seconds(300));
  CHECK(c.transport.linger == Duration{0});
  CHECK(c.icrc == "on");
  CHECK(c.stats_path == "/tmp/s");
  CHECK(c.stats_interval == milliseconds(250));
  CHECK(c.telemetry);
  CHECK(c.denylist_file == "/d.toml");
  CHECK(c.capture_path == "/tmp/p");
  CHECK(c.transport.wire.udp_port == 4971);
  CHECK(c.transport.wire.ev_split == wire::EvSplit::kLowInPort);
  CHECK(c.transport.ev.per_connection == 256);
  CHECK(c.transport.window == 4096);
  CHECK(c.transport.cc == transport::CcKind::kSwift);
  CHECK(c.transport.link_bps == 100'000'000'000);
  CHECK(c.transport.cc_target_min == microseconds(250));
  CHECK(c.memory_mb == 128);
  CHECK(c.limits.connections == 2048);
  CHECK(c.transport.job_key_set);
  CHECK(c.transport.job_key[31] == std::byte{0xff});
  CHECK(c.transport.job_key[0] == std::byte{0});
  CHECK_FALSE(c.provider_directory.empty());

  CHECK(engine_config(*parse({{"job_key", "abc"}})).transport.job_key[2] == std::byte{'c'});
  CHECK(parse({{"switch_socket", "/run/s"}})->switch_socket == "/run/s");
  CHECK(parse({{"max_inject", "2k"}})->inject_size == 2048);
  CHECK(parse({{"eager_size", "64k"}})->eager_size == 1 << 16);
}

TEST_CASE("a bad value is named, with what is allowed") {
  const std::map<std::string, std::vector<std::string>> bad = {
      {"window", {"77", "100", "8192", "", "x", "1024 ", "-1", "0x400"}},
      {"autostart", {"maybe", "2", ""}},
      {"service_thread", {"auto"}},
      {"connect_timeout", {"0", "1h", "ten", "9999999999999999999999s", ""}},
      {"peer_timeout", {"10ms", "-5"}},
      {"linger", {"2 s"}},
      {"icrc", {"off", "ON"}},
      {"udp_port", {"4790", "https"}},
      {"ev_split", {"high"}},
      {"evs", {"127", "257", "all"}},
      {"cc", {"NSCC", "", "bbr"}},
      {"link_rate", {"0", "", "fast", "100Gb", "999k", "10001G", "-1G", "99999999999999999999G"}},
      {"cc_target_min", {"5", "", "us", "101ms", "-1us", "5s"}},
      {"memory", {"0", "15", "64MB"}},
      {"connections", {"1"}},
      {"job_key", {"", std::string(33, 'z')}},
      {"tx_size", {"0", "1e3"}},
      {"rx_size", {"1000000"}},
      {"max_inject", {"0", "5k", "k"}},
      {"eager_size", {"1", "65k"}},
      {"copy_size", {"2k", "-1"}},
      {"read_size", {"961", "1k"}},
      {"config", {""}},
      {"stats", {""}},
      {"pcap", {""}},
      {"stats_interval", {"1ms", "-1", "often", ""}},
      {"telemetry", {"2", ""}},
      {"denylist", {""}},
  };
  for (const auto& [name, values] : bad) {
    for (const std::string& value : values) {
      INFO(name << "=\"" << value << '"');
      const auto p = parse({{name, value}});
      REQUIRE_FALSE(p);
      CHECK(p.error().code == EINVAL);
      CHECK(p.error().text.find(variable_of(name)) == 0);
      CHECK(p.error().text.find("must be ") != std::string::npos);
      if (name != "job_key") CHECK(p.error().text.find('"' + value + '"') != std::string::npos);
    }
  }
  CHECK(parse({{"job_key", std::string(40, 'z')}}).error().text.find("zzz") == std::string::npos);
  CHECK_FALSE(parse({{"ports", "a"}, {"switch_socket", "/s"}}));
}

TEST_CASE("an unknown variable is told, with the nearest name") {
  const char* environment[] = {"HOME=/root", "FI_MRC_PORT=x",  "FI_MRC_WINDOW=128", "FI_MRC_CONECT_TIMEOUT=1",
                               "FI_MRCX=1",  "FI_PROVIDER=mrc"};
  const auto told = unknown_variables(environment);
  REQUIRE(told.size() == 2);
  CHECK(told[0].find("FI_MRC_PORT,") != std::string::npos);
  CHECK(told[0].find("FI_MRC_PORTS?") != std::string::npos);
  CHECK(told[1].find("FI_MRC_CONNECT_TIMEOUT?") != std::string::npos);
}

TEST_CASE("the man page has every knob, and no other") {
  std::ifstream file(MRC_MAN_PAGE);
  std::stringstream text;
  text << file.rdbuf();
  const std::string page = text.str();
  REQUIRE_FALSE(page.empty());
  for (const ParamSpec& spec : param_specs()) {
    INFO(spec.name);
    CHECK(page.find('*' + variable_of(spec.name) + '*') != std::string::npos);
  }
  for (std::size_t at = page.find("*FI_MRC_"); at != std::string::npos; at = page.find("*FI_MRC_", at + 1)) {
    const std::string name = page.substr(at + 1, page.find('*', at + 1) - at - 1);
    const char* entry = name.c_str();
    INFO(name);
    CHECK(unknown_variables({&entry, 1}).empty());
  }
}
