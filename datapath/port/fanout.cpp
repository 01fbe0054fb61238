// SPDX-License-Identifier: BSD-2-Clause
// net_af_packet puts even a single queue into a fan-out group whose id is (pid ^ interface index) & 0xffff. Ranks have
// neighbouring pids and their ports neighbouring indices, so two processes easily name one group on two interfaces,
// and the kernel refuses the second (EINVAL). A group of one does nothing: the request is dropped at link time.
#include <linux/if_packet.h>
#include <sys/socket.h>

extern "C" {
// NOLINTBEGIN(bugprone-reserved-identifier)
int __real_setsockopt(int socket, int level, int name, const void* value, socklen_t length);
int __wrap_setsockopt(int socket, int level, int name, const void* value, socklen_t length);

int __wrap_setsockopt(int socket, int level, int name, const void* value, socklen_t length) {
  if (level == SOL_PACKET && name == PACKET_FANOUT) return 0;
  return __real_setsockopt(socket, level, name, value, length);
}
// NOLINTEND(bugprone-reserved-identifier)
}
