// SPDX-License-Identifier: BSD-2-Clause
// af_packet over veth pairs in a network namespace of the test's own.
#include <poll.h>

#include "port/ports.hpp"
#include "support/catch.hpp"

using namespace mrc;
using namespace mrc::port;
using namespace mrc::port::test;

namespace {

/// A veth pair up with this MTU.
struct Veth {
  std::string a, b;
  Veth(std::string first, std::string second, int mtu) : a(std::move(first)), b(std::move(second)) {
    const std::string size = " mtu " + std::to_string(mtu);
    REQUIRE(shell("ip link add " + a + size + " type veth peer name " + b + size) == 0);
    for (const auto& name : {a, b}) {
      shell("sysctl -qw net.ipv6.conf." + name + ".disable_ipv6=1");
      REQUIRE(shell("ip link set " + name + " up") == 0);
    }
  }
  ~Veth() { shell("ip link del " + a); }
};

std::unique_ptr<Port> open(const std::string& text) {
  EalOptions options;
  options.memory_mb = 128;
  options.log = [](const char* line) { std::fprintf(stderr, "log: %s\n", line); };
  REQUIRE(builtin_layer().start(options));
  const auto spec = parse_port(text);
  REQUIRE(spec);
  auto port = builtin_layer().open(*spec);
  INFO((port ? "" : port.error().text));
  REQUIRE(port);
  return std::move(*port);
}

}  // namespace

TEST_CASE("af_packet carries frames up to the link's MTU unchanged", "[af_packet]") {
  const int mtu = GENERATE(1500, 9000);
  const Veth veth("pa0", "pb0", mtu);
  auto a = open("pa0");
  auto b = open("af_packet:pb0");
  REQUIRE(a->mtu() == static_cast<unsigned>(mtu));
  REQUIRE(a->link_up());
  const auto top = static_cast<std::size_t>(mtu) + 14;
  REQUIRE(exchange(*a, *b, {60, 61, 64, 128, 1000, 1499, 1500, top - 1, top}) == "");

  // Many more than the ring holds, in bursts, nobody receiving: never blocks, and what arrives is whole.
  std::size_t taken = 0;
  for (unsigned i = 0; i < 3000; ++i) taken += send_one(*a, pattern(b->mac(), a->mac(), 200 + i % 1000, i));
  std::vector<std::vector<std::byte>> got;
  eventually([&] { return take(*b, got), got.size() == taken; }, std::chrono::milliseconds(300));
  REQUIRE(!got.empty());
  for (unsigned i = 0; i < got.size(); ++i) REQUIRE(got[i] == pattern(b->mac(), a->mac(), 200 + i % 1000, i));
  REQUIRE(b->counters().rx_dropped + got.size() == taken);
}

TEST_CASE("af_packet drops what is longer than its MTU, it does not cut it", "[af_packet]") {
  const Veth veth("pa1", "pb1", 9000);
  auto b = open("pb1");
  // The receiver opened at 1500; the sender sends more.
  b.reset();
  REQUIRE(shell("ip link set pb1 mtu 1500") == 0);
  b = open("pb1");
  REQUIRE(shell("ip link set pb1 mtu 9000") == 0);
  auto a = open("pa1");
  REQUIRE(send_one(*a, pattern(b->mac(), a->mac(), 5000, 1)));
  REQUIRE(send_one(*a, pattern(b->mac(), a->mac(), 1530, 1)));
  REQUIRE(send_one(*a, pattern(b->mac(), a->mac(), 1500, 2)));
  std::vector<std::vector<std::byte>> got;
  REQUIRE(eventually([&] { return take(*b, got), !got.empty(); }));
  REQUIRE(got.size() == 1);
  REQUIRE(got[0] == pattern(b->mac(), a->mac(), 1500, 2));
  REQUIRE(b->counters().rx_dropped == 2);
}

TEST_CASE("af_packet's wake descriptor and link state", "[af_packet]") {
  const Veth veth("pa2", "pb2", 1500);
  auto a = open("pa2");
  auto b = open("pb2");
  pollfd wake{b->wake_fd(), POLLIN, 0};
  REQUIRE(wake.fd >= 0);
  std::vector<std::vector<std::byte>> got;
  take(*b, got);
  REQUIRE(poll(&wake, 1, 0) == 0);
  REQUIRE(send_one(*a, pattern(b->mac(), a->mac(), 100, 1)));
  REQUIRE(poll(&wake, 1, 1000) == 1);
  REQUIRE(eventually([&] { return take(*b, got), !got.empty(); }));
  REQUIRE(poll(&wake, 1, 0) == 0);

  REQUIRE(shell("ip link set pa2 down") == 0);
  REQUIRE(eventually([&] { return !b->link_up() && !a->link_up(); }));
  for (int i = 0; i < 2000; ++i) send_one(*a, pattern(b->mac(), a->mac(), 100, 1));  // must not block
  REQUIRE(shell("ip link set pa2 up") == 0);
  REQUIRE(eventually([&] { return b->link_up() && a->link_up(); }));
  // What waited in the ring may come first.
  bool fresh = false;
  REQUIRE(eventually([&] {
    send_one(*a, pattern(b->mac(), a->mac(), 101, 9));
    take(*a, got);
    got.clear();
    take(*b, got);
    for (const auto& frame : got) fresh = fresh || frame == pattern(b->mac(), a->mac(), 101, 9);
    return fresh;
  }));
}
