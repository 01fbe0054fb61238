// SPDX-License-Identifier: BSD-2-Clause
// Receives: posted and unexpected messages, multi-receive, peek and claim, rendezvous into matched buffers.
#include <rdma/fi_domain.h>

#include <algorithm>
#include <cstring>

#include "messenger.hpp"

namespace mrc::prov::msg {
namespace {

bool matches(const RxOp& op, const EndpointName& from, std::uint64_t tag) {
  if (op.directed && !(op.from == from)) return false;
  return !op.tagged || ((op.tag ^ tag) & ~op.ignore) == 0;
}

std::uint64_t receive_flags(bool tagged, bool has_data) {
  return FI_RECV | (tagged ? FI_TAGGED : FI_MSG) | (has_data ? FI_REMOTE_CQ_DATA : 0);
}

}  // namespace

RxOp* Messenger::match_posted(bool tagged, const EndpointName& from, std::uint64_t tag) {
  for (auto& op : posted_[tagged])
    if (matches(op, from, tag)) return &op;
  return nullptr;
}

Unexpected* Messenger::match_unexpected(const Receive& r) {
  for (auto& u : unexpected_[r.tagged]) {
    if (r.from != nullptr && !(u.peer->name == *r.from)) continue;
    if (r.tagged && ((u.tag ^ r.tag) & ~r.ignore) != 0) continue;
    return &u;
  }
  return nullptr;
}

Messenger::Outcome Messenger::on_message(Peer& p, const Record& r, Chunk** owner) {
  const bool tagged = (r.flags & kFlagTagged) != 0;
  Unexpected now;  // on the stack: most messages meet a posted receive
  now.peer = &p;
  now.epoch = p.epoch;
  now.tagged = tagged;
  now.rts = r.type == RecordType::kRts;
  now.has_data = (r.flags & kFlagCqData) != 0;
  now.want_ack = (r.flags & kFlagAck) != 0;
  now.op = r.op;
  now.tag = r.tag;
  now.data = r.data;
  now.length = r.length;
  if (RxOp* op = match_posted(tagged, p.name, r.tag)) {
    if (op->multi && !host_.room()) return Outcome::kStall;
    return deliver(*op, p, now, r.bytes) == 0 ? Outcome::kTaken : Outcome::kStall;
  }
  Unexpected* u = unexpected_pool_.take();
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
        unexpected_pool_.give(u);
        return Outcome::kStall;
      }
      std::memcpy(chunk->data, r.bytes.data(), r.bytes.size());
    }
  }
  now.index = u->index;
  *u = now;
  u->chunk = chunk;
  unexpected_[tagged].push_back(*u);
  ++statistics_.unexpected;
  return Outcome::kTaken;
}

int Messenger::deliver(RxOp& op, Peer& p, const Unexpected& m, std::span<const std::byte> bytes) {
  const std::size_t room = op.length - op.used;
  const std::size_t n = static_cast<std::size_t>(std::min<std::uint64_t>(room, m.length));
  if (m.rts && n != 0) {
    if (handles_.available() == 0) return -FI_EAGAIN;
    RxOp* rx = &op;
    if (op.multi) {
      rx = rx_ops_.take();
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
      op.posted.unlink();
    }
    rx->total = m.length;
    rx->matched_tag = m.tag;
    rx->has_data = m.has_data;
    rx->data = m.data;
    Handle* h = take_handle(p, Handle::Use::kReceive, n);
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
  if (!bytes.empty()) scatter({op.pieces.data(), op.piece_count}, op.used, bytes.first(std::min(n, bytes.size())));
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
    op.posted.unlink();
  }
  complete_receive(op, &p, m.tag, m.has_data, m.data, n, m.length, where, 0);
  return 0;
}

void Messenger::complete_receive(RxOp& op, const Peer* p, std::uint64_t tag, bool has_data, std::uint64_t data,
                                 std::size_t placed, std::uint64_t total, std::byte* where, int error) {
  Done done;
  done.kind = OpKind::kRecv;
  done.peer = p;
  done.signal = op.signal;
  done.completion.op_context = op.context;
  done.completion.flags = receive_flags(op.tagged, has_data);
  done.completion.len = placed;
  done.completion.tag = tag;
  done.completion.data = has_data ? data : 0;
  done.completion.buf = where;
  done.error = error;
  if (error == 0 && total > placed) {
    done.error = FI_ETRUNC;
    done.overflow = static_cast<std::size_t>(total - placed);
  }
  RxOp* multi = op.multi ? &op : op.parent;
  if (multi == nullptr) {
    rx_ops_.give(&op);
    host_.done(done);
    return;
  }
  if (op.parent != nullptr) {
    --multi->children;
    rx_ops_.give(&op);
  }
  retire_multi(*multi);
  const bool last = multi->detached && multi->children == 0;
  if (last) {
    done.completion.flags |= FI_MULTI_RECV;
    rx_ops_.give(multi);
  }
  host_.done(done);
}

/// Takes a multi-receive buffer off the list when too little is left of it.
void Messenger::retire_multi(RxOp& op) {
  if (op.detached || (op.length - op.used >= config_.min_multi_recv && op.length != op.used)) return;
  op.detached = true;
  op.posted.unlink();
}

void Messenger::rendezvous_arrived(Handle& h) {
  RxOp& rx = *h.receive;
  Peer& p = *h.peer;
  const std::size_t n = h.length;
  free_handle(&h);
  std::byte* where = rx.parent != nullptr ? static_cast<std::byte*>(const_cast<void*>(rx.pieces[0].base)) : nullptr;
  complete_receive(rx, &p, rx.matched_tag, rx.has_data, rx.data, n, rx.total, where, 0);
}

void Messenger::receive_failed(RxOp& rx, Peer& p, int error, std::string_view) {
  complete_receive(rx, &p, rx.matched_tag, rx.has_data, rx.data, 0, rx.total, nullptr, error);
}

int Messenger::fill(RxOp& op, const Receive& r) {
  op.context = r.context;
  op.tagged = r.tagged;
  op.signal = r.signal;
  op.multi = r.multi;
  op.directed = r.from != nullptr;
  op.detached = false;
  if (op.directed) op.from = *r.from;
  op.tag = r.tag;
  op.ignore = r.ignore;
  std::copy(r.pieces.begin(), r.pieces.end(), op.pieces.begin());
  op.piece_count = static_cast<std::uint32_t>(r.pieces.size());
  op.length = op.used = 0;
  op.children = 0;
  op.parent = nullptr;
  for (const auto& piece : r.pieces) op.length += piece.length;
  return 0;
}

int Messenger::receive(const Receive& r) {
  if (r.pieces.size() > kMaxIov || (r.multi && r.pieces.size() != 1)) return -FI_EINVAL;
  RxOp* op = rx_ops_.take();
  if (op == nullptr) return -FI_EAGAIN;
  fill(*op, r);
  if (r.multi) {
    posted_[r.tagged].push_back(*op);
    feed_multi(*op);
    return 0;
  }
  Unexpected* u = match_unexpected(r);
  if (u == nullptr) {
    posted_[r.tagged].push_back(*op);
    return 0;
  }
  std::span<const std::byte> bytes;
  if (u->chunk != nullptr) bytes = {u->chunk->data + u->chunk->offset, u->chunk->length};
  if (const int status = deliver(*op, *u->peer, *u, bytes); status != 0) {
    rx_ops_.give(op);
    return status;
  }
  Peer& p = *u->peer;
  drop(*u);
  if (!p.control.empty()) flush(p);
  return 0;
}

/// Lets unexpected messages into a newly posted multi-receive buffer.
void Messenger::feed_multi(RxOp& op) {
  Receive r;
  r.tagged = op.tagged;
  r.from = op.directed ? &op.from : nullptr;
  r.tag = op.tag;
  r.ignore = op.ignore;
  const EndpointName from = op.from;
  if (r.from != nullptr) r.from = &from;
  // Once it is used up it may be gone: the list tells, and its context is not looked at again.
  while (op.posted.is_linked() && host_.room()) {
    Unexpected* u = match_unexpected(r);
    if (u == nullptr) return;
    std::span<const std::byte> bytes;
    if (u->chunk != nullptr) bytes = {u->chunk->data + u->chunk->offset, u->chunk->length};
    if (deliver(op, *u->peer, *u, bytes) != 0) return;
    Peer& p = *u->peer;
    drop(*u);
    if (!p.control.empty()) mark(p);
  }
}

void Messenger::drop(Unexpected& u) {
  u.link.unlink();
  if (u.chunk != nullptr) chunks_.give(std::exchange(u.chunk, nullptr));
  unexpected_pool_.give(&u);
}

int Messenger::peek(const Receive& r, bool claim, bool discard) {
  Unexpected* u = match_unexpected(r);
  Done done;
  done.kind = OpKind::kRecv;
  done.signal = true;
  done.counts = false;
  done.completion.op_context = r.context;
  if (u == nullptr) {
    done.completion.flags = receive_flags(r.tagged, false);
    done.completion.tag = r.tag;
    done.error = FI_ENOMSG;
    host_.done(done);
    return 0;
  }
  done.peer = u->peer;
  done.signal = r.signal;
  done.completion.flags = receive_flags(r.tagged, u->has_data);
  done.completion.len = u->length;
  done.completion.tag = u->tag;
  done.completion.data = u->data;
  if (claim) {
    if (r.context == nullptr) return -FI_EINVAL;
    u->link.unlink();
    claimed_.push_back(*u);
    static_cast<fi_context*>(r.context)->internal[0] = u;
  } else if (discard) {
    discard_message(*u);
  }
  host_.done(done);
  return 0;
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

int Messenger::claim(const Receive& r, bool discard) {
  if (r.context == nullptr || r.pieces.size() > kMaxIov) return -FI_EINVAL;
  auto* u = static_cast<Unexpected*>(static_cast<fi_context*>(r.context)->internal[0]);
  const auto found = std::find_if(claimed_.begin(), claimed_.end(), [u](const Unexpected& c) { return &c == u; });
  if (found == claimed_.end() || u->tagged != r.tagged) return -FI_EINVAL;
  RxOp* op = rx_ops_.take();
  if (op == nullptr) return -FI_EAGAIN;
  fill(*op, r);
  if (discard || u->dead) {
    const auto tag = u->tag;
    const auto has_data = u->has_data;
    const auto data = u->data;
    const int error = u->dead ? FI_ECONNRESET : 0;
    Peer* p = u->peer;
    if (u->dead)
      drop(*u);
    else
      discard_message(*u);
    complete_receive(*op, p, tag, has_data, data, 0, 0, nullptr, error);
    return 0;
  }
  std::span<const std::byte> bytes;
  if (u->chunk != nullptr) bytes = {u->chunk->data + u->chunk->offset, u->chunk->length};
  if (const int status = deliver(*op, *u->peer, *u, bytes); status != 0) {
    rx_ops_.give(op);
    return status;
  }
  Peer& p = *u->peer;
  drop(*u);
  if (!p.control.empty()) flush(p);
  return 0;
}

int Messenger::cancel(void* context) {
  for (auto& list : posted_)
    for (auto& op : list) {
      if (op.context != context) continue;
      op.posted.unlink();
      op.detached = true;
      Done done;
      done.kind = OpKind::kRecv;
      done.signal = true;
      done.error = FI_ECANCELED;
      done.completion.op_context = context;
      done.completion.flags = receive_flags(op.tagged, false) | (op.multi && op.children == 0 ? FI_MULTI_RECV : 0);
      done.completion.tag = op.tag;
      if (op.children == 0) rx_ops_.give(&op);
      host_.done(done);
      return 0;
    }
  return -FI_ENOENT;
}

}  // namespace mrc::prov::msg
