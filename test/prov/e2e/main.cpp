// SPDX-License-Identifier: BSD-2-Clause
// fi_talk: two processes talk over the real provider through libfabric's public interface, and check what they see.
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <vector>

#include "talk.hpp"

namespace {

int side(int fd, bool client, bool overrun, const char* only) {
  const char* current = "setup";
  try {
    talk::Line line(fd);
    talk::Host host;
    talk::Pair pair{host, line, client};
    using Tests = std::vector<std::vector<talk::Test>>;
    const Tests all =
        overrun ? Tests{talk::overrun_tests()}
                : Tests{talk::binding_tests(), talk::context_tests(), talk::message_tests(), talk::matching_tests(),
                        talk::rma_tests(),     talk::trigger_tests(), talk::atomic_tests(),  talk::wait_tests()};
    for (const auto& group : all)
      for (const auto& test : group) {
        if (only != nullptr && std::strstr(test.name, only) == nullptr) continue;
        current = test.name;
        const double start = talk::now();
        test.run(pair);
        if (client) std::printf("   ok %-28s %6.0f ms\n", test.name, (talk::now() - start) * 1e3);
        std::fflush(stdout);
      }
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "fi_talk %s: %s: %s\n", client ? "client" : "server", current, e.what());
    return 1;
  }
}

}  // namespace

/// fi_talk [talk|overrun [TEST]] | failures [PEER_IP] | victim FD SERVICE
int main(int argc, char** argv) {
  const char* mode = argc > 1 ? argv[1] : "talk";
  alarm(55);  // a hang is a failure
  try {
    if (std::strcmp(mode, "victim") == 0 && argc == 4) {
      talk::victim(std::atoi(argv[2]), argv[3]);
      return 0;
    }
    if (std::strcmp(mode, "failures") == 0) {
      talk::failures(argv[0], argc > 2 ? argv[2] : nullptr);
      return 0;
    }
    int fds[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds) != 0) return 1;
    const char* only = argc > 2 ? argv[2] : nullptr;
    const bool overrun = std::strcmp(mode, "overrun") == 0;
    const pid_t child = fork();
    if (child == 0) {
      alarm(55);  // a fork inherits none
      close(fds[0]);
      return side(fds[1], false, overrun, only);
    }
    close(fds[1]);
    int result = side(fds[0], true, overrun, only), status = 0;
    close(fds[0]);
    waitpid(child, &status, 0);
    return result != 0 || status != 0 ? 1 : 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "fi_talk %s: %s\n", mode, e.what());
    return 1;
  }
}
