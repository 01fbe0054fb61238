// SPDX-License-Identifier: BSD-2-Clause
// Plans drawn from a seed: topology, knobs, workload. faults_plan.cpp draws the faults.
#include "plan.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "draw.hpp"

namespace mrc::faults {
namespace {

constexpr std::uint32_t kMostPackets = 3000;  // of a run: keeps a seed near 50 ms
constexpr std::size_t kMostOperations = 160;

/// Lengths around everything that could be off by one, and a few large ones.
std::uint32_t draw_length(Random& random, std::uint32_t mtu, std::uint32_t most) {
  std::uint32_t length = 0;
  switch (random.below(8)) {
    case 0:
      length = 0;
      break;
    case 1:
      length = 1 + random.below(64);
      break;
    case 2:
      length = mtu * (1 + random.below(3)) + random.below(9) - 4;
      break;
    case 3:
      length = random.below(2 * mtu);
      break;
    default:
      length = static_cast<std::uint32_t>(draw_log(random, 500, most));
  }
  return std::min(length, most);
}

enum class Pattern : std::uint8_t { kPairs, kRing, kIncast, kAllToAll, kRandom };

std::vector<std::pair<unsigned, unsigned>> draw_pairs(Random& random, unsigned nodes) {
  std::vector<std::pair<unsigned, unsigned>> pairs;
  const unsigned pattern = random.below(5);
  const bool both = random.chance(0.5);
  switch (static_cast<Pattern>(pattern)) {
    case Pattern::kPairs:
      for (unsigned i = 0; i + 1 < nodes; i += 2) pairs.emplace_back(i, i + 1);
      break;
    case Pattern::kRing:
      for (unsigned i = 0; i < nodes; ++i) pairs.emplace_back(i, (i + 1) % nodes);
      break;
    case Pattern::kIncast:
      for (unsigned i = 1; i < nodes; ++i) pairs.emplace_back(i, 0);
      break;
    case Pattern::kAllToAll:
      for (unsigned i = 0; i < nodes; ++i) {
        for (unsigned j = 0; j < nodes; ++j) {
          if (i != j) pairs.emplace_back(i, j);
        }
      }
      break;
    case Pattern::kRandom:
      for (unsigned i = 0; i < nodes; ++i) pairs.emplace_back(i, random.below(nodes));  // itself, too
      break;
  }
  if (both) {
    for (std::size_t i = 0, n = pairs.size(); i < n; ++i) pairs.emplace_back(pairs[i].second, pairs[i].first);
  }
  // All-to-all of many nodes: some of it.
  for (std::size_t i = pairs.size(); i > 1; --i)
    std::swap(pairs[i - 1], pairs[random.below(static_cast<std::uint32_t>(i))]);
  if (pairs.size() > kMostOperations / 2) pairs.resize(kMostOperations / 2);
  return pairs;
}

void draw_knobs(Random& random, transport::Config& c) {
  c.window = 128u << random.below(4);
  if (random.chance(0.2)) c.window_bytes = draw_log(random, 4096, 1 << 20);
  c.ev.per_connection = static_cast<std::uint16_t>(draw_log(random, 8, 256));
  c.ev.min_active = static_cast<std::uint16_t>(1 + random.below(16));
  c.ev.probe_interval = microseconds(draw_log(random, 500, 20000));
  c.rto_min = microseconds(draw_log(random, 1000, 20000));
  c.rto_max = milliseconds(draw_log(random, 50, 1000));
  c.sack_bytes = static_cast<std::uint32_t>(draw_log(random, 1024, 65536));
  if (random.chance(0.5)) c.sack_delay = microseconds(draw_log(random, 5, 200));
  if (random.chance(0.3)) c.tail_floor = microseconds(draw_log(random, 1, 500));
  c.tail_packets = static_cast<std::uint8_t>(random.below(16));
  c.imm_in_flight = static_cast<std::uint16_t>(draw_log(random, 1, 64));
  c.retry_linear = static_cast<std::uint8_t>(1 + random.below(8));
  c.retry_exponential = static_cast<std::uint8_t>(1 + random.below(30));
  c.gap_packets = static_cast<std::uint16_t>(draw_log(random, 3, 64));
  c.reorder_packets = static_cast<std::uint16_t>(draw_log(random, 16, 128));
  c.peer_timeout = seconds(5);
  c.connect_timeout = seconds(5);
  c.linger = milliseconds(draw_log(random, 5, 2000));
  c.init_retry = microseconds(draw_log(random, 500, 5000));
  c.wire.ev_split = random.chance(0.5) ? wire::EvSplit::kHighInPort : wire::EvSplit::kLowInPort;
  // Sequence numbers that wrap within the run.
  if (random.chance(0.4)) c.first_psn = (wire::kPsnMask - random.below(700)) & wire::kPsnMask;
}

/// Queues in the fabric, or none; controllers of all kinds, told the truth or not much.
void draw_rates(Random& random, fabric::SimConfig& sim) {
  constexpr std::array<std::uint64_t, 6> kRates = {0, 1, 10, 25, 100, 400};
  const std::uint64_t bps = kRates[random.below(kRates.size())] * 1'000'000'000;
  if (bps != 0 && random.chance(0.6)) {
    const std::uint64_t inner = random.chance(0.3) ? bps / 4 : bps;
    sim.clos.set_rates(bps, inner, microseconds(draw_log(random, 5, 100)));
    if (random.chance(0.2)) {
      sim.clos.plane_rate[random.below(sim.clos.planes)] = static_cast<double>(1 + random.below(9)) / 10;
    }
  } else {
    sim.link_bps = bps;
  }
  transport::Config& c = sim.transport;
  c.cc = static_cast<transport::CcKind>(random.below(4));
  const bool must = c.cc == transport::CcKind::kNscc || c.cc == transport::CcKind::kSwift;
  if (must || random.chance(0.5)) c.link_bps = bps != 0 ? bps : 100'000'000'000;
  c.trimming = random.chance(0.7);
  c.ecn_balancing = random.chance(0.8);
  c.cc_target_min = microseconds(draw_log(random, 1, 50));
}

}  // namespace

Plan make_plan(std::uint64_t seed) {
  Random random(seed * 0x9e3779b97f4a7c15u + 1);
  Plan plan;
  plan.seed = seed;
  fabric::SimConfig& sim = plan.sim;
  sim.seed = random.next();
  sim.nodes = random.chance(0.5) ? 2 + random.below(3) : static_cast<unsigned>(draw_log(random, 2, 32));
  sim.clos.planes = static_cast<std::uint8_t>(1 + random.below(8));
  sim.clos.t0s = static_cast<std::uint16_t>(1 + random.below(std::min(sim.nodes, 6u)));
  sim.clos.t1s = static_cast<std::uint16_t>(1 + random.below(8));
  sim.clos.nics = 1;  // raised to what the nodes need
  sim.clos.link_delay = nanoseconds(draw_log(random, 100, 10000));
  draw_rates(random, sim);
  constexpr std::array<std::uint32_t, 5> kMtus = {1280, 1500, 2048, 4352, 9216};
  sim.mtu = kMtus[random.below(kMtus.size())];
  sim.tx_ring = static_cast<std::uint16_t>(draw_log(random, 4, 64));
  draw_knobs(random, sim.transport);
  sim.limits.endpoints = 2;
  sim.limits.connections = sim.nodes + 2;
  sim.limits.messages = static_cast<std::uint32_t>(draw_log(random, 8, 512));
  sim.limits.window_packets = static_cast<std::uint32_t>(draw_log(random, 256, 8192));

  sim.limits.ordered = static_cast<std::uint32_t>(draw_log(random, 2, 1024));

  const std::uint32_t mtu = sim.mtu - 140;
  const auto pairs = draw_pairs(random, sim.nodes);
  std::int64_t packets = draw_log(random, 20, kMostPackets);
  const auto most = static_cast<std::uint32_t>(std::min<std::int64_t>(packets * 1400, 4 << 20));
  // Posted over about the time that the whole takes, or all at once.
  const Duration spread = random.chance(0.3) ? Duration{} : microseconds(draw_log(random, 10, 20000));
  const double refused = random.chance(0.2) ? 0.1 : 0;
  const double urgent = random.chance(0.3) ? 0.3 : 0;
  const double semantic = random.chance(0.3) ? 0.3 : 0;
  while (packets > 0 && plan.operations.size() < kMostOperations) {
    const auto& [from, to] = pairs[random.below(static_cast<std::uint32_t>(pairs.size()))];
    Operation op;
    op.from = from;
    op.to = to;
    op.at = Duration{static_cast<std::int64_t>(random.next() >> 33) * spread.ns >> 31};
    op.urgent = random.chance(urgent);
    op.length = op.urgent ? random.below(mtu) : draw_length(random, mtu, most);
    op.imm = random.chance(0.2);
    op.semantic = random.chance(semantic);
    if (random.chance(refused)) op.fate = random.chance(0.5) ? Fate::kBadKey : Fate::kBeyond;
    if (op.length < 2 * mtu && op.fate == Fate::kBeyond) op.fate = Fate::kBadKey;
    packets -= 1 + op.length / mtu;
    plan.operations.push_back(op);
  }
  std::stable_sort(plan.operations.begin(), plan.operations.end(),
                   [](const Operation& a, const Operation& b) { return a.at < b.at; });
  draw_faults(random, plan);
  return plan;
}

Duration Plan::clear_at() const {
  Duration end{};
  for (const Fault& f : faults) end = std::max(end, f.at + f.lasts);
  return end;
}

std::uint64_t Plan::bytes() const {
  std::uint64_t sum = 0;
  for (const Operation& op : operations) sum += op.length;
  return sum;
}

}  // namespace mrc::faults
