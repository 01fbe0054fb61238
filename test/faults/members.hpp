// SPDX-License-Identifier: BSD-2-Clause
// The nodes as processes: endpoints and their lives, who posts what, and what each has learnt of the others.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "ledger.hpp"
#include "mrc/fabric/sim.hpp"

namespace mrc::faults {

class Members {
 public:
  Members(fabric::Sim& sim, Ledger& ledger, const Plan& plan, bool trace);
  ~Members();
  Members(const Members&) = delete;
  Members& operator=(const Members&) = delete;

  void start();
  void post(Entry& entry);           ///< now, or once the node can
  void post_backlog(unsigned node);  ///< what had to wait
  void on_event(unsigned node, const transport::Event& event);

  // Faults of processes. Each returns whether it could happen.
  bool pause(unsigned node);
  bool resume(unsigned node);
  bool restart(unsigned node);
  bool die(unsigned node);
  bool close(unsigned node);
  bool reopen(unsigned node);
  /// The node's operator denies a plane or a T1 (nullptr: nothing any more).
  void deny(unsigned node, const Fault* fault);
  /// Dead or closed for good: whoever talks to it gets errors.
  bool gone(unsigned node) const;

  // The end.
  void check_pools(bool everything);
  void close_all();
  bool all_closed() const;
  void forget_all();

 private:
  class Upper;
  struct Member;
  bool pardoned(const Entry& entry, transport::Status status) const;
  bool ghost(unsigned a, unsigned b, transport::Status status) const;
  bool attempt(Entry& entry);
  void open(unsigned node);
  void leave(unsigned node);
  void abandon(unsigned node);
  std::uint32_t word(unsigned from, unsigned to) const;

  fabric::Sim& sim_;
  Ledger& ledger_;
  bool trace_;
  std::vector<std::unique_ptr<Member>> members_;
  std::vector<std::unique_ptr<Upper>> uppers_;  ///< of all lives: a core may call an old one until it forgets it
};

}  // namespace mrc::faults
