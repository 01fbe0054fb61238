// SPDX-License-Identifier: BSD-2-Clause
// How long a path goes on being used after it began to lose packets: from the first packet lost there (anybody's) to
// the last data packet that each flow's sender put on it. Probes and other control packets do not count.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "bench.hpp"

namespace mrc::experiments {

/// One path under a T0 pair: a plane and the T1 switch in it.
struct PathId {
  unsigned plane = 0, t1 = 0;
  auto operator<=>(const PathId&) const = default;
};

/// The path of a source-routed packet, if it crosses a T1.
std::optional<PathId> path_of(const transport::TxPacket& packet, const path::UsidLayout& usid);
bool is_data(const transport::TxPacket& packet);

class PathWatch {
 public:
  explicit PathWatch(Bench& bench);
  /// From now on `path` is bad; drops() counts packets lost there. Until end() or for ever.
  void begin(PathId path, std::function<std::uint64_t()> drops);
  void end(PathId path);
  /// Per (bad path, node that used it after the first loss): first loss → last data packet. A node that sent none
  /// after the first loss counts as 0.
  std::vector<Duration> bypass_times() const;
  std::uint64_t packets_lost_at_least() const;  ///< data packets sent on bad paths after the first loss there

 private:
  struct Episode {
    PathId path;
    std::function<std::uint64_t()> drops;
    std::uint64_t before = 0;
    bool over = false;
    std::optional<Tick> first_loss{};
    std::map<unsigned, Tick> last{};  ///< per node
    std::uint64_t packets = 0;
  };
  void sent(unsigned node, const transport::TxPacket& packet);

  Bench& bench_;
  std::vector<Episode> episodes_;
  std::vector<unsigned> senders_;
};

/// p50, p99, max of `times` in words and JSON.
std::string in_words(std::vector<Duration> times);
nlohmann::json in_json(std::vector<Duration> times);
/// Cumulative distribution, microseconds.
Series cdf(std::string label, std::vector<Duration> times);

}  // namespace mrc::experiments
