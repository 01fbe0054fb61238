// SPDX-License-Identifier: BSD-2-Clause
// Every counter has a description, each once, and docs/counters.md says the same.
#include "mrc/engine/counter_table.hpp"

#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>

#include "mrc/engine/report.hpp"
#include "support/catch.hpp"

using namespace mrc;
using namespace mrc::engine;

namespace {

template <class T, class Value, class Table>
std::size_t described(const Table& table) {
  std::set<std::string> names;
  std::set<const void*> fields;
  const T counters{};
  for (const Counter<T, Value>& counter : table) {
    INFO(counter.text.name);
    CHECK(names.insert(counter.text.name).second);
    CHECK(fields.insert(&(counters.*(counter.value))).second);
    CHECK(std::string(counter.text.unit) != "");
    CHECK(std::string(counter.text.meaning).size() > 8);
  }
  return table.size();
}

}  // namespace

TEST_CASE("no counter is without a description") {
  INFO("a field was added: describe it in datapath/engine/counter_table.cpp (arrays: here and in report.cpp)");
  const transport::Counters& c = {};
  const std::size_t arrays =
      c.rx_malformed.size() + c.tx_plane.size() + c.rx_plane.size() + c.tx_plane_bytes.size() + c.rx_plane_bytes.size();
  CHECK(described<transport::Counters, std::uint64_t>(transport_counters()) + arrays ==
        sizeof(transport::Counters) / sizeof(std::uint64_t));
  CHECK(described<DriverCounters, std::uint64_t>(driver_counters()) == sizeof(DriverCounters) / sizeof(std::uint64_t));
  CHECK(described<port::PortCounters, std::uint64_t>(port_counters()) ==
        sizeof(port::PortCounters) / sizeof(std::uint64_t));
  CHECK(described<transport::PoolLevels, std::uint32_t>(pool_levels()) ==
        sizeof(transport::PoolLevels) / sizeof(std::uint32_t));
}

TEST_CASE("telemetry's commands are the report's parts") {
  REQUIRE(telemetry_texts().size() == static_cast<std::size_t>(ReportPart::kEvs) + 1);
  CHECK(to_string(ReportPart::kInfo) == "/mrc/info");
  CHECK(to_string(ReportPart::kCounters) == "/mrc/counters");
  CHECK(to_string(ReportPart::kPorts) == "/mrc/ports");
  CHECK(to_string(ReportPart::kPlanes) == "/mrc/planes");
  CHECK(to_string(ReportPart::kConnections) == "/mrc/connections");
  CHECK(to_string(ReportPart::kConnection) == "/mrc/connection");
  CHECK(to_string(ReportPart::kEvs) == "/mrc/evs");
}

TEST_CASE("docs/counters.md is up to date") {
  if (std::getenv("MRC_UPDATE_DOCS") != nullptr) std::ofstream(MRC_COUNTERS_PAGE) << counters_page();
  std::ifstream file(MRC_COUNTERS_PAGE);
  std::stringstream text;
  text << file.rdbuf();
  INFO("MRC_UPDATE_DOCS=1 build/test/engine/engine_unit \"docs/counters.md*\" writes it anew");
  CHECK(text.str() == counters_page());
}
