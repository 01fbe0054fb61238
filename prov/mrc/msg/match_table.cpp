// SPDX-License-Identifier: BSD-2-Clause
// MatchTable's structure: shapes, hashes and order. What happens when the two meet is in receive.cpp and matching.cpp.
#include "match_table.hpp"

#include <algorithm>

namespace mrc::prov::msg {
namespace {

bool matches(const RxOp& op, const EndpointName& from, std::uint64_t tag) {
  if (op.directed && !(op.from == from)) return false;
  return !op.tagged || ((op.tag ^ tag) & ~op.ignore) == 0;
}

bool matches(const Receive& r, const Message& m) {
  if (r.from != nullptr && !(m.from == *r.from)) return false;
  return !r.tagged || ((m.tag ^ r.tag) & ~r.ignore) == 0;
}

}  // namespace

MatchTable::MatchTable(const Limits& limits, Listener& own, std::uint64_t seed, Report report)
    : limits_(limits),
      own_(own),
      report_(report),
      seed_(seed),
      receives_(limits.receives),
      unexpected_(limits.unexpected) {
  receives_.fill();
}

MatchTable::~MatchTable() = default;

RxOp* MatchTable::take() {
  RxOp* op = receives_.take();
  if (op != nullptr) op->table = this;
  return op;
}

/// Peers choose tags: with a seed they do not know they cannot choose collisions.
std::uint32_t MatchTable::hash(bool directed, const EndpointName& from, std::uint64_t masked_tag) const {
  std::uint64_t x = masked_tag ^ seed_;
  if (directed) x += (std::uint64_t{from.ipv4} << 16 | from.port) * 0x9E3779B97F4A7C15u;
  x = (x ^ x >> 32) * 0xD6E8FEB86659FD93u;
  x = (x ^ x >> 32) * 0xD6E8FEB86659FD93u;
  return static_cast<std::uint32_t>(x ^ x >> 32);
}

void MatchTable::index(Shape& shape, std::uint8_t number, Unexpected& u) {
  auto& entry = u.shaped[number];
  entry.self = &u;
  entry.hash = hash(shape.directed, u.from, u.tagged ? u.tag & ~shape.ignore : 0);
  shape.waiting.add(entry);
}

std::uint8_t MatchTable::shape_of(Side& side, bool directed, std::uint64_t ignore) {
  std::uint8_t place = kNone;
  for (std::uint8_t i = 0; i < kShapes; ++i) {
    Shape& shape = side.shapes[i];
    if (!shape.used) {
      if (place == kNone || side.shapes[place].used) place = i;
      continue;
    }
    if (shape.directed == directed && shape.ignore == ignore) {
      shape.last_use = clock_;
      return i;
    }
    if (place == kNone && shape.posted.empty() && clock_ - shape.last_use > kStale) place = i;
  }
  if (place == kNone) return kNone;
  Shape& shape = side.shapes[place];
  shape.waiting.clear();
  shape.used = true;
  shape.directed = directed;
  shape.ignore = ignore;
  shape.last_use = clock_;
  for (auto& u : side.arrived) index(shape, place, u);
  return place;
}

void MatchTable::post(RxOp& op) {
  Side& side = sides_[op.tagged];
  op.order = ++clock_;
  op.shape = shape_of(side, op.directed, op.tagged ? op.ignore : 0);
  if (op.shape == kNone) {
    side.others.push_back(op);
    return;
  }
  op.hash = hash(op.directed, op.from, op.tagged ? op.tag & ~op.ignore : 0);
  side.shapes[op.shape].posted.add(op);
}

void MatchTable::unpost(RxOp& op) {
  op.hungry.unlink();
  if (!op.posted.is_linked()) return;
  if (op.shape == kNone)
    op.posted.unlink();
  else
    sides_[op.tagged].shapes[op.shape].posted.remove(op);
}

RxOp* MatchTable::find(bool tagged, const EndpointName& from, std::uint64_t tag) {
  Side& side = sides_[tagged];
  RxOp* best = nullptr;
  for (auto& shape : side.shapes) {
    if (shape.posted.empty()) continue;
    const auto wanted = hash(shape.directed, from, tagged ? tag & ~shape.ignore : 0);
    for (auto& op : shape.posted.of(wanted)) {
      if (best != nullptr && op.order > best->order) break;
      if (op.hash != wanted || !matches(op, from, tag)) continue;
      best = &op;
      break;
    }
  }
  for (auto& op : side.others) {
    if (best != nullptr && op.order > best->order) break;
    if (matches(op, from, tag)) return &op;
  }
  return best;
}

void MatchTable::add(Unexpected& u) {
  Side& side = sides_[u.tagged];
  side.arrived.push_back(u);
  for (std::uint8_t i = 0; i < kShapes; ++i)
    if (side.shapes[i].used) index(side.shapes[i], i, u);
}

Unexpected* MatchTable::find(const Receive& r) {
  Side& side = sides_[r.tagged];
  if (side.arrived.empty()) return nullptr;
  ++clock_;
  const std::uint64_t ignore = r.tagged ? r.ignore : 0;
  const auto number = shape_of(side, r.from != nullptr, ignore);
  if (number == kNone) {
    const auto found = std::find_if(side.arrived.begin(), side.arrived.end(), [&](auto& u) { return matches(r, u); });
    return found == side.arrived.end() ? nullptr : &*found;
  }
  const auto wanted =
      hash(r.from != nullptr, r.from != nullptr ? *r.from : EndpointName{}, r.tagged ? r.tag & ~ignore : 0);
  for (auto& entry : side.shapes[number].waiting.of(wanted))
    if (entry.hash == wanted && matches(r, *entry.self)) return entry.self;
  return nullptr;
}

void MatchTable::remove(Unexpected& u) {
  u.link.unlink();
  Side& side = sides_[u.tagged];
  for (std::uint8_t i = 0; i < kShapes; ++i)
    if (u.shaped[i].hook.is_linked()) side.shapes[i].waiting.remove(u.shaped[i]);
}

}  // namespace mrc::prov::msg
