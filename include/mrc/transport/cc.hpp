// SPDX-License-Identifier: BSD-2-Clause
// Congestion control as the transport calls it. One algorithm per core, statically dispatched; signals are batched:
// on_ack() per newly acknowledged packet, on_batch_end() once per received burst.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>

#include "mrc/time.hpp"

namespace mrc::transport {

/// What every algorithm is told. Bytes are payload bytes, at least 1 a packet.
template <class T>
concept CongestionControl = requires(T cc, const T constant, std::uint64_t bytes, Duration rtt, Tick now, bool flag) {
  { constant.can_send(bytes, bytes) } -> std::same_as<bool>;  // (in flight, next packet)
  cc.on_ack(bytes, rtt, flag);                                // rtt < 0: not measured; flag: ECN echoed
  cc.on_batch_end(now);
  cc.on_nack(bytes, flag);  // trimmed; flag: on the last hop
  cc.on_loss(bytes);
  cc.on_ecn(bytes);
  cc.on_timeout();
  { constant.window() } -> std::same_as<std::uint64_t>;
};

/// A fixed window that gives way to loss and trimming and grows back with what is acknowledged: for software ports,
/// whose delay says more about the scheduler than about queues. In balance at 1/9 loss, so that below it the window
/// stays full: spraying meets loss by changing paths first.
class FixedWindow {
 public:
  FixedWindow() = default;
  explicit FixedWindow(std::uint64_t bytes) : max_(bytes), window_(bytes) {}

  bool can_send(std::uint64_t inflight, std::uint64_t packet) const {
    return inflight == 0 || inflight + packet <= window_;
  }
  void on_ack(std::uint64_t bytes, Duration, bool) { window_ = std::min(max_, window_ + bytes / kGrowth); }
  void on_batch_end(Tick) {}
  void on_nack(std::uint64_t bytes, bool) { shrink(bytes); }
  void on_loss(std::uint64_t bytes) { shrink(bytes); }
  void on_ecn(std::uint64_t) {}  // ECN means "take another path": the EV set's business
  void on_timeout() { window_ = std::max(max_ / kFloor, window_ / 2); }
  std::uint64_t window() const { return window_; }
  /// The path's MTU changed: the limit is counted in packets.
  void resize(std::uint64_t bytes) {
    window_ = max_ == 0 ? bytes : std::max<std::uint64_t>(1, window_ * bytes / max_);
    max_ = bytes;
  }

 private:
  static constexpr std::uint64_t kGrowth = 8;
  static constexpr std::uint64_t kFloor = 16;
  void shrink(std::uint64_t bytes) {
    const std::uint64_t floor = max_ / kFloor;
    window_ = window_ > floor + bytes ? window_ - bytes : floor;
  }

  std::uint64_t max_ = 0;
  std::uint64_t window_ = 0;
};
static_assert(CongestionControl<FixedWindow>);

}  // namespace mrc::transport
