// SPDX-License-Identifier: BSD-2-Clause
// Names of endpoints as libfabric sees them: sockaddr_in, or sockaddr_in6 that is IPv4-mapped or exactly the inner
// address (fabric 48 bits | T0 16 | IPv4 32 | port 16 | 0). Both mean the same {IPv4, port}.
#pragma once

#include <netinet/in.h>

#include <cstddef>
#include <cstdint>
#include <optional>

#include "objects.hpp"

namespace mrc::prov {

/// A socket address of either family, with its length.
struct Sockaddr {
  union {
    sockaddr any;
    sockaddr_in v4;
    sockaddr_in6 v6;
  };
  socklen_t length = 0;
  Sockaddr() : v6{} {}
  bool ipv6() const { return any.sa_family == AF_INET6; }
};

/// The name in a socket address of at most `length` bytes; nothing if it is not one of the forms above. The IPv4 may
/// still be an alias, and IPv4 or port may be 0 (a wildcard for sources): see is_peer().
std::optional<EndpointName> name_of(const void* address, std::size_t length);

/// As sockaddr_in, or as an IPv4-mapped sockaddr_in6.
Sockaddr sockaddr_of(const EndpointName& name, bool ipv6);

/// Can an endpoint be there? (Not 0, not multicast, with a port.)
bool is_peer(const EndpointName& name);

/// The host's primary IPv4, host order: of the way out of here, else of the first interface, else 127.0.0.1.
std::uint32_t host_ipv4();

}  // namespace mrc::prov
