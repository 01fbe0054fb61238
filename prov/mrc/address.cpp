// SPDX-License-Identifier: BSD-2-Clause
// Conversion between names and socket addresses, and the host's own address.
#include "address.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>

namespace mrc::prov {

std::optional<EndpointName> name_of(const void* address, std::size_t length) {
  if (address == nullptr || length < sizeof(sa_family_t)) return std::nullopt;
  sa_family_t family = 0;
  std::memcpy(&family, address, sizeof family);
  if (family == AF_INET && length >= sizeof(sockaddr_in)) {
    sockaddr_in v4{};
    std::memcpy(&v4, address, sizeof v4);
    return EndpointName{ntohl(v4.sin_addr.s_addr), ntohs(v4.sin_port)};
  }
  if (family != AF_INET6 || length < sizeof(sockaddr_in6)) return std::nullopt;
  sockaddr_in6 v6{};
  std::memcpy(&v6, address, sizeof v6);
  const std::uint8_t* b = v6.sin6_addr.s6_addr;
  const auto be16 = [b](std::size_t at) { return static_cast<std::uint16_t>(b[at] << 8 | b[at + 1]); };
  const std::uint16_t port = ntohs(v6.sin6_port);
  if (IN6_IS_ADDR_UNSPECIFIED(&v6.sin6_addr)) return EndpointName{0, port};
  if (IN6_IS_ADDR_LOOPBACK(&v6.sin6_addr)) return EndpointName{INADDR_LOOPBACK, port};
  if (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr))
    return EndpointName{static_cast<std::uint32_t>(be16(12)) << 16 | be16(14), port};
  // An inner address carries the port itself; a different one beside it is a contradiction.
  if (be16(14) != 0 || (port != 0 && be16(12) != 0 && port != be16(12))) return std::nullopt;
  return EndpointName{static_cast<std::uint32_t>(be16(8)) << 16 | be16(10), be16(12) != 0 ? be16(12) : port};
}

Sockaddr sockaddr_of(const EndpointName& name, bool ipv6) {
  Sockaddr out;
  if (!ipv6) {
    out.v4 = sockaddr_in{};
    out.v4.sin_family = AF_INET;
    out.v4.sin_port = htons(name.port);
    out.v4.sin_addr.s_addr = htonl(name.ipv4);
    out.length = sizeof(sockaddr_in);
    return out;
  }
  out.v6.sin6_family = AF_INET6;
  out.v6.sin6_port = htons(name.port);
  std::uint8_t* b = out.v6.sin6_addr.s6_addr;
  b[10] = b[11] = 0xff;
  const std::uint32_t ipv4 = htonl(name.ipv4);
  std::memcpy(b + 12, &ipv4, sizeof ipv4);
  out.length = sizeof(sockaddr_in6);
  return out;
}

bool is_peer(const EndpointName& name) {
  return name.port != 0 && name.ipv4 >> 24 != 0 && name.ipv4 < 0xe0000000;
}

namespace {

std::uint32_t routed_ipv4() {
  const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return 0;
  // Nothing is sent: connect only asks the kernel which source address it would use.
  const Sockaddr to = sockaddr_of(EndpointName{0xc0000201 /* 192.0.2.1, documentation */, 9}, false);
  std::uint32_t ipv4 = 0;
  if (connect(fd, &to.any, to.length) == 0) {
    Sockaddr from;
    socklen_t length = sizeof(sockaddr_in);
    if (getsockname(fd, &from.any, &length) == 0) ipv4 = ntohl(from.v4.sin_addr.s_addr);
  }
  close(fd);
  return ipv4;
}

std::uint32_t interface_ipv4() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return 0;
  std::uint32_t ipv4 = 0;
  for (const ifaddrs* i = list; i != nullptr && ipv4 == 0; i = i->ifa_next) {
    if (i->ifa_addr == nullptr || i->ifa_addr->sa_family != AF_INET) continue;
    if ((i->ifa_flags & IFF_UP) == 0 || (i->ifa_flags & IFF_LOOPBACK) != 0) continue;
    ipv4 = name_of(i->ifa_addr, sizeof(sockaddr_in))->ipv4;
  }
  freeifaddrs(list);
  return ipv4;
}

}  // namespace

std::uint32_t host_ipv4() {
  if (const std::uint32_t ipv4 = routed_ipv4(); ipv4 != 0 && ipv4 >> 24 != 127) return ipv4;
  if (const std::uint32_t ipv4 = interface_ipv4(); ipv4 != 0) return ipv4;
  return INADDR_LOOPBACK;
}

}  // namespace mrc::prov
