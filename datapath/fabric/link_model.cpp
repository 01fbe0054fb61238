// SPDX-License-Identifier: BSD-2-Clause
// Queue arithmetic: bytes to waiting times once, when a model is set; then comparisons and one multiplication a packet.
#include "mrc/fabric/link_model.hpp"

#include <algorithm>

namespace mrc::fabric {
namespace {

constexpr std::uint64_t kLeastBps = 100'000;  // 65535 bytes then cost less than 2^63
constexpr std::int64_t kSecond = 1'000'000'000;
constexpr std::int64_t kLongest = 16 * kSecond;  ///< that any threshold reaches: below 2^34 ns

std::uint32_t clamp32(std::uint64_t value) {
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(value, UINT32_MAX));
}

}  // namespace

LinkModel link_model(LinkRole role, std::uint64_t bps, Duration base_rtt, Duration delay, std::uint32_t mtu) {
  LinkModel model{.bps = bps, .delay = delay};
  if (bps == 0) return model;
  // bps / 8 × ns / 1e9, in double: no overflow, and thresholds need no more than its precision.
  const double product =
      static_cast<double>(bps) / 8 * static_cast<double>(std::max<std::int64_t>(base_rtt.ns, 0)) / 1e9;
  const auto bdp = std::max(static_cast<std::uint64_t>(std::min(product, 1e9)), std::uint64_t{8} * mtu);
  model.control_limit = clamp32(bdp);
  if (role == LinkRole::kFromNic) {
    model.control_limit = 0;
    return model;
  }
  const bool last = role == LinkRole::kToNic;
  if (!last) {
    model.ecn_min = clamp32(bdp / 5);
    model.ecn_max = clamp32(bdp * 4 / 5);
  }
  model.trim_at = clamp32(last ? bdp * 3 / 2 : bdp);
  model.drop_at = clamp32(last ? bdp * 4 : bdp * 3);
  return model;
}

std::uint64_t LinkQueue::bytes_in(std::int64_t wait) const {
  if (per_byte_ == 0) return 0;
  return static_cast<std::uint64_t>(static_cast<double>(wait) * (1u << kFraction) / static_cast<double>(per_byte_) +
                                    0.5);
}

std::int64_t LinkQueue::time_of(std::uint64_t bytes) const {
  const double ns = static_cast<double>(bytes) * static_cast<double>(per_byte_) / (1u << kFraction);
  return static_cast<std::int64_t>(std::min(ns, static_cast<double>(kLongest)));
}

std::int64_t LinkQueue::serialisation(std::uint32_t l3_bytes) const {
  return static_cast<std::int64_t>((cost(l3_bytes) + (1u << kFraction) - 1) >> kFraction);
}

std::uint64_t LinkQueue::peak_bytes() const {
  return std::max(peak_before_, bytes_in(peak_wait_));
}

void LinkQueue::set(const LinkModel& model, Tick now) {
  const std::int64_t data = wait(now), control = control_wait(now);
  const std::uint64_t before = bps_;
  peak_before_ = peak_bytes();
  peak_wait_ = 0;
  bps_ = model.bps == 0 ? 0 : std::max(model.bps, kLeastBps);
  per_byte_ = bps_ == 0 ? 0 : std::max<std::uint64_t>((std::uint64_t{8 * kSecond} << kFraction) / bps_, 1);
  data_rest_ = control_rest_ = 0;
  const double slower = bps_ == 0 || before == 0 ? 0 : static_cast<double>(before) / static_cast<double>(bps_);
  data_free_ = now.ns + static_cast<std::int64_t>(static_cast<double>(data) * slower);
  control_free_ = now.ns + static_cast<std::int64_t>(static_cast<double>(control) * slower);
  last_data_ = 0;
  const auto limit = [this](std::uint32_t bytes, std::int64_t off) { return bytes == 0 ? off : time_of(bytes); };
  ecn_min_ = model.ecn_max == 0 ? INT64_MAX : time_of(model.ecn_min);
  ecn_max_ = limit(model.ecn_max, INT64_MAX);
  trim_ = limit(model.trim_at, INT64_MAX);
  drop_ = limit(model.drop_at, kSecond);
  control_limit_ = limit(model.control_limit, kSecond);
}

LinkQueue::Verdict LinkQueue::judge(Tick now, bool ect, bool trimmable, Random& random) {
  const std::int64_t waiting = wait(now);
  if (waiting > trim_ && trimmable) return Verdict::kTrim;
  if (waiting > drop_) return Verdict::kDrop;
  if (waiting <= ecn_min_ || !ect) return Verdict::kPass;
  if (waiting >= ecn_max_) return Verdict::kMark;
  const auto range = static_cast<std::uint64_t>(ecn_max_ - ecn_min_);
  const auto above = static_cast<std::uint64_t>(waiting - ecn_min_);
  // 30 random bits against above / range; both are below 2^34.
  return ((random.next() >> 34) * range) >> 30 < above ? Verdict::kMark : Verdict::kPass;
}

void LinkQueue::add(std::int64_t& free, std::uint32_t& rest, Tick now, std::uint64_t cost) const {
  if (free < now.ns) {
    free = now.ns;
    rest = 0;
  }
  const std::uint64_t sum = rest + cost;
  free += static_cast<std::int64_t>(sum >> kFraction);
  rest = static_cast<std::uint32_t>(sum & ((1u << kFraction) - 1));
}

Tick LinkQueue::push_data(Tick now, std::uint32_t l3_bytes) {
  const std::uint64_t work = cost(l3_bytes);
  add(data_free_, data_rest_, now, work);
  last_data_ = static_cast<std::int64_t>(work >> kFraction);
  peak_wait_ = std::max(peak_wait_, data_free_ - now.ns);
  return {data_free_ + (data_rest_ != 0)};
}

Tick LinkQueue::push_control(Tick now, std::uint32_t l3_bytes) {
  const std::uint64_t work = cost(l3_bytes);
  if (control_free_ <= now.ns) {
    // What is left of the data packet on the wire: those behind it end at multiples of their length before data_free_.
    const std::int64_t waiting = wait(now);
    control_free_ = now.ns + (last_data_ == 0 ? 0 : waiting % last_data_);
    control_rest_ = 0;
  }
  add(control_free_, control_rest_, now, work);
  add(data_free_, data_rest_, now, work);
  peak_wait_ = std::max(peak_wait_, data_free_ - now.ns);
  return {control_free_ + (control_rest_ != 0)};
}

}  // namespace mrc::fabric
