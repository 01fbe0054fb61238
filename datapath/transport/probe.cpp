// SPDX-License-Identifier: BSD-2-Clause
// Probes of paths: the largest packet that every plane carries, and whether an ASSUMED_BAD EV works again. Both are
// ENDPOINT_REQUESTs of op EV probe, the former padded to the size in question.
#include <algorithm>
#include <bit>

#include "mrc/transport/state.hpp"

namespace mrc::transport {
namespace {

constexpr std::uint8_t kTries = 3;
constexpr Duration kProbeTimeoutMin = milliseconds(10);
// A size may have gone unanswered because queues were full: it is tried again, ever more seldom.
constexpr Duration kRetryMin = milliseconds(100);
constexpr std::uint8_t kRetryDoublings = 10;
constexpr Duration kPlaneProbeLost = milliseconds(2);

}  // namespace

/// Sizes to try: the full one, then 8192, 4096, 2048, 1024 as far as they are smaller. 0 past the last.
std::uint32_t Core::State::mtu_size(const Connection& c, unsigned step) const {
  if (step == 1) return c.full_mtu;
  unsigned n = 1;
  for (const std::uint32_t size : {8192u, 4096u, 2048u, 1024u}) {
    if (size < c.full_mtu && ++n == step) return size;
  }
  return 0;
}

void Core::State::start_mtu_probes(ConnId id, Tick now) {
  Connection& c = connections[id];
  c.mtu_steps = {};
  if (c.full_mtu <= kBaseMtu) return;
  c.mtu_step = 1;
  c.mtu_tries = 0;
  mtu_probe_due(id, now);
}

PathProbe& Core::State::new_probe(Connection& c, Tick now) {
  PathProbe& probe = c.probes[c.probe_next++ % c.probes.size()];
  if (probe.live && probe.step == 0) c.evs.on_probe_lost(probe.ev);
  if (probe.live && probe.step == kPlaneProbe) plane_probe_lost(c, probe);
  probe = PathProbe{};
  probe.sent = now;
  probe.id = c.probe_id++;
  probe.live = true;
  return probe;
}

/// One dead path must not keep the whole plane out: those on which the last probe was lost are passed over, until all
/// of them are.
std::uint32_t Core::State::draw_plane_probe(Connection& c, PathProbe& probe) {
  constexpr int kDraws = 16;
  std::uint32_t ev = 0;
  for (int i = 0; i < kDraws; ++i) {
    ev = c.evs.draw(probe.plane, random);
    probe.ev = c.evs.find(ev).value_or(0);
    if (!(c.health.silent_paths[probe.plane] >> c.evs.path_bit(probe.ev) & 1)) break;
  }
  return ev;
}

void Core::State::plane_probe_lost(Connection& c, const PathProbe& probe) {
  std::uint32_t& silent = c.health.silent_paths[probe.plane];
  silent |= 1u << c.evs.path_bit(probe.ev);
  if (static_cast<unsigned>(std::popcount(silent)) >= c.evs.paths()) silent = 0;
  c.health.answers[probe.plane] = 0;
}

void Core::State::expire_probes(Connection& c, Tick now) {
  for (PathProbe& probe : c.probes) {
    if (probe.live && probe.step == kPlaneProbe && now - probe.sent >= std::max(kPlaneProbeLost, c.rtt.srtt() * 4)) {
      probe.live = false;
      plane_probe_lost(c, probe);
    }
    if (!probe.live || probe.step != 0 || now - probe.sent < std::max(kProbeTimeoutMin, rto(c))) continue;
    probe.live = false;
    c.evs.on_probe_lost(probe.ev);
  }
}

/// A round of MTU probes, one a plane that has not confirmed this size; after some tries the next smaller size.
void Core::State::mtu_probe_due(ConnId id, Tick now) {
  Connection& c = connections[id];
  if (c.mtu_step == 0) {
    c.mtu_next = kNever;
    if (c.mtu >= c.full_mtu) return;
    c.mtu_steps = {};
    c.mtu_step = 1;
    c.mtu_tries = 0;
  }
  if (c.mtu_tries++ >= kTries) {
    c.mtu_tries = 1;
    ++c.mtu_step;
  }
  if (mtu_size(c, c.mtu_step) == 0) {
    // All sizes were tried. A plane that answered none of them is dead, not narrow: the others decide.
    unsigned step = 0;
    for (unsigned p = 0; p < c.route.planes; ++p) step = std::max<unsigned>(step, c.mtu_steps[p]);
    return mtu_found(c, step == 0 ? 0 : mtu_size(c, step), now);
  }
  c.mtu_next = now + std::max(kProbeTimeoutMin, rto(c));
  c.mtu_planes = 0;
  for (unsigned p = 0; p < c.route.planes; ++p) {
    if (c.mtu_steps[p] == 0) c.mtu_planes |= static_cast<std::uint8_t>(1u << p);
  }
  want_control(id, Connection::kSendMtuProbe);
}

/// What was confirmed once stays: later rounds can only find more.
void Core::State::mtu_found(Connection& c, std::uint32_t mtu, Tick now) {
  set_mtu(c, std::max(mtu, c.mtu));
  c.mtu_step = 0;
  c.mtu_next = kNever;
  if (c.mtu >= c.full_mtu) return;
  c.mtu_next = now + kRetryMin * (std::int64_t{1} << c.mtu_retries);
  c.mtu_retries = static_cast<std::uint8_t>(std::min<unsigned>(c.mtu_retries + 1u, kRetryDoublings));
}

void Core::State::set_mtu(Connection& c, std::uint32_t mtu) {
  if (mtu == 0 || mtu == c.mtu) return;
  c.mtu = mtu;
  c.cc.set_link(cc_link(c));
}

void Core::State::on_path_probe_answer(ConnId id, const wire::Packet& p, Tick now) {
  Connection& c = connections[id];
  for (PathProbe& probe : c.probes) {
    if (!probe.live || probe.id != (p.eeth.request_psn & 0xffff) || p.eeth.source_qpn != c.qpn) continue;
    probe.live = false;
    heard(c, probe.plane);
    touch(id);  // whatever it tells: the window may be larger now
    if (probe.step == kBaseProbe) return signal_base(c, now - probe.sent, probe.sent);
    if (probe.step == kPlaneProbe) return plane_probe_result(id, probe.plane, true, now);
    if (probe.step == 0) {
      const auto index = c.evs.find(p.eeth.echoed_ev);
      if (!index || *index != probe.ev) return;
      const unsigned bad = c.evs.bad();
      c.evs.on_probe_answer(probe.ev);
      counters.ev_restored += bad - c.evs.bad();
      return;
    }
    std::uint8_t& confirmed = c.mtu_steps[probe.plane];
    if (confirmed == 0 || probe.step < confirmed) confirmed = probe.step;
    if (c.mtu_step == 0) return;
    unsigned worst = 0;
    for (unsigned i = 0; i < c.route.planes; ++i) {
      if (c.mtu_steps[i] == 0 && ((links_up & ~c.denied_planes) >> i & 1) != 0) return;
      worst = std::max<unsigned>(worst, c.mtu_steps[i]);
    }
    mtu_found(c, mtu_size(c, worst), now);
    schedule(id, now);
    return;
  }
}

}  // namespace mrc::transport
