// SPDX-License-Identifier: BSD-2-Clause
// Where messages meet receives: the posted receives and the unexpected messages of one receive context. A Messenger
// has one of its own, or several endpoints' Messengers share one (shared receive context), or one Messenger has several
// (scalable endpoint: Messenger::attach). Order is that of fi_tagged(3): a message takes the earliest posted receive
// that matches, a receive takes the earliest message that matches.
//
// Receives are grouped by shape, (directed?, ignore mask): MPIs use a handful of masks, none of them zero. Within a
// shape a hash of source and tag & ~ignore finds candidates at once, in order; the earliest of all shapes' candidates
// wins. Receives with masks beyond kShapes are searched one by one.
//
// Threads: the engine's lock. Ownership: the table owns receives and unexpected entries (not the bytes: those are in
// the Messenger's chunks) and must outlive every Messenger that uses it. Limits: at `receives` receive() says
// -FI_EAGAIN; at `unexpected` messages stay with their senders (back-pressure).
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>

#include "types.hpp"

namespace mrc::prov::msg {

class Listener;
struct Done;

struct Receive {
  bool tagged = false, signal = true, multi = false;
  const EndpointName* from = nullptr;  ///< directed
  std::span<const engine::GatherPiece> pieces{};
  std::uint64_t tag = 0, ignore = 0;
  void* context = nullptr;
  bool asked = false;     ///< FI_COMPLETION, for deferred work
  bool deferred = false;  ///< comes back in Done, with `counter`
  Counter* counter = nullptr;
};

/// Lists by hash. Each keeps the order in which its members were added, so the first equal one is the earliest.
/// T has `std::uint32_t hash`.
template <class T, Hook T::*Member>
class Buckets {
 public:
  using Bucket = List<T, Member>;
  ~Buckets() { clear(); }
  bool empty() const { return count_ == 0; }
  Bucket& of(std::uint32_t hash) { return lists_[hash & mask_]; }
  void add(T& item) {
    if (count_ >= size_) grow();
    of(item.hash).push_back(item);
    ++count_;
  }
  void remove(T& item) {
    (item.*Member).unlink();
    --count_;
  }
  void clear() {
    for (std::uint32_t i = 0; i < size_; ++i) lists_[i].clear();
    count_ = 0;
  }

 private:
  void grow() {
    const std::uint32_t size = size_ == 0 ? 64 : size_ * 2;
    auto lists = std::make_unique<Bucket[]>(size);
    for (std::uint32_t i = 0; i < size_; ++i)
      while (!lists_[i].empty()) {
        T& item = lists_[i].front();
        lists_[i].pop_front();
        lists[item.hash & (size - 1)].push_back(item);
      }
    lists_ = std::move(lists);
    size_ = size;
    mask_ = size - 1;
  }

  std::unique_ptr<Bucket[]> lists_;
  std::uint32_t size_ = 0, mask_ = 0, count_ = 0;
};

class MatchTable {
 public:
  struct Limits {
    std::uint32_t receives = 1024;
    std::uint32_t unexpected = 1u << 24;
    std::size_t min_multi_recv = 64;
  };
  /// Who hears of a receive's completion: the table's own Listener (a receive context),
  /// or the Host of the Messenger that the message came to (shared receive contexts). Cancelled receives and peeks that
  /// find nothing are always told to the table's own.
  enum class Report : std::uint8_t { kOwn, kArrival };

  MatchTable(const Limits&, Listener& own, std::uint64_t seed, Report = Report::kOwn);
  ~MatchTable();
  MatchTable(const MatchTable&) = delete;
  MatchTable& operator=(const MatchTable&) = delete;

  // --- for the application's calls --------------------------------------------------------------------------------
  /// 0, -FI_EAGAIN (no receive left, or no resources to take a waiting message), -FI_EINVAL.
  int receive(const Receive&);
  /// FI_PEEK, with `claim` FI_PEEK|FI_CLAIM, with `discard` FI_PEEK|FI_DISCARD: completes now, with FI_ENOMSG if
  /// nothing is there. A claimed message is kept in context->internal[0] (struct fi_context).
  int peek(const Receive&, bool claim, bool discard);
  /// FI_CLAIM of what peek() left in the context; with `discard` it is thrown away.
  int claim(const Receive&, bool discard);
  /// FI_ECANCELED completion of the earliest posted receive of this context; -FI_ENOENT if there is none.
  int cancel(void* context);
  /// Forgets all posted receives, without a word. Those under way stay (Messenger::abandon).
  void withdraw();
  std::uint32_t left() const { return receives_.available(); }
  void set_min_multi_recv(std::size_t n) { limits_.min_multi_recv = n; }
  std::size_t min_multi_recv() const { return limits_.min_multi_recv; }
  /// Unexpected messages that wait, claimed ones included.
  std::uint32_t waiting() const { return unexpected_.taken(); }

  // --- for Messengers ---------------------------------------------------------------------------------------------
  RxOp* take();
  void give(RxOp& op) { receives_.give(&op); }
  /// Behind all that were posted before.
  void post(RxOp&);
  /// The earliest posted receive for such a message; it stays posted.
  RxOp* find(bool tagged, const EndpointName& from, std::uint64_t tag);
  void unpost(RxOp&);
  /// An entry to be filled and given to add(); null at the limit.
  Unexpected* take_unexpected() { return unexpected_.take(); }
  void give(Unexpected& u) { unexpected_.give(&u); }
  /// Behind all that came before.
  void add(Unexpected&);
  /// The earliest message for such a receive; it stays.
  Unexpected* find(const Receive&);
  /// Takes it out of every list, also of the claimed ones; the entry is still to be given back.
  void remove(Unexpected&);
  Listener& host(Listener& arrival) const { return report_ == Report::kOwn ? own_ : arrival; }
  /// Multi-receive buffers that could not take all messages that wait for them, for want of resources, go on.
  void feed();
  bool hungry() const { return !hungry_.empty(); }

 private:
  static constexpr std::uint8_t kShapes = Unexpected::kShapes;
  static constexpr std::uint8_t kNone = UINT8_MAX;
  /// An unused shape may be given up for another mask after so many receives.
  static constexpr std::uint64_t kStale = 1024;
  struct Shape {
    bool used = false, directed = false;
    std::uint64_t ignore = 0, last_use = 0;
    Buckets<RxOp, &RxOp::posted> posted;
    Buckets<Unexpected::Shaped, &Unexpected::Shaped::hook> waiting;
  };
  /// Tagged and untagged messages never meet.
  struct Side {
    std::array<Shape, kShapes> shapes;
    List<RxOp, &RxOp::posted> others;  ///< receives without a shape, in order
    List<Unexpected, &Unexpected::link> arrived;
  };

  std::uint8_t shape_of(Side&, bool directed, std::uint64_t ignore);
  std::uint32_t hash(bool directed, const EndpointName& from, std::uint64_t masked_tag) const;
  void index(Shape&, std::uint8_t number, Unexpected&);
  void feed(RxOp&);
  void fill(RxOp&, const Receive&);

  Limits limits_;
  Listener& own_;
  Report report_;
  std::uint64_t seed_;
  std::uint64_t clock_ = 0;  ///< counts posted receives and searches
  SlabPool<RxOp> receives_;
  SlabPool<Unexpected> unexpected_;
  Side sides_[2];  ///< messages, tagged
  List<Unexpected, &Unexpected::link> claimed_;
  List<RxOp, &RxOp::hungry> hungry_;
};

}  // namespace mrc::prov::msg
