// SPDX-License-Identifier: BSD-2-Clause
// Two switches in two network namespaces, joined by one veth per plane: their clients reach each other by way of the
// uplinks, with neighbour discovery, next hops and source checks. Needs root (CAP_NET_ADMIN, CAP_NET_RAW).
#include <fmt/format.h>
#include <unistd.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "mrc/control/client.hpp"
#include "mrc/control/runtime.hpp"
#include "process.hpp"
#include "support/catch.hpp"

using namespace mrc;
using test::Process;
using Json = nlohmann::json;

namespace {

std::string program(const char* variable) {
  const char* value = ::getenv(variable);
  if (value == nullptr) FAIL(variable << " is not set: run through meson test");
  return value;
}

bool shell(const std::string& command) {
  return ::system((command + " >/dev/null 2>&1").c_str()) == 0;
}

/// Two namespaces and two veths, away at the end.
struct Wires {
  std::string a = fmt::format("mrcA{}", ::getpid()), b = fmt::format("mrcB{}", ::getpid());
  bool up = false;
  Wires() {
    up = shell(fmt::format("ip netns add {} && ip netns add {}", a, b));
    for (int plane = 0; plane < 2 && up; ++plane) {
      up =
          shell(fmt::format("ip -n {0} link add up{2} type veth peer name up{2} netns {1} && "
                            "ip -n {0} link set up{2} mtu 4000 up && ip -n {1} link set up{2} mtu 4000 up",
                            a, b, plane));
    }
  }
  ~Wires() {
    shell("ip netns del " + a);
    shell("ip netns del " + b);
  }
};

struct Machine {
  test::Folder folder;
  std::string socket = folder.path() + "/s.sock";
  std::unique_ptr<Process> process;

  explicit Machine(const std::string& space) {
    process = std::make_unique<Process>(std::vector<std::string>{
        "/bin/sh", "-c",
        fmt::format("exec ip netns exec {} {} --socket {} --log {}/log --uplink af_packet:up0 --uplink af_packet:up1",
                    space, program("MRC_SWITCH"), socket, folder.path())});
    const Tick deadline = control::monotonic_now() + seconds(10);
    while (!control::connect_socket(socket)) {
      if (control::monotonic_now() > deadline) {
        std::ifstream log(folder.path() + "/log");
        FAIL("no switch: " << log.rdbuf());
      }
      ::usleep(5000);
    }
  }
  Json stats() const { return Json::parse(control::request(socket, "stats").value()); }
};

struct Peer : Process {
  Peer(const Machine& machine, const char* host) : Process({program("MRC_SWITCH_PEER"), machine.socket, host, "peer"}) {
    hello = hear();
    INFO(hello);
    REQUIRE(hello.starts_with("attached"));
  }
  std::string hello;
};

}  // namespace

TEST_CASE("clients of two machines talk over the uplinks of their planes", "[root]") {
  if (::geteuid() != 0) {
    WARN("needs root: skipped");
    return;
  }
  Wires wires;
  if (!wires.up) {
    WARN("cannot make network namespaces here: skipped");
    return;
  }
  Machine left(wires.a), right(wires.b);
  Peer a(left, "10.99.0.1"), c(left, "10.99.0.1"), b(right, "10.99.1.1");
  CHECK(a.hello.find("planes=2") != std::string::npos);
  CHECK(a.hello.find("srv6=false") != std::string::npos);
  REQUIRE(a.ask("register 10.99.0.1 1") == "ok");
  REQUIRE(c.ask("register 10.99.0.1 3") == "ok");
  REQUIRE(b.ask("register 10.99.1.1 2") == "ok");
  CHECK(a.ask("lookup 10.99.1.1 2") == "found t0=0 nic=0");

  // The first packets ask for the neighbour; then all arrive.
  for (int i = 0; i < 20; ++i) {
    REQUIRE(a.ask("send 10.99.0.1 1 10.99.1.1 2 1 100") == "sent 8");
    if (b.ask("receive 8 200").find("ways=8") != std::string::npos) break;
  }
  b.ask("receive 1000 200");
  for (const char* length : {"64", "1400", "3800"}) {
    INFO(length);
    b.say("receive 160 5000");
    REQUIRE(a.ask(fmt::format("send 10.99.0.1 1 10.99.1.1 2 20 {}", length)) == "sent 160");
    CHECK(b.hear() == "received good=160 bad=0 duplicates=0 ways=8 least=20");
    a.say("receive 160 5000");
    REQUIRE(b.ask(fmt::format("send 10.99.1.1 2 10.99.0.1 1 20 {}", length)) == "sent 160");
    CHECK(a.hear() == "received good=160 bad=0 duplicates=0 ways=8 least=20");
  }
  // Neighbours on one machine never touch the wire.
  const Json before = left.stats();
  c.say("receive 80 5000");
  REQUIRE(a.ask("send 10.99.0.1 1 10.99.0.1 3 10 1000") == "sent 80");
  CHECK(c.hear() == "received good=80 bad=0 duplicates=0 ways=8 least=10");
  const Json after = left.stats();
  for (int plane = 0; plane < 2; ++plane) {
    CHECK(after["plane_counters"][plane]["uplink"]["tx_frames"].get<int>() -
              before["plane_counters"][plane]["uplink"]["tx_frames"].get<int>() <
          10);
  }
  // A borrowed address does not leave the machine.
  REQUIRE(c.ask("send 10.99.0.1 1 10.99.1.1 2 5 100") == "sent 40");
  CHECK(b.ask("receive 1 300") == "received good=0 bad=0 duplicates=0 ways=0 least=0");
}
