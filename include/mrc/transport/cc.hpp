// SPDX-License-Identifier: BSD-2-Clause
// Congestion control as the transport calls it: one controller per connection, chosen at run time, statically
// dispatched (a tagged union and a switch). Bytes are payload bytes, at least 1 a packet. Bytes in flight are counted
// by the connection alone, where packets are linked and unlinked; controllers are told.
//
// When to call what (datapath/transport/signals.cpp does): on_sent() per packet that leaves; on_ack() per packet newly
// SACKed, with the round trip of the report where it has one (< 0: none), and whether that packet was echoed as
// ECN-marked; on_ecn() for a mark that is reported about a packet already SACKed; on_nack() per packet reported
// trimmed; on_loss() per packet declared lost; on_timeout() before the losses of a time-out; on_penalty() with the
// receiver's demand, on_restore() when it takes that back; on_batch_end() once per received burst.
#pragma once

#include <concepts>
#include <cstdint>
#include <type_traits>

#include "mrc/transport/cc_fixed.hpp"
#include "mrc/transport/cc_kind.hpp"
#include "mrc/transport/cc_nscc.hpp"
#include "mrc/transport/cc_swift.hpp"

namespace mrc::transport {

template <class T>
concept CongestionControl = std::is_trivially_copyable_v<T> &&
    requires(T cc, const T constant, std::uint64_t bytes, Duration rtt, CcTime at, bool flag, const CcLink& link) {
  cc.set_link(link);                // first of all, and at each change
  cc.on_ack(bytes, rtt, flag, at);  // flag: marked
  cc.on_base(rtt, 4u);
  cc.on_ecn(bytes, at);
  cc.on_nack(bytes, flag, at);  // flag: on the last hop
  cc.on_loss(bytes, at);
  cc.on_timeout(at);
  cc.on_penalty(bytes);
  cc.on_restore();
  cc.on_receiver(flag);
  cc.on_sent(bytes, at);
  cc.on_batch_end(at);
  { constant.window() } -> std::same_as<std::uint64_t>;
  { constant.max_window() } -> std::same_as<std::uint64_t>;
};
static_assert(CongestionControl<FixedWindow> && CongestionControl<Nscc> && CongestionControl<Swift>);

class Cc {
  template <class Self, class Fn>
  static decltype(auto) dispatch(Self& self, Fn&& fn) {
    switch (self.kind_) {
      case CcKind::kNscc:
        return fn(self.nscc_);
      case CcKind::kSwift:
        return fn(self.swift_);
      default:
        return fn(self.fixed_);
    }
  }

 public:
  Cc() : fixed_{} {}
  /// kAuto: by whether link.bps is declared.
  Cc(CcKind kind, const CcLink& link) : fixed_{} { start(kind, link); }

  void start(CcKind kind, const CcLink& link) {
    if (kind == CcKind::kAuto) kind = link.bps != 0 ? CcKind::kNscc : CcKind::kFixed;
    kind_ = kind;
    if (kind == CcKind::kNscc) {
      nscc_ = Nscc{};
    } else if (kind == CcKind::kSwift) {
      swift_ = Swift{};
    } else {
      fixed_ = FixedWindow{};
    }
    set_link(link);
  }

  CcKind kind() const { return kind_; }
  /// The next packet may go if it fits, or if nothing else is in flight.
  bool can_send(std::uint64_t inflight, std::uint64_t packet) const {
    return inflight == 0 || inflight + packet <= window();
  }
  std::uint64_t window() const {
    return dispatch(*this, [](const auto& cc) { return cc.window(); });
  }
  std::uint64_t max_window() const {
    return dispatch(*this, [](const auto& cc) { return cc.max_window(); });
  }

  void set_link(const CcLink& link) {
    dispatch(*this, [&](auto& cc) { cc.set_link(link); });
  }
  /// A round trip of a small packet of the control class, over so many links each way.
  void on_base(Duration rtt, unsigned hops) {
    dispatch(*this, [&](auto& cc) { cc.on_base(rtt, hops); });
  }
  void on_ack(std::uint64_t bytes, Duration rtt, bool marked, CcTime at) {
    dispatch(*this, [&](auto& cc) { cc.on_ack(bytes, rtt, marked, at); });
  }
  void on_ecn(std::uint64_t bytes, CcTime at) {
    dispatch(*this, [&](auto& cc) { cc.on_ecn(bytes, at); });
  }
  void on_nack(std::uint64_t bytes, bool last_hop, CcTime at) {
    dispatch(*this, [&](auto& cc) { cc.on_nack(bytes, last_hop, at); });
  }
  void on_loss(std::uint64_t bytes, CcTime at) {
    dispatch(*this, [&](auto& cc) { cc.on_loss(bytes, at); });
  }
  void on_timeout(CcTime at) {
    dispatch(*this, [&](auto& cc) { cc.on_timeout(at); });
  }
  /// decrease = (pen * newly received) >> 7 (mrc-protocol §4).
  void on_penalty(std::uint64_t newly_received, std::uint8_t penalty) {
    dispatch(*this,
             [&](auto& cc) { cc.on_penalty(newly_received / 128 * penalty + newly_received % 128 * penalty / 128); });
  }
  void on_restore() {
    dispatch(*this, [](auto& cc) { cc.on_restore(); });
  }
  /// Whether the receiver says that its own links are full.
  void on_receiver(bool full) {
    dispatch(*this, [&](auto& cc) { cc.on_receiver(full); });
  }
  void on_sent(std::uint64_t bytes, CcTime at) {
    dispatch(*this, [&](auto& cc) { cc.on_sent(bytes, at); });
  }
  void on_batch_end(CcTime at) {
    dispatch(*this, [&](auto& cc) { cc.on_batch_end(at); });
  }
  /// nullptr unless kind() is kNscc; for telemetry.
  const Nscc* nscc() const { return kind_ == CcKind::kNscc ? &nscc_ : nullptr; }

 private:
  CcKind kind_ = CcKind::kFixed;
  union {
    FixedWindow fixed_;
    Nscc nscc_;
    Swift swift_;
  };
};
static_assert(std::is_trivially_copyable_v<Cc>);
static_assert(sizeof(Cc) <= 160, "part of the 4 KiB of an idle connection");

}  // namespace mrc::transport
