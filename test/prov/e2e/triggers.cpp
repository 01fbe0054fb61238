// SPDX-License-Identifier: BSD-2-Clause
// Operations that wait for counters: FI_TRIGGER, deferred work, cancelling both; sources that nobody inserted; fences
// and FI_MORE through the public interface.
#include <rdma/fi_trigger.h>

#include <cstring>

#include "talk.hpp"

namespace talk {
namespace {

struct Cntr {
  explicit Cntr(Host& host) {
    fi_cntr_attr attr{};
    OK(fi_cntr_open(host.domain, &attr, &fid, nullptr));
  }
  ~Cntr() { fi_close(&fid->fid); }
  fid_cntr* fid = nullptr;
};

struct Region {
  Region(Host& host, Bytes& bytes, std::uint64_t key) {
    OK(fi_mr_reg(host.domain, bytes.data(), bytes.size(), FI_REMOTE_WRITE | FI_REMOTE_READ, 0, key, 0, &mr, nullptr));
  }
  ~Region() { fi_close(&mr->fid); }
  fid_mr* mr = nullptr;
};

fi_triggered_context at(const Cntr& cntr, std::size_t threshold) {
  fi_triggered_context c{};
  c.event_type = FI_TRIGGER_THRESHOLD;
  c.trigger.threshold = {cntr.fid, threshold};
  return c;
}

ssize_t tsend(Talk& t, const Bytes& bytes, std::uint64_t tag, void* context, std::uint64_t flags) {
  const iovec iov{const_cast<std::uint8_t*>(bytes.data()), bytes.size()};
  fi_msg_tagged m{};
  m.msg_iov = &iov;
  m.iov_count = 1;
  m.addr = t.peer;
  m.tag = tag;
  m.context = context;
  return fi_tsendmsg(t.ep, &m, flags | FI_COMPLETION);
}

void triggered(Pair& pair) {
  Talk t(pair);
  for (const std::size_t n : {10u, 60000u}) {
    Bytes first = pattern(n, 1), second = pattern(n, 2), into1(n), into2(n);
    if (t.client) {
      Cntr cntr(pair.host);
      auto later = at(cntr, 2), sooner = at(cntr, 1), never = at(cntr, 3);
      OK(tsend(t, second, 2, &later, FI_TRIGGER));
      OK(tsend(t, first, 1, &sooner, FI_TRIGGER));
      OK(tsend(t, first, 3, &never, FI_TRIGGER));
      t.sync();  // nothing came
      OK(fi_cntr_add(cntr.fid, 1));
      good(t.tx, &sooner);
      OK(fi_cntr_add(cntr.fid, 1));
      good(t.tx, &later);
      OK(fi_cancel(&t.ep->fid, &never));
      const Done gone = take(t.tx);
      CHECK(gone.error == FI_ECANCELED && gone.entry.op_context == &never);
      auto wrong = at(cntr, 1);
      wrong.event_type = static_cast<fi_trigger_event>(77);
      CHECK(tsend(t, first, 3, &wrong, FI_TRIGGER) == -FI_ENOSYS);
      CHECK(tsend(t, first, 3, nullptr, FI_TRIGGER) == -FI_EINVAL);
    } else {
      t.trecv(into1, 1, 0, &into1);
      t.trecv(into2, 2, 0, &into2);
      Done done;
      CHECK(!try_take(t.rx, done, 0.2));
      t.sync();
      good(t.rx, &into1);
      good(t.rx, &into2);
      CHECK(into1 == first && into2 == second);
    }
    t.sync();
  }
}

/// A chain: a message arrives in a deferred receive, that sets off a write, and that an answer. Only counters hear of
/// it.
void deferred(Pair& pair) {
  Talk t(pair);
  constexpr std::size_t kRoom = 50000;
  constexpr std::uint64_t kKey = 21;
  Bytes memory(kRoom), source = pattern(kRoom, 5), message = pattern(300, 6), into(300);
  Region region(pair.host, memory, kKey);
  Cntr start(pair.host), received(pair.host), written(pair.host), answered(pair.host);
  t.sync();
  iovec iov{};
  fi_op_msg message_op{};
  message_op.ep = t.ep;
  message_op.msg.msg_iov = &iov;
  message_op.msg.iov_count = 1;
  message_op.msg.addr = t.peer;
  fi_deferred_work w{};
  const auto queue = [&] { OK(fi_control(&pair.host.domain->fid, FI_QUEUE_WORK, &w)); };
  const auto on = [&](Cntr& when, Cntr& then, fi_op_type op) {
    w = {};
    w.triggering_cntr = when.fid;
    w.threshold = 1;
    w.completion_cntr = then.fid;
    w.op_type = op;
    w.op.msg = &message_op;
  };
  if (t.client) {
    iov = {into.data(), into.size()};
    on(start, answered, FI_OP_RECV);
    queue();
    OK(fi_cntr_add(start.fid, 1));
    t.sync();
    t.send(message, &message);
    good(t.tx, &message);
    OK(fi_cntr_wait(answered.fid, 1, 20000));
    CHECK(into == message);
    CHECK(memory == source);  // the answer was sent when the write was complete
    CHECK(fi_cntr_read(t.counter[Node::kReceived]) == 0);
    Done done;
    CHECK(!try_take(t.rx, done, 0.05));
  } else {
    iov = {into.data(), into.size()};
    on(start, received, FI_OP_RECV);
    queue();
    OK(fi_cntr_add(start.fid, 1));
    fi_rma_iov target{0, kRoom, kKey};
    iovec from{source.data(), source.size()};
    fi_op_rma write{};
    write.ep = t.ep;
    write.msg.msg_iov = &from;
    write.msg.iov_count = 1;
    write.msg.addr = t.peer;
    write.msg.rma_iov = &target;
    write.msg.rma_iov_count = 1;
    on(received, written, FI_OP_WRITE);
    w.op.rma = &write;
    queue();
    iov = {into.data(), into.size()};
    on(written, answered, FI_OP_SEND);
    queue();
    from = {};  // what was queued has copies of the descriptions
    iov = {};
    t.sync();
    OK(fi_cntr_wait(answered.fid, 1, 20000));
    CHECK(into == message);
    CHECK(fi_cntr_read(written.fid) == 1 && fi_cntr_read(t.counter[Node::kWritten]) == 0);
    CHECK(fi_cntr_read(t.counter[Node::kSent]) == 0);
    Done done;
    CHECK(!try_take(t.tx, done, 0.05));
  }
  t.sync();
}

/// FI_SOURCE_ERR: a stranger's message is reported with its address, which makes it an acquaintance.
void strangers(Pair& pair) {
  Talk t(pair);
  Bytes out = pattern(100, 9), into(100);
  if (t.client) {
    const auto theirs = t.pair.line.swap(t.name());
    const fi_addr_t to = t.insert(theirs);
    for (int i = 0; i < 2; ++i) post(t.tx, [&] { return fi_tsend(t.ep, out.data(), 100, nullptr, to, 7, &out); });
    good(t.tx, &out);
    good(t.tx, &out);
    t.sync();
    return;
  }
  fi_info* info = fi_dupinfo(pair.host.info);
  info->caps |= FI_SOURCE | FI_SOURCE_ERR;
  fid_ep* ep = nullptr;
  fid_cq* cq = nullptr;
  fid_av* av = nullptr;
  fi_cq_attr cq_attr{};
  cq_attr.format = FI_CQ_FORMAT_TAGGED;
  fi_av_attr av_attr{};
  OK(fi_cq_open(pair.host.domain, &cq_attr, &cq, nullptr));
  OK(fi_av_open(pair.host.domain, &av_attr, &av, nullptr));
  OK(fi_endpoint(pair.host.domain, info, &ep, nullptr));
  OK(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV));
  OK(fi_ep_bind(ep, &av->fid, 0));
  OK(fi_enable(ep));
  Name own{};
  own.length = sizeof own.bytes;
  OK(fi_getname(&ep->fid, own.bytes, &own.length));
  for (int i = 0; i < 2; ++i) OK(fi_trecv(ep, into.data(), 100, nullptr, FI_ADDR_UNSPEC, 7, 0, &into));
  const auto theirs = t.pair.line.swap(own);
  fi_cq_tagged_entry entry{};
  fi_addr_t source = 0;
  ssize_t got = 0;
  for (const double limit = now() + 20; (got = fi_cq_readfrom(cq, &entry, 1, &source)) == -FI_EAGAIN;)
    CHECK(now() < limit);
  CHECK(got == -FI_EAVAIL);
  fi_cq_err_entry error{};
  CHECK(fi_cq_readerr(cq, &error, 0) == 1);
  CHECK(error.err == FI_EADDRNOTAVAIL && error.op_context == &into && error.len == 100 && error.tag == 7);
  CHECK(into == out);
  CHECK(error.err_data_size == theirs.length && std::memcmp(error.err_data, theirs.bytes, theirs.length) == 0);
  // What came before the address was inserted is a stranger's all the same, if it is there already.
  fi_addr_t inserted = FI_ADDR_NOTAVAIL;
  CHECK(fi_av_insert(av, error.err_data, 1, &inserted, 0, nullptr) == 1);
  for (const double limit = now() + 20; (got = fi_cq_readfrom(cq, &entry, 1, &source)) == -FI_EAGAIN;)
    CHECK(now() < limit);
  if (got == 1) {
    CHECK(source == inserted);
  } else {
    CHECK(fi_cq_readerr(cq, &error, 0) == 1);
    CHECK(error.err == FI_EADDRNOTAVAIL);
  }
  t.sync();
  fi_close(&ep->fid);
  fi_close(&cq->fid);
  fi_close(&av->fid);
  fi_freeinfo(info);
}

/// A large message, then a fenced small one: it arrives when the large one is complete. FI_MORE without more still
/// leaves.
void fences(Pair& pair) {
  Talk t(pair);
  Bytes large = pattern(1 << 20, 3), small = pattern(8, 4), into(1 << 20), tiny(8), last(8);
  if (t.client) {
    post(t.tx, [&] { return tsend(t, large, 1, &large, FI_DELIVERY_COMPLETE); });
    post(t.tx, [&] { return tsend(t, small, 2, &small, FI_FENCE); });
    good(t.tx, &large);
    good(t.tx, &small);
    post(t.tx, [&] { return tsend(t, small, 3, &tiny, FI_MORE); });
    t.sync();  // no progress by the application meanwhile: the service thread sends it
    good(t.tx, &tiny);
  } else {
    t.trecv(tiny, 2, 0, &tiny);
    t.trecv(last, 3, 0, &last);
    nap(0.05);
    t.trecv(into, 1, 0, &into);
    good(t.rx, &into);
    CHECK(into == large);
    good(t.rx, &tiny);
    CHECK(tiny == small);
    good(t.rx, &last);
    CHECK(last == small);
    t.sync();
  }
  t.sync();
}

}  // namespace

std::vector<Test> trigger_tests() {
  return {{"triggered", triggered}, {"deferred work", deferred}, {"strangers", strangers}, {"fence and more", fences}};
}

}  // namespace talk
