// SPDX-License-Identifier: BSD-2-Clause
// NSCC row by row, with numbers worked out by hand. The network: one plane of 100 Gb/s, base RTT 12 us, packets of
// 4000 bytes, so that BDP = 150 000 bytes, a = 1, max_wnd = 225 000; T = 9 us with trimming, hence b = 0.75.
#include "mrc/transport/cc_nscc.hpp"
#include "mrc/transport/cc.hpp"
#include "support/catch.hpp"

namespace mrc::transport {
namespace {

constexpr std::uint32_t kMtu = 4000;
constexpr Duration kBase = microseconds(12);
constexpr Duration kTarget = microseconds(9);

CcLink link_of(bool trimming = true) {
  CcLink link;
  link.bps = link.plane_bps = 100'000'000'000;
  link.limit = 4 << 20;
  link.mtu = kMtu;
  link.trimming = trimming;
  return link;
}

bool near(double value, double expected, double part = 1e-9) {
  return value >= expected * (1 - part) && value <= expected * (1 + part);
}

/// Established, its base known, the window shrunk to `window` bytes and every period just begun at `now`.
struct Established {
  explicit Established(std::uint64_t window = 100'000, bool trimming = true) {
    cc.set_link(link_of(trimming));
    cc.on_sent(kMtu, {now, kMtu});
    now = now + kBase;
    cc.on_ack(kMtu, kBase, false, {now, 0});
    cc.on_penalty(cc.window() - window);
    REQUIRE(cc.window() == window);
    cc.on_sent(kMtu, {now, kMtu});
    for (std::uint64_t i = kMtu; i < window; i += kMtu) cc.on_sent(kMtu, {now, i + kMtu});
  }
  void ack(Duration delay, bool marked = false) { cc.on_ack(kMtu, kBase + delay, marked, {now, 0}); }
  /// Eight packets: what was gathered is applied to the window.
  void acks(Duration delay, bool marked = false) {
    for (int i = 0; i < 8; ++i) ack(delay, marked);
  }
  Nscc cc;
  Tick now{1'000'000};
};

}  // namespace

TEST_CASE("mrc-protocol §4: defaults derived from base RTT and link rate") {
  const Established e;
  REQUIRE(e.cc.base_rtt() == kBase);
  REQUIRE(e.cc.target() == kTarget);
  REQUIRE(e.cc.max_window() == 225'000);
  REQUIRE(near(e.cc.alpha(), 4 * 1 * 0.75 * kMtu / 9000.0));
  REQUIRE(near(e.cc.fair_increase(), 5 * kMtu));
  REQUIRE(near(e.cc.eta(), 0.15 * kMtu));
  SECTION("without trimming T is 1.0 base RTT") {
    REQUIRE(Established(100'000, false).cc.target() == kBase);
  }
  SECTION("first cwnd is 1.5 BDP, of the first round trip measured") {
    Nscc cc;
    cc.set_link(link_of());
    cc.on_ack(kMtu, microseconds(24), false, {});
    REQUIRE(cc.max_window() == 450'000);
    REQUIRE(cc.window() == 450'000);
  }
  SECTION("the target has a floor") {
    CcLink link = link_of();
    link.target_min = microseconds(50);
    Nscc cc;
    cc.set_link(link);
    cc.on_ack(kMtu, kBase, false, {});
    REQUIRE(cc.target() == microseconds(50));
    REQUIRE(cc.max_window() == 225'000);
  }
  SECTION("planes count together") {
    CcLink link = link_of();
    link.bps *= 4;
    Nscc cc;
    cc.set_link(link);
    cc.on_ack(kMtu, kBase, false, {});
    REQUIRE(cc.max_window() == 900'000);
    REQUIRE(near(cc.eta(), 4 * 0.15 * kMtu));
  }
  SECTION("the PSN window limits it") {
    CcLink link = link_of();
    link.limit = 128 * kMtu / 4;
    Nscc cc;
    cc.set_link(link);
    REQUIRE(cc.max_window() == 128'000);
  }
}

TEST_CASE("mrc-protocol §4: base_rtt is the smallest round trip of a full packet") {
  Established e;
  e.ack(microseconds(5));
  REQUIRE(e.cc.base_rtt() == kBase);
  e.cc.on_ack(64, microseconds(10), false, {e.now, 0});
  REQUIRE(e.cc.base_rtt() == kBase);
  e.cc.on_ack(kMtu, microseconds(10), false, {e.now, 0});
  REQUIRE(e.cc.base_rtt() == microseconds(10));
  REQUIRE(e.cc.delay() == Duration{0});
}

TEST_CASE("mrc-protocol §4: no ECN, delay < target → proportional increase") {
  Established e;
  e.acks(microseconds(3));
  // inc = alpha × 8 packets × (T - d) = (4 × 0.75 × 4000 / 9000) × 32000 × 6000; cwnd += inc / cwnd
  REQUIRE(e.cc.window() == 100'000 + 2560);
}

TEST_CASE("mrc-protocol §4: no ECN, delay < target → fast increase once a window came back from an empty queue") {
  Established e;
  for (int i = 0; i < 25; ++i) e.ack({});
  // Not yet: up to here it was proportional increase, alpha × n × T / cwnd three times.
  const std::uint64_t before = e.cc.window();
  REQUIRE(before > 100'000);
  REQUIRE(before < 112'000);
  for (int i = 0; i < 3; ++i) e.ack({});
  const std::uint64_t begun = e.cc.window();
  e.ack({});
  REQUIRE(e.cc.window() - begun >= kMtu / 4);
  REQUIRE(e.cc.window() - begun <= kMtu / 4 + 4000);
  for (int i = 0; i < 1000; ++i) e.ack({});
  REQUIRE(e.cc.window() == e.cc.max_window());
}

TEST_CASE("mrc-protocol §4: no ECN, delay ≥ target → fair increase") {
  Established e;
  e.acks(kTarget);
  // inc = 5 MSS a × 8 packets / cwnd
  REQUIRE(e.cc.window() == 100'000 + 20'000 * 32'000 / 100'000);
}

TEST_CASE("mrc-protocol §4: ECN, delay < target → nothing") {
  Established e;
  e.acks(microseconds(8), true);
  REQUIRE(e.cc.window() == 100'000);
}

TEST_CASE("mrc-protocol §4: ECN, delay ≥ target → multiplicative decrease, at most once per base RTT") {
  Established e;
  // The average must be above the target: it moves by 1/80 a packet towards 12 us.
  for (int i = 0; i < 600; ++i) e.ack(microseconds(12));
  REQUIRE(e.cc.average_delay() > nanoseconds(11'990));
  Nscc cc = e.cc;
  const double window = static_cast<double>(cc.window());
  cc.on_ack(kMtu, kBase + microseconds(12), true, {e.now, 0});
  // 1 - 0.8 × (12 - 9) / 12 = 0.8
  REQUIRE(near(static_cast<double>(cc.window()), window * 0.8, 0.01));
  const std::uint64_t after = cc.window();
  for (int i = 0; i < 5; ++i) cc.on_ack(kMtu, kBase + microseconds(12), true, {e.now + kBase - nanoseconds(1), 0});
  REQUIRE(cc.window() == after);
  cc.on_ack(kMtu, kBase + microseconds(12), true, {e.now + kBase, 0});
  REQUIRE(near(static_cast<double>(cc.window()), static_cast<double>(after) * 0.8, 0.02));
  SECTION("never by more than max_md_jump") {
    Nscc worse = e.cc;
    for (int i = 0; i < 600; ++i) worse.on_ack(kMtu, kBase + microseconds(35), true, {e.now, 0});
    const double before = static_cast<double>(worse.window());
    worse.on_ack(kMtu, kBase + microseconds(35), true, {e.now + kBase, 0});
    // 1 - 0.8 × (35 - 9) / 35 = 0.41
    REQUIRE(near(static_cast<double>(worse.window()), before * 0.5, 0.03));
  }
  SECTION("the average is not above the target: no decrease") {
    Established calm;
    calm.ack(microseconds(18), true);
    REQUIRE(calm.cc.window() == 100'000);
  }
}

TEST_CASE("mrc-protocol §4: the last hop does not mark: so much delay without a mark counts as one") {
  Established e;
  for (int i = 0; i < 600; ++i) e.ack(microseconds(12));
  Nscc cc = e.cc;
  const std::uint64_t window = cc.window();
  cc.on_ack(kMtu, kBase + kTarget * 3 / 2, false, {e.now, 0});
  REQUIRE(cc.window() >= window);  // the receiver does not say that its links are full: not its queue
  cc.on_receiver(true);
  cc.on_ack(kMtu, kBase + kTarget * 3 / 2, false, {e.now, 0});
  REQUIRE(cc.window() < window * 81 / 100);
}

TEST_CASE("mrc-protocol §4: a mark reported late takes back what the packet had earned") {
  Established e;
  for (int i = 0; i < 7; ++i) e.ack(microseconds(3));
  for (int i = 0; i < 7; ++i) e.cc.on_ecn(kMtu, {e.now, 0});
  e.ack(microseconds(3), true);
  REQUIRE(e.cc.window() == 100'000);
}

TEST_CASE("mrc-protocol §4: every adjust_period eta is added") {
  Established e;
  e.now = e.now + kBase;
  e.ack(microseconds(8), true);  // marked below the target: nothing else moves
  REQUIRE(e.cc.window() == 100'000 + 600);
  e.ack(microseconds(8), true);
  REQUIRE(e.cc.window() == 100'000 + 600);
}

TEST_CASE("mrc-protocol §4: a trimmed packet takes its size off the window") {
  Established e;
  e.cc.on_nack(kMtu, true, {e.now, 90'000});
  REQUIRE(e.cc.window() == 96'000);
  for (int i = 0; i < 100; ++i) e.cc.on_nack(kMtu, false, {e.now, 90'000});
  REQUIRE(e.cc.window() == kMtu);
}

TEST_CASE("mrc-protocol §4: a lost packet takes its size off the window, down to one packet") {
  Established e(100'000, false);
  e.cc.on_loss(kMtu, {e.now, 90'000});
  REQUIRE(e.cc.window() == 96'000);
  for (int i = 0; i < 100; ++i) e.cc.on_loss(kMtu, {e.now, 90'000});
  REQUIRE(e.cc.window() == kMtu);
}

TEST_CASE("mrc-protocol §4: where full queues trim, a loss counts as congestion only with delay above the target") {
  Established e;
  e.cc.on_loss(kMtu, {e.now, 90'000});
  REQUIRE(e.cc.window() == 100'000);
  e.ack(kTarget);
  e.cc.on_loss(kMtu, {e.now, 90'000});
  REQUIRE(e.cc.window() == 96'000);
}

TEST_CASE("mrc-protocol §4: quick_adapt sets cwnd to what was achieved, once per base RTT and target") {
  Established e;
  const Duration period = kBase * 2 + kTarget;  // the first one begins with the first packet in flight
  e.acks(microseconds(18));                     // 32 000 > 225 000 / 8 achieved: nothing to adapt
  e.cc.on_nack(kMtu, true, {e.now + period, 80'000});
  const std::uint64_t window = e.cc.window();
  REQUIRE(window >= 96'000);
  // The next period: two packets achieved, and a trim.
  const Tick begin = e.now + period;
  e.cc.on_sent(kMtu, {begin, 120'000});
  e.cc.on_ack(kMtu, kBase + kTarget, false, {begin, 100'000});
  e.cc.on_ack(kMtu, kBase + kTarget, false, {begin, 96'000});
  const Tick over = begin + kBase + kTarget;
  switch (GENERATE(0, 1, 2)) {
    case 0:
      e.cc.on_nack(kMtu, true, {over, 92'000});
      break;
    case 1:
      e.cc.on_loss(kMtu, {over, 92'000});
      break;
    default:
      e.cc.on_ack(kMtu, kBase + kTarget * 4 + microseconds(1), false, {over, 92'000});
      REQUIRE(e.cc.window() == 3 * kMtu);
      return;
  }
  REQUIRE(e.cc.window() == 2 * kMtu);
  SECTION("what was in flight then is not counted again") {
    for (int i = 0; i < 22; ++i) e.cc.on_nack(kMtu, true, {over, 0});
    REQUIRE(e.cc.window() == 2 * kMtu);
  }
  SECTION("not before the period is over") {
    for (int i = 0; i < 23; ++i) e.cc.on_ack(kMtu, kBase, false, {over, 0});
    e.cc.on_nack(kMtu, true, {over, 4000});
    REQUIRE(e.cc.window() <= 2 * kMtu);
    REQUIRE(e.cc.window() >= kMtu);
  }
}

TEST_CASE("mrc-protocol §4: quick_adapt leaves a window alone that was not used") {
  Established e(100'000, false);
  const Tick later = e.now + milliseconds(1);
  e.cc.on_sent(kMtu, {later, kMtu});  // alone in flight
  e.cc.on_loss(kMtu, {later + milliseconds(1), 0});
  REQUIRE(e.cc.window() == 96'000);
}

TEST_CASE("mrc-protocol §4: receiver penalty: decrease = (pen × newly received) >> 7") {
  CcLink link = link_of();
  Cc cc(CcKind::kNscc, link);
  cc.on_ack(kMtu, kBase, false, {});
  const std::uint64_t before = cc.window();
  cc.on_penalty(128'000, 64);
  REQUIRE(cc.window() == before - 64'000);
  cc.on_penalty(1 << 20, 127);
  REQUIRE(cc.window() == kMtu);
  cc.on_restore();
  REQUIRE(cc.window() == before);
}

TEST_CASE("a time-out halves the window once, whatever is lost with it") {
  Established e;
  e.cc.on_timeout({e.now, 100'000});
  for (int i = 0; i < 25; ++i) e.cc.on_loss(kMtu, {e.now, 0});
  REQUIRE(e.cc.window() == 50'000);
}

TEST_CASE("the controller is chosen by what is declared") {
  CcLink link = link_of();
  REQUIRE(Cc(CcKind::kAuto, link).kind() == CcKind::kNscc);
  REQUIRE(Cc(CcKind::kFixed, link).kind() == CcKind::kFixed);
  REQUIRE(Cc(CcKind::kSwift, link).kind() == CcKind::kSwift);
  link.bps = link.plane_bps = 0;
  REQUIRE(Cc(CcKind::kAuto, link).kind() == CcKind::kFixed);
  REQUIRE(Cc(CcKind::kNscc, link).window() > 0);
}

}  // namespace mrc::transport
