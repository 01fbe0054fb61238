// SPDX-License-Identifier: BSD-2-Clause
// The in-memory fabric: payload is read from the source when a packet is delivered, as the engine does, so that a
// buffer given back too early shows as wrong bytes (or under ASan).
#include "fake.hpp"

#include <rdma/fi_errno.h>

namespace mrc::test {

int FakeHost::resolve(std::uint64_t key, std::uint64_t address, std::size_t length, std::uint64_t access,
                      prov::RegionPiece* out, std::size_t* count, prov::Region* region) {
  for (auto& r : regions) {
    if (r.key != key) continue;
    if ((r.access & access) != access) return -FI_EACCES;
    const std::span<std::byte> all = r.bytes != nullptr ? std::span(*r.bytes) : r.memory;
    if (length > all.size() || address > all.size() - length) return -FI_EINVAL;
    out[0] = {all.data() + address, length};
    *count = 1;
    if (address < r.split && address + length > r.split) {
      out[0].length = r.split - address;
      out[1] = {r.bytes->data() + r.split, length - out[0].length};
      *count = 2;
    }
    *region = {key, r.access, nullptr};
    return 0;
  }
  return -FI_EKEYREJECTED;
}

void FakeHost::close_region(std::uint64_t key) {
  std::erase_if(regions, [key](const FakeRegion& r) { return r.key == key; });
  ++generation;
}

bool FakeHost::take(msg::OpKind kind, Heard& out) {
  for (auto it = heard.begin(); it != heard.end(); ++it) {
    if (it->kind != kind) continue;
    out = *it;
    heard.erase(it);
    return true;
  }
  return false;
}

FakeNode::FakeNode(FakeFabric& fabric, EndpointName own, const msg::Config& config, msg::MatchTable* table)
    : name(own), fabric_(fabric) {
  messenger = std::make_unique<msg::Messenger>(config, *this, host, table);
}

ConnId FakeNode::connect(const EndpointName& peer) {
  for (ConnId i = 0; i < peers_.size(); ++i)
    if (peers_[i].name == peer) return i;
  peers_.push_back({peer, 1});
  return static_cast<ConnId>(peers_.size() - 1);
}

std::uint32_t FakeNode::payload_mtu(ConnId) const {
  return fabric_.mtu;
}

transport::Status FakeNode::post_write(ConnId conn, const transport::WriteRequest& w) {
  if (busy || outstanding_ >= max_writes) return transport::Status::kAgain;
  FakeNode* to = fabric_.find(peers_.at(conn).name);
  if (to == nullptr) return transport::Status::kNoRoute;
  auto write = std::make_shared<FakeFabric::Write>(FakeFabric::Write{this, conn, w.cookie, 0});
  const ConnId back = to->connect(name);
  const std::uint32_t count = w.length == 0 ? 1 : (w.length + fabric_.mtu - 1) / fabric_.mtu;
  write->left = count;
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint32_t at = i * fabric_.mtu;
    fabric_.packets_.push_back({write, to, back, w.va + at, w.rkey, w.length, w.source_offset + at,
                                static_cast<const engine::Gather*>(w.source), std::min(fabric_.mtu, w.length - at)});
  }
  ++outstanding_;
  return transport::Status::kOk;
}

FakeNode& FakeFabric::add(const msg::Config& config, msg::MatchTable* table) {
  const EndpointName name{0x0A000001u + static_cast<std::uint32_t>(nodes.size()), 1000};
  msg::Config own = config;
  own.seed = random.next();
  nodes.push_back(std::make_unique<FakeNode>(*this, name, own, table));
  return *nodes.back();
}

FakeNode* FakeFabric::find(const EndpointName& name) {
  for (auto& n : nodes)
    if (n->name == name) return n.get();
  return nullptr;
}

transport::Placement FakeFabric::inject(FakeNode& to, ConnId conn, std::uint64_t va, std::uint32_t rkey,
                                        std::uint32_t length, std::span<const std::byte> payload) {
  // A copy of its own on the heap, so that ASan sees a read beyond it.
  const std::vector<std::byte> exact(payload.begin(), payload.end());
  transport::RxWrite rx;
  rx.conn = conn;
  rx.va = va;
  rx.rkey = rkey;
  rx.message_length = length;
  rx.payload = exact;
  return to.messenger->place(rx);
}

void FakeFabric::deliver(Packet& p) {
  std::vector<std::byte> bytes(p.length);
  std::uint64_t skip = p.offset;
  std::size_t at = 0;
  for (std::uint32_t i = 0; i < (p.source != nullptr ? p.source->count : 0) && at < bytes.size(); ++i) {
    const auto& piece = p.source->pieces[i];
    if (skip >= piece.length) {
      skip -= piece.length;
      continue;
    }
    const std::size_t n = std::min<std::size_t>(piece.length - skip, bytes.size() - at);
    std::memcpy(bytes.data() + at, static_cast<const std::byte*>(piece.base) + skip, n);
    at += n;
    skip = 0;
  }
  if (inject(*p.to, p.conn, p.va, p.rkey, p.message_length, bytes) == transport::Placement::kRefused)
    p.write->refused = true;
  if (--p.write->left == 0) {
    --p.write->from->outstanding_;
    p.write->from->events_.push_back({transport::EventKind::kWriteDone,
                                      p.write->refused ? transport::Status::kAccess : transport::Status::kOk, 0,
                                      p.write->conn, p.write->cookie});
  }
}

void FakeFabric::step(unsigned count) {
  for (unsigned i = 0; i < count && !packets_.empty(); ++i) {
    const std::size_t which = shuffle ? random.below(static_cast<std::uint32_t>(packets_.size())) : 0;
    Packet p = packets_[which];
    packets_.erase(packets_.begin() + static_cast<std::ptrdiff_t>(which));
    deliver(p);
  }
  for (auto& n : nodes) {
    while (!n->events_.empty()) {
      const auto event = n->events_.front();
      n->events_.pop_front();
      n->messenger->on_event(event);
    }
    n->messenger->on_progress();
  }
}

bool FakeFabric::nothing_to_tell() const {
  for (auto& n : nodes)
    if (!n->events_.empty()) return false;
  return true;
}

void FakeFabric::settle() {
  for (unsigned idle = 0; idle < 3;) {
    step(16);
    idle = quiet() ? idle + 1 : 0;
  }
}

void FakeFabric::fail(FakeNode& a, FakeNode& b, transport::Status status) {
  std::vector<std::shared_ptr<Write>> lost;
  std::erase_if(packets_, [&](const Packet& p) {
    const bool ours = (p.write->from == &a && p.to == &b) || (p.write->from == &b && p.to == &a);
    if (ours && std::find(lost.begin(), lost.end(), p.write) == lost.end()) lost.push_back(p.write);
    return ours;
  });
  for (auto& w : lost) {
    --w->from->outstanding_;
    w->from->events_.push_back({transport::EventKind::kWriteDone, status, 0, w->conn, w->cookie});
  }
  for (auto [one, other] : {std::pair{&a, &b}, std::pair{&b, &a}})
    one->events_.push_back({transport::EventKind::kConnFailed, status, 0, one->connect(other->name), 0});
}

}  // namespace mrc::test
