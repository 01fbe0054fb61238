// SPDX-License-Identifier: BSD-2-Clause
// Limits and small parsers that the port openers share. No DPDK here: the unit tests use it too.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "mrc/port/port.hpp"

namespace mrc::port {

inline constexpr std::size_t kMemifPathLimit = 108;     ///< sockaddr_un::sun_path, terminator included
inline constexpr std::uint32_t kMemifMtuLimit = 65450;  ///< net_memif keeps bsize in 16 bits
inline constexpr std::uint32_t kMtuFloor = 1280;        ///< RFC 8200's least MTU
inline constexpr std::size_t kMaxPlanes = 16;           ///< a uSID's plane field has 4 bits
/// Put into PortSpec::options for "mlx5:…": the target is an RDMA device's name and not a PCI address.
inline constexpr std::string_view kRdmaDeviceOption = "rdma";

std::optional<std::uint32_t> parse_number(std::string_view text);
/// A unicast, non-zero address.
std::optional<MacAddress> parse_mac(std::string_view text);
const std::string* find_option(const PortSpec& spec, std::string_view key);
std::uint32_t number_option(const PortSpec& spec, std::string_view key, std::uint32_t otherwise);

}  // namespace mrc::port
