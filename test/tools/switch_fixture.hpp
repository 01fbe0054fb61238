// SPDX-License-Identifier: BSD-2-Clause
// mrc-switch on a socket of its own and client processes, for the end-to-end tests of the switch.
#pragma once

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "mrc/control/client.hpp"
#include "mrc/control/protocol.hpp"
#include "mrc/control/runtime.hpp"
#include "process.hpp"
#include "support/catch.hpp"

namespace mrc::test {

using Json = nlohmann::json;

inline constexpr const char* kHost = "10.99.0.1";

inline std::string program(const char* variable) {
  const char* value = ::getenv(variable);
  if (value == nullptr) FAIL(variable << " is not set: run through meson test");
  return value;
}

/// A switch on a socket of its own.
struct Switch {
  Folder folder;
  std::string socket = folder.path() + "/s.sock";
  std::unique_ptr<Process> process;

  explicit Switch(std::vector<std::string> more = {}) { start(std::move(more)); }
  void start(std::vector<std::string> more) {
    std::vector<std::string> argv{program("MRC_SWITCH"), "--socket", socket, "--log", folder.path() + "/log"};
    argv.insert(argv.end(), more.begin(), more.end());
    process = std::make_unique<Process>(argv);
    const Tick deadline = control::monotonic_now() + seconds(10);
    while (!control::connect_socket(socket)) {
      REQUIRE(control::monotonic_now() < deadline);
      ::usleep(5000);
    }
  }
  Json stats() const {
    auto text = control::request(socket, "stats");
    REQUIRE(text);
    return Json::parse(*text);
  }
  std::string ctl(const std::string& words) const {
    auto text = control::request(socket, words);
    return text ? *text : "error: " + text.error().text;
  }
};

struct Peer : Process {
  Peer(const std::string& socket, const std::string& name, const char* host = kHost)
      : Process({program("MRC_SWITCH_PEER"), socket, host, name}) {
    hello = hear();
    INFO(hello);
    REQUIRE(hello.starts_with("attached"));
  }
  std::string hello;
};

inline int value_of(const std::string& line, const std::string& key) {
  const auto at = line.find(key + "=");
  return at == std::string::npos ? -1 : std::stoi(line.substr(at + key.size() + 1));
}

inline std::uint64_t drops(const Json& stats, const char* set, const char* cause) {
  std::uint64_t sum = 0;
  for (const auto& plane : stats["plane_counters"]) sum += plane[set].value(cause, std::uint64_t{0});
  return sum;
}

}  // namespace mrc::test
