// SPDX-License-Identifier: BSD-2-Clause
// memif between two vdevs of one process and between processes: contents, limits, death of the peer, re-connection.
#include <fcntl.h>
#include <atomic>
#include <csignal>
#include <filesystem>
#include <thread>

#include "datapath/port/process.hpp"
#include "port/ports.hpp"
#include "support/catch.hpp"

using namespace mrc;
using namespace mrc::port;
using namespace mrc::port::test;

namespace {

struct Folder {
  std::string path;
  Folder() {
    std::string name = "/tmp/mrc-port-XXXXXX";
    path = mkdtemp(name.data());
  }
  ~Folder() { std::filesystem::remove_all(path); }
};

void start() {
  EalOptions options;
  options.memory_mb = 128;
  options.log = [](const char* line) { std::fprintf(stderr, "log: %s\n", line); };
  const auto started = builtin_layer().start(options);
  INFO((started ? "" : started.error().text));
  REQUIRE(started);
}

std::unique_ptr<Port> open(const MemifOptions& options) {
  auto port = builtin_layer().open_memif(options);
  INFO((port ? "" : port.error().text));
  REQUIRE(port);
  return std::move(*port);
}

/// This test's binary again, in another process.
pid_t start_child(const char* role, const std::string& path) {
  const pid_t child = fork();
  if (child == 0) {
    execl("/proc/self/exe", "port_e2e", role, path.c_str(), nullptr);
    _exit(127);
  }
  return child;
}

}  // namespace

TEST_CASE("memif carries frames of every length unchanged", "[memif]") {
  start();
  const Folder folder;
  MemifOptions options{folder.path + "/a.sock", 3, true, 9000, 6};
  auto server = open(options);
  options.server = false;
  auto client = open(options);
  REQUIRE(eventually([&] { return server->link_up() && client->link_up(); }));
  REQUIRE(server->max_frame() == 9014);
  REQUIRE(exchange(*server, *client, {60, 64, 65, 1500, 1514, 2048, 4096, 4097, 8192, 9013, 9014, 64, 64, 64}) == "");

  std::vector<std::vector<std::byte>> got;
  take(*client, got);
  const auto dropped = server->counters().tx_dropped;
  // More than the ring holds: what was taken arrives in order, the rest is counted.
  std::size_t taken = 0;
  for (unsigned i = 0; i < 200; ++i) taken += send_one(*server, pattern(client->mac(), server->mac(), 100 + i, i));
  REQUIRE(taken <= 64);
  REQUIRE(taken >= 32);
  REQUIRE(server->counters().tx_dropped == dropped + 200 - taken);
  REQUIRE(eventually([&] { return take(*client, got), got.size() == taken; }));
  for (unsigned i = 0; i < got.size(); ++i) REQUIRE(got[i] == pattern(client->mac(), server->mac(), 100 + i, i));
  REQUIRE(server->counters().tx_frames == client->counters().rx_frames);
  REQUIRE(server->counters().tx_bytes == client->counters().rx_bytes);

  // A frame that is too long is refused, not cut.
  TxFrame slot;
  REQUIRE(server->reserve({&slot, 1}) == 1);
  slot.length = server->max_frame() + 1;
  REQUIRE(server->send({&slot, 1}) == 0);
  // Buffers come back: many more rounds than the pool has.
  for (int i = 0; i < 2000; ++i) {
    std::array<TxFrame, 32> slots;
    REQUIRE(server->reserve(slots) == 32);
    server->cancel(slots);
  }
}

TEST_CASE("a memif client waits for its server, and comes back after the server was killed", "[memif]") {
  start();
  const Folder folder;
  const std::string path = folder.path + "/b.sock";
  auto client = open({path, 0, false, 1500, 6});  // nobody is there yet
  REQUIRE(!client->link_up());
  REQUIRE(!send_one(*client, pattern({}, {}, 100, 1)));
  REQUIRE(client->counters().tx_dropped == 1);
  for (unsigned round = 0; round < 3; ++round) {
    const pid_t server = start_child("--echo", path);  // finds a dead one's socket in its way from round 1 on
    REQUIRE(eventually([&] { return client->link_up(); }));
    const auto sent = pattern({}, {}, 1514, round);
    std::vector<std::vector<std::byte>> got;
    // Its first receive gives us buffers, and ours gives it some.
    REQUIRE(eventually([&] { return take(*client, got), send_one(*client, sent); }));
    REQUIRE(eventually([&] { return take(*client, got), !got.empty(); }));
    REQUIRE(got[0] == sent);
    kill(server, SIGKILL);
    waitpid(server, nullptr, 0);
    REQUIRE(eventually([&] { return !client->link_up(); }));
    std::array<RxFrame, 4> frames;
    REQUIRE(client->receive(frames) == 0);
  }
}

TEST_CASE("a memif server takes one client after the other", "[memif]") {
  start();
  const Folder folder;
  const std::string path = folder.path + "/e.sock";
  auto server = open({path, 0, true, 1500, 6});
  for (int round = 0; round < 3; ++round) {
    auto client = open({path, 0, false, 1500, 6});
    REQUIRE(eventually([&] { return server->link_up() && client->link_up(); }));
    REQUIRE(exchange(*server, *client, {64, 1514}) == "");
    client.reset();
    REQUIRE(eventually([&] { return !server->link_up(); }));
  }
}

TEST_CASE("memif paths in use are reported", "[memif]") {
  start();
  const Folder folder;
  const std::string path = folder.path + "/f.sock";
  const pid_t child = start_child("--echo", path);
  REQUIRE(eventually([&] { return std::filesystem::exists(path); }));
  auto second = builtin_layer().open_memif({path, 0, true, 1500, 6});
  REQUIRE(!second);
  REQUIRE_THAT(second.error().text, Catch::Matchers::Contains("in use by another process"));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  auto first = open({path, 0, true, 1500, 6});
  second = builtin_layer().open_memif({path, 0, true, 1500, 6});
  REQUIRE(!second);
  REQUIRE_THAT(second.error().text, Catch::Matchers::Contains("same id"));
  first.reset();
  auto client = open({path, 0, false, 1500, 6});
  second = builtin_layer().open_memif({path, 0, true, 1500, 6});
  REQUIRE(!second);
  REQUIRE_THAT(second.error().text, Catch::Matchers::Contains("open the server first"));
}

TEST_CASE("many memif ports of one process on one socket", "[memif]") {
  start();
  const Folder folder;
  const DescriptorSnapshot descriptors;
  {
    std::vector<std::unique_ptr<Port>> servers, clients;
    for (unsigned id = 0; id < 6; ++id) {
      servers.push_back(open({folder.path + "/c.sock", id, true, 1500, 6}));
      clients.push_back(open({folder.path + "/c.sock", id, false, 1500, 6}));
    }
    for (unsigned id = 0; id < 6; ++id) {
      REQUIRE(eventually([&] { return servers[id]->link_up() && clients[id]->link_up(); }));
      REQUIRE(exchange(*servers[id], *clients[id], {100 + id}) == "");
    }
    for (const int descriptor : descriptors.opened_since()) {
      const std::string target = descriptor_target(descriptor);
      INFO(target);
      // EAL's interrupt thread makes its epoll anew whenever a source comes or goes, at a time of its own. It keeps
      // nothing alive in a child.
      if (target == "anon_inode:[eventpoll]") continue;
      REQUIRE((fcntl(descriptor, F_GETFD) & FD_CLOEXEC) != 0);
    }
  }
  // Nothing is left, neither descriptors nor the listener's socket.
  REQUIRE(eventually([&] { return descriptors.opened_since().empty(); }));
  REQUIRE(!std::filesystem::exists(folder.path + "/c.sock"));
}

TEST_CASE("a peer that is killed while both sides are busy takes the link down and nothing else", "[memif]") {
  start();
  const Folder folder;
  auto server = open({folder.path + "/d.sock", 0, true, 9000, 8});
  for (int round = 0; round < 8; ++round) {
    const pid_t child = start_child("--flood", folder.path + "/d.sock");
    std::size_t received = 0, wrong = 0;
    const auto poll_server = [&] {
      std::array<RxFrame, 32> frames;
      const std::size_t count = server->receive(frames);
      for (std::size_t i = 0; i < count; ++i) {
        const auto data = frames[i].data;
        const auto expected = pattern({}, {}, data.size(), std::to_integer<unsigned>(data[0]));
        wrong += !std::equal(data.begin() + 14, data.end(), expected.begin() + 14);
      }
      server->release({frames.data(), count});
      received += count;
      std::array<TxFrame, 8> slots;
      const std::size_t room = server->reserve(slots);
      for (auto& slot : std::span(slots).first(room)) slot.length = 9000;
      server->send({slots.data(), room});
    };
    REQUIRE(eventually([&] { return poll_server(), received > 2000; }, std::chrono::seconds(20)));
    kill(child, SIGKILL);
    REQUIRE(eventually([&] { return poll_server(), !server->link_up(); }));
    REQUIRE(waitpid(child, nullptr, 0) == child);
    REQUIRE(wrong == 0);
  }
}

TEST_CASE("control work on other memif links costs a link that is up not one frame", "[memif]") {
  start();
  const Folder folder;
  const std::string path = folder.path + "/g.sock";
  auto server = open({path, 0, true, 1500, 6});
  auto sibling = open({path, 1, true, 1500, 6});  // the same socket: its peers' deaths close our gate
  auto other = open({folder.path + "/h.sock", 0, true, 1500, 6});
  auto lonely = open({folder.path + "/i.sock", 0, false, 1500, 6});  // tries to connect all the time
  auto client = open({path, 0, false, 1500, 6});
  REQUIRE(eventually([&] { return server->link_up() && client->link_up(); }));
  REQUIRE(exchange(*server, *client, {64}) == "");

  std::atomic<bool> stop{false};
  std::atomic<unsigned> connections{0};
  std::thread control([&] {
    while (!stop) {
      auto near = builtin_layer().open_memif({path, 1, false, 1500, 6});
      auto far = builtin_layer().open_memif({folder.path + "/h.sock", 0, false, 1500, 6});
      if (!near || !far) return;
      if (eventually([&] { return stop || ((*near)->link_up() && (*far)->link_up()); })) ++connections;
    }
  });
  // What was sent lies in the ring when send() returns: the next receive() must bring it.
  std::size_t rounds = 0, refused = 0, empty = 0, wrong = 0;
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(2500);
  for (; std::chrono::steady_clock::now() < until; ++rounds) {
    Port& from = rounds % 2 == 0 ? *server : *client;
    Port& to = rounds % 2 == 0 ? *client : *server;
    const auto sent = pattern(to.mac(), from.mac(), 60 + rounds % 1400, static_cast<unsigned>(rounds));
    std::vector<std::vector<std::byte>> got;
    if (!send_one(from, sent)) {
      ++refused;
      continue;
    }
    take(to, got);
    if (got.empty())
      ++empty;
    else
      wrong += got.size() != 1 || got[0] != sent;
  }
  stop = true;
  control.join();
  INFO(rounds << " rounds, " << connections << " other connections");
  REQUIRE(refused == 0);
  REQUIRE(empty == 0);
  REQUIRE(wrong == 0);
  REQUIRE(server->counters().tx_dropped + client->counters().tx_dropped == 0);
  REQUIRE(rounds > 1000);
  REQUIRE(connections > 3);
}
