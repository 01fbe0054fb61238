// SPDX-License-Identifier: BSD-2-Clause
// From received write packets to records: assembling mailbox messages, sessions, order, direct placement. Everything
// here may come from a hostile peer: nothing is written outside granted handles, and what waits is bounded.
#include <cstring>
#include <utility>

#include "messenger.hpp"

namespace mrc::prov::msg {

using transport::Placement;

Placement Messenger::place(const transport::RxWrite& w) {
  if (w.conn == transport::kNoId) return Placement::kRefused;  // more peers than there is room for
  placing_ = true;
  const auto result = w.rkey == kMailboxRkey ? place_mail(w) : place_direct(w);
  placing_ = false;
  if (result == Placement::kRefused) ++statistics_.refused;
  return result;
}

Placement Messenger::place_mail(const transport::RxWrite& w) {
  Peer& p = peer_of(w.conn);
  const auto offset = static_cast<std::uint32_t>(w.va);
  const auto sequence = static_cast<std::uint32_t>(w.va >> 32);
  const std::size_t size = w.payload.size();
  if (size == w.message_length && offset == 0)
    return open_mailbox(p, w.payload, nullptr) ? Placement::kPlaced : Placement::kRefused;

  if (w.message_length > kMaxMail || size == 0 || size >= w.message_length || offset > w.message_length - size) {
    ++statistics_.malformed;
    return Placement::kRefused;
  }
  Assembly* a = nullptr;
  for (auto& each : p.assemblies)
    if (each.sequence == sequence) {
      a = &each;
      break;
    }
  if (a == nullptr) {
    if (p.assembly_count >= kOrderWindow || (a = assemblies_.take()) == nullptr) return Placement::kRefused;
    a->chunk = chunks_.take(w.message_length);
    if (a->chunk == nullptr) {
      assemblies_.give(a);
      return Placement::kRefused;
    }
    a->sequence = sequence;
    a->arrived = 0;
    a->pass = pass_;
    p.assemblies.push_back(*a);
    ++p.assembly_count;
  }
  if (a->chunk->length != w.message_length) {
    ++statistics_.malformed;
    return Placement::kRefused;
  }
  std::memcpy(a->chunk->data + offset, w.payload.data(), size);
  a->arrived += static_cast<std::uint32_t>(size);
  if (a->arrived < w.message_length) return Placement::kPlaced;

  Chunk* chunk = a->chunk;
  a->link.unlink();
  --p.assembly_count;
  assemblies_.give(a);
  return open_mailbox(p, {chunk->data, chunk->length}, chunk) ? Placement::kPlaced : Placement::kRefused;
}

bool Messenger::check_session(Peer& p, const MailHead& head) {
  // Of a life that we have left: the peer will find out from our next message.
  if (head.peer_session != 0 && head.peer_session != p.session) return false;
  if (p.their_session == head.session) return true;
  if (p.their_session != 0) {
    reset(p, FI_ECONNRESET, "the peer started over");
    ++p.resets_ahead;
    reset_seen_ = true;
    p.name = transport_.peer_name(p.conn);
  }
  p.their_session = head.session;
  return true;
}

bool Messenger::open_mailbox(Peer& p, std::span<const std::byte> bytes, Chunk* chunk) {
  MailHead head;
  bool good = decode(bytes, head);
  if (good && !check_session(p, head)) {
    ++statistics_.stale;
    bytes = {};
  }
  while (good && !bytes.empty()) {
    const std::byte* start = bytes.data();
    Record r;
    good = decode(bytes, r);
    if (!good) break;
    const std::span<const std::byte> raw(start, static_cast<std::size_t>(bytes.data() - start));
    // The last record may keep the chunk instead of copying out of it.
    good = r.ordered() ? on_ordered(p, r, raw, bytes.empty() && chunk != nullptr ? &chunk : nullptr) : on_control(p, r);
  }
  if (chunk != nullptr) chunks_.give(chunk);
  if (!good) ++statistics_.malformed;
  return good;
}

bool Messenger::on_ordered(Peer& p, const Record& r, std::span<const std::byte> raw, Chunk** owner) {
  const std::uint32_t ahead = r.sequence - p.rx_next;
  if (ahead >= kOrderWindow || r.bytes.size() > kMaxEager) return false;
  if (ahead != 0 || p.stalled) {
    ++statistics_.out_of_order;
    return hold(p, r.sequence, raw, owner);
  }
  switch (act(p, r, owner)) {
    case Outcome::kMalformed:
      return false;
    case Outcome::kStall:
      p.stalled = true;
      ++statistics_.stalls;
      mark(p);
      return hold(p, r.sequence, raw, owner);
    case Outcome::kTaken:
      break;
  }
  ++p.rx_next;
  if (p.ring) drain(p);
  return true;
}

bool Messenger::hold(Peer& p, std::uint32_t sequence, std::span<const std::byte> raw, Chunk** owner) {
  if (!p.ring) {
    if (rings_.empty()) {
      p.ring = std::make_unique<Ring>();
      rings_.reserve(rings_.capacity() + 1);  // so that giving it back never allocates
    } else {
      p.ring = std::move(rings_.back());
      rings_.pop_back();
    }
    p.ring->fill(nullptr);
  }
  Chunk*& slot = (*p.ring)[sequence % kOrderWindow];
  if (slot != nullptr) return false;
  if (owner != nullptr) {
    slot = std::exchange(*owner, nullptr);
    slot->offset = static_cast<std::uint32_t>(raw.data() - slot->data);
  } else {
    slot = chunks_.take(raw.size());
    if (slot == nullptr) return false;
    std::memcpy(slot->data, raw.data(), raw.size());
  }
  slot->length = static_cast<std::uint32_t>(raw.size());
  ++p.held;
  return true;
}

void Messenger::give_ring(Peer& p) {
  for (auto& chunk : *p.ring)
    if (chunk != nullptr) chunks_.give(std::exchange(chunk, nullptr));
  p.held = 0;
  rings_.push_back(std::move(p.ring));
}

void Messenger::drain(Peer& p) {
  p.stalled = false;
  while (p.ring) {
    Chunk*& slot = (*p.ring)[p.rx_next % kOrderWindow];
    if (slot == nullptr) return;
    std::span<const std::byte> raw(slot->data + slot->offset, slot->length);
    Record r;
    Chunk* chunk = slot;
    const auto outcome = decode(raw, r) ? act(p, r, &chunk) : Outcome::kMalformed;
    if (outcome == Outcome::kStall) {
      p.stalled = true;
      mark(p);
      return;
    }
    if (outcome == Outcome::kMalformed) ++statistics_.malformed;
    slot = nullptr;
    if (chunk != nullptr) chunks_.give(chunk);
    ++p.rx_next;
    moved_ = true;
    if (--p.held == 0) give_ring(p);
  }
}

Messenger::Outcome Messenger::act(Peer& p, const Record& r, Chunk** owner) {
  switch (r.type) {
    case RecordType::kEager:
    case RecordType::kRts:
      return must_wait(p, r, nullptr) ? Outcome::kStall : on_message(p, r, owner);
    case RecordType::kWrite:
      return on_write(p, r);
    case RecordType::kWriteRequest:
      return on_write_request(p, r);
    case RecordType::kReadRequest:
      return on_read_request(p, r);
    case RecordType::kAtomic:
      return on_atomic(p, r);
    default:
      return Outcome::kMalformed;
  }
}

TxOp* Messenger::op_of(Peer& p, std::uint32_t id) {
  TxOp* op = tx_ops_.at(id & 0xFFFF);
  return op != nullptr && op->all.is_linked() && op->id() == id && op->peer == &p && op->error == 0 ? op : nullptr;
}

bool Messenger::on_control(Peer& p, const Record& r) {
  switch (r.type) {
    case RecordType::kCts: {
      TxOp* op = op_of(p, r.op);
      if (op == nullptr) return true;  // failed meanwhile
      if (!op->large || op->kind == OpKind::kRead || op->granted || r.length > op->length) return false;
      op->granted = true;
      op->remote_handle = r.handle;
      op->remote_base = r.base;
      op->to_send = r.length;
      if (op->to_send == 0) {
        finish_if_done(*op);
      } else {
        p.data.push_back(*op);
        mark(p);
      }
      return true;
    }
    case RecordType::kFin: {
      TxOp* op = op_of(p, r.op);
      if (op == nullptr) return true;
      if (op->kind == OpKind::kSend && r.status == 0) return false;
      if (r.status != 0) {
        fail(*op, r.status < 4096 ? static_cast<int>(r.status) : int{FI_EOTHER});
      } else if (op->kind == OpKind::kWrite || op->kind == OpKind::kAtomic) {
        op->answered = true;
        finish_if_done(*op);
      }
      return true;
    }
    case RecordType::kAck: {
      TxOp* op = op_of(p, r.op);
      if (op == nullptr) return true;
      if (op->kind != OpKind::kSend || op->large) return false;
      op->answered = true;
      finish_if_done(*op);
      return true;
    }
    case RecordType::kReadData: {
      TxOp* op = op_of(p, r.op);
      if (op == nullptr) return true;
      if ((op->kind != OpKind::kRead && op->kind != OpKind::kFetchAtomic) || op->handle != nullptr || op->answered ||
          r.bytes.size() != length_of(op->landing()))
        return false;
      op->answered = true;
      if (scatter(op->landing(), 0, r.bytes))
        finish_if_done(*op);
      else
        fail(*op, FI_EIO);
      return true;
    }
    case RecordType::kCredit: {
      // Cumulative, and may overtake one another: never back.
      if (static_cast<std::int32_t>(r.credit_messages - p.allowed_messages) > 0) p.allowed_messages = r.credit_messages;
      if (static_cast<std::int32_t>(r.credit_requests - p.allowed_requests) > 0) p.allowed_requests = r.credit_requests;
      if (r.credit_bytes > p.allowed_bytes) p.allowed_bytes = r.credit_bytes;
      if (!p.messages.empty() || !p.requests.empty()) mark(p);
      return true;
    }
    default:
      return true;  // a hint of a later version
  }
}

/// One packet's bytes into what a handle stands for; with the last one all are where they belong. True: that was it.
bool Messenger::land(Handle& h, std::span<const engine::GatherPiece> pieces, const transport::RxWrite& w) {
  if (h.staging)
    std::memcpy(h.staging.get() + w.va, w.payload.data(), w.payload.size());
  else if (!scatter(pieces, w.va, w.payload))
    h.failed = true;
  h.arrived += w.payload.size();
  if (h.arrived < h.length) return false;
  if (h.staging && !scatter(pieces, 0, {h.staging.get(), static_cast<std::size_t>(h.length)})) h.failed = true;
  return true;
}

Placement Messenger::place_direct(const transport::RxWrite& w) {
  Handle* h = handles_.at(w.rkey & 0xFFFF);
  const std::size_t size = w.payload.size();
  if (h == nullptr || h->use == Handle::Use::kNone || h->rkey() != w.rkey || h->peer->conn != w.conn)
    return Placement::kRefused;
  if (size > h->length || w.va > h->length - size || size > h->length - h->arrived) return Placement::kRefused;
  switch (h->use) {
    case Handle::Use::kReceive:
      if (land(*h, {h->receive->pieces.data(), h->receive->piece_count}, w)) {
        RxOp& rx = *h->receive;
        Peer& p = *h->peer;
        const bool good = !h->failed;
        const auto placed = static_cast<std::size_t>(h->length);
        free_handle(h);
        complete_rendezvous(rx, p, good ? placed : 0, good ? 0 : FI_EIO);
      }
      break;
    case Handle::Use::kRead: {
      TxOp& op = *h->read;
      if (land(*h, op.landing(), w)) {
        const bool good = !h->failed;
        free_handle(std::exchange(op.handle, nullptr));
        op.answered = true;
        if (good)
          finish_if_done(op);
        else
          fail(op, FI_EIO);
      }
      break;
    }
    case Handle::Use::kTarget: {
      TargetOp& t = *h->target;
      if (!still_valid(t)) {
        t.error = FI_EKEYREJECTED;
        finish_target(t);
        return Placement::kRefused;
      }
      if (land(*h, {t.pieces.data(), t.piece_count}, w)) {
        if (h->failed) t.error = FI_EIO;
        t.complete = true;
        advance(t);
      }
      break;
    }
    case Handle::Use::kNone:
      break;
  }
  return Placement::kPlaced;
}

}  // namespace mrc::prov::msg
