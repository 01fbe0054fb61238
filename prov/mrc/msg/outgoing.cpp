// SPDX-License-Identifier: BSD-2-Clause
// From queued operations and answers to MRC writes: records are packed into mailbox messages, bytes of large
// operations go straight to granted handles.
#include <algorithm>
#include <cstring>

#include "cookie.hpp"
#include "messenger.hpp"

namespace mrc::prov::msg {
namespace {

/// Longest MRC message.
constexpr std::uint64_t kMaxWrite = 1u << 30;
/// Writes of one operation that the transport holds at once.
constexpr std::uint32_t kWritesAtOnce = 4;
/// Mailbox messages up to this size overtake bulk of the same connection.
constexpr std::uint32_t kUrgent = 4096;

void close_piece(Mail& m) {
  if (m.used == m.piece_start) return;
  m.pieces[m.gather.count++] = {m.buffer.data() + m.piece_start, m.used - m.piece_start};
  m.piece_start = m.used;
}

Record record_of(const TxOp& op) {
  Record r;
  r.op = op.id();
  r.context = op.rx_context;
  r.flags = static_cast<std::uint8_t>((op.tagged ? kFlagTagged : 0) | (op.has_data ? kFlagCqData : 0) |
                                      (op.want_ack ? kFlagAck : 0) | op.after);
  r.tag = op.tag;
  r.data = op.data;
  r.length = op.length;
  r.segment_count = op.segment_count;
  r.segments = op.segments;
  switch (op.kind) {
    case OpKind::kWrite:
      r.type = op.large ? RecordType::kWriteRequest : RecordType::kWrite;
      break;
    case OpKind::kRead:
      r.type = RecordType::kReadRequest;
      r.handle = op.handle != nullptr ? op.handle->rkey() : kNoHandle;
      break;
    case OpKind::kAtomic:
    case OpKind::kFetchAtomic:
      r.type = RecordType::kAtomic;
      r.atomic = op.atomic->type;
      r.handle = op.handle != nullptr ? op.handle->rkey() : kNoHandle;
      break;
    default:
      r.type = op.large ? RecordType::kRts : RecordType::kEager;
      break;
  }
  return r;
}

}  // namespace

bool Messenger::affordable(const Peer& p, const TxOp& op) const {
  if (op.kind != OpKind::kSend) return p.allowed_requests != p.sent_requests;
  return p.allowed_messages != p.sent_messages && (op.large || p.allowed_bytes - p.sent_bytes >= op.length);
}

Mail* Messenger::open_mail(Peer& p, bool control) {
  // Answers have the last slots for themselves: they are what frees the others.
  if (!control && mails_.available() <= config_.mails / 8) return nullptr;
  Mail* m = mails_.take();
  if (m == nullptr) return nullptr;
  m->peer = &p;
  m->epoch = p.epoch;
  m->ops = nullptr;
  m->piece_start = 0;
  m->gather = {m->pieces.data(), 0};
  m->used = static_cast<std::uint32_t>(encode(MailHead{p.session, p.their_session}, m->buffer.data()));
  m->length = m->used;
  return m;
}

bool Messenger::fill_control(Peer& p, Mail& m, std::size_t mtu) {
  bool any = false;
  const std::size_t room = std::min(mtu, Mail::kBuffer);
  while (!p.control.empty()) {
    Control& c = p.control.front();
    const std::size_t size = head_length(c.record.type) + c.record.bytes.size();
    if (m.used + size > room) break;
    m.used += static_cast<std::uint32_t>(encode(c.record, m.buffer.data() + m.used));
    if (!c.record.bytes.empty()) std::memcpy(m.buffer.data() + m.used, c.record.bytes.data(), c.record.bytes.size());
    m.used += static_cast<std::uint32_t>(c.record.bytes.size());
    p.control.pop_front();
    if (c.chunk != nullptr) chunks_.give(c.chunk);
    controls_.give(&c);
    ++statistics_.records;
    any = true;
  }
  if (credits_due(p, 8) && m.used + head_length(RecordType::kCredit) <= room) {
    Record r;
    r.type = RecordType::kCredit;
    r.credit_messages = kCreditMessages + p.done_messages;
    r.credit_requests = kCreditRequests + p.done_requests;
    r.credit_bytes = kCreditBytes + p.done_bytes;
    m.used += static_cast<std::uint32_t>(encode(r, m.buffer.data() + m.used));
    p.told_messages = p.done_messages;
    p.told_requests = p.done_requests;
    p.told_bytes = p.done_bytes;
    any = true;
  }
  m.length = m.used;
  return any;
}

bool Messenger::add_op(Peer& p, Mail& m, TxOp& op, std::size_t mtu) {
  Record r = record_of(op);
  const bool with_bytes = !op.large && op.kind != OpKind::kRead;
  const std::size_t bytes = with_bytes ? op.length : 0;
  const std::size_t head = head_length(r.type, r.segment_count);
  const bool copied = bytes <= config_.copy_size;
  if (m.length > kMailHead && m.length + head + bytes > mtu) return false;
  if (m.used + head + (copied ? bytes : 0) > Mail::kBuffer) return false;
  if (!copied && m.gather.count + op.gather.count + 2 > Mail::kPieces) return false;

  r.sequence = p.tx_sequence++;
  // encode() wants only the size of the bytes; they follow below.
  r.bytes = {static_cast<const std::byte*>(nullptr), bytes};
  m.used += static_cast<std::uint32_t>(encode(r, m.buffer.data() + m.used));
  if (bytes != 0 && copied) {
    for (std::uint32_t i = 0; i < op.gather.count; ++i) {
      if (op.pieces[i].length == 0) continue;
      std::memcpy(m.buffer.data() + m.used, op.pieces[i].base, op.pieces[i].length);
      m.used += static_cast<std::uint32_t>(op.pieces[i].length);
    }
  } else if (bytes != 0) {
    close_piece(m);
    for (std::uint32_t i = 0; i < op.gather.count; ++i) m.pieces[m.gather.count++] = op.pieces[i];
  }
  m.length += static_cast<std::uint32_t>(head + bytes);
  leave_queue(op);
  op.mail_next = m.ops;
  m.ops = &op;
  ++op.refs;
  ++statistics_.records;
  if (op.kind == OpKind::kSend) {
    ++p.sent_messages;
    p.sent_bytes += bytes;
  } else {
    ++p.sent_requests;
  }
  return true;
}

transport::Status Messenger::post_mail(Peer& p, Mail& m) {
  close_piece(m);
  transport::WriteRequest w;
  w.va = static_cast<std::uint64_t>(p.mail_sequence) << 32;
  w.rkey = kMailboxRkey;
  w.length = m.length;
  w.source = &m.gather;
  w.cookie = cookie(CookieKind::kMail, m.index);
  w.urgent = m.length <= kUrgent;
  const auto status = transport_.post_write(p.conn, w);
  if (status == transport::Status::kOk) {
    ++p.mail_sequence;
    ++p.mails_in_flight;
    ++statistics_.mails;
    moved_ = true;
  }
  return status;
}

void Messenger::release_mail(Mail& m) {
  for (TxOp* op = m.ops; op != nullptr; op = op->mail_next) --op->refs;
  mails_.give(&m);
}

/// Whose turn it is; null: nobody's, or a fence holds everybody. RMA goes before messages, which may wait for credits,
/// unless somebody insists on the order of submission. Messages never overtake RMA.
TxOp* Messenger::next_op(const Peer& p) const {
  auto* requests = p.requests.empty() ? nullptr : const_cast<TxOp*>(&p.requests.front());
  auto* messages = p.messages.empty() ? nullptr : const_cast<TxOp*>(&p.messages.front());
  TxOp* next = requests != nullptr ? requests : messages;
  if (p.strict_queued == 0) return next;
  if (requests != nullptr && messages != nullptr && static_cast<std::int32_t>(messages->number - requests->number) < 0)
    next = messages;
  return next != nullptr && next->fence && &p.ops.front() != next ? nullptr : next;
}

void Messenger::flush(Peer& p) {
  using transport::Status;
  if (placing_) {
    mark(p);
    return;
  }
  const std::size_t mtu = std::max<std::uint32_t>(1024, transport_.payload_mtu(p.conn));
  for (;;) {
    Mail* m = std::exchange(p.unposted, nullptr);
    if (m == nullptr) {
      TxOp* next = next_op(p);
      const bool control = !p.control.empty() || credits_due(p, 4);
      if (!control && (next == nullptr || !affordable(p, *next))) break;
      m = open_mail(p, control);
      if (m == nullptr) {
        mark(p);
        break;
      }
      fill_control(p, *m, mtu);
      while (next != nullptr && affordable(p, *next) && add_op(p, *m, *next, mtu)) next = next_op(p);
    }
    const Status status = post_mail(p, *m);
    if (status == Status::kOk) continue;
    p.unposted = m;
    if (status != Status::kAgain) {
      reset(p, error_of(status), transport_.why(p.conn));
      return;
    }
    mark(p);
    break;
  }
  for (auto it = p.data.begin(); it != p.data.end();) {
    TxOp& op = *it++;
    const auto epoch = p.epoch;
    post_data(p, op);
    if (p.epoch != epoch) return;
  }
}

void Messenger::post_data(Peer& p, TxOp& op) {
  using transport::Status;
  while (op.posted < op.to_send) {
    if (op.refs >= kWritesAtOnce) return;
    transport::WriteRequest w;
    w.va = op.remote_base + op.posted;
    w.rkey = op.remote_handle;
    w.length = static_cast<std::uint32_t>(std::min(op.to_send - op.posted, kMaxWrite));
    w.source = &op.gather;
    w.source_offset = op.posted;
    w.cookie = cookie(CookieKind::kData, op.index);
    const Status status = transport_.post_write(p.conn, w);
    if (status == Status::kAgain) {
      mark(p);
      return;
    }
    if (status != Status::kOk) {
      reset(p, error_of(status), transport_.why(p.conn));
      return;
    }
    op.posted += w.length;
    ++op.refs;
    moved_ = true;
  }
  op.queue.unlink();
  finish_if_done(op);
}

}  // namespace mrc::prov::msg
