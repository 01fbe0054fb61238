// SPDX-License-Identifier: BSD-2-Clause
// The report of a process: JSON on request and in a file, frames in a capture.
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "fakes.hpp"
#include "support/catch.hpp"

using namespace mrc;
using namespace mrc::test;

TEST_CASE("counters, planes, EVs and frames can be read afterwards") {
  char name[] = "/tmp/mrc-stats-test.XXXXXX";
  const std::string folder = mkdtemp(name);
  const auto data = pattern(200'000, 5);
  {
    Pair::Options options;
    options.planes = 2;
    options.config.stats_path = folder + "/stats";
    options.config.capture_path = folder + "/frames";
    Pair pair(options);
    FakeClient client, server(data.size());
    engine::EndpointName a{0, 100}, b{0, 200};
    const engine::GatherPiece piece{data.data(), data.size()};
    const engine::Gather gather{&piece, 1};
    transport::WriteRequest write;
    write.length = static_cast<std::uint32_t>(data.size());
    write.source = &gather;
    {
      const std::lock_guard guard(*pair.right);
      REQUIRE(pair.right->open_endpoint_locked(b, &server).has_value());
    }
    {
      const std::lock_guard guard(*pair.left);
      const auto ep = *pair.left->open_endpoint_locked(a, &client);
      const auto conn = pair.left->connect_locked(ep, {kRight, 200});
      REQUIRE(pair.left->post_write_locked(conn, write) == transport::Status::kOk);
    }
    REQUIRE(pair.run([&] { return client.count(transport::EventKind::kWriteDone) == 1; }));
    const std::lock_guard guard(*pair.left);
    const auto json = nlohmann::json::parse(pair.left->stats_json_locked(true));
    REQUIRE(json["ipv4"] == "10.77.0.1");
    REQUIRE(json["transport"]["tx_bytes"] == data.size());
    REQUIRE(json["driver"]["tx_frames"] > 100);
    REQUIRE(json["planes"].size() == 2);
    REQUIRE(json["planes"][1]["tx_packets"] > 50);
    REQUIRE(json["planes"][0]["port"]["name"] == "fake:0");
    REQUIRE(json["distinct_evs"]["tx"] > 90);
    REQUIRE(json["connections"].size() == 1);
    REQUIRE(json["connections"][0]["peer"] == "10.77.0.2:200");
    REQUIRE(json["connections"][0]["evs"].size() >= 128);
  }
  const std::string pid = std::to_string(getpid());
  std::ifstream stats(folder + "/stats." + pid + ".json");
  REQUIRE(nlohmann::json::parse(stats).contains("transport"));
  std::ifstream capture(folder + "/frames." + pid + ".pcap", std::ios::binary);
  std::uint32_t head[6] = {};
  REQUIRE(capture.read(reinterpret_cast<char*>(head), sizeof(head)));
  REQUIRE(head[0] == 0xa1b23c4d);
  REQUIRE(head[5] == 1);
  REQUIRE(std::filesystem::file_size(folder + "/frames." + pid + ".pcap") > data.size());
  std::filesystem::remove_all(folder);
}

TEST_CASE("a capture that cannot be written says so") {
  const auto capture = engine::Capture::open("/nonexistent/x");
  REQUIRE_FALSE(capture.has_value());
  REQUIRE(capture.error().text.find("FI_MRC_PCAP") != std::string::npos);
}

TEST_CASE("distinct EVs are counted nearly exactly") {
  engine::EvUsage usage;
  Random random(3);
  for (unsigned i = 0; i < 256; ++i) {
    const auto ev = static_cast<std::uint32_t>(random.next());
    for (int k = 0; k < 5; ++k) usage.add(ev);
  }
  REQUIRE(usage.distinct() <= 256);
  REQUIRE(usage.distinct() >= 250);
}
