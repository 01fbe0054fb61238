// SPDX-License-Identifier: BSD-2-Clause
// RMA and atomics: each member has a slice of every member's memory for itself, and the model has a shadow of it, which
// changes when an operation is posted. Words that everybody adds to are counted.
#include <algorithm>
#include <cstring>

#include "../../prov/mrc/msg/atomic_kernels.hpp"
#include "member.hpp"

namespace stress {

using mrc::prov::msg::AtomicClass;

/// A random part of my slice of `target`, of that size, where nothing is under way that must not be: in ordered mode
/// small operations may overlap.
bool Member::claim_range(Random& random, int target, std::size_t size, bool inject, Range& range) {
  const bool crowded = world_.ordered && random.one_in(2);
  const std::size_t space = crowded ? std::min<std::size_t>(kSlice, size + 512) : kSlice;
  range.begin = random.below(space - size + 1);
  range.end = range.begin + size;
  range.alone = !world_.ordered || size > order_size_;
  for (const Busy& b : busy_[target])
    if (b.begin < range.end && range.begin < b.end && (b.alone || range.alone)) return false;
  busy_[target].push_back({range.begin, range.end, range.alone, inject});
  return true;
}

void Member::release_range(int target, const Range& range) {
  auto& list = busy_[target];
  const auto found = std::find_if(list.begin(), list.end(), [&](const Busy& b) {
    return b.begin == range.begin && b.end == range.end && b.alone == range.alone && !b.until_check;
  });
  STRESS_CHECK(found != list.end());
  list.erase(found);
}

namespace {

std::size_t draw_length(Random& random) {
  constexpr std::size_t kEdges[] = {0, 8, 192, 256, 960, 1024, 4096, 16384};
  switch (random.below(5)) {
    case 0:
      return random.below(100);
    case 1:
      return random.below(20000);
    case 2:
      return random.one_in(4) ? random.below(120000) : random.below(1000);
    default:
      return kEdges[random.below(std::size(kEdges))] + random.below(3);
  }
}

/// Up to four pieces of it, as structures with an address and a length.
template <class Piece, class Make>
std::size_t split(Random& random, std::size_t total, Piece* out, const Make& make) {
  const std::size_t count = 1 + random.below(4);
  std::size_t at = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t n = i + 1 == count ? total - at : random.below(total - at + 1);
    out[i] = make(at, n);
    at += n;
  }
  return count;
}

}  // namespace

void Member::write(Random& random) {
  const int target = static_cast<int>(random.below(static_cast<std::size_t>(world_.members)));
  const std::size_t size = draw_length(random);
  const bool inject = size <= inject_size_ && random.one_in(5);
  const bool has_data = random.one_in(6);
  const std::lock_guard order(order_);
  Op* op = inject ? nullptr : take(What::kWrite);
  if (!inject && op == nullptr) return;
  std::vector<std::uint8_t> small;
  std::vector<std::uint8_t>& buffer = inject ? small : op->buffer;
  Range range;
  std::uint64_t data = 0;
  {
    const std::lock_guard lock(mutex_);
    if (!claim_range(random, target, size, inject, range)) {
      if (op != nullptr) give(op);
      return;
    }
    buffer.resize(std::max(buffer.size(), size));
    fill(buffer.data(), size, random.next());
    std::memcpy(world_.shadow[target][index_] + range.begin, buffer.data(), size);
    if (has_data) data = id_of(index_, target, world_.data_written[index_][target]++);
    world_.remote_writes[target].fetch_add(1);
    ++expected_[kWrite];
  }
  world_.count(kWrites);
  world_.count(kBytes, size);
  if (has_data) world_.count(kWritesWithData);
  const fi_addr_t to = address_[target];
  const std::uint64_t at = static_cast<std::uint64_t>(index_) * kSlice + range.begin;
  if (inject) {
    world_.count(kInjects);
    if (has_data)
      post([&] { return fi_inject_writedata(ep_, small.data(), size, data, to, at, key(target)); }, "inject_writedata");
    else
      post([&] { return fi_inject_write(ep_, small.data(), size, to, at, key(target)); }, "fi_inject_write");
    return;
  }
  op->peer = target;
  op->begin = range.begin;
  op->end = range.end;
  op->alone = range.alone;
  if (random.one_in(2)) {
    if (has_data)
      post([&] { return fi_writedata(ep_, buffer.data(), size, nullptr, data, to, at, key(target), op); },
           "fi_writedata");
    else
      post([&] { return fi_write(ep_, buffer.data(), size, nullptr, to, at, key(target), op); }, "fi_write");
    return;
  }
  iovec pieces[4];
  fi_rma_iov ranges[4];
  const std::size_t count = split(random, size, pieces, [&](auto from, auto n) {
    return iovec{buffer.data() + from, n};
  });
  const std::size_t remote = split(random, size, ranges, [&](auto from, auto n) {
    return fi_rma_iov{at + from, n, key(target)};
  });
  const fi_msg_rma m{pieces, nullptr, count, to, ranges, remote, op, data};
  std::uint64_t flags = FI_COMPLETION | (has_data ? FI_REMOTE_CQ_DATA : 0);
  if (random.one_in(3)) flags |= FI_DELIVERY_COMPLETE, world_.count(kDelivered);
  if (random.one_in(30)) flags |= FI_FENCE, world_.count(kFenced);
  post([&] { return fi_writemsg(ep_, &m, flags); }, "fi_writemsg");
}

void Member::read(Random& random) {
  const int target = static_cast<int>(random.below(static_cast<std::size_t>(world_.members)));
  const std::size_t size = draw_length(random);
  const std::lock_guard order(order_);
  Op* op = take(What::kRead);
  if (op == nullptr) return;
  Range range;
  {
    const std::lock_guard lock(mutex_);
    if (!claim_range(random, target, size, false, range)) return give(op);
    const std::uint8_t* shadow = world_.shadow[target][index_] + range.begin;
    op->expected.assign(shadow, shadow + size);
    world_.remote_reads[target].fetch_add(1);
    ++expected_[kRead];
  }
  world_.count(kReads);
  world_.count(kBytes, size);
  op->peer = target;
  op->begin = range.begin;
  op->end = range.end;
  op->alone = range.alone;
  op->buffer.assign(std::max(op->buffer.size(), size), 0xee);
  const fi_addr_t to = address_[target];
  const std::uint64_t at = static_cast<std::uint64_t>(index_) * kSlice + range.begin;
  if (random.one_in(2)) {
    post([&] { return fi_read(ep_, op->buffer.data(), size, nullptr, to, at, key(target), op); }, "fi_read");
    return;
  }
  iovec pieces[4];
  fi_rma_iov ranges[4];
  const std::size_t count = split(random, size, pieces, [&](auto from, auto n) {
    return iovec{op->buffer.data() + from, n};
  });
  const std::size_t remote = split(random, size, ranges, [&](auto from, auto n) {
    return fi_rma_iov{at + from, n, key(target)};
  });
  const fi_msg_rma m{pieces, nullptr, count, to, ranges, remote, op, 0};
  const std::uint64_t fence = random.one_in(30) ? FI_FENCE : 0;
  post([&] { return fi_readmsg(ep_, &m, FI_COMPLETION | fence); }, "fi_readmsg");
}

void Member::atomic(Random& random) {
  const auto kind = static_cast<AtomicClass>(random.below(3));
  const auto datatype = static_cast<fi_datatype>(random.below(16));
  const auto operation = static_cast<fi_op>(random.below(FI_MSWAP + 1));
  std::size_t limit = 0;
  const int valid = kind == AtomicClass::kBase    ? fi_atomicvalid(ep_, datatype, operation, &limit)
                    : kind == AtomicClass::kFetch ? fi_fetch_atomicvalid(ep_, datatype, operation, &limit)
                                                  : fi_compare_atomicvalid(ep_, datatype, operation, &limit);
  if (valid != 0) return;
  const int target = static_cast<int>(random.below(static_cast<std::size_t>(world_.members)));
  const std::size_t unit = mrc::prov::msg::atomic_size(datatype);
  const std::size_t elements = 1 + random.below(random.one_in(10) ? limit : std::min<std::size_t>(limit, 40));
  const std::size_t size = elements * unit;
  const auto kernel = mrc::prov::msg::atomic_kernel(datatype, operation, kind);
  STRESS_CHECK(kernel != nullptr);
  const bool inject = kind == AtomicClass::kBase && size <= inject_size_ && random.one_in(4);
  const std::lock_guard order(order_);
  Op* op = take(What::kAtomic);
  if (op == nullptr) return;
  op->second.resize(2 * size);
  op->buffer.assign(std::max(op->buffer.size(), size), 0xee);
  op->expected.resize(size);
  std::uint8_t *operand = op->second.data(), *compare = operand + size;
  Range range;
  {
    const std::lock_guard lock(mutex_);
    if (!claim_range(random, target, size, inject, range)) return give(op);
    std::uint8_t* shadow = world_.shadow[target][index_] + range.begin;
    fill(operand, size, random.next());
    for (std::size_t i = 0; i < size; ++i) compare[i] = random.one_in(40) ? 7 : shadow[i];
    kernel(reinterpret_cast<std::byte*>(shadow), reinterpret_cast<const std::byte*>(operand),
           reinterpret_cast<const std::byte*>(compare), reinterpret_cast<std::byte*>(op->expected.data()), elements);
    if (kind == AtomicClass::kBase) {
      op->expected.clear();
      world_.remote_writes[target].fetch_add(1);
      ++expected_[kWrite];
    } else {
      world_.remote_reads[target].fetch_add(1);
      ++expected_[kRead];
    }
  }
  world_.count(kind == AtomicClass::kBase ? kAtomics : kind == AtomicClass::kFetch ? kFetches : kCompares);
  world_.count(kBytes, size);
  op->peer = target;
  op->size = size;
  op->begin = range.begin;
  op->end = range.end;
  op->alone = range.alone;
  const fi_addr_t to = address_[target];
  const std::uint64_t at = static_cast<std::uint64_t>(index_) * kSlice + range.begin;
  if (inject) {
    world_.count(kInjects);
    post([&] { return fi_inject_atomic(ep_, operand, elements, to, at, key(target), datatype, operation); },
         "fi_inject_atomic");
    std::memset(operand, 0xdd, size);
    const std::lock_guard lock(mutex_);
    return give(op);
  }
  const bool vectored = random.one_in(2);
  fi_ioc in[4], other[4], out[4];
  fi_rma_ioc remote[4];
  const auto pieces_of = [&](std::uint8_t* from, fi_ioc* to_ioc) {
    return split(random, elements, to_ioc, [&](auto first, auto n) { return fi_ioc{from + first * unit, n}; });
  };
  const std::size_t in_count = pieces_of(operand, in), other_count = pieces_of(compare, other);
  const std::size_t out_count = pieces_of(op->buffer.data(), out);
  const std::size_t remote_count = split(random, elements, remote, [&](auto first, auto n) {
    return fi_rma_ioc{at + first * unit, n, key(target)};
  });
  const fi_msg_atomic m{in, nullptr, in_count, to, remote, remote_count, datatype, operation, op, 0};
  std::uint64_t flags = FI_COMPLETION | (random.one_in(3) ? FI_DELIVERY_COMPLETE : 0);
  if (random.one_in(30)) flags |= FI_FENCE, world_.count(kFenced);
  switch (kind) {
    case AtomicClass::kBase:
      if (vectored)
        post([&] { return fi_atomicmsg(ep_, &m, flags); }, "fi_atomicmsg");
      else
        post([&] { return fi_atomic(ep_, operand, elements, nullptr, to, at, key(target), datatype, operation, op); },
             "fi_atomic");
      break;
    case AtomicClass::kFetch:
      if (vectored)
        post([&] { return fi_fetch_atomicmsg(ep_, &m, out, nullptr, out_count, flags); }, "fi_fetch_atomicmsg");
      else
        post(
            [&] {
              return fi_fetch_atomic(ep_, operand, elements, nullptr, op->buffer.data(), nullptr, to, at, key(target),
                                     datatype, operation, op);
            },
            "fi_fetch_atomic");
      break;
    case AtomicClass::kCompare:
      if (vectored)
        post([&] { return fi_compare_atomicmsg(ep_, &m, other, nullptr, other_count, out, nullptr, out_count, flags); },
             "fi_compare_atomicmsg");
      else
        post(
            [&] {
              return fi_compare_atomic(ep_, operand, elements, nullptr, compare, nullptr, op->buffer.data(), nullptr,
                                       to, at, key(target), datatype, operation, op);
            },
            "fi_compare_atomic");
  }
}

/// Adds one to a word that everybody adds to.
void Member::word(Random& random) {
  const int target = static_cast<int>(random.below(static_cast<std::size_t>(world_.members)));
  const std::size_t which = random.below(kWords);
  const std::uint64_t one = 1, at = kMembers * kSlice + 8 * which;
  const fi_addr_t to = address_[target];
  const std::lock_guard order(order_);
  const bool inject = inject_size_ >= 8 && random.one_in(3), fetch = !inject && random.one_in(2);
  Op* op = inject ? nullptr : take(What::kWord);
  if (!inject && op == nullptr) return;
  {
    const std::lock_guard lock(mutex_);
    world_.words[target][which].fetch_add(1);
    (fetch ? world_.remote_reads : world_.remote_writes)[target].fetch_add(1);
    ++expected_[fetch ? kRead : kWrite];
    if (op != nullptr) {
      op->peer = target;
      op->size = which;
      op->serial = ++serial_;
      op->buffer.assign(fetch ? 8 : 0, 0);
      op->second.assign(8, 0);
      op->second[0] = 1;
    }
  }
  world_.count(fetch ? kFetches : kAtomics);
  if (inject)
    post([&] { return fi_inject_atomic(ep_, &one, 1, to, at, key(target), FI_UINT64, FI_SUM); }, "fi_inject_atomic");
  else if (fetch)
    post(
        [&] {
          return fi_fetch_atomic(ep_, op->second.data(), 1, nullptr, op->buffer.data(), nullptr, to, at, key(target),
                                 FI_UINT64, FI_SUM, op);
        },
        "fi_fetch_atomic");
  else
    post([&] { return fi_atomic(ep_, op->second.data(), 1, nullptr, to, at, key(target), FI_UINT64, FI_SUM, op); },
         "fi_atomic");
}

void Member::memory_done(Op& op) {
  if (op.what == What::kRead || (op.what == What::kAtomic && !op.expected.empty())) {
    const auto at =
        std::mismatch(op.expected.begin(), op.expected.end(), op.buffer.begin()).first - op.expected.begin();
    STRESS_CHECK(static_cast<std::size_t>(at) == op.expected.size(), index_, op.peer, at, op.begin, op.end,
                 static_cast<int>(op.what));
  }
  const std::lock_guard lock(mutex_);
  if (op.what != What::kWord) release_range(op.peer, {op.begin, op.end, op.alone});
  give(&op);
}

void Member::remote_data(const fi_cq_tagged_entry& c, fi_addr_t source) {
  STRESS_CHECK((c.flags & (FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA)) == (FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA), c.flags);
  const auto from = c.data >> 56 & 15;
  STRESS_CHECK((c.data >> 48 & 15) == static_cast<std::uint64_t>(index_) && from < kMembers, c.data);
  STRESS_CHECK(source == address_[from], source, from);
  const std::uint64_t n = c.data & 0xFFFFFFFFFFFF;
  STRESS_CHECK(n < world_.data_written[from][index_], n);
  const std::lock_guard lock(mutex_);
  STRESS_CHECK(data_seen_[from].insert(n).second, from, n);
}

void Member::step(Random& random, bool calm) {
  if (untagged_ == kMultiReceive) post_multi();
  switch (random.below(calm ? 8 : 20)) {
    case 0:
    case 1:
    case 2:
      return poll();
    case 3:
    case 4:
    case 5:
      return answer(random);
    case 6:
    case 7:
      return follow_up(random);
    case 8:
      return post_never(random);
    case 9:
      return cancel(random);
    case 10:
    case 11:
    case 12:
    case 13:
      return send(random);
    case 14:
    case 15:
      return write(random);
    case 16:
      return read(random);
    case 17:
    case 18:
      return atomic(random);
    default:
      return word(random);
  }
}

}  // namespace stress
