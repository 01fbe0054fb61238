// SPDX-License-Identifier: BSD-2-Clause
// Messages: announced in the model before they are sent, so that receives are posted before and after they arrive.
#include <algorithm>
#include <cstring>

#include "member.hpp"

namespace stress {
namespace {

/// Longest message that is not received by its own tag.
constexpr std::size_t kLongest = 40000;
constexpr std::size_t kMultiBuffer = 256 * 1024;
constexpr std::size_t kNeverAtOnce = 20;

/// Around the places where the protocol changes its ways, and anywhere between.
std::size_t draw_size(Random& random, std::size_t limit) {
  constexpr std::size_t kEdges[] = {0, 1, 8, 64, 192, 256, 512, 960, 1024, 2048, 4096, 8192, 16384, 32768};
  std::size_t size = kEdges[random.below(std::size(kEdges))];
  switch (random.below(4)) {
    case 0:
      size += random.below(3);
      break;
    case 1:
      size = random.below(300);
      break;
    case 2:
      size = random.below(size + 1);
      break;
    default:
      if (random.one_in(8)) size = random.below(limit);
  }
  return std::min(size, limit);
}

/// `buffer` in up to four pieces.
std::size_t split(Random& random, std::vector<std::uint8_t>& buffer, std::size_t size, iovec* out) {
  const std::size_t count = 1 + random.below(4);
  std::size_t at = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t n = i + 1 == count ? size - at : random.below(size - at + 1);
    out[i] = {buffer.data() + at, n};
    at += n;
  }
  return count;
}

}  // namespace

void Member::send(Random& random) {
  const int to = static_cast<int>(random.below(static_cast<std::size_t>(world_.members)));
  const Kind kind = static_cast<Kind>(1 + random.below(4));
  const bool exact = kind == Kind::kExact, tagged = kind != Kind::kUntagged;
  const std::size_t size = draw_size(random, exact ? (random.one_in(10) ? 400000 : 100000) : kLongest);
  const bool inject = size <= inject_size_ && random.one_in(4);
  const bool has_data = random.one_in(3) || (!tagged && size < 8);

  std::unique_lock order(order_, std::defer_lock);
  if (!exact) order.lock();
  Op* op = inject ? nullptr : take(What::kSend);
  if (!inject && op == nullptr) return;
  std::uint64_t id, tag;
  {
    const std::lock_guard lock(mutex_);
    Channel& channel = world_.channels[index_][to];
    const std::uint64_t n = channel.next;
    Announced& entry = channel.ring[n % kRing];
    const auto state = entry.state.load(std::memory_order_acquire);
    if (state != kFree && state != kOver) {
      if (op != nullptr) give(op);
      return;
    }
    entry.id = id = id_of(index_, to, n);
    entry.tag = tag = tagged ? tag_of(kind, id) : 0;
    entry.kind = kind;
    entry.size = size;
    entry.has_data = has_data;
    entry.state.store(kAnnounced, std::memory_order_release);
    world_.announced[to].fetch_add(1);
    channel.next.store(n + 1, std::memory_order_release);
    ++expected_[kSend];
  }
  world_.count(tagged ? kTaggedSends : kSends);
  world_.count(kBytes, size);
  const fi_addr_t address = address_[to];
  if (inject) {
    world_.count(kInjects);
    std::uint8_t bytes[65536];
    fill(bytes, size, id);
    if (tagged && has_data)
      post([&] { return fi_tinjectdata(ep_, bytes, size, id, address, tag); }, "fi_tinjectdata");
    else if (tagged)
      post([&] { return fi_tinject(ep_, bytes, size, address, tag); }, "fi_tinject");
    else if (has_data)
      post([&] { return fi_injectdata(ep_, bytes, size, id, address); }, "fi_injectdata");
    else
      post([&] { return fi_inject(ep_, bytes, size, address); }, "fi_inject");
    std::memset(bytes, 0xdd, size);
    return;
  }
  op->peer = to;
  op->buffer.resize(std::max(op->buffer.size(), size));
  fill(op->buffer.data(), size, id);
  if (random.one_in(2)) {
    if (tagged && has_data)
      post([&] { return fi_tsenddata(ep_, op->buffer.data(), size, nullptr, id, address, tag, op); }, "fi_tsenddata");
    else if (tagged)
      post([&] { return fi_tsend(ep_, op->buffer.data(), size, nullptr, address, tag, op); }, "fi_tsend");
    else if (has_data)
      post([&] { return fi_senddata(ep_, op->buffer.data(), size, nullptr, id, address, op); }, "fi_senddata");
    else
      post([&] { return fi_send(ep_, op->buffer.data(), size, nullptr, address, op); }, "fi_send");
    return;
  }
  iovec pieces[4];
  const std::size_t count = split(random, op->buffer, size, pieces);
  std::uint64_t flags = FI_COMPLETION | (has_data ? FI_REMOTE_CQ_DATA : 0);
  if (random.one_in(3)) flags |= FI_DELIVERY_COMPLETE, world_.count(kDelivered);
  if (random.one_in(30)) flags |= FI_FENCE, world_.count(kFenced);
  if (random.one_in(8)) flags |= FI_MORE;
  if (tagged) {
    const fi_msg_tagged m{pieces, nullptr, count, address, tag, 0, op, id};
    post([&] { return fi_tsendmsg(ep_, &m, flags); }, "fi_tsendmsg");
  } else {
    const fi_msg m{pieces, nullptr, count, address, op, id};
    post([&] { return fi_sendmsg(ep_, &m, flags); }, "fi_sendmsg");
  }
}

/// Posts a receive for one announcement, or looks for it.
void Member::answer(Random& random) {
  Announced* entry = nullptr;
  int from = 0;
  {
    const std::lock_guard lock(mutex_);
    const std::size_t first = random.below(static_cast<std::size_t>(world_.members));
    for (std::size_t i = 0; i < static_cast<std::size_t>(world_.members) && entry == nullptr; ++i) {
      from = static_cast<int>((first + i) % static_cast<std::size_t>(world_.members));
      Channel& channel = world_.channels[from][index_];
      if (answered_[from] == channel.next.load(std::memory_order_acquire)) continue;
      entry = &channel.ring[answered_[from]++ % kRing];
    }
  }
  if (entry == nullptr) return;
  const Kind kind = entry->kind;  // an exact one may be another message's once its receive is posted
  if (kind == Kind::kUntagged && untagged_ == kMultiReceive) {
    entry->state.fetch_or(kAnswered);
    return;
  }
  if (kind == Kind::kExact && random.one_in(4))
    peek(random, *entry, from);
  else
    receive(random, *entry, from);
  if (kind != Kind::kExact) entry->state.fetch_or(kAnswered);
}

void Member::receive(Random& random, Announced& entry, int from) {
  const Kind kind = entry.kind;
  const bool exact = kind == Kind::kExact, tagged = kind != Kind::kUntagged;
  std::unique_lock order(order_, std::defer_lock);
  if (!exact) order.lock();
  Op* op = take(What::kReceive);
  STRESS_CHECK(op != nullptr);
  op->kind = kind;
  op->entry = exact ? &entry : nullptr;
  op->peer = from;
  op->size = exact ? entry.size : kLongest;
  if (exact && random.one_in(12)) op->size = random.below(op->size + 1);
  op->buffer.resize(std::max(op->buffer.size(), op->size));
  {
    const std::lock_guard lock(mutex_);
    op->serial = ++serial_;
  }
  const bool directed =
      kind == Kind::kDirected || (exact && random.one_in(2)) || (!tagged && untagged_ == kSingleDirected);
  const fi_addr_t source = directed ? address_[from] : FI_ADDR_UNSPEC;
  const std::uint64_t ignore = exact ? 0 : kAnyOfKind;
  const std::uint64_t tag = exact ? entry.tag : tag_of(kind, random.next() & kAnyOfKind);
  iovec pieces[4];
  const std::size_t count = split(random, op->buffer, op->size, pieces);
  switch (random.below(3)) {
    case 0:
      if (tagged)
        post([&] { return fi_trecv(ep_, op->buffer.data(), op->size, nullptr, source, tag, ignore, op); }, "fi_trecv");
      else
        post([&] { return fi_recv(ep_, op->buffer.data(), op->size, nullptr, source, op); }, "fi_recv");
      break;
    case 1:
      if (tagged)
        post([&] { return fi_trecvv(ep_, pieces, nullptr, count, source, tag, ignore, op); }, "fi_trecvv");
      else
        post([&] { return fi_recvv(ep_, pieces, nullptr, count, source, op); }, "fi_recvv");
      break;
    default: {
      const fi_msg_tagged t{pieces, nullptr, count, source, tag, ignore, op, 0};
      const fi_msg m{pieces, nullptr, count, source, op, 0};
      if (tagged)
        post([&] { return fi_trecvmsg(ep_, &t, FI_COMPLETION); }, "fi_trecvmsg");
      else
        post([&] { return fi_recvmsg(ep_, &m, FI_COMPLETION); }, "fi_recvmsg");
    }
  }
}

void Member::peek(Random& random, Announced& entry, int from) {
  Op* op = take(What::kPeek);
  STRESS_CHECK(op != nullptr);
  op->entry = &entry;
  op->peer = from;
  std::uint64_t flags = FI_PEEK | FI_COMPLETION;
  const auto how = random.below(3);
  if (how == 1) flags |= FI_CLAIM;
  if (how == 2) flags |= FI_DISCARD;
  op->discard = how == 2;
  op->size = how;
  const fi_addr_t source = random.one_in(2) ? address_[from] : FI_ADDR_UNSPEC;
  const fi_msg_tagged t{nullptr, nullptr, 0, source, entry.tag, 0, op, 0};
  post([&] { return fi_trecvmsg(ep_, &t, flags); }, "fi_trecvmsg FI_PEEK");
}

/// What a completion asked for: receive again, or take what was claimed.
void Member::follow_up(Random& random) {
  std::pair<Announced*, int> again{};
  Op* claimed = nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (!claimed_.empty()) {
      claimed = claimed_.back();
      claimed_.pop_back();
    } else if (!again_.empty()) {
      again = again_.front();
      again_.erase(again_.begin());
      ++outstanding_;  // it must not look as if nothing were left to do
    }
  }
  if (claimed != nullptr) {
    claimed->what = What::kClaim;
    claimed->discard = random.one_in(3);
    claimed->size = claimed->entry->size;
    claimed->buffer.resize(std::max(claimed->buffer.size(), claimed->size));
    iovec piece{claimed->buffer.data(), claimed->size};
    const fi_msg_tagged t{&piece, nullptr, 1, FI_ADDR_UNSPEC, claimed->entry->tag, 0, claimed, 0};
    const std::uint64_t flags = FI_CLAIM | FI_COMPLETION | (claimed->discard ? FI_DISCARD : 0);
    post([&] { return fi_trecvmsg(ep_, &t, flags); }, "fi_trecvmsg FI_CLAIM");
  } else if (again.first != nullptr) {
    if (random.one_in(3))
      peek(random, *again.first, again.second);
    else
      receive(random, *again.first, again.second);
    const std::lock_guard lock(mutex_);
    --outstanding_;
  }
}

void Member::post_never(Random& random) {
  {
    const std::lock_guard lock(mutex_);
    if (never_.size() >= kNeverAtOnce) return;
  }
  Op* op = take(What::kNever);
  if (op == nullptr) return;
  op->buffer.resize(std::max<std::size_t>(op->buffer.size(), 64));
  const std::uint64_t tag = tag_of(Kind::kNever, random.below(1000));
  const std::uint64_t ignore = random.one_in(2) ? kAnyOfKind : 0;
  const fi_addr_t source =
      random.one_in(2) ? address_[random.below(static_cast<std::size_t>(world_.members))] : FI_ADDR_UNSPEC;
  post([&] { return fi_trecv(ep_, op->buffer.data(), 64, nullptr, source, tag, ignore, op); }, "fi_trecv");
  const std::lock_guard lock(mutex_);
  never_.push_back(op);
}

void Member::cancel(Random& random) {
  const std::lock_guard lock(mutex_);
  if (!never_.empty() && random.one_in(2)) {
    const auto which = never_.begin() + static_cast<std::ptrdiff_t>(random.below(never_.size()));
    Op* op = *which;
    never_.erase(which);
    op->canceled = true;
    ok(fi_cancel(&ep_->fid, op), "fi_cancel");
    world_.count(kCancels);
    return;
  }
  Op& op = ops_[random.below(ops_.size())];
  if (op.what != What::kReceive || op.kind != Kind::kExact || op.canceled) return;
  op.canceled = true;
  const ssize_t status = fi_cancel(&ep_->fid, &op);
  STRESS_CHECK(status == 0 || status == -FI_ENOENT, status);
  if (status == 0)
    world_.count(kCancels);
  else
    op.canceled = false;
}

void Member::post_multi() {
  const std::lock_guard order(order_);
  while (untagged_ == kMultiReceive) {
    {
      const std::lock_guard lock(mutex_);
      if (multi_.size() >= 2) return;
    }
    Op* op = take(What::kMulti);
    if (op == nullptr) return;
    op->size = kMultiBuffer;
    op->buffer.resize(std::max(op->buffer.size(), kMultiBuffer));
    {
      const std::lock_guard lock(mutex_);
      op->serial = ++serial_;
      multi_.push_back(op);
    }
    const iovec piece{op->buffer.data(), kMultiBuffer};
    const fi_msg m{&piece, nullptr, 1, FI_ADDR_UNSPEC, op, 0};
    post([&] { return fi_recvmsg(ep_, &m, FI_MULTI_RECV | FI_COMPLETION); }, "fi_recvmsg FI_MULTI_RECV");
  }
}

void Member::begin_round(Random& random) {
  untagged_ = static_cast<Untagged>(random.below(3));
}

void Member::cancel_leftovers() {
  const std::lock_guard order(order_);
  const std::lock_guard lock(mutex_);
  untagged_ = kSingle;  // nobody posts another buffer
  for (auto* list : {&never_, &multi_}) {
    for (Op* op : *list) {
      op->canceled = true;
      ok(fi_cancel(&ep_->fid, op), "fi_cancel");
      world_.count(kCancels);
    }
    list->clear();
  }
}

// --- what came ----------------------------------------------------------------------------------------------------

Announced& Member::check_envelope(std::uint64_t id, const fi_cq_tagged_entry& c, fi_addr_t source) {
  const auto from = id >> 56 & 15;
  STRESS_CHECK((id >> 48 & 15) == static_cast<std::uint64_t>(index_) && from < kMembers, id);
  Announced& entry = world_.channels[from][index_].ring[(id & 0xFFFFFFFFFFFF) % kRing];
  const auto state = entry.state.load(std::memory_order_acquire);
  STRESS_CHECK((state & kAnnounced) != 0 && (state & kReceived) == 0, id, state);
  STRESS_CHECK(entry.id == id, entry.id, id);
  const bool tagged = entry.kind != Kind::kUntagged;
  STRESS_CHECK((c.flags & FI_RECV) != 0 && (c.flags & (tagged ? FI_TAGGED : FI_MSG)) != 0, c.flags);
  STRESS_CHECK(!tagged || c.tag == entry.tag, c.tag, entry.tag);
  STRESS_CHECK(((c.flags & FI_REMOTE_CQ_DATA) != 0) == entry.has_data, c.flags);
  STRESS_CHECK(!entry.has_data || c.data == id, c.data, id);
  STRESS_CHECK(source == address_[from], source, from);
  return entry;
}

void Member::check_bytes(const Op& op, const std::uint8_t* at, std::size_t length, std::uint64_t id) {
  const std::size_t wrong = difference(at, length, id);
  STRESS_CHECK(wrong == SIZE_MAX, wrong, length, id, static_cast<int>(op.what));
}

void Member::mark(Announced& entry) {
  const auto before = entry.state.fetch_or(entry.kind == Kind::kExact ? kReceived | kAnswered : kReceived);
  STRESS_CHECK((before & kReceived) == 0, before);
  world_.received[index_].fetch_add(1);
}

void Member::received(Op& op, const fi_cq_tagged_entry& c, fi_addr_t source) {
  std::uint64_t id = 0;
  if (op.kind == Kind::kExact || op.what != What::kReceive)
    id = op.entry->id;
  else if (op.kind != Kind::kUntagged)
    id = c.tag & kAnyOfKind;
  else if ((c.flags & FI_REMOTE_CQ_DATA) != 0)
    id = c.data;
  else
    std::memcpy(&id, op.buffer.data(), 8);
  Announced& entry = check_envelope(id, c, source);
  if (op.what == What::kPeek) {
    STRESS_CHECK(c.len == entry.size, c.len, entry.size);
    world_.count(kPeeks);
    if (op.size == 2) {
      world_.count(kDiscards);
      mark(entry);
    }
    const std::lock_guard lock(mutex_);
    if (op.size == 1) return claimed_.push_back(&op);
    if (op.size == 0) again_.emplace_back(&entry, op.peer);
    return give(&op);
  }
  world_.count(op.what == What::kClaim ? kClaims : kReceives);
  if (op.what == What::kClaim && op.discard) {
    STRESS_CHECK(c.len == 0, c.len);
    world_.count(kDiscards);
  } else {
    STRESS_CHECK(c.len == entry.size, c.len, entry.size);
    check_bytes(op, op.buffer.data(), entry.size, id);
  }
  const std::lock_guard lock(mutex_);
  ++expected_[kRecv];
  if (entry.kind != Kind::kExact)
    matched_[{static_cast<int>(id >> 56), entry.kind}].push_back({id & 0xFFFFFFFFFFFF, op.serial});
  mark(entry);
  give(&op);
}

void Member::multi_received(Op& op, const fi_cq_tagged_entry& c, fi_addr_t source) {
  if ((c.flags & FI_RECV) != 0) {
    const auto* at = static_cast<const std::uint8_t*>(c.buf);
    STRESS_CHECK(at >= op.buffer.data() && at + c.len <= op.buffer.data() + op.size, c.len);
    std::uint64_t id = c.data;
    if ((c.flags & FI_REMOTE_CQ_DATA) == 0) std::memcpy(&id, at, 8);
    Announced& entry = check_envelope(id, c, source);
    STRESS_CHECK(c.len == entry.size && entry.kind == Kind::kUntagged, c.len, entry.size);
    check_bytes(op, at, entry.size, id);
    world_.count(kMultiReceives);
    const std::lock_guard lock(mutex_);
    const auto offset = static_cast<std::size_t>(at - op.buffer.data());
    if (c.len != 0) op.taken.emplace_back(offset, offset + c.len);
    ++expected_[kRecv];
    matched_[{static_cast<int>(id >> 56), entry.kind}].push_back({id & 0xFFFFFFFFFFFF, op.serial << 32 | offset});
    mark(entry);
  }
  if ((c.flags & FI_MULTI_RECV) == 0) return;
  const std::lock_guard lock(mutex_);
  std::erase(multi_, &op);
  retired_.push_back(&op);  // the other thread may still hold a completion of it: used again after the round
}

void Member::cut_off(Op& op, const fi_cq_err_entry& error) {
  STRESS_CHECK(op.what == What::kReceive && op.kind == Kind::kExact, static_cast<int>(op.what));
  Announced& entry = *op.entry;
  STRESS_CHECK(op.size < entry.size, op.size, entry.size);
  STRESS_CHECK(error.len == op.size && error.olen == entry.size - op.size, error.len, error.olen, entry.size);
  STRESS_CHECK(error.tag == entry.tag, error.tag, entry.tag);
  check_bytes(op, op.buffer.data(), op.size, entry.id);
  world_.count(kTruncated);
  mark(entry);
  const std::lock_guard lock(mutex_);
  ++expected_errors_[kRecv];
  give(&op);
}

}  // namespace stress
