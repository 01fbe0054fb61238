// SPDX-License-Identifier: BSD-2-Clause
// memif between two vdevs of one process and between processes: contents, limits, death of the peer, re-connection.
#include <csignal>
#include <filesystem>

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
