// SPDX-License-Identifier: BSD-2-Clause
// From an ordered message record to a receive: matched at once or kept, delivered, completed; rendezvous into matched
// buffers. The application's side of it is receive.cpp.
#include <rdma/fi_domain.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "messenger.hpp"

namespace mrc::prov::msg {

std::uint64_t receive_flags(bool tagged, bool has_data) {
  return FI_RECV | (tagged ? FI_TAGGED : FI_MSG) | (has_data ? FI_REMOTE_CQ_DATA : 0);
}

Messenger::Outcome Messenger::on_message(Peer& p, const Record& r, Chunk** owner) {
  if (r.context >= tables_.size()) {  // a receive context that this endpoint does not have
    ++statistics_.refused;
    fin(p, r.op, FI_EADDRNOTAVAIL);
    credit_message(p, p.epoch, r.type == RecordType::kRts ? 0 : r.length);
    return Outcome::kTaken;
  }
  MatchTable& table = *tables_[r.context];
  Message now;  // on the stack: most messages meet a posted receive
  now.peer = &p;
  now.from = p.name;
  now.epoch = p.epoch;
  now.op = r.op;
  now.tagged = (r.flags & kFlagTagged) != 0;
  now.rts = r.type == RecordType::kRts;
  now.has_data = (r.flags & kFlagCqData) != 0;
  now.want_ack = (r.flags & kFlagAck) != 0;
  now.tag = r.tag;
  now.data = r.data;
  now.length = r.length;
  if (RxOp* op = table.find(now.tagged, now.from, now.tag)) {
    // Those that wait for this buffer came earlier.
    if (op->multi && (op->hungry.is_linked() || !table.host(host_).room())) return Outcome::kStall;
    return deliver(*op, p, now, r.bytes) == 0 ? Outcome::kTaken : Outcome::kStall;
  }
  Unexpected* u = table.take_unexpected();
  if (u == nullptr) return Outcome::kStall;
  Chunk* chunk = nullptr;
  if (!r.bytes.empty()) {
    if (owner != nullptr) {
      chunk = std::exchange(*owner, nullptr);
      chunk->offset = static_cast<std::uint32_t>(r.bytes.data() - chunk->data);
      chunk->length = static_cast<std::uint32_t>(r.bytes.size());
    } else {
      chunk = chunks_.take(r.bytes.size());
      if (chunk == nullptr) {
        table.give(*u);
        return Outcome::kStall;
      }
      std::memcpy(chunk->data, r.bytes.data(), r.bytes.size());
    }
  }
  static_cast<Message&>(*u) = now;
  u->claimed = u->dead = false;
  u->table = &table;
  u->messenger = this;
  u->chunk = chunk;
  p.waiting.push_back(*u);
  table.add(*u);
  ++statistics_.unexpected;
  return Outcome::kTaken;
}

int Messenger::deliver(RxOp& op, Peer& p, const Message& m, std::span<const std::byte> bytes) {
  const std::size_t room = op.length - op.used;
  const std::size_t n = static_cast<std::size_t>(std::min<std::uint64_t>(room, m.length));
  if (m.rts && n != 0) {
    if (handles_.available() == 0) return -FI_EAGAIN;
    RxOp* rx = &op;
    if (op.multi) {
      rx = op.table->take();
      if (rx == nullptr) return -FI_EAGAIN;
      rx->context = op.context;
      rx->tagged = op.tagged;
      rx->signal = true;
      rx->multi = false;
      rx->parent = &op;
      rx->used = 0;
      rx->length = n;
      rx->pieces[0] = {static_cast<const std::byte*>(op.pieces[0].base) + op.used, n};
      rx->piece_count = 1;
      ++op.children;
      op.used += n;
    } else {
      op.table->unpost(op);
    }
    rx->total = m.length;
    rx->matched_tag = m.tag;
    rx->has_data = m.has_data;
    rx->data = m.data;
    Handle* h = take_handle(p, Handle::Use::kReceive, n, {rx->pieces.data(), rx->piece_count});
    h->receive = rx;
    Record cts;
    cts.type = RecordType::kCts;
    cts.op = m.op;
    cts.handle = h->rkey();
    cts.length = n;
    add_control(p, cts);
    credit_message(p, m.epoch, 0);
    ++statistics_.rendezvous;
    if (rx != &op) retire_multi(op);
    return 0;
  }
  if (m.rts && m.epoch == p.epoch) {  // nothing to send: the receive has no room, or the message is empty
    Record cts;
    cts.type = RecordType::kCts;
    cts.op = m.op;
    add_control(p, cts);
  }
  const bool good =
      bytes.empty() || scatter({op.pieces.data(), op.piece_count}, op.used, bytes.first(std::min(n, bytes.size())));
  if (m.want_ack && !m.rts && m.epoch == p.epoch) {
    Record ack;
    ack.type = RecordType::kAck;
    ack.op = m.op;
    add_control(p, ack);
  }
  credit_message(p, m.epoch, m.rts ? 0 : m.length);
  std::byte* where = nullptr;
  if (op.multi) {
    where = static_cast<std::byte*>(const_cast<void*>(op.pieces[0].base)) + op.used;
    op.used += n;
  } else {
    op.table->unpost(op);
  }
  complete_receive(op, m, n, where, good ? 0 : FI_EIO);
  return 0;
}

int Messenger::deliver(RxOp& op, Unexpected& u, bool later) {
  Peer& p = *u.peer;
  if (const int status = deliver(op, p, u, u.bytes()); status != 0) return status;
  drop(u);
  if (p.control.empty()) return 0;
  if (later)
    mark(p);
  else
    flush(p);
  return 0;
}

void Messenger::complete_receive(RxOp& op, const Message& m, std::size_t placed, std::byte* where, int error) {
  MatchTable& table = *op.table;
  Listener& listener = table.host(host_);
  Done done;
  done.kind = OpKind::kRecv;
  done.peer = m.peer;
  done.from = m.from;
  done.signal = op.signal;
  done.completion.op_context = op.context;
  done.completion.flags = receive_flags(op.tagged, m.has_data);
  done.completion.len = placed;
  done.completion.tag = m.tag;
  done.completion.data = m.has_data ? m.data : 0;
  done.completion.buf = where;
  done.error = error;
  if (error == 0 && m.length > placed) {
    done.error = FI_ETRUNC;
    done.overflow = static_cast<std::size_t>(m.length - placed);
  }
  RxOp* multi = op.multi ? &op : op.parent;
  if (multi == nullptr) {
    done.deferred = op.deferred;
    done.counter = op.counter;
    table.give(op);
    listener.done(done);
    return;
  }
  if (op.parent != nullptr) {
    --multi->children;
    table.give(op);
  }
  retire_multi(*multi);
  const bool last = multi->detached && multi->children == 0;
  if (last) {
    done.completion.flags |= FI_MULTI_RECV;
    table.give(*multi);
  }
  listener.done(done);
}

/// Takes a multi-receive buffer off the list when too little is left of it.
void Messenger::retire_multi(RxOp& op) {
  if (op.detached || (op.length - op.used >= op.table->min_multi_recv() && op.length != op.used)) return;
  op.detached = true;
  op.table->unpost(op);
}

void Messenger::complete_rendezvous(RxOp& rx, Peer& p, std::size_t placed, int error) {
  Message m;
  m.peer = &p;
  m.from = p.name;
  m.tag = rx.matched_tag;
  m.has_data = rx.has_data;
  m.data = rx.data;
  m.length = rx.total;
  std::byte* where = nullptr;
  if (error == 0 && rx.parent != nullptr) where = static_cast<std::byte*>(const_cast<void*>(rx.pieces[0].base));
  complete_receive(rx, m, placed, where, error);
}

void Messenger::drop(Unexpected& u) {
  u.table->remove(u);
  u.of_peer.unlink();
  if (u.chunk != nullptr) chunks_.give(std::exchange(u.chunk, nullptr));
  u.table->give(u);
}

/// Throws a message away as if it had been received into nothing; its sender completes normally.
void Messenger::discard_message(Unexpected& u) {
  Peer& p = *u.peer;
  if (u.epoch == p.epoch && (u.rts || u.want_ack)) {
    Record r;
    r.type = u.rts ? RecordType::kCts : RecordType::kAck;
    r.op = u.op;
    add_control(p, r);
  }
  credit_message(p, u.epoch, u.rts ? 0 : u.length);
  drop(u);
}

}  // namespace mrc::prov::msg
