// SPDX-License-Identifier: BSD-2-Clause
// Messages and RMA between memories of devices and of hosts: every byte arrives, none is touched by the processor
// where it must not be (the stub's memory faults), and a device that refuses is an error completion.
#include <algorithm>

#include "../msg/support.hpp"
#include "cuda.hpp"
#include "stub.hpp"

using namespace mrc;
using namespace mrc::test;
using msg::OpKind;

namespace {

constexpr std::size_t kSizes[] = {0, 1, 255, 960, 961, 5000, 16384, 16385, 70000, 1500000};

/// Memory of either kind, with room around the part that is used.
class Buffer {
 public:
  Buffer(bool on_device, std::size_t size) : size_(size) {
    if (!on_device) {
      host_ = Bytes(size + 2 * kMargin);
      return;
    }
    device_ = std::make_unique<DeviceMemory>(size + 2 * kMargin);
    prov::device::Allocation found;
    int error = 0;
    REQUIRE(prov::Cuda::instance()->locate(device_->device(), found, error));
    prov::device::add(found);
  }
  ~Buffer() {
    if (device_) prov::device::remove(reinterpret_cast<std::uintptr_t>(device_->device()));
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  std::byte* address() { return (device_ ? device_->device() : host_.data()) + kMargin; }
  engine::GatherPiece piece() { return {address(), size_}; }
  std::span<std::byte> all() { return device_ ? device_->bytes() : std::span(host_); }
  std::span<std::byte> bytes() { return all().subspan(kMargin, size_); }
  void fill(std::uint64_t seed) {
    const Bytes from = pattern(size_, seed);
    std::copy(from.begin(), from.end(), bytes().begin());
  }
  /// Nothing was written around it.
  bool clean() {
    const auto zero = [](std::byte b) { return b == std::byte{0}; };
    const auto around = all();
    return std::all_of(around.begin(), around.begin() + kMargin, zero) &&
           std::all_of(around.begin() + static_cast<std::ptrdiff_t>(kMargin + size_), around.end(), zero);
  }

 private:
  static constexpr std::size_t kMargin = 128;
  std::size_t size_;
  Bytes host_;
  std::unique_ptr<DeviceMemory> device_;
};

bool same(Buffer& a, Buffer& b) {
  return std::ranges::equal(a.bytes(), b.bytes()) && a.clean() && b.clean();
}

struct Pair {
  explicit Pair(std::uint64_t seed) : fabric(seed), a(fabric.add()), b(fabric.add()) {}
  int send(Buffer& from, std::uintptr_t ctx, bool inject = false) {
    const auto piece = from.piece();
    msg::Transmit t;
    t.peer = a.messenger->peer(b.name);
    t.tagged = true;
    t.tag = 7;
    t.pieces = {&piece, 1};
    t.inject = inject;
    t.context = context(ctx);
    return a.messenger->transmit(t);
  }
  int receive(Buffer& into, std::uintptr_t ctx) {
    const auto piece = into.piece();
    return b.messenger->receive(receive_of(piece, 7, 0, context(ctx)));
  }
  int rma(OpKind kind, Buffer& local, std::uintptr_t ctx) {
    const auto piece = local.piece();
    const msg::Segment segment{1, 0, piece.length};
    msg::Transmit t;
    t.kind = kind;
    t.peer = a.messenger->peer(b.name);
    t.pieces = {&piece, 1};
    t.segments = {&segment, 1};
    t.context = context(ctx);
    return a.messenger->transmit(t);
  }
  void expose(Buffer& target) {
    b.host.regions.push_back(
        {1, FI_REMOTE_READ | FI_REMOTE_WRITE, nullptr, 0, {target.address(), target.bytes().size()}});
  }
  int error(FakeNode& at, OpKind kind) {
    fabric.settle();
    Heard h;
    REQUIRE(at.host.take(kind, h));
    REQUIRE((a.messenger->in_use() == 0 && b.messenger->in_use() == 0 && a.messenger->outstanding() == 0));
    return h.error;
  }
  FakeFabric fabric;
  FakeNode& a;
  FakeNode& b;
};

}  // namespace

TEST_CASE("messages from and to a device") {
  const bool from_device = GENERATE(false, true), to_device = GENERATE(false, true), unexpected = GENERATE(false, true);
  for (const auto size : kSizes) {
    CAPTURE(size, from_device, to_device, unexpected);
    Pair p(size + 1);
    Buffer from(from_device, size), to(to_device, size);
    from.fill(size);
    if (!unexpected) REQUIRE(p.receive(to, 2) == 0);
    REQUIRE(p.send(from, 1) == 0);
    if (unexpected) {
      p.fabric.settle();
      REQUIRE(p.receive(to, 2) == 0);
    }
    REQUIRE(p.error(p.b, OpKind::kRecv) == 0);
    REQUIRE(p.error(p.a, OpKind::kSend) == 0);
    REQUIRE(same(from, to));
  }
}

TEST_CASE("a device's bytes are copied a message at a time, not a packet at a time") {
  Pair p(5);
  Buffer from(true, 1 << 20), to(true, 1 << 20);
  from.fill(1);
  REQUIRE(p.receive(to, 2) == 0);
  const std::size_t before = copies();
  REQUIRE(p.send(from, 1) == 0);
  REQUIRE(p.error(p.b, OpKind::kRecv) == 0);
  CHECK(copies() - before == 2);
  CHECK(same(from, to));
}

TEST_CASE("inject takes a device's bytes at once") {
  Pair p(6);
  Buffer from(true, 200), to(true, 200), kept(false, 200);
  from.fill(3);
  kept.fill(3);
  REQUIRE(p.send(from, 1, true) == 0);
  from.fill(4);
  REQUIRE(p.receive(to, 2) == 0);
  REQUIRE(p.error(p.b, OpKind::kRecv) == 0);
  CHECK(same(to, kept));
}

TEST_CASE("several messages into one multi-receive buffer on a device") {
  Pair p(7);
  Buffer first(true, 3000), second(true, 40000), into(true, 50000);
  first.fill(1);
  second.fill(2);
  const auto piece = into.piece();
  auto r = receive_of(piece, 7, 0, context(9));
  r.multi = true;
  REQUIRE(p.b.messenger->receive(r) == 0);
  REQUIRE(p.send(first, 1) == 0);
  REQUIRE(p.send(second, 2) == 0);
  p.fabric.settle();
  CHECK(std::ranges::equal(into.bytes().subspan(0, 3000), first.bytes()));
  CHECK(std::ranges::equal(into.bytes().subspan(3000, 40000), second.bytes()));
  CHECK(into.clean());
}

TEST_CASE("RMA from and to a device") {
  const bool local_device = GENERATE(false, true), target_device = GENERATE(false, true);
  const auto kind = GENERATE(OpKind::kWrite, OpKind::kRead);
  for (const auto size : kSizes) {
    CAPTURE(size, local_device, target_device, static_cast<int>(kind));
    Pair p(size + 2);
    Buffer local(local_device, size), target(target_device, size);
    (kind == OpKind::kWrite ? local : target).fill(size);
    p.expose(target);
    REQUIRE(p.rma(kind, local, 3) == 0);
    REQUIRE(p.error(p.a, kind) == 0);
    REQUIRE(same(local, target));
  }
}

TEST_CASE("a device that refuses is an error where it happened") {
  for (const std::size_t size : {100u, 100000u}) {
    CAPTURE(size);
    Pair p(9);
    Buffer host(false, size), device(true, size);
    p.expose(device);
    fail_copies(700);
    CHECK(p.send(device, 1) == -FI_EIO);
    CHECK(p.rma(OpKind::kWrite, host, 1) == 0);
    CHECK(p.error(p.a, OpKind::kWrite) == FI_EIO);
    CHECK(p.rma(OpKind::kRead, host, 1) == 0);
    CHECK(p.error(p.a, OpKind::kRead) == FI_EIO);
    CHECK(p.receive(device, 2) == 0);
    CHECK(p.send(host, 1) == 0);
    CHECK(p.error(p.b, OpKind::kRecv) == FI_EIO);
    fail_copies(0);
    p.a.host.heard.clear();
    CHECK(p.rma(OpKind::kWrite, host, 1) == 0);
    CHECK(p.error(p.a, OpKind::kWrite) == 0);
  }
}
