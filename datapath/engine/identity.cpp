// SPDX-License-Identifier: BSD-2-Clause
// The host's addresses, and names reserved with the kernel.
#include "mrc/engine/identity.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <linux/filter.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

namespace mrc::engine {
namespace {

constexpr std::uint32_t kLoopback = 0x7f000001;

struct Local {
  std::string interface;
  std::uint32_t ipv4;
  bool up, loopback;
};

std::vector<Local> interfaces() {
  std::vector<Local> out;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return out;
  for (const ifaddrs* it = list; it != nullptr; it = it->ifa_next) {
    if (it->ifa_addr == nullptr || it->ifa_addr->sa_family != AF_INET) continue;
    sockaddr_in address{};
    std::memcpy(&address, it->ifa_addr, sizeof(address));
    out.push_back({it->ifa_name, ntohl(address.sin_addr.s_addr), (it->ifa_flags & IFF_UP) != 0,
                   (it->ifa_flags & IFF_LOOPBACK) != 0});
  }
  freeifaddrs(list);
  return out;
}

// The interface of the default route with the lowest metric, "" if there is none.
std::string default_interface() {
  std::ifstream routes("/proc/net/route");
  std::string line, best;
  unsigned long best_metric = ~0ul;
  std::getline(routes, line);
  while (std::getline(routes, line)) {
    std::istringstream fields(line);
    std::string name;
    unsigned long destination = 1, gateway = 0, flags = 0, references = 0, use = 0, metric = 0, mask = 1;
    fields >> name >> std::hex >> destination >> gateway >> flags >> std::dec >> references >> use >> metric >>
        std::hex >> mask;
    if (!fields || destination != 0 || mask != 0 || (flags & 1) == 0 || metric >= best_metric) continue;
    best = name;
    best_metric = metric;
  }
  return best;
}

}  // namespace

std::string to_text(std::uint32_t ipv4) {
  return fmt::format("{}.{}.{}.{}", ipv4 >> 24, (ipv4 >> 16) & 0xff, (ipv4 >> 8) & 0xff, ipv4 & 0xff);
}

Result<std::uint32_t> parse_ipv4(const std::string& text) {
  in_addr address{};
  if (inet_pton(AF_INET, text.c_str(), &address) != 1) {
    return fail(EINVAL, fmt::format("\"{}\" is not an IPv4 address such as 10.77.0.1", text));
  }
  return ntohl(address.s_addr);
}

std::uint32_t primary_ipv4() {
  const std::vector<Local> all = interfaces();
  const std::string by_route = default_interface();
  for (const Local& one : all) {
    if (one.interface == by_route && !one.loopback) return one.ipv4;
  }
  for (const Local& one : all) {
    if (one.up && !one.loopback && one.ipv4 >> 16 != 0xa9fe) return one.ipv4;  // not 169.254/16: link-local
  }
  return kLoopback;
}

std::vector<std::uint32_t> local_ipv4s() {
  std::vector<std::uint32_t> out{kLoopback};
  for (const Local& one : interfaces()) out.push_back(one.ipv4);
  return out;
}

Reservation::~Reservation() {
  if (fd_ >= 0) close(fd_);
}

Reservation& Reservation::operator=(Reservation&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(port_, other.port_);
  return *this;
}

Result<Reservation> Reservation::take(std::uint32_t ipv4, std::uint16_t port) {
  Reservation out;
  out.fd_ = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (out.fd_ < 0) return fail(errno, std::string("cannot reserve a port number: ") + std::strerror(errno));
  // Nothing may pile up in its buffer: what reaches it is not for it.
  sock_filter drop[] = {{BPF_RET | BPF_K, 0, 0, 0}};
  const sock_fprog program{.len = 1, .filter = drop};
  const int on = 1;
  if (setsockopt(out.fd_, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)) != 0 ||
      setsockopt(out.fd_, SOL_IP, IP_FREEBIND, &on, sizeof(on)) != 0) {
    return fail(errno, std::string("cannot prepare the socket that reserves a port number: ") + std::strerror(errno));
  }
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(ipv4);
  address.sin_port = htons(port);
  socklen_t length = sizeof(address);
  if (bind(out.fd_, reinterpret_cast<const sockaddr*>(&address), length) != 0 ||
      getsockname(out.fd_, reinterpret_cast<sockaddr*>(&address), &length) != 0) {
    const int error = errno;
    if (error == EADDRINUSE) {
      return fail(error, fmt::format("{}:{} is taken by another process on this host (see: ss -lunp); choose another "
                                     "port, or 0 for any free one",
                                     to_text(ipv4), port));
    }
    return fail(error, fmt::format("cannot reserve {}:{}: {}", to_text(ipv4), port, std::strerror(error)));
  }
  out.port_ = ntohs(address.sin_port);
  return out;
}

}  // namespace mrc::engine
