// SPDX-License-Identifier: BSD-2-Clause
// What holds for every controller under any mixture of acknowledgements, marks, trims, losses, time-outs, penalties and
// changes of the link: bounds, "at most once per …", monotone answers, no overflow.
#include <rapidcheck.h>

#include <algorithm>

#include "mrc/random.hpp"
#include "mrc/transport/cc.hpp"
#include "support/catch.hpp"

namespace mrc::transport {
namespace {

constexpr CcKind kKinds[] = {CcKind::kFixed, CcKind::kNscc, CcKind::kSwift};

CcLink random_link(Random& random) {
  CcLink link;
  static constexpr std::uint64_t kRates[] = {
      0, 1000, 10'000'000'000, 100'000'000'000, 800'000'000'000, UINT64_MAX / 16};
  link.plane_bps = kRates[random.below(6)];
  link.bps = link.plane_bps * (1 + random.below(8));
  link.mtu = 1 + random.below(9000);
  link.limit = std::uint64_t{link.mtu} * (128 + random.below(4096));
  link.target_min = microseconds(random.below(100));
  link.trimming = random.chance(0.5);
  return link;
}

/// A sender that does what the transport does, and counts on its own.
struct Sender {
  Sender(CcKind kind, Random& r) : random(r), link(random_link(r)), cc(kind, link) {}

  void send() {
    while (cc.can_send(inflight, link.mtu) && inflight < (1u << 26)) {
      RC_ASSERT(inflight == 0 || inflight + link.mtu <= cc.window());
      inflight += link.mtu;
      packets.push_back(link.mtu);
      cc.on_sent(link.mtu, {now, inflight});
      // In flight never exceeds cwnd plus one packet at the time of sending.
      RC_ASSERT(inflight <= cc.window() + link.mtu);
      if (random.chance(0.05)) break;
    }
  }
  Duration any_rtt() {
    switch (random.below(8)) {
      case 0:
        return Duration{-1};
      case 1:
        return Duration{random.chance(0.5) ? 0 : INT64_MAX};
      case 2:
        return seconds(random.below(100));
      default:
        return nanoseconds(3000 + random.below(60000));
    }
  }
  void step() {
    if (random.chance(0.3)) now = now + nanoseconds(random.below(20000));
    if (random.chance(0.001)) now = now + seconds(random.below(1000));
    const unsigned what = random.below(32);
    if (what < 29 && packets.empty()) return;
    const auto take = [&] {
      const std::uint32_t bytes = packets.back();
      packets.pop_back();
      inflight -= bytes;
      return bytes;
    };
    if (what < 20) {
      const std::uint32_t bytes = take();
      cc.on_ack(bytes, any_rtt(), random.chance(0.2), {now, inflight});
    } else if (what < 23) {
      const std::uint32_t bytes = take();
      cc.on_nack(bytes, random.chance(0.5), {now, inflight});
    } else if (what < 26) {
      const std::uint32_t bytes = take();
      cc.on_loss(bytes, {now, inflight});
    } else if (what < 28) {
      cc.on_ecn(link.mtu, {now, inflight});
    } else if (what == 28) {
      cc.on_penalty(random.chance(0.1) ? UINT64_MAX >> 8 : random.below(1 << 20),
                    static_cast<std::uint8_t>(random.below(128)));
    } else if (what == 29) {
      if (random.chance(0.2)) {
        cc.on_timeout({now, inflight});
        while (!packets.empty()) {
          const std::uint32_t bytes = take();
          cc.on_loss(bytes, {now, inflight});
        }
      } else {
        cc.on_restore();
      }
    } else if (what == 30 && random.chance(0.1)) {
      const std::uint32_t mtu = link.mtu;
      link = random_link(random);
      if (random.chance(0.5)) link.mtu = mtu;
      cc.set_link(link);
    }
    cc.on_batch_end({now, inflight});
    check();
  }
  void check() const {
    const std::uint64_t floor = cc.kind() == CcKind::kFixed ? 1 : std::min<std::uint64_t>(link.mtu, cc.max_window());
    RC_ASSERT(cc.window() >= floor);
    RC_ASSERT(cc.window() <= cc.max_window());
    RC_ASSERT(cc.max_window() <= std::max<std::uint64_t>(link.limit, link.mtu));
  }

  Random& random;
  CcLink link;
  Cc cc;
  Tick now{1'000'000'000};
  std::uint64_t inflight = 0;
  std::vector<std::uint32_t> packets;
};

}  // namespace

TEST_CASE("congestion control: MTU ≤ cwnd ≤ max_wnd and in flight ≤ cwnd + 1 packet, whatever happens") {
  for (const CcKind kind : kKinds) {
    INFO("kind " << static_cast<int>(kind));
    REQUIRE(rc::check([kind] {
      Random random(*rc::gen::arbitrary<std::uint64_t>());
      Sender sender(kind, random);
      for (int i = 0; i < 2000; ++i) {
        sender.send();
        sender.step();
      }
    }));
  }
}

TEST_CASE("congestion control: bytes in flight sum up: sent = acknowledged + trimmed + lost + in flight") {
  // The controllers keep no count of their own: what they are told always is what the sender has.
  REQUIRE(rc::check([] {
    Random random(*rc::gen::arbitrary<std::uint64_t>());
    Sender sender(kKinds[random.below(3)], random);
    for (int i = 0; i < 500; ++i) {
      sender.send();
      sender.step();
      std::uint64_t sum = 0;
      for (const std::uint32_t bytes : sender.packets) sum += bytes;
      RC_ASSERT(sum == sender.inflight);
    }
  }));
}

TEST_CASE("congestion control: a multiplicative decrease comes at most once per base RTT and never by more than half") {
  REQUIRE(rc::check([] {
    Random random(*rc::gen::arbitrary<std::uint64_t>());
    CcLink link;
    link.bps = link.plane_bps = 100'000'000'000;
    link.mtu = 4096;
    link.limit = 4 << 20;
    Nscc cc;
    cc.set_link(link);
    Tick now{1'000'000};
    cc.on_sent(4096, {now, 4096});
    cc.on_ack(4096, microseconds(10), false, {now, 0});
    Tick last{};
    for (int i = 0; i < 3000; ++i) {
      now = now + nanoseconds(random.below(2000));
      const std::uint64_t before = cc.window();
      // Only marked acknowledgements above the target can shrink it here.
      cc.on_ack(4096, microseconds(10 + random.below(40)), random.chance(0.5), {now, 0});
      if (cc.window() < before) {
        RC_ASSERT(now - last >= cc.base_rtt());
        RC_ASSERT(cc.window() + 1 >= before / 2);
        last = now;
      }
    }
  }));
}

TEST_CASE("congestion control: quick_adapt strikes at most once per base RTT and target") {
  REQUIRE(rc::check([] {
    Random random(*rc::gen::arbitrary<std::uint64_t>());
    CcLink link;
    link.bps = link.plane_bps = 400'000'000'000;
    link.mtu = 4096;
    link.limit = 8 << 20;
    Nscc cc;
    cc.set_link(link);
    Tick now{1'000'000};
    cc.on_ack(4096, microseconds(10), false, {now, 0});
    std::uint64_t inflight = 0;
    Tick last{};
    for (int i = 0; i < 3000; ++i) {
      now = now + nanoseconds(random.below(1000));
      while (inflight + 4096 <= cc.window()) cc.on_sent(4096, {now, inflight += 4096});
      if (inflight < 4096) continue;
      const std::uint64_t before = cc.window();
      inflight -= 4096;
      if (random.chance(0.02)) {
        cc.on_ack(4096, microseconds(60), false, {now, inflight});
      } else {
        cc.on_nack(4096, random.chance(0.5), {now, inflight});
      }
      if (cc.window() + 4096 < before) {  // more than a trim takes
        RC_ASSERT(now - last >= cc.base_rtt() + cc.target());
        last = now;
      }
    }
  }));
}

TEST_CASE("congestion control: more delay never gives a larger window") {
  for (const CcKind kind : {CcKind::kNscc, CcKind::kSwift}) {
    REQUIRE(rc::check([kind] {
      Random random(*rc::gen::arbitrary<std::uint64_t>());
      Sender sender(kind, random);
      for (int i = 0; i < 300; ++i) {
        sender.send();
        sender.step();
      }
      // The same history, then the same packets with less and with more delay.
      Cc less = sender.cc, more = sender.cc;
      const Duration rtt = nanoseconds(5000 + random.below(100000));
      const Duration extra = nanoseconds(random.below(100000));
      const bool marked = random.chance(0.5);
      const CcTime at{sender.now, sender.inflight};
      for (int i = 0; i < 9; ++i) {
        less.on_ack(sender.link.mtu, rtt, marked, at);
        more.on_ack(sender.link.mtu, rtt + extra, marked, at);
      }
      if (less.max_window() != more.max_window()) return;  // the first to know the base
      // Above the target the fair increase may exceed the proportional one; both stay within one step of it.
      const Nscc* nscc = less.nscc();
      const double step = nscc == nullptr ? 1
                                          : 2 + 9.0 * sender.link.mtu * nscc->fair_increase() /
                                                    std::max<double>(1, static_cast<double>(sender.cc.window()));
      RC_ASSERT(static_cast<double>(more.window()) <= static_cast<double>(less.window()) + step);
    }));
  }
}

TEST_CASE("congestion control: the same signals give the same window") {
  for (const CcKind kind : kKinds) {
    const auto run = [kind] {
      Random random(4711);
      Sender sender(kind, random);
      for (int i = 0; i < 5000; ++i) {
        sender.send();
        sender.step();
      }
      return sender.cc.window();
    };
    REQUIRE(run() == run());
  }
}

}  // namespace mrc::transport
