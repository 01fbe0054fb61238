// SPDX-License-Identifier: BSD-2-Clause
// What one link direction does to packets: losing, copying, corrupting, marking, trimming, delaying.
#include "mrc/fabric/link.hpp"

#include <algorithm>

#include "mrc/wire/ip.hpp"

namespace mrc::fabric {
namespace {

constexpr double kScale = 0x1.0p63;

std::uint64_t threshold(double probability) {
  if (!(probability > 0)) return 0;  // NaN too
  return static_cast<std::uint64_t>(std::min(probability, 1.0) * kScale);
}

bool hit(std::uint64_t limit, Random& random) {
  return limit != 0 && (random.next() >> 1) < limit;
}

double either(double a, double b) {
  return 1 - (1 - a) * (1 - b);
}

// The traffic class sits across the first two bytes: version 4 | class 8 | flow label 20.
std::uint8_t traffic_class(std::span<const std::byte> l3) {
  return static_cast<std::uint8_t>(static_cast<unsigned>(l3[0]) << 4 | static_cast<unsigned>(l3[1]) >> 4);
}

void set_traffic_class(std::span<std::byte> l3, unsigned value) {
  l3[0] = (l3[0] & std::byte{0xf0}) | static_cast<std::byte>(value >> 4 & 0x0f);
  l3[1] = (l3[1] & std::byte{0x0f}) | static_cast<std::byte>(value << 4 & 0xf0);
}

void flip_bits(std::span<std::byte> bytes, std::size_t length, Random& random, Flips* flips) {
  const unsigned count = 1 + random.below(3);
  for (unsigned i = 0; i < count; ++i) {
    const std::uint32_t at = random.below(static_cast<std::uint32_t>(length * 8));
    if (at / 8 < bytes.size()) bytes[at / 8] ^= static_cast<std::byte>(1u << at % 8);
    if (flips == nullptr) continue;
    if (flips->count < Flips::kKept) flips->bit[flips->count] = at;
    if (flips->count < UINT8_MAX) ++flips->count;
  }
}

}  // namespace

std::string_view to_string(DropCause cause) {
  switch (cause) {
    case DropCause::kNone:
      return "none";
    case DropCause::kLoss:
      return "loss";
    case DropCause::kBurst:
      return "burst";
    case DropCause::kQueue:
      return "queue";
    case DropCause::kControlQueue:
      return "control_queue";
    case DropCause::kLinkDown:
      return "link_down";
    case DropCause::kSwitchDown:
      return "switch_down";
    case DropCause::kPlaneDown:
      return "plane_down";
    case DropCause::kMalformed:
      return "malformed";
    case DropCause::kHopLimit:
      return "hop_limit";
    case DropCause::kNotForMe:
      return "not_for_me";
    case DropCause::kUnknownUsid:
      return "unknown_usid";
    case DropCause::kNoSuchPort:
      return "no_such_port";
    case DropCause::kCount:
      break;
  }
  return "?";
}

Impairment combine(const Impairment& a, const Impairment& b) {
  Impairment both;
  both.loss = either(a.loss, b.loss);
  both.duplicate = either(a.duplicate, b.duplicate);
  both.corrupt = either(a.corrupt, b.corrupt);
  both.reorder = either(a.reorder, b.reorder);
  both.reorder_delay = a.reorder == 0   ? b.reorder_delay
                       : b.reorder == 0 ? a.reorder_delay
                                        : std::max(a.reorder_delay, b.reorder_delay);
  both.delay = a.delay + b.delay;
  both.ecn = either(a.ecn, b.ecn);
  both.trim = either(a.trim, b.trim);
  both.burst_enter = either(a.burst_enter, b.burst_enter);
  if (a.burst_enter == 0) {
    both.burst_length = b.burst_length;
    both.burst_loss = b.burst_loss;
  } else if (b.burst_enter == 0) {
    both.burst_length = a.burst_length;
    both.burst_loss = a.burst_loss;
  } else {
    both.burst_length = std::max(a.burst_length, b.burst_length);
    both.burst_loss = std::max(a.burst_loss, b.burst_loss);
  }
  return both;
}

Tick Flap::next_change(Tick now) const {
  if (!on() || down.ns <= 0 || down >= period) return kNever;
  const std::int64_t at = into(now);
  return {now.ns - at + (at < down.ns ? down.ns : period.ns)};
}

void Link::set(const Impairment& impairment) {
  impairment_ = impairment;
  loss_ = threshold(impairment.loss);
  duplicate_ = threshold(impairment.duplicate);
  corrupt_ = threshold(impairment.corrupt);
  reorder_ = threshold(impairment.reorder);
  ecn_ = threshold(impairment.ecn);
  trim_ = threshold(impairment.trim);
  burst_enter_ = threshold(impairment.burst_enter);
  burst_end_ = threshold(1 / std::max(impairment.burst_length, 1.0));
  burst_loss_ = threshold(impairment.burst_loss);
  if (burst_enter_ == 0) in_burst_ = false;
  random_ = (loss_ | duplicate_ | corrupt_ | reorder_ | ecn_ | trim_ | burst_enter_) != 0;
  delay_ = impairment_.delay + model_.delay;
}

void Link::set_model(const LinkModel& model, Tick now) {
  model_ = model;
  queue_.set(model, now);
  delay_ = impairment_.delay + model_.delay;
}

void Link::set_down(bool down) {
  down_ = down;
  may_be_down_ = down_ || flap_.on();
}

void Link::set_flap(const Flap& flap) {
  flap_ = flap;
  may_be_down_ = down_ || flap_.on();
}

void Link::drop(Transit& transit, DropCause cause) {
  counters_.drops[static_cast<std::size_t>(cause)] += transit.copies;
  transit.copies = 0;
}

void Link::lose(unsigned copies) {
  counters_.forwarded -= copies;
  counters_.drops[static_cast<std::size_t>(DropCause::kLinkDown)] += copies;
}

void Link::trim(Transit& transit, const wire::Dscp& dscp, bool last_hop) {
  transit.length = kTrimmedL3;
  const unsigned trimmed = last_hop ? dscp.trimmed_lasthop : dscp.trimmed;
  set_traffic_class(transit.l3, trimmed << 2 | (traffic_class(transit.l3) & 3u));
  ++counters_.trimmed;
}

DropCause Link::enqueue(Transit& transit, Random& random, const wire::Dscp& dscp, bool last_hop, Tick now) {
  const unsigned tclass = traffic_class(transit.l3);
  const unsigned code = tclass >> 2;
  bool control = code == dscp.control || code == dscp.trimmed || code == dscp.trimmed_lasthop;
  if (!control) {
    const unsigned ecn = tclass & 3;
    const bool ect = !last_hop && ecn != 0 && ecn != wire::kEcnCe;
    const bool trimmable = (code == dscp.trimmable || code == dscp.trimmable_retx) && transit.length > kTrimmedL3;
    switch (queue_.judge(now, ect, trimmable, random)) {
      case LinkQueue::Verdict::kPass:
        break;
      case LinkQueue::Verdict::kMark:
        set_traffic_class(transit.l3, tclass | wire::kEcnCe);
        ++counters_.marked;
        break;
      case LinkQueue::Verdict::kTrim:
        trim(transit, dscp, last_hop);
        control = true;
        break;
      case LinkQueue::Verdict::kDrop:
        drop(transit, DropCause::kQueue);
        return DropCause::kQueue;
    }
  }
  if (control && queue_.control_full(now)) {
    drop(transit, DropCause::kControlQueue);
    return DropCause::kControlQueue;
  }
  const auto length = static_cast<std::uint32_t>(transit.length);
  for (unsigned copy = 0; copy < transit.copies; ++copy) {
    const Tick out = control ? queue_.push_control(now, length) : queue_.push_data(now, length);
    transit.delay[copy] = transit.delay[copy] + (out - now);
  }
  return DropCause::kNone;
}

bool Link::burst_takes(Random& random) {
  if (!in_burst_) in_burst_ = hit(burst_enter_, random);
  if (!in_burst_) return false;
  const bool lost = hit(burst_loss_, random);
  if (hit(burst_end_, random)) in_burst_ = false;
  return lost;
}

DropCause Link::impair(Transit& transit, Random& random, const wire::Dscp& dscp, bool last_hop) {
  DropCause cause = DropCause::kNone;
  for (unsigned copy = transit.copies; copy > 0; --copy) {
    const DropCause why = burst_enter_ != 0 && burst_takes(random) ? DropCause::kBurst
                          : hit(loss_, random)                     ? DropCause::kLoss
                                                                   : DropCause::kNone;
    if (why == DropCause::kNone) continue;
    cause = why;
    ++counters_.drops[static_cast<std::size_t>(why)];
    --transit.copies;
    if (copy == 1) transit.delay[0] = transit.delay[1];
  }
  if (transit.copies == 0) return cause;
  if (transit.copies == 1 && hit(duplicate_, random)) {
    transit.copies = 2;
    transit.delay[1] = transit.delay[0];
    ++counters_.duplicated;
  }
  const unsigned tclass = traffic_class(transit.l3);
  const unsigned ecn = tclass & 3;
  if (!last_hop && ecn != 0 && ecn != wire::kEcnCe && hit(ecn_, random)) {
    set_traffic_class(transit.l3, tclass | wire::kEcnCe);
    ++counters_.marked;
  }
  const unsigned code = tclass >> 2;
  const bool trimmable = code == dscp.trimmable || code == dscp.trimmable_retx;
  if (trimmable && transit.length > kTrimmedL3 && hit(trim_, random)) trim(transit, dscp, last_hop);
  if (hit(corrupt_, random)) {
    flip_bits(transit.l3, transit.length, random, transit.flips);
    ++counters_.corrupted;
  }
  for (unsigned copy = 0; copy < transit.copies; ++copy) {
    if (!hit(reorder_, random)) continue;
    transit.delay[copy] = transit.delay[copy] + impairment_.reorder_delay;
    ++counters_.reordered;
  }
  return DropCause::kNone;
}

DropCause Link::carry(Transit& transit, Random& random, const wire::Dscp& dscp, bool last_hop, Tick now) {
  counters_.packets += transit.copies;
  counters_.bytes += transit.copies * transit.length;
  if (may_be_down_ && down_at(now)) {
    drop(transit, DropCause::kLinkDown);
    return DropCause::kLinkDown;
  }
  if (queue_.rated()) {
    const DropCause cause = enqueue(transit, random, dscp, last_hop, now);
    if (cause != DropCause::kNone) return cause;
  }
  if (random_) {
    const DropCause cause = impair(transit, random, dscp, last_hop);
    if (cause != DropCause::kNone) return cause;
  }
  for (unsigned copy = 0; copy < transit.copies; ++copy) transit.delay[copy] = transit.delay[copy] + delay_;
  counters_.forwarded += transit.copies;
  return DropCause::kNone;
}

}  // namespace mrc::fabric
