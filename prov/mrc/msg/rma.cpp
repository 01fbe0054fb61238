// SPDX-License-Identifier: BSD-2-Clause
// The target's side of RMA: keys are resolved here and nowhere else, small writes are placed from the record, large
// ones and reads go through per-operation handles. Errors travel back as FIN; a bad key never writes.
#include <rdma/fi_domain.h>

#include <algorithm>
#include <cstring>

#include "cookie.hpp"
#include "messenger.hpp"

namespace mrc::prov::msg {
namespace {

/// Reads are answered in pieces of this size, so that a closed MR is noticed on the way.
constexpr std::uint64_t kReadPiece = 256 * 1024;
constexpr std::uint32_t kReadPiecesAtOnce = 4;

}  // namespace

int Messenger::resolve(const Record& r, std::uint64_t access, TargetOp& t) {
  t.piece_count = 0;
  t.length = 0;
  t.segment_count = r.segment_count;
  t.segments = r.segments;
  t.mr_generation = host_.mr_generation();
  t.counters.fill(nullptr);
  for (std::uint32_t i = 0; i < r.segment_count; ++i) {
    const auto& s = r.segments[i];
    RegionPiece pieces[kMaxRegionPieces];
    std::size_t count = std::size(pieces);
    Region region;
    const int status = host_.resolve(s.key, s.address, s.length, access, pieces, &count, &region);
    if (status != 0) return -status;
    t.counters[i] = region.remote_counter;
    for (std::uint32_t k = 0; k < i; ++k)  // an operation counts once in a region
      if (r.segments[k].key == s.key) t.counters[i] = nullptr;
    std::uint64_t left = s.length;
    for (std::size_t k = 0; k < count && left != 0; ++k) {
      const std::size_t n = static_cast<std::size_t>(std::min<std::uint64_t>(left, pieces[k].length));
      t.pieces[t.piece_count++] = {pieces[k].base, n};
      left -= n;
    }
    if (left != 0) return FI_EINVAL;
    t.length += s.length;
  }
  t.gather = {t.pieces.data(), t.piece_count};
  return 0;
}

/// The bytes of large RMA travel by themselves. Whoever asked for it (kFlagAfter…) waits for them: a message for all
/// that began earlier, RMA for what touches the same memory.
bool Messenger::must_wait(const Peer& p, const Record& r, const TargetOp* rma) const {
  if ((r.flags & (kFlagAfterWrites | kFlagAfterReads)) == 0) return false;
  for (const auto& t : p.targets) {
    if (&t == rma || t.dead || (r.flags & (t.read ? kFlagAfterReads : kFlagAfterWrites)) == 0) continue;
    if (rma == nullptr) return true;
    for (std::uint32_t i = 0; i < t.piece_count; ++i)
      for (std::uint32_t k = 0; k < rma->piece_count; ++k) {
        const auto one = reinterpret_cast<std::uintptr_t>(t.pieces[i].base);
        const auto other = reinterpret_cast<std::uintptr_t>(rma->pieces[k].base);
        if (one < other + rma->pieces[k].length && other < one + t.pieces[i].length) return true;
      }
  }
  return false;
}

void Messenger::fin(Peer& p, std::uint32_t op, int error) {
  Record r;
  r.type = RecordType::kFin;
  r.op = op;
  r.status = static_cast<std::uint32_t>(error);
  add_control(p, r);
}

void Messenger::remote_done(const TargetOp& t, Peer& p) {
  for (std::uint32_t i = 0; i < t.segment_count; ++i)
    if (t.counters[i] != nullptr) t.counters[i]->add(1);
  Done done;
  done.kind = t.read ? OpKind::kRemoteRead : OpKind::kRemoteWrite;
  done.peer = &p;
  done.from = p.name;
  done.signal = t.has_data;
  done.rx_context = t.rx_context;
  done.completion.flags = (t.atomic ? FI_ATOMIC : FI_RMA) | (t.read ? FI_REMOTE_READ : FI_REMOTE_WRITE) |
                          (t.has_data ? FI_REMOTE_CQ_DATA : 0);
  done.completion.len = t.length;
  done.completion.data = t.data;
  host_.done(done);
}

Messenger::Outcome Messenger::on_write(Peer& p, const Record& r) {
  TargetOp t;  // on the stack: done before we return
  t.has_data = (r.flags & kFlagCqData) != 0;
  t.data = r.data;
  t.rx_context = r.context;
  if (t.has_data && !host_.remote_room(t.rx_context)) return Outcome::kStall;
  int error = resolve(r, FI_REMOTE_WRITE, t);
  if (error == 0 && must_wait(p, r, &t)) return Outcome::kStall;
  if (error == 0 && !scatter({t.pieces.data(), t.piece_count}, 0, r.bytes)) error = FI_EIO;
  if (error == 0) remote_done(t, p);
  fin(p, r.op, error);
  credit_request(p, p.epoch);
  return Outcome::kTaken;
}

Messenger::Outcome Messenger::on_write_request(Peer& p, const Record& r) {
  if (handles_.available() == 0) return Outcome::kStall;
  TargetOp* t = targets_.take();
  if (t == nullptr) return Outcome::kStall;
  const auto index = t->index;
  *t = TargetOp{};
  t->index = index;
  t->peer = &p;
  t->epoch = p.epoch;
  t->op = r.op;
  t->has_data = (r.flags & kFlagCqData) != 0;
  t->data = r.data;
  t->rx_context = r.context;
  t->error = resolve(r, FI_REMOTE_WRITE, *t);
  if (t->error == 0 && must_wait(p, r, t)) {
    targets_.give(t);
    return Outcome::kStall;
  }
  p.targets.push_back(*t);
  if (t->error != 0) {
    finish_target(*t);
    return Outcome::kTaken;
  }
  if (t->length == 0) {
    t->complete = true;
    advance(*t);
    return Outcome::kTaken;
  }
  t->handle = take_handle(p, Handle::Use::kTarget, t->length, {t->pieces.data(), t->piece_count});
  t->handle->target = t;
  Record cts;
  cts.type = RecordType::kCts;
  cts.op = r.op;
  cts.handle = t->handle->rkey();
  cts.length = t->length;
  add_control(p, cts);
  return Outcome::kTaken;
}

Messenger::Outcome Messenger::on_read_request(Peer& p, const Record& r) {
  if (r.handle == kNoHandle) {
    TargetOp t;
    t.read = true;
    t.rx_context = r.context;
    int error = r.length > kMaxInlineRead ? FI_EINVAL : resolve(r, FI_REMOTE_READ, t);
    if (error == 0 && must_wait(p, r, &t)) return Outcome::kStall;
    if (error == 0) {
      Chunk* chunk = chunks_.take(std::max<std::size_t>(1, t.length));
      if (chunk == nullptr) return Outcome::kStall;
      if (device::gather(chunk->data, {t.pieces.data(), t.piece_count})) {
        Record answer;
        answer.type = RecordType::kReadData;
        answer.op = r.op;
        answer.bytes = {chunk->data, static_cast<std::size_t>(t.length)};
        add_control(p, answer, chunk);
        remote_done(t, p);
      } else {
        chunks_.give(chunk);
        error = FI_EIO;
      }
    }
    if (error != 0) fin(p, r.op, error);
    credit_request(p, p.epoch);
    return Outcome::kTaken;
  }
  TargetOp* t = targets_.take();
  if (t == nullptr) return Outcome::kStall;
  const auto index = t->index;
  *t = TargetOp{};
  t->index = index;
  t->peer = &p;
  t->epoch = p.epoch;
  t->op = r.op;
  t->read = true;
  t->rx_context = r.context;
  t->remote_handle = r.handle;
  t->error = resolve(r, FI_REMOTE_READ, *t);
  if (t->error == 0 && must_wait(p, r, t)) {
    targets_.give(t);
    return Outcome::kStall;
  }
  p.targets.push_back(*t);
  if (t->error == 0) t->error = stage_source(*t);
  if (t->error != 0)
    finish_target(*t);
  else
    pending_targets_.push_back(*t);  // its writes are posted outside place()
  return Outcome::kTaken;
}

/// A device's bytes are read once, into host memory that the engine may read as often as it has to.
int Messenger::stage_source(TargetOp& t) {
  const std::span<const engine::GatherPiece> pieces(t.pieces.data(), t.piece_count);
  if (!device::among(pieces)) return 0;
  t.staging = device::stage(pieces, t.length);
  if (!t.staging) return FI_ENOMEM;
  if (!device::gather(t.staging.get(), pieces)) return FI_EIO;
  t.staged = {t.staging.get(), static_cast<std::size_t>(t.length)};
  t.gather = {&t.staged, 1};
  return 0;
}

bool Messenger::still_valid(TargetOp& t) {
  const auto generation = host_.mr_generation();
  if (t.mr_generation == generation) return true;
  for (std::uint32_t i = 0; i < t.segment_count; ++i) {
    const auto& s = t.segments[i];
    RegionPiece pieces[kMaxRegionPieces];
    std::size_t count = std::size(pieces);
    Region region;
    if (host_.resolve(s.key, s.address, s.length, t.read ? FI_REMOTE_READ : FI_REMOTE_WRITE, pieces, &count, &region) !=
        0)
      return false;
    // The key may be another region by now: the same key, other memory. Its bytes must not mix with ours.
    if (i == 0 && count != 0 && s.length != 0 && pieces[0].base != t.pieces[0].base) return false;
    t.counters[i] = region.remote_counter;
    for (std::uint32_t k = 0; k < i; ++k)
      if (t.segments[k].key == s.key) t.counters[i] = nullptr;
  }
  t.mr_generation = generation;
  return true;
}

/// The next step of an operation that a peer asked of us.
void Messenger::advance(TargetOp& t) {
  using transport::Status;
  if (t.dead || t.error != 0) {
    if (t.refs == 0) finish_target(t);
    return;
  }
  if (!t.read) {
    if (!t.complete) return;
    if (t.has_data && !host_.remote_room(t.rx_context)) {
      if (!t.pending.is_linked()) pending_targets_.push_back(t);
      return;
    }
    finish_target(t);
    return;
  }
  Peer& p = *t.peer;
  while (t.posted < t.length && t.refs < kReadPiecesAtOnce) {
    if (!still_valid(t)) {
      t.error = FI_EKEYREJECTED;
      if (t.refs == 0) finish_target(t);
      return;
    }
    transport::WriteRequest w;
    w.va = t.posted;
    w.rkey = t.remote_handle;
    w.length = static_cast<std::uint32_t>(std::min(t.length - t.posted, kReadPiece));
    w.source = &t.gather;
    w.source_offset = t.posted;
    w.cookie = cookie(CookieKind::kTarget, t.index);
    const Status status = transport_.post_write(p.conn, w);
    if (status == Status::kAgain) {
      if (!t.pending.is_linked()) pending_targets_.push_back(t);
      return;
    }
    if (status != Status::kOk) {
      reset(p, error_of(status), transport_.why(p.conn));
      return;
    }
    t.posted += w.length;
    ++t.refs;
    moved_ = true;
  }
  if (t.posted == t.length && t.refs == 0) finish_target(t);
}

void Messenger::finish_target(TargetOp& t) {
  Peer& p = *t.peer;
  if (t.handle != nullptr) free_handle(std::exchange(t.handle, nullptr));
  if (t.chunk != nullptr) chunks_.give(std::exchange(t.chunk, nullptr));
  if (!t.dead) {
    if (t.error == 0 && !t.atomic) remote_done(t, p);
    // A read has told its result by writing; only its errors need words.
    if (!t.read || t.error != 0) fin(p, t.op, t.error);
    credit_request(p, t.epoch);
  }
  t.all.unlink();
  t.pending.unlink();
  t.staging.reset();
  targets_.give(&t);
}

}  // namespace mrc::prov::msg
