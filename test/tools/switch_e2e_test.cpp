// SPDX-License-Identifier: BSD-2-Clause
// mrc-switch with real client processes over real memif ports, without root: forwarding, shift, source enforcement,
// death of clients and of the switch, garbage, impairments, sleeping, leaving.
#include <fmt/format.h>
#include <sys/socket.h>

#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "mrc/control/client.hpp"
#include "mrc/control/protocol.hpp"
#include "mrc/control/runtime.hpp"
#include "mrc/random.hpp"
#include "switch_fixture.hpp"

using namespace mrc;
using namespace mrc::test;

TEST_CASE("packets cross every plane and uplink, shifted, with their contents") {
  Switch fabric;
  Peer a(fabric.socket, "a"), b(fabric.socket, "b"), c(fabric.socket, "c");
  // Neighbours are spread over the T0s.
  CHECK(value_of(a.hello, "t0") == 0);
  CHECK(value_of(b.hello, "t0") == 1);
  CHECK(value_of(c.hello, "t0") == 0);
  CHECK(value_of(c.hello, "nic") == 1);
  REQUIRE(a.ask("register 10.99.0.1 1001") == "ok");
  REQUIRE(b.ask("register 10.99.0.1 1002") == "ok");
  REQUIRE(c.ask("register 10.99.0.1 1003") == "ok");
  CHECK(a.ask("lookup 10.99.0.1 1002") == "found t0=1 nic=0");

  for (const char* length : {"16", "64", "1400", "8000"}) {
    INFO(length);
    b.say("receive 400 15000");
    REQUIRE(a.ask(fmt::format("send 10.99.0.1 1001 10.99.0.1 1002 25 {}", length)) == "sent 400");
    CHECK(b.hear() == "received good=400 bad=0 duplicates=0 ways=16 least=25");
  }
  // Under one T0 there is no T1 to cross.
  c.say("receive 64 10000");
  REQUIRE(a.ask("send 10.99.0.1 1001 10.99.0.1 1003 4 200") == "sent 64");
  CHECK(c.hear() == "received good=64 bad=0 duplicates=0 ways=16 least=4");
  const Json stats = fabric.stats();
  CHECK(stats["fabric"]["delivered"] == 1664);
  std::uint64_t crossed = 0;
  for (const auto& link : stats["links"]) {
    if (link["kind"] != "t0-t1") continue;
    CHECK(link["packets"] == 100);
    crossed += link["packets"].get<std::uint64_t>();
  }
  CHECK(crossed == 1600);
}

TEST_CASE("a client can only send from its own registered endpoints") {
  Switch fabric;
  Peer a(fabric.socket, "a"), b(fabric.socket, "b");
  REQUIRE(a.ask("register 10.99.0.1 2001") == "ok");
  REQUIRE(b.ask("register 10.99.0.1 2002") == "ok");
  CHECK(b.ask("register 10.99.0.1 2001").starts_with("error 98"));  // EADDRINUSE, and who has it
  CHECK(b.ask("register 10.99.0.2 2003").starts_with("error 1 "));  // EPERM: not its address
  b.say("receive 1 400");
  REQUIRE(a.ask("send 10.99.0.1 2099 10.99.0.1 2002 2 100") == "sent 32");  // nobody's
  CHECK(b.hear() == "received good=0 bad=0 duplicates=0 ways=0 least=0");
  b.say("receive 1 400");
  REQUIRE(a.ask("send 10.99.0.1 2002 10.99.0.1 2002 2 100") == "sent 32");  // b's own
  CHECK(b.hear() == "received good=0 bad=0 duplicates=0 ways=0 least=0");
  CHECK(drops(fabric.stats(), "drops", "spoofed") == 64);
  // And after unregistering, the address is closed again.
  REQUIRE(a.ask("unregister 10.99.0.1 2001") == "ok");
  CHECK(b.ask("notices 1 5000") == "notices closed:2001");
  REQUIRE(a.ask("send 10.99.0.1 2001 10.99.0.1 2002 1 100") == "sent 16");
  b.say("receive 1 300");
  CHECK(b.hear() == "received good=0 bad=0 duplicates=0 ways=0 least=0");
  CHECK(drops(fabric.stats(), "drops", "spoofed") == 80);
}

TEST_CASE("a directory answers found, unknown and no route") {
  Switch fabric;
  Peer a(fabric.socket, "a"), b(fabric.socket, "b");
  CHECK(a.ask("lookup 10.99.0.1 3001") == "unknown");
  REQUIRE(b.ask("register 10.99.0.1 3001") == "ok");
  CHECK(a.ask("lookup 10.99.0.1 3001") == "found t0=1 nic=0");
  CHECK(a.ask("lookup 192.0.2.9 3001").starts_with("noroute no way to 192.0.2.9"));
}

TEST_CASE("kill -9 of clients frees their places and tells the others") {
  Switch fabric;
  Peer a(fabric.socket, "a");
  REQUIRE(a.ask("register 10.99.0.1 4001") == "ok");
  for (int round = 0; round < 4; ++round) {
    Peer b(fabric.socket, "b");
    REQUIRE(b.ask("register 10.99.0.1 4002") == "ok");
    // Die in the middle of a stream, in both directions.
    a.say("send 10.99.0.1 4001 10.99.0.1 4002 200 1400");
    b.say("send 10.99.0.1 4002 10.99.0.1 4001 5000 1400");
    ::usleep(static_cast<useconds_t>(3000 + round * 4000));
    b.kill(SIGKILL);
    CHECK(a.hear().starts_with("sent"));
    CHECK(a.ask("notices 1 5000") == "notices gone:4002");
    a.ask("receive 1000000 200");
    const Json clients = fabric.stats()["clients"];
    REQUIRE(clients.size() == 1);
    CHECK(clients[0]["name"] == "a");
  }
  Peer b(fabric.socket, "b");
  REQUIRE(b.ask("register 10.99.0.1 4002") == "ok");
  b.say("receive 16 5000");
  REQUIRE(a.ask("send 10.99.0.1 4001 10.99.0.1 4002 1 1400") == "sent 16");
  CHECK(b.hear() == "received good=16 bad=0 duplicates=0 ways=16 least=1");
}

TEST_CASE("full houses are refused in words") {
  Switch fabric({"--clients", "1"});
  Peer a(fabric.socket, "a");
  Process late({program("MRC_SWITCH_PEER"), fabric.socket, kHost, "late"});
  const std::string answer = late.hear();
  CHECK(answer.find("room for 1 processes") != std::string::npos);
}

TEST_CASE("a place that becomes free soon is waited for") {
  Switch fabric({"--clients", "1"});
  Peer a(fabric.socket, "a");
  Process late({program("MRC_SWITCH_PEER"), fabric.socket, kHost, "late"});
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  a.kill(SIGKILL);
  CHECK(late.hear().starts_with("attached"));
}

TEST_CASE("there are more ports than one copy of DPDK has") {
  Switch fabric({"--planes", "7"});  // which does not divide 32
  std::vector<std::unique_ptr<Peer>> peers;
  for (int i = 0; i < 5; ++i) {  // 35 ports
    peers.push_back(std::make_unique<Peer>(fabric.socket, fmt::format("p{}", i)));
    REQUIRE(peers.back()->ask(fmt::format("register 10.99.0.1 {}", 1000 + i)) == "ok");
  }
  for (const auto& [from, to] : {std::pair{0, 3}, std::pair{3, 0}, std::pair{1, 4}, std::pair{4, 3}}) {
    INFO("from " << from << " to " << to);
    peers[to]->say("receive 28 15000");
    REQUIRE(peers[from]->ask(fmt::format("send 10.99.0.1 {} 10.99.0.1 {} 1 1400", 1000 + from, 1000 + to)) ==
            "sent 28");
    CHECK(peers[to]->hear() == "received good=28 bad=0 duplicates=0 ways=28 least=1");
  }
  // What one client leaves behind another takes.
  peers[2].reset();
  peers[4].reset();
  peers.push_back(std::make_unique<Peer>(fabric.socket, "p5"));
  REQUIRE(peers.back()->ask("register 10.99.0.1 1005") == "ok");
  peers.back()->say("receive 28 15000");
  REQUIRE(peers[1]->ask("send 10.99.0.1 1001 10.99.0.1 1005 1 1400") == "sent 28");
  CHECK(peers.back()->hear() == "received good=28 bad=0 duplicates=0 ways=28 least=1");
}

TEST_CASE("garbage frames and control messages do no harm") {
  Switch fabric;
  Peer a(fabric.socket, "a"), b(fabric.socket, "b");
  REQUIRE(a.ask("register 10.99.0.1 5001") == "ok");
  REQUIRE(b.ask("register 10.99.0.1 5002") == "ok");
  CHECK(a.ask("garbage 4000 7") == "ok");
  Random random(11);
  for (int i = 0; i < 300; ++i) {
    auto socket = control::connect_socket(fabric.socket);
    REQUIRE(socket);
    std::string bytes(random.below(200), '\0');
    if (i % 3 != 0) bytes = control::encode(control::Type::kHello, 1, control::Hello{});
    for (auto& byte : bytes) {
      if (random.chance(i % 3 == 0 ? 1.0 : 0.03)) byte = static_cast<char>(random.next());
    }
    // A hello that survived would attach: only broken ones are sent.
    control::Message message;
    if (control::decode(std::as_bytes(std::span(bytes)), message) == control::DecodeError::kNone &&
        message.type == control::Type::kHello) {
      continue;
    }
    ::send(socket->get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  b.say("receive 160 10000");
  REQUIRE(a.ask("send 10.99.0.1 5001 10.99.0.1 5002 10 500") == "sent 160");
  CHECK(b.hear() == "received good=160 bad=0 duplicates=0 ways=16 least=10");
  CHECK(drops(fabric.stats(), "drops", "malformed") > 1000);
  CHECK(fabric.stats()["bad_messages"].get<int>() > 50);
}

TEST_CASE("impairments at start and at run time, planes and links that go down") {
  Switch fabric({"--loss", "0.05", "--dup", "0.05", "--reorder", "0.1", "--corrupt", "0", "--seed", "5"});
  Peer a(fabric.socket, "a"), b(fabric.socket, "b");
  REQUIRE(a.ask("register 10.99.0.1 6001") == "ok");
  REQUIRE(b.ask("register 10.99.0.1 6002") == "ok");
  b.say("receive 8000 3000");
  REQUIRE(a.ask("send 10.99.0.1 6001 10.99.0.1 6002 500 100") == "sent 8000");
  const std::string got = b.hear();
  INFO(got);
  Json stats = fabric.stats();
  INFO(stats["fabric"].dump());
  CHECK(stats["fabric"]["offered"] == 8000);
  const int lost = stats["fabric"]["dropped"], doubled = stats["fabric"]["duplicated"];
  CHECK((lost > 300 && lost < 520));  // 400 ± 6 sigma
  CHECK((doubled > 270 && doubled < 490));
  const int reordered = stats["fabric"]["reordered"];
  CHECK((reordered > 600 && reordered < 950));
  CHECK(value_of(got, "bad") == 0);
  CHECK(value_of(got, "good") == 8000 - lost);
  CHECK(value_of(got, "duplicates") == doubled);

  CHECK(fabric.ctl("impair clear") == "ok\n");
  CHECK(fabric.ctl("plane 1 down") == "ok\n");
  CHECK(a.ask("notices 1 5000") == "notices plane:1:down");
  CHECK(fabric.ctl("link 0 0 2 down") == "ok\n");
  CHECK(fabric.ctl("t1 3 1 down") == "ok\n");
  b.say("receive 160 700");
  REQUIRE(a.ask("send 10.99.0.1 6001 10.99.0.1 6002 10 100") == "sent 160");
  CHECK(b.hear() == "received good=100 bad=0 duplicates=0 ways=10 least=10");
  CHECK(fabric.ctl("plane 1 up") == "ok\n");
  CHECK(fabric.ctl("link 0 0 2 up") == "ok\n");
  CHECK(fabric.ctl("t1 3 1 up") == "ok\n");
  CHECK(a.ask("notices 1 5000") == "notices plane:1:up");
  b.say("receive 160 5000");
  REQUIRE(a.ask("send 10.99.0.1 6001 10.99.0.1 6002 10 100") == "sent 160");
  CHECK(b.hear() == "received good=160 bad=0 duplicates=0 ways=16 least=10");

  CHECK(fabric.ctl("impair plane 2 loss 1") == "ok\n");
  b.say("receive 160 700");
  REQUIRE(a.ask("send 10.99.0.1 6001 10.99.0.1 6002 10 100") == "sent 160");
  CHECK(b.hear() == "received good=120 bad=0 duplicates=0 ways=12 least=10");
  CHECK(fabric.ctl("plane 9 down").starts_with("error: this fabric has no plane 9"));
  CHECK(fabric.ctl("link 0 0 99 down").starts_with("error: this fabric has no link"));
  CHECK(fabric.ctl("impair loss 7").starts_with("error: '7' is no chance"));
  CHECK(fabric.ctl("dance").starts_with("error: 'dance' is no action"));
}

TEST_CASE("sleeping processes wake each other, and idle ones take no CPU") {
  Switch fabric;
  Peer a(fabric.socket, "a"), b(fabric.socket, "b");
  REQUIRE(a.ask("register 10.99.0.1 7001") == "ok");
  REQUIRE(b.ask("register 10.99.0.1 7002") == "ok");
  // With pauses all three fall asleep between frames: without wake-ups every exchange would be late.
  b.say("echo 3300");
  for (const auto& [count, pause] : {std::pair{300, 1500}, std::pair{3000, 0}}) {
    const std::string done = a.ask(fmt::format("ping 10.99.0.1 7001 10.99.0.1 7002 {} {}", count, pause), 60000);
    INFO(done);
    CHECK(done.starts_with(fmt::format("pinged {} ", count)));
    CHECK(value_of(done, "late") < count / 50);
  }
  const std::string echoed = b.hear();
  INFO(echoed);
  CHECK(echoed.starts_with("echoed 3300 "));
  CHECK(value_of(echoed, "late") < 60);
  ::usleep(1000000);
  const double before = test::cpu_seconds(fabric.process->pid());
  ::usleep(2000000);
  CHECK(test::cpu_seconds(fabric.process->pid()) - before <= 0.02);
}

TEST_CASE("the switch leaves after its last client, and ends on SIGTERM") {
  {
    Switch fabric({"--leave-after", "500ms"});
    {
      Peer a(fabric.socket, "a");
      ::usleep(1500000);
      CHECK_FALSE(fabric.process->ended(0));
    }
    CHECK(fabric.process->ended(5000));
    CHECK(fabric.process->wait() == 0);
    CHECK_FALSE(std::filesystem::exists(fabric.socket));
  }
  Switch fabric({"--stay"});
  Peer a(fabric.socket, "a");
  fabric.process->kill(SIGTERM);
  CHECK(fabric.process->ended(5000));
  CHECK(fabric.process->wait() == 0);
  CHECK(a.ask("notices 1 5000") == "notices died");
  // Nothing but the lock file and the log is left behind.
  for (const auto& entry : std::filesystem::directory_iterator(fabric.folder.path())) {
    const std::string name = entry.path().filename();
    CHECK((name == "log" || name == "s.sock.lock"));
  }
}

TEST_CASE("after a crash of the switch its clients come back to their places") {
  Switch fabric;
  Peer a(fabric.socket, "a"), b(fabric.socket, "b");
  REQUIRE(a.ask("register 10.99.0.1 8001") == "ok");
  REQUIRE(b.ask("register 10.99.0.1 8002") == "ok");
  fabric.process->kill(SIGKILL);
  fabric.process->wait();
  CHECK(a.ask("notices 1 5000") == "notices died");
  CHECK(b.ask("notices 1 5000") == "notices died");
  CHECK(b.ask("reattach").starts_with("error"));
  fabric.start({});
  // In the other order: the places are asked for, not drawn anew.
  CHECK(b.ask("reattach").starts_with("attached t0=1 nic=0"));
  CHECK(a.ask("reattach").starts_with("attached t0=0 nic=0"));
  b.say("receive 160 10000");
  REQUIRE(a.ask("send 10.99.0.1 8001 10.99.0.1 8002 10 500") == "sent 160");
  CHECK(b.hear() == "received good=160 bad=0 duplicates=0 ways=16 least=10");
}

TEST_CASE("a second switch on the same socket is refused") {
  Switch fabric;
  Process second({program("MRC_SWITCH"), "--socket", fabric.socket, "--log", fabric.folder.path() + "/log2"});
  CHECK(second.ended(10000));
  CHECK(second.wait() == 1);
  CHECK(fabric.ctl("list") == "[]\n");
}
