// SPDX-License-Identifier: BSD-2-Clause
// The two sides of an endpoint: who hears of finished transmits, and who of receives and of what peers do to our
// memory. A plain endpoint has one of each; a scalable endpoint has one for every open transmit and receive context.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "msg/match_table.hpp"
#include "msg/messenger.hpp"
#include "msg/order.hpp"
#include "objects.hpp"

namespace mrc::prov {

/// What is bound to one side. Guarded by the engine's lock.
template <int Counters>
struct Side {
  Cq* cq = nullptr;
  Counter* counters[Counters] = {};
  bool selective = false;  ///< only operations that ask for it have a completion
  bool enabled = false;    ///< fi_enable was called for it
  bool silent = false;     ///< closed: nobody hears any more
  bool mute = false;       ///< enabled with nothing bound that would hear: takes no operations
  std::size_t size = 0;    ///< operations that the application may have under way

  bool signals(std::uint64_t flags) const { return !selective || (flags & FI_COMPLETION) != 0; }
  bool room() const { return cq == nullptr || cq->room(); }
  int bind(Cq* queue, std::uint64_t flags) {
    if (cq != nullptr) return -FI_EINVAL;
    cq = queue;
    selective = (flags & FI_SELECTIVE_COMPLETION) != 0;
    cq->reserve(size);
    return 0;
  }
  bool has_counter() const {
    for (const Counter* counter : counters)
      if (counter != nullptr) return true;
    return false;
  }
  /// Lets go of everything that was bound.
  void release() {
    silent = true;
    enabled = false;
    if (cq != nullptr) cq->unreserve(size);
    cq = nullptr;
    for (Counter*& counter : counters) {
      if (counter != nullptr) counter->drop();
      counter = nullptr;
    }
  }
};

enum TxCounter { kSendCounter, kWriteCounter, kReadCounter, kTxCounters };
enum RxCounter { kRecvCounter, kRemoteWriteCounter, kRemoteReadCounter, kRxCounters };

struct TxSide : Side<kTxCounters> {
  std::size_t inject_size = 0;
  std::uint32_t outstanding = 0;  ///< posted and not finished
  msg::Order order;               ///< what tx_attr->msg_order promises
  std::uint16_t index = 0;
};

class EndpointCore;

/// A receive side is also the listener of its table: completions of receives go to what is bound here.
struct RxSide final : Side<kRxCounters>, msg::Listener {
  std::size_t min_multi_recv = 64;
  std::uint16_t index = 0;
  bool open = false;             ///< an endpoint or a context stands before it
  EndpointCore* core = nullptr;  ///< null: a shared receive context
  std::unique_ptr<msg::MatchTable> table;
  /// Shared receive context: the endpoints that receive into the table, each with a queue of its own. What no message
  /// brought (a cancelled receive, a peek that finds nothing) is told to the first.
  std::vector<EndpointCore*> users;

  void make_table(msg::MatchTable::Report report, std::uint64_t seed);
  void done(const msg::Done& done) override;
  bool room() const override { return Side::room(); }
};

}  // namespace mrc::prov
