// SPDX-License-Identifier: BSD-2-Clause
// A delay-based AIMD after the idea of Swift (SIGCOMM 2020), for comparison with NSCC: below the target delay the
// window grows by one packet per round trip, above it shrinks in proportion to the excess, at most once per round trip.
// ECN and the location of a trim mean nothing to it.
#pragma once

#include <cstdint>

#include "mrc/transport/cc_kind.hpp"

namespace mrc::transport {

class Swift {
 public:
  void set_link(const CcLink& link);
  void on_base(Duration rtt, unsigned hops);
  void on_ack(std::uint64_t bytes, Duration rtt, bool marked, CcTime at);
  void on_ecn(std::uint64_t, CcTime) {}
  void on_nack(std::uint64_t bytes, bool last_hop, CcTime at);
  void on_loss(std::uint64_t bytes, CcTime at);
  void on_timeout(CcTime at);
  void on_penalty(std::uint64_t bytes);
  void on_restore() {}
  void on_receiver(bool) {}
  void on_sent(std::uint64_t, CcTime) {}
  void on_batch_end(CcTime) {}
  std::uint64_t window() const { return static_cast<std::uint64_t>(cwnd_); }
  std::uint64_t max_window() const { return max_; }
  Duration base_rtt() const { return {base_}; }
  Duration target() const { return {target_}; }

 private:
  void derive();
  void set_base(std::uint32_t value);
  void decrease(double factor, CcTime at);
  void clamp();

  double cwnd_ = 0;
  std::uint64_t bps_ = 0, plane_bps_ = 0;
  Tick decrease_after_{};
  std::uint32_t limit_ = 0, mtu_ = 0, target_min_ = 0, max_ = 0;
  std::uint32_t base_ = 0, target_ = 0, rtt_ = 0;
  bool trimming_ = true;
  bool measured_ = false;
};

}  // namespace mrc::transport
