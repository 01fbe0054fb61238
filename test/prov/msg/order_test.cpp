// SPDX-License-Identifier: BSD-2-Clause
// Order between operations of a pair over a fabric that reorders: every FI_ORDER bit, for bytes of every size; what is
// not asked for is not paid for; fences; FI_MORE.
#include <rapidcheck.h>

#include <algorithm>

#include "support.hpp"
#include "support/catch.hpp"

using namespace mrc::test;
using mrc::Random;
using msg::OpKind;

namespace {

constexpr std::uint64_t kKey = 99;
constexpr std::size_t kMemory = 120000;
constexpr std::uint64_t kAll = FI_ORDER_RAR | FI_ORDER_RAW | FI_ORDER_RAS | FI_ORDER_WAR | FI_ORDER_WAW | FI_ORDER_WAS |
                               FI_ORDER_SAR | FI_ORDER_SAW | FI_ORDER_SAS;

struct Pair {
  FakeFabric fabric;
  FakeNode& a;
  FakeNode& b;
  Bytes memory;
  explicit Pair(std::uint64_t seed, const msg::Config& config = {})
      : fabric(seed), a(fabric.add(config)), b(fabric.add(config)), memory(kMemory) {
    b.host.regions.push_back({kKey, FI_REMOTE_READ | FI_REMOTE_WRITE, &memory});
  }
  bool quiet() const {
    return a.messenger->in_use() == 0 && b.messenger->in_use() == 0 && a.messenger->outstanding() == 0;
  }
};

std::size_t some_size(Random& random) {
  switch (random.below(4)) {
    case 0:
      return random.below(64);
    case 1:
      return random.below(16384);
    case 2:
      return 16385 + random.below(1000);
    default:
      return random.below(60000);
  }
}

Bytes filled(std::size_t size, unsigned value) {
  return Bytes(size, static_cast<std::byte>(value));
}

bool all(const Bytes& bytes, unsigned value) {
  return std::all_of(bytes.begin(), bytes.end(), [value](std::byte b) { return b == static_cast<std::byte>(value); });
}

}  // namespace

TEST_CASE("with every order asked for, the target sees what a single thread would have done") {
  REQUIRE(rc::check("all orders", [] {
    const auto seed = *rc::gen::arbitrary<std::uint64_t>();
    Pair p(seed);
    Random random(seed + 1);
    constexpr unsigned kOps = 24;
    Bytes model(kMemory);
    std::vector<Bytes> buffers(kOps), expected(kOps), at_message(kOps), into(kOps);
    std::vector<bool> small(kOps);
    unsigned wrong_at_message = 0, messages = 0;
    // A message that fits its record is received at the very moment at which its record's turn comes.
    p.b.host.on_done = [&](const msg::Done& d) {
      if (d.kind != OpKind::kRecv) return;
      const auto i = static_cast<unsigned>(d.completion.tag);
      if (small[i] && p.memory != at_message[i]) ++wrong_at_message;
    };
    for (unsigned i = 0; i < kOps; ++i) {
      const std::size_t size = some_size(random);
      const std::size_t at = random.below(static_cast<std::uint32_t>(kMemory - size));
      const auto there = [at](Bytes& b) { return b.begin() + static_cast<std::ptrdiff_t>(at); };
      int status = 0;
      switch (random.below(3)) {
        case 0:
          small[i] = size <= 16384;
          buffers[i] = pattern(size, seed + i);
          into[i] = Bytes(size);
          at_message[i] = model;
          RC_ASSERT(recv(p.b, into[i], i, i) == 0);
          status = send(p.a, p.b, buffers[i], i, i, {.order = kAll});
          ++messages;
          break;
        case 1:
          buffers[i] = pattern(size, seed + i);
          std::copy(buffers[i].begin(), buffers[i].end(), there(model));
          status = rma(p.a, p.b, OpKind::kWrite, buffers[i], kKey, at, i, {.order = kAll});
          break;
        default:
          buffers[i] = Bytes(size);
          expected[i] = Bytes(there(model), there(model) + static_cast<std::ptrdiff_t>(size));
          status = rma(p.a, p.b, OpKind::kRead, buffers[i], kKey, at, i, {.order = kAll});
          break;
      }
      RC_ASSERT(status == 0);
      if (random.below(4) == 0) p.fabric.step(random.below(30));
    }
    p.fabric.settle();
    RC_ASSERT(wrong_at_message == 0u);
    RC_ASSERT(p.memory == model);
    for (unsigned i = 0; i < kOps; ++i) {
      if (!expected[i].empty()) RC_ASSERT(buffers[i] == expected[i]);
      if (!into[i].empty()) RC_ASSERT(buffers[i] == into[i]);
    }
    RC_ASSERT(p.a.host.heard.size() == kOps);
    for (const auto& h : p.a.host.heard) RC_ASSERT(h.error == 0);
    RC_ASSERT(p.quiet());
  }));
}

TEST_CASE("each order between two operations, where the first one's bytes are many") {
  struct Case {
    std::uint64_t bits;
    OpKind first, second;
  };
  const Case cases[] = {
      {FI_ORDER_WAW, OpKind::kWrite, OpKind::kWrite}, {FI_ORDER_RMA_WAW, OpKind::kWrite, OpKind::kWrite},
      {FI_ORDER_RAW, OpKind::kWrite, OpKind::kRead},  {FI_ORDER_RMA_RAW, OpKind::kWrite, OpKind::kRead},
      {FI_ORDER_WAR, OpKind::kRead, OpKind::kWrite},  {FI_ORDER_RMA_WAR, OpKind::kRead, OpKind::kWrite},
      {FI_ORDER_SAW, OpKind::kWrite, OpKind::kSend},  {FI_ORDER_SAR, OpKind::kRead, OpKind::kSend},
  };
  for (const auto& c : cases)
    for (const std::size_t second_size : {100u, 16384u, 40000u}) {
      unsigned overtaken = 0;  // without asking
      for (const bool asked : {true, false})
        for (std::uint64_t seed = 1; seed <= 12; ++seed) {
          CAPTURE(c.bits, second_size, asked, seed);
          Pair p(seed);
          const Options o{.order = asked ? c.bits : FI_ORDER_SAS};
          Bytes first = filled(kMemory, c.first == OpKind::kWrite ? 1 : 7), second = filled(second_size, 2);
          Bytes message(second_size);
          bool good = true;
          p.b.host.on_done = [&](const msg::Done& d) {
            if (d.kind != OpKind::kRecv) return;
            if (c.first == OpKind::kWrite && !all(p.memory, 1)) good = false;
            // The receiver may use the memory again: a read that went before must not see that.
            if (c.first == OpKind::kRead) std::fill(p.memory.begin(), p.memory.end(), std::byte{9});
          };
          if (c.second == OpKind::kSend) REQUIRE(recv(p.b, message, 1, 1) == 0);
          REQUIRE(rma(p.a, p.b, c.first, first, kKey, 0, 1, o) == 0);
          if (c.second == OpKind::kSend)
            REQUIRE(send(p.a, p.b, second, 1, 2, o) == 0);
          else
            REQUIRE(rma(p.a, p.b, c.second, second, kKey, 50000, 2, o) == 0);
          p.fabric.settle();
          REQUIRE(p.a.host.heard.size() == 2);
          if (c.second == OpKind::kRead) good = all(second, 1);
          if (c.first == OpKind::kRead) good = all(first, 0);
          if (c.second == OpKind::kWrite && c.first == OpKind::kWrite)
            good = all(Bytes(p.memory.begin() + 50000, p.memory.begin() + 50000 + static_cast<long>(second_size)), 2);
          REQUIRE((good || !asked));
          overtaken += !good;
          REQUIRE(p.quiet());
        }
      // Whoever does not ask does not wait: among so many runs some show it.
      if (second_size == 100u) REQUIRE(overtaken > 0);
    }
}

TEST_CASE("RMA that touches other memory does not wait, whatever was asked for") {
  Pair p(3);
  Bytes first = filled(60000, 1), second = filled(100, 2);
  p.fabric.shuffle = false;
  REQUIRE(rma(p.a, p.b, OpKind::kWrite, first, kKey, 0, 1, {.order = kAll}) == 0);
  REQUIRE(rma(p.a, p.b, OpKind::kWrite, second, kKey, 100000, 2, {.order = kAll}) == 0);
  Heard h;
  while (!p.a.host.take(OpKind::kWrite, h)) p.fabric.step(1);
  REQUIRE(h.c.op_context == context(2));
  p.fabric.settle();
  REQUIRE(p.quiet());
}

TEST_CASE("RMA waits for messages without credits only if asked to (RAS, WAS)") {
  for (const auto kind : {OpKind::kWrite, OpKind::kRead})
    for (const bool asked : {true, false}) {
      CAPTURE(static_cast<int>(kind), asked);
      msg::Config config;
      Pair p(5, config);
      // Nobody receives: the credits run out before the last message.
      const Bytes small = filled(8, 3);
      constexpr unsigned kMessages = 600;
      for (unsigned i = 0; i < kMessages; ++i) REQUIRE(send(p.a, p.b, small, i, i + 10) == 0);
      Bytes data = filled(100, 4);
      const std::uint64_t bit = kind == OpKind::kWrite ? FI_ORDER_WAS : FI_ORDER_RAS;
      REQUIRE(rma(p.a, p.b, kind, data, kKey, 0, 1, {.order = asked ? bit : 0}) == 0);
      p.fabric.settle();
      Heard h;
      REQUIRE(p.a.host.take(kind, h) == !asked);
      std::vector<Bytes> into(kMessages, Bytes(8));
      for (unsigned i = 0; i < kMessages; ++i) {
        REQUIRE(recv(p.b, into[i], i, i) == 0);
        p.fabric.step(4);
      }
      p.fabric.settle();
      REQUIRE(p.a.host.take(kind, h) == asked);
      REQUIRE(p.quiet());
    }
}

TEST_CASE("a fenced operation starts when all before it have completed, and nothing overtakes it") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    Pair p(seed);
    Random random(seed);
    constexpr unsigned kOps = 40;
    std::vector<Bytes> buffers(kOps), into(kOps);
    std::vector<bool> fenced(kOps);
    for (unsigned i = 0; i < kOps; ++i) {
      const std::size_t size = some_size(random);
      buffers[i] = pattern(size, i);
      into[i] = Bytes(size);
      fenced[i] = random.below(5) == 0;
      const Options o{.fence = fenced[i]};
      const auto what = random.below(3);
      if (what == 0) {
        REQUIRE(recv(p.b, into[i], i, i) == 0);
        REQUIRE(send(p.a, p.b, buffers[i], i, i, o) == 0);
      } else {
        REQUIRE(rma(p.a, p.b, what == 1 ? OpKind::kWrite : OpKind::kRead, buffers[i], kKey, 0, i, o) == 0);
      }
      if (random.below(4) == 0) p.fabric.step(random.below(20));
    }
    p.fabric.settle();
    REQUIRE(p.a.host.heard.size() == kOps);
    // Everything before a fence completes before it, everything behind it after all that was before.
    unsigned seen = 0;
    std::vector<unsigned> when(kOps);
    for (const auto& h : p.a.host.heard) when[reinterpret_cast<std::uintptr_t>(h.c.op_context)] = seen++;
    for (unsigned i = 0; i < kOps; ++i)
      if (fenced[i])
        for (unsigned before = 0; before < i; ++before)
          for (unsigned after = i; after < kOps; ++after) REQUIRE(when[before] < when[after]);
    REQUIRE(p.quiet());
  }
}

TEST_CASE("a fence does not outlive a failed connection") {
  Pair p(1);
  Bytes large(100000), small(10);
  REQUIRE(rma(p.a, p.b, OpKind::kWrite, large, kKey, 0, 1) == 0);
  REQUIRE(rma(p.a, p.b, OpKind::kWrite, small, kKey, 0, 2, {.fence = true}) == 0);
  p.fabric.step(2);
  p.fabric.fail(p.a, p.b, mrc::transport::Status::kTimedOut);
  p.fabric.settle();
  REQUIRE(p.a.host.heard.size() == 2);
  for (const auto& h : p.a.host.heard) REQUIRE(h.error == FI_ETIMEDOUT);
  p.a.host.heard.clear();
  REQUIRE(rma(p.a, p.b, OpKind::kWrite, small, kKey, 0, 3) == 0);
  p.fabric.settle();
  REQUIRE((p.a.host.heard.size() == 1 && p.a.host.heard[0].error == 0));
  REQUIRE(p.quiet());
}

TEST_CASE("FI_MORE puts records into one mailbox message, and never strands one") {
  Pair p(1);
  const Bytes small = filled(8, 1);
  // Connections are set up and their first messages over.
  REQUIRE(send(p.a, p.b, small, 0, 0) == 0);
  p.fabric.settle();
  const auto mails = p.a.messenger->statistics().mails;
  for (unsigned i = 1; i <= 8; ++i) REQUIRE(send(p.a, p.b, small, i, i, {.more = i < 8}) == 0);
  REQUIRE(p.a.messenger->statistics().mails == mails + 1);  // left with the last call, all in one
  p.fabric.settle();

  SECTION("the next pass sends what no further call does") {
    const auto before = p.a.messenger->statistics().mails;
    REQUIRE(send(p.a, p.b, small, 9, 9, {.more = true}) == 0);
    REQUIRE(p.a.messenger->statistics().mails == before);
    p.a.messenger->on_progress();
    REQUIRE(p.a.messenger->statistics().mails == before + 1);
    p.fabric.settle();
    Bytes into(8);
    REQUIRE(recv(p.b, into, 9, 1) == 0);
    Heard h;
    REQUIRE(p.b.host.take(OpKind::kRecv, h));
  }
  SECTION("a call to another peer sends it too") {
    auto& c = p.fabric.add();
    REQUIRE(send(p.a, p.b, small, 9, 9, {.more = true}) == 0);
    const auto before = p.a.messenger->statistics().mails;
    REQUIRE(send(p.a, c, small, 9, 9) == 0);
    REQUIRE(p.a.messenger->statistics().mails == before + 2);
  }
}
