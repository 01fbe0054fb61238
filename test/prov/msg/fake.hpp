// SPDX-License-Identifier: BSD-2-Clause
// A fabric in memory for Messengers: writes are cut into packets that arrive in random order after random delays;
// nodes can fail and restart. Hosts that record completions and hold "registered" memory.
#pragma once

#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "../../../prov/mrc/msg/messenger.hpp"

namespace mrc::test {

namespace msg = mrc::prov::msg;
using prov::EndpointName;
using transport::ConnId;

struct FakeRegion {
  std::uint64_t key;
  std::uint64_t access;
  std::vector<std::byte>* bytes;
  std::size_t split = 0;          ///< resolves as two pieces, the second from here
  std::span<std::byte> memory{};  ///< in place of `bytes`
};

/// What a Host heard, in order.
struct Heard {
  msg::OpKind kind;
  prov::Completion c;
  bool signal, inject, counts;
  int error;
  std::size_t overflow;
  EndpointName from;
};

class FakeHost : public msg::Host {
 public:
  void done(const msg::Done& d) override {
    if (on_done) on_done(d);
    heard.push_back({d.kind, d.completion, d.signal, d.inject, d.counts, d.error, d.overflow,
                     d.peer != nullptr ? d.peer->name : EndpointName{}});
  }
  bool room() const override { return has_room; }
  int resolve(std::uint64_t key, std::uint64_t address, std::size_t length, std::uint64_t access,
              prov::RegionPiece* out, std::size_t* count, prov::Region* region) override;
  std::uint64_t mr_generation() const override { return generation; }
  void close_region(std::uint64_t key);
  /// Takes the first completion of that kind (any if none), or fails the test's expectation by returning false.
  bool take(msg::OpKind kind, Heard& out);

  std::function<void(const msg::Done&)> on_done;  ///< for tests that look at the very moment
  std::deque<Heard> heard;
  std::vector<FakeRegion> regions;
  std::uint64_t generation = 1;
  bool has_room = true;
};

class FakeFabric;

class FakeNode : public msg::Transport {
 public:
  FakeNode(FakeFabric& fabric, EndpointName name, const msg::Config& config, msg::MatchTable* table = nullptr);
  ConnId connect(const EndpointName& peer) override;
  EndpointName peer_name(ConnId conn) const override { return peers_.at(conn).name; }
  std::string why(ConnId) const override { return "fake"; }
  transport::Status post_write(ConnId conn, const transport::WriteRequest& w) override;
  std::uint32_t payload_mtu(ConnId) const override;

  FakeHost host;
  EndpointName name;
  std::unique_ptr<msg::Messenger> messenger;
  bool busy = false;  ///< post_write says kAgain
  std::uint32_t max_writes = 1000000;

 private:
  friend class FakeFabric;
  struct Link {
    EndpointName name;
    std::uint32_t life = 1;
  };
  FakeFabric& fabric_;
  std::vector<Link> peers_;
  std::uint32_t outstanding_ = 0;
  std::deque<transport::Event> events_;
};

class FakeFabric {
 public:
  explicit FakeFabric(std::uint64_t seed, std::uint32_t packet_size = 1024) : random(seed), mtu(packet_size) {}
  FakeNode& add(const msg::Config& config = {}, msg::MatchTable* table = nullptr);
  /// Delivers up to `packets` packets in random order (in order if !shuffle), then progresses everybody.
  void step(unsigned packets = 8);
  /// Until nothing moves.
  void settle();
  bool quiet() const { return packets_.empty() && nothing_to_tell(); }
  /// Both ends of the pair lose what is on the way, and hear about it.
  void fail(FakeNode& a, FakeNode& b, transport::Status status);
  /// A packet of anybody's making.
  transport::Placement inject(FakeNode& to, ConnId conn, std::uint64_t va, std::uint32_t rkey, std::uint32_t length,
                              std::span<const std::byte> payload);

  Random random;
  std::uint32_t mtu;
  bool shuffle = true;
  std::vector<std::unique_ptr<FakeNode>> nodes;

 private:
  friend class FakeNode;
  struct Write {
    FakeNode* from;
    ConnId conn;
    std::uint64_t cookie;
    std::uint32_t left;
    bool refused = false;
  };
  struct Packet {
    std::shared_ptr<Write> write;
    FakeNode* to;
    ConnId conn;
    std::uint64_t va;
    std::uint32_t rkey, message_length;
    std::uint64_t offset;  ///< of the source
    const engine::Gather* source;
    std::uint32_t length;
  };
  FakeNode* find(const EndpointName&);
  bool nothing_to_tell() const;
  void deliver(Packet&);
  std::vector<Packet> packets_;
};

}  // namespace mrc::test
