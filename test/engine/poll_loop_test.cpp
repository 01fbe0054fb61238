// SPDX-License-Identifier: BSD-2-Clause
// Whole writes between two engines over ports in memory: contents under loss, corruption, duplication and reordering
// on 1 to 4 planes, garbage counted, loopback, links that go down.
#include "fakes.hpp"
#include "support/catch.hpp"

using namespace mrc;
using namespace mrc::test;
using engine::EndpointName;
using engine::Gather;
using engine::GatherPiece;
using transport::EventKind;
using transport::Status;

namespace {

struct Talk {
  explicit Talk(Pair& p, std::size_t bytes) : pair(p), client(0), server(bytes) {
    EndpointName a{0, 100}, b{0, 200};
    {
      const std::lock_guard guard(*pair.left);
      left = *pair.left->open_endpoint_locked(a, &client);
      conn = pair.left->connect_locked(left, {kRight, 200});
    }
    const std::lock_guard guard(*pair.right);
    right = *pair.right->open_endpoint_locked(b, &server);
  }
  // Sends `data` in one write to VA `va`; its cookie is `va`.
  Status post(const Gather& gather, std::uint32_t length, std::uint64_t va, std::uint64_t offset) {
    transport::WriteRequest write;
    write.va = va;
    write.length = length;
    write.source = &gather;
    write.source_offset = offset;
    write.cookie = va;
    const std::lock_guard guard(*pair.left);
    return pair.left->post_write_locked(conn, write);
  }
  Pair& pair;
  FakeClient client, server;
  transport::EpId left, right;
  transport::ConnId conn;
};

// Several writes at once that together fill the server's memory.
void transfer(Pair& pair, std::size_t bytes, std::size_t messages, std::uint64_t seed) {
  Talk talk(pair, bytes);
  const auto data = pattern(bytes, seed);
  const GatherPiece pieces[] = {{data.data(), bytes / 3}, {data.data() + bytes / 3, bytes - bytes / 3}};
  const Gather gather{pieces, 2};
  for (std::size_t i = 0; i < messages; ++i) {
    const std::size_t from = bytes * i / messages, to = bytes * (i + 1) / messages;
    REQUIRE(talk.post(gather, static_cast<std::uint32_t>(to - from), from, from) == Status::kOk);
  }
  const bool done = pair.run([&] { return talk.client.count(EventKind::kWriteDone) == messages; });
  INFO(pair.left->stats_json_locked(false));
  INFO(pair.right->stats_json_locked(false));
  REQUIRE(done);
  REQUIRE(talk.server.bytes == data);
  REQUIRE(talk.client.count(EventKind::kConnected) == 1);
  REQUIRE(talk.server.count(EventKind::kAccepted) == 1);
  const std::lock_guard guard(*pair.right);
  REQUIRE(pair.right->peer_name_locked(talk.server.last_conn) == EndpointName{kLeft, 100});
}

}  // namespace

TEST_CASE("a write arrives whole, over every plane") {
  for (const unsigned planes : {1u, 2u, 4u}) {
    Pair::Options options;
    options.planes = planes;
    Pair pair(options);
    transfer(pair, 300'001, 7, planes);
    const auto& core = pair.right->core_locked().counters();
    for (unsigned p = 0; p < planes; ++p) REQUIRE(core.rx_plane[p] > 20);
    REQUIRE(pair.right->driver_counters_locked().rx_neighbour > 0);
    REQUIRE(pair.right->driver_counters_locked().rx_bad_icrc == 0);
  }
}

TEST_CASE("loss, duplication and reordering do not show in the contents") {
  for (const std::uint64_t seed : {1u, 2u, 3u}) {
    INFO("seed " << seed);
    Pair::Options options;
    options.planes = 4;
    options.seed = seed;
    Pair pair(options);
    for (auto* lanes : {&pair.to_left, &pair.to_right}) {
      for (auto& lane : *lanes) lane->lose = 0.02, lane->duplicate = 0.02, lane->swap = 0.05;
    }
    transfer(pair, 500'000, 5, seed);
    REQUIRE(pair.left->core_locked().counters().tx_retransmit > 0);
    REQUIRE(pair.right->core_locked().counters().rx_duplicate > 0);
  }
}

TEST_CASE("corrupted packets are dropped, counted and sent again") {
  Pair::Options options;
  options.planes = 2;
  Pair pair(options);
  for (auto& lane : pair.to_right) lane->corrupt = 0.02;
  transfer(pair, 500'000, 5, 9);
  std::uint64_t corrupted = 0;
  for (auto& lane : pair.to_right) corrupted += lane->corrupted;
  REQUIRE(corrupted > 0);
  const auto counters = pair.right->driver_counters_locked();
  // A flip in BTH's reserved byte or a neighbour frame goes unnoticed, as it may.
  REQUIRE(counters.rx_bad_icrc + 5 >= corrupted);
  REQUIRE(counters.rx_bad_icrc > 0);
}

TEST_CASE("jumbo frames are used where the ports allow") {
  Pair::Options options;
  options.mtu = 9000;
  Pair pair(options);
  transfer(pair, 1'000'000, 3, 4);
  REQUIRE(pair.right->core_locked().counters().rx_data < 600);  // 1024 B at first, 8192 B once the probes are back
}

TEST_CASE("garbage is counted by kind and disturbs nothing") {
  Pair pair({});
  const auto put = [&](Frame frame) { pair.to_right[0]->frames.push_back(std::move(frame)); };
  Frame ip(200);
  ip[12] = std::byte{0x86}, ip[13] = std::byte{0xdd}, ip[14] = std::byte{0x60};
  ip[14 + 5] = std::byte{200 - 54};
  ip[14 + 6] = std::byte{17};
  put(Frame(10));
  put(Frame(64));
  put(Frame(3000, std::byte{0x86}));
  auto oversize = ip;
  oversize.resize(1600);
  put(oversize);
  auto cut = ip;
  cut.resize(120);
  put(cut);
  put(ip);  // for ::
  auto other = ip;
  const auto node = path::EndpointAddress{path::kDefaultFabric, 0, kRight + 1, 1}.inner();
  std::memcpy(other.data() + 14 + 24, node.bytes.data(), 16);
  put(other);
  auto nobody = ip;
  const auto mine = path::EndpointAddress{path::kDefaultFabric, 0, kRight, 1}.inner();
  std::memcpy(nobody.data() + 14 + 24, mine.bytes.data(), 16);
  put(nobody);  // to our node, not MRC, no iCRC
  auto icmp = ip;
  icmp[14 + 6] = std::byte{58};
  put(icmp);
  transfer(pair, 100'000, 2, 4);
  const auto counters = pair.right->driver_counters_locked();
  REQUIRE(counters.rx_runt == 1);
  REQUIRE(counters.rx_not_ipv6 == 2);
  REQUIRE(counters.rx_too_long == 1);
  REQUIRE(counters.rx_cut_off == 1);
  REQUIRE(counters.rx_not_ours == 3);
  REQUIRE(counters.rx_bad_icrc == 1);
}

TEST_CASE("endpoints of one process talk in memory, to themselves too") {
  Pair pair({});
  FakeClient a(70'000), b(70'000);
  EndpointName an{0, 1}, bn{0, 2};
  const auto data = pattern(70'000, 3);
  const GatherPiece piece{data.data(), data.size()};
  const Gather gather{&piece, 1};
  transport::WriteRequest write;
  write.length = 70'000;
  write.source = &gather;
  {
    const std::lock_guard guard(*pair.left);
    const auto ae = *pair.left->open_endpoint_locked(an, &a);
    REQUIRE(pair.left->open_endpoint_locked(bn, &b).has_value());
    const auto to_b = pair.left->connect_locked(ae, {0x7f000001, 2});
    const auto to_a = pair.left->connect_locked(ae, an);
    REQUIRE(pair.left->peer_name_locked(to_b) == bn);
    REQUIRE(pair.left->post_write_locked(to_b, write) == Status::kOk);
    REQUIRE(pair.left->post_write_locked(to_a, write) == Status::kOk);
  }
  const bool done = pair.run([&] { return a.count(EventKind::kWriteDone) == 2; });
  INFO(pair.left->stats_json_locked(false));
  REQUIRE(done);
  REQUIRE(a.bytes == data);
  REQUIRE(b.bytes == data);
  REQUIRE(pair.left->driver_counters_locked().loop_frames > 20);
  REQUIRE(pair.left_port[0]->counters().tx_frames == 0);
}

TEST_CASE("a plane whose link goes down is left alone and comes back") {
  Pair::Options options;
  options.planes = 2;
  Pair pair(options);
  Talk talk(pair, 4'000'000);
  const auto data = pattern(4'000'000, 5);
  const GatherPiece piece{data.data(), data.size()};
  const Gather gather{&piece, 1};
  REQUIRE(talk.post(gather, 4'000'000, 0, 0) == Status::kOk);
  const auto placed = [&](std::size_t packets) {
    return pair.run([&] { return talk.server.placed > packets; }, seconds(20), microseconds(500));
  };
  REQUIRE(placed(200));
  pair.left_port[1]->up = pair.right_port[1]->up = false;
  pair.to_left[1]->lose = pair.to_right[1]->lose = 1;
  pair.run([] { return false; }, milliseconds(2), microseconds(500));
  const auto sent = pair.left->core_locked().counters().tx_plane[1];
  REQUIRE(placed(1500));
  REQUIRE(pair.left->core_locked().counters().tx_plane[1] == sent);
  pair.left_port[1]->up = pair.right_port[1]->up = true;
  pair.to_left[1]->lose = pair.to_right[1]->lose = 0;
  const bool done =
      pair.run([&] { return talk.client.count(EventKind::kWriteDone) == 1; }, seconds(20), microseconds(500));
  INFO(pair.left->stats_json_locked(false));
  REQUIRE(done);
  REQUIRE(talk.server.bytes == data);
  REQUIRE(pair.left->core_locked().counters().tx_plane[1] > sent + 100);
}

TEST_CASE("all planes go down and come back") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    INFO("seed " << seed);
    Pair::Options options;
    options.planes = 4;
    options.seed = seed;
    options.mtu = 9000;
    Pair pair(options);
    Talk talk(pair, 16'000'000);
    const auto data = pattern(16'000'000, seed);
    const GatherPiece piece{data.data(), data.size()};
    const Gather gather{&piece, 1};
    for (std::uint32_t i = 0; i < 16; ++i) {
      REQUIRE(talk.post(gather, 1'000'000, i * 1'000'000, i * 1'000'000) == Status::kOk);
    }
    REQUIRE(pair.run([&] { return talk.server.placed > 300 + 50 * seed; }, seconds(20), microseconds(50)));
    // Not all at once: frames vanish before the ports say so, and either side notices at its own time.
    const auto change = [&](bool up) {
      for (auto* lanes : {&pair.to_left, &pair.to_right}) {
        for (auto& lane : *lanes) {
          lane->lose = up ? 0 : 1;
          if (!up) lane->frames.clear();
        }
      }
      for (auto* ports : {&pair.left_port, &pair.right_port}) {
        for (FakePort* port : *ports) {
          pair.run([] { return false; }, microseconds(pair.random.below(20'000)), microseconds(50));
          port->up = up;
        }
      }
    };
    change(false);
    pair.run([] { return false; }, milliseconds(500), microseconds(50));
    change(true);
    const bool done =
        pair.run([&] { return talk.client.count(EventKind::kWriteDone) == 16; }, seconds(20), microseconds(50));
    INFO(pair.left->stats_json_locked(false));
    REQUIRE(done);
    REQUIRE(talk.server.bytes == data);
  }
}

TEST_CASE("every buffer goes back to its port") {
  Pair::Options options;
  options.planes = 2;
  Pair pair(options);
  transfer(pair, 200'000, 3, 1);
  for (auto* ports : {&pair.left_port, &pair.right_port}) {
    for (FakePort* port : *ports) REQUIRE(port->lent() <= 32);  // the spare ones that the engine keeps
  }
}

TEST_CASE("closing an endpoint drains what was posted") {
  Pair pair({});
  Talk talk(pair, 50'000);
  const auto data = pattern(50'000, 6);
  const GatherPiece piece{data.data(), data.size()};
  const Gather gather{&piece, 1};
  REQUIRE(talk.post(gather, 50'000, 0, 0) == Status::kOk);
  REQUIRE(pair.run([&] { return talk.server.placed > 0; }));
  // The other side must run too while close_endpoint() drains: from the client's own progress call.
  talk.client.work = [&] {
    const std::lock_guard guard(*pair.right);
    pair.clock.advance(microseconds(5));
    return pair.right->progress_locked();
  };
  pair.left->close_endpoint(talk.left);
  REQUIRE(talk.client.count(EventKind::kWriteDone) == 1);
  REQUIRE(talk.server.bytes == data);
  REQUIRE(pair.run([&] { return talk.server.count(EventKind::kConnClosed) == 1; }, seconds(1)));
}
