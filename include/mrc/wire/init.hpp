// SPDX-License-Identifier: BSD-2-Clause
// Body of this project's connection set-up (ENDPOINT_REQUEST/_RESPONSE, op kInit): MRC leaves set-up out of band.
// TLVs {type u16, length u16, value}, length without the 4-byte head; unknown types are skipped, so later
// versions may add; a missing mandatory one, a repeated one or a wrong length is malformed. Ranges of MTU and window
// are the caller's to check. All integers in network byte order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "mrc/wire/packet.hpp"

namespace mrc::wire {

inline constexpr std::uint8_t kInitVersion = 1;

/// Feature bits (offered in INIT, the intersection holds).
enum Feature : std::uint32_t {
  kFeatureIcrcOff = 1u << 0,     ///< both ends reach each other over memory only
  kFeatureTimestamps = 1u << 1,  ///< BTH.ts on data
};

struct InitBody {
  std::uint16_t version = kInitVersion;      ///< highest that the sender speaks
  std::uint16_t min_version = kInitVersion;  ///< lowest
  std::uint32_t features = 0;
  std::uint32_t qpn = 0;                       ///< 24 bits, of the sender's end of the connection
  std::uint32_t psn = 0;                       ///< 24 bits, first that the sender will use
  std::uint64_t incarnation = 0;               ///< of the sending endpoint; differs after a restart
  std::uint64_t peer_incarnation = 0;          ///< as last learnt, 0 = not known; an answer echoes the request's
  std::uint32_t mtu = 0;                       ///< largest payload per packet that the sender accepts
  std::uint32_t window = 0;                    ///< receive window in packets
  std::uint32_t upper_version = 0;             ///< of the layer above (the provider's records)
  std::span<const std::byte> authenticator{};  ///< HMAC over the rest, empty when no key is set (≤ 64 bytes)
};

/// Longest authenticator.
inline constexpr std::size_t kMaxAuthenticator = 64;

/// Bytes written, or 0 if `out` is too small or the authenticator too long.
std::size_t encode(const InitBody& body, std::span<std::byte> out);
/// nullopt if malformed. Spans point into `in`.
std::optional<InitBody> decode_init(std::span<const std::byte> in);
/// What the authenticator of `body`, decoded from `in`, covers: all bytes before its TLV, which is the last.
/// The sender's equivalent is the body encoded with an empty authenticator.
std::span<const std::byte> authenticated_part(const InitBody& body, std::span<const std::byte> in);
/// Longest encoded body.
inline constexpr std::size_t kMaxInitBody = 192;

}  // namespace mrc::wire
