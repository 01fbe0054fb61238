// SPDX-License-Identifier: BSD-2-Clause
// One endpoint of the stress with its queues, counters, memory and bookkeeping. In shared mode two threads drive one
// member: libfabric is called without any lock of ours, except where the order of calls is part of what is checked.
#pragma once

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include <deque>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <vector>

#include "world.hpp"

namespace stress {

inline void ok(ssize_t status, const char* what) {
  if (status != 0) throw std::runtime_error(std::string(what) + ": " + fi_strerror(static_cast<int>(-status)));
}

/// fabric and domain, one a process.
struct Domain {
  explicit Domain(const World& world);
  ~Domain();
  Domain(const Domain&) = delete;
  Domain& operator=(const Domain&) = delete;
  fi_info* info = nullptr;
  fid_fabric* fabric = nullptr;
  fid_domain* domain = nullptr;
};

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  std::uint64_t next() { return engine_(); }
  std::size_t below(std::size_t n) { return n == 0 ? 0 : engine_() % n; }
  bool one_in(unsigned n) { return below(n) == 0; }

 private:
  std::mt19937_64 engine_;
};

enum class What : std::uint8_t { kIdle, kSend, kReceive, kMulti, kPeek, kClaim, kNever, kWrite, kRead, kAtomic, kWord };

struct Op {
  fi_context2 context;  ///< first: the address is libfabric's op_context
  What what = What::kIdle;
  Kind kind = Kind::kExact;
  Announced* entry = nullptr;  ///< of an exact receive
  int peer = -1;               ///< sender, or target
  bool discard = false, canceled = false, alone = false;
  std::uint64_t serial = 0;  ///< order of posting, where it is checked
  std::size_t size = 0;
  std::size_t begin = 0, end = 0;  ///< part of the slice
  std::vector<std::uint8_t> buffer, second, expected;
  std::vector<std::pair<std::size_t, std::size_t>> taken;  ///< parts of a multi-receive buffer
};

class Member {
 public:
  Member(World& world, Domain& domain, int index);
  ~Member();
  Member(const Member&) = delete;
  Member& operator=(const Member&) = delete;
  void connect();

  /// One random thing. `calm`: nothing new begins, only receives of what was announced.
  void step(Random& random, bool calm);
  void poll();
  /// A round: all that was begun is over.
  bool quiet();
  /// When everybody is quiet: memory, counters, order against the model.
  void begin_round(Random& random);
  void cancel_leftovers();
  void check_round();
  /// What is missing, in words.
  std::string state();

 private:
  // member.cpp
  Op* take(What what);
  void give(Op* op);
  template <class Call>
  void post(Call&& call, const char* what);
  void handle(const fi_cq_tagged_entry& entry, fi_addr_t source);
  void handle_error(const fi_cq_err_entry& error);
  // messages.cpp
  void send(Random& random);
  void answer(Random& random);
  void receive(Random& random, Announced& entry, int from);
  void peek(Random& random, Announced& entry, int from);
  void follow_up(Random& random);
  void post_never(Random& random);
  void cancel(Random& random);
  void post_multi();
  void received(Op& op, const fi_cq_tagged_entry& c, fi_addr_t source);
  void multi_received(Op& op, const fi_cq_tagged_entry& c, fi_addr_t source);
  void cut_off(Op& op, const fi_cq_err_entry& error);
  Announced& check_envelope(std::uint64_t id, const fi_cq_tagged_entry& c, fi_addr_t source);
  void check_bytes(const Op& op, const std::uint8_t* at, std::size_t length, std::uint64_t id);
  void mark(Announced& entry);
  // memory.cpp
  struct Range {
    std::size_t begin = 0, end = 0;
    bool alone = true;
  };
  bool claim_range(Random& random, int target, std::size_t size, bool inject, Range& range);
  void release_range(int target, const Range& range);
  void write(Random& random);
  void read(Random& random);
  void atomic(Random& random);
  std::uint64_t key(int target) const { return 1000 + static_cast<std::uint64_t>(target); }
  void word(Random& random);
  void remote_data(const fi_cq_tagged_entry& c, fi_addr_t source);
  void memory_done(Op& op);

  World& world_;
  Domain& domain_;
  const int index_;
  fid_ep* ep_ = nullptr;
  fid_cq *tx_ = nullptr, *rx_ = nullptr;
  fid_av* av_ = nullptr;
  fid_mr* mr_ = nullptr;
  enum { kSend, kRecv, kWrite, kRead, kRemoteWrite, kRemoteRead, kCounters };
  fid_cntr* counters_[kCounters] = {};
  std::vector<std::uint8_t> memory_;
  fi_addr_t address_[kMembers] = {};

  std::mutex order_;  ///< held over calls whose order matters
  std::mutex mutex_;  ///< of everything below; never while libfabric is called, but for fi_cancel
  std::deque<Op> ops_;
  std::vector<Op*> free_;
  std::size_t outstanding_ = 0;  ///< but for receives that nobody answers and multi-receive buffers
  std::uint64_t serial_ = 0;
  std::uint64_t answered_[kMembers] = {};          ///< announcements for which a receive was posted
  std::vector<std::pair<Announced*, int>> again_;  ///< to be received once more: cancelled, or not found by a peek
  std::vector<Op*> claimed_;                       ///< peeked at with FI_CLAIM
  std::vector<Op*> never_, multi_, retired_;
  struct Seen {
    std::uint64_t n, serial;
  };
  std::map<std::pair<int, Kind>, std::vector<Seen>> matched_;
  std::set<std::uint64_t> data_seen_[kMembers];
  struct Busy {
    std::size_t begin, end;
    bool alone;        ///< nothing else may touch these bytes
    bool until_check;  ///< injected: nobody says when it is over
  };
  std::vector<Busy> busy_[kMembers];                          ///< of my slices
  std::map<std::pair<int, int>, std::vector<Seen>> fetched_;  ///< of words: what came at which place
  enum Untagged { kSingle, kSingleDirected, kMultiReceive };
  std::atomic<Untagged> untagged_{kSingle};
  std::uint64_t expected_[kCounters] = {}, expected_errors_[kCounters] = {};
  std::size_t inject_size_ = 0, order_size_ = 0;
};

/// Tries until there is room; the caller has written everything down before.
template <class Call>
void Member::post(Call&& call, const char* what) {
  const double limit = now() + 120;
  for (;;) {
    const ssize_t status = call();
    if (status == 0) return;
    if (status != -FI_EAGAIN) ok(status, what);
    STRESS_CHECK(now() < limit && !world_.failed);
    poll();
  }
}

}  // namespace stress
