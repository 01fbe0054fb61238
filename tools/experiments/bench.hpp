// SPDX-License-Identifier: BSD-2-Clause
// What the experiments share: flows of pipelined writes between simulated nodes, goodput per time bin from placed
// bytes, longest gaps without progress, latencies, and the time that a path keeps being used after it died. Times are
// virtual (fabric::Sim); t = 0 of all bins is Bench::origin(), when the connections are set up. Threads: none.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "mrc/fabric/sim.hpp"
#include "report.hpp"

namespace mrc::experiments {

/// Planes of `bps` each, T0s of `t1s` uplinks, 0.5 us a link, 4096-byte payloads, and the transport's floors as they
/// suit a host whose clock and ports are precise (docs/experiments.md lists them).
fabric::SimConfig realistic(const Options& options, unsigned nodes, unsigned planes, std::uint64_t bps,
                            unsigned t1s = 8);

/// Whether full queues trim or drop, and the transport knows it.
void set_trimming(fabric::SimConfig& config, bool on);

/// Latencies in nanoseconds; quantiles are exact (all samples are kept).
class Histogram {
 public:
  void add(Duration d) { samples_.push_back(d.ns); }
  std::size_t count() const { return samples_.size(); }
  Duration quantile(double q);  ///< nearest rank; 0 without samples
  nlohmann::json json();        ///< count, p50, p99, p99_9, max in microseconds
  std::vector<std::int64_t>& samples() { return samples_; }

 private:
  std::vector<std::int64_t> samples_;
};

struct FlowSpec {
  unsigned from = 0, to = 1;
  std::uint32_t message = 1u << 20;  ///< bytes of each write
  unsigned depth = 16;               ///< writes kept in flight
  std::string name{};
};

/// A writer that keeps `depth` writes in flight from one node to another, and what was seen of it.
struct Flow {
  FlowSpec spec;
  unsigned index = 0;
  transport::EpId from_ep = transport::kNoId;
  transport::ConnId conn = transport::kNoId;
  bool running = false;
  unsigned outstanding = 0;
  std::uint64_t posted = 0, done = 0, errors = 0;  ///< writes
  std::uint64_t placed = 0;                        ///< bytes, at the receiver
  std::uint64_t wrong = 0;                         ///< packets with other bytes, or in another place, than written
  std::vector<std::uint64_t> bins;                 ///< bytes placed per Bench::bin()
  struct Gap {
    Tick from{};
    Duration length{};
  };
  std::vector<Gap> gaps;  ///< of 20 us and more without a byte placed
  Tick last_placed{};
  Histogram latency;  ///< post → all packets SACKed

  std::vector<std::byte> source;                                 ///< with contents: what is written, message + 64 bytes
  std::map<std::uint64_t, std::pair<Tick, std::uint64_t>> open;  ///< write number → posted at, bytes placed
};

class Bench {
 public:
  Bench(const fabric::SimConfig& config, const Options& options, Duration bin = microseconds(100));
  ~Bench();

  /// All flows before connect().
  Flow& add(const FlowSpec& spec);
  /// Sets up all connections and their MTU; then t = 0.
  void connect();
  void start(Flow& flow);
  void start_all();
  /// No further writes; those in flight go on.
  void stop(Flow& flow) { flow.running = false; }

  fabric::Sim& sim() { return sim_; }
  Tick origin() const { return origin_; }
  Tick at(Duration since_origin) const { return origin_ + since_origin; }
  Duration now() const { return sim_.now() - origin_; }
  Duration bin() const { return bin_; }
  /// Runs to `until` after the origin, telling the progress of `total`.
  void run_to(Duration until, Duration total);
  /// Until `done`, at most to `limit` after the origin. False: not done by then.
  bool run_until(const std::function<bool()>& done, Duration limit);
  /// Stops all flows and waits until everything in flight is done. False: something hangs.
  bool drain(Duration limit = seconds(2));

  /// One command of the fabric's text language ("link t0-0 t1-3 plane 0 down"); throws if it is not understood.
  void command(const std::string& text);

  double goodput(const Flow& flow, Duration from, Duration to) const;  ///< bits per second, over whole bins
  Duration longest_gap(const Flow& flow, Duration from, Duration to) const;
  /// Payload bits per second that `planes` planes carry when full of largest packets.
  double capacity(double planes) const;
  /// Gb/s over ms until drain(), for a plot.
  Series curve(const Flow& flow) const;
  std::vector<std::unique_ptr<Flow>>& flows() { return flows_; }

  /// Called for each packet that a node hands to a port.
  using Tap = std::function<void(unsigned node, const transport::TxPacket&)>;
  void tap(Tap tap);

  std::uint64_t errors() const;  ///< writes that failed, wrong or missing bytes, of all flows
  nlohmann::json counters() const;

 private:
  class End;  // a flow's receiving end
  void post(Flow& flow);
  void on_event(unsigned node, const transport::Event& event);
  void placed(Flow& flow, const transport::RxWrite& write);

  const Options& options_;
  fabric::Sim sim_;
  Duration bin_;
  Tick origin_{};
  std::vector<std::unique_ptr<Flow>> flows_;
  std::vector<std::unique_ptr<End>> ends_;
  std::uint64_t missing_ = 0;
  Duration drained_from_{};
};

}  // namespace mrc::experiments
