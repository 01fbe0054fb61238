// SPDX-License-Identifier: BSD-2-Clause
// Links with rates in real time: a rate holds senders back without loss, queues mark and drop where it narrows, and
// everything is accounted for. No upper bounds on time: a busy machine may be as slow as it likes.
#include "switch_fixture.hpp"

using namespace mrc;
using namespace mrc::test;

namespace {

constexpr int kFrame = 14 + 80 + 8 + 1400;  ///< of a packet with 1400 bytes

Json status_of(const Switch& fabric) {
  return Json::parse(fabric.ctl("status --json"));
}

std::uint64_t sum(const Json& status, const char* field, const char* from) {
  std::uint64_t all = 0;
  for (const auto& link : status["links"]) {
    if (link["from"].get<std::string>().starts_with(from)) all += link[field].get<std::uint64_t>();
  }
  return all;
}

/// `rounds` packets of 1400 bytes over each way from a to b, and how long that took. b takes `wanted` of them; all
/// that come within four seconds if that is not known.
double stream(Peer& a, Peer& b, int rounds, int sent, int wanted, std::string& got) {
  b.say(fmt::format("receive {} {}", wanted > 0 ? wanted : sent + 1, wanted > 0 ? 100000 : 4000));
  const Tick start = control::monotonic_now();
  REQUIRE(a.ask(fmt::format("send 10.99.0.1 1201 10.99.0.1 1202 {} 1400", rounds), 120000) ==
          fmt::format("sent {}", sent));
  const double took = static_cast<double>((control::monotonic_now() - start).ns) * 1e-9;
  got = b.hear(120000);
  return took;
}

}  // namespace

TEST_CASE("a rate holds the sender back, and loses nothing") {
  Switch fabric({"--planes", "2", "--t1", "2", "--rate", "50M", "--link-delay", "20us"});
  Peer a(fabric.socket, "a"), b(fabric.socket, "b");
  REQUIRE(a.ask("register 10.99.0.1 1201") == "ok");
  REQUIRE(b.ask("register 10.99.0.1 1202") == "ok");
  std::string got;
  const double took = stream(a, b, 1000, 4000, 4000, got);
  CHECK(got == "received good=4000 bad=0 duplicates=0 ways=4 least=1000");
  // 2000 frames a plane at 50 Mb/s; what its ring and the NIC's queue hold when the sender is done is still to go.
  const double wire = (2000.0 - 512 - 32) * (kFrame + 24) * 8 / 50e6;
  INFO(took << " s for at least " << wire);
  CHECK(took > 0.9 * wire);
  const Json status = status_of(fabric);
  CHECK(status["totals"]["in_flight"] == 0);
  CHECK(status["totals"]["offered"] == 4000);
  CHECK(status["totals"]["delivered"] == 4000);

  // One plane at a tenth: nothing is lost, and it takes its time.
  CHECK(fabric.ctl("plane 1 rate 10%") == "ok\n");
  const double slow = stream(a, b, 700, 2800, 2800, got);
  CHECK(got == "received good=2800 bad=0 duplicates=0 ways=4 least=700");
  CHECK(slow > 0.9 * (1400.0 - 512 - 32) * (kFrame + 24) * 8 / 5e6);
}

TEST_CASE("where the fabric narrows its queues mark, then drop, and count each packet") {
  Switch fabric({"--planes", "1", "--t1", "2", "--rate", "1G", "--t1-rate", "20M"});
  Peer a(fabric.socket, "a"), b(fabric.socket, "b");
  REQUIRE(a.ask("register 10.99.0.1 1201") == "ok");
  REQUIRE(b.ask("register 10.99.0.1 1202") == "ok");
  std::string got;
  stream(a, b, 1500, 3000, 0, got);
  const Json status = status_of(fabric);
  INFO(got << " " << status["totals"].dump());
  const std::uint64_t lost = status["totals"]["dropped"], delivered = status["totals"]["delivered"];
  CHECK(status["totals"]["offered"] == 3000);
  CHECK(delivered + lost == 3000);
  CHECK(status["totals"]["in_flight"] == 0);
  CHECK(lost > 300);
  CHECK(status["totals"]["drops"]["queue"] == lost);
  CHECK(sum(status, "marked", "t0-0") > 10);  // ECT frames, on the T0-T1 links …
  CHECK(sum(status, "marked", "t0-1") == 0);  // … and never on the last hop
  CHECK(value_of(got, "good") == static_cast<int>(delivered));
  CHECK(value_of(got, "bad") == 0);

  // A cable that is cut takes what is under way on it, and clearing ends it.
  CHECK(fabric.ctl("link t0-0 t1-0 down") == "ok\n");
  stream(a, b, 5, 10, 5, got);
  CHECK(got == "received good=5 bad=0 duplicates=0 ways=1 least=5");
  CHECK(fabric.ctl("clear") == "ok\n");
  stream(a, b, 5, 10, 10, got);
  CHECK(got == "received good=10 bad=0 duplicates=0 ways=2 least=5");
}

TEST_CASE("rates come and go while frames flow; copies and corruption go hop by hop too") {
  Switch fabric({"--corrupt", "0", "--seed", "9"});
  Peer a(fabric.socket, "a"), b(fabric.socket, "b");
  REQUIRE(a.ask("register 10.99.0.1 1201") == "ok");
  REQUIRE(b.ask("register 10.99.0.1 1202") == "ok");
  std::string got;
  for (const char* command : {"rate 1G", "duplicate 20%", "rate full"}) {
    CHECK(fabric.ctl(command) == "ok\n");
    stream(a, b, 50, 800, 800, got);
    INFO(command << ": " << got);
    CHECK(value_of(got, "good") == 800);
    CHECK(value_of(got, "bad") == 0);
  }
  const Json status = status_of(fabric);
  CHECK(status["totals"]["in_flight"] == 0);
  CHECK(status["totals"]["offered"] == 2400);
  CHECK(status["totals"]["duplicated"] > 200);
  CHECK(status["totals"]["delivered"] == 2400 + status["totals"]["duplicated"].get<int>());
  CHECK(fabric.stats()["frames_held"] == 0);
}
