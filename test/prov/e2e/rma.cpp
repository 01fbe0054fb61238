// SPDX-License-Identifier: BSD-2-Clause
// One-sided operations: sizes, keys that the application chose, refusals that leave memory alone, counters, and a
// target that does nothing.
#include <algorithm>
#include <cstring>

#include "talk.hpp"

namespace talk {
namespace {

constexpr std::size_t kRoom = (4 << 20) + 64;
constexpr std::size_t kSizes[] = {1, 7, 256, 1024, 1025, 4096, 5000, 16384, 16385, 65537, 1 << 20, 4 << 20};

struct Memory {
  Memory(Host& host, std::size_t length, std::uint64_t key, std::uint64_t access) : bytes(length, 0x11) {
    OK(fi_mr_reg(host.domain, bytes.data(), length, access, 0, key, 0, &mr, nullptr));
    CHECK(fi_mr_key(mr) == key);
  }
  ~Memory() { fi_close(&mr->fid); }
  Bytes bytes;
  fid_mr* mr = nullptr;
};

void write_and_read(Pair& pair) {
  Talk t(pair);
  constexpr std::uint64_t kKey = 0xabcdef0123456789;
  Memory memory(pair.host, kRoom, kKey, FI_REMOTE_WRITE | FI_REMOTE_READ);
  t.sync();
  std::uint32_t seed = 0;
  for (const std::size_t n : kSizes) {
    ++seed;
    if (t.client) {
      Bytes out = pattern(n, seed), back(n);
      post(t.tx, [&] { return fi_write(t.ep, out.data(), n, nullptr, t.peer, 13, kKey, &out); });
      CHECK((good(t.tx, &out).entry.flags & (FI_RMA | FI_WRITE)) == (FI_RMA | FI_WRITE));
      post(t.tx, [&] { return fi_read(t.ep, back.data(), n, nullptr, t.peer, 13, kKey, &back); });
      CHECK((good(t.tx, &back).entry.flags & (FI_RMA | FI_READ)) == (FI_RMA | FI_READ));
      CHECK(back == out);
    }
    t.sync();
    if (!t.client) {
      const Bytes wanted = pattern(n, seed);
      CHECK(std::equal(wanted.begin(), wanted.end(), memory.bytes.begin() + 13));
      CHECK(memory.bytes[12] == 0x11 && std::all_of(memory.bytes.begin() + 13 + static_cast<std::ptrdiff_t>(n),
                                                    memory.bytes.end(), [](auto x) { return x == 0x11; }));
    }
    t.sync();
  }
  const std::uint64_t all = std::size(kSizes);
  if (t.client) {
    CHECK(fi_cntr_read(t.counter[Node::kWritten]) == all && fi_cntr_read(t.counter[Node::kRead]) == all);
  } else {
    OK(fi_cntr_wait(t.counter[Node::kRemoteWritten], all, 5000));
    OK(fi_cntr_wait(t.counter[Node::kRemoteRead], all, 5000));
  }
  t.sync();
}

void data_and_inject(Pair& pair) {
  Talk t(pair);
  Memory memory(pair.host, 300000, 5, FI_REMOTE_WRITE);
  t.sync();
  constexpr std::uint64_t kData = 0xf00dfacecafebeef;
  Bytes big = pattern(250000, 1), small = pattern(100, 2), tiny = pattern(50, 3);
  if (t.client) {
    post(t.tx, [&] { return fi_writedata(t.ep, big.data(), big.size(), nullptr, kData, t.peer, 0, 5, &big); });
    good(t.tx, &big);
    t.sync();
    post(t.tx, [&] { return fi_inject_writedata(t.ep, small.data(), small.size(), kData + 1, t.peer, 260000, 5); });
    post(t.tx, [&] { return fi_inject_write(t.ep, tiny.data(), tiny.size(), t.peer, 270000, 5); });
    // Nothing reports the injections but the counter.
    OK(fi_cntr_wait(t.counter[Node::kWritten], 3, 10000));
    t.sync();
    t.sync();
    return;
  }
  const auto arrived = [&](std::uint64_t data, std::size_t n) {
    const Done done = take(t.rx);
    CHECK(done.error == 0 && done.entry.data == data && done.entry.len == n);
    CHECK((done.entry.flags & (FI_REMOTE_CQ_DATA | FI_REMOTE_WRITE)) == (FI_REMOTE_CQ_DATA | FI_REMOTE_WRITE));
  };
  arrived(kData, big.size());
  CHECK(std::equal(big.begin(), big.end(), memory.bytes.begin()));
  t.sync();
  arrived(kData + 1, small.size());
  CHECK(std::equal(small.begin(), small.end(), memory.bytes.begin() + 260000));
  OK(fi_cntr_wait(t.counter[Node::kRemoteWritten], 3, 10000));
  t.sync();
  CHECK(std::equal(tiny.begin(), tiny.end(), memory.bytes.begin() + 270000));
  t.sync();
}

void refusals(Pair& pair) {
  Talk t(pair);
  Memory readable(pair.host, 100000, 10, FI_REMOTE_READ), writable(pair.host, 100000, 11, FI_REMOTE_WRITE);
  fid_mr* again = nullptr;
  CHECK(fi_mr_reg(pair.host.domain, readable.bytes.data(), 10, FI_REMOTE_READ, 0, 10, 0, &again, nullptr) ==
        -FI_ENOKEY);
  t.sync();
  if (t.client) {
    std::uint64_t failed = 0;
    for (const std::size_t n : {std::size_t{8}, std::size_t{60000}}) {
      Bytes b(n, 0x77);
      const auto refused = [&](bool write, std::uint64_t key, std::uint64_t offset) {
        post(t.tx, [&] {
          return write ? fi_write(t.ep, b.data(), n, nullptr, t.peer, offset, key, &b)
                       : fi_read(t.ep, b.data(), n, nullptr, t.peer, offset, key, &b);
        });
        const Done done = take(t.tx);
        CHECK(done.error != 0 && done.entry.op_context == &b && b == Bytes(n, 0x77));
        ++failed;
      };
      for (const bool write : {true, false}) {
        refused(write, 999, 0);
        refused(write, write ? 10 : 11, 0);
        refused(write, write ? 11 : 10, 100000 - n + 1);
        refused(write, write ? 11 : 10, ~std::uint64_t{0} - 4);
      }
    }
    CHECK(fi_cntr_readerr(t.counter[Node::kWritten]) == failed / 2);
    CHECK(fi_cntr_readerr(t.counter[Node::kRead]) == failed / 2);
    Bytes fine(100);
    post(t.tx, [&] { return fi_read(t.ep, fine.data(), 100, nullptr, t.peer, 99900, 10, &fine); });
    good(t.tx, &fine);
    CHECK(fine == Bytes(100, 0x11));
  }
  t.sync();
  CHECK(readable.bytes == Bytes(100000, 0x11) && writable.bytes == Bytes(100000, 0x11));
}

/// The target computes for a second and calls nothing; its service thread answers.
void sleeping_target(Pair& pair) {
  Talk t(pair);
  Memory memory(pair.host, 1 << 20, 3, FI_REMOTE_READ | FI_REMOTE_WRITE);
  t.sync();
  if (t.client) {
    const double start = now();
    Bytes out = pattern(1 << 20, 4), back(1 << 20);
    post(t.tx, [&] { return fi_write(t.ep, out.data(), out.size(), nullptr, t.peer, 0, 3, &out); });
    good(t.tx, &out);
    post(t.tx, [&] { return fi_read(t.ep, back.data(), back.size(), nullptr, t.peer, 0, 3, &back); });
    good(t.tx, &back);
    CHECK(back == out && now() - start < 0.9);
  } else {
    nap(1);
  }
  t.sync();
}

void own_memory(Pair& pair) {
  Talk t(pair);
  Memory memory(pair.host, 100000, 3, FI_REMOTE_READ | FI_REMOTE_WRITE);
  const fi_addr_t own = t.insert(t.name());
  Bytes out = pattern(90000, 4), back(90000);
  post(t.tx, [&] { return fi_write(t.ep, out.data(), out.size(), nullptr, own, 5, 3, &out); });
  good(t.tx, &out);
  CHECK(std::equal(out.begin(), out.end(), memory.bytes.begin() + 5));
  post(t.tx, [&] { return fi_read(t.ep, back.data(), back.size(), nullptr, own, 5, 3, &back); });
  good(t.tx, &back);
  CHECK(back == out);
  t.sync();
}

}  // namespace

std::vector<Test> rma_tests() {
  return {{"write and read", write_and_read},
          {"write with data, inject", data_and_inject},
          {"RMA refused", refusals},
          {"RMA, target asleep", sleeping_target},
          {"RMA, own memory", own_memory}};
}

}  // namespace talk
