// SPDX-License-Identifier: BSD-2-Clause
// What the report says is what the table describes, name by name, and it agrees with what happened.
#include "mrc/engine/report.hpp"

#include <nlohmann/json.hpp>
#include <set>

#include "fakes.hpp"
#include "mrc/engine/counter_table.hpp"
#include "support/catch.hpp"

using namespace mrc;
using namespace mrc::test;
using engine::ReportPart;
using Json = nlohmann::ordered_json;

namespace {

template <class Table>
std::set<std::string> names(const Table& table) {
  std::set<std::string> out;
  for (const auto& item : table) {
    if constexpr (requires { item.text; }) {
      out.insert(item.text.name);
    } else {
      out.insert(item.name);
    }
  }
  return out;
}

std::set<std::string> keys(const Json& json) {
  std::set<std::string> out;
  for (const auto& [key, value] : json.items()) out.insert(key);
  return out;
}

std::set<std::string> without(std::set<std::string> from, std::initializer_list<const char*> names) {
  for (const char* name : names) REQUIRE(from.erase(name) == 1);
  return from;
}

}  // namespace

TEST_CASE("each part of the report has exactly the names that are described") {
  Pair::Options options;
  options.planes = 2;
  Pair pair(options);
  const auto data = pattern(100'000, 9);
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
    const auto ep = *pair.left->open_endpoint_locked(a, &client);
    conn = pair.left->connect_locked(ep, {kRight, 200});
    REQUIRE(pair.left->post_write_locked(conn, write) == transport::Status::kOk);
  }
  REQUIRE(pair.run([&] { return client.count(transport::EventKind::kWriteDone) == 1; }));
  const std::lock_guard guard(*pair.left);
  const auto report = [&](ReportPart part, std::uint32_t id = 0) { return pair.left->report_locked(part, id); };

  CHECK(keys(report(ReportPart::kInfo)) == names(engine::process_texts()));
  const Json counters = report(ReportPart::kCounters);
  CHECK(without(keys(counters["transport"]), {"rx_malformed"}) == names(engine::transport_counters()));
  CHECK(keys(counters["driver"]) == names(engine::driver_counters()));
  CHECK(keys(counters["pools"]) == names(engine::pool_levels()));
  CHECK(counters["transport"]["tx_bytes"] == data.size());

  const Json ports = report(ReportPart::kPorts);
  REQUIRE(ports.size() == 2);
  CHECK(without(keys(ports[1]), {"name", "mtu"}) == names(engine::port_counters()));
  const Json planes = report(ReportPart::kPlanes);
  REQUIRE(planes.size() == 2);
  CHECK(keys(planes[0]) == without(names(engine::plane_texts()), {"port"}));

  const Json list = report(ReportPart::kConnections);
  CHECK(list["total"] == 1);
  CHECK(list["list"][std::to_string(conn)] == "10.77.0.2:200 established");
  CHECK_FALSE(list.contains("next"));
  CHECK(report(ReportPart::kConnections, conn + 1)["list"].empty());

  const Json one = report(ReportPart::kConnection, conn);
  CHECK(keys(one) == without(names(engine::connection_texts()), {"evs"}));
  CHECK(one["id"] == conn);
  CHECK(one["peer"] == "10.77.0.2:200");
  CHECK(one["phase"] == "established");
  CHECK(one["inflight"] == 0);
  CHECK(one["una"] == one["next"]);
  CHECK(one["srtt_ns"] > 0);
  CHECK(one["rtt_min_ns"] <= one["srtt_ns"]);
  REQUIRE(one["planes"].size() == 2);
  CHECK(keys(one["planes"][0]) == names(engine::connection_plane_texts()));
  CHECK(keys(one["ev_states"]) == names(engine::ev_state_texts()));
  CHECK(one["planes"][0]["tx_packets"].get<unsigned>() + one["planes"][1]["tx_packets"].get<unsigned>() ==
        counters["transport"]["tx_data"]);
  CHECK(report(ReportPart::kConnection, conn + 1).is_null());

  const Json evs = report(ReportPart::kEvs, conn);
  CHECK(evs["plane0"]["good"].size() == one["planes"][0]["ev_states"]["good"]);
  CHECK(evs["plane1"]["good"].size() + evs["plane0"]["good"].size() >= 128);
  CHECK(report(ReportPart::kEvs, 77).is_null());
}

TEST_CASE("many connections are listed in pieces") {
  Pair::Options options;
  options.config.limits.connections = 256;
  Pair pair(options);
  FakeClient client;
  engine::EndpointName a{0, 100};
  const std::lock_guard guard(*pair.left);
  const auto ep = *pair.left->open_endpoint_locked(a, &client);
  for (std::uint16_t i = 0; i < 250; ++i) {
    REQUIRE(pair.left->connect_locked(ep, {kRight, static_cast<std::uint16_t>(1000 + i)}) != transport::kNoId);
  }
  std::set<std::string> seen;
  std::uint32_t from = 0;
  for (int piece = 0; piece < 3; ++piece) {
    const Json list = pair.left->report_locked(ReportPart::kConnections, from);
    CHECK(list["total"] == 250);
    for (const auto& [key, value] : list["list"].items()) CHECK(seen.insert(key).second);
    CHECK(list.contains("next") == (piece < 2));
    if (piece < 2) from = list["next"];
  }
  CHECK(seen.size() == 250);
}
