// SPDX-License-Identifier: BSD-2-Clause
// Autostart with real processes: many that start at once get one switch, its arguments come from the environment, a
// crashed one is replaced, and it leaves when nobody needs it.
#include <fmt/format.h>
#include <sys/stat.h>

#include <memory>
#include <set>

#include "mrc/control/client.hpp"
#include "mrc/control/runtime.hpp"
#include "mrc/time.hpp"
#include "process.hpp"
#include "support/catch.hpp"

using namespace mrc;
using test::Process;

namespace {

std::string peer_program() {
  const char* value = ::getenv("MRC_SWITCH_PEER");
  if (value == nullptr) FAIL("MRC_SWITCH_PEER is not set: run through meson test");
  return value;
}

std::unique_ptr<Process> peer(const test::Folder& root, const std::string& arguments) {
  return std::make_unique<Process>(std::vector<std::string>{peer_program(), "auto:" + root.path(), "10.99.0.1", "rank"},
                                   std::vector<std::string>{"FI_MRC_SWITCH_ARGS=" + arguments});
}

std::string word(const std::string& line, const std::string& key) {
  const auto at = line.find(key + "=");
  return at == std::string::npos ? "" : line.substr(at + key.size() + 1, line.find(' ', at) - at - key.size() - 1);
}

bool gone(const std::string& pid, int ms) {
  for (; ms > 0; ms -= 10) {
    struct stat st {};
    if (::stat(("/proc/" + pid + "/exe").c_str(), &st) != 0) return true;
    ::usleep(10000);
  }
  return false;
}

}  // namespace

TEST_CASE("processes that start at once elect one switch, which leaves after them") {
  test::Folder root;
  std::string pid;
  {
    std::vector<std::unique_ptr<Process>> ranks;
    for (int i = 0; i < 6; ++i) ranks.push_back(peer(root, "--planes 2 --leave-after 300ms"));
    std::set<std::string> switches;
    for (auto& rank : ranks) {
      const std::string hello = rank->hear();
      INFO(hello);
      REQUIRE(hello.starts_with("attached"));
      CHECK(word(hello, "planes") == "2");
      switches.insert(word(hello, "switch"));
    }
    REQUIRE(switches.size() == 1);
    pid = *switches.begin();
    // Not in our session, nobody's child here.
    CHECK(::getsid(std::stoi(pid)) != ::getsid(0));
    REQUIRE(ranks[0]->ask("register 10.99.0.1 1") == "ok");
    REQUIRE(ranks[5]->ask("register 10.99.0.1 2") == "ok");
    ranks[5]->say("receive 80 5000");
    REQUIRE(ranks[0]->ask("send 10.99.0.1 1 10.99.0.1 2 10 300") == "sent 80");
    CHECK(ranks[5]->hear() == "received good=80 bad=0 duplicates=0 ways=8 least=10");
  }
  CHECK(gone(pid, 10000));
}

TEST_CASE("a crashed switch is replaced by the first client that comes back") {
  test::Folder root;
  auto a = peer(root, "--leave-after 300ms"), b = peer(root, "--leave-after 300ms");
  const std::string first = word(a->hear(), "switch");
  CHECK(word(b->hear(), "switch") == first);
  ::kill(std::stoi(first), SIGKILL);
  CHECK(a->ask("notices 1 5000") == "notices died");
  CHECK(b->ask("notices 1 5000") == "notices died");
  a->say("reattach");
  b->say("reattach");
  const std::string second = word(a->hear(), "switch");
  CHECK(second != first);
  CHECK_FALSE(second.empty());
  CHECK(word(b->hear(), "switch") == second);
  a->ask("quit");
  b->ask("quit");
  CHECK(gone(second, 10000));
}

TEST_CASE("arguments that are wrong come back in words") {
  test::Folder root;
  auto a = peer(root, "--planes 99");
  const std::string answer = a->hear();
  INFO(answer);
  CHECK(answer.starts_with("error"));
  CHECK(answer.find("ended at once") != std::string::npos);
  CHECK(answer.find("--planes") != std::string::npos);
}

TEST_CASE("a runtime folder that somebody else prepared is refused") {
  test::Folder root;
  const auto path = control::runtime_folder_path(root.path());
  REQUIRE(path);
  ::umask(0);
  REQUIRE(::mkdir(path->c_str(), 0777) == 0);
  ::umask(022);
  auto a = peer(root, "");
  const std::string answer = a->hear();
  INFO(answer);
  CHECK(answer.find("chmod 700") != std::string::npos);
}
