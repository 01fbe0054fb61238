// SPDX-License-Identifier: BSD-2-Clause
// Lives of processes and endpoints, and which errors they excuse.
#include "members.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace mrc::faults {
namespace {

constexpr std::uint16_t kPort = 100;

const char* name(transport::EventKind kind) {
  constexpr const char* kNames[] = {"write done",        "connected",         "accepted",
                                    "connection failed", "connection closed", "immediate data"};
  const auto i = static_cast<std::size_t>(kind);
  return i < std::size(kNames) ? kNames[i] : "event";
}

}  // namespace

class Members::Upper : public transport::Upper {
 public:
  Upper(fabric::Sim& sim, Ledger& ledger, unsigned node, std::uint32_t epoch)
      : sim_(sim), ledger_(ledger), node_(node), epoch_(epoch) {}
  transport::Placement place(const transport::RxWrite& write) override { return ledger_.place(write, node_, epoch_); }
  transport::Status route(const wire::Ipv6Address& remote, path::Route& out) override {
    return sim_.route(node_, remote, out);
  }

 private:
  fabric::Sim& sim_;
  Ledger& ledger_;
  unsigned node_;
  std::uint32_t epoch_;
};

struct Members::Member {
  transport::EpId ep = transport::kNoId;
  transport::PoolLevels initial{};
  std::uint32_t epoch = 0;  ///< counts its endpoint's lives
  bool closing = false, dead = false;
  bool left = false;  ///< at least one of its lives has ended
  Tick back_at{};     ///< when its present life began
  std::deque<Entry*> backlog;
  std::vector<std::uint32_t> met;  ///< per peer: its life that this node was last connected with; 0: none
  std::vector<bool> met_former;    ///< … and whether that was so with the life before the present one
  std::vector<Tick> learnt;  ///< per peer: when this node was told of the end of the peer's former life, or kNever
};

Members::Members(fabric::Sim& sim, Ledger& ledger, const Plan&, bool trace)
    : sim_(sim), ledger_(ledger), trace_(trace) {
  for (unsigned i = 0; i < sim_.nodes(); ++i) {
    members_.push_back(std::make_unique<Member>());
    members_[i]->learnt.assign(sim_.nodes(), kNever);
    members_[i]->met.assign(sim_.nodes(), 0);
    members_[i]->met_former.assign(sim_.nodes(), false);
  }
}

Members::~Members() = default;

void Members::start() {
  for (unsigned i = 0; i < sim_.nodes(); ++i) {
    members_[i]->initial = sim_.core(i).pool_levels();
    open(i);
  }
}

void Members::open(unsigned node) {
  Member& m = *members_[node];
  for (auto& other : members_) {
    other->met_former[node] = m.epoch != 0 && other->met[node] == m.epoch;
    other->met[node] = 0;
  }
  ++m.epoch;
  m.met.assign(sim_.nodes(), 0);
  m.met_former.assign(sim_.nodes(), false);
  m.closing = false;
  m.back_at = sim_.now();
  uppers_.push_back(std::make_unique<Upper>(sim_, ledger_, node, m.epoch));
  m.ep = sim_.add_endpoint(node, kPort, uppers_.back().get());
  if (m.ep == transport::kNoId) ledger_.violate("an endpoint cannot be opened", fmt::format("node {}", node));
}

/// The node's present life ends, as its peers see it.
void Members::leave(unsigned node) {
  members_[node]->left = true;
  for (auto& m : members_) m->learnt[node] = kNever;
}

/// Nobody waits for what this node has posted.
void Members::abandon(unsigned node) {
  for (Entry* entry : members_[node]->backlog) ledger_.give_up(*entry);
  members_[node]->backlog.clear();
  for (Entry& entry : ledger_.entries()) {
    if (entry.op.from == node && entry.state == OpState::kPosted) ledger_.give_up(entry);
  }
}

void Members::post(Entry& entry) {
  Member& m = *members_[entry.op.from];
  if (entry.state != OpState::kWaiting) return;
  if (m.dead) return ledger_.give_up(entry);
  m.backlog.push_back(&entry);
  post_backlog(entry.op.from);
}

void Members::post_backlog(unsigned node) {
  Member& m = *members_[node];
  if (sim_.node_state(node) != fabric::NodeState::kRunning) return;
  while (!m.backlog.empty() && attempt(*m.backlog.front())) m.backlog.pop_front();
}

bool Members::attempt(Entry& entry) {
  Member& m = *members_[entry.op.from];
  if (m.closing) {
    ledger_.give_up(entry);
    return true;
  }
  transport::Core& core = sim_.core(entry.op.from);
  const auto conn = core.connect(m.ep, sim_.address(entry.op.to, kPort));
  if (conn == transport::kNoId) return false;
  const auto status = core.post_write(conn, ledger_.request(entry), sim_.now());
  if (status == transport::Status::kAgain) return false;
  if (status != transport::Status::kOk) {
    ledger_.violate("a write was not accepted",
                    fmt::format("operation {}, status {}", entry.index, static_cast<int>(status)));
  }
  ledger_.posted(entry, sim_.now(), m.epoch);
  if (trace_)
    fmt::print("{:>12} node {} posts {}: {}\n", sim_.now().ns, entry.op.from, entry.index, to_string(entry.op));
  return true;
}

bool Members::gone(unsigned node) const {
  return members_[node]->dead || members_[node]->closing;
}

/// A set-up packet of a former life of `a` that arrives when its next life is connected already: `b`, which never knew
/// the former one, must take it for a newer one. Lives that follow one another faster than packets die are not the
/// transport's business.
bool Members::ghost(unsigned a, unsigned b, transport::Status status) const {
  const auto may_be = [&](unsigned restarted, unsigned peer) {
    const Member& m = *members_[restarted];
    return m.left && !members_[peer]->met_former[restarted] && sim_.now() - m.back_at < milliseconds(500);
  };
  return status == transport::Status::kPeerRestarted && (may_be(a, b) || may_be(b, a));
}

/// An error may come of a peer that has ended a life after (or before, if this was the first to show it) the write.
bool Members::pardoned(const Entry& entry, transport::Status status) const {
  const Member& from = *members_[entry.op.from];
  const Member& to = *members_[entry.op.to];
  if (status == transport::Status::kClosed) return from.closing;
  if (from.closing && entry.op.from == entry.op.to) return true;
  if (status != transport::Status::kPeerDead && status != transport::Status::kPeerRestarted &&
      status != transport::Status::kTimedOut) {
    return false;
  }
  if (ghost(entry.op.from, entry.op.to, status)) return true;
  if (!to.left) return false;
  return gone(entry.op.to) || entry.posted <= from.learnt[entry.op.to];
}

void Members::on_event(unsigned node, const transport::Event& event) {
  Member& m = *members_[node];
  if (trace_) {
    fmt::print("{:>12} node {} {}: status {}, connection {}, cookie {}\n", sim_.now().ns, node, name(event.kind),
               static_cast<int>(event.status), event.conn, event.cookie);
  }
  if (event.kind == transport::EventKind::kWriteDone) {
    Entry* entry = ledger_.find(event.cookie);
    if (entry == nullptr) return;
    ledger_.done(node, entry->from_epoch, event, sim_.now(), pardoned(*entry, event.status));
    const unsigned to = entry->op.to;
    const bool new_life = entry->posted > members_[to]->back_at && !gone(to);
    if (event.status == transport::Status::kOk && new_life && m.learnt[to] == kNever) m.learnt[to] = sim_.now();
    return;
  }
  const auto who = sim_.node_of(sim_.core(node).remote(event.conn));
  if (who && event.kind == transport::EventKind::kImmediate) return ledger_.immediate(node, *who, m.epoch, event);
  if (who && event.kind == transport::EventKind::kConnected) {
    m.met[*who] = members_[*who]->epoch;
  }
  if (event.kind != transport::EventKind::kConnFailed && event.kind != transport::EventKind::kConnClosed) return;
  if (!who || gone(*who)) return;
  if (m.learnt[*who] == kNever) m.learnt[*who] = sim_.now();
}

bool Members::pause(unsigned node) {
  if (sim_.node_state(node) != fabric::NodeState::kRunning) return false;
  sim_.set_node(node, fabric::NodeState::kPaused);
  return true;
}

bool Members::resume(unsigned node) {
  if (sim_.node_state(node) != fabric::NodeState::kPaused) return false;
  sim_.set_node(node, fabric::NodeState::kRunning);
  return true;
}

bool Members::restart(unsigned node) {
  if (members_[node]->dead) return false;
  abandon(node);
  sim_.restart(node);
  leave(node);
  open(node);
  return true;
}

bool Members::die(unsigned node) {
  if (members_[node]->dead) return false;
  abandon(node);
  for (Entry& entry : ledger_.entries()) {
    if (entry.op.from == node && entry.state == OpState::kWaiting) ledger_.give_up(entry);
  }
  sim_.set_node(node, fabric::NodeState::kDead);
  leave(node);
  members_[node]->dead = true;
  return true;
}

bool Members::close(unsigned node) {
  Member& m = *members_[node];
  if (m.dead || m.closing || sim_.node_state(node) != fabric::NodeState::kRunning) return false;
  m.closing = true;
  leave(node);
  sim_.core(node).close_endpoint(m.ep, sim_.now());
  return true;
}

bool Members::reopen(unsigned node) {
  Member& m = *members_[node];
  if (m.dead || !m.closing || sim_.node_state(node) != fabric::NodeState::kRunning) return false;
  abandon(node);
  sim_.core(node).forget_endpoint(m.ep, sim_.now());
  leave(node);
  open(node);
  return true;
}

void Members::deny(unsigned node, const Fault* fault) {
  if (members_[node]->dead) return;
  path::DenyRule rule;
  if (fault != nullptr && fault->where == Fault::Where::kPlane) rule.plane = fault->plane;
  if (fault != nullptr && fault->where == Fault::Where::kSwitch) {
    rule.t1 = static_cast<std::int16_t>(fault->at_switch.index);
  }
  const std::span<const path::DenyRule> rules(&rule, fault == nullptr ? 0 : 1);
  if (!sim_.core(node).set_denylist(rules, sim_.now())) {
    ledger_.violate("a denylist is not accepted", fmt::format("node {}", node));
  }
}

void Members::check_pools(bool everything) {
  for (unsigned i = 0; i < sim_.nodes(); ++i) {
    if (members_[i]->dead) continue;
    auto now = sim_.core(i).pool_levels();
    auto then = members_[i]->initial;
    if (!everything) {  // who is blamed is remembered, connections stay
      now.suspects = then.suspects = 0;
      now.connections = then.connections = 0;
    }
    if (now == then) continue;
    ledger_.violate(everything ? "pools do not return to their level after all endpoints closed"
                               : "pools do not return to their level although nothing is outstanding",
                    fmt::format("node {}: messages {}/{}, segments {}/{}, suspects {}/{}, connections {}/{}", i,
                                now.messages, then.messages, now.segments, then.segments, now.suspects, then.suspects,
                                now.connections, then.connections));
  }
}

void Members::close_all() {
  for (unsigned i = 0; i < sim_.nodes(); ++i) {
    Member& m = *members_[i];
    if (m.dead || m.closing) continue;
    m.closing = true;
    sim_.core(i).close_endpoint(m.ep, sim_.now());
  }
}

bool Members::all_closed() const {
  for (unsigned i = 0; i < sim_.nodes(); ++i) {
    if (!members_[i]->dead && !sim_.core(i).closed(members_[i]->ep)) return false;
  }
  return true;
}

void Members::forget_all() {
  for (unsigned i = 0; i < sim_.nodes(); ++i) {
    if (!members_[i]->dead) sim_.core(i).forget_endpoint(members_[i]->ep, sim_.now());
  }
}

}  // namespace mrc::faults
