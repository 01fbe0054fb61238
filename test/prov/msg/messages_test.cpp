// SPDX-License-Identifier: BSD-2-Clause
// Messages over a fabric that reorders: contents, tags, order, truncation, acknowledgements, credits, floods.
#include <rapidcheck.h>

#include "support.hpp"
#include "support/catch.hpp"

using namespace mrc::test;
using mrc::Random;
using msg::OpKind;

TEST_CASE("a tagged message of every size arrives whole, expected and unexpected") {
  for (const bool expected : {true, false})
    for (const std::size_t size : {0u, 1u, 8u, 500u, 513u, 1000u, 1024u, 4096u, 16384u, 16385u, 100000u, 3000000u}) {
      CAPTURE(expected, size);
      FakeFabric fabric(size + expected);
      auto& a = fabric.add();
      auto& b = fabric.add();
      const Bytes data = pattern(size, size);
      Bytes into(size + 10);
      if (expected) REQUIRE(recv(b, into, 7, 1) == 0);
      REQUIRE(send(a, b, data, 7, 2, {.has_data = true, .data = 0x1122334455667788}) == 0);
      fabric.settle();
      if (!expected) {
        REQUIRE(b.host.heard.empty());
        REQUIRE(recv(b, into, 7, 1) == 0);
        fabric.settle();
      }
      Heard h;
      REQUIRE(b.host.take(OpKind::kRecv, h));
      REQUIRE((h.error == 0 && h.c.len == size && h.c.tag == 7 && h.c.op_context == context(1)));
      REQUIRE(h.c.data == 0x1122334455667788);
      REQUIRE(h.c.flags == (FI_RECV | FI_TAGGED | FI_REMOTE_CQ_DATA));
      REQUIRE(h.from == a.name);
      REQUIRE(std::equal(data.begin(), data.end(), into.begin()));
      REQUIRE(a.host.take(OpKind::kSend, h));
      REQUIRE((h.error == 0 && h.c.op_context == context(2) && h.c.flags == (FI_SEND | FI_TAGGED)));
      REQUIRE((a.host.heard.empty() && b.host.heard.empty()));
      REQUIRE((a.messenger->in_use() == 0 && b.messenger->in_use() == 0 && a.messenger->outstanding() == 0));
    }
}

TEST_CASE("a message to oneself") {
  FakeFabric fabric(1);
  auto& a = fabric.add();
  for (const std::size_t size : {0u, 100u, 50000u}) {
    const Bytes data = pattern(size, 3);
    Bytes into(size);
    REQUIRE(send(a, a, data, 1, 2) == 0);
    REQUIRE(recv(a, into, 1, 1) == 0);
    fabric.settle();
    Heard h;
    REQUIRE(a.host.take(OpKind::kRecv, h));
    REQUIRE(into == data);
    REQUIRE(a.host.take(OpKind::kSend, h));
  }
}

TEST_CASE("messages between a pair match in the order they were sent, whatever the fabric does") {
  REQUIRE(rc::check("SAS", [] {
    const auto seed = *rc::gen::arbitrary<std::uint64_t>();
    Random random(seed);
    FakeFabric fabric(seed, 1024 << random.below(3));
    auto& a = fabric.add();
    auto& b = fabric.add();
    auto& c = fabric.add();
    const unsigned count = 60;
    const std::size_t sizes[] = {0, 8, 200, 700, 5000, 16384, 20000, 60000};
    struct Sent {
      Bytes data;
      std::uint64_t tag;
      FakeNode* from;
      bool received = false;
    };
    std::deque<Sent> sent;
    struct Posted {
      Bytes into;
      std::uint64_t tag, ignore;
      FakeNode* from;
      int match = -1;
    };
    std::deque<Posted> posted;
    std::vector<std::pair<FakeNode*, std::size_t>> order;
    // Any receive takes the first unmatched message of each sender that it matches: the model cannot know the order
    // between senders, so every receive names its sender here.
    const auto check_all = [&](FakeNode& from) {
      std::vector<bool> taken(sent.size());
      for (auto& p : posted) {
        if (p.from != &from) continue;
        for (std::size_t i = 0; i < sent.size(); ++i)
          if (!taken[i] && sent[i].from == &from && ((sent[i].tag ^ p.tag) & ~p.ignore) == 0) {
            taken[i] = true;
            p.match = static_cast<int>(i);
            break;
          }
      }
    };
    unsigned sends = 0, receives = 0;
    while (sends < count || receives < count) {
      const auto what = random.below(4);
      if (what == 0 && sends < count) {
        FakeNode& from = random.chance(0.5) ? a : c;
        sent.push_back({pattern(sizes[random.below(8)], random.next()), random.below(3), &from});
        RC_ASSERT(send(from, b, sent.back().data, sent.back().tag, 1000 + sends++, {.ack = random.chance(0.3)}) == 0);
      } else if (what == 1 && receives < count) {
        FakeNode& from = random.chance(0.5) ? a : c;
        posted.push_back({Bytes(60000), random.below(3), random.chance(0.5) ? 0 : ~0ull, &from});
        RC_ASSERT(recv(b, posted.back().into, posted.back().tag, 1 + receives++, posted.back().ignore, &from) == 0);
      } else {
        fabric.step(random.below(6));
      }
    }
    fabric.settle();
    check_all(a);
    check_all(c);
    // A receive posted late may match a message sent before an earlier receive existed: both orders are by time of
    // posting, and the model above gives each receive, in posting order, the first message that fits.
    Heard h;
    unsigned completed = 0;
    while (b.host.take(OpKind::kRecv, h)) {
      const auto i = reinterpret_cast<std::uintptr_t>(h.c.op_context) - 1;
      RC_ASSERT(h.error == 0);
      RC_ASSERT(posted[i].match >= 0);
      const auto& s = sent[static_cast<std::size_t>(posted[i].match)];
      RC_ASSERT(h.c.len == s.data.size() && h.c.tag == s.tag && h.from == s.from->name);
      RC_ASSERT(std::equal(s.data.begin(), s.data.end(), posted[i].into.begin()));
      ++completed;
    }
    unsigned expected = 0;
    for (auto& p : posted) expected += p.match >= 0;
    RC_ASSERT(completed == expected);
  }));
}

TEST_CASE("truncation: what fits is there, the sender completes normally") {
  for (const std::size_t size : {100u, 5000u, 100000u})
    for (const std::size_t room : {0u, 50u}) {
      FakeFabric fabric(5);
      auto& a = fabric.add();
      auto& b = fabric.add();
      const Bytes data = pattern(size, 9);
      Bytes into(room);
      REQUIRE(recv(b, into, 1, 1) == 0);
      REQUIRE(send(a, b, data, 1, 2, {.ack = true}) == 0);
      fabric.settle();
      Heard h;
      REQUIRE(b.host.take(OpKind::kRecv, h));
      REQUIRE((h.error == FI_ETRUNC && h.overflow == size - room && h.c.len == room));
      REQUIRE(std::equal(into.begin(), into.end(), data.begin()));
      REQUIRE(a.host.take(OpKind::kSend, h));
      REQUIRE(h.error == 0);
      REQUIRE(b.messenger->in_use() == 0);
    }
}

TEST_CASE("DELIVERY_COMPLETE waits for the match, TRANSMIT_COMPLETE does not") {
  FakeFabric fabric(6);
  auto& a = fabric.add();
  auto& b = fabric.add();
  const Bytes data = pattern(20, 1);
  Bytes into(20);
  REQUIRE(send(a, b, data, 1, 1) == 0);
  REQUIRE(send(a, b, data, 2, 2, {.ack = true}) == 0);
  fabric.settle();
  Heard h;
  REQUIRE(a.host.take(OpKind::kSend, h));
  REQUIRE(h.c.op_context == context(1));
  REQUIRE(a.host.heard.empty());
  REQUIRE(recv(b, into, 2, 9) == 0);
  fabric.settle();
  REQUIRE(a.host.take(OpKind::kSend, h));
  REQUIRE(h.c.op_context == context(2));
}

TEST_CASE("an injected buffer may be reused at once") {
  FakeFabric fabric(7);
  auto& a = fabric.add({.inject_size = 1024});
  auto& b = fabric.add();
  Bytes data = pattern(900, 1);
  const Bytes kept = data;
  REQUIRE(send(a, b, data, 1, 0, {.inject = true, .signal = false}) == 0);
  std::fill(data.begin(), data.end(), std::byte{0});
  Bytes into(900);
  REQUIRE(recv(b, into, 1, 9) == 0);
  fabric.settle();
  REQUIRE(into == kept);
  Heard h;
  REQUIRE(a.host.take(OpKind::kSend, h));
  REQUIRE((!h.signal && h.inject));
  REQUIRE(send(a, b, Bytes(1025), 1, 0, {.inject = true}) == -FI_EMSGSIZE);
}

TEST_CASE("a flood of unexpected messages stops at the credits and goes on when they are received") {
  FakeFabric fabric(8);
  auto& a = fabric.add({.tx_size = 512});
  auto& b = fabric.add({.rx_size = 16});
  const unsigned total = 5000;
  std::vector<Bytes> data;
  for (unsigned i = 0; i < total; ++i) data.push_back(pattern(8 + i % 5 * 300, i));
  unsigned sent = 0, again = 0;
  for (unsigned i = 0; i < 20000 && sent < total; ++i) {
    const int status = send(a, b, data[sent], sent, sent);
    if (status == 0)
      ++sent;
    else {
      REQUIRE(status == -FI_EAGAIN);
      fabric.settle();
      if (++again > 3) break;
    }
  }
  REQUIRE(sent < 1000);
  REQUIRE(b.messenger->in_use() <= msg::kCreditMessages);
  Bytes into(2000);
  for (unsigned i = 0; i < total; ++i) {
    REQUIRE(recv(b, into, i, i) == 0);
    while (sent < total && send(a, b, data[sent], sent, sent) == 0) ++sent;
    Heard h;
    while (!b.host.take(OpKind::kRecv, h)) fabric.step(20);
    REQUIRE((h.c.tag == i && h.c.len == data[i].size()));
    REQUIRE(std::equal(data[i].begin(), data[i].end(), into.begin()));
  }
  fabric.settle();
  REQUIRE((a.messenger->in_use() == 0 && b.messenger->in_use() == 0 && a.messenger->outstanding() == 0));
}

TEST_CASE("small messages that wait for the same peer share packets, a lone one leaves at once") {
  FakeFabric fabric(9);
  auto& a = fabric.add();
  auto& b = fabric.add();
  const Bytes data = pattern(8, 1);
  REQUIRE(send(a, b, data, 0, 0) == 0);
  REQUIRE(a.messenger->statistics().mails == 1);
  for (unsigned i = 1; i < 200; ++i) REQUIRE(send(a, b, data, i, i) == 0);
  fabric.settle();
  REQUIRE(a.messenger->statistics().mails < 40);
  REQUIRE(b.messenger->statistics().unexpected == 200);
}

TEST_CASE("a transport that says kAgain loses nothing") {
  FakeFabric fabric(10);
  auto& a = fabric.add();
  auto& b = fabric.add();
  const Bytes data = pattern(8, 1), big = pattern(200000, 2);
  Bytes into(200000);
  a.busy = b.busy = true;
  for (unsigned i = 0; i < 50; ++i) REQUIRE(send(a, b, data, i, i) == 0);
  REQUIRE(send(a, b, big, 99, 99) == 0);
  REQUIRE(recv(b, into, 99, 1) == 0);
  for (unsigned i = 0; i < 200; ++i) {
    a.busy = i % 3 != 0;
    b.busy = i % 4 != 0;
    a.max_writes = i % 5;
    fabric.step(1);
  }
  a.busy = b.busy = false;
  a.max_writes = 1000;
  fabric.settle();
  Heard h;
  REQUIRE(b.host.take(OpKind::kRecv, h));
  REQUIRE(into == big);
  REQUIRE(b.messenger->statistics().unexpected == 50);
  REQUIRE(a.host.heard.size() == 51);
}
