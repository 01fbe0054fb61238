// SPDX-License-Identifier: BSD-2-Clause
// The receiver's part in congestion control: when its own links are full, connections above their max-min fair share
// are told to shrink (CC_STATE.rcv_cwnd_pen, mrc-protocol §4). O(1) a packet; one small record a connection.
//
// Received bytes are counted in epochs. An epoch is as long as it takes to receive enough from everybody, and at least
// eight times the longest pause between two packets in it: so nothing here needs a clock finer than what the host's
// poll loop gives. A connection's share of an epoch is looked at when it is heard in the next one.
// The fair share is searched for, because who sends little may want little or be pushed aside: while the links are full
// it sinks towards the equal share, while they are not it rises (then the penalised are who could have used them).
#pragma once

#include <algorithm>
#include <cstdint>

#include "mrc/time.hpp"

namespace mrc::transport {

class ReceiverShare {
 public:
  /// A connection's record.
  struct Flow {
    std::uint32_t epoch = 0;
    std::uint32_t bytes = 0;   ///< in that epoch
    std::uint8_t penalty = 0;  ///< 7 bits: of 128 bytes received so many are to be given up
    bool penalised = false;    ///< since the last restore
    bool restore = false;      ///< competition has gone; told for an epoch
  };

  /// Frame bytes that a packet takes on the wire beside its payload.
  static constexpr std::uint32_t kOverhead = 176;

  /// `line_bps`: all own links of that connection together; 0: nothing is done. `now` never goes back.
  void on_data(Flow& flow, std::uint32_t payload, std::uint64_t line_bps, Tick now) {
    if (line_bps == 0) return;
    // A pause longer than any expected: nobody sent, or the host is coarser than thought. Begin anew.
    if (epoch_ == 0 || now - last_ > pause_ * kPauses) {
      pause_ = std::max(pause_ * 4, microseconds(1));
      ++epoch_;
      begin(now);
      flows_before_ = 0;
      saturated_ = false;
    }
    if (now > last_) longest_ = std::max(longest_, now - last_);
    last_ = now;
    const std::uint32_t bytes = payload + kOverhead;
    if (flow.epoch != epoch_) enter(flow);
    flow.bytes = flow.bytes > UINT32_MAX - bytes ? UINT32_MAX : flow.bytes + bytes;
    total_ += bytes;
    if (total_ >= kFlowBytes * std::max(flows_, flows_before_) &&
        now - started_ >= std::max(longest_, pause_) * kPauses) {
      end(line_bps, now);
    }
  }

  /// A trimmed packet arrived: it takes its part of the line, and of nobody's share.
  void on_trimmed(std::uint32_t bytes) { total_trimmed_ += bytes; }

  bool saturated() const { return saturated_; }
  std::uint32_t flows() const { return flows_before_; }  ///< heard in the last epoch
  std::uint64_t fair_bytes() const { return fair_; }     ///< of the last epoch

 private:
  static constexpr std::uint64_t kFlowBytes = 32 * 4096;
  static constexpr std::int64_t kPauses = 8;
  static constexpr std::uint32_t kFull = 96;  ///< per cent of the line rate
  static constexpr std::uint32_t kTiny = 16;  ///< below this part of the equal share nobody competes

  void begin(Tick now) {
    if (++epoch_ == 0) epoch_ = 1;
    started_ = last_ = now;
    longest_ = {};
    total_ = total_trimmed_ = 0;
    flows_ = 0;
    contenders_ = 0;
  }

  /// First packet of a connection in this epoch: its share of the one before.
  void enter(Flow& flow) {
    ++flows_;
    const bool was_there = flow.epoch + 1 == epoch_ && flow.epoch != 0;
    const std::uint64_t share = was_there ? flow.bytes : 0;
    flow.penalty = 0;
    flow.restore = false;
    if (was_there && flows_before_ > 1) {
      if (share >= before_ / flows_before_ / kTiny) ++contenders_;
      if (saturated_ && share > fair_ + fair_ / 16) {
        // Of the excess, a quarter per window received; half where two compete: their epochs are short.
        flow.penalty = static_cast<std::uint8_t>(std::min<std::uint64_t>(127, (share - fair_) * 128 / share / gain_));
        flow.penalised = flow.penalised || flow.penalty != 0;
      }
    } else if (flow.penalised && flows_before_ == 1) {
      flow.penalised = false;
      flow.restore = true;
    }
    flow.epoch = epoch_;
    flow.bytes = 0;
  }

  void end(std::uint64_t line_bps, Tick now) {
    const auto capacity =
        static_cast<std::uint64_t>(static_cast<double>(line_bps) / 8e9 * static_cast<double>((now - started_).ns));
    saturated_ = total_ + total_trimmed_ >= capacity / 100 * kFull;
    gain_ = std::clamp(contenders_, 2u, 4u);
    const double equal = 1.0 / std::max(contenders_, 1u);
    part_ = saturated_ ? part_ + (equal - part_) / 4 : std::min(1.0, part_ * 1.25);
    fair_ = static_cast<std::uint64_t>(static_cast<double>(total_) * std::max(part_, equal));
    before_ = total_;
    flows_before_ = flows_;
    pause_ = std::max(longest_, pause_ / 2);
    begin(now);
  }

  Tick started_{}, last_{};
  Duration longest_{};  ///< pause between two packets in this epoch
  Duration pause_{};    ///< … and the longest to be expected
  std::uint64_t total_ = 0, total_trimmed_ = 0, before_ = 0;
  std::uint64_t fair_ = 0;
  double part_ = 1;               ///< the fair share of the total
  std::uint32_t contenders_ = 0;  ///< connections that sent more than hardly anything in the epoch before
  std::uint32_t gain_ = 4;
  std::uint32_t epoch_ = 0;
  std::uint32_t flows_ = 0, flows_before_ = 0;
  bool saturated_ = false;
};

}  // namespace mrc::transport
