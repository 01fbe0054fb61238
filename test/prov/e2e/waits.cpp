// SPDX-License-Identifier: BSD-2-Clause
// Waiting without polling: fi_cq_sread, a descriptor in poll(), fi_cq_signal, fi_cntr_wait; and the formats of queues.
#include <poll.h>

#include <cstring>
#include <thread>

#include "talk.hpp"

namespace talk {
namespace {

void blocking_read(Pair& pair) {
  Talk t(pair);
  Bytes b(100);
  if (t.client) {
    t.sync();
    nap(0.3);
    t.send(b, &b);
    good(t.tx, &b);
  } else {
    fi_cq_tagged_entry entry{};
    double start = now();
    CHECK(fi_cq_sread(t.rx, &entry, 1, nullptr, 100) == -FI_EAGAIN && now() - start > 0.09 && now() - start < 2);
    t.recv(b, &b);
    t.sync();
    start = now();
    CHECK(fi_cq_sread(t.rx, &entry, 1, nullptr, 10000) == 1 && entry.op_context == &b && entry.len == 100);
    CHECK(now() - start > 0.1 && now() - start < 5);
  }
  t.sync();
}

void descriptor(Pair& pair) {
  Shape shape;
  shape.wait = FI_WAIT_FD;
  Talk t(pair, shape);
  Bytes b(70000);
  for (int round = 0; round < 20; ++round) {
    if (t.client) {
      t.sync();
      nap(round == 0 ? 0.2 : 0.001 * round);
      t.send(b, &b);
      good(t.tx, &b);
    } else {
      int fd = -1;
      OK(fi_control(&t.rx->fid, FI_GETWAIT, &fd));
      t.recv(b, &b);
      t.sync();
      fid* fids[] = {&t.rx->fid};
      Done done;
      for (const double limit = now() + 10;;) {
        CHECK(now() < limit);
        const int status = fi_trywait(pair.host.fabric, fids, 1);
        CHECK(status == 0 || status == -FI_EAGAIN);
        pollfd p{fd, POLLIN, 0};
        if (status == 0) CHECK(poll(&p, 1, 5000) == 1);
        if (try_take(t.rx, done, 0)) break;
      }
      CHECK(done.error == 0 && done.entry.op_context == &b);
    }
    t.sync();
  }
}

void signalled(Pair& pair) {
  Talk t(pair);
  std::thread waker([&] {
    nap(0.1);
    fi_cq_signal(t.rx);
  });
  fi_cq_tagged_entry entry{};
  const double start = now();
  const ssize_t n = fi_cq_sread(t.rx, &entry, 1, nullptr, 10000);
  waker.join();
  CHECK((n == -FI_EAGAIN || n == -FI_ECANCELED || n == 0) && now() - start < 3);
  t.sync();
}

void counters(Pair& pair) {
  Talk t(pair);
  fid_cntr* received = t.counter[Node::kReceived];
  std::vector<Bytes> b(10, Bytes(5000));
  if (t.client) {
    t.sync();
    nap(0.2);
    for (auto& one : b) t.send(one, &one);
    OK(fi_cntr_wait(t.counter[Node::kSent], b.size(), 10000));
  } else {
    CHECK(fi_cntr_wait(received, 1, 50) == -FI_ETIMEDOUT);
    for (auto& one : b) t.recv(one, &one);
    t.sync();
    OK(fi_cntr_wait(received, b.size(), 10000));
    CHECK(fi_cntr_read(received) == b.size() && fi_cntr_readerr(received) == 0);
    OK(fi_cntr_set(received, 100));
    OK(fi_cntr_add(received, 5));
    OK(fi_cntr_wait(received, 105, 5000));
  }
  t.sync();
}

void formats(Pair& pair) {
  for (const fi_cq_format format : {FI_CQ_FORMAT_CONTEXT, FI_CQ_FORMAT_MSG, FI_CQ_FORMAT_DATA, FI_CQ_FORMAT_TAGGED}) {
    Shape shape;
    shape.format = format;
    Talk t(pair, shape);
    Bytes b(321);
    if (t.client) {
      t.sync();
      post(t.tx, [&] { return fi_tsenddata(t.ep, b.data(), b.size(), nullptr, 42, t.peer, 43, &b); });
    } else {
      t.trecv(b, 43, 0, &b);
      t.sync();
    }
    // Two entries of room and a mark behind the first: no more is written than the format has.
    fi_cq_tagged_entry entry[2];
    std::memset(static_cast<void*>(entry), 0x5a, sizeof entry);
    ssize_t n = -FI_EAGAIN;
    for (const double limit = now() + 10; n == -FI_EAGAIN && now() < limit;)
      n = fi_cq_read(t.client ? t.tx : t.rx, entry, 1);
    CHECK(n == 1 && entry[0].op_context == &b);
    constexpr std::size_t kLength[] = {0, sizeof(fi_cq_entry), sizeof(fi_cq_msg_entry), sizeof(fi_cq_data_entry),
                                       sizeof(fi_cq_tagged_entry)};
    const auto* raw = reinterpret_cast<const std::uint8_t*>(entry);
    for (std::size_t i = kLength[format]; i < sizeof entry; ++i) CHECK(raw[i] == 0x5a);
    if (!t.client && format >= FI_CQ_FORMAT_MSG) CHECK(entry[0].len == 321 && (entry[0].flags & FI_TAGGED) != 0);
    if (!t.client && format >= FI_CQ_FORMAT_DATA) CHECK(entry[0].data == 42);
    if (!t.client && format == FI_CQ_FORMAT_TAGGED) CHECK(entry[0].tag == 43);
    t.sync();
  }
}

}  // namespace

std::vector<Test> wait_tests() {
  return {{"fi_cq_sread", blocking_read},
          {"FI_WAIT_FD", descriptor},
          {"fi_cq_signal", signalled},
          {"counters", counters},
          {"CQ formats", formats}};
}

}  // namespace talk
