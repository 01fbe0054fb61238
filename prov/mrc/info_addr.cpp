// SPDX-License-Identifier: BSD-2-Clause
// Source and destination addresses of an info: from node and service (numbers or names), or from the hints.
#include <netdb.h>

#include <cstring>
#include <memory>

#include "info.hpp"
#include "log.hpp"

namespace mrc::prov {

namespace {

/// One {node, service} as a name; prefers IPv4. Nothing, after a log line, if it does not resolve.
std::optional<EndpointName> look_up(const char* node, const char* service, bool source, bool numeric, bool& was_ipv6) {
  addrinfo want{};
  want.ai_socktype = SOCK_DGRAM;
  want.ai_flags = (source ? AI_PASSIVE : 0) | (numeric ? AI_NUMERICHOST : 0);
  int error = 0;
  for (const int family : {AF_INET, AF_INET6}) {
    want.ai_family = family;
    addrinfo* raw = nullptr;
    error = getaddrinfo(node, service, &want, &raw);
    if (error != 0) continue;
    const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> list(raw, freeaddrinfo);
    for (const addrinfo* i = raw; i != nullptr; i = i->ai_next) {
      if (const auto name = name_of(i->ai_addr, i->ai_addrlen)) {
        was_ipv6 = family == AF_INET6;
        return name;
      }
    }
  }
  if (error != 0)
    MRC_INFO(CORE, "node \"%s\", service \"%s\": %s", node != nullptr ? node : "", service != nullptr ? service : "",
             gai_strerror(error));
  else
    MRC_INFO(CORE, "node \"%s\" has only IPv6 addresses that are no inner addresses of an MRC fabric", node);
  return std::nullopt;
}

struct Picked {
  std::optional<EndpointName> name;
  Sockaddr raw;
  bool ipv6 = false;
  bool exact = false;  ///< `raw` holds the application's own bytes
};

/// An address of the hints; false if there is one that is not ours.
bool take(const char* what, const void* address, std::size_t length, Picked& out) {
  if (address == nullptr || length == 0) return true;
  out.name = name_of(address, length);
  if (!out.name) {
    MRC_INFO(CORE, "hints->%s is neither a sockaddr_in nor an IPv4-mapped or inner sockaddr_in6", what);
    return false;
  }
  sa_family_t family = 0;
  std::memcpy(&family, address, sizeof family);
  out.ipv6 = family == AF_INET6;
  out.exact = true;
  out.raw.length = out.ipv6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  std::memcpy(&out.raw.v6, address, out.raw.length);
  return true;
}

Sockaddr as(const Picked& picked, bool ipv6) {
  return picked.exact && picked.ipv6 == ipv6 ? picked.raw : sockaddr_of(*picked.name, ipv6);
}

}  // namespace

int resolve_addresses(const char* node, const char* service, std::uint64_t flags, const fi_info* hints,
                      Addresses& out) {
  Picked source;
  Picked destination;
  const bool is_source = (flags & FI_SOURCE) != 0;
  if (hints != nullptr) {
    const bool named = node != nullptr || service != nullptr;
    if (!(named && is_source) && !take("src_addr", hints->src_addr, hints->src_addrlen, source)) return -FI_ENODATA;
    if (!(named && !is_source) && !take("dest_addr", hints->dest_addr, hints->dest_addrlen, destination))
      return -FI_ENODATA;
  }
  if (node != nullptr || service != nullptr) {
    Picked& picked = is_source ? source : destination;
    picked.name = look_up(node, service, is_source, (flags & FI_NUMERICHOST) != 0, picked.ipv6);
    if (!picked.name) return -FI_ENODATA;
  }
  if (!source.name || source.name->ipv4 == 0) {
    const std::uint16_t port = source.name ? source.name->port : 0;
    source.name = EndpointName{host_ipv4(), port};
    source.exact = false;
  }

  const std::uint32_t asked = hints != nullptr ? hints->addr_format : std::uint32_t{FI_FORMAT_UNSPEC};
  const bool ipv6 = asked == FI_SOCKADDR_IN6 || (asked != FI_SOCKADDR_IN && (source.ipv6 || destination.ipv6));
  out.format = FI_SOCKADDR_IN;
  if (ipv6) out.format = FI_SOCKADDR_IN6;
  out.source = as(source, ipv6);
  out.has_destination = destination.name.has_value();
  if (out.has_destination) out.destination = as(destination, ipv6);
  return 0;
}

}  // namespace mrc::prov
