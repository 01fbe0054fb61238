// SPDX-License-Identifier: BSD-2-Clause
// Atomics: their operands travel in one ordered record each, which the target acts on exactly once, under the engine's
// lock; old values come back in a record or through a handle, as reads do.
#include <rdma/fi_domain.h>

#include <algorithm>
#include <cstring>

#include "messenger.hpp"

namespace mrc::prov::msg {
namespace {

/// What the target's region must allow.
std::uint64_t access_of(AtomicType type) {
  if (type.kind == AtomicClass::kBase) return FI_REMOTE_WRITE;
  return type.op == FI_ATOMIC_READ ? FI_REMOTE_READ : FI_REMOTE_READ | FI_REMOTE_WRITE;
}

/// Elements one after the other over memory in several pieces. One that lies across pieces is put together, changed
/// and taken apart again.
void apply(AtomicKernel kernel, std::size_t size, std::span<const engine::GatherPiece> target, const std::byte* operand,
           const std::byte* compare, std::byte* result) {
  std::size_t piece = 0, offset = 0;
  const auto step = [&](std::size_t bytes) {
    if (operand != nullptr) operand += bytes;
    if (compare != nullptr) compare += bytes;
    if (result != nullptr) result += bytes;
  };
  while (piece < target.size()) {
    const std::size_t left = target[piece].length - offset;
    std::byte* at = static_cast<std::byte*>(const_cast<void*>(target[piece].base)) + offset;
    if (left >= size) {
      const std::size_t count = left / size;
      kernel(at, operand, compare, result, count);
      step(count * size);
      offset += count * size;
    } else if (left == 0) {
      ++piece;
      offset = 0;
    } else {
      alignas(32) std::byte whole[32], before[32];
      const auto rest = target.subspan(piece);
      std::size_t have = 0;
      for (std::size_t i = 0; i < rest.size() && have < size; ++i) {
        const std::size_t skip = i == 0 ? offset : 0, n = std::min(size - have, rest[i].length - skip);
        std::memcpy(whole + have, static_cast<const std::byte*>(rest[i].base) + skip, n);
        have += n;
      }
      if (have < size) return;  // the caller has seen to whole elements
      std::memcpy(before, whole, size);
      kernel(whole, operand, compare, result, 1);
      const std::uint64_t from = offset;
      // Memory that may only be read is not written.
      if (std::memcmp(before, whole, size) != 0) scatter(rest, from, {whole, size});
      step(size);
      std::size_t left_over = size;
      while (left_over != 0) {
        const std::size_t n = std::min(left_over, target[piece].length - offset);
        left_over -= n;
        offset += n;
        if (offset == target[piece].length) {
          ++piece;
          offset = 0;
        }
      }
    }
  }
}

/// The same where some of the target is on a device: atomic towards other operations of ours, not towards what the
/// device itself does meanwhile. False if it could not be done; then nothing was.
bool apply_staged(AtomicKernel kernel, std::size_t size, std::span<const engine::GatherPiece> target,
                  std::size_t length, const std::byte* operand, const std::byte* compare, std::byte* result,
                  bool changes) {
  const device::Staging staged = device::stage(target, length);
  if (!staged || !device::gather(staged.get(), target)) return false;
  const engine::GatherPiece piece{staged.get(), length};
  apply(kernel, size, {&piece, 1}, operand, compare, result);
  return !changes || scatter(target, 0, {staged.get(), length});
}

}  // namespace

/// Copies the operands. 0, -FI_EAGAIN if there is no room at the moment, -FI_EIO if a device refused them.
int Messenger::prepare_atomic(const Transmit& t, AtomicOp*& out) {
  AtomicOp* a = atomics_.take();
  if (a == nullptr) return -FI_EAGAIN;
  a->type = t.atomic;
  a->length = 0;
  for (const auto& s : t.segments) a->length += s.length;
  a->operands = nullptr;
  if (t.atomic.op != FI_ATOMIC_READ) {
    a->operands = chunks_.take(static_cast<std::size_t>(operand_length(t.atomic, a->length)));
    if (a->operands == nullptr) {
      atomics_.give(a);
      return -FI_EAGAIN;
    }
    std::byte* to = a->operands->data;
    if (!device::gather(to, t.pieces) || !device::gather(to + length_of(t.pieces), t.compare)) {
      chunks_.give(a->operands);
      atomics_.give(a);
      return -FI_EIO;
    }
  }
  std::copy(t.results.begin(), t.results.end(), a->results.begin());
  a->result_count = static_cast<std::uint32_t>(t.results.size());
  out = a;
  return 0;
}

void Messenger::release_atomic(TxOp& op) {
  AtomicOp* a = std::exchange(op.atomic, nullptr);
  if (a->operands != nullptr) chunks_.give(a->operands);
  atomics_.give(a);
}

Messenger::Outcome Messenger::on_atomic(Peer& p, const Record& r) {
  TargetOp now;  // on the stack: all but a long result is done before we return
  now.read = r.atomic.kind != AtomicClass::kBase;
  now.atomic = true;
  now.has_data = (r.flags & kFlagCqData) != 0;
  now.data = r.data;
  now.rx_context = r.context;
  if (now.has_data && !host_.remote_room(now.rx_context)) return Outcome::kStall;

  const AtomicKernel kernel = atomic_kernel(r.atomic.datatype, r.atomic.op, r.atomic.kind);
  const std::size_t size = atomic_size(r.atomic.datatype);
  const bool direct = now.read && r.handle != kNoHandle;
  int error = kernel == nullptr ? FI_EOPNOTSUPP : 0;
  if (r.length == 0 || r.length > kMaxAtomic || (now.read && !direct && r.length > kMaxInlineRead)) error = FI_EINVAL;
  for (std::uint32_t i = 0; i < r.segment_count && error == 0; ++i)
    if (r.segments[i].length % size != 0) error = FI_EINVAL;
  if (error == 0) error = resolve(r, access_of(r.atomic), now);
  if (error == 0 && must_wait(p, r, &now)) return Outcome::kStall;
  if (error != 0) {
    fin(p, r.op, error);
    credit_request(p, p.epoch);
    return Outcome::kTaken;
  }

  // Whatever may be short is taken before anything changes: a record that stalls is acted on again.
  const auto length = static_cast<std::size_t>(r.length);
  Chunk* chunk = nullptr;
  TargetOp* later = nullptr;
  if (now.read && (chunk = chunks_.take(length)) == nullptr) return Outcome::kStall;
  if (direct && (later = targets_.take()) == nullptr) {
    chunks_.give(chunk);
    return Outcome::kStall;
  }
  const std::byte* operand = r.bytes.empty() ? nullptr : r.bytes.data();
  const std::byte* compare = r.atomic.kind == AtomicClass::kCompare ? operand + length : nullptr;
  std::byte* result = chunk != nullptr ? chunk->data : nullptr;
  const std::span<const engine::GatherPiece> target(now.pieces.data(), now.piece_count);
  if (!device::among(target)) {
    apply(kernel, size, target, operand, compare, result);
  } else if (!apply_staged(kernel, size, target, length, operand, compare, result, r.atomic.op != FI_ATOMIC_READ)) {
    if (chunk != nullptr) chunks_.give(chunk);
    if (later != nullptr) targets_.give(later);
    fin(p, r.op, FI_EIO);
    credit_request(p, p.epoch);
    return Outcome::kTaken;
  }
  remote_done(now, p);
  if (!direct) {
    if (now.read) {
      Record answer;
      answer.type = RecordType::kReadData;
      answer.op = r.op;
      answer.bytes = {chunk->data, length};
      add_control(p, answer, chunk);
    } else {
      fin(p, r.op, 0);
    }
    credit_request(p, p.epoch);
    return Outcome::kTaken;
  }
  const auto index = later->index;
  *later = TargetOp{};
  later->index = index;
  later->peer = &p;
  later->epoch = p.epoch;
  later->op = r.op;
  later->read = later->atomic = true;
  later->remote_handle = r.handle;
  later->chunk = chunk;
  later->length = length;
  later->mr_generation = now.mr_generation;
  later->pieces[0] = {chunk->data, length};
  later->piece_count = 1;
  later->gather = {later->pieces.data(), 1};
  p.targets.push_back(*later);
  pending_targets_.push_back(*later);  // its writes are posted outside place()
  return Outcome::kTaken;
}

}  // namespace mrc::prov::msg
