// SPDX-License-Identifier: BSD-2-Clause
// Denylists from files: what they may say, and that a running engine follows a file that changes.
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "fakes.hpp"
#include "mrc/engine/config.hpp"
#include "support/catch.hpp"

using namespace mrc;
using namespace mrc::test;
using transport::EventKind;
using transport::Status;

namespace {

std::string error_of(const std::string& text) {
  const auto parsed = engine::parse_denylist(text, "d.toml");
  REQUIRE_FALSE(parsed.has_value());
  return parsed.error().text;
}

std::vector<std::string> logged;

struct Folder {
  Folder() {
    char name[] = "/tmp/mrc-deny-test.XXXXXX";
    path = mkdtemp(name);
  }
  ~Folder() { std::filesystem::remove_all(path); }
  void write(const std::string& text) const {
    std::ofstream(path + "/new") << text;
    std::filesystem::rename(path + "/new", file());
  }
  std::string file() const { return path + "/deny.toml"; }
  std::string path;
};

}  // namespace

TEST_CASE("a denylist file says what it means, or what is wrong with it") {
  const auto rules = engine::parse_denylist(R"(
[[deny]]
plane = 0
t0 = 1
t1 = 2
why = "30 % lost"
[[deny]]
ev = 0xfffffff0
[[deny]]
t0 = 3
nic = 4
)",
                                            "d.toml");
  REQUIRE(rules.has_value());
  REQUIRE(*rules ==
          std::vector<path::DenyRule>{{.plane = 0, .t0 = 1, .t1 = 2}, {.ev = 0xfffffff0}, {.t0 = 3, .nic = 4}});
  REQUIRE(engine::parse_denylist("", "d.toml")->empty());
  CHECK(error_of("[[deny]]\nplan = 1\n").find("line 2: unknown key \"plan\"") != std::string::npos);
  CHECK(error_of("[[deny]]\nwhy = \"\"\n").find("line 1: a [[deny]] needs") != std::string::npos);
  CHECK(error_of("[[deny]]\nplane = 8\n").find("from 0 to 7") != std::string::npos);
  CHECK(error_of("[[deny]]\nnic = 1\n").find("needs t0") != std::string::npos);
  CHECK(error_of("[deny]\nplane = 1\n").find("[[deny]]") != std::string::npos);
  CHECK(error_of("deny = 3\n").find("[[deny]]") != std::string::npos);
  CHECK(error_of("[[deny\n").find("line 1") != std::string::npos);
  CHECK(engine::load_denylist("/nonexistent").error().text.find("FI_MRC_DENYLIST") != std::string::npos);
  REQUIRE(engine::parse_config("[[deny]]\nplane = 1\n", "m.toml")->denied.size() == 1);
  std::string many;
  for (std::size_t i = 0; i <= path::kMaxDenyRules; ++i) many += "[[deny]]\nplane = 1\n";
  CHECK(error_of(many).find("more than 512") != std::string::npos);
}

TEST_CASE("a running engine follows its denylist") {
  const Folder folder;
  folder.write("[[deny]]\nplane = 1\n");
  Pair::Options options;
  options.planes = 3;
  options.config.denylist_file = folder.file();
  logged.clear();
  options.config.log = [](int level, const char* text) {
    if (level == 0) logged.emplace_back(text);
  };
  Pair pair(options);
  const auto data = pattern(300'000, 5);
  FakeClient client, server(data.size());
  engine::EndpointName a{0, 100}, b{0, 200};
  const engine::GatherPiece piece{data.data(), data.size()};
  const engine::Gather gather{&piece, 1};
  transport::WriteRequest write;
  write.length = static_cast<std::uint32_t>(data.size());
  write.source = &gather;
  transport::ConnId conn = transport::kNoId;
  {
    const std::scoped_lock guard(*pair.left, *pair.right);
    REQUIRE(pair.right->open_endpoint_locked(b, &server).has_value());
    conn = pair.left->connect_locked(*pair.left->open_endpoint_locked(a, &client), {kRight, 200});
  }
  std::size_t done = 0;
  const auto send = [&] {
    {
      const std::lock_guard guard(*pair.left);
      REQUIRE(pair.left->post_write_locked(conn, write) == Status::kOk);
    }
    ++done;
    const auto all = [&] {
      return client.count(EventKind::kWriteDone) + client.count(EventKind::kWriteDone, Status::kNoRoute) == done;
    };
    REQUIRE(pair.run(all));
  };
  const auto sent = [&](unsigned plane) {
    return pair.left->core_locked().counters().tx_plane[plane] + pair.right->core_locked().counters().tx_plane[plane];
  };
  const auto wait = [&] { pair.run([] { return false; }, milliseconds(1200), microseconds(500)); };

  send();
  REQUIRE(server.bytes == data);
  REQUIRE(sent(1) == 0);
  REQUIRE(sent(0) > 50);
  folder.write("[[deny]]\nplane = 0\n");
  wait();
  const auto zero = sent(0);
  send();
  REQUIRE(sent(0) == zero);
  REQUIRE(sent(1) > 50);
  // A file that is wrong, or gone, changes nothing but the log.
  folder.write("[[deny]]\nplane = 99\n");
  wait();
  std::filesystem::remove(folder.file());
  wait();
  send();
  REQUIRE(sent(0) == zero);
  REQUIRE(logged.size() == 4);
  CHECK(logged[0].find("line 2") != std::string::npos);
  CHECK(logged[2].find("the former denylist stays") != std::string::npos);
  // Nothing left: an error that says why.
  folder.write("[[deny]]\nplane = 0\n[[deny]]\nplane = 1\n[[deny]]\nplane = 2\n");
  wait();
  send();
  REQUIRE(client.count(EventKind::kWriteDone, Status::kNoRoute) == 1);
  CHECK(pair.left->why_locked(conn).find("every path to 10.77.0.2:200 is on the denylist") != std::string::npos);
  folder.write("");
  wait();
  send();
  REQUIRE(client.count(EventKind::kWriteDone) == 4);
  REQUIRE(sent(0) > zero + 30);
}

TEST_CASE("an engine does not start with a denylist that is wrong") {
  const Folder folder;
  folder.write("[[deny]]\n");
  Pair::Options options;
  options.config.denylist_file = folder.file();
  REQUIRE_THROWS_WITH(Pair(options), Catch::Matchers::Contains("deny.toml, line 1"));
}
