// SPDX-License-Identifier: BSD-2-Clause
// Flows over the simulated fabric and what is measured of them.
#include "bench.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>

#include "mrc/fabric/command.hpp"

namespace mrc::experiments {
namespace {

constexpr std::uint32_t kKey = 0x4d52;
constexpr std::uint16_t kFirstPort = 1000;
constexpr std::uint32_t kPayload = 4096;
constexpr std::uint32_t kHeaders = 136;  // payload MTU = L3 MTU less these (design.md)
// Of a full data packet on the wire: two IPv6 headers, UDP, BTH, METH, TSETH, RETH, iCRC, Ethernet with FCS, gap.
constexpr double kOverhead = 40 + 40 + 8 + 12 + 4 + 4 + 16 + 4 + 38;
constexpr Duration kGap = microseconds(20);
constexpr std::size_t kSpread = 64;  // writes start at different offsets of the source, so that their bytes differ

}  // namespace

fabric::SimConfig realistic(const Options& options, unsigned nodes, unsigned planes, std::uint64_t bps, unsigned t1s) {
  fabric::SimConfig c;
  c.nodes = nodes;
  c.seed = options.seed;
  c.clos.planes = static_cast<std::uint8_t>(planes);
  c.clos.t0s = 2;
  c.clos.t1s = static_cast<std::uint16_t>(t1s);
  c.clos.link_delay = nanoseconds(500);
  // There and back over four links with the smallest queues, which store and forward.
  const Duration frame =
      nanoseconds(static_cast<std::int64_t>((kPayload + kOverhead) * 8e9 / static_cast<double>(bps)));
  c.link_bps = bps;
  c.clos.set_rates(bps, c.clos.link_delay * 8 + frame * 4);
  c.transport.link_bps = bps;
  c.mtu = kPayload + kHeaders;
  c.carry_payload = options.quick;
  c.limits = {.endpoints = 64, .connections = 128, .messages = 8192, .window_packets = 65536};
  return c;
}

void set_trimming(fabric::SimConfig& config, bool on) {
  config.transport.trimming = on;
  if (on) return;
  for (fabric::LinkModel* model : {&config.clos.nic_to_t0, &config.clos.t0_to_nic, &config.clos.t0_t1}) {
    model->trim_at = 0;
  }
}

Duration Histogram::quantile(double q) {
  if (samples_.empty()) return {};
  const auto rank = static_cast<std::size_t>(std::ceil(q * static_cast<double>(samples_.size())));
  const std::size_t at = std::min(rank == 0 ? 0 : rank - 1, samples_.size() - 1);
  std::nth_element(samples_.begin(), samples_.begin() + static_cast<std::ptrdiff_t>(at), samples_.end());
  return {samples_[at]};
}

nlohmann::json Histogram::json() {
  const auto us = [this](double q) { return static_cast<double>(quantile(q).ns) / 1000; };
  return {{"count", count()}, {"p50_us", us(0.5)}, {"p99_us", us(0.99)}, {"p99_9_us", us(0.999)}, {"max_us", us(1)}};
}

class Bench::End : public transport::Upper {
 public:
  End(Bench& bench, Flow& flow, unsigned node) : bench_(bench), flow_(flow), node_(node) {}
  transport::Placement place(const transport::RxWrite& write) override {
    if (write.rkey != kKey) return transport::Placement::kRefused;
    bench_.placed(flow_, write);
    return transport::Placement::kPlaced;
  }
  transport::Status route(const wire::Ipv6Address& remote, path::Route& out) override {
    return bench_.sim().route(node_, remote, out);
  }

 private:
  Bench& bench_;
  Flow& flow_;
  unsigned node_;
};

Bench::Bench(const fabric::SimConfig& config, const Options& options, Duration bin)
    : options_(options), sim_(config), bin_(bin) {
  sim_.run_until(Tick{1'000'000});  // a clock that has been running, as real ones have
  sim_.on_event([this](unsigned node, const transport::Event& event) { on_event(node, event); });
}

Bench::~Bench() = default;

Flow& Bench::add(const FlowSpec& spec) {
  flows_.push_back(std::make_unique<Flow>());
  Flow& flow = *flows_.back();
  flow.spec = spec;
  flow.index = static_cast<unsigned>(flows_.size() - 1);
  if (flow.spec.name.empty()) flow.spec.name = fmt::format("{}-{}", spec.from, spec.to);
  if (sim_.config().carry_payload) {
    flow.source.resize(spec.message + kSpread);
    for (auto& b : flow.source) b = static_cast<std::byte>(sim_.random().next());
  }
  const auto port = static_cast<std::uint16_t>(kFirstPort + flow.index);
  ends_.push_back(std::make_unique<End>(*this, flow, spec.from));
  flow.from_ep = sim_.add_endpoint(spec.from, port, ends_.back().get());
  ends_.push_back(std::make_unique<End>(*this, flow, spec.to));
  const auto to_ep = sim_.add_endpoint(spec.to, static_cast<std::uint16_t>(port + 1000), ends_.back().get());
  if (flow.from_ep == transport::kNoId || to_ep == transport::kNoId) throw std::runtime_error("too many flows");
  flow.conn =
      sim_.core(spec.from).connect(flow.from_ep, sim_.address(spec.to, static_cast<std::uint16_t>(port + 1000)));
  return flow;
}

void Bench::post(Flow& flow) {
  const std::uint64_t number = flow.posted;
  const std::size_t from = number % kSpread;
  const transport::WriteRequest request{.va = number << 32,
                                        .rkey = kKey,
                                        .length = flow.spec.message,
                                        .source = flow.source.empty() ? nullptr : flow.source.data() + from,
                                        .cookie = std::uint64_t{flow.index} << 48 | number};
  if (sim_.core(flow.spec.from).post_write(flow.conn, request, sim_.now()) != transport::Status::kOk) {
    throw std::runtime_error(fmt::format("flow {}: a write was not accepted", flow.spec.name));
  }
  ++flow.posted;
  ++flow.outstanding;
  flow.open.emplace(number, std::pair{sim_.now(), std::uint64_t{0}});
}

void Bench::connect() {
  for (const auto& flow : flows_) post(*flow);
  const auto set_up = [this] {
    return std::all_of(flows_.begin(), flows_.end(), [this](const auto& flow) {
      return flow->outstanding == 0 && sim_.core(flow->spec.from).payload_mtu(flow->conn) == kPayload;
    });
  };
  if (!sim_.run(set_up, sim_.now() + seconds(2))) throw std::runtime_error("the connections were not set up");
  sim_.run_until(sim_.now() + milliseconds(1));
  origin_ = sim_.now();
  for (const auto& flow : flows_) {
    flow->bins.clear();
    flow->gaps.clear();
    flow->placed = 0;
    flow->latency = {};
    flow->last_placed = origin_;
  }
}

void Bench::start(Flow& flow) {
  flow.running = true;
  flow.last_placed = sim_.now();
  while (flow.outstanding < flow.spec.depth) post(flow);
}

void Bench::start_all() {
  for (const auto& flow : flows_) start(*flow);
}

void Bench::on_event(unsigned, const transport::Event& event) {
  if (event.kind != transport::EventKind::kWriteDone) return;
  Flow& flow = *flows_[event.cookie >> 48];
  const auto it = flow.open.find(event.cookie & 0xffffffffffff);
  --flow.outstanding;
  if (event.status != transport::Status::kOk) {
    ++flow.errors;
  } else {
    ++flow.done;
    flow.latency.add(sim_.now() - it->second.first);
    if (it->second.second != flow.spec.message) ++missing_;
  }
  flow.open.erase(it);
  if (flow.running) post(flow);
}

void Bench::placed(Flow& flow, const transport::RxWrite& write) {
  const std::uint64_t number = write.va >> 32;
  const std::uint64_t offset = write.va & 0xffffffff;
  const std::size_t size = write.payload.size();
  const auto it = flow.open.find(number);
  if (it == flow.open.end() || offset + size > flow.spec.message ||
      (!flow.source.empty() &&
       std::memcmp(write.payload.data(), flow.source.data() + number % kSpread + offset, size) != 0)) {
    ++flow.wrong;
    return;
  }
  it->second.second += size;
  flow.placed += size;
  const Tick now = sim_.now();
  if (origin_.ns == 0) return;
  const auto bin = static_cast<std::size_t>((now - origin_).ns / bin_.ns);
  if (flow.bins.size() <= bin) flow.bins.resize(bin + 1);
  flow.bins[bin] += size;
  if (now - flow.last_placed >= kGap) flow.gaps.push_back({flow.last_placed, now - flow.last_placed});
  flow.last_placed = now;
}

bool Bench::run_until(const std::function<bool()>& done, Duration limit) {
  return sim_.run(done, at(limit));
}

void Bench::run_to(Duration until, Duration total) {
  while (now() < until) {
    sim_.run_until(std::min(at(until), sim_.now() + microseconds(200)));
    std::uint64_t bytes = 0;
    for (const auto& flow : flows_) bytes += flow->placed;
    progress(options_,
             fmt::format("{:.1f} of {:.1f} ms virtual time, {:.1f} MB placed", static_cast<double>(now().ns) / 1e6,
                         static_cast<double>(total.ns) / 1e6, static_cast<double>(bytes) / 1e6));
  }
}

bool Bench::drain(Duration limit) {
  for (const auto& flow : flows_) flow->running = false;
  if (drained_from_.ns == 0) drained_from_ = now();
  return sim_.run(
      [this] {
        return std::all_of(flows_.begin(), flows_.end(), [](const auto& flow) { return flow->outstanding == 0; });
      },
      sim_.now() + limit);
}

double Bench::goodput(const Flow& flow, Duration from, Duration to) const {
  const auto first = static_cast<std::size_t>((from.ns + bin_.ns - 1) / bin_.ns);
  const auto last = static_cast<std::size_t>(to.ns / bin_.ns);
  if (last <= first) return 0;
  std::uint64_t bytes = 0;
  for (std::size_t i = first; i < std::min(last, flow.bins.size()); ++i) bytes += flow.bins[i];
  return static_cast<double>(bytes) * 8e9 / static_cast<double>(static_cast<std::int64_t>(last - first) * bin_.ns);
}

Duration Bench::longest_gap(const Flow& flow, Duration from, Duration to) const {
  Duration longest{};
  const auto look = [&](Tick begin, Tick end) {
    longest = std::max(longest, std::min(end, at(to)) - std::max(begin, at(from)));
  };
  for (const Flow::Gap& gap : flow.gaps) look(gap.from, gap.from + gap.length);
  look(flow.last_placed, sim_.now());
  return longest;
}

double Bench::capacity(double planes) const {
  return planes * static_cast<double>(sim_.config().link_bps) * kPayload / (kPayload + kOverhead);
}

Series Bench::curve(const Flow& flow) const {
  Series s{.label = flow.spec.name};
  const auto whole = drained_from_.ns == 0 ? flow.bins.size() : static_cast<std::size_t>(drained_from_.ns / bin_.ns);
  for (std::size_t i = 0; i < std::min(whole, flow.bins.size()); ++i) {
    s.x.push_back((static_cast<double>(i) + 0.5) * static_cast<double>(bin_.ns) / 1e6);
    s.y.push_back(static_cast<double>(flow.bins[i]) * 8 / static_cast<double>(bin_.ns));
  }
  return s;
}

void Bench::command(const std::string& text) {
  const auto applied = fabric::apply_command(sim_.clos(), text);
  if (!applied) throw std::runtime_error(fmt::format("the fabric does not take '{}': {}", text, applied.error().text));
}

std::uint64_t Bench::errors() const {
  std::uint64_t sum = missing_;
  for (const auto& flow : flows_) sum += flow->errors + flow->wrong;
  return sum;
}

nlohmann::json Bench::counters() const {
  nlohmann::json nodes = nlohmann::json::array();
  auto& sim = const_cast<fabric::Sim&>(sim_);
  for (unsigned i = 0; i < sim_.nodes(); ++i) {
    const transport::Counters& c = sim.core(i).counters();
    nodes.push_back({{"tx_data", c.tx_data},
                     {"tx_retransmit", c.tx_retransmit},
                     {"tx_sack", c.tx_sack},
                     {"tx_nack", c.tx_nack},
                     {"tx_probe", c.tx_probe},
                     {"rx_data", c.rx_data},
                     {"rx_duplicate", c.rx_duplicate},
                     {"rx_out_of_window", c.rx_out_of_window},
                     {"rx_sack", c.rx_sack},
                     {"rx_nack", c.rx_nack},
                     {"rx_trimmed", c.rx_trimmed},
                     {"rx_ecn", c.rx_ecn},
                     {"rto", c.rto},
                     {"spurious", c.spurious},
                     {"ev_blamed", c.ev_blamed},
                     {"ev_restored", c.ev_restored},
                     {"ev_replaced", c.ev_replaced},
                     {"tail_timeouts", c.tail_timeouts},
                     {"tail_copies", c.tail_copies},
                     {"plane_suspected", c.plane_suspected},
                     {"plane_degraded", c.plane_degraded},
                     {"loopback_lost", c.loopback_lost},
                     {"peers_dead", c.peers_dead},
                     {"tx_plane", c.tx_plane}});
  }
  const fabric::Totals t = const_cast<fabric::Sim&>(sim_).clos().totals();
  return {{"nodes", nodes},
          {"fabric",
           {{"offered", t.offered},
            {"delivered", t.delivered},
            {"dropped", t.dropped()},
            {"marked", t.marked},
            {"trimmed", t.trimmed}}},
          {"events", sim_.events()}};
}

}  // namespace mrc::experiments
