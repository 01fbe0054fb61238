// SPDX-License-Identifier: BSD-2-Clause
// Sleeping on an engine and the service thread, in real time.
#include <poll.h>
#include <sys/resource.h>
#include <time.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "fakes.hpp"
#include "support/catch.hpp"

using namespace mrc;
using namespace mrc::test;

namespace {

bool readable(int fd, int ms = 0) {
  pollfd p{.fd = fd, .events = POLLIN, .revents = 0};
  return poll(&p, 1, ms) == 1;
}

// Two engines of real time, joined by lanes that are safe only under both locks: `mutex` guards them.
struct Live {
  explicit Live(bool service) : random(1) {
    for (int side = 0; side < 2; ++side) {
      std::vector<std::unique_ptr<port::Port>> ports;
      ports.push_back(
          std::make_unique<Locked>(lanes[side], lanes[1 - side], static_cast<std::uint8_t>(side), random, mutex));
      engine::OwnPortsPlan plan;
      plan.ipv4 = side == 0 ? kLeft : kRight;
      engine::EngineParts parts;
      parts.config.service_thread = service && side == 1;
      parts.attachment = std::make_unique<engine::OwnPorts>(plan, std::move(ports), crc32);
      parts.seed = 5 + static_cast<std::uint64_t>(side);
      parts.reserve_ports = false;
      engines[side] = *engine::EngineImpl::create(std::move(parts));
    }
  }
  struct Locked final : port::Port {
    Locked(std::shared_ptr<Lane> out, std::shared_ptr<Lane> in, std::uint8_t id, Random& random, std::mutex& m)
        : inside(std::move(out), std::move(in), id, 1500, random), mutex(m) {
      name_ = inside.name(), mac_ = inside.mac(), mtu_ = 1500;
    }
    std::size_t receive(std::span<port::RxFrame> out) override {
      const std::lock_guard guard(mutex);
      return inside.receive(out);
    }
    void release(std::span<const port::RxFrame> frames) override { inside.release(frames); }
    std::size_t reserve(std::span<port::TxFrame> out) override {
      const std::lock_guard guard(mutex);
      return inside.reserve(out);
    }
    std::size_t send(std::span<const port::TxFrame> frames) override {
      const std::lock_guard guard(mutex);
      return inside.send(frames);
    }
    void cancel(std::span<const port::TxFrame> frames) override { inside.cancel(frames); }
    bool link_up() const override { return true; }
    port::PortCounters counters() const override { return {}; }
    FakePort inside;
    std::mutex& mutex;
  };
  std::mutex mutex;
  Random random;
  std::shared_ptr<Lane> lanes[2] = {std::make_shared<Lane>(), std::make_shared<Lane>()};
  std::shared_ptr<engine::EngineImpl> engines[2];
};

std::int64_t cpu_ns() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return t.tv_sec * 1'000'000'000 + t.tv_nsec;
}

}  // namespace

// An MPI polls shared memory between its reads of an idle queue: a read that sleeps would make that as slow as the nap.
TEST_CASE("progress never sleeps, however long nothing has come") {
  using std::chrono::steady_clock;
  Live live(false);
  const auto sleeps = [] {
    rusage usage{};
    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_nvcsw;
  };
  const auto before = sleeps();
  const auto start = steady_clock::now();
  while (steady_clock::now() - start < std::chrono::milliseconds(1500)) {
    const std::lock_guard guard(*live.engines[0]);
    live.engines[0]->progress_locked();
  }
  CHECK(sleeps() == before);
}

TEST_CASE("arming refuses while there is work, and the descriptor tells of deadlines") {
  Live live(false);
  FakeClient client;
  engine::EndpointName name{0, 1};
  const std::lock_guard guard(*live.engines[0]);
  const auto ep = *live.engines[0]->open_endpoint_locked(name, &client);
  live.lanes[1]->frames.push_back(Frame(64));  // anything received is work
  REQUIRE_FALSE(live.engines[0]->arm_locked());
  REQUIRE(live.engines[0]->arm_locked());
  live.engines[0]->disarm_locked();
  const auto conn = live.engines[0]->connect_locked(ep, {kRight, 2});
  REQUIRE(live.engines[0]->post_write_locked(conn, {}) == transport::Status::kOk);
  while (!live.engines[0]->arm_locked()) {
  }
  REQUIRE(readable(live.engines[0]->wait_fd(), 1000));  // INIT's retry is due in a few ms
  live.engines[0]->disarm_locked();
}

TEST_CASE("the service thread serves a peer while the application computes") {
  Live live(true);
  FakeClient client, server(500'000);
  engine::EndpointName a{0, 1}, b{0, 2};
  const auto data = pattern(500'000, 8);
  const engine::GatherPiece piece{data.data(), data.size()};
  const engine::Gather gather{&piece, 1};
  auto& left = *live.engines[0];
  auto& right = *live.engines[1];
  {
    const std::lock_guard guard(right);
    REQUIRE(right.open_endpoint_locked(b, &server).has_value());
  }
  transport::ConnId conn;
  {
    const std::lock_guard guard(left);
    const auto ep = *left.open_endpoint_locked(a, &client);
    conn = left.connect_locked(ep, {kRight, 2});
    transport::WriteRequest write;
    write.length = 500'000;
    write.source = &gather;
    REQUIRE(left.post_write_locked(conn, write) == transport::Status::kOk);
  }
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (client.count(transport::EventKind::kWriteDone) == 0 && std::chrono::steady_clock::now() < end) {
    const std::lock_guard guard(left);
    left.progress_locked();
  }
  REQUIRE(client.count(transport::EventKind::kWriteDone) == 1);
  const std::lock_guard guard(right);
  REQUIRE(server.bytes == data);
  REQUIRE(right.driver_counters_locked().service_wakeups > 0);
}

/// Seconds of processor time that waking up costs, of two threads that do it every millisecond and nothing else: on an
/// idle virtual machine more than on a busy one.
double waking_costs() {
  constexpr int kTimes = 1000;
  const auto wake = [] {
    for (int i = 0; i < kTimes; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  const auto before = cpu_ns();
  std::thread other(wake);
  wake();
  other.join();
  return static_cast<double>(cpu_ns() - before) / 1e9 / (2 * kTimes);
}

TEST_CASE("an idle process costs next to nothing") {
  const double wake_up = waking_costs();
  Live live(true);
  FakeClient client, server;
  engine::EndpointName a{0, 1}, b{0, 2};
  {
    const std::lock_guard guard(*live.engines[0]);
    REQUIRE(live.engines[0]->open_endpoint_locked(a, &client).has_value());
  }
  {
    const std::lock_guard guard(*live.engines[1]);
    REQUIRE(live.engines[1]->open_endpoint_locked(b, &server).has_value());
  }
  // One side's application is blocked on an idle fabric, the other one's is away.
  std::atomic<bool> stop{false};
  std::thread blocked([&] {
    auto& engine = *live.engines[0];
    while (!stop.load()) {
      {
        const std::lock_guard guard(engine);
        if (!engine.arm_locked()) continue;
      }
      readable(engine.wait_fd(), 100);
      const std::lock_guard guard(engine);
      engine.disarm_locked();
    }
  });
  const auto polls = [&] {
    std::uint64_t sum = 0;
    for (const auto& engine : live.engines) {
      const std::lock_guard guard(*engine);
      sum += engine->driver_counters_locked().polls;
    }
    return sum;
  };
  std::this_thread::sleep_for(std::chrono::milliseconds(700));
  const auto before = cpu_ns();
  const auto polls_before = polls();
  std::this_thread::sleep_for(std::chrono::milliseconds(1000));
  const double share = static_cast<double>(cpu_ns() - before) / 1e9;
  const auto looked = polls() - polls_before;
  stop.store(true);
  blocked.join();
  // Ports without a wake-up descriptor are looked at every millisecond, by each of the two.
  const double waking = wake_up * static_cast<double>(looked);
  INFO("looked " << looked << " times, CPU share " << share << ", of which waking up " << waking);
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  constexpr double kMost = 0.5;  // a pass costs many times as much
#else
  constexpr double kMost = 0.05;
#endif
  REQUIRE(looked < 2 * 2500);
  REQUIRE(share - waking < kMost);
}
