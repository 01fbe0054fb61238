// SPDX-License-Identifier: BSD-2-Clause
// Which path a packet takes, read off its uSID carrier, and who still uses one that is dead.
#include "path_watch.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace mrc::experiments {
namespace {

constexpr std::size_t kOuterDestination = 24, kUsids = kOuterDestination + 4;
constexpr std::size_t kOpcode = 40 + 40 + 8;

std::uint16_t usid_at(const transport::TxPacket& packet, unsigned n) {
  const std::byte* p = packet.header.data() + kUsids + 2 * n;
  return static_cast<std::uint16_t>(static_cast<unsigned>(p[0]) << 8 | static_cast<unsigned>(p[1]));
}

Histogram histogram(const std::vector<Duration>& times) {
  Histogram h;
  for (const Duration d : times) h.add(d);
  return h;
}

}  // namespace

std::optional<PathId> path_of(const transport::TxPacket& packet, const path::UsidLayout& usid) {
  if (!packet.outer) return {};
  const std::uint16_t second = usid_at(packet, 1);
  if (usid.kind(second) != path::UsidKind::kT1) return {};
  return PathId{usid.plane(second), usid.index(second)};
}

bool is_data(const transport::TxPacket& packet) {
  return !packet.control && packet.outer &&
         wire::is_write(static_cast<wire::Opcode>(static_cast<std::uint8_t>(packet.header[kOpcode])));
}

PathWatch::PathWatch(Bench& bench) : bench_(bench) {
  for (const auto& flow : bench.flows()) senders_.push_back(flow->spec.from);
  std::sort(senders_.begin(), senders_.end());
  senders_.erase(std::unique(senders_.begin(), senders_.end()), senders_.end());
  bench.sim().on_transmit([this](unsigned node, const transport::TxPacket& packet) { sent(node, packet); });
}

void PathWatch::begin(PathId path, std::function<std::uint64_t()> drops) {
  const std::uint64_t before = drops();
  episodes_.push_back({.path = path, .drops = std::move(drops), .before = before});
}

void PathWatch::end(PathId path) {
  for (Episode& e : episodes_) {
    if (e.path == path) e.over = true;
  }
}

void PathWatch::sent(unsigned node, const transport::TxPacket& packet) {
  for (Episode& e : episodes_) {
    if (!e.over && !e.first_loss && e.drops() != e.before) e.first_loss = bench_.sim().now();
  }
  if (episodes_.empty() || !is_data(packet)) return;
  const auto path = path_of(packet, bench_.sim().config().clos.usid);
  if (!path) return;
  for (Episode& e : episodes_) {
    if (e.over || e.path != *path || !e.first_loss) continue;
    e.last[node] = bench_.sim().now();
    ++e.packets;
  }
}

std::vector<Duration> PathWatch::bypass_times() const {
  std::vector<Duration> times;
  for (const Episode& e : episodes_) {
    if (!e.first_loss) continue;
    for (const unsigned node : senders_) {
      const auto it = e.last.find(node);
      times.push_back(it == e.last.end() ? Duration{} : it->second - *e.first_loss);
    }
  }
  return times;
}

std::uint64_t PathWatch::packets_lost_at_least() const {
  std::uint64_t sum = 0;
  for (const Episode& e : episodes_) sum += e.packets;
  return sum;
}

std::string in_words(std::vector<Duration> times) {
  Histogram h = histogram(times);
  const auto us = [&](double q) { return static_cast<double>(h.quantile(q).ns) / 1000; };
  return fmt::format("p50 {:.0f}, p99 {:.0f}, max {:.0f} us over {}", us(0.5), us(0.99), us(1), times.size());
}

nlohmann::json in_json(std::vector<Duration> times) {
  return histogram(times).json();
}

Series cdf(std::string label, std::vector<Duration> times) {
  std::sort(times.begin(), times.end());
  Series s{.label = std::move(label)};
  for (std::size_t i = 0; i < times.size(); ++i) {
    s.x.push_back(static_cast<double>(times[i].ns) / 1000);
    s.y.push_back(static_cast<double>(i + 1) / static_cast<double>(times.size()));
  }
  return s;
}

}  // namespace mrc::experiments
