// SPDX-License-Identifier: BSD-2-Clause
// The cluster operator's TOML file (contrib/examples/mrc.toml): the fabric, this host's port groups, and which IPv4
// prefix sits below which T0. Unknown keys and bad values are errors that name the line.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mrc/path/address.hpp"
#include "mrc/path/denylist.hpp"
#include "mrc/path/route.hpp"
#include "mrc/port/port.hpp"
#include "mrc/result.hpp"

namespace mrc::engine {

/// Addresses of one prefix sit below one T0; their NIC indices count up from `nic` with the address.
struct PrefixEntry {
  std::uint32_t network = 0;  ///< host order, host bits 0
  std::uint8_t length = 32;
  std::uint16_t t0 = 0;
  std::uint16_t nic = 0;  ///< of the prefix's first address
};

struct FabricConfig {
  std::uint64_t prefix = path::kDefaultFabric;
  std::uint32_t locator = path::kDefaultLocator;
  path::UsidLayout usid{};
  std::uint16_t uplinks = 1;
  std::uint8_t planes = 0;  ///< 0 = as many as the group has ports
};

struct FileConfig {
  FabricConfig fabric{};
  std::vector<port::PortGroup> groups;
  std::vector<PrefixEntry> prefixes;
  std::vector<path::DenyRule> denied;  ///< [[deny]]
};

/// `origin` is the name used in messages.
Result<FileConfig> parse_config(std::string_view text, const std::string& origin);
Result<FileConfig> load_config(const std::string& path);
/// A file with nothing but [[deny]] tables (FI_MRC_DENYLIST), as mrc-probe writes it.
Result<std::vector<path::DenyRule>> parse_denylist(std::string_view text, const std::string& origin);
Result<std::vector<path::DenyRule>> load_denylist(const std::string& path);

/// The entry that holds `ipv4` (longest prefix), with the NIC index worked out.
std::optional<path::Location> locate(const std::vector<PrefixEntry>& prefixes, std::uint32_t ipv4);

}  // namespace mrc::engine
