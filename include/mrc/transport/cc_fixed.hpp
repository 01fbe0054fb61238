// SPDX-License-Identifier: BSD-2-Clause
// A fixed window that gives way to loss and trimming and grows back with what is acknowledged: for software ports,
// whose delay says more about the scheduler than about queues. In balance at 1/9 loss, so that below it the window
// stays full: spraying meets loss by changing paths first.
#pragma once

#include <algorithm>

#include "mrc/transport/cc_kind.hpp"

namespace mrc::transport {

class FixedWindow {
 public:
  FixedWindow() = default;
  explicit FixedWindow(std::uint64_t bytes) : max_(bytes), window_(bytes) {}

  void set_link(const CcLink& link) {
    window_ = max_ == 0 ? link.limit : std::max<std::uint64_t>(1, window_ * link.limit / max_);
    max_ = link.limit;
    least_ = std::min<std::uint64_t>(max_ / kFloor, 2 * std::uint64_t{link.mtu});
  }
  void on_ack(std::uint64_t bytes, Duration, bool, CcTime) { window_ = std::min(max_, window_ + bytes / kGrowth); }
  void on_base(Duration, unsigned) {}
  void on_ecn(std::uint64_t, CcTime) {}  // ECN means "take another path": the EV set's business
  /// Trimmed packets come back at once and are sent again at once: with a floor of many packets a link could be busy
  /// with nothing but their headers.
  void on_nack(std::uint64_t bytes, bool, CcTime) { shrink(bytes, least_); }
  void on_loss(std::uint64_t bytes, CcTime) { shrink(bytes, max_ / kFloor); }
  void on_timeout(CcTime) { shrink(window_ / 2, max_ / kFloor); }
  void on_penalty(std::uint64_t bytes) { shrink(bytes, max_ / kFloor); }
  void on_restore() { window_ = max_; }
  void on_receiver(bool) {}
  void on_sent(std::uint64_t, CcTime) {}
  void on_batch_end(CcTime) {}
  std::uint64_t window() const { return window_; }
  std::uint64_t max_window() const { return max_; }

 private:
  static constexpr std::uint64_t kGrowth = 8;
  static constexpr std::uint64_t kFloor = 16;
  void shrink(std::uint64_t bytes, std::uint64_t floor) {
    if (window_ <= floor) return;
    window_ = window_ - floor > bytes ? window_ - bytes : floor;
  }

  std::uint64_t max_ = 0;
  std::uint64_t window_ = 0;
  std::uint64_t least_ = 0;  ///< after trimming
};

}  // namespace mrc::transport
