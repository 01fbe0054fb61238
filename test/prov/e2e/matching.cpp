// SPDX-License-Identifier: BSD-2-Clause
// How messages find receives: tags and masks, sources, multi-receive buffers, peek and claim, truncation, cancel, and
// completions that wait for the match.
#include <algorithm>
#include <cstring>

#include "talk.hpp"

namespace talk {
namespace {

void tags(Pair& pair) {
  Talk t(pair);
  Bytes a = pattern(40, 1), b = pattern(20000, 2), c = pattern(41, 3), d = pattern(10, 4);
  constexpr std::uint64_t kTop = std::uint64_t{1} << 63;
  if (t.client) {
    t.tsend(a, kTop | 0x1234, &a);
    t.tsend(b, 0x5678, &b);
    post(t.tx, [&] { return fi_tsenddata(t.ep, c.data(), c.size(), nullptr, 99, t.peer, 0x1235, &c); });
    post(t.tx, [&] { return fi_tinject(t.ep, d.data(), d.size(), t.peer, ~std::uint64_t{0}); });
    for (int i = 0; i < 3; ++i) CHECK(take(t.tx).error == 0);
    t.sync();
    return;
  }
  nap(0.02);
  Bytes in(30000);
  t.trecv(in, ~std::uint64_t{0}, 0, &in);
  CHECK(good(t.rx, &in).entry.len == d.size() && std::equal(d.begin(), d.end(), in.begin()));
  t.trecv(in, 0x1230, 0xf, &in);  // passes over the one with the top bit
  const Done third = good(t.rx, &in);
  CHECK(third.entry.tag == 0x1235 && third.entry.data == 99 && third.entry.len == c.size());
  CHECK(std::equal(c.begin(), c.end(), in.begin()));
  t.trecv(in, 0, ~std::uint64_t{0}, &in);  // any: the first that was sent
  const Done first = good(t.rx, &in);
  CHECK(first.entry.tag == (kTop | 0x1234) && std::equal(a.begin(), a.end(), in.begin()));
  t.trecv(in, 0x5678, 0, &in);
  CHECK(good(t.rx, &in).entry.len == b.size() && std::equal(b.begin(), b.end(), in.begin()));
  t.sync();
}

void sources(Pair& pair) {
  Talk t(pair);
  Node other(pair.host);
  const fi_addr_t second = t.insert(pair.line.swap(other.name()));
  const fi_addr_t there = other.insert(pair.line.swap(t.name()));
  Bytes a = pattern(100, 1), b = pattern(30000, 2), first(30000), late(30000);
  if (!t.client) {
    t.recv(late, &late, second);
    t.recv(first, &first, t.peer);
  }
  t.sync();
  if (t.client) {
    t.send(a, &a);
    good(t.tx, &a);
    post(other.tx, [&] { return fi_send(other.ep, b.data(), b.size(), nullptr, there, &b); });
    good(other.tx, &b);
  } else {
    const Done one = good(t.rx, &first);
    CHECK(one.source == t.peer && one.entry.len == 100 && std::equal(a.begin(), a.end(), first.begin()));
    const Done two = good(t.rx, &late);
    CHECK(two.source == second && late == b);
  }
  t.sync();
}

void multi_receive(Pair& pair) {
  Shape shape;
  shape.min_multi_recv = 1000;
  Talk t(pair, shape);
  constexpr std::uint32_t kMessages = 100;
  if (t.client) {
    for (std::uint32_t i = 0; i < kMessages; ++i) {
      Bytes b = pattern(1 + i * 9, i);
      post(t.tx, [&] { return fi_inject(t.ep, b.data(), b.size(), t.peer); });
    }
    t.sync();
    return;
  }
  Bytes room[2] = {Bytes(20000), Bytes(20000)};
  const auto lend = [&](Bytes& b) {
    iovec iov{b.data(), b.size()};
    fi_msg message{};
    message.msg_iov = &iov;
    message.iov_count = 1;
    message.addr = FI_ADDR_UNSPEC;
    message.context = &b;
    post(t.rx, [&] { return fi_recvmsg(t.ep, &message, FI_MULTI_RECV | FI_COMPLETION); });
  };
  lend(room[0]);
  lend(room[1]);
  int given_back = 0;
  for (std::uint32_t i = 0; i < kMessages;) {
    const Done done = take(t.rx);
    CHECK(done.error == 0);
    auto* b = static_cast<Bytes*>(done.entry.op_context);
    if ((done.entry.flags & FI_RECV) != 0) {
      const auto* at = static_cast<std::uint8_t*>(done.entry.buf);
      const Bytes wanted = pattern(1 + i * 9, i);
      CHECK(done.entry.len == wanted.size() && at >= b->data() && at + wanted.size() <= b->data() + b->size());
      CHECK(std::equal(wanted.begin(), wanted.end(), at));
      ++i;
    }
    if ((done.entry.flags & FI_MULTI_RECV) != 0) {
      ++given_back;
      lend(*b);
    }
  }
  CHECK(given_back >= 2);
  t.sync();
}

ssize_t tagged(Talk& t, Bytes& b, std::uint64_t tag, fi_context* context, std::uint64_t flags) {
  iovec iov{b.data(), b.size()};
  fi_msg_tagged message{};
  message.msg_iov = &iov;
  message.iov_count = 1;
  message.addr = FI_ADDR_UNSPEC;
  message.tag = tag;
  message.context = context;
  return fi_trecvmsg(t.ep, &message, flags);
}

void peek_and_claim(Pair& pair) {
  Talk t(pair);
  Bytes a = pattern(500, 1), b = pattern(100000, 2), c = pattern(90000, 3);
  if (t.client) {
    t.tsend(a, 1, &a);
    t.tsend(b, 2, &b);
    t.tsend(c, 3, &c);
    for (int i = 0; i < 3; ++i) CHECK(take(t.tx).error == 0);
    t.sync();
    return;
  }
  Bytes in(100000);
  fi_context context{};
  OK(tagged(t, in, 77, &context, FI_PEEK));
  CHECK(take(t.rx).error == FI_ENOMSG);
  const auto wait_for = [&](std::uint64_t tag, std::uint64_t flags) {
    for (const double limit = now() + 10;;) {
      OK(tagged(t, in, tag, &context, flags));
      const Done done = take(t.rx);
      if (done.error == 0) return done;
      CHECK(done.error == FI_ENOMSG && now() < limit);
    }
  };
  CHECK(wait_for(1, FI_PEEK).entry.len == 500);  // stays where it is
  CHECK(wait_for(2, FI_PEEK | FI_CLAIM).entry.len == 100000);
  OK(tagged(t, in, 2, &context, FI_CLAIM));
  CHECK(good(t.rx, &context).entry.len == 100000 && in == b);
  CHECK(wait_for(3, FI_PEEK | FI_DISCARD).entry.len == 90000);
  OK(tagged(t, in, 3, &context, FI_PEEK));
  CHECK(take(t.rx).error == FI_ENOMSG);
  t.trecv(in, 1, 0, &in);
  CHECK(good(t.rx, &in).entry.len == 500 && std::equal(a.begin(), a.end(), in.begin()));
  t.sync();
}

void truncation(Pair& pair) {
  Talk t(pair);
  for (const std::size_t n : {std::size_t{1000}, std::size_t{16000}, std::size_t{500000}}) {
    Bytes sent = pattern(n, 1), next = pattern(64, 2);
    if (t.client) {
      t.send(sent, &sent);
      t.send(next, &next);
      for (int i = 0; i < 2; ++i) take(t.tx);  // a rendezvous may tell the sender too
    } else {
      Bytes in(n, 0xee), after(64);
      iovec iov{in.data(), n / 2};
      post(t.rx, [&] { return fi_recvv(t.ep, &iov, nullptr, 1, FI_ADDR_UNSPEC, &in); });
      t.recv(after, &after);
      bool cut = false, whole = false;
      for (int i = 0; i < 2; ++i) {
        const Done done = take(t.rx);
        if (done.entry.op_context == &in) {
          CHECK(done.error == FI_ETRUNC && done.cut_off == n - n / 2);
          cut = true;
        } else {
          CHECK(done.error == 0 && after == next);
          whole = true;
        }
      }
      CHECK(cut && whole);
      CHECK(std::all_of(in.begin() + static_cast<std::ptrdiff_t>(n / 2), in.end(), [](auto x) { return x == 0xee; }));
    }
    t.sync();
  }
}

void cancel(Pair& pair) {
  Talk t(pair);
  Bytes sent = pattern(300, 1), gone(300, 1), in(300);
  if (!t.client) {
    t.recv(gone, &gone);
    t.recv(in, &in);
    OK(fi_cancel(&t.ep->fid, &gone));
    const Done done = take(t.rx);
    CHECK(done.error == FI_ECANCELED && done.entry.op_context == &gone);
  }
  t.sync();
  if (t.client) {
    t.send(sent, &sent);
    good(t.tx, &sent);
  } else {
    good(t.rx, &in);
    CHECK(in == sent && gone == Bytes(300, 1));
  }
  t.sync();
}

void delivery(Pair& pair) {
  Talk t(pair);
  for (const std::size_t n : {std::size_t{10}, std::size_t{12000}, std::size_t{100000}}) {
    Bytes b = t.client ? pattern(n, 1) : Bytes(n);
    if (t.client) {
      iovec iov{b.data(), n};
      fi_msg message{};
      message.msg_iov = &iov;
      message.iov_count = 1;
      message.addr = t.peer;
      message.context = &b;
      post(t.tx, [&] { return fi_sendmsg(t.ep, &message, FI_COMPLETION | FI_DELIVERY_COMPLETE); });
      Done none;
      CHECK(!try_take(t.tx, none, 0.05));  // nobody has received it
    }
    t.sync();
    if (t.client) {
      good(t.tx, &b);
    } else {
      t.recv(b, &b);
      CHECK(good(t.rx, &b).entry.len == n && b == pattern(n, 1));
    }
    t.sync();
  }
}

}  // namespace

std::vector<Test> matching_tests() {
  return {{"tags", tags},
          {"sources", sources},
          {"multi-receive", multi_receive},
          {"peek and claim", peek_and_claim},
          {"truncation", truncation},
          {"cancel", cancel},
          {"delivery complete", delivery}};
}

}  // namespace talk
