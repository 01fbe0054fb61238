// SPDX-License-Identifier: BSD-2-Clause
// Guests leave descriptors, signals and affinity as they found them.
#include "datapath/port/process.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <csignal>

#include "support/catch.hpp"

using namespace mrc::port;

TEST_CASE("descriptors opened since a snapshot get CLOEXEC, older ones are left alone", "[process]") {
  std::array<int, 2> old{};
  REQUIRE(pipe(old.data()) == 0);
  const DescriptorSnapshot snapshot;
  REQUIRE(snapshot.opened_since().empty());
  const int socket_fd = socket(AF_UNIX, SOCK_STREAM, 0);
  const int file = open("/dev/null", O_RDONLY);
  REQUIRE(snapshot.opened_since() == std::vector{socket_fd, file});
  snapshot.close_on_exec(true);
  REQUIRE((fcntl(socket_fd, F_GETFD) & FD_CLOEXEC) != 0);
  REQUIRE((fcntl(file, F_GETFD) & FD_CLOEXEC) == 0);  // not a driver's kind
  snapshot.close_on_exec(false);
  REQUIRE((fcntl(file, F_GETFD) & FD_CLOEXEC) != 0);
  REQUIRE((fcntl(old[0], F_GETFD) & FD_CLOEXEC) == 0);
  for (const int descriptor : {old[0], old[1], socket_fd, file}) close(descriptor);
}

TEST_CASE("a SIGPIPE inside a signal block is swallowed and the mask comes back", "[process]") {
  std::array<int, 2> ends{};
  REQUIRE(pipe(ends.data()) == 0);
  close(ends[0]);
  sigset_t before, after;
  pthread_sigmask(SIG_SETMASK, nullptr, &before);
  {
    const SignalBlock block;
    REQUIRE(write(ends[1], "x", 1) == -1);
  }
  pthread_sigmask(SIG_SETMASK, nullptr, &after);
  for (int number = 1; number < 32; ++number) REQUIRE(sigismember(&before, number) == sigismember(&after, number));
  close(ends[1]);
}

TEST_CASE("affinity is put back and listed as EAL writes it", "[process]") {
  cpu_set_t before, after;
  REQUIRE(sched_getaffinity(0, sizeof before, &before) == 0);
  {
    const AffinityKeeper keeper;
    REQUIRE(!keeper.list().empty());
    cpu_set_t one;
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
      if (CPU_ISSET(cpu, &before)) {
        CPU_SET(cpu, &one);
        break;
      }
    REQUIRE(sched_setaffinity(0, sizeof one, &one) == 0);
    const AffinityKeeper pinned;
    REQUIRE(pinned.list().find_first_of("-,") == std::string::npos);
  }
  REQUIRE(sched_getaffinity(0, sizeof after, &after) == 0);
  REQUIRE(CPU_EQUAL(&before, &after));
}
