// SPDX-License-Identifier: BSD-2-Clause
// The core's public face: memory, endpoints, writes, and the driver's calls.
#include "mrc/transport/core.hpp"

#include <algorithm>
#include <bit>

#include "mrc/transport/state.hpp"

namespace mrc::transport {
namespace {

constexpr std::uint32_t kReplies = 256;
constexpr std::uint32_t kNacks = 512;
constexpr std::uint32_t kMaxLength = 1u << 30;

/// What the configuration leaves to be derived.
void derive(Config& config) {
  const bool declared = config.link_bps != 0;
  const auto choose = [declared](Duration& d, Duration precise, Duration software) {
    if (d == kDerived) d = declared ? precise : software;
  };
  choose(config.sack_delay, microseconds(5), microseconds(50));
  choose(config.reorder_floor, microseconds(3), microseconds(100));
  choose(config.tail_floor, microseconds(2), microseconds(100));
  if (config.tail_packets == 0) config.tail_packets = declared ? 8 : 2;
}

/// What one connection has of all these tables, nothing in flight.
constexpr std::size_t idle_bytes(std::size_t planes, std::size_t evs, std::size_t window) {
  return sizeof(Connection) + planes * sizeof(TxPlane) + evs * sizeof(path::Ev) + window / 8 +
         window / 32 * sizeof(TxSlot) + 4 * sizeof(QueuedEvent) + 20 /* DeadlineHeap */ + 8 /* hash, free list */;
}
// 128 EVs and their backups; seven planes have most of them. Engine and provider need some 400 bytes more
// (test/prov/memory).
static_assert(idle_bytes(7, 154, 1024) <= 3696, "a connection with nothing in flight has 4 KiB (design.md)");
static_assert(idle_bytes(8, 144, 1024) <= 3696, "a connection with nothing in flight has 4 KiB (design.md)");
static_assert(idle_bytes(7, 154, 4096) <= 5120, "… and 5 KiB with the largest window");

/// What the arena must hold, derived once from configuration and limits.
struct Sizes {
  std::uint32_t window, endpoints, endpoint_buckets, connections, connection_buckets, planes, evs, segments, suspects,
      events;

  Sizes(const Config& config, const Limits& limits) {
    window = std::clamp(std::bit_ceil(std::max(config.window, 1u)), 128u, 4096u);
    endpoints = std::max(limits.endpoints, 1u);
    endpoint_buckets = std::bit_ceil(endpoints);
    connections = std::clamp(limits.connections, 1u, 1u << 20);
    connection_buckets = std::bit_ceil(connections);
    planes = std::clamp<std::uint32_t>(limits.planes, 1, path::kMaxPlanes);
    evs = 0;
    for (unsigned p = 1; p <= planes; ++p) {
      evs = std::max<std::uint32_t>(evs, path::EvSet::size_for(config.ev, p));
    }
    segments = std::clamp(limits.window_packets / 64, 2u, 0xffffu);
    suspects = segments * 16;
    events = limits.messages + 4 * connections + 2 * limits.ordered;
  }
};

template <class T>
constexpr std::size_t room(std::size_t count) {
  return count * sizeof(T) + alignof(T);
}

}  // namespace

std::size_t Core::memory_needed(const Config& config, const Limits& limits) {
  const Sizes n(config, limits);
  return room<State>(1) + room<Endpoint>(n.endpoints) + room<std::uint32_t>(n.endpoint_buckets) +
         room<Connection>(n.connections) + room<std::uint32_t>(n.connection_buckets) +
         room<std::uint32_t>(n.connections) + room<path::Ev>(std::size_t{n.connections} * n.evs) +
         room<TxPlane>(std::size_t{n.connections} * n.planes) +
         room<std::uint64_t>(std::size_t{n.connections} * (n.window / 64)) +
         room<TxSlot>(std::size_t{n.connections} * TxWindow::slots_for(n.window)) +
         Pool<Message>::bytes(limits.messages) + SegmentPool::bytes(n.segments) + Pool<Suspect>::bytes(n.suspects) +
         Pool<Ordered>::bytes(limits.ordered) + room<QueuedEvent>(n.events) +
         room<path::DenyRule>(path::kMaxDenyRules) + room<Reply>(kReplies) + room<NackEntry>(kNacks) +
         DeadlineHeap::bytes(n.connections) + 256;
}

Core::Core(const Config& config, const Limits& limits, std::span<std::byte> memory, std::uint64_t seed) {
  const Sizes n(config, limits);
  assert(memory.size() >= memory_needed(config, limits));
  Arena arena(memory);
  state_ = arena.make<State>(1, config, limits, seed).data();
  State& s = *state_;
  derive(s.config);
  s.config.window = n.window;
  // Weights compare what planes deliver. Software ports hear of their planes in bursts, as the scheduler lets them, and
  // would take that for a difference: there the caps alone clock a slow plane.
  s.config.balance.weights = config.balance.weights && config.link_bps != 0;
  s.limits.connections = n.connections;
  s.limits.planes = static_cast<std::uint8_t>(n.planes);
  s.hash_key = s.random.next() | 1;
  s.index_bits = std::max(2u, static_cast<std::uint32_t>(std::bit_width(n.connections - 1)));
  s.endpoints = arena.make<Endpoint>(n.endpoints);
  s.endpoint_buckets = arena.make<std::uint32_t>(n.endpoint_buckets, kNone);
  s.connections = arena.make<Connection>(n.connections);
  s.connection_buckets = arena.make<std::uint32_t>(n.connection_buckets, kNone);
  s.free_connections = arena.make<std::uint32_t>(n.connections);
  s.evs_per_connection = n.evs;
  s.ev_storage = arena.make<path::Ev>(std::size_t{n.connections} * n.evs);
  auto planes = arena.make<TxPlane>(std::size_t{n.connections} * n.planes);
  const std::size_t words = n.window / 64;
  auto rx_words = arena.make<std::uint64_t>(n.connections * words);
  const std::size_t slots = TxWindow::slots_for(n.window);
  auto tx_slots = arena.make<TxSlot>(n.connections * slots);
  for (std::uint32_t i = 0; i < n.connections; ++i) {
    s.connections[i].planes = planes.subspan(std::size_t{i} * n.planes, n.planes);
    s.connections[i].rx = RxWindow(rx_words.subspan(i * words, words));
    s.connections[i].tx = TxWindow(tx_slots.subspan(i * slots, slots));
    s.free_connections[i] = n.connections - 1 - i;
  }
  s.free_connection_count = n.connections;
  s.messages = Pool<Message>::carve(arena, limits.messages);
  s.segments = SegmentPool::carve(arena, n.segments);
  s.suspects = Pool<Suspect>::carve(arena, n.suspects);
  s.ordered = Pool<Ordered>::carve(arena, limits.ordered);
  s.events = Ring<QueuedEvent>(arena.make<QueuedEvent>(n.events));
  s.deny_storage = arena.make<path::DenyRule>(path::kMaxDenyRules);
  s.replies = Ring<Reply>(arena.make<Reply>(kReplies));
  s.nacks = Ring<NackEntry>(arena.make<NackEntry>(kNacks));
  s.timers = DeadlineHeap(arena, n.connections);
}

Core::~Core() = default;

EpId Core::add_endpoint(const wire::Ipv6Address& inner, std::uint64_t incarnation, Upper* upper) {
  State& s = *state_;
  if (upper == nullptr || s.find_endpoint(inner) != kNoId) return kNoId;
  for (EpId id = 0; id < s.endpoints.size(); ++id) {
    Endpoint& e = s.endpoints[id];
    if (e.used) continue;
    e = Endpoint{};
    e.inner = inner;
    e.incarnation = incarnation == 0 ? 1 : incarnation;
    e.upper = upper;
    e.used = true;
    e.instance = static_cast<std::uint32_t>(s.random.next()) & wire::kPsnMask;
    const std::uint32_t bucket = s.endpoint_bucket(inner);
    e.hash_next = s.endpoint_buckets[bucket];
    s.endpoint_buckets[bucket] = id;
    return id;
  }
  return kNoId;
}

ConnId Core::connect(EpId ep, const wire::Ipv6Address& remote) {
  State& s = *state_;
  if (ep >= s.endpoints.size() || !s.endpoints[ep].used || s.endpoints[ep].closing) return kNoId;
  const ConnId found = s.find_connection(ep, remote);
  return found != kNoId ? found : s.make_connection(ep, remote);
}

const wire::Ipv6Address& Core::remote(ConnId id) const {
  return state_->connections[id].remote;
}
EpId Core::endpoint_of(ConnId id) const {
  return state_->connections[id].ep;
}
std::uint32_t Core::payload_mtu(ConnId id) const {
  return state_->connections[id].mtu;
}

bool Core::established(ConnId id) const {
  const Connection& c = state_->connections[id];
  return c.phase == Connection::Phase::kOpen && c.peer_known && c.peer_knows_us;
}

Status Core::post_write(ConnId id, const WriteRequest& request, Tick now) {
  State& s = *state_;
  if (id >= s.connections.size() || request.length > kMaxLength) return Status::kInvalid;
  Connection& c = s.connections[id];
  if (c.phase == Connection::Phase::kFree) return Status::kInvalid;
  if (c.phase >= Connection::Phase::kClosing || s.endpoints[c.ep].closing) return Status::kClosed;
  // Events not yet polled hold their place, so that their queue cannot overflow. 16-bit message numbers in flight.
  if (s.outstanding + s.write_events >= s.limits.messages || c.messages >= 0x7fff) return Status::kAgain;
  const std::uint32_t at = s.messages.take();
  if (at == kNone) return Status::kAgain;
  Message& m = s.messages[at];
  m = Message{};
  m.request = request;
  m.previous = c.last_message;
  (c.last_message == kNone ? c.first_message : s.messages[c.last_message].next) = at;
  c.last_message = at;
  IndexQueue& queue = request.urgent && !request.has_imm ? c.urgent : c.queue;
  (queue.head == kNone ? queue.head : s.messages[queue.tail].queue_next) = at;
  queue.tail = at;
  ++s.outstanding;
  if (c.messages++ == 0) {
    s.enter(now);  // nobody may have driven us for minutes: that time is not the peer's silence
    c.silent_since = s.active;
  }
  c.last_activity = now;

  if (c.phase == Connection::Phase::kIdle) {
    c.route_known = false;
    s.new_instance(id);
    s.start_init(id, now);
  } else if (!c.peer_knows_us) {
    if (!c.init_active) s.start_init(id, now);
  } else {
    if (s.has_data(c)) s.want_data(id);
    if (c.messages == 1) s.schedule(id, now);
  }
  return Status::kOk;
}

void Core::peer_gone(const wire::Ipv6Address& remote, Tick now) {
  State& s = *state_;
  for (ConnId id = 0; id < s.connections.size(); ++id) {
    Connection& c = s.connections[id];
    if (c.phase == Connection::Phase::kFree || c.remote != remote) continue;
    if (c.phase == Connection::Phase::kOpen) s.fail_connection(id, Status::kPeerDead, now);
    s.settle(id, now);
  }
}

void Core::set_plane_up(unsigned plane, bool up, Tick now) {
  State& s = *state_;
  if (plane >= path::kMaxPlanes) return;
  const std::uint32_t bit = 1u << plane;
  if (((s.links_up & bit) != 0) == up) return;
  s.links_up ^= bit;
  s.link_changed(plane, up, now);
}

void Core::on_rx(std::span<const RxPacket> burst, Tick now) {
  State& s = *state_;
  s.enter(now);
  for (const RxPacket& packet : burst) s.receive(packet, now);
  while (s.touched != kNone) {
    const ConnId id = s.touched;
    s.touched = s.connections[id].next_touched;
    s.connections[id].touched = false;
    s.signal_batch_end(s.connections[id], now);
    s.judge_planes(id, now);
    s.settle(id, now);
  }
}

std::size_t Core::poll_tx(std::span<TxPacket> out, std::span<std::uint16_t> plane_room, Tick now) {
  State& s = *state_;
  s.enter(now);
  if (s.grace_loops != 0) --s.grace_loops;
  std::uint32_t room = 0;
  for (std::size_t p = 0; p < plane_room.size() && p < path::kMaxPlanes; ++p) {
    if (plane_room[p] != 0) room |= 1u << p;
  }
  room &= s.links_up;
  std::size_t n = 0;
  const auto account = [&] {
    const unsigned plane = out[n].plane;
    ++s.counters.tx_plane[plane];
    s.counters.tx_plane_bytes[plane] += out[n].length;
    if (--plane_room[plane] == 0) room &= ~(1u << plane);
    ++n;
  };
  using Sent = State::Sent;
  const auto full = [&] { return n == out.size() || room == 0; };

  while (!full() && !s.nacks.empty()) {
    const Sent sent = s.send_nack(out[n], room, now);
    if (sent == Sent::kNoRoom) break;
    s.nacks.pop();
    if (sent == Sent::kPacket) account();
  }
  while (!full() && !s.replies.empty()) {
    const Sent sent = s.send_reply(out[n], room, now);
    if (sent == Sent::kNoRoom) break;
    s.replies.pop();
    if (sent == Sent::kPacket) account();
  }
  while (!full() && s.loop.due != 0) {
    if (s.send_loop(out[n], room) == Sent::kPacket) account();
  }
  // Connections with control packets: each until it has none left. One that finds no room waits at the end.
  ConnId first_blocked = kNoId;
  while (!full() && !s.control.empty() && s.control.head != first_blocked) {
    const ConnId id = s.pop(s.control, &Connection::next_control);
    Connection& c = s.connections[id];
    c.in_control = false;
    Sent sent = Sent::kNothing;
    while (!full() && (sent = s.send_control(id, out[n], room, now)) == Sent::kPacket) account();
    if (sent == Sent::kNoRoom && first_blocked == kNoId) first_blocked = id;
    if (sent != Sent::kNothing) s.want_control(id, 0);
  }
  // Data, a few packets of each connection in turn.
  constexpr unsigned kQuantum = 8;
  first_blocked = kNoId;
  while (!full() && !s.data.empty() && s.data.head != first_blocked) {
    const ConnId id = s.pop(s.data, &Connection::next_data);
    Connection& c = s.connections[id];
    c.in_data = false;
    Sent sent = Sent::kPacket;
    for (unsigned i = 0; i < kQuantum && !full(); ++i) {
      sent = s.send_data(id, out[n], room, now);
      if (sent != Sent::kPacket) break;
      account();
    }
    if (sent == Sent::kNoRoom) {
      if (first_blocked == kNoId) first_blocked = id;
      s.want_data(id);
    } else if (s.has_data(c)) {
      s.want_data(id);
    }
    if (c.phase != Connection::Phase::kFree) s.schedule(id, now);
  }
  return n;
}

Tick Core::next_deadline() const {
  return std::min(state_->timers.next(), state_->loop.next);
}

void Core::on_deadline(Tick now) {
  State& s = *state_;
  s.enter(now);
  if (s.loop.next <= now) s.loop_due(now);
  while (s.timers.next() <= now) {
    const ConnId id = s.timers.top();
    s.expire(id, now);
    if (s.connections[id].phase == Connection::Phase::kFree) {
      s.timers.set(id, kNever);
      continue;
    }
    s.settle(id, now);
    Tick when = s.deadline(s.connections[id], now);
    if (when <= now) when = now + nanoseconds(1);
    if (planted(Bug::kTimerNotRearmed) && s.connections[id].tail_probes != 0) when = kNever;
    s.timers.set(id, when);
  }
  if (!s.in_grace(now)) s.grace_used = false;
}

std::size_t Core::poll_events(std::span<Event> out) {
  State& s = *state_;
  std::size_t n = 0;
  for (; n < out.size() && !s.events.empty(); ++n) {
    out[n] = s.events.front().event();
    s.events.pop();
    if (out[n].kind == EventKind::kWriteDone) {
      --s.write_events;
    } else if (out[n].kind == EventKind::kImmediate) {
      --s.imm_events;
    } else {
      s.connections[out[n].conn].pending_events &=
          static_cast<std::uint8_t>(~(1u << static_cast<unsigned>(out[n].kind)));
    }
  }
  return n;
}

bool Core::tx_pending() const {
  const State& s = *state_;
  return s.loop.due != 0 || !s.replies.empty() || !s.nacks.empty() || !s.control.empty() || !s.data.empty();
}

bool Core::idle() const {
  return state_->outstanding == 0 && !tx_pending() && state_->events.empty();
}

const Counters& Core::counters() const {
  return state_->counters;
}
const Config& Core::config() const {
  return state_->config;
}
std::span<const path::Ev> Core::evs(ConnId id) const {
  return state_->connections[id].evs.all();
}
std::uint64_t Core::inflight_packets(ConnId id) const {
  return state_->connections[id].inflight_packets;
}

PoolLevels Core::pool_levels() const {
  const State& s = *state_;
  return {s.messages.available(), s.segments.available(), s.suspects.available(), s.free_connection_count};
}

}  // namespace mrc::transport
