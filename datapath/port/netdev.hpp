// SPDX-License-Identifier: BSD-2-Clause
// What the kernel knows about an interface, asked before a PMD is: so that a missing interface or right is an error
// in words and not a driver's number.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "mrc/port/port.hpp"

namespace mrc::port {

struct Netdev {
  int index = 0;
  std::uint32_t mtu = 0;
  MacAddress mac{};
  bool running = false;  ///< carrier
};

/// The interface must exist in this network namespace, be administratively up and be Ethernet.
Result<Netdev> find_netdev(const std::string& interface, const std::string& port);
/// CAP_NET_RAW (in this network namespace) and a kernel with packet sockets.
Result<void> check_packet_socket(const std::string& port);

/// Watches one interface's link from any thread, without a system call more often than every 10 ms.
class LinkWatch {
 public:
  LinkWatch() = default;
  ~LinkWatch();
  LinkWatch(const LinkWatch&) = delete;
  LinkWatch& operator=(const LinkWatch&) = delete;

  Result<void> open(const std::string& interface);
  bool up() const;

 private:
  std::string interface_;
  int socket_ = -1;
  mutable std::atomic<std::int64_t> checked_{0};
  mutable std::atomic<bool> up_{false};
};

}  // namespace mrc::port
