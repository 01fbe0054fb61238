// SPDX-License-Identifier: BSD-2-Clause
// Looking at packets on their way between the cores of pair.hpp, changing them, and making some up.
#pragma once

#include <vector>

#include "mrc/transport/info.hpp"
#include "transport/pair.hpp"

namespace mrc::transport::test {

inline wire::Packet parsed(const Net& net, const std::vector<std::byte>& bytes) {
  wire::Packet p;
  REQUIRE(wire::parse(bytes, net.config.core.wire, p) == wire::ParseError::kNone);
  return p;
}

/// A packet without payload, as bytes.
inline std::vector<std::byte> made(const Net& net, const wire::Packet& p) {
  std::vector<std::byte> bytes(wire::kMaxHeaders);
  bytes.resize(wire::write_headers(p, 0, net.config.core.wire, bytes));
  REQUIRE(!bytes.empty());
  bytes.resize(bytes.size() + wire::kIcrcSize);
  return bytes;
}

/// Writes changed headers over a packet's own.
inline void rewrite(const Net& net, const wire::Packet& p, std::vector<std::byte>& bytes) {
  REQUIRE(wire::write_headers(p, p.payload.size(), net.config.core.wire, bytes) != 0);
}

/// What a switch does to a packet that it trims.
inline void trim(const Net& net, std::vector<std::byte>& bytes, std::uint8_t dscp) {
  bytes.resize(std::min<std::size_t>(bytes.size(), 114));
  const auto traffic_class = static_cast<unsigned>(dscp << 2);
  bytes[0] = static_cast<std::byte>(0x60 | traffic_class >> 4);
  bytes[1] = (bytes[1] & std::byte{0x0f}) | static_cast<std::byte>(traffic_class << 4);
  (void)net;
}

/// As if it had been lost: nobody can make anything of it.
inline void lose(std::vector<std::byte>& bytes) {
  bytes.resize(8);
}

/// The answer of a receiver that NACKs `data`; `sack` is a packet of the same direction, for its addresses and QPN.
inline std::vector<std::byte> nack_of(const Net& net, const wire::Packet& data, const wire::Packet& sack,
                                      wire::NackReason reason) {
  wire::Packet p = sack;
  p.payload = {};
  p.bth = wire::Bth{};
  p.bth.opcode = wire::Opcode::kNack;
  p.bth.dest_qpn = sack.bth.dest_qpn;
  p.neth = wire::Neth{};
  p.neth.reason = reason;
  p.neth.ev = data.ev;
  p.neth.nack_psn = data.bth.psn;
  return made(net, p);
}

/// A connection from node 0 to 1 that is set up and quiet, its MTU known.
inline void settle(Net& net) {
  REQUIRE(net.write(0, 1, 100) == Status::kOk);
  REQUIRE(net.run_all(seconds(1)));
  net.quiesce();
}

/// Posts a write with more than Net::write() lets choose; Net::check() covers it too.
inline Status post(Net& net, std::uint32_t length, const std::function<void(WriteRequest&)>& change) {
  Node& to = *net.nodes[1];
  REQUIRE(to.next_target + length <= to.target.size());
  WriteRequest r;
  r.va = to.next_target;
  r.rkey = 1;
  r.length = length;
  r.source = net.nodes[0]->source.data();
  r.cookie = net.writes.size();
  change(r);
  const Status status = net.core(0).post_write(net.conn(0, 1), r, net.now);
  if (status == Status::kOk) {
    net.writes.push_back({0, 1, r.cookie, r.va, 0, length});
    to.next_target += length;
  }
  return status;
}
inline Status write_imm(Net& net, std::uint32_t length, std::uint32_t imm) {
  return post(net, length, [&](WriteRequest& r) {
    r.has_imm = true;
    r.imm = imm;
  });
}
inline Status write_semantic(Net& net, std::uint32_t length, std::uint32_t rkey = 1) {
  return post(net, length, [&](WriteRequest& r) {
    r.semantic = true;
    r.rkey = rkey;
  });
}
inline std::vector<std::uint32_t> immediates(const Net& net, unsigned node) {
  std::vector<std::uint32_t> out;
  for (const Event& e : net.nodes[node]->events) {
    if (e.kind == EventKind::kImmediate) out.push_back(e.imm);
  }
  return out;
}

}  // namespace mrc::transport::test
