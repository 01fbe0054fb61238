// SPDX-License-Identifier: BSD-2-Clause
// Which planes carry a connection's data, and how much each: our own links, what the peer says about its ports, what is
// known of lossy ones, and the balance between the planes (plane_balance.hpp, docs/protocol.md "Planes").
#include <algorithm>
#include <bit>

#include "mrc/transport/state.hpp"

namespace mrc::transport {
namespace {

constexpr Duration kRelapseMemory = seconds(1);
constexpr unsigned kMaxDoublings = 2;

template <class Fn>
void each_plane(std::uint32_t mask, Fn&& fn) {
  for (; mask != 0; mask &= mask - 1) fn(static_cast<unsigned>(std::countr_zero(mask)));
}

}  // namespace

/// Where the peer's word leaves nothing, it may be out of date.
std::uint32_t Core::State::planes_there(const Connection& c) const {
  const std::uint32_t up = plane_mask(c.route) & links_up;
  const std::uint32_t both = up & ~std::uint32_t{c.health.peer_down};
  return both != 0 ? both : up;
}

std::uint32_t Core::State::planes_for(const Connection& c) const {
  const std::uint32_t there = planes_there(c);
  const std::uint32_t sound = there & ~(loop.lossy | c.health.peer_lossy | c.health.shunned);
  return sound != 0 ? sound : there;  // a plane that loses packets is better than none
}

/// Losses on it are those of single paths.
bool Core::State::plane_sound(const Connection& c, unsigned plane) const {
  return !((loop.lossy | c.health.peer_lossy | c.health.shunned | c.health.peer_down) >> plane & 1);
}

/// After each received burst.
void Core::State::judge_planes(ConnId id, Tick now) {
  Connection& c = connections[id];
  if (c.phase != Connection::Phase::kOpen || !c.peer_knows_us) return;
  c.balance.set_window(c.cc.window(), c.mtu);
  const std::uint32_t in_use = planes_for(c) & c.evs.usable_planes();
  const std::uint32_t suspected = c.balance.judge(now, c.rtt.srtt(), in_use, c.evs.paths(), config.balance);
  if (suspected != 0) {
    each_plane(suspected, [&](unsigned plane) { shun_plane(id, plane, now); });
  }
}

/// What was held against single EVs of the plane is forgotten: it was the plane.
void Core::State::excuse_plane(Connection& c, unsigned plane) {
  IndexQueue& queue = c.planes[plane].suspects;
  while (!queue.empty()) {
    const std::uint32_t at = queue.head;
    queue.head = suspects[at].next;
    if (queue.head == kNone) queue.tail = kNone;
    suspects.give(at);
    --c.suspects;
  }
  c.evs.pardon(plane);
}

/// What is in flight on a plane that is down goes out again elsewhere, at once. No EV is to blame, and no congestion.
void Core::State::drop_plane(ConnId id, unsigned plane) {
  Connection& c = connections[id];
  while (c.planes[plane].head != kNone) {
    ++c.planes[plane].tally.lost;
    lose(id, c.planes[plane].head);
  }
  excuse_plane(c, plane);
}

void Core::State::shun_plane(ConnId id, unsigned plane, Tick now) {
  Connection& c = connections[id];
  PlaneHealth& h = c.health;
  const auto bit = static_cast<std::uint8_t>(1u << plane);
  ++counters.plane_suspected;
  h.shunned |= bit;
  h.answers[plane] = 0;
  h.silent_paths[plane] = 0;
  if (now - h.back_at > kRelapseMemory) h.relapses[plane] = 0;
  if (h.relapses[plane] < 255) ++h.relapses[plane];
  excuse_plane(c, plane);
  if (h.probe_next == kNever) h.probe_next = now + config.plane_probe_interval;
  tell_ports(id, now);
  check_own_end(c, bit, now);
  schedule(id, now);
}

void Core::State::take_back_plane(ConnId id, unsigned plane, Tick now) {
  Connection& c = connections[id];
  const auto bit = static_cast<std::uint8_t>(1u << plane);
  if (!(c.health.shunned & bit)) return;
  c.health.shunned &= static_cast<std::uint8_t>(~bit);
  c.health.back_at = now;
  excuse_plane(c, plane);
  tell_ports(id, now);
  if (has_data(c)) want_data(id);
}

/// Shunned planes are probed by us, unless one of the two ends knows it to be its own and watches it itself.
void Core::State::plane_probes_due(ConnId id, Tick now) {
  Connection& c = connections[id];
  PlaneHealth& h = c.health;
  expire_probes(c, now);
  h.probe_next = kNever;
  if (h.shunned == 0) return;
  // While there is traffic, and a while longer; or it is found out when there is.
  h.probe_next = now + std::max(config.plane_probe_interval, c.rtt.srtt() / 4);
  if (c.last_activity + seconds(1) < now) {
    h.probe_next = now + milliseconds(100);
    c.last_activity = now - milliseconds(900);
  }
  const std::uint32_t watched = loop.lossy | h.peer_lossy | h.peer_down | ~links_up;
  h.probes_due = static_cast<std::uint8_t>(h.shunned & ~watched & plane_mask(c.route));
  if (h.probes_due != 0) want_control(id, Connection::kSendPlaneProbe);
}

void Core::State::plane_probe_result(ConnId id, unsigned plane, bool answered, Tick now) {
  Connection& c = connections[id];
  PlaneHealth& h = c.health;
  if (!(h.shunned >> plane & 1)) return;
  if (!answered) {
    h.answers[plane] = 0;
    return;
  }
  const unsigned doublings = std::clamp<unsigned>(h.relapses[plane], 1, kMaxDoublings + 1) - 1;
  if (++h.answers[plane] >= config.plane_probe_answers << doublings) take_back_plane(id, plane, now);
}

}  // namespace mrc::transport
