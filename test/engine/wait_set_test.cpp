// SPDX-License-Identifier: BSD-2-Clause
// Sleeping: only news wake, none gets lost.
#include "mrc/engine/wait_set.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <vector>

#include "support/catch.hpp"

using namespace mrc;
using mrc::engine::WaitSet;

namespace {

bool readable(int fd) {
  pollfd p{.fd = fd, .events = POLLIN, .revents = 0};
  return poll(&p, 1, 0) == 1;
}

void signal(int fd) {
  const std::uint64_t one = 1;
  REQUIRE(write(fd, &one, sizeof(one)) == sizeof(one));
}

}  // namespace

TEST_CASE("a wait set is readable by news only") {
  WaitSet set;
  REQUIRE(set.open().has_value());
  const int source = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  set.watch(std::vector<int>{source});
  REQUIRE_FALSE(readable(set.fd()));
  signal(source);
  REQUIRE(readable(set.fd()));
  set.settle();
  REQUIRE_FALSE(readable(set.fd()));  // though nobody has read the source
  signal(source);
  REQUIRE(readable(set.fd()));
  REQUIRE(set.wait(nanoseconds(-1)));
  REQUIRE_FALSE(set.wait(milliseconds(1)));
  set.watch({});
  signal(source);
  REQUIRE_FALSE(readable(set.fd()));
  close(source);
}

TEST_CASE("timer and kick end a sleep") {
  WaitSet set;
  REQUIRE(set.open().has_value());
  set.set_timer(milliseconds(2));
  REQUIRE(set.wait(seconds(5)));
  set.settle();
  set.clear_timer();
  REQUIRE_FALSE(set.wait(milliseconds(3)));
  set.kick();
  REQUIRE(set.wait(seconds(5)));
  set.settle();
  REQUIRE_FALSE(readable(set.fd()));
  set.kick();
  set.pause(seconds(5));  // returns at once
  REQUIRE_FALSE(readable(set.fd()));
}
