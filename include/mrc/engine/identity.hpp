// SPDX-License-Identifier: BSD-2-Clause
// Who we are on this host: the primary IPv4 address, its aliases, and port numbers reserved with the kernel so that
// no two processes of a host take the same name and the kernel answers nothing for us.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mrc/result.hpp"

namespace mrc::engine {

std::string to_text(std::uint32_t ipv4);
Result<std::uint32_t> parse_ipv4(const std::string& text);

/// The address of the interface with the lowest-metric default route; else of the first interface that is up and not
/// loopback; else 127.0.0.1. `FI_MRC_PORTS`' ip= goes before all of it (the caller's business).
std::uint32_t primary_ipv4();
/// Every IPv4 address of this host, 127.0.0.1 included.
std::vector<std::uint32_t> local_ipv4s();

/// A name held by binding a kernel UDP socket that drops everything. Freed with the process, however it ends.
class Reservation {
 public:
  Reservation() = default;
  ~Reservation();
  Reservation(Reservation&& other) noexcept : fd_(other.fd_), port_(other.port_) { other.fd_ = -1; }
  Reservation& operator=(Reservation&& other) noexcept;

  /// port 0 = any free one. EADDRINUSE in words. The address need not be a local one.
  static Result<Reservation> take(std::uint32_t ipv4, std::uint16_t port);
  int fd() const { return fd_; }
  std::uint16_t port() const { return port_; }

 private:
  int fd_ = -1;
  std::uint16_t port_ = 0;
};

}  // namespace mrc::engine
