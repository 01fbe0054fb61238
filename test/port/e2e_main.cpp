// SPDX-License-Identifier: BSD-2-Clause
// Main of the tests that open real ports, and of the children that they kill: enters a fresh network namespace
// first, or skips (exit 77) and says why.
#define CATCH_CONFIG_RUNNER
#include <sched.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "port/ports.hpp"
#include "support/catch.hpp"

int main(int argc, char** argv) {
  if (argc == 3 && std::strcmp(argv[1], "--flood") == 0) return mrc::port::test::flood(argv[2]), 1;
  if (argc == 3 && std::strcmp(argv[1], "--echo") == 0) return mrc::port::test::echo(argv[2]), 1;
  if (unshare(CLONE_NEWNET) != 0) {
    std::fprintf(stderr, "skipped: a network namespace needs root (unshare: %s)\n", std::strerror(errno));
    return 77;
  }
  if (std::system("ip link set lo up") != 0) {
    std::fprintf(stderr, "skipped: the program ip (iproute2) does not work here\n");
    return 77;
  }
  return Catch::Session().run(argc, argv);
}
