// SPDX-License-Identifier: BSD-2-Clause
// Finding endpoints by inner address and connections by (endpoint, remote address) or QPN.
#include <cstring>

#include "mrc/transport/state.hpp"

namespace mrc::transport {
namespace {

constexpr std::size_t kPrefixBytes = 12;  // fabric | T0 | IPv4: what a node owns

std::uint64_t mix(std::uint64_t h, std::uint64_t key) {
  h ^= h >> 32;
  h *= key;
  h ^= h >> 29;
  h *= 0x94d049bb133111ebu;
  return h ^ (h >> 32);
}

std::uint64_t hash(const wire::Ipv6Address& a, std::uint64_t key) {
  std::uint64_t high, low;
  std::memcpy(&high, a.bytes.data(), 8);
  std::memcpy(&low, a.bytes.data() + 8, 8);
  return mix(mix(high, key) ^ low, key);
}

}  // namespace

std::uint32_t Core::State::endpoint_bucket(const wire::Ipv6Address& inner) const {
  return static_cast<std::uint32_t>(hash(inner, hash_key) & (endpoint_buckets.size() - 1));
}

std::uint32_t Core::State::connection_bucket(EpId ep, const wire::Ipv6Address& remote) const {
  return static_cast<std::uint32_t>((hash(remote, hash_key) + ep * 0x9e3779b9u) & (connection_buckets.size() - 1));
}

EpId Core::State::find_endpoint(const wire::Ipv6Address& inner) const {
  for (EpId id = endpoint_buckets[endpoint_bucket(inner)]; id != kNone; id = endpoints[id].hash_next) {
    if (endpoints[id].inner == inner) return id;
  }
  return kNoId;
}

EpId Core::State::find_sibling(const wire::Ipv6Address& inner) const {
  for (EpId id = 0; id < endpoints.size(); ++id) {
    const Endpoint& e = endpoints[id];
    if (e.used && std::memcmp(e.inner.bytes.data(), inner.bytes.data(), kPrefixBytes) == 0) return id;
  }
  return kNoId;
}

ConnId Core::State::find_connection(EpId ep, const wire::Ipv6Address& remote) const {
  for (ConnId id = connection_buckets[connection_bucket(ep, remote)]; id != kNone; id = connections[id].hash_next) {
    if (connections[id].ep == ep && connections[id].remote == remote) return id;
  }
  return kNoId;
}

ConnId Core::State::find_qpn(std::uint32_t qpn) const {
  const std::uint32_t id = qpn & ((1u << index_bits) - 1);
  if (id >= connections.size() || connections[id].qpn != qpn || qpn == 0) return kNoId;
  return id;
}

ConnId Core::State::make_connection(EpId ep, const wire::Ipv6Address& remote) {
  if (free_connection_count == 0) return kNoId;
  const ConnId id = free_connections[--free_connection_count];
  Connection& c = connections[id];
  c.remote = remote;
  c.ep = ep;
  c.phase = Connection::Phase::kIdle;
  c.self = endpoints[ep].inner == remote;
  const std::uint32_t bucket = connection_bucket(ep, remote);
  c.hash_next = connection_buckets[bucket];
  connection_buckets[bucket] = id;
  Endpoint& e = endpoints[ep];
  c.ep_previous = kNone;
  c.ep_next = e.first_connection;
  if (e.first_connection != kNone) connections[e.first_connection].ep_previous = id;
  e.first_connection = id;
  return id;
}

void Core::State::free_connection(ConnId id) {
  Connection& c = connections[id];
  std::uint32_t* at = &connection_buckets[connection_bucket(c.ep, c.remote)];
  while (*at != id) at = &connections[*at].hash_next;
  *at = c.hash_next;
  if (c.ep_next != kNone) connections[c.ep_next].ep_previous = c.ep_previous;
  (c.ep_previous != kNone ? connections[c.ep_previous].ep_next : endpoints[c.ep].first_connection) = c.ep_next;
  timers.set(id, kNever);
  drop_ordered(c);
  // Lists that it may be on stay intact: it is skipped when its turn comes. Windows keep their memory.
  Connection blank{};
  blank.remote = c.remote;
  blank.ep = c.ep;
  blank.pending_events = c.pending_events;
  blank.planes = c.planes;
  blank.tx = c.tx;
  blank.rx = c.rx;
  blank.touched = c.touched;
  blank.in_control = c.in_control;
  blank.in_data = c.in_data;
  blank.in_starved = c.in_starved;
  blank.next_control = c.next_control;
  blank.next_data = c.next_data;
  blank.next_touched = c.next_touched;
  blank.next_starved = c.next_starved;
  c = blank;
  free_connections[free_connection_count++] = id;
}

}  // namespace mrc::transport
