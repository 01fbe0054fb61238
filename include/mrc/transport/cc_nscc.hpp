// SPDX-License-Identifier: BSD-2-Clause
// NSCC, the sender-based congestion control of Ultra Ethernet 1.0, as mrc-protocol §4 summarises it: a window of bytes,
// moved by two signals, ECN and queueing delay. Written from that summary; what it leaves open is decided in
// docs/congestion-control.md.
#pragma once

#include <cstdint>

#include "mrc/transport/cc_kind.hpp"

namespace mrc::transport {

class Nscc {
 public:
  void set_link(const CcLink& link);
  void on_base(Duration rtt, unsigned hops);
  void on_ack(std::uint64_t bytes, Duration rtt, bool marked, CcTime at);
  void on_ecn(std::uint64_t bytes, CcTime at);
  void on_nack(std::uint64_t bytes, bool last_hop, CcTime at);
  void on_loss(std::uint64_t bytes, CcTime at);
  void on_timeout(CcTime at);
  void on_penalty(std::uint64_t bytes);
  void on_restore();
  void on_receiver(bool full) { full_ = full; }
  void on_sent(std::uint64_t bytes, CcTime at);
  void on_batch_end(CcTime) {}
  std::uint64_t window() const { return static_cast<std::uint64_t>(cwnd_); }
  std::uint64_t max_window() const { return max_; }

  // Derived from what was measured; for tests and telemetry.
  Duration base_rtt() const { return {base_}; }
  Duration target() const { return {target_}; }
  Duration delay() const { return {delay_}; }
  Duration average_delay() const { return {static_cast<std::int64_t>(average_)}; }
  double alpha() const;  ///< bytes per nanosecond below the target, per acknowledged share of the window
  double fair_increase() const;
  double eta() const;
  bool measured() const { return measured_; }

 private:
  void derive();
  void set_base(std::uint32_t value);
  double scale_a() const;
  double scale_b() const;
  void sample(Duration rtt, std::uint64_t bytes);
  void average(double delay, std::uint64_t bytes);
  bool ignored(std::uint64_t bytes);
  bool quick_adapt(bool trigger, CcTime at);
  bool fast_increase(std::uint64_t bytes);
  void decrease(CcTime at);
  void adjust(std::uint64_t bytes, CcTime at);
  void shrink(double bytes);
  void clamp();

  double cwnd_ = 0;
  double inc_ = 0;      ///< bytes², to be divided by cwnd
  double average_ = 0;  ///< of the queueing delay, ns
  std::uint64_t bps_ = 0, plane_bps_ = 0;
  Tick adapt_at_{};  ///< end of quick_adapt's period
  Tick decrease_after_{}, adjust_at_{};
  std::uint32_t limit_ = 0, mtu_ = 0, target_min_ = 0;
  std::uint32_t max_ = 0;                           ///< 1.5 BDP
  std::uint32_t base_ = 0, target_ = 0;             ///< ns
  std::uint32_t delay_ = 0;                         ///< last one measured, ns
  std::uint32_t achieved_ = 0;                      ///< bytes acknowledged in quick_adapt's period
  std::uint32_t peak_ = 0;                          ///< most bytes in flight in that period
  std::uint32_t ignore_ = 0;                        ///< bytes in flight when quick_adapt struck: their fate is known
  std::uint32_t fast_ = 0;                          ///< bytes acknowledged in a row with an empty queue
  std::uint32_t since_adjust_ = 0, unsampled_ = 0;  ///< bytes acknowledged
  std::uint32_t saved_ = 0;                         ///< cwnd before the receiver's penalties, 0 = none
  bool trimming_ = true;
  bool measured_ = false;
  bool trigger_ = false;
  bool full_ = false;  ///< the receiver's links
};

}  // namespace mrc::transport
