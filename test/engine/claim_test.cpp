// SPDX-License-Identifier: BSD-2-Clause
// Claims of port groups, within a process and between two.
#include "mrc/engine/claim.hpp"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <vector>

#include "support/catch.hpp"

using mrc::engine::Claim;

namespace {

struct Folder {
  Folder() {
    char name[] = "/tmp/mrc-claim-test.XXXXXX";
    path = mkdtemp(name);
  }
  ~Folder() { std::filesystem::remove_all(path); }
  std::string path;
};

const std::vector<std::string> kGroups{"a0;a1", "b0;b1"};

}  // namespace

TEST_CASE("each claim takes another group, and a full house names the holders") {
  const Folder folder;
  auto first = Claim::first_free(kGroups, folder.path);
  REQUIRE(first.has_value());
  REQUIRE(first->index() == 0);
  auto second = Claim::first_free(kGroups, folder.path);
  REQUIRE(second.has_value());
  REQUIRE(second->index() == 1);
  const auto third = Claim::first_free(kGroups, folder.path);
  REQUIRE_FALSE(third.has_value());
  REQUIRE(third.error().code == EBUSY);
  const std::string pid = std::to_string(getpid());
  INFO(third.error().text);
  REQUIRE(third.error().text.find("every port group of FI_MRC_PORTS is taken (by pid " + pid + ", " + pid + ")") == 0);
  *first = Claim{};
  auto again = Claim::first_free(kGroups, folder.path);
  REQUIRE(again.has_value());
  REQUIRE(again->index() == 0);
}

TEST_CASE("a claim holds against another process and goes with it") {
  const Folder folder;
  int ready[2], leave[2];
  REQUIRE(pipe(ready) == 0);
  REQUIRE(pipe(leave) == 0);
  const pid_t child = fork();
  if (child == 0) {
    const auto claim = Claim::first_free(kGroups, folder.path);
    char c = claim.has_value() && claim->index() == 0 ? 'y' : 'n';
    if (write(ready[1], &c, 1) != 1 || read(leave[0], &c, 1) < 0) _exit(1);
    _exit(0);
  }
  char answer = 0;
  REQUIRE(read(ready[0], &answer, 1) == 1);
  REQUIRE(answer == 'y');
  {
    const auto claim = Claim::first_free(kGroups, folder.path);
    REQUIRE(claim.has_value());
    REQUIRE(claim->index() == 1);
    const auto none = Claim::first_free(kGroups, folder.path);
    REQUIRE_FALSE(none.has_value());
    REQUIRE(none.error().text.find("pid " + std::to_string(child)) != std::string::npos);
  }
  REQUIRE(write(leave[1], "x", 1) == 1);
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  const auto claim = Claim::first_free(kGroups, folder.path);
  REQUIRE(claim.has_value());
  REQUIRE(claim->index() == 0);
  for (const int fd : {ready[0], ready[1], leave[0], leave[1]}) close(fd);
}

TEST_CASE("links in place of the folder or of a claim are refused") {
  const Folder folder;
  { REQUIRE(Claim::first_free(kGroups, folder.path).has_value()); }
  std::filesystem::path inside;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path)) inside = entry.path();
  std::filesystem::path lock;
  for (const auto& entry : std::filesystem::directory_iterator(inside)) lock = entry.path();
  std::filesystem::remove(lock);
  std::filesystem::create_symlink(folder.path + "/victim", lock);
  REQUIRE_FALSE(Claim::first_free(std::vector<std::string>{"a0;a1"}, folder.path).has_value());
  REQUIRE_FALSE(std::filesystem::exists(folder.path + "/victim"));
  std::filesystem::remove_all(inside);
  std::filesystem::create_directory(folder.path + "/elsewhere");
  std::filesystem::create_directory_symlink(folder.path + "/elsewhere", inside);
  const auto claim = Claim::first_free(kGroups, folder.path);
  REQUIRE_FALSE(claim.has_value());
  REQUIRE(std::filesystem::is_empty(folder.path + "/elsewhere"));
}
