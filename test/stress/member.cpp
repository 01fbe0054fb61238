// SPDX-License-Identifier: BSD-2-Clause
// A member's life: opening, completions, the end of a round.
#include "member.hpp"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <cstring>

namespace stress {
namespace {

/// Receives always find one, however many messages are announced: a receive that cannot be posted for what came first
/// would leave its sender without credit for ever.
constexpr std::size_t kForReceives = kMembers * kRing + 80;
constexpr std::size_t kOps = kForReceives + 300;
constexpr std::uint64_t kOrders = FI_ORDER_RMA_RAR | FI_ORDER_RMA_RAW | FI_ORDER_RMA_WAR | FI_ORDER_RMA_WAW |
                                  FI_ORDER_RAR | FI_ORDER_RAW | FI_ORDER_WAR | FI_ORDER_WAW | FI_ORDER_ATOMIC_RAR |
                                  FI_ORDER_ATOMIC_RAW | FI_ORDER_ATOMIC_WAR | FI_ORDER_ATOMIC_WAW | FI_ORDER_SAS;

}  // namespace

Domain::Domain(const World& world) {
  fi_info* hints = fi_allocinfo();
  hints->caps =
      FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | FI_MULTI_RECV | FI_DIRECTED_RECV | FI_SOURCE | FI_RMA_EVENT | FI_FENCE;
  hints->mode = FI_CONTEXT | FI_CONTEXT2;
  hints->ep_attr->type = FI_EP_RDM;
  hints->domain_attr->mr_mode = 0;
  hints->domain_attr->threading = FI_THREAD_SAFE;
  hints->tx_attr->msg_order = hints->rx_attr->msg_order = world.ordered ? kOrders : FI_ORDER_SAS;
  hints->fabric_attr->prov_name = strdup("mrc");
  const int status = fi_getinfo(FI_VERSION(1, 17), nullptr, nullptr, 0, hints, &info);
  fi_freeinfo(hints);
  ok(status, "fi_getinfo");
  ok(fi_fabric(info->fabric_attr, &fabric, nullptr), "fi_fabric");
  ok(fi_domain(fabric, info, &domain, nullptr), "fi_domain");
}

Domain::~Domain() {
  if (domain != nullptr) fi_close(&domain->fid);
  if (fabric != nullptr) fi_close(&fabric->fid);
  fi_freeinfo(info);
}

Member::Member(World& world, Domain& domain, int index) : world_(world), domain_(domain), index_(index) {
  fi_cq_attr queue{};
  queue.size = 1024;
  queue.format = FI_CQ_FORMAT_TAGGED;
  queue.wait_obj = FI_WAIT_NONE;
  ok(fi_endpoint(domain.domain, domain.info, &ep_, nullptr), "fi_endpoint");
  ok(fi_cq_open(domain.domain, &queue, &tx_, nullptr), "fi_cq_open");
  ok(fi_cq_open(domain.domain, &queue, &rx_, nullptr), "fi_cq_open");
  fi_av_attr vector{};
  vector.type = FI_AV_TABLE;
  ok(fi_av_open(domain.domain, &vector, &av_, nullptr), "fi_av_open");
  ok(fi_ep_bind(ep_, &tx_->fid, FI_TRANSMIT), "fi_ep_bind");
  ok(fi_ep_bind(ep_, &rx_->fid, FI_RECV), "fi_ep_bind");
  ok(fi_ep_bind(ep_, &av_->fid, 0), "fi_ep_bind");
  constexpr std::uint64_t kKinds[kCounters] = {FI_SEND, FI_RECV, FI_WRITE, FI_READ, FI_REMOTE_WRITE, FI_REMOTE_READ};
  for (int i = 0; i < kCounters; ++i) {
    fi_cntr_attr attr{};
    attr.wait_obj = FI_WAIT_NONE;
    ok(fi_cntr_open(domain.domain, &attr, &counters_[i], nullptr), "fi_cntr_open");
    ok(fi_ep_bind(ep_, &counters_[i]->fid, kKinds[i]), "fi_ep_bind");
  }
  const std::size_t smallest = 40000;
  ok(fi_setopt(&ep_->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &smallest, sizeof smallest), "fi_setopt");
  ok(fi_enable(ep_), "fi_enable");
  memory_.resize(kMembers * kSlice + kWords * 8);
  ok(fi_mr_reg(domain.domain, memory_.data(), memory_.size(), FI_REMOTE_READ | FI_REMOTE_WRITE, 0,
               1000 + static_cast<std::uint64_t>(index), 0, &mr_, nullptr),
     "fi_mr_reg");
  auto& name = world.names[index];
  name.length = sizeof name.bytes;
  ok(fi_getname(&ep_->fid, name.bytes, &name.length), "fi_getname");
  inject_size_ = domain.info->tx_attr->inject_size;
  const fi_ep_attr& attr = *domain.info->ep_attr;
  order_size_ = std::min({attr.max_order_raw_size, attr.max_order_war_size, attr.max_order_waw_size});
  ops_.resize(kOps);
  for (Op& op : ops_) free_.push_back(&op);
}

Member::~Member() {
  for (fid* each : {ep_ != nullptr ? &ep_->fid : nullptr, mr_ != nullptr ? &mr_->fid : nullptr,
                    av_ != nullptr ? &av_->fid : nullptr, tx_ != nullptr ? &tx_->fid : nullptr,
                    rx_ != nullptr ? &rx_->fid : nullptr})
    if (each != nullptr) fi_close(each);
  for (fid_cntr* each : counters_)
    if (each != nullptr) fi_close(&each->fid);
}

void Member::connect() {
  for (int i = 0; i < world_.members; ++i)
    STRESS_CHECK(fi_av_insert(av_, world_.names[i].bytes, 1, &address_[i], 0, nullptr) == 1);
}

Op* Member::take(What what) {
  const std::lock_guard lock(mutex_);
  const bool receives = what == What::kReceive || what == What::kPeek || what == What::kNever || what == What::kMulti;
  if (free_.size() <= (receives ? 0 : kForReceives)) return nullptr;
  Op* op = free_.back();
  free_.pop_back();
  op->what = what;
  op->entry = nullptr;
  op->discard = op->canceled = op->alone = false;
  op->peer = -1;
  op->begin = op->end = op->size = 0;
  op->taken.clear();
  if (what != What::kNever && what != What::kMulti) ++outstanding_;
  return op;
}

/// Under the mutex.
void Member::give(Op* op) {
  if (op->what != What::kNever && op->what != What::kMulti) --outstanding_;
  op->what = What::kIdle;
  free_.push_back(op);
}

void Member::poll() {
  bool nothing = true;
  for (fid_cq* cq : {tx_, rx_}) {
    for (;;) {
      fi_cq_tagged_entry entries[8];
      fi_addr_t sources[8];
      const ssize_t n = fi_cq_readfrom(cq, entries, 8, sources);
      if (n == -FI_EAVAIL) {
        fi_cq_err_entry error{};
        const ssize_t got = fi_cq_readerr(cq, &error, 0);
        STRESS_CHECK(got == 1 || got == -FI_EAGAIN, got);  // in shared mode the other thread may be quicker
        if (got == 1) handle_error(error);
        continue;
      }
      STRESS_CHECK(n > 0 || n == -FI_EAGAIN, n);
      if (n <= 0) break;
      nothing = false;
      for (ssize_t i = 0; i < n; ++i) handle(entries[i], sources[i]);
      if (n < 8) break;
    }
  }
  if (nothing) sched_yield();  // more threads than cores
}

void Member::handle(const fi_cq_tagged_entry& c, fi_addr_t source) {
  if (c.op_context == nullptr) return remote_data(c, source);
  Op& op = *static_cast<Op*>(c.op_context);
  switch (op.what) {
    case What::kSend: {
      STRESS_CHECK((c.flags & FI_SEND) != 0, c.flags);
      const std::lock_guard lock(mutex_);
      return give(&op);
    }
    case What::kReceive:
    case What::kPeek:
    case What::kClaim:
      return received(op, c, source);
    case What::kMulti:
      return multi_received(op, c, source);
    case What::kWrite:
    case What::kRead:
    case What::kAtomic:
    case What::kWord:
      if (op.what == What::kWord && op.buffer.size() == 8) {
        const std::lock_guard lock(mutex_);
        std::uint64_t value;
        std::memcpy(&value, op.buffer.data(), 8);
        fetched_[{op.peer, static_cast<int>(op.size)}].push_back({value, op.serial});
      }
      return memory_done(op);
    case What::kNever:
    case What::kIdle:
      STRESS_CHECK(false && "a completion of nothing", static_cast<int>(op.what), c.flags);
  }
}

void Member::handle_error(const fi_cq_err_entry& error) {
  STRESS_CHECK(error.op_context != nullptr, error.err);
  Op& op = *static_cast<Op*>(error.op_context);
  switch (error.err) {
    case FI_ETRUNC:
      return cut_off(op, error);
    case FI_ENOMSG: {
      STRESS_CHECK(op.what == What::kPeek, static_cast<int>(op.what));
      const std::lock_guard lock(mutex_);
      again_.emplace_back(op.entry, op.peer);
      return give(&op);
    }
    case FI_ECANCELED: {
      const std::lock_guard lock(mutex_);
      STRESS_CHECK(op.canceled, static_cast<int>(op.what));
      ++expected_errors_[kRecv];
      if (op.what == What::kReceive) again_.emplace_back(op.entry, op.peer);
      return give(&op);
    }
    default:
      throw std::runtime_error(fmt::format("operation {} of member {} with {} failed: {}", static_cast<int>(op.what),
                                           index_, op.peer, fi_strerror(error.err)));
  }
}

bool Member::quiet() {
  const std::lock_guard lock(mutex_);
  if (outstanding_ != 0 || !again_.empty() || !claimed_.empty()) return false;
  // Every announcement is looked at in its round: a later one may receive in another way.
  for (int i = 0; i < world_.members; ++i)
    if (data_seen_[i].size() != world_.data_written[i][index_] || answered_[i] != world_.channels[i][index_].next)
      return false;
  if (world_.announced[index_] != world_.received[index_]) return false;
  return fi_cntr_read(counters_[kSend]) == expected_[kSend] && fi_cntr_read(counters_[kWrite]) == expected_[kWrite] &&
         fi_cntr_read(counters_[kRead]) == expected_[kRead] &&
         fi_cntr_read(counters_[kRemoteWrite]) == world_.remote_writes[index_] &&
         fi_cntr_read(counters_[kRemoteRead]) == world_.remote_reads[index_];
}

std::string Member::state() {
  const std::lock_guard lock(mutex_);
  std::string text =
      fmt::format("member {}: {} outstanding, {} again, {} claimed, announced {}, received {}", index_, outstanding_,
                  again_.size(), claimed_.size(), world_.announced[index_].load(), world_.received[index_].load());
  for (int i = 0; i < kCounters; ++i)
    text += fmt::format(" {}/{}", fi_cntr_read(counters_[i]),
                        i == kRemoteWrite  ? world_.remote_writes[index_].load()
                        : i == kRemoteRead ? world_.remote_reads[index_].load()
                                           : expected_[i]);
  for (const Op& op : ops_)
    if (op.what != What::kIdle && op.what != What::kNever && op.what != What::kMulti)
      text += fmt::format("; op {} {} with {}, {} B", static_cast<int>(op.what), static_cast<int>(op.kind), op.peer,
                          op.size);
  return text;
}

void Member::check_round() {
  const std::lock_guard lock(mutex_);
  for (int i = 0; i < world_.members; ++i) {
    const std::uint8_t* mine = memory_.data() + static_cast<std::size_t>(i) * kSlice;
    const std::uint8_t* model = world_.shadow[index_][i];
    const auto at = static_cast<std::size_t>(std::mismatch(mine, mine + kSlice, model).first - mine);
    STRESS_CHECK(at == kSlice, index_, i, at);
    std::erase_if(busy_[i], [](const Busy& b) { return b.until_check; });
    STRESS_CHECK(busy_[i].empty());
  }
  for (std::size_t i = 0; i < kWords; ++i) {
    std::uint64_t value;
    std::memcpy(&value, memory_.data() + kMembers * kSlice + 8 * i, 8);
    STRESS_CHECK(value == world_.words[index_][i], index_, i, value, world_.words[index_][i].load());
  }
  for (int i = 0; i < kCounters; ++i)
    STRESS_CHECK(fi_cntr_readerr(counters_[i]) == expected_errors_[i], i, fi_cntr_readerr(counters_[i]),
                 expected_errors_[i]);
  STRESS_CHECK(fi_cntr_read(counters_[kRecv]) == expected_[kRecv], fi_cntr_read(counters_[kRecv]), expected_[kRecv]);
  for (Op* op : retired_) {
    std::sort(op->taken.begin(), op->taken.end());
    for (std::size_t i = 1; i < op->taken.size(); ++i)
      STRESS_CHECK(op->taken[i - 1].second <= op->taken[i].first, op->taken[i - 1].second, op->taken[i].first);
    give(op);
  }
  retired_.clear();
  // Of one sender's messages the earlier one has the earlier receive.
  for (auto& [who, list] : matched_) {
    std::sort(list.begin(), list.end(), [](const Seen& a, const Seen& b) {
      return a.serial != b.serial ? a.serial < b.serial : a.n < b.n;  // nothing but empty ones lie at one place
    });
    for (std::size_t i = 1; i < list.size(); ++i)
      STRESS_CHECK(list[i - 1].n < list[i].n, who.first, static_cast<int>(who.second), list[i - 1].n, list[i].n);
  }
  matched_.clear();
  // And of one initiator's additions the earlier one has found less.
  for (auto& [where, list] : fetched_) {
    std::sort(list.begin(), list.end(), [](const Seen& a, const Seen& b) { return a.serial < b.serial; });
    for (std::size_t i = 1; i < list.size(); ++i)
      STRESS_CHECK(list[i - 1].n < list[i].n, where.first, where.second, list[i - 1].n, list[i].n);
  }
  fetched_.clear();
}

}  // namespace stress
