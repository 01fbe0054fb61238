// SPDX-License-Identifier: BSD-2-Clause
// Messages: sizes, pieces, injection, CQ data, order, both directions, an endpoint's own address.
#include <array>
#include <cstring>

#include "talk.hpp"

namespace talk {
namespace {

constexpr std::size_t kSizes[] = {0,    1,     8,     63,    64,    1000,  1023,  1024,    1025,        4095,
                                  4096, 16000, 16383, 16384, 16385, 32768, 65537, 1 << 20, 4194304 + 1, 8 << 20};

/// Every size, once with the receive posted before and once after the message was sent.
void sizes(Pair& pair) {
  Talk t(pair);
  for (const bool expected : {true, false}) {
    std::vector<Bytes> bytes;
    for (const std::size_t n : kSizes) bytes.push_back(t.client ? pattern(n, static_cast<std::uint32_t>(n)) : Bytes(n));
    if (!t.client && expected)
      for (auto& b : bytes) t.recv(b, &b);
    t.sync();
    if (t.client)
      for (auto& b : bytes) t.send(b, &b);
    if (!expected) {
      nap(0.05);
      t.sync();
      if (!t.client)
        for (auto& b : bytes) t.recv(b, &b);
    }
    std::size_t seen[std::size(kSizes)] = {};
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      const Done done = take(t.client ? t.tx : t.rx);
      CHECK(done.error == 0);
      CHECK((done.entry.flags & FI_MSG) != 0 && (done.entry.flags & (t.client ? FI_SEND : FI_RECV)) != 0);
      const auto which = static_cast<std::size_t>(static_cast<Bytes*>(done.entry.op_context) - bytes.data());
      CHECK(which < bytes.size() && seen[which]++ == 0);
      if (!t.client) {
        CHECK(done.entry.len == kSizes[which]);
        CHECK(bytes[which] == pattern(kSizes[which], static_cast<std::uint32_t>(kSizes[which])));
      }
    }
    t.sync();
  }
}

void pieces(Pair& pair) {
  Talk t(pair);
  for (const std::size_t n : {std::size_t{100}, std::size_t{10000}, std::size_t{300000}}) {
    Bytes bytes = t.client ? pattern(n, 5) : Bytes(n);
    const std::array<std::size_t, 5> cut = t.client ? std::array<std::size_t, 5>{0, 1, n / 3, n / 3, n}
                                                    : std::array<std::size_t, 5>{0, n / 2, n - 7, n - 1, n};
    iovec iov[4];
    for (std::size_t i = 0; i < 4; ++i) iov[i] = {bytes.data() + cut[i], cut[i + 1] - cut[i]};
    if (t.client) {
      post(t.tx, [&] { return fi_sendv(t.ep, iov, nullptr, 4, t.peer, &t); });
      good(t.tx, &t);
    } else {
      post(t.rx, [&] { return fi_recvv(t.ep, iov, nullptr, 4, FI_ADDR_UNSPEC, &t); });
      CHECK(good(t.rx, &t).entry.len == n);
      CHECK(bytes == pattern(n, 5));
    }
  }
  iovec none[9] = {};
  CHECK(fi_sendv(t.ep, none, nullptr, 9, t.peer, &t) == -FI_EINVAL);
  t.sync();
}

void inject_and_data(Pair& pair) {
  Talk t(pair);
  constexpr std::uint64_t kData = 0xfedcba9876543210;
  const std::size_t most = pair.host.info->tx_attr->inject_size;
  const std::size_t lengths[] = {0, 17, most, most, 40000};
  if (t.client) {
    Bytes b = pattern(17, 2);
    post(t.tx, [&] { return fi_inject(t.ep, nullptr, 0, t.peer); });
    post(t.tx, [&] { return fi_inject(t.ep, b.data(), b.size(), t.peer); });
    b.assign(17, 0);  // the buffer is ours again at once
    b = pattern(most, 3);
    post(t.tx, [&] { return fi_injectdata(t.ep, b.data(), b.size(), kData, t.peer); });
    std::fill(b.begin(), b.end(), std::uint8_t{0});
    CHECK(fi_inject(t.ep, pattern(most + 1, 1).data(), most + 1, t.peer) == -FI_EMSGSIZE);
    Bytes c = pattern(most, 4), d = pattern(40000, 5);
    post(t.tx, [&] { return fi_senddata(t.ep, c.data(), c.size(), nullptr, kData + 1, t.peer, &c); });
    post(t.tx, [&] { return fi_senddata(t.ep, d.data(), d.size(), nullptr, kData + 2, t.peer, &d); });
    CHECK(take(t.tx).error == 0);
    CHECK(take(t.tx).error == 0);
    Done none;
    CHECK(!try_take(t.tx, none, 0.02));  // injections report nothing
  } else {
    for (std::uint32_t i = 0; i < 5; ++i) {
      Bytes b(50000);
      t.recv(b, &b);
      const Done done = good(t.rx, &b);
      CHECK(done.entry.len == lengths[i]);
      b.resize(lengths[i]);
      CHECK(b == pattern(lengths[i], i + 1));
      CHECK(((done.entry.flags & FI_REMOTE_CQ_DATA) != 0) == (i >= 2));
      if (i >= 2) CHECK(done.entry.data == kData + i - 2);
    }
  }
  t.sync();
}

std::size_t mixed(std::uint32_t i) {
  const std::uint32_t x = (i * 2654435761U) >> 8;
  if (x % 97 == 0) return 16384 + x % 40000;  // by rendezvous
  return 8 + (x % 7 == 0 ? x % 9000 : x % 200);
}

/// Send after send: matched in the order in which they were sent, however they travel.
void order(Pair& pair) {
  Talk t(pair);
  constexpr std::uint32_t kMessages = 10000, kAtOnce = 128;
  std::vector<Bytes> slots(kAtOnce, Bytes(60000));
  const auto start = [&](std::uint32_t i) {
    Bytes& b = slots[i % kAtOnce];
    if (!t.client) {
      t.recv(b, &b);
      return;
    }
    const std::size_t n = mixed(i);
    std::memset(b.data(), static_cast<int>(i & 0xff), n);
    std::memcpy(b.data(), &i, sizeof i);
    post(t.tx, [&] { return fi_send(t.ep, b.data(), n, nullptr, t.peer, &b); });
  };
  // A slot is used again when its own operation is complete; completions may overtake each other.
  std::vector<bool> done(kMessages, false);
  std::vector<std::uint32_t> user(kAtOnce);
  std::uint32_t posted = 0, finished = 0;
  const auto reap = [&] {
    const Done one = take(t.client ? t.tx : t.rx);
    CHECK(one.error == 0);
    const auto slot = static_cast<std::size_t>(static_cast<Bytes*>(one.entry.op_context) - slots.data());
    const std::uint32_t i = user[slot];
    CHECK(!done[i]);
    done[i] = true;
    ++finished;
    if (t.client) return;
    const std::size_t n = mixed(i);
    std::uint32_t stamp = 0;
    std::memcpy(&stamp, slots[slot].data(), sizeof stamp);
    CHECK(one.entry.len == n && stamp == i);
    for (std::size_t k = 4; k < n; ++k) CHECK(slots[slot][k] == (i & 0xff));
  };
  while (finished < kMessages) {
    while (posted < kMessages && (posted < kAtOnce || done[posted - kAtOnce])) {
      user[posted % kAtOnce] = posted;
      start(posted++);
    }
    reap();
  }
  CHECK(fi_cntr_read(t.counter[t.client ? Node::kSent : Node::kReceived]) == kMessages);
  t.sync();
}

void both_ways(Pair& pair) {
  Talk t(pair);
  constexpr std::uint32_t kMessages = 32;
  constexpr std::size_t kLength = 200000;
  std::vector<Bytes> out, in(kMessages, Bytes(kLength));
  const std::uint32_t mine = t.client ? 100 : 200, theirs = t.client ? 200 : 100;
  for (std::uint32_t i = 0; i < kMessages; ++i) out.push_back(pattern(kLength, mine + i));
  for (std::uint32_t i = 0; i < kMessages; ++i) {
    t.tsend(out[i], i, &out[i]);
    t.trecv(in[i], i, 0, &in[i]);
  }
  for (std::uint32_t i = 0; i < kMessages; ++i) CHECK(take(t.tx).error == 0);
  for (std::uint32_t i = 0; i < kMessages; ++i) CHECK(take(t.rx).error == 0);
  for (std::uint32_t i = 0; i < kMessages; ++i) CHECK(in[i] == pattern(kLength, theirs + i));
  t.sync();
}

void self(Pair& pair) {
  Talk t(pair);
  const fi_addr_t own = t.insert(t.name());
  for (const std::size_t n : {std::size_t{0}, std::size_t{100}, std::size_t{1} << 20}) {
    Bytes out = pattern(n, 7), in(n);
    t.recv(in, &in);
    post(t.tx, [&] { return fi_send(t.ep, out.data(), n, nullptr, own, &out); });
    const Done done = good(t.rx, &in);
    CHECK(done.entry.len == n && done.source == own && in == out);
    good(t.tx, &out);
  }
  t.sync();
}

}  // namespace

std::vector<Test> message_tests() {
  return {{"sizes", sizes}, {"pieces", pieces},       {"inject and CQ data", inject_and_data},
          {"order", order}, {"both ways", both_ways}, {"self", self}};
}

}  // namespace talk
