// SPDX-License-Identifier: BSD-2-Clause
// Operations that wait for a counter: copies of all that a call was given, kept until they are due.
#include <array>
#include <vector>

#include "device.hpp"
#include "endpoint.hpp"
#include "work.hpp"

namespace mrc::prov {
namespace {

using Pieces = std::array<engine::GatherPiece, msg::kMaxIov>;

std::span<const engine::GatherPiece> keep(std::span<const engine::GatherPiece> from, Pieces& to) {
  std::copy(from.begin(), from.end(), to.begin());
  return {to.data(), from.size()};
}

class TransmitWork final : public Work {
 public:
  TransmitWork(const Deferral& d, EndpointCore& core, TxSide& side, const msg::Transmit& t, fi_addr_t address)
      : Work(d, &core, &side), core_(core), tx_(side), t_(t), address_(address) {
    t_.pieces = keep(t.pieces, pieces_);
    t_.compare = keep(t.compare, compare_);
    t_.results = keep(t.results, results_);
    std::copy(t.segments.begin(), t.segments.end(), segments_.begin());
    t_.segments = {segments_.data(), t.segments.size()};
    // Injected: the buffer is the application's again when the call returns. Deferred work leaves it alone until then.
    if (!t.inject || d.work) return;
    std::size_t length = 0;
    for (const auto& piece : t.pieces) length += piece.length;
    bytes_.resize(length);
    unreadable_ = !device::gather(bytes_.data(), t.pieces);
    pieces_[0] = {bytes_.data(), bytes_.size()};
    t_.pieces = {pieces_.data(), 1};
  }
  bool run() override {
    if (unreadable_) {
      tell(FI_EIO);
      return true;
    }
    core_.work().lend(t_.counter, &core_);
    const int status = core_.post(tx_, t_, address_);
    if (status == 0) return true;
    core_.work().give_back(t_.counter);
    if (status == -FI_EAGAIN) return false;
    tell(-status);
    return true;
  }
  void cancelled() override { tell(FI_ECANCELED); }

 private:
  void tell(int error) {
    msg::Done done;
    done.kind = t_.kind;
    done.error = error;
    done.owner = &tx_;
    done.signal = t_.signal;
    done.inject = t_.inject;
    done.deferred = t_.deferred;
    done.counter = t_.counter;
    done.completion.op_context = t_.context;
    done.completion.flags = msg::transmit_flags(t_.kind, t_.tagged);
    ++tx_.outstanding;
    core_.done(done);
  }

  EndpointCore& core_;
  TxSide& tx_;
  msg::Transmit t_;
  fi_addr_t address_;
  Pieces pieces_, compare_, results_;
  std::array<msg::Segment, msg::kMaxSegments> segments_;
  std::vector<std::byte> bytes_;
  bool unreadable_ = false;  ///< the device refused to give the injected bytes
};

class ReceiveWork final : public Work {
 public:
  ReceiveWork(const Deferral& d, WorkQueue& queue, RxSide& side, const msg::Receive& r)
      : Work(d, side.core, &side), queue_(queue), rx_(side), r_(r) {
    r_.pieces = keep(r.pieces, pieces_);
    if (r.from == nullptr) return;
    from_ = *r.from;
    r_.from = &from_;
  }
  bool run() override {
    if (!rx_.room()) return false;
    queue_.lend(r_.counter, rx_.core != nullptr ? static_cast<const void*>(rx_.core) : &rx_);
    const int status = rx_.table->receive(r_);
    if (status == 0) return true;
    queue_.give_back(r_.counter);
    if (status == -FI_EAGAIN) return false;
    tell(-status);
    return true;
  }
  void cancelled() override { tell(FI_ECANCELED); }

 private:
  void tell(int error) {
    msg::Done done;
    done.kind = msg::OpKind::kRecv;
    done.error = error;
    done.signal = r_.signal;
    done.deferred = r_.deferred;
    done.counter = r_.counter;
    done.completion.op_context = r_.context;
    done.completion.flags = msg::receive_flags(r_.tagged, false);
    rx_.done(done);
  }

  WorkQueue& queue_;
  RxSide& rx_;
  msg::Receive r_;
  Pieces pieces_;
  EndpointName from_{};
};

}  // namespace

ssize_t Endpoint::defer(const msg::Transmit& given, fi_addr_t address) {
  Deferral d;
  if (const int error = Deferral::of(given.context, &d)) return error;
  if (given.pieces.size() > msg::kMaxIov || given.segments.size() > msg::kMaxSegments) return -FI_EINVAL;
  msg::Transmit t = given;
  t.trigger = false;
  t.deferred = d.work;
  t.counter = d.completion;
  if (d.work) t.signal = given.asked;
  return guarded([&] {
    domain().work().add(std::make_unique<TransmitWork>(d, *core_, *tx_, t, address));
    return 0;
  });
}

ssize_t Endpoint::defer(const msg::Receive& given) {
  Deferral d;
  if (const int error = Deferral::of(given.context, &d)) return error;
  msg::Receive r = given;
  r.deferred = d.work;
  r.counter = d.completion;
  if (d.work) r.signal = given.asked;
  return guarded([&] {
    domain().work().add(std::make_unique<ReceiveWork>(d, domain().work(), *rx_, r));
    return 0;
  });
}

}  // namespace mrc::prov
