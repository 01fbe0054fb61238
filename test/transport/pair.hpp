// SPDX-License-Identifier: BSD-2-Clause
// The core's third driver, for tests: two or more cores in one process, virtual time, and a network of planes between
// them that delays, reorders, loses, duplicates, corrupts, marks and trims. Contents are real bytes and are compared.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <set>
#include <vector>

#include "mrc/random.hpp"
#include "mrc/transport/core.hpp"
#include "support/catch.hpp"

namespace mrc::transport::test {

/// MRC_SEED overrides; printed on failure by INFO.
inline std::uint64_t seed_from_environment(std::uint64_t fallback) {
  const char* text = std::getenv("MRC_SEED");
  return text == nullptr ? fallback : std::strtoull(text, nullptr, 0);
}

struct NetConfig {
  unsigned nodes = 2;
  std::uint8_t planes = 4;
  std::uint16_t uplinks = 4;
  path::RouteMode mode = path::RouteMode::kSrv6;
  std::uint32_t mtu = 4096 + 136;
  Duration delay = microseconds(5);
  Duration jitter{};  ///< each packet up to this much later: reordering
  double loss = 0, duplicate = 0, corrupt = 0, mark = 0, trim = 0;
  double ns_per_byte = 0;         ///< of each node's ingress link in each plane; 0 = infinitely fast
  Duration queue_limit = kQueue;  ///< backlog of an ingress link above which packets are trimmed (trim > 0) or dropped
  std::size_t memory = 1 << 22;   ///< bytes of each node's target region
  Config core{};
  Limits limits{8, 64, 4096, 16384};
  std::uint64_t seed = 1;
  static constexpr Duration kQueue = microseconds(200);
};

struct Net;

struct Node : Upper {
  Net* net = nullptr;
  unsigned index = 0;
  std::vector<std::byte> arena;
  std::unique_ptr<Core> core;
  EpId ep = kNoId;
  wire::Ipv6Address inner{};
  std::vector<std::byte> source, target;
  std::vector<std::uint8_t> placed;  ///< per byte of `target`: how often it was written
  std::uint64_t placed_total = 0;
  std::size_t refuse_rkey = 0;  ///< writes with this key are refused
  bool alive = true;
  bool route_pending = false;
  bool no_route = false;
  Tick stalled_until{};
  std::vector<Event> events;  ///< everything but kWriteDone
  std::map<std::uint64_t, std::vector<Status>> done;
  std::uint64_t next_target = 0;

  Placement place(const RxWrite& w) override;
  Status route(const wire::Ipv6Address& remote, path::Route& out) override;
};

struct Net {
  struct Frame {
    Tick at;
    std::uint64_t serial;
    unsigned to;
    std::uint8_t plane;
    std::vector<std::byte> bytes;
    bool operator>(const Frame& o) const { return at != o.at ? o.at < at : serial > o.serial; }
  };
  struct Write {
    unsigned from, to;
    std::uint64_t cookie, va, source;
    std::uint32_t length;
  };

  explicit Net(const NetConfig& c) : config(c), random(c.seed), now{1000000} {
    UNSCOPED_INFO("seed " << c.seed);
    for (unsigned i = 0; i < c.nodes; ++i) {
      nodes.push_back(std::make_unique<Node>());
      Node& n = *nodes.back();
      n.net = this;
      n.index = i;
      n.inner = address(i);
      n.source.resize(c.memory);
      for (auto& b : n.source) b = static_cast<std::byte>(random.next());
      n.target.resize(c.memory);
      n.placed.resize(c.memory);
      start(i);
    }
  }

  static wire::Ipv6Address address(unsigned i) {
    wire::Ipv6Address a{{0xfd, 0x6d, 0x72, 0x63, 0, 0, 0, 0, 10, 0, 0, 0, 0x12, 0x34, 0, 0}};
    a.bytes[11] = static_cast<std::uint8_t>(i + 1);
    a.bytes[10] = static_cast<std::uint8_t>((i + 1) >> 8);
    return a;
  }
  /// A node's process begins (again): a new core, endpoint and incarnation.
  void start(unsigned i) {
    Node& n = *nodes[i];
    n.core.reset();
    n.arena.assign(Core::memory_needed(config.core, config.limits), std::byte{});
    n.core = std::make_unique<Core>(config.core, config.limits, n.arena, random.next());
    n.ep = n.core->add_endpoint(n.inner, random.next(), &n);
    REQUIRE(n.ep != kNoId);
    n.alive = true;
    initial = n.core->pool_levels();
  }
  Core& core(unsigned i) { return *nodes[i]->core; }
  ConnId conn(unsigned from, unsigned to) { return core(from).connect(nodes[from]->ep, nodes[to]->inner); }

  /// Posts a write of `length` bytes to a fresh place in `to`'s target.
  Status write(unsigned from, unsigned to, std::uint32_t length, bool urgent = false, std::uint32_t rkey = 1) {
    Node& target = *nodes[to];
    REQUIRE(target.next_target + length <= target.target.size());
    const std::uint64_t cookie = writes.size();
    Write w{from,
            to,
            cookie,
            target.next_target,
            length == 0 ? 0 : random.below(static_cast<std::uint32_t>(config.memory - length + 1)),
            length};
    WriteRequest r;
    r.va = w.va;
    r.rkey = rkey;
    r.length = length;
    r.source = nodes[from]->source.data();
    r.source_offset = w.source;
    r.cookie = cookie;
    r.urgent = urgent;
    const ConnId id = conn(from, to);
    if (id == kNoId) return Status::kAgain;
    const Status status = core(from).post_write(id, r, now);
    if (status == Status::kOk) {
      target.next_target += length;
      writes.push_back(w);
    }
    return status;
  }

  bool all_done() const {
    for (const Write& w : writes) {
      if (!nodes[w.from]->done.contains(w.cookie)) return false;
    }
    return true;
  }
  Status status_of(std::uint64_t cookie) {
    auto& d = nodes[writes[cookie].from]->done[cookie];
    REQUIRE(d.size() == 1);
    return d[0];
  }
  std::size_t count(unsigned node, EventKind kind) const {
    return static_cast<std::size_t>(std::count_if(nodes[node]->events.begin(), nodes[node]->events.end(),
                                                  [&](const Event& e) { return e.kind == kind; }));
  }

  /// Virtual time passes until `done` holds or `limit` is over; true if `done` held.
  bool run(const std::function<bool()>& done, Duration limit) {
    const Tick end = now + limit;
    for (;;) {
      pump();
      if (done()) return true;
      Tick next = frames.empty() ? kNever : frames.top().at;
      for (auto& n : nodes) {
        if (!n->alive) continue;
        next = std::min(next, std::max(n->core->next_deadline(), n->stalled_until));
        if (n->stalled_until > now && !n->core->idle()) next = std::min(next, n->stalled_until);
      }
      if (!timed.empty()) next = std::min(next, timed.begin()->first);
      if (next == kNever || next > end) {
        now = std::max(now, end);
        return done();
      }
      now = std::max(now, next);
    }
  }
  bool run_all(Duration limit) {
    return run([this] { return all_done(); }, limit);
  }
  /// Until nothing is in flight anywhere.
  void quiesce(Duration limit = seconds(5)) {
    run([this] { return frames.empty() && idle(); }, limit);
  }
  bool idle() const {
    for (auto& n : nodes) {
      if (n->alive && (!n->core->idle() || n->core->tx_pending())) return false;
    }
    return true;
  }
  void at(Tick when, std::function<void()> action) { timed.emplace(when, std::move(action)); }

  /// Every accepted write has exactly one event; successful ones have their bytes in place, each written once.
  void check(bool all_ok = true) {
    INFO("seed " << config.seed);
    for (const Write& w : writes) {
      INFO("write " << w.cookie << " of " << w.length << " from " << w.from << " to " << w.to);
      const auto it = nodes[w.from]->done.find(w.cookie);
      REQUIRE(it != nodes[w.from]->done.end());
      REQUIRE(it->second.size() == 1);
      if (all_ok) REQUIRE(it->second[0] == Status::kOk);
      if (it->second[0] != Status::kOk) continue;
      const Node& from = *nodes[w.from];
      const Node& to = *nodes[w.to];
      REQUIRE(std::memcmp(from.source.data() + w.source, to.target.data() + w.va, w.length) == 0);
    }
    for (auto& n : nodes) {
      for (const auto times : n->placed) {
        if (times > 1) FAIL("a byte was placed " << int(times) << " times");
      }
    }
  }
  /// Nothing outstanding: pools are full, windows empty.
  void check_pools() {
    for (auto& n : nodes) {
      if (!n->alive) continue;
      const PoolLevels level = n->core->pool_levels();
      REQUIRE(level.messages == initial.messages);
      REQUIRE(level.segments == initial.segments);
      REQUIRE(n->core->idle());
    }
  }
  std::uint64_t hash() const { return trace; }

  /// What the network does with one packet; replaced by tests that cut paths. Returns false to lose it.
  std::function<bool(unsigned from, unsigned to, std::uint8_t plane, std::uint32_t ev, Tick)> passes =
      [](unsigned, unsigned, std::uint8_t, std::uint32_t, Tick) { return true; };
  /// Frames that a plane does not carry.
  std::function<bool(std::uint8_t plane, std::size_t size)> too_long = [](std::uint8_t, std::size_t) { return false; };
  /// Sees every frame that sets out.
  std::function<void(unsigned to, const std::vector<std::byte>&)> seen;
  void inject(unsigned to, std::uint8_t plane, std::vector<std::byte> bytes, Duration after) {
    frames.push({now + after, serial++, to, plane, std::move(bytes)});
  }
  /// Successful writes have their bytes in place (nothing is said about the others).
  bool sane() const {
    return std::all_of(writes.begin(), writes.end(), [&](const Write& w) {
      const auto it = nodes[w.from]->done.find(w.cookie);
      return it == nodes[w.from]->done.end() || it->second[0] != Status::kOk ||
             std::memcmp(nodes[w.from]->source.data() + w.source, nodes[w.to]->target.data() + w.va, w.length) == 0;
    });
  }
  /// May change the bytes of a frame on its way (fuzzing).
  std::function<void(std::vector<std::byte>&)> mangle;

  NetConfig config;
  Random random;
  Tick now;
  std::vector<std::unique_ptr<Node>> nodes;
  std::vector<Write> writes;
  PoolLevels initial{};
  std::uint64_t sent_frames = 0, lost_frames = 0;

 private:
  void pump() {
    while (!timed.empty() && timed.begin()->first <= now) {
      auto action = std::move(timed.begin()->second);
      timed.erase(timed.begin());
      action();
    }
    std::vector<std::vector<Frame>> bursts(nodes.size());
    while (!frames.empty() && frames.top().at <= now) {
      Frame f = frames.top();
      frames.pop();
      Node& n = *nodes[f.to];
      if (!n.alive) continue;
      if (n.stalled_until > now) {
        f.at = n.stalled_until;
        frames.push(std::move(f));
      } else {
        bursts[f.to].push_back(std::move(f));
      }
    }
    for (auto& n : nodes) {
      if (!n->alive || n->stalled_until > now) continue;
      if (!bursts[n->index].empty()) {
        std::vector<RxPacket> rx;
        for (auto& f : bursts[n->index]) rx.push_back({f.bytes, f.plane});
        n->core->on_rx(rx, now);
      }
      if (n->core->next_deadline() <= now) n->core->on_deadline(now);
      drain(*n);
    }
  }

  void drain(Node& n) {
    std::array<TxPacket, 16> out;
    for (;;) {
      std::array<std::uint16_t, path::kMaxPlanes> room{};
      for (unsigned p = 0; p < config.planes; ++p) room[p] = 64;
      const std::size_t count = n.core->poll_tx(out, room, now);
      if (count == 0) break;
      for (std::size_t i = 0; i < count; ++i) transmit(n, out[i]);
    }
    std::array<Event, 16> events;
    while (const std::size_t count = n.core->poll_events(events)) {
      for (std::size_t i = 0; i < count; ++i) {
        if (events[i].kind == EventKind::kWriteDone) {
          n.done[events[i].cookie].push_back(events[i].status);
        } else {
          n.events.push_back(events[i]);
        }
      }
    }
  }

  void transmit(Node& n, const TxPacket& p) {
    std::vector<std::byte> bytes(p.header.begin(), p.header.begin() + p.header_length);
    if (p.source != nullptr) {
      const auto* from = static_cast<const std::byte*>(p.source) + p.offset;
      bytes.insert(bytes.end(), from, from + p.length);
    }
    bytes.resize(bytes.size() + p.padding + wire::pad_of(p.length + p.padding) + (p.icrc ? 4 : 0));
    for (const auto b : bytes) trace = (trace ^ static_cast<std::uint8_t>(b)) * 0x100000001b3u;
    trace = (trace ^ static_cast<std::uint64_t>(now.ns)) * 0x100000001b3u;
    ++sent_frames;
    wire::Packet parsed;
    const wire::ParseError error = wire::parse(bytes, config.core.wire, parsed);
    INFO("sent packet: " << wire::to_string(error));
    REQUIRE(error == wire::ParseError::kNone);
    unsigned to = UINT32_MAX;  // (a loop-back probe comes back from the T0)
    for (auto& other : nodes) {
      if (other->inner == parsed.inner.destination) to = other->index;
    }
    if (to == UINT32_MAX) return;
    REQUIRE(bytes.size() <= config.mtu);
    // The header that the core patches together is the one that the writer writes.
    std::array<std::byte, wire::kMaxHeaders> again{};
    const std::size_t length = wire::write_headers(parsed, parsed.payload.size(), config.core.wire, again);
    REQUIRE(std::memcmp(again.data(), bytes.data(), length) == 0);
    if (too_long(p.plane, bytes.size()) || !passes(n.index, to, p.plane, parsed.ev, now) ||
        random.chance(config.loss) || random.chance(config.corrupt)) {
      ++lost_frames;  // a corrupted one is dropped by the iCRC's check
      return;
    }
    if (seen) seen(to, bytes);
    if (mangle) mangle(bytes);
    bool trimmed = wire::is_write(parsed.bth.opcode) && random.chance(config.trim);
    Tick at = now + config.delay;
    if (config.ns_per_byte > 0) {
      Tick& free = busy[{to, p.plane}];
      if (free < now) free = now;
      if (free - now > config.queue_limit && wire::is_write(parsed.bth.opcode)) {
        if (config.trim <= 0) {
          ++lost_frames;
          return;
        }
        trimmed = true;
      }
      free = free + nanoseconds(static_cast<std::int64_t>(static_cast<double>(trimmed ? 114 : bytes.size()) *
                                                          config.ns_per_byte));
      at = free + config.delay;
    }
    if (trimmed) {
      bytes.resize(std::min<std::size_t>(bytes.size(), 114));
      set_class(bytes, static_cast<std::uint8_t>(config.core.wire.dscp.trimmed << 2));
    } else if (wire::is_write(parsed.bth.opcode) && random.chance(config.mark)) {
      set_class(bytes, static_cast<std::uint8_t>(parsed.inner.traffic_class | wire::kEcnCe));
    }
    const unsigned copies = random.chance(config.duplicate) ? 2 : 1;
    for (unsigned i = 0; i < copies; ++i) {
      const Tick when =
          config.jitter.ns == 0 ? at : at + nanoseconds(random.below(static_cast<std::uint32_t>(config.jitter.ns)));
      frames.push({when, serial++, to, p.plane, bytes});
    }
  }

  /// Of the header that switches look at: the first one.
  static void set_class(std::vector<std::byte>& bytes, std::uint8_t traffic_class) {
    bytes[0] = static_cast<std::byte>(0x60 | traffic_class >> 4);
    bytes[1] = (bytes[1] & std::byte{0x0f}) | static_cast<std::byte>(traffic_class << 4);
  }

  std::priority_queue<Frame, std::vector<Frame>, std::greater<>> frames;
  std::multimap<Tick, std::function<void()>> timed;
  std::map<std::pair<unsigned, unsigned>, Tick> busy;
  std::uint64_t serial = 0;
  std::uint64_t trace = 0xcbf29ce484222325u;
};

inline Placement Node::place(const RxWrite& w) {
  if (w.rkey == refuse_rkey || w.va > target.size() || w.payload.size() > target.size() - w.va) {
    return Placement::kRefused;
  }
  if (!w.payload.empty()) std::memcpy(target.data() + w.va, w.payload.data(), w.payload.size());
  for (std::size_t i = 0; i < w.payload.size(); ++i) ++placed[w.va + i];
  placed_total += w.payload.size();
  return Placement::kPlaced;
}

inline Status Node::route(const wire::Ipv6Address& remote, path::Route& out) {
  if (no_route) return Status::kNoRoute;
  if (route_pending) return Status::kAgain;
  out = path::Route{};
  out.mode = net->config.mode;
  out.planes = net->config.planes;
  out.uplinks = net->config.uplinks;
  out.mtu = net->config.mtu;
  out.local = {static_cast<std::uint16_t>(index), 0};
  out.remote = {static_cast<std::uint16_t>(remote.bytes[11] - 1), 0};
  out.outer_source = inner;
  return Status::kOk;
}

}  // namespace mrc::transport::test
