// SPDX-License-Identifier: BSD-2-Clause
// MatchTable against a model that is two plain lists: random receives (directed or not, any ignore mask), messages,
// peeks, cancels and claims; what meets what, and in which order, must be the same for every sequence.
#include "../../../prov/mrc/msg/match_table.hpp"

#include <rapidcheck.h>

#include <algorithm>
#include <list>

#include "support.hpp"
#include "support/catch.hpp"

using namespace mrc::test;
using msg::MatchTable;

namespace {

EndpointName node(std::uint32_t n) {
  return {0x0A000000u + n, static_cast<std::uint16_t>(1000 + n % 2)};
}

/// Two lists, searched from the front: what fi_tagged(3) says and nothing else.
struct Model {
  struct Receive {
    bool tagged, directed;
    EndpointName from;
    std::uint64_t tag, ignore;
    msg::RxOp* real;
  };
  struct Message {
    bool tagged;
    EndpointName from;
    std::uint64_t tag;
    msg::Unexpected* real;
  };
  static bool fits(const Receive& r, const Message& m) {
    return r.tagged == m.tagged && (!r.directed || r.from == m.from) &&
           (!r.tagged || ((r.tag ^ m.tag) & ~r.ignore) == 0);
  }
  std::list<Receive>::iterator first(const Message& m) {
    return std::find_if(posted.begin(), posted.end(), [&](const Receive& r) { return fits(r, m); });
  }
  std::list<Message>::iterator first(const Receive& r) {
    return std::find_if(waiting.begin(), waiting.end(), [&](const Message& m) { return fits(r, m); });
  }
  std::list<Receive> posted;
  std::list<Message> waiting;
};

struct Both {
  FakeHost host;
  MatchTable table;
  Model model;
  std::uint64_t met = 0;

  explicit Both(std::uint64_t seed) : table({.receives = 2048, .unexpected = 4096}, host, seed) {}
  ~Both() {
    for (auto& m : model.waiting) table.remove(*m.real);
    for (auto& r : model.posted) table.unpost(*r.real);
  }

  void post(Model::Receive r) {
    msg::Receive wanted;
    wanted.tagged = r.tagged;
    wanted.from = r.directed ? &r.from : nullptr;
    wanted.tag = r.tag;
    wanted.ignore = r.ignore;
    const auto expected = model.first(r);
    msg::Unexpected* u = table.find(wanted);
    RC_ASSERT(u == (expected == model.waiting.end() ? nullptr : expected->real));
    if (u != nullptr) {
      table.remove(*u);
      table.give(*u);
      model.waiting.erase(expected);
      ++met;
      return;
    }
    msg::RxOp* op = table.take();
    RC_ASSERT(op != nullptr);
    op->tagged = r.tagged;
    op->directed = r.directed;
    op->from = r.from;
    op->tag = r.tag;
    op->ignore = r.ignore;
    r.real = op;
    table.post(*op);
    model.posted.push_back(r);
  }

  void arrive(Model::Message m) {
    const auto expected = model.first(m);
    msg::RxOp* op = table.find(m.tagged, m.from, m.tag);
    RC_ASSERT(op == (expected == model.posted.end() ? nullptr : expected->real));
    if (op != nullptr) {
      table.unpost(*op);
      table.give(*op);
      model.posted.erase(expected);
      ++met;
      return;
    }
    msg::Unexpected* u = table.take_unexpected();
    RC_ASSERT(u != nullptr);
    u->tagged = m.tagged;
    u->from = m.from;
    u->tag = m.tag;
    m.real = u;
    table.add(*u);
    model.waiting.push_back(m);
  }

  void cancel(std::size_t which) {
    if (model.posted.empty()) return;
    const auto it = std::next(model.posted.begin(), static_cast<std::ptrdiff_t>(which % model.posted.size()));
    table.unpost(*it->real);
    table.give(*it->real);
    model.posted.erase(it);
  }

  void forget(std::size_t which) {
    if (model.waiting.empty()) return;
    const auto it = std::next(model.waiting.begin(), static_cast<std::ptrdiff_t>(which % model.waiting.size()));
    table.remove(*it->real);
    table.give(*it->real);
    model.waiting.erase(it);
  }
};

struct Mix {
  std::uint32_t nodes, tags, masks;
  unsigned steps;
  unsigned post_share;  ///< of 100
};

void play(std::uint64_t seed, const Mix& mix) {
  mrc::Random random(seed);
  Both both(random.next());
  const auto tag = [&] {
    // Tags that differ in low and in high bits, as MPIs pack communicator, source and tag.
    const std::uint64_t t = random.below(mix.tags);
    return (t % 3) << 60 | (t / 3) << 24 | t % 2;
  };
  const auto mask = [&]() -> std::uint64_t {
    switch (random.below(mix.masks)) {
      case 0:
        return 0;
      case 1:
        return 7ull << 60;
      case 2:
        return 7ull << 60 | 0xFFFFFF;
      case 3:
        return ~0ull;
      default:
        return std::uint64_t{1} << random.below(64) | std::uint64_t{1} << random.below(26);
    }
  };
  for (unsigned i = 0; i < mix.steps; ++i) {
    const bool tagged = random.below(8) != 0;
    const auto from = node(random.below(mix.nodes));
    const auto what = random.below(100);
    if (what < 4)
      both.cancel(random.below(1000));
    else if (what < 7)
      both.forget(random.below(1000));
    else if (random.below(100) < mix.post_share)
      both.post({tagged, random.below(2) == 0, from, tag(), mask(), nullptr});
    else
      both.arrive({tagged, from, tag(), nullptr});
  }
  RC_ASSERT(mix.steps < 200 || both.met > mix.steps / 50);  // the mix is worth something
}

Mix drawn(std::uint32_t tags, std::uint32_t masks, unsigned steps) {
  return {*rc::gen::inRange(1u, 6u), tags, masks, steps, *rc::gen::inRange(20u, 80u)};
}

}  // namespace

TEST_CASE("receives and messages meet as two searched lists would have them meet") {
  SECTION("the masks of an MPI") {
    REQUIRE(rc::check([](std::uint64_t seed) { play(seed, drawn(12, 4, 500)); }));
  }
  SECTION("exact tags, many of them waiting") {
    REQUIRE(rc::check([](std::uint64_t seed) { play(seed, drawn(300, 1, 1000)); }));
  }
  SECTION("more masks than there are shapes, and long enough to give shapes up") {
    REQUIRE(rc::check([](std::uint64_t seed) { play(seed, drawn(30, 9, 3000)); }));
  }
}

TEST_CASE("at its limits a table hands out nothing more, and takes back") {
  FakeHost host;
  MatchTable table({.receives = 3, .unexpected = 2}, host, 1);
  msg::RxOp* ops[3];
  for (auto& op : ops) REQUIRE((op = table.take()) != nullptr);
  REQUIRE((table.take() == nullptr && table.left() == 0));
  table.give(*ops[0]);
  REQUIRE((table.take() == ops[0] && ops[0]->table == &table));
  msg::Unexpected* u = table.take_unexpected();
  REQUIRE((u != nullptr && table.take_unexpected() != nullptr && table.take_unexpected() == nullptr));
  table.give(*u);
  REQUIRE(table.take_unexpected() == u);
}

TEST_CASE("a table that two messengers share gives each message to the earliest receive, at the endpoint it came to") {
  FakeFabric fabric(5);
  FakeHost own;
  MatchTable table({.receives = 64}, own, 7, MatchTable::Report::kArrival);
  FakeNode& sender = fabric.add();
  FakeNode& one = fabric.add({}, &table);
  FakeNode& two = fabric.add({}, &table);
  Bytes into[4] = {Bytes(100), Bytes(100), Bytes(60000), Bytes(100)};
  const Bytes first = pattern(100, 1), second = pattern(100, 2), large = pattern(60000, 3), last = pattern(100, 4);
  const auto post = [&](int i, std::uint64_t tag) {
    const mrc::engine::GatherPiece piece{into[i].data(), into[i].size()};
    return table.receive(receive_of(piece, tag, 0, context(static_cast<std::uintptr_t>(i) + 1)));
  };
  REQUIRE((post(0, 5) == 0 && post(1, 5) == 0));
  REQUIRE(send(sender, two, first, 5, 1) == 0);
  fabric.settle();
  REQUIRE(send(sender, one, second, 5, 2) == 0);
  REQUIRE(send(sender, two, large, 6, 3) == 0);  // waits for its receive
  REQUIRE(send(sender, one, last, 7, 4) == 0);
  fabric.settle();
  REQUIRE(table.waiting() == 2);
  REQUIRE((post(2, 6) == 0 && post(3, 7) == 0));
  fabric.settle();
  Heard h;
  REQUIRE((two.host.take(msg::OpKind::kRecv, h) && h.c.op_context == context(1) && into[0] == first));
  REQUIRE((two.host.take(msg::OpKind::kRecv, h) && h.c.op_context == context(3) && into[2] == large));
  REQUIRE((one.host.take(msg::OpKind::kRecv, h) && h.c.op_context == context(2) && into[1] == second));
  REQUIRE((one.host.take(msg::OpKind::kRecv, h) && h.c.op_context == context(4) && into[3] == last));
  REQUIRE(post(0, 9) == 0);
  REQUIRE((table.cancel(context(1)) == 0 && own.take(msg::OpKind::kRecv, h) && h.error == FI_ECANCELED));
  REQUIRE((table.left() == 64 && table.waiting() == 0));

  // An endpoint that closes takes its messages and rendezvous along; the table lives on.
  REQUIRE(send(sender, one, large, 6, 5) == 0);
  REQUIRE(send(sender, two, last, 7, 6) == 0);
  fabric.settle();
  REQUIRE(table.waiting() == 2);
  REQUIRE(post(2, 6) == 0);
  REQUIRE(table.left() == 63);
  one.messenger.reset();
  REQUIRE((table.left() == 64 && table.waiting() == 1));
  REQUIRE(post(3, 7) == 0);
  REQUIRE((two.host.take(msg::OpKind::kRecv, h) && into[3] == last));
  two.messenger.reset();
  REQUIRE((table.left() == 64 && table.waiting() == 0));
}

TEST_CASE("a multi-receive buffer keeps the order when completions had no room") {
  FakeFabric fabric(6);
  FakeNode& sender = fabric.add();
  FakeNode& receiver = fabric.add();
  for (std::uint64_t i = 0; i < 3; ++i) {
    REQUIRE(send(sender, receiver, pattern(100, i), 5, i + 1) == 0);
    fabric.settle();
  }
  receiver.host.has_room = false;
  Bytes buffer(4096);
  const mrc::engine::GatherPiece piece{buffer.data(), buffer.size()};
  auto r = receive_of(piece, 5, 0, context(9));
  r.multi = true;
  REQUIRE(receiver.messenger->receive(r) == 0);
  REQUIRE(send(sender, receiver, pattern(100, 3), 5, 4) == 0);
  fabric.settle();
  REQUIRE(receiver.host.heard.empty());
  receiver.host.has_room = true;
  fabric.settle();
  REQUIRE(receiver.host.heard.size() == 4);
  for (std::uint64_t i = 0; i < 4; ++i) {
    const Bytes expected = pattern(100, i);
    REQUIRE(std::equal(expected.begin(), expected.end(), buffer.begin() + static_cast<std::ptrdiff_t>(i * 100)));
  }
}
