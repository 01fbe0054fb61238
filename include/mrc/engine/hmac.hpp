// SPDX-License-Identifier: BSD-2-Clause
// HMAC-SHA-256 (RFC 2104, FIPS 180-4) for the authenticator of INIT: connection set-up only. Here because the provider
// may need no library that libfabric does not need itself.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace mrc::engine {

std::array<std::byte, 32> sha256(std::span<const std::byte> message);
/// The shape that transport::Config::hmac wants.
void hmac_sha256(std::span<const std::byte, 32> key, std::span<const std::byte> message, std::span<std::byte, 32> out);

}  // namespace mrc::engine
