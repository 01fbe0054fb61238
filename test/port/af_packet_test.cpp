// SPDX-License-Identifier: BSD-2-Clause
// af_packet over veth pairs, and tap through a bridge, in a network namespace of the test's own.
#include <fcntl.h>
#include <linux/capability.h>
#include <net/if.h>
#include <poll.h>
#include <sys/syscall.h>

#include "datapath/port/process.hpp"
#include "port/ports.hpp"
#include "port/veth.hpp"
#include "support/catch.hpp"

using namespace mrc;
using namespace mrc::port;
using namespace mrc::port::test;

namespace {

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

TEST_CASE("af_packet without CAP_NET_RAW and on a link that is down says what to do", "[af_packet]") {
  const Veth veth("pa3", "pb3", 1500);
  open("pa3").reset();
  std::string refused;
  // Capabilities belong to threads: this one gives its own up.
  std::thread([&] {
    __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
    __user_cap_data_struct data[2]{};
    syscall(SYS_capset, &header, data);
    const auto port = builtin_layer().open(*parse_port("pa3"));
    if (!port) refused = port.error().text;
  }).join();
  REQUIRE_THAT(refused, Catch::Matchers::Contains("CAP_NET_RAW"));

  REQUIRE(shell("ip link set pa3 down") == 0);
  auto port = builtin_layer().open(*parse_port("pa3"));
  REQUIRE(!port);
  REQUIRE_THAT(port.error().text, Catch::Matchers::Contains("is down (ip link set pa3 up)"));
  REQUIRE(shell("ip link set pa3 up mtu 1000") == 0);
  port = builtin_layer().open(*parse_port("pa3"));
  REQUIRE(!port);
  REQUIRE_THAT(port.error().text, Catch::Matchers::Contains("MTU of 1000"));
}

TEST_CASE("ports open and close again and again and leave nothing", "[af_packet]") {
  const Veth veth("pa4", "pb4", 9000);
  open("pa4").reset();
  const DescriptorSnapshot descriptors;
  for (int i = 0; i < 10; ++i) {
    auto a = open("pa4"), b = open("pb4,framecnt=64");
    REQUIRE(exchange(*a, *b, {9014}) == "");
    for (const int descriptor : descriptors.opened_since()) REQUIRE((fcntl(descriptor, F_GETFD) & FD_CLOEXEC) != 0);
  }
  REQUIRE(descriptors.opened_since().empty());
}

TEST_CASE("frames of other interfaces from before the bind are not seen", "[af_packet]") {
  const Veth veth("pa5", "pb5", 1500), noise("na5", "nb5", 1500);
  auto loud = open("na5");
  std::atomic<bool> stop{false};
  std::thread talker([&] {
    while (!stop) {
      send_one(*loud, pattern({}, {}, 77, 1));
      sched_yield();
    }
  });
  std::vector<std::vector<std::byte>> got;
  for (int i = 0; i < 5; ++i) {
    auto quiet = open("pa5");
    for (int k = 0; k < 100; ++k) take(*quiet, got);
  }
  stop = true;
  talker.join();
  REQUIRE(got.empty());
}

TEST_CASE("tap ports reach each other through a bridge", "[tap]") {
  auto a = open("tap:ta0,mac=02:00:00:00:01:01"), b = open("tap:tb0,mac=02:00:00:00:01:02");
  REQUIRE(a->mac() == MacAddress{2, 0, 0, 0, 1, 1});
  REQUIRE(shell("ip link add br0 type bridge stp_state 0 forward_delay 0 && ip link set br0 up") == 0);
  for (const auto* name : {"ta0", "tb0"}) {
    shell(std::string("sysctl -qw net.ipv6.conf.") + name + ".disable_ipv6=1");
    REQUIRE(shell(std::string("ip link set ") + name + " master br0 up") == 0);
  }
  REQUIRE(eventually([&] { return a->link_up() && b->link_up(); }));
  // The bridge needs a moment to forward.
  std::vector<std::vector<std::byte>> got;
  REQUIRE(eventually([&] { return send_one(*a, pattern(b->mac(), a->mac(), 64, 1)), take(*b, got), !got.empty(); }));
  usleep(100'000);
  for (int i = 0; i < 50; ++i) take(*b, got);
  REQUIRE(exchange(*a, *b, {60, 64, 1000, 1514}) == "");
  a.reset();
  b.reset();
  shell("ip link del br0");
  REQUIRE(if_nametoindex("ta0") == 0);
}
