// SPDX-License-Identifier: BSD-2-Clause
// The second object: its own DPDK with af_xdp over veth, and PCI as far as errors go. A process of its own, because
// only one of the two DPDK copies should run in a process.
#include <cstdlib>

#include "port/veth.hpp"
#include "support/catch.hpp"

using namespace mrc;
using namespace mrc::port;
using namespace mrc::port::test;

namespace {

PortLayer& layer() {
  const char* folder = std::getenv("MRC_PORTS_DIR");
  REQUIRE(folder != nullptr);
  const auto loaded = layer_for(PortKind::kAfXdp, folder);
  INFO((loaded ? "" : loaded.error().text));
  REQUIRE(loaded);
  EalOptions options;
  options.pci = true;
  options.memory_mb = 128;
  options.log = [](const char* line) { std::fprintf(stderr, "log: %s\n", line); };
  const auto started = (*loaded)->start(options);
  INFO((started ? "" : started.error().text));
  REQUIRE(started);
  return **loaded;
}

std::string open_error(const std::string& text) {
  const auto spec = parse_port(text);
  REQUIRE(spec);
  const auto port = layer().open(*spec);
  REQUIRE(!port);
  return port.error().text;
}

}  // namespace

TEST_CASE("af_xdp carries frames over veth unchanged", "[xdp]") {
  const int mtu = GENERATE(1500, 3440);
  const Veth veth("xa0", "xb0", mtu);
  auto a = layer().open(*parse_port("af_xdp:xa0"));
  INFO((a ? "" : a.error().text));
  REQUIRE(a);
  auto b = layer().open(*parse_port("af_xdp:xb0"));
  INFO((b ? "" : b.error().text));
  REQUIRE(b);
  REQUIRE((*a)->kind() == PortKind::kAfXdp);
  const auto top = static_cast<std::size_t>(mtu) + 14;
  REQUIRE(exchange(**a, **b, {60, 64, 1000, 1500, top - 1, top}) == "");
}

TEST_CASE("af_xdp on a link with jumbo frames says what is possible", "[xdp]") {
  const Veth veth("xa1", "xb1", 9000);
  REQUIRE_THAT(open_error("af_xdp:xa1"), Catch::Matchers::Contains("ip link set xa1 mtu 3440"));
}

TEST_CASE("the second object opens the built-in kinds too", "[xdp]") {
  const Veth veth("xa2", "xb2", 9000);
  auto a = layer().open(*parse_port("xa2"));
  auto b = layer().open(*parse_port("xb2"));
  REQUIRE(a);
  REQUIRE(b);
  REQUIRE(exchange(**a, **b, {9014}) == "");
}

TEST_CASE("PCI and RDMA devices that are not there are named", "[xdp]") {
  REQUIRE_THAT(open_error("pci:00ff:ff:1f.7"), Catch::Matchers::Contains("there is no PCI device 00ff:ff:1f.7"));
  REQUIRE_THAT(open_error("mlx5:mlx5_77"), Catch::Matchers::Contains("RDMA device mlx5_77 does not exist"));
}
