// SPDX-License-Identifier: BSD-2-Clause
// Own ports towards a kernel T0: the addresses that we answer neighbour solicitations for.
#include <array>

#include "fakes.hpp"
#include "support/catch.hpp"

using namespace mrc;
using namespace mrc::test;

TEST_CASE("in SRv6 mode a port answers for its plane's NIC uSID, and for no other") {
  Random random(1);
  engine::OwnPortsPlan plan;
  plan.ipv4 = kLeft;
  plan.local = {.t0 = 0, .nic = 7};
  plan.gateway = wire::Ipv6Address{{0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};
  plan.prefixes.push_back({.network = kLeft, .length = 32, .t0 = 0, .nic = 7});
  const bool srv6 = GENERATE(true, false);
  if (!srv6) plan.prefixes.clear();
  std::vector<std::unique_ptr<port::Port>> ports;
  for (std::uint8_t id = 0; id < 2; ++id) {
    ports.push_back(std::make_unique<FakePort>(std::make_shared<Lane>(), std::make_shared<Lane>(), id, 1500, random));
  }
  engine::OwnPorts own(plan, std::move(ports), crc32);

  const port::MacAddress t0_mac{2, 0, 0, 0, 1, 0};
  for (unsigned plane = 0; plane < 2; ++plane) {
    for (unsigned asked = 0; asked < 2; ++asked) {
      port::NeighbourCache t0(t0_mac, 8);
      t0.add_own(*plan.gateway);
      const wire::Ipv6Address nic = path::make_carrier(
          path::kDefaultLocator, std::array{path::UsidLayout{}.make(asked, path::UsidKind::kNic, 7)});
      REQUIRE(t0.lookup(nic, Tick{}) == nullptr);
      std::array<std::byte, 128> frame{};
      const std::size_t solicitation = t0.poll_tx(frame, Tick{});
      REQUIRE(solicitation > 0);
      REQUIRE(own.on_neighbour(plane, std::span(frame).first(solicitation), Tick{}));
      const std::size_t answer = own.poll_neighbours(plane, frame, Tick{});
      REQUIRE((answer > 0) == (srv6 && asked == plane));
      if (answer == 0) continue;
      REQUIRE(t0.on_frame(std::span(frame).first(answer), Tick{}));
      REQUIRE(t0.lookup(nic, Tick{}) != nullptr);
      REQUIRE(*t0.lookup(nic, Tick{}) == own.port(plane)->mac());
    }
  }
}
