// SPDX-License-Identifier: BSD-2-Clause
// Name → place: which T0 and NIC an endpoint (IPv4, port) sits behind. Three implementations: prefixes of the TOML
// file, mrc-switch's control socket, point to point. lookup() never blocks: it answers from what is known and starts
// a query otherwise.
#pragma once

#include <cstdint>

#include "mrc/path/address.hpp"
#include "mrc/path/route.hpp"

namespace mrc::path {

class Directory {
 public:
  enum class Answer : std::uint8_t {
    kFound,
    kPending,  ///< asked; try again at the connection's next retry
    kUnknown,  ///< known not to exist now (not registered); it may yet appear
    kNoRoute,  ///< there is no way to this IPv4 at all: an error for the caller, in words
  };
  virtual ~Directory() = default;
  virtual Answer lookup(std::uint32_t ipv4, std::uint16_t port, Location& out) = 0;
};

}  // namespace mrc::path
