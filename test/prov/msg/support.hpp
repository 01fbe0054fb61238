// SPDX-License-Identifier: BSD-2-Clause
// Short forms for the messaging tests.
#pragma once

#include <rdma/fi_domain.h>
#include <rdma/fi_errno.h>

#include "../../../prov/mrc/msg/order.hpp"
#include "fake.hpp"

namespace mrc::test {

using Bytes = std::vector<std::byte>;

inline Bytes pattern(std::size_t size, std::uint64_t seed) {
  Bytes b(size);
  Random random(seed);
  for (auto& x : b) x = static_cast<std::byte>(random.next());
  return b;
}

inline void* context(std::uintptr_t n) {
  return reinterpret_cast<void*>(n);
}

struct Options {
  bool ack = false, inject = false, has_data = false, signal = true;
  std::uint64_t data = 0;
  bool fence = false, more = false;
  std::uint64_t order = 0;  ///< FI_ORDER_…
};

inline int send(FakeNode& from, FakeNode& to, const Bytes& b, std::uint64_t tag, std::uintptr_t ctx, Options o = {}) {
  const engine::GatherPiece piece{b.data(), b.size()};
  msg::Transmit t;
  t.peer = from.messenger->peer(to.name);
  t.tagged = true;
  t.pieces = {&piece, 1};
  t.tag = tag;
  t.context = context(ctx);
  t.want_ack = o.ack;
  t.inject = o.inject;
  t.has_data = o.has_data;
  t.data = o.data;
  t.signal = o.signal;
  t.fence = o.fence;
  t.more = o.more;
  msg::Order(o.order).apply(t);
  return from.messenger->transmit(t);
}

inline msg::Receive receive_of(const engine::GatherPiece& piece, std::uint64_t tag, std::uint64_t ignore, void* ctx,
                               const EndpointName* from = nullptr) {
  msg::Receive r;
  r.tagged = true;
  r.pieces = {&piece, 1};
  r.tag = tag;
  r.ignore = ignore;
  r.context = ctx;
  r.from = from;
  return r;
}

inline int recv(FakeNode& at, Bytes& b, std::uint64_t tag, std::uintptr_t ctx, std::uint64_t ignore = 0,
                const FakeNode* from = nullptr) {
  const engine::GatherPiece piece{b.data(), b.size()};
  return at.messenger->receive(receive_of(piece, tag, ignore, context(ctx), from != nullptr ? &from->name : nullptr));
}

inline int rma(FakeNode& from, FakeNode& to, msg::OpKind kind, Bytes& b, std::uint64_t key, std::uint64_t address,
               std::uintptr_t ctx, Options o = {}) {
  const engine::GatherPiece piece{b.data(), b.size()};
  const msg::Segment segment{key, address, b.size()};
  msg::Transmit t;
  t.kind = kind;
  t.peer = from.messenger->peer(to.name);
  t.pieces = {&piece, 1};
  t.segments = {&segment, 1};
  t.context = context(ctx);
  t.has_data = o.has_data;
  t.data = o.data;
  t.inject = o.inject;
  t.fence = o.fence;
  t.more = o.more;
  msg::Order(o.order).apply(t);
  return from.messenger->transmit(t);
}

}  // namespace mrc::test
