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

void flip_bits(std::span<std::byte> bytes, Random& random) {
  const unsigned count = 1 + random.below(3);
  for (unsigned i = 0; i < count; ++i) {
    const std::uint32_t at = random.below(static_cast<std::uint32_t>(bytes.size() * 8));
    bytes[at / 8] ^= static_cast<std::byte>(1u << at % 8);
  }
}

}  // namespace

std::string_view to_string(DropCause cause) {
  switch (cause) {
    case DropCause::kNone:
      return "none";
    case DropCause::kLoss:
      return "loss";
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
  return both;
}

void Link::set(const Impairment& impairment) {
  impairment_ = impairment;
  loss_ = threshold(impairment.loss);
  duplicate_ = threshold(impairment.duplicate);
  corrupt_ = threshold(impairment.corrupt);
  reorder_ = threshold(impairment.reorder);
  ecn_ = threshold(impairment.ecn);
  trim_ = threshold(impairment.trim);
  random_ = (loss_ | duplicate_ | corrupt_ | reorder_ | ecn_ | trim_) != 0;
}

void Link::drop(Transit& transit, DropCause cause) {
  counters_.drops[static_cast<std::size_t>(cause)] += transit.copies;
  transit.copies = 0;
}

DropCause Link::carry(Transit& transit, Random& random, const wire::Dscp& dscp, bool last_hop) {
  counters_.packets += transit.copies;
  counters_.bytes += transit.copies * transit.length;
  if (down_) {
    drop(transit, DropCause::kLinkDown);
    return DropCause::kLinkDown;
  }
  if (random_) {
    for (unsigned copy = transit.copies; copy > 0; --copy) {
      if (!hit(loss_, random)) continue;
      ++counters_.drops[static_cast<std::size_t>(DropCause::kLoss)];
      --transit.copies;
      if (copy == 1) transit.delay[0] = transit.delay[1];
    }
    if (transit.copies == 0) return DropCause::kLoss;
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
    if (trimmable && transit.length > kTrimmedL3 && hit(trim_, random)) {
      transit.length = kTrimmedL3;
      const unsigned trimmed = last_hop ? dscp.trimmed_lasthop : dscp.trimmed;
      set_traffic_class(transit.l3, trimmed << 2 | (traffic_class(transit.l3) & 3u));
      ++counters_.trimmed;
    }
    if (hit(corrupt_, random)) {
      flip_bits(transit.l3.first(transit.length), random);
      ++counters_.corrupted;
    }
  }
  for (unsigned copy = 0; copy < transit.copies; ++copy) {
    transit.delay[copy] = transit.delay[copy] + impairment_.delay;
    if (random_ && hit(reorder_, random)) {
      transit.delay[copy] = transit.delay[copy] + impairment_.reorder_delay;
      ++counters_.reordered;
    }
  }
  counters_.forwarded += transit.copies;
  return DropCause::kNone;
}

}  // namespace mrc::fabric
