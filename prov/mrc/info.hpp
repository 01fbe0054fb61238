// SPDX-License-Identifier: BSD-2-Clause
// fi_getinfo: what this provider is (one static chain of attributes), whether hints fit it, and the answer.
// Cheap and free of side effects: no EAL, no switch, no thread; applications call it hundreds of times.
#pragma once

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>

#include <cstdint>

#include "abi.hpp"
#include "address.hpp"

namespace mrc::prov {

inline constexpr char kName[] = "mrc";
inline constexpr std::uint32_t kVersion = FI_VERSION(0, 1);
/// Provider-specific protocols have the high bit; the rest spells MRC.
inline constexpr std::uint32_t kProtocol = abi::kProvSpecific | 0x4d5243;

inline constexpr std::uint64_t kTxCaps =
    FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | FI_SEND | FI_READ | FI_WRITE | FI_FENCE | FI_TRIGGER | FI_NAMED_RX_CTX;
inline constexpr std::uint64_t kRxCaps = FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | FI_RECV | FI_REMOTE_READ |
                                         FI_REMOTE_WRITE | FI_DIRECTED_RECV | FI_MULTI_RECV | FI_SOURCE |
                                         FI_SOURCE_ERR | FI_RMA_EVENT | FI_TRIGGER;
inline constexpr std::uint64_t kDomainCaps = FI_LOCAL_COMM | FI_REMOTE_COMM | FI_SHARED_AV;
inline constexpr std::uint64_t kCaps = kTxCaps | kRxCaps | kDomainCaps;
/// Given only if asked for (FI_SOURCE also if there are no hints): they cost a look-up a message.
inline constexpr std::uint64_t kOnRequestCaps = FI_SOURCE | FI_SOURCE_ERR;
inline constexpr std::uint64_t kSecondaryCaps =
    FI_MULTI_RECV | FI_SOURCE | FI_SOURCE_ERR | FI_RMA_EVENT | FI_FENCE | FI_TRIGGER | kDomainCaps;
inline constexpr std::uint64_t kMessageDirections = FI_SEND | FI_RECV;
inline constexpr std::uint64_t kRmaDirections = FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;

inline constexpr std::uint64_t kTxOpFlags =
    FI_COMPLETION | FI_INJECT | FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE | FI_MATCH_COMPLETE;
inline constexpr std::uint64_t kRxOpFlags = FI_COMPLETION | FI_MULTI_RECV;
/// Orders that hold by themselves, and are always in the answer.
inline constexpr std::uint64_t kFreeOrder = FI_ORDER_SAS | FI_ORDER_RAR | FI_ORDER_RMA_RAR | FI_ORDER_ATOMIC_RAR |
                                            FI_ORDER_ATOMIC_RAW | FI_ORDER_ATOMIC_WAR | FI_ORDER_ATOMIC_WAW;
/// Orders that operations may have to wait for: only in the answer to hints that ask for them (or to no hints at all).
inline constexpr std::uint64_t kOrderOnRequest = FI_ORDER_RAW | FI_ORDER_RAS | FI_ORDER_WAR | FI_ORDER_WAW |
                                                 FI_ORDER_WAS | FI_ORDER_SAR | FI_ORDER_SAW | FI_ORDER_RMA_RAW |
                                                 FI_ORDER_RMA_WAR | FI_ORDER_RMA_WAW;
inline constexpr std::uint64_t kMessageOrder = kFreeOrder | kOrderOnRequest;
inline constexpr std::size_t kMaxMessage = std::size_t{1} << 48;
inline constexpr std::size_t kIovLimit = 8;
/// Transmit or receive contexts of a scalable endpoint.
inline constexpr std::size_t kMaxContexts = 16;

/// The provider's own attributes, with the sizes of params(). Null if a knob is wrong.
const fi_info* base_info();

/// A copy whose parts libfabric frees with free(), in this process's libfabric or a newer one: every part has room for
/// fields that later versions append, which read 0. Null when memory is short.
fi_info* duplicate(const fi_info& info);
void release(fi_info* info);

/// 0, or -FI_ENODATA after a log line at INFO that says which hint does not fit.
int check_hints(std::uint32_t version, const fi_info& base, const fi_info& hints, bool automatic_progress);

/// Narrows a copy of base_info() to what fitting hints ask for.
void apply_hints(std::uint32_t version, const fi_info* hints, fi_info& info);

struct Addresses {
  std::uint32_t format = FI_SOCKADDR_IN;
  Sockaddr source;
  bool has_destination = false;
  Sockaddr destination;
};
/// Source and destination from node, service, flags and hints; 0 or -FI_ENODATA with a log line.
int resolve_addresses(const char* node, const char* service, std::uint64_t flags, const fi_info* hints, Addresses& out);

int getinfo(std::uint32_t version, const char* node, const char* service, std::uint64_t flags, const fi_info* hints,
            fi_info** info);

}  // namespace mrc::prov
