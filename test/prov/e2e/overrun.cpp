// SPDX-License-Identifier: BSD-2-Clause
// More than the queues hold (FI_RM_ENABLED): every call that has no room says -FI_EAGAIN, nobody loses a byte or a
// completion. And the process that does not call libfabric at all: peers reach it, and it costs next to nothing.
#include <rdma/fi_atomic.h>
#include <time.h>

#include <algorithm>
#include <cstring>

#include "talk.hpp"

namespace talk {
namespace {

constexpr std::size_t kQueue = 16;

double cpu_seconds() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

/// Calls until it says -FI_EAGAIN ten times in a row with a pause after each: it is full, not slow. How often it took.
template <class Call>
std::size_t fill(std::size_t most, Call&& call) {
  std::size_t done = 0;
  for (int refused = 0; done < most && refused < 10;) {
    const ssize_t status = call(done);
    if (status == 0) {
      ++done;
      refused = 0;
    } else {
      CHECK(status == -FI_EAGAIN);
      ++refused;
      nap(0.02);
    }
  }
  return done;
}

void* number(std::size_t n) {
  return reinterpret_cast<void*>(n + 1);
}

/// Nobody reads either completion queue until both are full, nor posts receives before the messages have come.
void unread_queues(Pair& pair) {
  constexpr std::size_t kMost = 4000, kSize = 1500;
  Shape shape;
  shape.cq_size = kQueue;
  Talk t(pair, shape);
  if (t.client) {
    std::vector<Bytes> out;
    for (std::size_t i = 0; i < kMost; ++i) out.push_back(pattern(kSize, static_cast<std::uint32_t>(i)));
    const auto call = [&](std::size_t i) {
      return fi_tsend(t.ep, out[i].data(), kSize, nullptr, t.peer, i, number(i));
    };
    const std::size_t first = fill(kMost, call);
    CHECK(first >= kQueue && first < kMost);  // it was refused, and not at once
    t.sync();
    std::vector<int> seen(kMost, 0);
    std::size_t posted = first, completed = 0;
    for (const double limit = now() + 25; completed < kMost;) {
      CHECK(now() < limit);
      if (posted < kMost) {
        const ssize_t status = call(posted);
        CHECK(status == 0 || status == -FI_EAGAIN);
        posted += status == 0 ? 1 : 0;
      }
      Done done;
      while (try_take(t.tx, done, 0)) {
        CHECK(done.error == 0);
        ++seen[reinterpret_cast<std::size_t>(done.entry.op_context) - 1];
        ++completed;
      }
    }
    CHECK(std::all_of(seen.begin(), seen.end(), [](int n) { return n == 1; }));
  } else {
    t.sync();
    std::vector<Bytes> in(kMost, Bytes(kSize));
    std::vector<int> seen(kMost, 0);
    const auto call = [&](std::size_t i) {
      return fi_trecv(t.ep, in[i].data(), kSize, nullptr, t.peer, i, 0, number(i));
    };
    std::size_t posted = fill(kMost, call), completed = 0;  // the queue is not read: full
    CHECK(posted >= kQueue && posted < kMost);
    for (const double limit = now() + 25; completed < kMost;) {
      CHECK(now() < limit);
      if (posted < kMost) {
        const ssize_t status = call(posted);
        CHECK(status == 0 || status == -FI_EAGAIN);
        posted += status == 0 ? 1 : 0;
      }
      Done done;
      while (try_take(t.rx, done, 0)) {
        CHECK(done.error == 0 && done.entry.len == kSize);
        ++seen[reinterpret_cast<std::size_t>(done.entry.op_context) - 1];
        ++completed;
      }
    }
    CHECK(std::all_of(seen.begin(), seen.end(), [](int n) { return n == 1; }));
    for (std::size_t i = 0; i < kMost; ++i) CHECK(in[i] == pattern(kSize, static_cast<std::uint32_t>(i)));
  }
  t.sync();
}

/// Remote CQ data makes completions at the target that no posted receive bounds.
void unread_remote_data(Pair& pair) {
  constexpr std::size_t kMost = 3000, kSize = 64;
  Shape shape;
  shape.cq_size = kQueue;
  Talk t(pair, shape);
  Bytes memory(kMost * kSize);
  fid_mr* mr = nullptr;
  OK(fi_mr_reg(pair.host.domain, memory.data(), memory.size(), FI_REMOTE_WRITE, 0, 77, 0, &mr, nullptr));
  t.sync();
  if (t.client) {
    const Bytes out = pattern(memory.size(), 9);
    std::size_t completed = 0;
    const auto drain = [&] {
      Done done;
      while (try_take(t.tx, done, 0)) {
        CHECK(done.error == 0);
        ++completed;
      }
    };
    const std::size_t first = fill(kMost, [&](std::size_t i) {
      const ssize_t status =
          fi_writedata(t.ep, out.data() + i * kSize, kSize, nullptr, i, t.peer, i * kSize, 77, number(i));
      drain();
      return status;
    });
    t.sync();
    for (std::size_t i = first; i < kMost; ++i) {
      post(t.tx, [&] {
        drain();
        return fi_writedata(t.ep, out.data() + i * kSize, kSize, nullptr, i, t.peer, i * kSize, 77, number(i));
      });
    }
    for (const double limit = now() + 20; completed < kMost; drain()) CHECK(now() < limit);
  } else {
    t.sync();  // meanwhile nothing was read
    std::vector<int> seen(kMost, 0);
    for (std::size_t n = 0; n < kMost; ++n) {
      const Done done = take(t.rx);
      CHECK(done.error == 0 && (done.entry.flags & FI_REMOTE_CQ_DATA) != 0 && done.entry.data < kMost);
      ++seen[done.entry.data];
    }
    CHECK(std::all_of(seen.begin(), seen.end(), [](int n) { return n == 1; }));
    CHECK(memory == pattern(memory.size(), 9));
  }
  t.sync();
  OK(fi_close(&mr->fid));
}

/// One buffer takes more messages than the queue has room for.
void unread_multi_receive(Pair& pair) {
  constexpr std::size_t kMost = 2000, kSize = 100;
  Shape shape;
  shape.cq_size = kQueue;
  Talk t(pair, shape);
  if (t.client) {
    t.sync();
    for (std::size_t i = 0; i < kMost; ++i) {
      const Bytes out = pattern(kSize, static_cast<std::uint32_t>(i));
      post(t.tx, [&] { return fi_inject(t.ep, out.data(), out.size(), t.peer); });
    }
  } else {
    Bytes buffer(kMost * kSize);
    iovec piece{buffer.data(), buffer.size()};
    fi_msg m{};
    m.msg_iov = &piece;
    m.iov_count = 1;
    m.addr = FI_ADDR_UNSPEC;
    m.context = &buffer;
    post(t.rx, [&] { return fi_recvmsg(t.ep, &m, FI_MULTI_RECV | FI_COMPLETION); });
    t.sync();
    nap(0.3);
    std::size_t at = 0;
    for (std::size_t i = 0; i < kMost; ++i) {
      const Done done = take(t.rx);
      CHECK(done.error == 0 && done.entry.len == kSize && done.entry.buf == buffer.data() + at);
      const Bytes wanted = pattern(kSize, static_cast<std::uint32_t>(i));
      CHECK(std::equal(wanted.begin(), wanted.end(), buffer.begin() + static_cast<std::ptrdiff_t>(at)));
      at += kSize;
    }
  }
  t.sync();
}

/// One side calls nothing: writes, reads, atomics, a rendezvous into a posted receive, and eager messages go on.
void silent_peer(Pair& pair) {
  Talk t(pair);
  constexpr std::size_t kBig = 3'000'000;
  Bytes memory(kBig), posted(kBig);
  fid_mr* mr = nullptr;
  OK(fi_mr_reg(pair.host.domain, memory.data(), memory.size(), FI_REMOTE_WRITE | FI_REMOTE_READ, 0, 78, 0, &mr,
               nullptr));
  if (!t.client) t.recv(posted, &posted);
  t.sync();
  if (t.client) {
    nap(0.3);  // the other one's last call is long ago
    const Bytes out = pattern(kBig, 5), letter = pattern(kBig, 6);
    Bytes back(kBig);
    post(t.tx, [&] { return fi_write(t.ep, out.data(), kBig, nullptr, t.peer, 0, 78, number(0)); });
    good(t.tx, number(0));
    post(t.tx, [&] { return fi_read(t.ep, back.data(), kBig, nullptr, t.peer, 0, 78, number(1)); });
    good(t.tx, number(1));
    CHECK(back == out);
    std::uint64_t one = 1, old = 0;
    for (std::size_t i = 0; i < 50; ++i) {
      post(t.tx, [&] {
        return fi_fetch_atomic(t.ep, &one, 1, nullptr, &old, nullptr, t.peer, 0, 78, FI_UINT64, FI_SUM, number(2));
      });
      good(t.tx, number(2));
    }
    t.send(letter, number(3));
    good(t.tx, number(3));
    std::uint64_t before = 0;
    std::memcpy(&before, out.data(), sizeof before);
    CHECK(old == before + 49);
    t.sync();
  } else {
    t.sync();
    good(t.rx, &posted);
    CHECK(posted == pattern(kBig, 6));
    Bytes wanted = pattern(kBig, 5);
    CHECK(std::equal(wanted.begin() + 8, wanted.end(), memory.begin() + 8));
  }
  t.sync();
  OK(fi_close(&mr->fid));
}

/// Connected, with everything delivered, and nobody calls: less than a hundredth of a processor.
void idle_cost(Pair& pair) {
  Talk t(pair);
  Bytes b(1000);
  if (t.client) {
    t.send(b, &b);
    good(t.tx, &b);
  } else {
    t.recv(b, &b);
    good(t.rx, &b);
  }
  t.sync();
  nap(0.5);
  const double start = now(), used = cpu_seconds();
  nap(3);
  const double share = (cpu_seconds() - used) / (now() - start);
  if (share >= 0.01) throw std::runtime_error("idle, and " + std::to_string(share * 100) + " % of a processor");
  t.sync();
}

}  // namespace

std::vector<Test> overrun_tests() {
  return {{"unread queues", unread_queues},
          {"unread remote CQ data", unread_remote_data},
          {"unread multi-receive", unread_multi_receive},
          {"a peer that calls nothing", silent_peer},
          {"idle CPU", idle_cost}};
}

}  // namespace talk
