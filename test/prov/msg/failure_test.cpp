// SPDX-License-Identifier: BSD-2-Clause
// Failing connections and hostile peers: exactly one completion an operation, a fresh start afterwards, and no byte
// outside what was granted.
#include <rapidcheck.h>

#include <set>

#include "support.hpp"
#include "support/catch.hpp"

using namespace mrc::test;
using mrc::Random;
using mrc::transport::Status;
using msg::OpKind;

TEST_CASE("a connection that fails in the middle of everything completes each operation exactly once") {
  REQUIRE(rc::check("exactly once", [] {
    const auto seed = *rc::gen::arbitrary<std::uint64_t>();
    Random random(seed);
    FakeFabric fabric(seed);
    auto& a = fabric.add();
    auto& b = fabric.add();
    Bytes memory(300000);
    for (auto* n : {&a, &b}) n->host.regions.push_back({1, FI_REMOTE_READ | FI_REMOTE_WRITE, &memory});
    std::deque<Bytes> buffers;
    const std::size_t sizes[] = {0, 10, 900, 5000, 20000, 200000};
    std::set<std::uintptr_t> tx[2], rx[2];
    std::uintptr_t next = 1;
    for (int life = 0; life < 3; ++life) {
      for (int i = 0; i < 60; ++i) {
        const unsigned side = random.below(2);
        FakeNode& from = side == 0 ? a : b;
        FakeNode& to = side == 0 ? b : a;
        buffers.push_back(pattern(sizes[random.below(6)], next));
        const auto what = random.below(5);
        if (what == 0) {
          if (recv(from, buffers.back(), 0, next, ~0ull) == 0) rx[side].insert(next);
        } else if (what <= 2) {
          if (send(from, to, buffers.back(), 0, next, {.ack = random.chance(0.5)}) == 0) tx[side].insert(next);
        } else {
          if (rma(from, to, what == 3 ? OpKind::kWrite : OpKind::kRead, buffers.back(), 1, 0, next) == 0)
            tx[side].insert(next);
        }
        ++next;
        fabric.step(random.below(4));
      }
      fabric.fail(a, b, life % 2 ? Status::kPeerDead : Status::kPeerRestarted);
      if (random.chance(0.5)) fabric.step(0);
    }
    fabric.settle();
    // One more life, in which all works: receives that are still posted are used up by messages from the other side.
    for (unsigned side = 0; side < 2; ++side) {
      FakeNode& n = side == 0 ? a : b;
      for (auto& h : n.host.heard) {
        const auto id = reinterpret_cast<std::uintptr_t>(h.c.op_context);
        if (h.kind == OpKind::kRemoteRead || h.kind == OpKind::kRemoteWrite) continue;
        RC_ASSERT((h.kind == OpKind::kRecv ? rx : tx)[side].erase(id) == 1);
        RC_ASSERT(h.error == 0 || h.error == FI_ECONNABORTED || h.error == FI_ECONNRESET || h.error == FI_ETRUNC);
      }
      n.host.heard.clear();
    }
    for (unsigned side = 0; side < 2; ++side) {
      FakeNode& n = side == 0 ? a : b;
      FakeNode& other = side == 0 ? b : a;
      const Bytes last;
      while (!rx[side].empty()) {
        RC_ASSERT(send(other, n, last, 0, 1) == 0);
        fabric.settle();
        Heard h;
        RC_ASSERT(n.host.take(OpKind::kRecv, h));
        RC_ASSERT(h.error == 0);
        RC_ASSERT(rx[side].erase(reinterpret_cast<std::uintptr_t>(h.c.op_context)) == 1);
      }
    }
    // What is still open waits for a match: receive it all.
    for (unsigned side = 0; side < 2; ++side) {
      FakeNode& n = side == 0 ? a : b;
      for (int i = 0; i < 400; ++i) {
        buffers.emplace_back(200000);
        RC_ASSERT(recv(n, buffers.back(), 0, 0, ~0ull) == 0);
      }
    }
    fabric.settle();
    RC_ASSERT(a.messenger->outstanding() == 0 && b.messenger->outstanding() == 0);
    RC_ASSERT(a.messenger->in_use() == 0 && b.messenger->in_use() == 0);
  }));
}

TEST_CASE("posted receives survive a failed connection, messages of the next life are matched") {
  FakeFabric fabric(1);
  auto& a = fabric.add();
  auto& b = fabric.add();
  Bytes into(100000);
  REQUIRE(recv(b, into, 1, 1) == 0);
  const Bytes data = pattern(100000, 4);
  REQUIRE(send(a, b, pattern(8, 1), 2, 1) == 0);
  fabric.step(1);
  fabric.fail(a, b, Status::kPeerRestarted);
  fabric.settle();
  REQUIRE(send(a, b, data, 1, 2) == 0);
  fabric.settle();
  REQUIRE(into == data);
}

TEST_CASE("a peer without a way there is an error completion") {
  FakeFabric fabric(2);
  auto& a = fabric.add();
  const mrc::engine::GatherPiece piece{nullptr, 0};
  msg::Transmit t;
  t.peer = a.messenger->peer(EndpointName{0x01020304, 5});
  t.pieces = {&piece, 1};
  t.context = context(9);
  REQUIRE(a.messenger->transmit(t) == 0);
  Heard h;
  REQUIRE(a.host.take(OpKind::kSend, h));
  REQUIRE((h.error == FI_EHOSTUNREACH && h.c.op_context == context(9)));
  REQUIRE(a.host.heard.empty());
}

TEST_CASE("the transport's reasons have their libfabric codes") {
  REQUIRE(msg::error_of(Status::kTimedOut) == FI_ETIMEDOUT);
  REQUIRE(msg::error_of(Status::kPeerDead) == FI_ECONNABORTED);
  REQUIRE(msg::error_of(Status::kPeerRestarted) == FI_ECONNRESET);
  REQUIRE(msg::error_of(Status::kNoRoute) == FI_EHOSTUNREACH);
}

TEST_CASE("a new life that speaks before the transport's event resets the pair once") {
  FakeFabric fabric(3);
  auto& a = fabric.add();
  auto& b = fabric.add();
  Bytes into(20000), other(8);
  REQUIRE(send(a, b, pattern(20000, 1), 1, 1) == 0);  // waits for CTS
  REQUIRE(send(b, a, pattern(8, 2), 9, 1) == 0);
  fabric.settle();
  const auto conn = a.connect(b.name);
  // b as a new process would speak: another session, sequence 0.
  std::byte mail[256];
  std::size_t n = msg::encode(msg::MailHead{12345, 0}, mail);
  msg::Record r;
  r.type = msg::RecordType::kEager;
  r.flags = msg::kFlagTagged;
  r.tag = 3;
  n += msg::encode(r, mail + n);
  const std::span<const std::byte> whole(mail, n);
  REQUIRE(fabric.inject(a, conn, 0, msg::kMailboxRkey, static_cast<std::uint32_t>(n), whole) ==
          mrc::transport::Placement::kPlaced);
  a.messenger->on_event({mrc::transport::EventKind::kConnFailed, Status::kPeerRestarted, 0, conn, 0});
  a.messenger->on_progress();
  REQUIRE(a.messenger->statistics().resets == 1);
  Heard h;
  REQUIRE(a.host.take(OpKind::kSend, h));
  REQUIRE(h.error == FI_ECONNRESET);
  REQUIRE(recv(a, other, 3, 7) == 0);  // the new life's message is still there
  REQUIRE(a.host.take(OpKind::kRecv, h));
  REQUIRE((h.error == 0 && h.c.op_context == context(7)));
}

TEST_CASE("random bytes from a hostile peer never crash and never write outside grants") {
  REQUIRE(rc::check("hostile", [] {
    const auto seed = *rc::gen::arbitrary<std::uint64_t>();
    Random random(seed);
    FakeFabric fabric(seed);
    auto& a = fabric.add();
    auto& b = fabric.add();
    Bytes guard_low(64, std::byte{0x55});
    Bytes memory = pattern(5000, 1);
    b.host.regions.push_back({1, FI_REMOTE_READ, &memory});
    const Bytes before = memory;
    Bytes into(40000), big = pattern(40000, 2), read(30000);
    RC_ASSERT(recv(b, into, 7, 1) == 0);
    RC_ASSERT(send(b, a, big, 1, 2) == 0);
    RC_ASSERT(rma(b, a, OpKind::kRead, read, 1, 0, 3) == 0);
    fabric.step(3);
    const auto conn = b.connect(a.name);
    const msg::RecordType types[] = {msg::RecordType::kEager,       msg::RecordType::kRts,
                                     msg::RecordType::kCts,         msg::RecordType::kFin,
                                     msg::RecordType::kAck,         msg::RecordType::kCredit,
                                     msg::RecordType::kWrite,       msg::RecordType::kWriteRequest,
                                     msg::RecordType::kReadRequest, msg::RecordType::kReadData};
    const auto small = [&] { return random.chance(0.7) ? random.below(6) : static_cast<std::uint32_t>(random.next()); };
    const std::uint32_t session = 4711;
    std::uint32_t sequence = 0;
    for (int i = 0; i < 300; ++i) {
      Bytes mail(3000);
      std::size_t n = 0;
      if (random.chance(0.9)) n = msg::encode(msg::MailHead{random.chance(0.98) ? session : small(), 0}, mail.data());
      while (n < 1200 && random.chance(0.7)) {
        msg::Record r;
        r.type = types[random.below(10)];
        r.flags = static_cast<std::uint8_t>(random.below(8));
        r.sequence = random.chance(0.8) ? sequence : small();
        r.op = random.chance(0.5) ? small() | (small() << 16) : small();
        r.handle = random.chance(0.3) ? 0xFFFFFFFF : small();
        r.status = small();
        r.tag = small();
        r.length = random.chance(0.5) ? random.next() : small();
        r.base = small();
        r.credit_messages = small();
        r.credit_bytes = small();
        const bool segmented = r.type == msg::RecordType::kWrite || r.type == msg::RecordType::kWriteRequest ||
                               r.type == msg::RecordType::kReadRequest;
        if (segmented) r.segment_count = 1 + random.below(3);
        for (std::uint32_t s = 0; s < r.segment_count; ++s)
          r.segments[s] = {random.below(3), small(), random.chance(0.5) ? random.below(40) : random.next()};
        const std::size_t bytes =
            r.type == msg::RecordType::kWrite && random.chance(0.7) ? r.segments[0].length % 500 : random.below(500);
        const Bytes payload = pattern(bytes, i);
        r.bytes = payload;
        if (r.ordered()) ++sequence;
        n += msg::encode(r, mail.data() + n);
        std::copy(payload.begin(), payload.end(), mail.begin() + static_cast<std::ptrdiff_t>(n));
        n += bytes;
      }
      if (random.chance(0.2) && n > 0)
        mail[random.below(static_cast<std::uint32_t>(n))] = static_cast<std::byte>(random.next());
      if (random.chance(0.1)) n = random.below(static_cast<std::uint32_t>(n + 1));
      const std::span<const std::byte> whole(mail.data(), n);
      const auto length = random.chance(0.9) ? static_cast<std::uint32_t>(n) : small();
      const auto va = random.chance(0.8) ? static_cast<std::uint64_t>(i) << 32
                                         : static_cast<std::uint64_t>(small()) << 32 | small();
      fabric.inject(b, conn, va, random.chance(0.8) ? msg::kMailboxRkey : small() | (small() << 16), length, whole);
      b.messenger->on_progress();
    }
    RC_ASSERT(memory == before);
    RC_ASSERT(guard_low == Bytes(64, std::byte{0x55}));
    RC_ASSERT(b.messenger->in_use() < 5000);
  }));
}
