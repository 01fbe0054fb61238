// SPDX-License-Identifier: BSD-2-Clause
// Made-up surroundings of an engine: a clock that a test turns, ports joined by a wire in memory that loses, corrupts
// and doubles frames, and a CRC without DPDK.
#pragma once

#include <boost/crc.hpp>

#include <algorithm>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "mrc/engine/clock.hpp"
#include "mrc/engine/engine_impl.hpp"
#include "mrc/engine/own_ports.hpp"
#include "mrc/random.hpp"

namespace mrc::test {

inline std::uint32_t crc32(std::span<const std::byte> bytes) {
  boost::crc_32_type crc;
  crc.process_bytes(bytes.data(), bytes.size());
  return crc.checksum();
}

class FakeClock final : public engine::Clock {
 public:
  Tick now() override { return {ns_ += 100}; }  // a read takes time, so that waiting loops end
  void advance(Duration by) { ns_ += by.ns; }

 private:
  std::int64_t ns_ = 1'000'000'000;
};

using Frame = std::vector<std::byte>;

/// One direction of a wire.
struct Lane {
  std::deque<Frame> frames;
  std::size_t limit = 512;
  double lose = 0, corrupt = 0, duplicate = 0, swap = 0;
  std::uint64_t lost = 0, corrupted = 0;
};

class FakePort final : public port::Port {
 public:
  FakePort(std::shared_ptr<Lane> out, std::shared_ptr<Lane> in, std::uint8_t id, std::uint32_t mtu, Random& random)
      : out_(std::move(out)), in_(std::move(in)), random_(random) {
    name_ = "fake:" + std::to_string(id);
    mac_ = {2, 0, 0, 0, 0, id};
    mtu_ = mtu;
  }
  ~FakePort() override {
    for (Frame* frame : lent_) delete frame;
  }

  std::size_t receive(std::span<port::RxFrame> out) override {
    std::size_t n = 0;
    while (n < out.size() && !in_->frames.empty()) {
      auto* frame = new Frame(std::move(in_->frames.front()));
      in_->frames.pop_front();
      lent_.push_back(frame);
      out[n++] = {.data = *frame, .handle = frame};
      ++counters_.rx_frames;
      counters_.rx_bytes += frame->size();
    }
    return n;
  }
  void release(std::span<const port::RxFrame> frames) override {
    for (const port::RxFrame& frame : frames) give_back(frame.handle);
  }
  std::size_t reserve(std::span<port::TxFrame> out) override {
    std::size_t n = 0;
    while (n < out.size() && out_->frames.size() + n < out_->limit) {
      auto* frame = new Frame(max_frame());
      lent_.push_back(frame);
      out[n++] = {.data = frame->data(), .length = 0, .handle = frame};
    }
    return n;
  }
  std::size_t send(std::span<const port::TxFrame> frames) override {
    std::size_t sent = 0;
    for (const port::TxFrame& frame : frames) {
      if (out_->frames.size() < out_->limit) {
        put(Frame(frame.data, frame.data + frame.length));
        ++sent;
        ++counters_.tx_frames;
      } else {
        ++counters_.tx_dropped;
      }
      give_back(frame.handle);
    }
    return sent;
  }
  void cancel(std::span<const port::TxFrame> frames) override {
    for (const port::TxFrame& frame : frames) give_back(frame.handle);
  }
  bool link_up() const override { return up; }
  port::PortCounters counters() const override { return counters_; }

  std::size_t lent() const { return lent_.size(); }
  bool up = true;

 private:
  void put(Frame frame) {
    if (random_.chance(out_->lose)) {
      ++out_->lost;
      return;
    }
    if (random_.chance(out_->corrupt)) {
      ++out_->corrupted;
      // Anywhere behind the IPv6 addresses: what the iCRC has to notice.
      const std::size_t at = 14 + 40 + 8 + random_.below(static_cast<std::uint32_t>(frame.size() - 14 - 40 - 8));
      frame[at] ^= static_cast<std::byte>(1 + random_.below(255));
    }
    if (random_.chance(out_->duplicate)) out_->frames.push_back(frame);
    out_->frames.push_back(std::move(frame));
    if (out_->frames.size() > 1 && random_.chance(out_->swap)) {
      std::swap(out_->frames.back(), out_->frames[random_.below(static_cast<std::uint32_t>(out_->frames.size()))]);
    }
  }
  void give_back(void* handle) {
    auto* frame = static_cast<Frame*>(handle);
    lent_.erase(std::find(lent_.begin(), lent_.end(), frame));
    delete frame;
  }

  std::shared_ptr<Lane> out_, in_;
  Random& random_;
  port::PortCounters counters_{};
  std::vector<Frame*> lent_;
};

/// Takes writes into a buffer (VA = offset) and remembers events.
class FakeClient final : public engine::Client {
 public:
  explicit FakeClient(std::size_t memory = 0) : bytes(memory) {}
  transport::Placement place(const transport::RxWrite& write) override {
    ++placed;
    last_conn = write.conn;
    if (write.va + write.payload.size() > bytes.size()) return transport::Placement::kRefused;
    if (!write.payload.empty()) std::memcpy(bytes.data() + write.va, write.payload.data(), write.payload.size());
    return transport::Placement::kPlaced;
  }
  void on_event(const transport::Event& event) override { events.push_back(event); }
  bool on_progress(Tick) override { return work ? work() : false; }

  std::size_t count(transport::EventKind kind, transport::Status status = transport::Status::kOk) const {
    return static_cast<std::size_t>(std::count_if(
        events.begin(), events.end(), [&](const transport::Event& e) { return e.kind == kind && e.status == status; }));
  }
  std::vector<std::byte> bytes;
  std::vector<transport::Event> events;
  std::function<bool()> work;
  std::size_t placed = 0;
  transport::ConnId last_conn = transport::kNoId;
};

inline constexpr std::uint32_t kLeft = 0x0a4d0001, kRight = 0x0a4d0002;  // 10.77.0.1, 10.77.0.2

/// Two engines, point to point over `planes` wires.
class Pair {
 public:
  struct Options {
    unsigned planes = 1;
    std::uint32_t mtu = 1500;
    std::uint64_t seed = 1;
    engine::EngineConfig config{};
    std::byte right_key{7};  ///< the right side's job key, where the configuration sets one
    std::function<std::unique_ptr<port::Port>(std::unique_ptr<port::Port>)> wrap{};  ///< each port, before use
  };
  explicit Pair(const Options& options) : random(options.seed) {
    std::vector<std::unique_ptr<port::Port>> left_ports, right_ports;
    for (unsigned p = 0; p < options.planes; ++p) {
      to_right.push_back(std::make_shared<Lane>());
      to_left.push_back(std::make_shared<Lane>());
      auto l =
          std::make_unique<FakePort>(to_right[p], to_left[p], static_cast<std::uint8_t>(2 * p), options.mtu, random);
      auto r = std::make_unique<FakePort>(to_left[p], to_right[p], static_cast<std::uint8_t>(2 * p + 1), options.mtu,
                                          random);
      left_port.push_back(l.get());
      right_port.push_back(r.get());
      left_ports.push_back(options.wrap ? options.wrap(std::move(l)) : std::move(l));
      right_ports.push_back(options.wrap ? options.wrap(std::move(r)) : std::move(r));
    }
    left = make(kLeft, std::move(left_ports), options, 1);
    right = make(kRight, std::move(right_ports), options, 2);
  }

  /// Passes of both, `step` of time each, until `done` or `limit` of time has gone.
  bool run(const std::function<bool()>& done, Duration limit = seconds(20), Duration step = microseconds(5)) {
    const Tick end = clock.now() + limit;
    while (clock.now() < end) {
      for (engine::EngineImpl* engine : {left.get(), right.get()}) {
        const std::lock_guard guard(*engine);
        engine->progress_locked();
      }
      clock.advance(step);
      if (done()) return true;
    }
    return done();
  }

  FakeClock clock;
  Random random;
  std::vector<std::shared_ptr<Lane>> to_right, to_left;
  std::vector<FakePort*> left_port, right_port;
  std::shared_ptr<engine::EngineImpl> left, right;

 private:
  std::shared_ptr<engine::EngineImpl> make(std::uint32_t ipv4, std::vector<std::unique_ptr<port::Port>> ports,
                                           const Options& options, std::uint64_t salt) {
    engine::OwnPortsPlan plan;
    plan.ipv4 = ipv4;
    engine::EngineParts parts;
    parts.config = options.config;
    parts.config.service_thread = false;
    if (salt == 2) parts.config.transport.job_key.fill(options.right_key);
    parts.attachment = std::make_unique<engine::OwnPorts>(plan, std::move(ports), crc32);
    parts.clock = &clock;
    parts.seed = options.seed * 2 + salt;
    parts.reserve_ports = false;
    parts.may_yield = false;
    auto made = engine::EngineImpl::create(std::move(parts));
    if (!made) throw std::runtime_error(made.error().text);
    return *made;
  }
};

inline std::vector<std::byte> pattern(std::size_t length, std::uint64_t seed) {
  Random random(seed);
  std::vector<std::byte> out(length);
  for (auto& byte : out) byte = static_cast<std::byte>(random.next() >> 56);
  return out;
}

}  // namespace mrc::test
