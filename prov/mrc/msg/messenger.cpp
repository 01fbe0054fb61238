// SPDX-License-Identifier: BSD-2-Clause
// Messenger: operations from post to completion, peers and their lives, handles, credits.
#include "messenger.hpp"

#include <rdma/fi_domain.h>

#include <algorithm>
#include <cstring>

#include "cookie.hpp"

namespace mrc::prov::msg {

int error_of(transport::Status status) {
  using S = transport::Status;
  switch (status) {
    case S::kOk:
      return 0;
    case S::kAgain:
      return FI_EAGAIN;
    case S::kInvalid:
      return FI_EINVAL;
    case S::kNoRoute:
      return FI_EHOSTUNREACH;
    case S::kTimedOut:
      return FI_ETIMEDOUT;
    case S::kPeerDead:
    case S::kProtocol:
      return FI_ECONNABORTED;
    case S::kPeerRestarted:
      return FI_ECONNRESET;
    case S::kRefused:
      return FI_ECONNREFUSED;
    case S::kAccess:
      return FI_EACCES;
    case S::kClosed:
      return FI_ESHUTDOWN;
  }
  return FI_EOTHER;
}

std::uint64_t length_of(std::span<const engine::GatherPiece> pieces) {
  std::uint64_t length = 0;
  for (const auto& piece : pieces) length += piece.length;
  return length;
}

bool scatter(std::span<const engine::GatherPiece> pieces, std::uint64_t offset, std::span<const std::byte> bytes) {
  for (const auto& piece : pieces) {
    if (bytes.empty()) break;
    if (offset >= piece.length) {
      offset -= piece.length;
      continue;
    }
    const std::size_t n = std::min<std::size_t>(bytes.size(), piece.length - offset);
    auto* to = static_cast<std::byte*>(const_cast<void*>(piece.base)) + offset;
    if (!device::any()) [[likely]]
      std::memcpy(to, bytes.data(), n);
    else if (!device::copy_to(to, bytes.data(), n))
      return false;
    bytes = bytes.subspan(n);
    offset = 0;
  }
  return true;
}

Messenger::Messenger(const Config& config, Transport& transport, Host& host, MatchTable* table)
    : config_(config),
      transport_(transport),
      host_(host),
      random_(config.seed),
      tx_ops_(std::min<std::uint32_t>(config.tx_size, 65536)),
      mails_(config.mails),
      bounce_(std::make_unique<std::byte[]>(std::size_t{config.tx_size} * config.inject_size)) {
  config_.copy_size = std::min(config_.copy_size, kMaxCopy);
  config_.eager_size = std::min(config_.eager_size, kMaxEager);
  config_.inline_read = std::min(config_.inline_read, kMaxInlineRead);
  tx_ops_.fill();
  mails_.fill();
  for (std::uint32_t i = 0; i < tx_ops_.limit(); ++i)
    tx_ops_.at(i)->bounce = bounce_.get() + std::size_t{i} * config_.inject_size;
  if (table == nullptr) {
    own_table_ = std::make_unique<MatchTable>(
        MatchTable::Limits{.receives = config_.rx_size, .min_multi_recv = config_.min_multi_recv}, host_,
        random_.next());
    table = own_table_.get();
  }
  tables_.push_back(table);
}

/// Tables may live on and keep nothing of ours. Nobody hears of what was under way: the endpoint is closed.
Messenger::~Messenger() {
  for (auto& p : peers_) {
    if (!p) continue;
    while (!p->waiting.empty()) drop(p->waiting.front());
    for (auto& h : p->handles) {
      if (h.use != Handle::Use::kReceive) continue;
      RxOp& rx = *h.receive;
      if (RxOp* multi = rx.parent; multi != nullptr && --multi->children == 0 && multi->detached)
        multi->table->give(*multi);
      rx.table->give(rx);
    }
  }
}

void Messenger::abandon(const MatchTable& table) {
  for (auto& p : peers_) {
    if (!p) continue;
    for (auto it = p->handles.begin(); it != p->handles.end();) {
      Handle& h = *it++;
      if (h.use != Handle::Use::kReceive || h.receive->table != &table) continue;
      RxOp& rx = *h.receive;
      free_handle(&h);
      if (RxOp* multi = rx.parent; multi != nullptr && --multi->children == 0 && multi->detached)
        multi->table->give(*multi);
      rx.table->give(rx);
    }
  }
}

std::size_t Messenger::attach(MatchTable& table) {
  tables_.push_back(&table);
  return tables_.size() - 1;
}

Peer* Messenger::peer(const EndpointName& name) {
  const auto conn = transport_.connect(name);
  if (conn == transport::kNoId) return nullptr;
  Peer& p = peer_of(conn);
  p.name = name;
  return &p;
}

Peer& Messenger::peer_of(transport::ConnId conn) {
  if (conn >= peers_.size()) peers_.resize(conn + 1);
  if (!peers_[conn]) {
    peers_[conn] = std::make_unique<Peer>();
    peers_[conn]->conn = conn;
    peers_[conn]->name = transport_.peer_name(conn);
    start_session(*peers_[conn]);
  }
  return *peers_[conn];
}

void Messenger::start_session(Peer& p) {
  do {
    p.session = static_cast<std::uint32_t>(random_.next());
  } while (p.session == 0);
  p.their_session = 0;
  ++p.epoch;
  p.tx_sequence = p.rx_next = p.mails_in_flight = 0;
  p.mail_sequence = p.session;  // a late packet of the life before must not meet an assembly of this one
  p.sent_messages = p.sent_requests = 0;
  p.sent_bytes = 0;
  p.allowed_messages = kCreditMessages;
  p.allowed_requests = kCreditRequests;
  p.allowed_bytes = kCreditBytes;
  p.done_messages = p.done_requests = p.told_messages = p.told_requests = 0;
  p.done_bytes = p.told_bytes = 0;
  p.stalled = false;
}

void Messenger::reset(Peer& p, int error, std::string_view) {
  ++statistics_.resets;
  if (p.unposted != nullptr) {
    release_mail(*p.unposted);
    p.unposted = nullptr;
  }
  start_session(p);
  for (auto it = p.ops.begin(); it != p.ops.end();) fail(*it++, error);
  while (!p.control.empty()) {
    Control& c = p.control.front();
    p.control.pop_front();
    if (c.chunk != nullptr) chunks_.give(c.chunk);
    controls_.give(&c);
  }
  while (!p.handles.empty()) {
    Handle* h = &p.handles.front();
    RxOp* rx = h->use == Handle::Use::kReceive ? h->receive : nullptr;
    if (h->use == Handle::Use::kTarget) h->target->handle = nullptr;
    if (h->use == Handle::Use::kRead) h->read->handle = nullptr;
    free_handle(h);
    if (rx != nullptr) complete_rendezvous(*rx, p, 0, error);
  }
  for (auto it = p.targets.begin(); it != p.targets.end();) {
    TargetOp& t = *it++;
    t.dead = true;
    if (t.refs == 0) finish_target(t);
  }
  if (p.ring) give_ring(p);
  for (auto it = p.assemblies.begin(); it != p.assemblies.end();) {
    Assembly& a = *it++;
    if (a.pass == pass_) continue;  // may belong to the new life: the transport's event comes after its packets
    a.link.unlink();
    --p.assembly_count;
    chunks_.give(a.chunk);
    assemblies_.give(&a);
  }
  for (auto it = p.waiting.begin(); it != p.waiting.end();) {
    Unexpected& u = *it++;
    if (!u.rts) continue;  // its bytes are here
    if (u.claimed)
      u.dead = true;
    else
      drop(u);
  }
}

void Messenger::add_control(Peer& p, const Record& record, Chunk* chunk) {
  Control* c = controls_.take();
  if (c == nullptr) return;  // 16 M answers: more than all credits together can ask for
  c->record = record;
  c->chunk = chunk;
  p.control.push_back(*c);
  mark(p);
}

Handle* Messenger::take_handle(Peer& p, Handle::Use use, std::uint64_t length,
                               std::span<const engine::GatherPiece> into) {
  Handle* h = handles_.take();
  if (h == nullptr) return nullptr;
  h->use = use;
  h->peer = &p;
  h->length = length;
  h->arrived = 0;
  h->failed = false;
  // Without it every packet is a copy of its own; slow, but no error.
  if (device::any()) h->staging = device::stage(into, length);
  p.handles.push_back(*h);
  return h;
}

void Messenger::free_handle(Handle* h) {
  h->use = Handle::Use::kNone;
  h->target = nullptr;
  h->staging.reset();
  ++h->generation;  // from now on the peer's R_Key is stale
  h->all.unlink();
  handles_.give(h);
}

bool Messenger::credits_due(const Peer& p, unsigned fraction) const {
  return p.done_messages - p.told_messages >= kCreditMessages / fraction ||
         p.done_requests - p.told_requests >= kCreditRequests / fraction ||
         p.done_bytes - p.told_bytes >= kCreditBytes / fraction;
}

void Messenger::credit_message(Peer& p, std::uint32_t epoch, std::uint64_t bytes) {
  if (epoch != p.epoch) return;
  ++p.done_messages;
  p.done_bytes += bytes;
  if (credits_due(p, 4)) mark(p);
}

void Messenger::credit_request(Peer& p, std::uint32_t epoch) {
  if (epoch != p.epoch) return;
  ++p.done_requests;
  if (credits_due(p, 4)) mark(p);
}

int Messenger::transmit(const Transmit& t) {
  const std::uint64_t length = length_of(t.pieces);
  if (t.pieces.size() > kMaxIov || t.segments.size() > kMaxSegments) return -FI_EINVAL;
  if (t.inject && length > config_.inject_size) return -FI_EMSGSIZE;
  Peer& p = *t.peer;
  const bool large =
      t.kind == OpKind::kRead ? length > config_.inline_read : !is_atomic(t.kind) && length > config_.eager_size;
  const std::uint64_t landing = t.kind == OpKind::kRead ? length : length_of(t.results);
  const bool direct = landing > config_.inline_read;  // the peer's answer does not fit a record
  if ((direct && handles_.available() == 0) || tx_ops_.available() == 0) return -FI_EAGAIN;
  AtomicOp* atomic = nullptr;
  if (is_atomic(t.kind))
    if (const int error = prepare_atomic(t, atomic)) return error;
  std::span<const engine::GatherPiece> pieces = t.pieces;
  device::Staging staging;
  engine::GatherPiece staged;
  if (t.kind != OpKind::kRead && !is_atomic(t.kind) && device::among(pieces)) [[unlikely]] {
    staging = device::stage(pieces, length);
    if (!staging) return -FI_ENOMEM;
    if (!device::gather(staging.get(), pieces)) return -FI_EIO;
    staged = {staging.get(), length};
    pieces = {&staged, 1};
  }
  TxOp* op = tx_ops_.take();
  op->staging = std::move(staging);

  op->atomic = atomic;
  op->mail_next = nullptr;
  op->peer = &p;
  op->kind = t.kind;
  op->tagged = t.tagged;
  op->signal = t.signal;
  op->inject = t.inject;
  op->want_ack = t.want_ack;
  op->has_data = t.has_data;
  op->large = large;
  op->mail_done = op->answered = op->granted = false;
  op->fence = t.fence;
  op->strict = t.fence || t.keep_place;
  op->after = t.after;
  op->deferred = t.deferred;
  op->counter = t.counter;
  op->number = p.next_number++;
  op->error = 0;
  op->refs = 0;
  op->context = t.context;
  op->owner = t.owner;
  op->rx_context = t.rx_context;
  op->tag = t.tag;
  op->data = t.has_data ? t.data : 0;
  op->length = length;
  op->segment_count = static_cast<std::uint32_t>(t.segments.size());
  std::copy(t.segments.begin(), t.segments.end(), op->segments.begin());
  op->remote_handle = kNoHandle;
  op->remote_base = op->to_send = op->posted = 0;
  op->handle = nullptr;
  if (atomic != nullptr) {
    op->length = atomic->operands != nullptr ? atomic->operands->length : 0;
    op->pieces[0] = {atomic->operands != nullptr ? atomic->operands->data : nullptr, op->length};
    op->gather = {op->pieces.data(), 1};
  } else if (t.inject) {
    std::byte* to = op->bounce;
    for (const auto& piece : pieces) {
      if (piece.length != 0) std::memcpy(to, piece.base, piece.length);
      to += piece.length;
    }
    op->pieces[0] = {op->bounce, length};
    op->gather = {op->pieces.data(), 1};
  } else {
    std::copy(pieces.begin(), pieces.end(), op->pieces.begin());
    op->gather = {op->pieces.data(), static_cast<std::uint32_t>(pieces.size())};
  }
  if (direct) {
    op->handle = take_handle(p, Handle::Use::kRead, landing, op->landing());
    op->handle->read = op;
  }
  p.ops.push_back(*op);
  if (op->strict) ++p.strict_queued;
  (t.kind == OpKind::kSend ? p.messages : p.requests).push_back(*op);
  // A lone message leaves at once; behind several others it may share a packet with the next ones of this pass.
  constexpr std::uint32_t kAtOnce = 8;
  if (t.more || p.mails_in_flight >= kAtOnce)
    mark(p);
  else
    flush(p);
  if (t.more) {
    more_ = true;
  } else if (more_) {  // whoever they go to: the application has said all that it wanted to say
    more_ = false;
    for (auto& each : dirty_)
      if (!each.stalled) flush(each);
  }
  return 0;
}

void Messenger::leave_queue(TxOp& op) {
  if (op.strict) --op.peer->strict_queued;
  op.strict = false;
  op.queue.unlink();
}

void Messenger::finish_if_done(TxOp& op) {
  if (op.refs != 0) return;
  if (op.error == 0) {
    if (!op.mail_done) return;
    if (op.kind == OpKind::kSend) {
      if (op.large ? !op.granted || op.posted < op.to_send : op.want_ack && !op.answered) return;
    } else if (!op.answered) {
      return;
    }
  }
  finish(op);
}

std::uint64_t transmit_flags(OpKind kind, bool tagged) {
  switch (kind) {
    case OpKind::kWrite:
      return FI_RMA | FI_WRITE;
    case OpKind::kRead:
      return FI_RMA | FI_READ;
    case OpKind::kAtomic:
      return FI_ATOMIC | FI_WRITE;
    case OpKind::kFetchAtomic:
      return FI_ATOMIC | FI_READ;
    default:
      return FI_SEND | (tagged ? FI_TAGGED : FI_MSG);
  }
}

void Messenger::finish(TxOp& op) {
  Done done;
  done.kind = op.kind;
  done.signal = op.signal;
  done.inject = op.inject;
  done.error = op.error;
  done.peer = op.peer;
  done.owner = op.owner;
  done.completion.op_context = op.context;
  done.completion.len = op.length;
  done.completion.tag = op.tag;
  done.completion.flags = transmit_flags(op.kind, op.tagged);
  done.deferred = op.deferred;
  done.counter = op.counter;
  if (op.atomic != nullptr) {
    done.completion.len = op.atomic->length;
    release_atomic(op);
  }
  std::string why;
  if (op.error != 0) done.why = why = transport_.why(op.peer->conn);
  if (op.handle != nullptr) free_handle(std::exchange(op.handle, nullptr));
  leave_queue(op);
  op.all.unlink();
  if (op.peer->strict_queued != 0) mark(*op.peer);  // a fenced operation may have waited for this one
  op.staging.reset();
  ++op.generation;
  tx_ops_.give(&op);
  host_.done(done);
}

void Messenger::fail(TxOp& op, int error) {
  if (op.error == 0) op.error = error;
  leave_queue(op);
  if (op.handle != nullptr) free_handle(std::exchange(op.handle, nullptr));
  finish_if_done(op);
}

void Messenger::on_write_done(const transport::Event& event) {
  const int error = error_of(event.status);
  const auto index = cookie_index(event.cookie);
  switch (cookie_kind(event.cookie)) {
    case CookieKind::kMail: {
      Mail& m = *mails_.at(index);
      Peer& p = *m.peer;
      const bool current = m.epoch == p.epoch;
      if (current) --p.mails_in_flight;
      TxOp* next = nullptr;
      for (TxOp* op = m.ops; op != nullptr; op = next) {
        next = op->mail_next;
        --op->refs;
        if (error == 0) {
          op->mail_done = true;
          finish_if_done(*op);
        } else {
          fail(*op, error);
        }
      }
      mails_.give(&m);
      // The peer refused one of our mailbox messages: what was in it is missing from the sequence, for good.
      if (current && event.status == transport::Status::kAccess)
        reset(p, FI_EACCES, "the peer refused a mailbox message as malformed");
      break;
    }
    case CookieKind::kData: {
      TxOp& op = *tx_ops_.at(index);
      --op.refs;
      if (error != 0)
        fail(op, error);
      else if (op.error == 0 && op.posted < op.to_send)
        post_data(*op.peer, op);
      else
        finish_if_done(op);
      break;
    }
    case CookieKind::kTarget: {
      TargetOp& t = *targets_.at(index);
      --t.refs;
      if (error != 0 && t.error == 0) t.error = error;
      advance(t);
      break;
    }
  }
}

void Messenger::on_event(const transport::Event& event) {
  using transport::EventKind;
  switch (event.kind) {
    case EventKind::kWriteDone:
      on_write_done(event);
      return;
    case EventKind::kImmediate:  // libfabric's CQ data has 8 bytes and travels in records
      return;
    case EventKind::kConnected:
      mark(peer_of(event.conn));
      return;
    case EventKind::kAccepted: {
      Peer& p = peer_of(event.conn);
      p.name = transport_.peer_name(event.conn);
      mark(p);
      return;
    }
    case EventKind::kConnFailed:
    case EventKind::kConnClosed: {
      Peer& p = peer_of(event.conn);
      if (p.resets_ahead > 0) {  // its new life has already spoken to us
        --p.resets_ahead;
        return;
      }
      const bool closed = event.kind == EventKind::kConnClosed;
      reset(p, closed ? FI_ECONNRESET : error_of(event.status), transport_.why(event.conn));
      return;
    }
  }
}

bool Messenger::on_progress() {
  ++pass_;
  moved_ = false;
  for (MatchTable* table : tables_)
    if (table->hungry()) table->feed();
  more_ = false;
  if (!pending_targets_.empty()) {
    List<TargetOp, &TargetOp::pending> again;
    again.swap(pending_targets_);
    while (!again.empty()) {
      TargetOp& t = again.front();
      again.pop_front();
      advance(t);
    }
  }
  if (!dirty_.empty()) {
    List<Peer, &Peer::dirty> now;
    now.swap(dirty_);
    while (!now.empty()) {
      Peer& p = now.front();
      now.pop_front();
      if (p.stalled) {
        placing_ = true;  // one flush at the end
        drain(p);
        placing_ = false;
        p.dirty.unlink();
        if (p.stalled) mark(p);
      }
      flush(p);
    }
  }
  if (reset_seen_) {  // the events of this pass have all come
    for (auto& p : peers_)
      if (p) p->resets_ahead = 0;
    reset_seen_ = false;
  }
  return moved_;
}

bool Messenger::unsent() const {
  for (const auto& p : peers_) {
    if (!p) continue;
    if (p->unposted != nullptr || !p->control.empty() || !p->data.empty() || p->mails_in_flight != 0) return true;
    const TxOp* next = next_op(*p);
    if (next != nullptr && (next->kind != OpKind::kSend || affordable(*p, *next))) return true;
  }
  return false;
}

}  // namespace mrc::prov::msg
