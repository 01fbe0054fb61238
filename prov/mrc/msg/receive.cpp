// SPDX-License-Identifier: BSD-2-Clause
// MatchTable's calls from the application: receive, multi-receive, peek, claim, cancel. The message that a receive
// meets is delivered by the Messenger that it came to.
#include <rdma/fi_domain.h>

#include <algorithm>

#include "messenger.hpp"

namespace mrc::prov::msg {

void MatchTable::fill(RxOp& op, const Receive& r) {
  op.context = r.context;
  op.tagged = r.tagged;
  op.signal = r.signal;
  op.multi = r.multi;
  op.directed = r.from != nullptr;
  op.detached = false;
  op.from = op.directed ? *r.from : EndpointName{};
  op.tag = r.tag;
  op.ignore = r.ignore;
  std::copy(r.pieces.begin(), r.pieces.end(), op.pieces.begin());
  op.piece_count = static_cast<std::uint32_t>(r.pieces.size());
  op.length = op.used = 0;
  op.children = 0;
  op.parent = nullptr;
  op.deferred = r.deferred;
  op.counter = r.counter;
  for (const auto& piece : r.pieces) op.length += piece.length;
}

int MatchTable::receive(const Receive& r) {
  if (r.pieces.size() > kMaxIov || (r.multi && r.pieces.size() != 1)) return -FI_EINVAL;
  RxOp* op = take();
  if (op == nullptr) return -FI_EAGAIN;
  fill(*op, r);
  if (r.multi) {
    post(*op);
    feed(*op);
    return 0;
  }
  Unexpected* u = find(r);
  if (u == nullptr) {
    post(*op);
    return 0;
  }
  const int status = u->messenger->deliver(*op, *u, false);
  if (status != 0) give(*op);
  return status;
}

/// Lets unexpected messages into a multi-receive buffer.
void MatchTable::feed(RxOp& op) {
  const EndpointName from = op.from;
  Receive r;
  r.tagged = op.tagged;
  r.from = op.directed ? &from : nullptr;
  r.tag = op.tag;
  r.ignore = op.ignore;
  // Once it is used up it may be gone: the list tells.
  while (op.posted.is_linked()) {
    Unexpected* u = find(r);
    if (u == nullptr) {
      op.hungry.unlink();
      return;
    }
    Messenger& m = *u->messenger;
    if (!host(m.host_).room() || m.deliver(op, *u, true) != 0) {
      if (!op.hungry.is_linked()) hungry_.push_back(op);
      return;
    }
  }
}

void MatchTable::feed() {
  for (auto it = hungry_.begin(); it != hungry_.end();) feed(*it++);
}

int MatchTable::peek(const Receive& r, bool claim, bool discard) {
  Unexpected* u = find(r);
  Done done;
  done.kind = OpKind::kRecv;
  done.signal = true;
  done.counts = false;
  done.completion.op_context = r.context;
  if (u == nullptr) {
    done.completion.flags = receive_flags(r.tagged, false);
    done.completion.tag = r.tag;
    done.error = FI_ENOMSG;
    own_.done(done);
    return 0;
  }
  Messenger& m = *u->messenger;
  done.peer = u->peer;
  done.from = u->from;
  done.signal = r.signal;
  done.completion.flags = receive_flags(r.tagged, u->has_data);
  done.completion.len = u->length;
  done.completion.tag = u->tag;
  done.completion.data = u->data;
  if (claim) {
    if (r.context == nullptr) return -FI_EINVAL;
    remove(*u);
    u->claimed = true;
    claimed_.push_back(*u);
    static_cast<fi_context*>(r.context)->internal[0] = u;
  } else if (discard) {
    m.discard_message(*u);
  }
  host(m.host_).done(done);
  return 0;
}

int MatchTable::claim(const Receive& r, bool discard) {
  if (r.context == nullptr || r.pieces.size() > kMaxIov) return -FI_EINVAL;
  auto* u = static_cast<Unexpected*>(static_cast<fi_context*>(r.context)->internal[0]);
  const auto found = std::find_if(claimed_.begin(), claimed_.end(), [u](const Unexpected& c) { return &c == u; });
  if (found == claimed_.end() || u->tagged != r.tagged) return -FI_EINVAL;
  RxOp* op = take();
  if (op == nullptr) return -FI_EAGAIN;
  fill(*op, r);
  Messenger& m = *u->messenger;
  if (discard || u->dead) {
    Message what = *u;
    what.length = 0;
    const int error = u->dead ? FI_ECONNRESET : 0;
    if (u->dead)
      m.drop(*u);
    else
      m.discard_message(*u);
    m.complete_receive(*op, what, 0, nullptr, error);
    return 0;
  }
  const int status = m.deliver(*op, *u, false);
  if (status != 0) give(*op);
  return status;
}

void MatchTable::withdraw() {
  for (std::uint32_t i = 0; RxOp* op = receives_.at(i); ++i) {
    if (!op->posted.is_linked()) continue;
    unpost(*op);
    op->detached = true;
    if (op->children == 0) give(*op);
  }
}

int MatchTable::cancel(void* context) {
  RxOp* found = nullptr;
  for (std::uint32_t i = 0; RxOp* op = receives_.at(i); ++i)
    if (op->posted.is_linked() && op->context == context && (found == nullptr || op->order < found->order)) found = op;
  if (found == nullptr) return -FI_ENOENT;
  RxOp& op = *found;
  unpost(op);
  op.detached = true;
  Done done;
  done.kind = OpKind::kRecv;
  done.signal = true;
  done.error = FI_ECANCELED;
  done.completion.op_context = context;
  done.completion.flags = receive_flags(op.tagged, false) | (op.multi && op.children == 0 ? FI_MULTI_RECV : 0);
  done.completion.tag = op.tag;
  if (op.children == 0) give(op);
  own_.done(done);
  return 0;
}

}  // namespace mrc::prov::msg
