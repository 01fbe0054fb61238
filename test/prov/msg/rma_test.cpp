// SPDX-License-Identifier: BSD-2-Clause
// RMA: contents, several target ranges, CQ data, bad keys, bounds and rights, regions closed on the way.
#include "support.hpp"
#include "support/catch.hpp"

using namespace mrc::test;
using msg::OpKind;

namespace {

constexpr std::uint64_t kKey = 0xABCDEF0123456789;
constexpr std::size_t kSizes[] = {0, 1, 8, 300, 960, 961, 5000, 16384, 16385, 70000, 1500000};

struct Pair {
  FakeFabric fabric;
  FakeNode& a;
  FakeNode& b;
  Bytes memory;
  explicit Pair(std::uint64_t seed, std::size_t size = 2000000)
      : fabric(seed), a(fabric.add()), b(fabric.add()), memory(pattern(size, seed + 1)) {
    b.host.regions.push_back({kKey, FI_REMOTE_READ | FI_REMOTE_WRITE, &memory});
  }
  Heard one(FakeNode& n, OpKind kind) {
    Heard h;
    REQUIRE(n.host.take(kind, h));
    return h;
  }
  void quiet() {
    fabric.settle();
    REQUIRE((a.messenger->in_use() == 0 && b.messenger->in_use() == 0 && a.messenger->outstanding() == 0));
  }
};

}  // namespace

TEST_CASE("writes of every size land at their address and nowhere else") {
  for (const auto size : kSizes) {
    CAPTURE(size);
    Pair p(size);
    Bytes expected = p.memory, data = pattern(size, 77);
    std::copy(data.begin(), data.end(), expected.begin() + 1000);
    REQUIRE(rma(p.a, p.b, OpKind::kWrite, data, kKey, 1000, 5, {.has_data = true, .data = 0xFEDCBA9876543210}) == 0);
    p.quiet();
    auto h = p.one(p.a, OpKind::kWrite);
    REQUIRE((h.error == 0 && h.c.op_context == context(5) && h.c.flags == (FI_RMA | FI_WRITE)));
    REQUIRE(p.memory == expected);
    h = p.one(p.b, OpKind::kRemoteWrite);
    REQUIRE((h.c.data == 0xFEDCBA9876543210 && h.signal && h.c.len == size));
    REQUIRE(h.c.flags == (FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA));
    REQUIRE((p.a.host.heard.empty() && p.b.host.heard.empty()));
  }
}

TEST_CASE("reads of every size bring what is there") {
  for (const auto size : kSizes) {
    CAPTURE(size);
    Pair p(size);
    Bytes into(size);
    REQUIRE(rma(p.a, p.b, OpKind::kRead, into, kKey, 500, 6) == 0);
    p.quiet();
    const auto h = p.one(p.a, OpKind::kRead);
    REQUIRE((h.error == 0 && h.c.op_context == context(6) && h.c.flags == (FI_RMA | FI_READ)));
    REQUIRE(std::equal(into.begin(), into.end(), p.memory.begin() + 500));
  }
}

TEST_CASE("a bad key, bound or right is an error completion and never a write") {
  for (const auto kind : {OpKind::kWrite, OpKind::kRead})
    for (const std::size_t size : {10u, 50000u}) {
      CAPTURE(static_cast<int>(kind), size);
      Pair p(3, 60000);
      Bytes secret = pattern(60000, 9);
      p.b.host.regions.push_back({42, kind == OpKind::kWrite ? FI_REMOTE_READ : FI_REMOTE_WRITE, &secret});
      const Bytes before = p.memory, secret_before = secret;
      Bytes data = pattern(size, 1);
      const Bytes data_before = data;
      REQUIRE(rma(p.a, p.b, kind, data, kKey + 1, 0, 1) == 0);
      REQUIRE(rma(p.a, p.b, kind, data, kKey, 60000 - size + 1, 2) == 0);
      REQUIRE(rma(p.a, p.b, kind, data, kKey, ~0ull - 5, 3) == 0);
      REQUIRE(rma(p.a, p.b, kind, data, 42, 0, 4) == 0);
      p.quiet();
      const int expected[] = {FI_EKEYREJECTED, FI_EINVAL, FI_EINVAL, FI_EACCES};
      int seen[4] = {};
      for (int i = 0; i < 4; ++i) {
        const auto h = p.one(p.a, kind);
        seen[reinterpret_cast<std::uintptr_t>(h.c.op_context) - 1] = h.error;
      }
      for (int i = 0; i < 4; ++i) REQUIRE(seen[i] == expected[i]);
      REQUIRE((p.memory == before && secret == secret_before && data == data_before));
      REQUIRE((p.a.host.heard.empty() && p.b.host.heard.empty()));
    }
}

TEST_CASE("several target ranges") {
  for (const std::size_t part : {50u, 10000u}) {
    Pair p(4);
    Bytes data = pattern(part * 3, 8), into(part * 3);
    const mrc::engine::GatherPiece piece{data.data(), data.size()}, back{into.data(), into.size()};
    const msg::Segment segments[] = {{kKey, 100000, part}, {kKey, 0, part}, {kKey, 50000, part}};
    msg::Transmit t;
    t.kind = OpKind::kWrite;
    t.peer = p.a.messenger->peer(p.b.name);
    t.pieces = {&piece, 1};
    t.segments = segments;
    REQUIRE(p.a.messenger->transmit(t) == 0);
    p.fabric.settle();
    for (std::size_t i = 0; i < 3; ++i)
      REQUIRE(std::equal(p.memory.begin() + static_cast<std::ptrdiff_t>(segments[i].address),
                         p.memory.begin() + static_cast<std::ptrdiff_t>(segments[i].address + part),
                         data.begin() + static_cast<std::ptrdiff_t>(i * part)));
    t.kind = OpKind::kRead;
    t.pieces = {&back, 1};
    REQUIRE(p.a.messenger->transmit(t) == 0);
    p.quiet();
    REQUIRE(into == data);
  }
}

TEST_CASE("a region closed in the middle of a large write or read ends it in error") {
  for (const auto kind : {OpKind::kWrite, OpKind::kRead}) {
    Pair p(5, 4000000);
    Bytes data = pattern(3900000, 2);
    REQUIRE(rma(p.a, p.b, kind, data, kKey, 0, 1) == 0);
    for (int i = 0; i < 60; ++i) p.fabric.step(4);
    p.b.host.close_region(kKey);
    const Bytes closed = p.memory;
    p.fabric.settle();
    const auto h = p.one(p.a, kind);
    REQUIRE(h.error != 0);
    REQUIRE(p.memory == closed);
    REQUIRE(p.a.host.heard.empty());
    p.quiet();
  }
}

TEST_CASE("small writes are placed in order, even when they wait for room for their CQ data") {
  Pair p(6);
  p.b.host.has_room = false;
  std::vector<Bytes> data;
  for (unsigned i = 0; i < 40; ++i) data.push_back(pattern(20, i));
  for (unsigned i = 0; i < 40; ++i)
    REQUIRE(rma(p.a, p.b, OpKind::kWrite, data[i], kKey, 0, i + 1, {.has_data = true, .data = i}) == 0);
  p.fabric.settle();
  REQUIRE(p.b.host.heard.empty());
  p.b.host.has_room = true;
  p.quiet();
  for (unsigned i = 0; i < 40; ++i) REQUIRE(p.one(p.b, OpKind::kRemoteWrite).c.data == i);
  REQUIRE(std::equal(data[39].begin(), data[39].end(), p.memory.begin()));
}

TEST_CASE("RMA gets through although all message credits are used up") {
  Pair p(7);
  const Bytes small = pattern(8, 1);
  for (unsigned i = 0; i < 600; ++i) REQUIRE(send(p.a, p.b, small, i, i) == 0);
  Bytes data = pattern(100, 3), into(100);
  REQUIRE(rma(p.a, p.b, OpKind::kWrite, data, kKey, 0, 1) == 0);
  p.fabric.settle();
  REQUIRE(p.one(p.a, OpKind::kWrite).error == 0);
  REQUIRE(std::equal(data.begin(), data.end(), p.memory.begin()));
  p.a.host.regions.push_back({7, FI_REMOTE_READ, &data});
  REQUIRE(rma(p.b, p.a, OpKind::kRead, into, 7, 0, 1) == 0);
  p.fabric.settle();
  REQUIRE(into == data);
}

TEST_CASE("more requests than their credits queue, and all complete") {
  Pair p(8);
  std::vector<Bytes> into(1000, Bytes(30000));
  unsigned posted = 0;
  while (posted < into.size()) {
    if (rma(p.a, p.b, OpKind::kRead, into[posted], kKey, posted * 100, posted) == 0)
      ++posted;
    else
      p.fabric.step(32);
  }
  p.quiet();
  REQUIRE(p.a.host.heard.size() == 1000);
  for (unsigned i = 0; i < 1000; ++i)
    REQUIRE(std::equal(into[i].begin(), into[i].end(), p.memory.begin() + static_cast<std::ptrdiff_t>(i * 100)));
}

TEST_CASE("an injected write may reuse its buffer") {
  Pair p(9);
  Bytes data = pattern(100, 1);
  const Bytes kept = data;
  REQUIRE(rma(p.a, p.b, OpKind::kWrite, data, kKey, 0, 0, {.inject = true}) == 0);
  std::fill(data.begin(), data.end(), std::byte{});
  p.quiet();
  REQUIRE(std::equal(kept.begin(), kept.end(), p.memory.begin()));
}
