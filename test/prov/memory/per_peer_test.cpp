// SPDX-License-Identifier: BSD-2-Clause
// What a peer costs, in three figures: inserted into the address vector, connected with nothing in flight, and what is
// in flight. The whole provider runs over an engine with made-up ports; heap bytes are counted as malloc counts them,
// the transport's arena by what it needs for each connection.
#include <rdma/fi_cm.h>
#include <rdma/fi_tagged.h>

#include <cstdlib>

#include "../../engine/fakes.hpp"
#include "fabric.hpp"
#include "info.hpp"
#include "ledger.hpp"
#include "support/catch.hpp"

using namespace mrc;
using namespace mrc::test;

namespace {

constexpr std::size_t kInserted = 10'000, kConnected = 1'000;
constexpr std::size_t kMaxInserted = 256, kMaxConnected = 4096;
constexpr std::uint16_t kFirstPort = 2000;

std::shared_ptr<engine::Engine>& measured_engine() {
  static std::shared_ptr<engine::Engine> engine;
  return engine;
}

/// A peer that takes everything.
struct Sink final : engine::Client {
  transport::Placement place(const transport::RxWrite&) override { return transport::Placement::kPlaced; }
  void on_event(const transport::Event&) override {}
  bool on_progress(Tick) override { return false; }
};

/// What passes through a made-up port is a wire's, not the provider's.
struct Uncounted final : port::Port {
  explicit Uncounted(std::unique_ptr<port::Port> port) : port_(std::move(port)) {
    name_ = port_->name();
    mac_ = port_->mac();
    mtu_ = port_->mtu();
  }
  ~Uncounted() override {
    const OnBehalfOf test(Owner::kTest);
    port_.reset();
  }
  std::size_t receive(std::span<port::RxFrame> out) override {
    const OnBehalfOf test(Owner::kTest);
    return port_->receive(out);
  }
  void release(std::span<const port::RxFrame> frames) override { port_->release(frames); }
  std::size_t reserve(std::span<port::TxFrame> out) override {
    const OnBehalfOf test(Owner::kTest);
    return port_->reserve(out);
  }
  std::size_t send(std::span<const port::TxFrame> frames) override {
    const OnBehalfOf test(Owner::kTest);
    return port_->send(frames);
  }
  void cancel(std::span<const port::TxFrame> frames) override { port_->cancel(frames); }
  bool link_up() const override { return port_->link_up(); }
  port::PortCounters counters() const override { return port_->counters(); }

 private:
  std::unique_ptr<port::Port> port_;
};

Pair::Options options() {
  Pair::Options o;
  o.planes = 4;
  o.wrap = [](std::unique_ptr<port::Port> port) { return std::make_unique<Uncounted>(std::move(port)); };
  o.config.limits.endpoints = kConnected + 8;
  o.config.limits.connections = kConnected + 24;
  o.config.transport.linger = milliseconds(1);
  return o;
}

/// Of the transport's arena, for each connection that there is room for.
std::size_t arena_per_connection(std::uint8_t planes) {
  auto o = options();
  o.config.limits.planes = planes;
  auto more = o.config.limits;
  more.connections *= 2;  // 1024 and 2048: hash tables of powers of two grow in proportion
  const auto& transport = o.config.transport;
  const std::size_t extra =
      transport::Core::memory_needed(transport, more) - transport::Core::memory_needed(transport, o.config.limits);
  return (extra + o.config.limits.connections - 1) / o.config.limits.connections;
}

struct Measured {
  Pair pair{options()};
  std::vector<Sink> sinks{kConnected};
  fi_info* info = nullptr;
  fid_fabric* fabric = nullptr;
  fid_domain* domain = nullptr;
  fid_av* av = nullptr;
  fid_cq* cq = nullptr;
  fid_ep* ep = nullptr;
  std::vector<fi_addr_t> addresses = std::vector<fi_addr_t>(kInserted);

  Measured() {
    setenv("FI_MRC_LINGER", "0", 1);
    measured_engine() = pair.left;
    {
      const std::lock_guard guard(*pair.right);
      for (std::size_t i = 0; i < kConnected; ++i) {
        engine::EndpointName name{kRight, static_cast<std::uint16_t>(kFirstPort + i)};
        REQUIRE(pair.right->open_endpoint_locked(name, &sinks[i]).has_value());
      }
    }
    REQUIRE(prov::getinfo(FI_VERSION(1, 17), nullptr, nullptr, 0, nullptr, &info) == 0);
    REQUIRE(prov::open_fabric(info->fabric_attr, &fabric, nullptr) == 0);
    REQUIRE(fi_domain(fabric, info, &domain, nullptr) == 0);
    fi_av_attr av_attr{};
    av_attr.type = FI_AV_TABLE;
    REQUIRE(fi_av_open(domain, &av_attr, &av, nullptr) == 0);
    fi_cq_attr cq_attr{};
    cq_attr.format = FI_CQ_FORMAT_TAGGED;
    cq_attr.size = 2 * kConnected;
    REQUIRE(fi_cq_open(domain, &cq_attr, &cq, nullptr) == 0);
    REQUIRE(fi_endpoint(domain, info, &ep, nullptr) == 0);
    REQUIRE(fi_ep_bind(ep, &av->fid, 0) == 0);
    REQUIRE(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV) == 0);
    REQUIRE(fi_enable(ep) == 0);
  }
  ~Measured() {
    for (fid* f : {&ep->fid, &cq->fid, &av->fid, &domain->fid, &fabric->fid}) CHECK(fi_close(f) == 0);
    fi_freeinfo(info);
    measured_engine().reset();
  }

  void insert() {
    const OnBehalfOf measured(Owner::kMeasured);
    for (std::size_t i = 0; i < kInserted; ++i) {
      sockaddr_in address{};
      address.sin_family = AF_INET;
      // Every tenth is somebody; the others are elsewhere.
      const bool real = i % (kInserted / kConnected) == 0;
      address.sin_addr.s_addr = htonl(real ? kRight : 0x0a4e0000u + static_cast<std::uint32_t>(i));
      address.sin_port = htons(static_cast<std::uint16_t>(kFirstPort + (real ? i / (kInserted / kConnected) : 0)));
      REQUIRE(fi_av_insert(av, &address, 1, &addresses[i], 0, nullptr) == 1);
    }
  }
  void pass(bool both) {
    {
      const OnBehalfOf measured(Owner::kMeasured);
      const std::lock_guard guard(*pair.left);
      pair.left->progress_locked();
    }
    if (both) {
      const std::lock_guard guard(*pair.right);
      pair.right->progress_locked();
    }
    pair.clock.advance(microseconds(5));
  }
  /// Sends to one of those that are there, and waits for `completions` (all that are under way).
  void send(std::size_t to, std::span<const std::byte> bytes) {
    const OnBehalfOf measured(Owner::kMeasured);
    const fi_addr_t address = addresses[to * (kInserted / kConnected)];
    for (int tries = 0;; ++tries) {
      const ssize_t status = fi_tsend(ep, bytes.data(), bytes.size(), nullptr, address, 7, nullptr);
      if (status == 0) return;
      REQUIRE((status == -FI_EAGAIN && tries < 100000));
      pass(true);
    }
  }
  void complete(std::size_t wanted) {
    for (std::size_t done = 0, passes = 0; done < wanted; ++passes) {
      REQUIRE(passes < 2'000'000);
      pass(true);
      fi_cq_tagged_entry entry;
      const ssize_t n = fi_cq_read(cq, &entry, 1);
      REQUIRE((n == 1 || n == -FI_EAGAIN));
      if (n == 1) ++done;
    }
  }
  void rest() {
    for (int i = 0; i < 3000; ++i) pass(true);
  }
  transport::PoolLevels levels() {
    const std::lock_guard guard(*pair.left);
    return pair.left->core_locked().pool_levels();
  }
};

}  // namespace

namespace mrc::engine {

Result<std::shared_ptr<Engine>> Engine::acquire(const EngineConfig&) {
  return measured_engine();
}

}  // namespace mrc::engine

TEST_CASE("what a peer costs") {
  Measured m;
  const std::vector<std::byte> small(8, std::byte{1}), large(16000, std::byte{2});

  const std::size_t empty = held_by(Owner::kMeasured);
  m.insert();
  const std::size_t inserted = held_by(Owner::kMeasured) - empty;

  // One peer first, so that what all share (pools of the messaging layer) is there; many messages at a time, so that
  // packets overtake one another.
  m.send(0, small);
  m.complete(1);
  m.rest();
  const std::size_t before = held_by(Owner::kMeasured);
  for (std::size_t i = 1; i < kConnected; ++i) m.send(i, small);
  m.complete(kConnected - 1);
  m.rest();
  const std::size_t connected = held_by(Owner::kMeasured) - before;
  REQUIRE(m.levels().connections == 24);

  // What is in flight: nothing on the heap, window records in the arena, and everything back afterwards.
  const auto idle = m.levels();
  const std::size_t heap = held_by(Owner::kMeasured);
  constexpr std::size_t kMessages = 8;
  for (std::size_t i = 0; i < kMessages; ++i) m.send(1, large);
  for (int i = 0; i < 4; ++i) m.pass(false);
  const auto busy = m.levels();
  const std::size_t packets = kMessages * large.size() / 1024;
  const std::size_t in_flight = held_by(Owner::kMeasured) - heap;
  const std::size_t segments = idle.segments - busy.segments;
  m.complete(kMessages);
  m.rest();

  const std::size_t per_inserted = (inserted + kInserted - 1) / kInserted;
  const std::size_t heap_per_connected = (connected + kConnected - 2) / (kConnected - 1);
  const std::size_t per_connected = arena_per_connection(4) + heap_per_connected;
  std::size_t most = 0;
  for (std::uint8_t planes = 1; planes <= path::kMaxPlanes; ++planes)
    most = std::max(most, arena_per_connection(planes) + heap_per_connected);
  WARN("address inserted: " << per_inserted << " B; connected, nothing in flight: " << per_connected << " B ("
                            << arena_per_connection(4) << " of the transport's arena, " << heap_per_connected
                            << " on the heap; with 8 planes " << arena_per_connection(8) + heap_per_connected
                            << ", at most " << most << " with 1 to 8); in flight: " << in_flight << " B on the heap, "
                            << segments << " window segments of 64 packets for " << packets << " packets and more");
  CHECK(per_inserted <= kMaxInserted);
  CHECK(most <= kMaxConnected);
  CHECK(in_flight == 0);
  CHECK(segments > 0);
  CHECK(segments <= packets / 64 + 2);
  CHECK(m.levels() == idle);
  CHECK(held_by(Owner::kMeasured) == heap);
}
