// SPDX-License-Identifier: BSD-2-Clause
// NSCC (mrc-protocol §4). Each step is named after the line of the summary that it implements; the choices where the
// summary is silent are marked "ours" and explained in docs/congestion-control.md.
#include "mrc/transport/cc_nscc.hpp"

#include <algorithm>

namespace mrc::transport {
namespace {

constexpr double kReferenceBytes = 100e9 / 8 * 12e-6;  // 100 Gb/s × 12 us: the network that the defaults are given for
constexpr double kReferenceDelay = 12e3;               // ns
constexpr double kGamma = 0.8;
constexpr double kMaxJump = 0.5;                  // max_md_jump
constexpr double kAverageWeight = 0.0125;         // of one packet's delay
constexpr double kFastShare = 0.25;               // ours: growth per window while the queue is empty
constexpr std::uint32_t kAssumedBase = 12000;     // ns, until something was measured
constexpr std::uint32_t kMaxRtt = 2'000'000'000;  // ns: what is longer counts as this
constexpr std::uint32_t kFastDelay = 8;           // ours: the queue counts as empty below T / 8
constexpr std::uint32_t kAdjustPackets = 8;       // adjust_bytes
constexpr std::uint32_t kMinPackets = 4;          // ours: max_wnd is never less
constexpr std::uint32_t kAdaptDelay = 4;          // quick_adapt: d > 4 T
constexpr std::uint32_t kAdaptShare = 8;          // … and achieved < max_wnd / 8
constexpr std::uint64_t kHops = 4;                // serialisations of a packet between two NICs, T0 - T1 - T0

}  // namespace

double Nscc::scale_a() const {
  return max_ / 1.5 / kReferenceBytes;
}
double Nscc::scale_b() const {
  return target_ / kReferenceDelay;
}
double Nscc::alpha() const {
  return 4 * scale_a() * scale_b() * mtu_ / std::max(target_, 1u);
}
double Nscc::fair_increase() const {
  return 5.0 * mtu_ * scale_a();
}
double Nscc::eta() const {
  return 0.15 * mtu_ * scale_a();
}

void Nscc::set_link(const CcLink& link) {
  const bool first = mtu_ == 0;
  const std::uint32_t mtu = std::max(link.mtu, 1u);
  const std::uint32_t before = max_;
  if (measured_ && mtu > mtu_ && link.plane_bps != 0) {
    // The base was that of smaller packets. Too high a guess mends itself.
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
    cwnd_ = cwnd_ * max_ / std::max(before, 1u);  // a plane more: the share of the pipe stays what it was
  }
  clamp();
}

void Nscc::derive() {
  target_ = std::max({trimming_ ? base_ / 4 * 3 : base_, target_min_, 1u});
  const double bdp = bps_ == 0 ? limit_ / 1.5 : static_cast<double>(bps_) / 8e9 * base_;
  max_ = static_cast<std::uint32_t>(
      std::clamp<double>(1.5 * bdp, std::min(kMinPackets * mtu_, limit_), static_cast<double>(limit_)));
}

void Nscc::clamp() {
  cwnd_ = std::clamp<double>(cwnd_, std::min(mtu_, max_), max_);
}

void Nscc::average(double delay, std::uint64_t bytes) {
  const double weight = std::min(1.0, kAverageWeight * static_cast<double>(bytes) / mtu_);
  average_ += (delay - average_) * weight;
}

void Nscc::sample(Duration rtt, std::uint64_t bytes) {
  const auto value = static_cast<std::uint32_t>(std::clamp<std::int64_t>(rtt.ns, 1, kMaxRtt));
  // ours: the base is that of full packets; what a short one gains by being short is no room in a queue.
  if (bytes >= mtu_) set_base(value);
  delay_ = value > base_ ? value - base_ : 0;
  average(delay_, std::max<std::uint64_t>(unsampled_, bytes));
  unsampled_ = 0;
}

/// What was in flight when quick_adapt struck says nothing about the window that it chose.
bool Nscc::ignored(std::uint64_t bytes) {
  if (ignore_ == 0) return false;
  ignore_ -= static_cast<std::uint32_t>(std::min<std::uint64_t>(bytes, ignore_));
  return true;
}

bool Nscc::quick_adapt(bool trigger, CcTime at) {
  trigger_ = trigger_ || trigger;
  if (at.now < adapt_at_) return false;
  // ours: a window that was not used says nothing about the network.
  const bool used = peak_ + mtu_ >= cwnd_;
  // ours, too: a small share that arrives is a share. Only where less than half of what such a window brings in such a
  // round trip came back there is something to adapt.
  const double expected = cwnd_ * (double(base_) + target_) / (double(base_) + std::max(delay_, target_));
  const bool adapt = trigger_ && used && achieved_ < max_ / kAdaptShare && achieved_ < expected / 2;
  if (adapt) {
    cwnd_ = std::min<double>(cwnd_, std::max(achieved_, mtu_));
    clamp();
    ignore_ = cc_saturate(at.inflight);
    inc_ = 0;
    fast_ = 0;
  }
  trigger_ = false;
  achieved_ = 0;
  peak_ = cc_saturate(at.inflight);
  adapt_at_ = at.now + Duration{std::int64_t{base_} + target_};
  return adapt;
}

bool Nscc::fast_increase(std::uint64_t bytes) {
  if (delay_ >= target_ / kFastDelay) {
    fast_ = 0;
    return false;
  }
  fast_ = cc_add(fast_, bytes);
  if (fast_ <= cwnd_) return false;
  cwnd_ = std::min(cwnd_ + kFastShare * static_cast<double>(bytes), static_cast<double>(max_));
  return true;
}

/// cwnd *= max(1 - gamma (avg - T) / avg, max_md_jump), at most once per base RTT.
void Nscc::decrease(CcTime at) {
  if (at.now < decrease_after_ || average_ <= target_) return;
  cwnd_ *= std::max(1 - kGamma * (average_ - target_) / average_, kMaxJump);
  decrease_after_ = at.now + Duration{base_};
  clamp();
}

void Nscc::adjust(std::uint64_t bytes, CcTime at) {
  since_adjust_ = cc_add(since_adjust_, bytes);
  const bool period = at.now >= adjust_at_;
  if (!period && since_adjust_ < std::uint64_t{kAdjustPackets} * mtu_) return;
  cwnd_ += inc_ / cwnd_;
  if (period) {
    cwnd_ += eta();
    adjust_at_ = at.now + Duration{base_};
  }
  inc_ = 0;
  since_adjust_ = 0;
  clamp();
}

/// ours: what a full packet takes without queues is what a small one takes in the control class, and its serialisation.
void Nscc::on_base(Duration rtt, unsigned hops) {
  if (plane_bps_ == 0) return;
  const std::uint64_t full = std::uint64_t{mtu_} * hops * 8 * 1'000'000'000 / plane_bps_;
  set_base(cc_add(static_cast<std::uint32_t>(std::clamp<std::int64_t>(rtt.ns, 1, kMaxRtt)), full));
}

void Nscc::set_base(std::uint32_t value) {
  if (measured_ && value >= base_) return;
  const bool first = !measured_;
  measured_ = true;
  base_ = std::min(value, kMaxRtt);
  derive();
  if (first) cwnd_ = max_;
  clamp();
}

void Nscc::on_ack(std::uint64_t bytes, Duration rtt, bool marked, CcTime at) {
  achieved_ = cc_add(achieved_, bytes);
  unsampled_ = cc_add(unsampled_, bytes);
  if (rtt.ns >= 0) sample(rtt, bytes);
  if (ignored(bytes)) return;
  if (quick_adapt(delay_ / kAdaptDelay > target_, at)) return;
  const auto n = static_cast<double>(bytes);
  // ours: the last hop does not mark (mrc-protocol §4). So much delay without a mark, while the receiver says that its
  // links are full, is that hop's queue: the same answer.
  if (marked || (full_ && delay_ >= target_ + target_ / 2)) {
    fast_ = 0;
    if (delay_ >= target_) decrease(at);
  } else if (delay_ >= target_) {
    fast_ = 0;
    inc_ += fair_increase() * n;
  } else if (!fast_increase(bytes)) {
    inc_ += alpha() * n * (target_ - delay_);
  }
  adjust(bytes, at);
}

/// The mark of a packet that was counted as unmarked: what it had earned is taken back first.
void Nscc::on_ecn(std::uint64_t bytes, CcTime at) {
  const auto n = static_cast<double>(bytes);
  inc_ = std::max(0.0, inc_ - (delay_ >= target_ ? fair_increase() * n : alpha() * n * (target_ - delay_)));
  fast_ = 0;
  if (delay_ >= target_) decrease(at);
}

void Nscc::shrink(double bytes) {
  cwnd_ -= bytes;
  clamp();
}

void Nscc::on_nack(std::uint64_t bytes, bool, CcTime at) {
  average(base_, bytes);
  fast_ = 0;
  if (ignored(bytes)) return;
  if (!quick_adapt(true, at)) shrink(static_cast<double>(bytes));
}

/// ours: where full queues trim, a packet that vanished while the queues were short was not in a queue's way.
void Nscc::on_loss(std::uint64_t bytes, CcTime at) {
  if (ignored(bytes)) return;
  if (trimming_ && delay_ < target_) return;
  fast_ = 0;
  if (!quick_adapt(true, at)) shrink(static_cast<double>(bytes));
}

/// ours: silence is not congestion by itself; the losses that follow are those of one event.
void Nscc::on_timeout(CcTime at) {
  cwnd_ /= 2;
  inc_ = 0;
  fast_ = 0;
  ignore_ = cc_saturate(at.inflight);
  clamp();
}

void Nscc::on_penalty(std::uint64_t bytes) {
  if (bytes == 0) return;
  if (saved_ == 0) saved_ = static_cast<std::uint32_t>(cwnd_);
  fast_ = 0;
  shrink(static_cast<double>(bytes));
}

void Nscc::on_restore() {
  if (saved_ == 0) return;
  cwnd_ = std::max<double>(cwnd_, saved_);
  saved_ = 0;
  clamp();
}

void Nscc::on_sent(std::uint64_t bytes, CcTime at) {
  peak_ = std::max(peak_, cc_saturate(at.inflight));
  if (at.inflight > bytes) return;
  // The first after a pause: nothing can be acknowledged for a round trip.
  achieved_ = 0;
  trigger_ = false;
  ignore_ = 0;
  peak_ = cc_saturate(at.inflight);
  adapt_at_ = at.now + Duration{2 * std::int64_t{base_} + target_};
  adjust_at_ = at.now + Duration{base_};
}

}  // namespace mrc::transport
