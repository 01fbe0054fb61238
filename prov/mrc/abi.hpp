// SPDX-License-Identifier: BSD-2-Clause
// One binary for libfabric 1.17 and for newer ones: what later versions added, removed or deprecated, as values of our
// own, so that nothing depends on whose headers this is built with. docs/abi.md says how each difference is handled.
#pragma once

#include <rdma/fabric.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace mrc::prov::abi {

// Of 1.x; 2.x headers warn of their use or lack them.
inline constexpr int kMrUnspec = 0, kMrBasic = 1 << 0, kMrScalable = 1 << 1;
inline constexpr std::uint64_t kOrderNone = 0;
inline constexpr std::uint64_t kRegMr = 1ull << 59;
inline constexpr std::uint32_t kProvSpecific = 1u << 31;

// Of 2.x; 1.x headers lack them, and bit 48 was FI_VARIABLE_MSG, which mrc does not have.
inline constexpr std::uint64_t kTaggedDirectedRecv = 1ull << 45;
inline constexpr std::uint64_t kExactDirectedRecv = 1ull << 48;
inline constexpr std::uint32_t kSockaddrIp = 17;  ///< FI_SOCKADDR_IN and FI_SOCKADDR_IN6

/// Capabilities that applications of this version may ask for beyond those of 1.17.
inline constexpr std::uint64_t newer_caps(std::uint32_t api_version) {
  return FI_VERSION_GE(api_version, FI_VERSION(2, 0)) ? kTaggedDirectedRecv | kExactDirectedRecv : 0;
}

/// How much of an application's structure exists whatever version it was built with: 1.17's part of it.
template <class T>
inline constexpr std::size_t kKnown = sizeof(T);
template <>
inline constexpr std::size_t kKnown<fi_domain_attr> = 192;
static_assert(offsetof(fi_domain_attr, tclass) == kKnown<fi_domain_attr> - 8);

/// fi_domain_attr behind 1.17's fields, as of 2.6. Only libfabric's own process-wide version says whether they exist:
/// it gives providers structures of its own layout, whatever the application was built with.
struct DomainAttrTail {
  std::size_t max_ep_auth_key;       // 1.20
  std::uint32_t max_group_id;        // 2.0
  std::uint64_t max_cntr_value;      // 2.5
  std::uint64_t max_err_cntr_value;  // 2.5
};
inline DomainAttrTail tail(const fi_domain_attr& attr, std::uint32_t library_version) {
  DomainAttrTail out{};
  std::size_t length = 0;
  if (FI_VERSION_GE(library_version, FI_VERSION(2, 0)))
    length = offsetof(DomainAttrTail, max_group_id) + sizeof out.max_group_id;
  else if (FI_VERSION_GE(library_version, FI_VERSION(1, 20)))
    length = sizeof out.max_ep_auth_key;
  std::memcpy(&out, reinterpret_cast<const char*>(&attr) + kKnown<fi_domain_attr>, length);
  return out;
}

}  // namespace mrc::prov::abi
