// SPDX-License-Identifier: BSD-2-Clause
// Receives of every kind: cancel, peek and claim, directed, multi-receive, iovs, and what errors look like.
#include "support.hpp"
#include "support/catch.hpp"

using namespace mrc::test;
using mrc::Random;
using msg::OpKind;

namespace {

struct Pair {
  FakeFabric fabric;
  FakeNode& a;
  FakeNode& b;
  explicit Pair(std::uint64_t seed, const msg::Config& config = {})
      : fabric(seed), a(fabric.add(config)), b(fabric.add(config)) {}
  Heard received() {
    Heard h;
    REQUIRE(b.host.take(OpKind::kRecv, h));
    return h;
  }
  void quiet() {
    fabric.settle();
    REQUIRE((a.messenger->in_use() == 0 && b.messenger->in_use() == 0));
    REQUIRE((a.messenger->outstanding() == 0 && b.messenger->outstanding() == 0));
  }
};

int multi(FakeNode& at, Bytes& into, std::uintptr_t ctx, bool tagged = false) {
  const mrc::engine::GatherPiece piece{into.data(), into.size()};
  msg::Receive r;
  r.tagged = tagged;
  r.multi = true;
  r.pieces = {&piece, 1};
  r.context = context(ctx);
  return at.messenger->receive(r);
}

int send_untagged(FakeNode& from, FakeNode& to, const Bytes& b) {
  const mrc::engine::GatherPiece piece{b.data(), b.size()};
  msg::Transmit t;
  t.peer = from.messenger->peer(to.name);
  t.pieces = {&piece, 1};
  return from.messenger->transmit(t);
}

}  // namespace

TEST_CASE("cancel completes a posted receive once, with FI_ECANCELED") {
  Pair p(1);
  Bytes into(8);
  REQUIRE(recv(p.b, into, 1, 11) == 0);
  REQUIRE(recv(p.b, into, 1, 12) == 0);
  REQUIRE(p.b.messenger->cancel(context(11)) == 0);
  REQUIRE(p.b.messenger->cancel(context(11)) == -FI_ENOENT);
  auto h = p.received();
  REQUIRE((h.error == FI_ECANCELED && h.c.op_context == context(11)));
  const Bytes data = pattern(8, 1);
  REQUIRE(send(p.a, p.b, data, 1, 1) == 0);
  p.fabric.settle();
  h = p.received();
  REQUIRE((h.error == 0 && h.c.op_context == context(12) && into == data));
}

TEST_CASE("peek tells without taking, claim takes, discard throws away") {
  for (const std::size_t size : {0u, 100u, 50000u}) {
    CAPTURE(size);
    Pair p(2);
    const Bytes one = pattern(size, 1), two = pattern(size, 2), three = pattern(size, 3);
    fi_context ctx{}, none{};
    const mrc::engine::GatherPiece nothing{nullptr, 0};
    const auto look = receive_of(nothing, 5, 0, &ctx);
    REQUIRE(p.b.messenger->peek(look, false, false) == 0);
    auto h = p.received();
    REQUIRE((h.error == FI_ENOMSG && h.c.op_context == &ctx && !h.counts));

    REQUIRE(send(p.a, p.b, one, 5, 1, {.has_data = true, .data = 77}) == 0);
    REQUIRE(send(p.a, p.b, two, 5, 2) == 0);
    REQUIRE(send(p.a, p.b, three, 5, 3, {.ack = true}) == 0);
    p.fabric.settle();
    REQUIRE(p.b.messenger->peek(look, false, false) == 0);
    h = p.received();
    REQUIRE((h.error == 0 && h.c.len == size && h.c.tag == 5 && h.c.data == 77));

    REQUIRE(p.b.messenger->peek(look, true, false) == 0);  // claims the first
    h = p.received();
    REQUIRE(h.c.data == 77);
    Bytes into(size), other(size);
    REQUIRE(recv(p.b, other, 5, 9) == 0);  // gets the second
    p.fabric.settle();
    REQUIRE(p.received().c.op_context == context(9));
    REQUIRE(other == two);
    const mrc::engine::GatherPiece piece{into.data(), into.size()};
    REQUIRE(p.b.messenger->claim(receive_of(piece, 5, 0, &none), false) == -FI_EINVAL);
    REQUIRE(p.b.messenger->claim(receive_of(piece, 5, 0, &ctx), false) == 0);
    p.fabric.settle();
    h = p.received();
    REQUIRE((h.error == 0 && h.c.op_context == &ctx && into == one));

    REQUIRE(p.b.messenger->peek(look, false, true) == 0);  // discards the third
    REQUIRE(p.received().error == 0);
    REQUIRE(p.b.messenger->peek(look, false, false) == 0);
    REQUIRE(p.received().error == FI_ENOMSG);
    p.quiet();
    REQUIRE(p.a.host.heard.size() == 3);
    for (auto& s : p.a.host.heard) REQUIRE(s.error == 0);
  }
}

TEST_CASE("a claimed message may be discarded") {
  Pair p(3);
  fi_context ctx{};
  const mrc::engine::GatherPiece nothing{nullptr, 0};
  REQUIRE(send(p.a, p.b, pattern(30000, 1), 5, 1) == 0);
  p.fabric.settle();
  REQUIRE(p.b.messenger->peek(receive_of(nothing, 5, 0, &ctx), true, false) == 0);
  REQUIRE(p.b.messenger->claim(receive_of(nothing, 5, 0, &ctx), true) == 0);
  REQUIRE((p.received().error == 0 && p.received().error == 0));
  p.quiet();
  REQUIRE(p.a.host.heard.size() == 1);
}

TEST_CASE("a directed receive takes messages of its source only") {
  FakeFabric fabric(4);
  auto& a = fabric.add();
  auto& b = fabric.add();
  auto& c = fabric.add();
  const Bytes from_a = pattern(10, 1), from_c = pattern(10, 2);
  Bytes one(10), two(10), three(10);
  REQUIRE(recv(b, one, 0, 1, ~0ull, &c) == 0);
  REQUIRE(recv(b, two, 0, 2, ~0ull) == 0);
  REQUIRE(send(a, b, from_a, 1, 1) == 0);
  fabric.settle();
  REQUIRE(two == from_a);
  REQUIRE(send(a, b, from_a, 1, 2) == 0);
  REQUIRE(send(c, b, from_c, 1, 1) == 0);
  REQUIRE(send(c, b, from_c, 1, 2) == 0);
  fabric.settle();
  REQUIRE(one == from_c);
  REQUIRE(recv(b, three, 0, 3, ~0ull, &c) == 0);  // passes over a's, which came first
  REQUIRE(three == from_c);
}

TEST_CASE("messages and tagged messages do not match each other") {
  Pair p(5);
  Bytes into(8);
  REQUIRE(recv(p.b, into, 0, 1, ~0ull) == 0);
  REQUIRE(send_untagged(p.a, p.b, pattern(8, 1)) == 0);
  p.fabric.settle();
  REQUIRE(p.b.host.heard.empty());
}

TEST_CASE("a multi-receive buffer is filled, and says when it is used up") {
  for (const bool early : {true, false}) {
    CAPTURE(early);
    Pair p(6, {.min_multi_recv = 100});
    p.fabric.shuffle = false;
    Bytes into(60000);
    std::vector<Bytes> data;
    const std::size_t sizes[] = {100, 0, 16384, 20000, 8, 23000};  // together 59492 + …: the last leaves < 100 … or not
    for (auto n : sizes) data.push_back(pattern(n, n));
    if (early) REQUIRE(multi(p.b, into, 5) == 0);
    for (auto& d : data) REQUIRE(send_untagged(p.a, p.b, d) == 0);
    p.fabric.settle();
    if (!early) {
      REQUIRE(multi(p.b, into, 5) == 0);
      p.fabric.settle();
    }
    unsigned released = 0, got = 0;
    Heard h;
    while (p.b.host.take(OpKind::kRecv, h)) {
      REQUIRE((h.error == 0 && h.c.op_context == context(5)));
      const auto* where = static_cast<std::byte*>(h.c.buf);
      bool found = false;
      for (auto& d : data) found = found || (d.size() == h.c.len && std::equal(d.begin(), d.end(), where));
      REQUIRE(found);
      released += (h.c.flags & FI_MULTI_RECV) != 0;
      ++got;
    }
    REQUIRE((got == 6 && released == 0));
    const Bytes rest = pattern(460, 99);
    REQUIRE(send_untagged(p.a, p.b, rest) == 0);
    p.fabric.settle();
    h = p.received();
    REQUIRE((h.c.flags & FI_MULTI_RECV) != 0);
    REQUIRE(std::equal(rest.begin(), rest.end(), static_cast<std::byte*>(h.c.buf)));
    p.quiet();
    REQUIRE(p.b.messenger->table().left() == 1024);
  }
}

TEST_CASE("multi-receive waits when the completion queue is full, and loses nothing") {
  Pair p(7);
  Bytes into(10000);
  REQUIRE(multi(p.b, into, 5) == 0);
  p.b.host.has_room = false;
  std::vector<Bytes> data;
  for (unsigned i = 0; i < 50; ++i) {
    data.push_back(pattern(20 + i, i));
    REQUIRE(send_untagged(p.a, p.b, data[i]) == 0);
  }
  p.fabric.settle();
  REQUIRE(p.b.host.heard.empty());
  p.b.host.has_room = true;
  p.fabric.settle();
  for (unsigned i = 0; i < 50; ++i) {
    const auto h = p.received();
    REQUIRE(
        (h.c.len == data[i].size() && std::equal(data[i].begin(), data[i].end(), static_cast<std::byte*>(h.c.buf))));
  }
}

TEST_CASE("cancelling a multi-receive buffer while a rendezvous runs into it") {
  Pair p(8);
  Bytes into(100000);
  REQUIRE(multi(p.b, into, 5) == 0);
  const Bytes data = pattern(50000, 1);
  REQUIRE(send_untagged(p.a, p.b, data) == 0);
  for (int i = 0; i < 3; ++i) p.fabric.step(1);
  REQUIRE(p.b.messenger->cancel(context(5)) == 0);
  REQUIRE(p.received().error == FI_ECANCELED);
  p.fabric.settle();
  Heard h;
  if (p.b.host.take(OpKind::kRecv, h)) {
    REQUIRE((h.c.flags & FI_MULTI_RECV) != 0);
    REQUIRE(std::equal(data.begin(), data.end(), into.begin()));
  }
}

TEST_CASE("several pieces on both sides") {
  Random random(9);
  for (const std::size_t total : {64u, 900u, 5000u, 16384u, 90000u}) {
    Pair p(total);
    const Bytes data = pattern(total, total);
    Bytes into(total);
    std::vector<mrc::engine::GatherPiece> from, to;
    const auto cut = [&](std::vector<mrc::engine::GatherPiece>& out, std::byte* base) {
      std::size_t at = 0;
      for (unsigned i = 0; i < 8; ++i) {
        const std::size_t n = i == 7 ? total - at : random.below(static_cast<std::uint32_t>((total - at) / 2 + 1));
        out.push_back({base + at, n});
        at += n;
      }
    };
    cut(from, const_cast<std::byte*>(data.data()));
    cut(to, into.data());
    msg::Transmit t;
    t.tagged = true;
    t.peer = p.a.messenger->peer(p.b.name);
    t.pieces = from;
    REQUIRE(p.a.messenger->transmit(t) == 0);
    msg::Receive r;
    r.tagged = true;
    r.pieces = to;
    REQUIRE(p.b.messenger->receive(r) == 0);
    p.quiet();
    REQUIRE(into == data);
  }
}

TEST_CASE("receives beyond rx_size get -FI_EAGAIN") {
  Pair p(10, {.rx_size = 3});
  Bytes into(8);
  for (int i = 0; i < 3; ++i) REQUIRE(recv(p.b, into, 1, 1) == 0);
  REQUIRE(recv(p.b, into, 1, 1) == -FI_EAGAIN);
  REQUIRE(p.b.messenger->table().left() == 0);
}
