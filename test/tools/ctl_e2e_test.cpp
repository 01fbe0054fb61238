// SPDX-License-Identifier: BSD-2-Clause
// `mrc-switch ctl` against a running switch: the fabric's command language on real traffic, status as table and JSON,
// timelines, and sentences for what cannot be.
#include <cstdio>
#include <fstream>

#include "switch_fixture.hpp"

using namespace mrc;
using namespace mrc::test;

namespace {

struct Said {
  int status = -1;
  std::string text;  ///< stdout and stderr
};

/// The tool itself, with its arguments as a shell would pass them.
Said tool(const Switch& fabric, const std::string& arguments) {
  Said said;
  const std::string line = program("MRC_SWITCH") + " ctl --socket " + fabric.socket + " " + arguments + " 2>&1";
  std::FILE* pipe = ::popen(line.c_str(), "r");
  REQUIRE(pipe != nullptr);
  char chunk[4096];
  for (std::size_t n = 0; (n = std::fread(chunk, 1, sizeof chunk, pipe)) > 0;) said.text.append(chunk, n);
  const int status = ::pclose(pipe);
  said.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return said;
}

Json status_of(const Switch& fabric) {
  const Said said = tool(fabric, "status --json");
  REQUIRE(said.status == 0);
  return Json::parse(said.text);
}

Json link_of(const Json& status, const std::string& from, const std::string& to, int plane) {
  for (const auto& link : status["links"]) {
    if (link["from"] == from && link["to"] == to && link["plane"] == plane) return link;
  }
  FAIL("no link " << from << " > " << to);
  return {};
}

struct Pair {
  Peer a, b;
  explicit Pair(const Switch& fabric) : a(fabric.socket, "a"), b(fabric.socket, "b") {
    REQUIRE(a.ask("register 10.99.0.1 1101") == "ok");
    REQUIRE(b.ask("register 10.99.0.1 1102") == "ok");
  }
  /// Ten packets over each plane × uplink; what arrived.
  std::string there(int expected) { return stream(a, b, "1101", "1102", expected); }
  std::string back(int expected) { return stream(b, a, "1102", "1101", expected); }

 private:
  static std::string stream(Peer& from, Peer& to, const char* source, const char* target, int expected) {
    to.say(fmt::format("receive {} {}", expected == 160 ? 160 : 161, expected == 160 ? 8000 : 700));
    REQUIRE(from.ask(fmt::format("send 10.99.0.1 {} 10.99.0.1 {} 10 300", source, target)) == "sent 160");
    return to.hear();
  }
};

std::string all_but(int ways) {
  return fmt::format("received good={} bad=0 duplicates=0 ways={} least=10", 160 - 10 * ways, 16 - ways);
}

}  // namespace

TEST_CASE("ctl: links, one way or both, switches and whole fabrics change while frames flow") {
  Switch fabric;
  Pair peers(fabric);  // a under t0-0, b under t0-1
  CHECK(peers.there(160) == all_but(0));

  CHECK(tool(fabric, "link t0-1 t1-2 down").status == 0);  // in all four planes
  CHECK(peers.there(120) == all_but(4));
  CHECK(peers.back(120) == all_but(4));
  CHECK(tool(fabric, "link t0-1 t1-2 up").status == 0);

  CHECK(tool(fabric, "link t0-0 t1-3 plane 1 down oneway").status == 0);
  CHECK(peers.there(150) == all_but(1));
  CHECK(peers.back(160) == all_but(0));                             // the other direction is whole
  CHECK(tool(fabric, "\"switch t1-0 plane 2 down\"").status == 0);  // as one word of the shell
  CHECK(peers.there(140) == all_but(2));
  CHECK(peers.back(150) == all_but(1));
  CHECK(tool(fabric, "clear").status == 0);
  CHECK(peers.there(160) == all_but(0));
}

TEST_CASE("ctl: loss on one link takes from that link only") {
  Switch fabric({"--seed", "3"});
  Pair peers(fabric);
  CHECK(tool(fabric, "link t0-0 t1-1 plane 3 loss 30% oneway").status == 0);
  // 1000 frames a plane: all of them fit into ring and queue, should the receiver not run meanwhile.
  peers.b.say("receive 4000 3000");
  REQUIRE(peers.a.ask("send 10.99.0.1 1101 10.99.0.1 1102 250 100") == "sent 4000");
  const std::string got = peers.b.hear();
  INFO(got);
  const Json status = status_of(fabric);
  const Json link = link_of(status, "t0-0", "t1-1", 3);
  CHECK(link["packets"] == 250);
  CHECK(link["degraded"] == true);
  CHECK(link["impairment"]["loss"] == 0.3);
  const int lost = link["drops"]["loss"];
  CHECK((lost > 31 && lost < 119));  // 75 ± 6 sigma
  CHECK(status["totals"]["dropped"] == lost);
  CHECK(value_of(got, "good") == 4000 - lost);
  CHECK(value_of(got, "bad") == 0);
}

TEST_CASE("ctl: ports that go down or flap are carriers that their client sees") {
  Switch fabric;
  Pair peers(fabric);
  CHECK(tool(fabric, "port nic1 plane 2 down").status == 0);
  CHECK(peers.b.ask("notices 1 5000") == "notices plane:2:down");
  CHECK(peers.there(120) == "received good=120 bad=0 duplicates=0 ways=12 least=10");
  CHECK(tool(fabric, "port nic1 plane 2 up").status == 0);
  CHECK(peers.b.ask("notices 1 5000") == "notices plane:2:up");
  CHECK(tool(fabric, "port nic1 plane 0 flap 300ms 50%").status == 0);
  const std::string seen = peers.b.ask("notices 3 8000");
  INFO(seen);
  CHECK(
      (seen == "notices plane:0:down plane:0:up plane:0:down" || seen == "notices plane:0:up plane:0:down plane:0:up"));
  CHECK(tool(fabric, "port nic1 plane 0 up").status == 0);
  CHECK(tool(fabric, "switch t0-0 plane 3 down").status == 0);  // a's T0
  CHECK(peers.a.ask("notices 1 5000") == "notices plane:3:down");
  CHECK(tool(fabric, "switch t0-0 plane 3 up").status == 0);
  CHECK(peers.a.ask("notices 1 5000") == "notices plane:3:up");
}

TEST_CASE("ctl: one who comes to a place whose port is down is told so from the start") {
  Switch fabric({"--do", "port nic0 plane 1 down", "--do", "switch t1-0 down"});
  Pair peers(fabric);
  CHECK(peers.back(90) == "received good=90 bad=0 duplicates=0 ways=9 least=10");
  CHECK(tool(fabric, "port nic0 plane 1 up").status == 0);
  CHECK(peers.a.ask("notices 1 5000") == "notices plane:1:up");
}

TEST_CASE("ctl: status says what is not as usual, and all of it as JSON") {
  Switch fabric;
  Pair peers(fabric);
  Said said = tool(fabric, "status");
  CHECK(said.status == 0);
  CHECK(said.text.find("all links, switches and planes as usual") != std::string::npos);
  REQUIRE(peers.there(160) == all_but(0));
  CHECK(tool(fabric, "link t0-1 t1-2 plane 0 down").status == 0);
  CHECK(tool(fabric, "plane 3 loss 0.1%").status == 0);
  CHECK(tool(fabric, "switch t1-1 plane 1 down").status == 0);
  CHECK(tool(fabric, "delay 10us").status == 0);
  said = tool(fabric, "status");
  INFO(said.text);
  CHECK(said.text.find("fabric: delay 10us") != std::string::npos);
  CHECK(said.text.find("160 offered, 160 delivered, 0 dropped") != std::string::npos);
  CHECK(said.text.find("t0-1 > t1-2  0      down") != std::string::npos);
  CHECK(said.text.find("t1-2 > t0-1  0      down") != std::string::npos);
  CHECK(said.text.find("loss 0.1%") != std::string::npos);
  CHECK(said.text.find("t0-0 > ") == std::string::npos);  // nothing about what is as usual
  said = tool(fabric, "status --all");
  CHECK(said.text.find("t0-0 > t1-0") != std::string::npos);
  CHECK(said.text.find("nic0 > t0-0") != std::string::npos);
  CHECK(said.text.find("nic8") == std::string::npos);  // nobody is there

  const Json status = status_of(fabric);
  CHECK(status["clients"] == 2);
  CHECK(status["links"].size() == 4u * 2 * (64 + 4) * 2);
  CHECK(status["switches"].size() == 4u * 6);
  CHECK(link_of(status, "t0-1", "t1-2", 0)["up"] == false);
  CHECK(link_of(status, "t0-1", "t1-2", 1)["up"] == true);
  CHECK(link_of(status, "t0-0", "t1-2", 1)["packets"] == 10);
  CHECK(status["plane"][3]["impairment"]["loss"] == 0.001);
  CHECK(status["impairment"]["delay_ns"] == 10000);
  CHECK(status["totals"]["delivered"] == 160);
}

TEST_CASE("ctl: what cannot be is said in a sentence, with exit status 1") {
  Switch fabric;
  for (const auto& [words, sentence] : std::vector<std::pair<std::string, std::string>>{
           {"link t0-9 t1-0 down", "this fabric has no 't0-9'"},
           {"link t0-0 t0-1 down", "there is no link between"},
           {"dance", "'dance' is no action"},
           {"dance", "reports are stats, list, status"},
           {"loss 7", "'7' is no chance"},
           {"corrupt 1%", "start it with --corrupt 0"},
           {"plane 1 rate 25%", "whose rate is not limited"},
           {"status everything", "status knows --all and --json"},
           {"timeline", "timeline wants a file"},
           {"timeline /nowhere/at/all.toml", "cannot read /nowhere/at/all.toml"},
           {"--nonsense", "command is required"},
           {"", "command is required"}}) {
    const Said said = tool(fabric, words);
    INFO(words << ": " << said.text);
    CHECK(said.status == 1);
    CHECK(said.text.find(sentence) != std::string::npos);
    CHECK(std::count(said.text.begin(), said.text.end(), '\n') == 1);
  }
  const Json status = status_of(fabric);
  CHECK(status["impairment"]["loss"] == 0.0);  // nothing of it was done
}

TEST_CASE("ctl: timelines run by themselves, and bad ones not at all") {
  Switch fabric;
  Pair peers(fabric);
  const std::string file = fabric.folder.path() + "/cuts.toml";
  std::ofstream(file) << "[[event]]\nat = \"100ms\"\ndo = \"plane 1 down\"\n"
                         "[[event]]\nat = 0.4\ndo = [\"plane 1 up\", \"link t0-1 t1-2 down\"]\n";
  CHECK(tool(fabric, "timeline " + file).status == 0);
  CHECK(peers.a.ask("notices 2 8000") == "notices plane:1:down plane:1:up");
  CHECK(peers.there(120) == all_but(4));
  Json status = status_of(fabric);
  CHECK(status["timeline"]["done"] == true);
  CHECK(status["timeline"]["events"] == 3);

  std::ofstream(file) << "[[event]]\nat = 0\ndo = \"clear\"\n[[event]]\nat = 1\ndo = \"plane 4 down\"\n";
  const Said said = tool(fabric, "timeline " + file);
  CHECK(said.status == 1);
  CHECK(said.text.find("cuts.toml, line 6: this fabric has no plane 4") != std::string::npos);
  CHECK(peers.there(120) == all_but(4));  // the first command was not run either

  // From the command line it starts with the first client.
  std::ofstream(file) << "[[event]]\nat = \"300ms\"\ndo = \"plane 0 down\"\n";
  Switch scripted({"--timeline", file});
  ::usleep(500000);
  Peer late(scripted.socket, "late");
  CHECK(late.ask("notices 1 8000") == "notices plane:0:down");
}
