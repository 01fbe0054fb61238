// SPDX-License-Identifier: BSD-2-Clause
// A delay-based AIMD (cc_swift.hpp).
#include "mrc/transport/cc_swift.hpp"

#include <algorithm>

namespace mrc::transport {
namespace {

constexpr double kBeta = 0.8;
constexpr double kMaxDecrease = 0.5;
constexpr std::uint32_t kAssumedBase = 12000;     // ns
constexpr std::uint32_t kMaxRtt = 2'000'000'000;  // ns
constexpr std::uint32_t kMinPackets = 4;
constexpr std::uint64_t kHops = 4;

}  // namespace

void Swift::set_link(const CcLink& link) {
  const bool first = mtu_ == 0;
  const std::uint32_t mtu = std::max(link.mtu, 1u);
  const std::uint32_t before = max_;
  if (measured_ && mtu > mtu_ && link.plane_bps != 0) {
    base_ = std::min(cc_add(base_, (mtu - mtu_) * kHops * 8 * 1'000'000'000 / link.plane_bps), kMaxRtt);
  }
  bps_ = link.bps;
  plane_bps_ = link.plane_bps;
  limit_ = std::max(cc_saturate(link.limit), mtu);
  mtu_ = mtu;
  target_min_ = static_cast<std::uint32_t>(std::clamp<std::int64_t>(link.target_min.ns, 0, kMaxRtt));
  trimming_ = link.trimming;
  if (!measured_) base_ = kAssumedBase;
  derive();
  if (first) {
    cwnd_ = max_;
  } else if (max_ > before) {
    cwnd_ = cwnd_ * max_ / std::max(before, 1u);
  }
  clamp();
}

void Swift::derive() {
  target_ = std::max({base_ / 4 * 3, target_min_, 1u});
  const double bdp = bps_ == 0 ? limit_ / 1.5 : static_cast<double>(bps_) / 8e9 * base_;
  max_ = static_cast<std::uint32_t>(
      std::clamp<double>(1.5 * bdp, std::min(kMinPackets * mtu_, limit_), static_cast<double>(limit_)));
}

void Swift::clamp() {
  cwnd_ = std::clamp<double>(cwnd_, std::min(mtu_, max_), max_);
}

void Swift::decrease(double factor, CcTime at) {
  if (at.now < decrease_after_) return;
  cwnd_ *= std::max(factor, 1 - kMaxDecrease);
  decrease_after_ = at.now + Duration{std::max(rtt_, base_)};
  clamp();
}

/// ours: what a full packet takes without queues is what a small one takes in the control class, and its serialisation.
void Swift::on_base(Duration rtt, unsigned hops) {
  if (plane_bps_ == 0) return;
  const std::uint64_t full = std::uint64_t{mtu_} * hops * 8 * 1'000'000'000 / plane_bps_;
  set_base(cc_add(static_cast<std::uint32_t>(std::clamp<std::int64_t>(rtt.ns, 1, kMaxRtt)), full));
}

void Swift::set_base(std::uint32_t value) {
  if (measured_ && value >= base_) return;
  const bool first = !measured_;
  measured_ = true;
  base_ = std::min(value, kMaxRtt);
  derive();
  if (first) cwnd_ = max_;
  clamp();
}

void Swift::on_ack(std::uint64_t bytes, Duration rtt, bool, CcTime at) {
  if (rtt.ns >= 0) {
    rtt_ = static_cast<std::uint32_t>(std::clamp<std::int64_t>(rtt.ns, 1, kMaxRtt));
    if (bytes >= mtu_) set_base(rtt_);
  }
  const std::uint32_t delay = rtt_ > base_ ? rtt_ - base_ : 0;
  if (delay < target_) {
    cwnd_ += static_cast<double>(mtu_) * static_cast<double>(bytes) / cwnd_;
    clamp();
  } else if (rtt.ns >= 0) {
    decrease(1 - kBeta * (delay - target_) / rtt_, at);
  }
}

void Swift::on_nack(std::uint64_t, bool, CcTime at) {
  decrease(1 - kMaxDecrease, at);
}

void Swift::on_loss(std::uint64_t, CcTime at) {
  if (!trimming_) decrease(1 - kMaxDecrease, at);
}

void Swift::on_timeout(CcTime at) {
  decrease_after_ = Tick{};
  decrease(1 - kMaxDecrease, at);
}

void Swift::on_penalty(std::uint64_t bytes) {
  cwnd_ -= static_cast<double>(bytes);
  clamp();
}

}  // namespace mrc::transport
