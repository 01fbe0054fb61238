// SPDX-License-Identifier: BSD-2-Clause
// The command language: what each command touches and does, what stays accepted, what errors say, and garbage.
#include "mrc/fabric/command.hpp"

#include <rapidcheck.h>

#include <cmath>

#include "mrc/fabric/status.hpp"
#include "support/catch.hpp"

using namespace mrc;
using namespace mrc::fabric;
using path::UsidKind;

namespace {

struct Bench {
  Clos clos{{.planes = 4, .t0s = 2, .t1s = 4, .nics = 4}};
  Applied run(const std::string& text) {
    INFO(text);
    const auto applied = apply_command(clos, text);
    if (!applied) FAIL(applied.error().text);
    return *applied;
  }
  Error error(const std::string& text) {
    INFO(text);
    const auto applied = apply_command(clos, text);
    REQUIRE_FALSE(applied);
    REQUIRE_FALSE(applied.error().text.empty());
    const auto checked = check_command(clos, text);
    REQUIRE_FALSE(checked);
    REQUIRE(checked.error().text == applied.error().text);
    return applied.error();
  }
  bool down(LinkKind kind, unsigned plane, unsigned t0, unsigned far) const {
    return clos.link_down({kind, std::uint8_t(plane), std::uint16_t(t0), std::uint16_t(far)});
  }
};

bool close(double a, double b) {
  return std::abs(a - b) < 1e-12;
}

bool says(const Error& error, const char* part) {
  INFO(error.text);
  const bool found = error.text.find(part) != std::string::npos;
  CHECK(found);
  return found;
}

}  // namespace

TEST_CASE("links by name: both directions in all planes, in one plane, one way") {
  Bench b;
  auto applied = b.run("link t0-1 t1-2 down");
  REQUIRE(applied.links.size() == 8);
  for (unsigned plane = 0; plane < 4; ++plane) {
    REQUIRE(b.down(LinkKind::kT0ToT1, plane, 1, 2));
    REQUIRE(b.down(LinkKind::kT1ToT0, plane, 1, 2));
    REQUIRE_FALSE(b.down(LinkKind::kT0ToT1, plane, 1, 3));
  }
  b.run("link t1-2 t0-1 up");  // either order
  REQUIRE_FALSE(b.down(LinkKind::kT0ToT1, 3, 1, 2));
  applied = b.run("link t0-1 t1-2 plane 3 down");
  REQUIRE(applied.links.size() == 2);
  REQUIRE(b.down(LinkKind::kT1ToT0, 3, 1, 2));
  REQUIRE_FALSE(b.down(LinkKind::kT1ToT0, 2, 1, 2));
  b.run("clear");
  for (const char* text : {"link t1-0 t0-0 oneway down", "link t1-0 t0-0 down oneway",
                           "link t1-0 t0-0 plane 0 down oneway", "link t1-0 t0-0 oneway plane 0 down"}) {
    applied = b.run(text);
    REQUIRE(applied.links[0].kind == LinkKind::kT1ToT0);
    REQUIRE(b.down(LinkKind::kT1ToT0, 0, 0, 0));
    REQUIRE_FALSE(b.down(LinkKind::kT0ToT1, 0, 0, 0));
    b.run("clear");
    REQUIRE_FALSE(b.down(LinkKind::kT1ToT0, 0, 0, 0));
  }
}

TEST_CASE("NICs by their number over all T0s, or by T0 and index") {
  Bench b;
  for (const char* text : {"link nic3 t0-1 plane 0 down", "link nic-3 t0-1 plane 0 down",
                           "link nic1.1 t0-1 plane 0 down", "link nic-1.1 t0-1 plane 0 down",
                           "link t0-1 nic 3 plane 0 down", "port nic3 plane 0 down", "port nic 1.1 plane 0 down"}) {
    b.run("clear");
    b.run(text);
    REQUIRE(b.down(LinkKind::kNicToT0, 0, 1, 1));
    REQUIRE(b.down(LinkKind::kT0ToNic, 0, 1, 1));
  }
  REQUIRE(nic_name(b.clos, {1, 1}) == "nic3");
  REQUIRE(name_of(b.clos, {UsidKind::kT1, 2, 3}) == "t1-3");
  b.run("clear");
  b.run("link t0-0 nic4 plane 2 down oneway");  // to the NIC
  REQUIRE(b.down(LinkKind::kT0ToNic, 2, 0, 2));
  REQUIRE_FALSE(b.down(LinkKind::kNicToT0, 2, 0, 2));
}

TEST_CASE("switches and planes go down and up") {
  Bench b;
  auto applied = b.run("switch t1-0 plane 2 down");
  REQUIRE(applied.switches.size() == 1);
  REQUIRE(b.clos.switch_down({UsidKind::kT1, 2, 0}));
  REQUIRE_FALSE(b.clos.switch_down({UsidKind::kT1, 1, 0}));
  REQUIRE(b.run("switch t0-1 down").switches.size() == 4);
  REQUIRE(b.clos.switch_down({UsidKind::kT0, 3, 1}));
  b.run("switch t0-1 up");
  REQUIRE_FALSE(b.clos.switch_down({UsidKind::kT0, 3, 1}));
  REQUIRE(b.run("plane 1 down").planes == std::vector<unsigned>{1});
  REQUIRE(b.clos.plane_down(1));
  b.run("plane 1 up");
  REQUIRE_FALSE(b.clos.plane_down(1));
}

TEST_CASE("chances: of the fabric, a plane, a switch, a link; several at once; they stay until set again") {
  Bench b;
  REQUIRE(b.run("loss 0.1%").fabric);
  REQUIRE(close(b.clos.global_impairment().loss, 0.001));
  b.run("duplicate 0.01 corrupt 2% reorder 1% 20us delay 5us ecn 3% trim 4%");
  const Impairment& g = b.clos.global_impairment();
  REQUIRE(close(g.loss, 0.001));
  REQUIRE(close(g.duplicate, 0.01));
  REQUIRE(close(g.corrupt, 0.02));
  REQUIRE(close(g.reorder, 0.01));
  REQUIRE(g.reorder_delay == microseconds(20));
  REQUIRE(g.delay == microseconds(5));
  REQUIRE(close(g.ecn, 0.03));
  REQUIRE(close(g.trim, 0.04));
  b.run("reorder 2% loss 0");
  REQUIRE(g.reorder_delay == microseconds(20));
  REQUIRE(close(g.reorder, 0.02));
  REQUIRE(g.loss == 0);
  b.run("burst 0.01% 20");
  REQUIRE(close(g.burst_enter, 0.0001));
  REQUIRE(g.burst_length == 20);
  REQUIRE(g.burst_loss == 1);
  b.run("burst 1% 7 50% dup 5%");
  REQUIRE(g.burst_loss == 0.5);
  REQUIRE(close(g.duplicate, 0.05));
  b.run("burst 0");
  REQUIRE(g.burst_enter == 0);
  b.run("plane 2 loss 1%");
  REQUIRE(close(b.clos.plane_impairment(2)->loss, 0.01));
  REQUIRE(b.clos.plane_impairment(1)->loss == 0);
  b.run("switch t1-3 plane 0 loss 7%");
  REQUIRE(close(b.clos.switch_impairment({UsidKind::kT1, 0, 3})->loss, 0.07));
  b.run("link nic3 t0-1 plane 2 loss 5%");
  b.run("link nic3 t0-1 plane 2 delay 5us");
  const Impairment& link = *b.clos.link_impairment({LinkKind::kT0ToNic, 2, 1, 1});
  REQUIRE(close(link.loss, 0.05));
  REQUIRE(link.delay == microseconds(5));
  b.run("link nic3 t0-1 plane 2 clear");
  REQUIRE(link == Impairment{});
  b.run("plane 2 clear");
  REQUIRE(b.clos.plane_impairment(2)->loss == 0);
  b.run("clear");
  REQUIRE(g == Impairment{.reorder_delay = microseconds(20)});
  REQUIRE(b.clos.switch_impairment({UsidKind::kT1, 0, 3})->loss == 0);
}

TEST_CASE("flapping") {
  Bench b;
  b.run("link t0-0 t1-1 plane 0 flap 10ms 25% 1ms");
  const LinkId id{LinkKind::kT1ToT0, 0, 0, 1};
  REQUIRE(b.clos.link(id)->flap() == Flap{milliseconds(10), microseconds(2500), milliseconds(1)});
  REQUIRE(b.clos.next_flap(Tick{}) == kNever);  // no NIC's
  b.run("port nic0 plane 1 flap 10ms 50%");
  REQUIRE(b.clos.next_flap(Tick{}) == Tick{5'000'000});
  REQUIRE_FALSE(b.clos.carrier({{0, 0}, 1}, Tick{1}));
  REQUIRE(b.clos.carrier({{0, 0}, 1}, Tick{5'000'000}));
  REQUIRE(b.clos.carrier({{0, 0}, 1}));
  b.run("port nic0 flap off");
  REQUIRE(b.clos.next_flap(Tick{}) == kNever);
  b.run("port nic0 flap 1ms 0.5");
  b.run("port nic0 up");
  REQUIRE(b.clos.next_flap(Tick{}) == kNever);
  b.run("link t0-0 t1-1 up");
  REQUIRE_FALSE(b.clos.link(id)->flap().on());
}

TEST_CASE("rates: a share of the configured one, a rate of one's own, the configured one again") {
  ClosConfig config{.planes = 4, .t0s = 2, .t1s = 4, .nics = 4};
  config.set_rates(40'000'000'000, 10'000'000'000, microseconds(10));
  config.plane_rate[3] = 0.5;
  Bench b{.clos = Clos(config)};
  const LinkId nic{LinkKind::kNicToT0, 0, 0, 0}, last{LinkKind::kT0ToNic, 0, 0, 0}, up{LinkKind::kT0ToT1, 0, 0, 0},
      uneven{LinkKind::kT0ToT1, 3, 0, 0};
  REQUIRE(b.clos.link(uneven)->queue().bps() == 5'000'000'000);
  b.run("link nic0 t0-0 rate 25%");
  REQUIRE(b.clos.link(nic)->queue().bps() == 10'000'000'000);
  REQUIRE(b.clos.link(last)->queue().bps() == 10'000'000'000);
  REQUIRE(b.clos.link(last)->model().trim_at == config.t0_to_nic.trim_at);
  b.run("plane 3 rate 50%");
  REQUIRE(b.clos.link(uneven)->queue().bps() == 2'500'000'000);
  b.run("link t0-0 t1-0 plane 0 rate 1.5G");
  REQUIRE(b.clos.link(up)->queue().bps() == 1'500'000'000);
  b.run("rate full");
  REQUIRE(b.clos.link(nic)->queue().bps() == 40'000'000'000);
  REQUIRE(b.clos.link(up)->queue().bps() == 10'000'000'000);
  REQUIRE(b.clos.link(uneven)->queue().bps() == 5'000'000'000);
  Bench free;
  REQUIRE_FALSE(free.clos.rated());
  says(free.error("link nic0 t0-0 rate 25%"), "not limited");
  free.run("link nic0 t0-0 rate 10G");
  REQUIRE(free.clos.rated());
  REQUIRE(free.clos.link(last)->queue().bps() == 10'000'000'000);
  REQUIRE(free.clos.link(last)->model().drop_at > 0);  // every queue has a limit
  free.run("clear");
  REQUIRE_FALSE(free.clos.rated());
}

TEST_CASE("ECN and trimming on and off") {
  ClosConfig config{.nics = 1};
  config.set_rates(10'000'000'000, microseconds(10));
  Bench b{.clos = Clos(config)};
  const LinkId id{LinkKind::kT0ToT1, 1, 1, 1};
  b.run("ecn off");
  REQUIRE(b.clos.link(id)->model().ecn_max == 0);
  REQUIRE(b.clos.link(id)->model().trim_at != 0);
  b.run("trim off ecn on");
  REQUIRE(b.clos.link(id)->model().ecn_max == config.t0_t1.ecn_max);
  REQUIRE(b.clos.link(id)->model().trim_at == 0);
  b.run("clear");
  REQUIRE(b.clos.link(id)->model() == config.t0_t1);
}

TEST_CASE("mrc-switch's older words stay") {
  Bench b;
  b.run("plane 1 down");
  b.run("plane 1 up");
  REQUIRE(b.run("t0 2 1 down").switches.size() == 1);
  REQUIRE(b.clos.switch_down({UsidKind::kT0, 2, 1}));
  b.run("t1 0 3 down");
  REQUIRE(b.clos.switch_down({UsidKind::kT1, 0, 3}));
  REQUIRE(b.run("link 2 1 3 down").links.size() == 2);
  REQUIRE(b.down(LinkKind::kT0ToT1, 2, 1, 3));
  REQUIRE(b.down(LinkKind::kT1ToT0, 2, 1, 3));
  b.run("nic 3 0 2 down");
  REQUIRE(b.down(LinkKind::kNicToT0, 3, 0, 2));
  REQUIRE_FALSE(b.clos.carrier({{0, 2}, 3}));
  b.run("nic 3 0 2 up");
  REQUIRE(b.clos.carrier({{0, 2}, 3}));
  b.run("impair loss 0.01 dup 0.02 reorder 0.03 corrupt 0.04 ecn 0.05 trim 0.06 delay 50");
  REQUIRE(close(b.clos.global_impairment().duplicate, 0.02));
  REQUIRE(b.clos.global_impairment().delay == microseconds(50));
  b.run("impair plane 1 loss 0.5 delay 2ms");
  REQUIRE(b.clos.plane_impairment(1)->loss == 0.5);
  b.run("impair plane 1 clear");
  REQUIRE(*b.clos.plane_impairment(1) == Impairment{});
  b.run("impair clear loss 0.25");
  REQUIRE(b.clos.global_impairment() == Impairment{.loss = 0.25});
  REQUIRE(b.down(LinkKind::kT0ToT1, 2, 1, 3));  // `impair clear` clears chances only
}

TEST_CASE("errors are sentences that name what is valid, and nothing changes") {
  Bench b;
  says(b.error(""), "loss P");
  says(b.error("frobnicate"), "'frobnicate' is no action");
  says(b.error("link t0-9 t1-0 down"), "t0-0 to t0-1");
  says(b.error("link t0-0 t1-4 down"), "t1-0 to t1-3");
  says(b.error("link nic8 t0-0 down"), "nic0 to nic7");
  says(b.error("link t0-0 nic3 down"), "nic3 sits under t0-1");
  says(b.error("link t0-0 t0-1 down"), "no link between");
  says(b.error("link t1-0 nic0 down"), "no link between");
  says(b.error("link t0-0 down"), "no name of a link's other end");
  says(b.error("link t0-0"), "ends where");
  says(b.error("link x y down"), "t0-N, t1-N or nicN");
  says(b.error("link t0-0 t1-0"), "names no action");
  says(b.error("link t0-0 t1-0 plane 4 down"), "only 0 to 3");
  says(b.error("link t0-0 t1-0 plane x down"), "no plane's number");
  says(b.error("plane"), "wants a number");
  says(b.error("plane 7 down"), "only 0 to 3");
  says(b.error("plane 1"), "names no action");
  says(b.error("switch nic0 down"), "no switch");
  says(b.error("switch t2-0 down"), "t0-N, t1-N");
  says(b.error("port t0-0 down"), "port nicN");
  says(b.error("down"), "say what goes down");
  says(b.error("loss"), "wants a chance");
  says(b.error("loss 5"), "0.1%");
  says(b.error("loss -1%"), "no chance");
  says(b.error("loss 101%"), "no chance");
  says(b.error("loss nan"), "no chance");
  says(b.error("delay 5parsecs"), "no time");
  says(b.error("delay -5us"), "no time");
  says(b.error("burst 1%"), "mean length");
  says(b.error("burst 1% 0.5"), "1 or more");
  says(b.error("flap 10ms 50%"), "only links and ports");
  says(b.error("port nic0 flap 10ms"), "share");
  says(b.error("port nic0 flap 0 50%"), "1us or more");
  says(b.error("switch t0-0 rate 5G"), "not to switches");
  says(b.error("rate 5X"), "bits per second");
  says(b.error("plane 0 rate 0%"), "more than 0%");
  says(b.error("plane 0 ecn off"), "whole fabric");
  says(b.error("link t0-0 t1-0 oneway"), "no action");
  says(b.error("impair link t0-0 t1-0 loss 1%"), "leave it out");
  says(b.error("loss 1% link"), "'link' is no action");
  says(b.error("link t0-0 t1-0 down loss 700%"), "no chance");
  REQUIRE_FALSE(b.down(LinkKind::kT0ToT1, 0, 0, 0));  // the first half was not done either
  std::string longest;
  for (int i = 0; i < 40; ++i) longest += "loss 1% ";
  says(b.error(longest), "more than 64 words");
  says(b.error(std::string("link \x01\xff\n t1-0 down")), "'?\?'");
  bool clean = true;
  for (const auto& row : status(b.clos, Tick{}).links) clean = clean && row.up && !row.degraded && !row.flapping;
  REQUIRE(clean);
  REQUIRE(b.clos.global_impairment() == Impairment{});
  const auto refused = apply_command(b.clos, "corrupt 1%", {.may_corrupt = false, .why_not_corrupt = "not here"});
  REQUIRE_FALSE(refused);
  REQUIRE(refused.error().text == "not here");
  REQUIRE(apply_command(b.clos, "corrupt 0", {.may_corrupt = false}));
}

TEST_CASE("garbage never crashes, hangs or half-applies; check and apply agree") {
  REQUIRE(rc::check([](std::uint64_t seed) {
    static constexpr std::array kWords{"link",
                                       "port",
                                       "switch",
                                       "plane",
                                       "t0",
                                       "t1",
                                       "nic",
                                       "impair",
                                       "t0-0",
                                       "t0-1",
                                       "t1-0",
                                       "t1-3",
                                       "nic0",
                                       "nic3",
                                       "nic-2",
                                       "nic0.1",
                                       "nic.",
                                       "down",
                                       "up",
                                       "clear",
                                       "loss",
                                       "dup",
                                       "burst",
                                       "flap",
                                       "rate",
                                       "ecn",
                                       "trim",
                                       "on",
                                       "off",
                                       "delay",
                                       "0",
                                       "1",
                                       "2",
                                       "7",
                                       "65536",
                                       "1%",
                                       "0.5",
                                       "50%",
                                       "5us",
                                       "10G",
                                       "full",
                                       "oneway",
                                       "1e400",
                                       "-0",
                                       "-1",
                                       "nan",
                                       "%",
                                       "9999s",
                                       "99999999999999999999",
                                       "t0-",
                                       "t1-4294967296",
                                       "corrupt",
                                       "reorder",
                                       "\xff\xfe",
                                       "1e-400",
                                       ".",
                                       "0x10",
                                       "inf"};
    Random random(seed);
    Bench b;
    for (int i = 0; i < 100; ++i) {
      std::string text;
      const unsigned n = random.below(9);
      for (unsigned k = 0; k < n; ++k) {
        if (random.below(20) == 0) {
          for (unsigned c = random.below(12); c > 0; --c) text += static_cast<char>(random.next());
        } else {
          text += kWords[random.below(kWords.size())];
        }
        text += random.below(10) == 0 ? "\t" : " ";
      }
      const auto checked = check_command(b.clos, text);
      const auto applied = apply_command(b.clos, text);
      RC_ASSERT(checked.has_value() == applied.has_value());
      if (!applied) RC_ASSERT(!applied.error().text.empty());
      if (!applied) RC_ASSERT(applied.error().code > 0);
    }
    RC_ASSERT(apply_command(b.clos, "clear").has_value());
    for (const auto& row : status(b.clos, Tick{123456789}).links) RC_ASSERT(row.up && row.bps == 0u);
  }));
}

TEST_CASE("values") {
  REQUIRE(parse_time("300ns") == nanoseconds(300));
  REQUIRE(parse_time("1.5ms") == microseconds(1500));
  REQUIRE(parse_time("2s") == seconds(2));
  REQUIRE(parse_time("7") == microseconds(7));
  REQUIRE(parse_rate("2.5G") == 2'500'000'000u);
  REQUIRE(parse_rate("400000000") == 400'000'000u);
  REQUIRE(parse_rate("1T") == 1'000'000'000'000u);
  REQUIRE_FALSE(parse_rate("10"));
  REQUIRE(close(*parse_chance("0.05%"), 0.0005));
}
