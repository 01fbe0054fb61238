// SPDX-License-Identifier: BSD-2-Clause
// Atomics between messengers: operands and results of every size, exactly once and in order over a fabric that
// reorders, errors that change nothing, elements across pieces of memory, peers that fail.
#include <rdma/fi_domain.h>

#include <numeric>

#include "support.hpp"
#include "support/catch.hpp"

using namespace mrc::test;
using mrc::engine::GatherPiece;
using msg::AtomicClass;
using msg::OpKind;

namespace {

constexpr std::uint64_t kKey = 77;
constexpr std::uint64_t kBoth = FI_REMOTE_READ | FI_REMOTE_WRITE;
using Words = std::vector<std::uint64_t>;

struct Call {
  unsigned op = FI_SUM;
  AtomicClass kind = AtomicClass::kBase;
  Words operand{}, compare{};
  std::uint64_t key = kKey, address = 0;
  unsigned datatype = FI_UINT64;
  bool has_data = false;
};

GatherPiece piece(const Words& words) {
  return {words.data(), words.size() * 8};
}

int post(FakeNode& from, FakeNode& to, const Call& c, std::uintptr_t ctx, Words* result = nullptr) {
  const GatherPiece operand = piece(c.operand), compare = piece(c.compare);
  // The results land in two pieces.
  GatherPiece into[2];
  std::size_t length = operand.length;
  if (result != nullptr) {
    length = result->size() * 8;
    into[0] = {result->data(), length / 2};
    into[1] = {reinterpret_cast<std::byte*>(result->data()) + length / 2, length - length / 2};
  }
  const msg::Segment segment{c.key, c.address, length};
  msg::Transmit t;
  t.kind = c.kind == AtomicClass::kBase ? OpKind::kAtomic : OpKind::kFetchAtomic;
  t.peer = from.messenger->peer(to.name);
  t.atomic = {static_cast<std::uint8_t>(c.datatype), static_cast<std::uint8_t>(c.op), c.kind};
  if (!c.operand.empty()) t.pieces = {&operand, 1};
  if (!c.compare.empty()) t.compare = {&compare, 1};
  if (result != nullptr) t.results = into;
  t.segments = {&segment, 1};
  t.context = context(ctx);
  t.has_data = c.has_data;
  t.data = 99;
  return from.messenger->transmit(t);
}

struct Pair {
  FakeFabric fabric;
  FakeNode& a;
  FakeNode& b;
  Bytes memory;
  explicit Pair(std::uint64_t seed) : fabric(seed), a(fabric.add()), b(fabric.add()), memory(20000) {
    b.host.regions.push_back({kKey, kBoth, &memory});
  }
  std::uint64_t word(std::size_t offset) const {
    std::uint64_t w;
    std::memcpy(&w, memory.data() + offset, 8);
    return w;
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

Words counting(std::size_t count, std::uint64_t from) {
  Words w(count);
  std::iota(w.begin(), w.end(), from);
  return w;
}

}  // namespace

TEST_CASE("atomics of every size change the target and bring its old values") {
  for (const std::size_t count : {1u, 3u, 100u, 120u, 121u, 500u, 1024u}) {
    CAPTURE(count);
    Pair p(count);
    const Words base = counting(count, 1000), more = counting(count, 5), swap = counting(count, 70);
    REQUIRE(post(p.a, p.b, {.op = FI_ATOMIC_WRITE, .operand = base, .address = 40}, 1) == 0);
    p.quiet();
    Heard h = p.one(p.a, OpKind::kAtomic);
    REQUIRE((h.error == 0 && h.c.op_context == context(1) && h.c.flags == (FI_ATOMIC | FI_WRITE)));
    h = p.one(p.b, OpKind::kRemoteWrite);
    REQUIRE((h.c.flags == (FI_ATOMIC | FI_REMOTE_WRITE) && h.c.len == 8 * count && !h.signal));

    Words old(count);
    REQUIRE(post(p.a, p.b, {.kind = AtomicClass::kFetch, .operand = more, .address = 40}, 2, &old) == 0);
    p.quiet();
    h = p.one(p.a, OpKind::kFetchAtomic);
    REQUIRE((h.error == 0 && h.c.op_context == context(2) && h.c.flags == (FI_ATOMIC | FI_READ)));
    REQUIRE(old == base);
    REQUIRE(p.one(p.b, OpKind::kRemoteRead).c.flags == (FI_ATOMIC | FI_REMOTE_READ));

    Words now(count);
    REQUIRE(post(p.a, p.b, {.op = FI_ATOMIC_READ, .kind = AtomicClass::kFetch, .address = 40}, 3, &now) == 0);
    p.quiet();
    for (std::size_t i = 0; i < count; ++i) REQUIRE(now[i] == base[i] + more[i]);
    if (count > 1000) return;  // two operands must fit one record

    Words wrong = now;
    for (std::size_t i = 0; i < count; i += 2) ++wrong[i];
    REQUIRE(post(p.a, p.b,
                 {.op = FI_CSWAP, .kind = AtomicClass::kCompare, .operand = swap, .compare = wrong, .address = 40}, 4,
                 &old) == 0);
    p.quiet();
    REQUIRE(old == now);
    for (std::size_t i = 0; i < count; ++i) REQUIRE(p.word(40 + 8 * i) == (i % 2 == 0 ? now[i] : swap[i]));
    REQUIRE((p.word(32) == 0 && p.word(40 + 8 * count) == 0));
  }
}

TEST_CASE("each atomic is carried out once, in its initiator's order, whatever the fabric does") {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    CAPTURE(seed);
    Pair p(seed);
    auto& c = p.fabric.add();
    constexpr unsigned kCount = 300;
    std::vector<Words> from_a(kCount, Words(1)), from_c(kCount, Words(130));
    unsigned a = 0, third = 0;
    while (a < kCount || third < kCount) {
      const Words ones(130, 1);
      if (a < kCount && post(p.a, p.b, {.kind = AtomicClass::kFetch, .operand = {1}}, a, &from_a[a]) == 0) ++a;
      if (third < kCount && post(c, p.b, {.kind = AtomicClass::kFetch, .operand = ones}, third, &from_c[third]) == 0)
        ++third;
      if (p.fabric.random.below(4) == 0) p.fabric.step(6);
    }
    p.quiet();
    std::vector<int> seen(2 * kCount);
    for (auto* list : {&from_a, &from_c}) {
      std::uint64_t last = 0;
      for (std::size_t i = 0; i < kCount; ++i) {
        const auto value = (*list)[i][0];
        REQUIRE((value < seen.size() && seen[value]++ == 0 && (i == 0 || value > last)));
        last = value;
      }
    }
    REQUIRE((p.word(0) == 2 * kCount && p.word(8) == kCount && p.word(130 * 8) == 0));
    for (unsigned i = 0; i < kCount; ++i) REQUIRE(from_c[i][129] == i);
  }
}

TEST_CASE("atomics that cannot be are errors, and change nothing") {
  Pair p(3);
  Bytes secret(1000);
  p.b.host.regions.push_back({5, FI_REMOTE_READ, &secret});
  p.b.host.regions.push_back({6, FI_REMOTE_WRITE, &secret});
  Words into(1);
  const auto expect = [&](const Call& c, int error) {
    Words* result = c.kind == AtomicClass::kBase ? nullptr : &into;
    REQUIRE(post(p.a, p.b, c, 1, result) == 0);
    p.quiet();
    CAPTURE(c.op, c.key, c.address);
    REQUIRE(p.one(p.a, result != nullptr ? OpKind::kFetchAtomic : OpKind::kAtomic).error == error);
    REQUIRE(secret == Bytes(1000));
    REQUIRE(p.memory == Bytes(20000));
  };
  const auto fetch = AtomicClass::kFetch;
  expect({.operand = {1}, .key = 9}, FI_EKEYREJECTED);
  expect({.operand = {1}, .address = 19993}, FI_EINVAL);
  expect({.operand = {1}, .address = ~0ull - 3}, FI_EINVAL);
  expect({.operand = {1}, .key = 5}, FI_EACCES);
  expect({.kind = fetch, .operand = {1}, .key = 5}, FI_EACCES);
  expect({.kind = fetch, .operand = {1}, .key = 6}, FI_EACCES);
  expect({.op = FI_ATOMIC_READ, .kind = fetch, .key = 6}, FI_EACCES);
  expect({.op = FI_ATOMIC_READ, .kind = fetch, .key = 5}, 0);
  // What our own calls refuse may still come from a peer.
  expect({.operand = {1}, .datatype = FI_LONG_DOUBLE}, FI_EINVAL);
  expect({.operand = {1}, .datatype = 200}, FI_EOPNOTSUPP);
  expect({.op = 40, .operand = {1}}, FI_EOPNOTSUPP);
  expect({.op = FI_BOR, .operand = {1}, .datatype = FI_DOUBLE}, FI_EOPNOTSUPP);
}

TEST_CASE("an atomic that waits for room for its CQ data is carried out once") {
  Pair p(4);
  p.b.host.has_room = false;
  for (unsigned i = 0; i < 50; ++i) REQUIRE(post(p.a, p.b, {.operand = {1}, .has_data = true}, i) == 0);
  for (unsigned i = 0; i < 50; ++i) p.fabric.step();
  REQUIRE(p.word(0) == 0);
  p.b.host.has_room = true;
  p.quiet();
  REQUIRE(p.word(0) == 50);
  for (unsigned i = 0; i < 50; ++i) {
    const Heard h = p.one(p.b, OpKind::kRemoteWrite);
    REQUIRE((h.signal && h.c.data == 99 && h.c.flags == (FI_ATOMIC | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA)));
  }
}

TEST_CASE("elements across pieces of memory") {
  for (const std::size_t split : {1u, 7u, 8u, 12u, 804u}) {
    CAPTURE(split);
    Pair p(5);
    p.b.host.regions[0].split = split;
    const Words one = counting(110, 1), two = counting(110, 1000);
    Words old(110);
    REQUIRE(post(p.a, p.b, {.operand = one}, 1) == 0);
    REQUIRE(post(p.a, p.b, {.kind = AtomicClass::kFetch, .operand = two}, 2, &old) == 0);
    p.quiet();
    REQUIRE(old == one);
    for (std::size_t i = 0; i < 110; ++i) REQUIRE(p.word(8 * i) == one[i] + two[i]);
  }
}

TEST_CASE("a peer that fails: every atomic completes once, none is carried out twice") {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    CAPTURE(seed);
    Pair p(seed);
    constexpr unsigned kCount = 120;
    std::vector<Words> results(kCount, Words(seed % 2 == 0 ? 1 : 200));
    const Words ones(results[0].size(), 1);
    for (unsigned i = 0; i < kCount; ++i)
      REQUIRE(post(p.a, p.b, {.kind = AtomicClass::kFetch, .operand = ones}, i, &results[i]) == 0);
    for (unsigned i = 0; i < seed; ++i) p.fabric.step(4);
    p.fabric.fail(p.a, p.b, mrc::transport::Status::kPeerDead);
    p.quiet();
    std::vector<int> completed(kCount);
    unsigned good = 0;
    Heard h;
    while (p.a.host.take(OpKind::kFetchAtomic, h)) {
      const auto i = reinterpret_cast<std::uintptr_t>(h.c.op_context);
      REQUIRE(completed[i]++ == 0);
      if (h.error != 0) continue;
      ++good;
      REQUIRE(results[i][0] == i);
    }
    REQUIRE((p.word(0) >= good && p.word(0) <= kCount));
    for (const int times : completed) REQUIRE(times == 1);
    REQUIRE(post(p.a, p.b, {.operand = {1}}, 0) == 0);
    p.quiet();
    REQUIRE(p.one(p.a, OpKind::kAtomic).error == 0);
  }
}
