// SPDX-License-Identifier: BSD-2-Clause
// The provider's attributes, the single source of truth, and copies of them.
#include <rdma/fi_tagged.h>

#include <cstdlib>
#include <cstring>
#include <optional>

#include "info.hpp"
#include "msg/records.hpp"
#include "params.hpp"

namespace mrc::prov {

namespace {

struct Chain {
  fi_tx_attr tx{};
  fi_rx_attr rx{};
  fi_ep_attr ep{};
  fi_domain_attr domain{};
  fi_fabric_attr fabric{};
  fi_info info{};
  char domain_name[sizeof kName];
  char fabric_name[sizeof kName];

  explicit Chain(const Params& p) {
    std::memcpy(domain_name, kName, sizeof kName);
    std::memcpy(fabric_name, kName, sizeof kName);

    tx.caps = kTxCaps;
    tx.op_flags = kTxOpFlags;
    tx.msg_order = kMessageOrder;
    tx.comp_order = abi::kOrderNone;
    tx.inject_size = p.inject_size;
    tx.size = p.tx_size;
    tx.iov_limit = kIovLimit;
    tx.rma_iov_limit = kIovLimit;

    rx.caps = kRxCaps;
    rx.op_flags = kRxOpFlags;
    rx.msg_order = kMessageOrder;
    rx.comp_order = abi::kOrderNone;
    rx.size = p.rx_size;
    rx.iov_limit = kIovLimit;

    ep.type = FI_EP_RDM;
    ep.protocol = kProtocol;
    ep.protocol_version = 1;
    ep.max_msg_size = kMaxMessage;
    ep.mem_tag_format = 0xaaaaaaaaaaaaaaaa;  // all 64 bits, one field of a bit each
    // Where an order is asked for, it holds for the bytes of operations of any size.
    ep.max_order_raw_size = kMaxMessage;
    ep.max_order_war_size = kMaxMessage;
    ep.max_order_waw_size = kMaxMessage;
    ep.tx_ctx_cnt = 1;
    ep.rx_ctx_cnt = 1;

    const engine::EngineConfig engine = engine_config(p);
    domain.name = domain_name;
    domain.threading = FI_THREAD_SAFE;
    domain.control_progress = FI_PROGRESS_MANUAL;
    domain.data_progress = FI_PROGRESS_MANUAL;
    domain.resource_mgmt = FI_RM_ENABLED;
    domain.av_type = FI_AV_UNSPEC;  // both
    domain.mr_key_size = sizeof(std::uint64_t);
    domain.cq_data_size = sizeof(std::uint64_t);
    domain.cq_cnt = 1024;
    domain.ep_cnt = engine.limits.endpoints;
    domain.tx_ctx_cnt = engine.limits.endpoints * kMaxContexts;
    domain.rx_ctx_cnt = engine.limits.endpoints * kMaxContexts;
    domain.max_ep_tx_ctx = kMaxContexts;
    domain.max_ep_rx_ctx = kMaxContexts;
    domain.max_ep_stx_ctx = engine.limits.endpoints;
    domain.max_ep_srx_ctx = engine.limits.endpoints;
    domain.cntr_cnt = 4096;
    domain.mr_iov_limit = kIovLimit;
    domain.max_err_data = sizeof(sockaddr_in6);
    domain.mr_cnt = std::size_t{1} << 20;
    domain.caps = kDomainCaps;

    fabric.name = fabric_name;
    fabric.prov_version = kVersion;

    info.caps = kCaps;
    info.addr_format = FI_SOCKADDR_IN;
    info.tx_attr = &tx;
    info.rx_attr = &rx;
    info.ep_attr = &ep;
    info.domain_attr = &domain;
    info.fabric_attr = &fabric;
  }
};

/// Room for fields that newer libfabrics append.
constexpr std::size_t kTail = 256;

template <class T>
T* copy(const T* from) {
  auto* to = static_cast<T*>(std::calloc(1, sizeof(T) + kTail));
  if (to != nullptr && from != nullptr) std::memcpy(to, from, abi::kKnown<T>);
  return to;
}

template <class T>
bool copy_bytes(T*& pointer, std::size_t length) {
  if (pointer == nullptr || length == 0) {
    pointer = nullptr;
    return true;
  }
  void* bytes = std::malloc(length);
  if (bytes != nullptr) std::memcpy(bytes, pointer, length);
  pointer = static_cast<T*>(bytes);
  return bytes != nullptr;
}

}  // namespace

const fi_info* base_info() {
  const Params* p = params();
  if (p == nullptr) return nullptr;
  static const Chain chain(*p);
  return &chain.info;
}

fi_info* duplicate(const fi_info& from) {
  fi_info* info = copy(&from);
  if (info == nullptr) return nullptr;
  info->next = nullptr;
  info->nic = nullptr;
  info->tx_attr = copy(from.tx_attr);
  info->rx_attr = copy(from.rx_attr);
  info->ep_attr = copy(from.ep_attr);
  info->domain_attr = copy(from.domain_attr);
  info->fabric_attr = copy(from.fabric_attr);
  bool good = info->tx_attr != nullptr && info->rx_attr != nullptr;
  good = copy_bytes(info->src_addr, info->src_addrlen) && good;
  good = copy_bytes(info->dest_addr, info->dest_addrlen) && good;
  if (fi_ep_attr* ep = info->ep_attr; ep != nullptr)
    good = copy_bytes(ep->auth_key, ep->auth_key_size) && good;
  else
    good = false;
  if (fi_domain_attr* domain = info->domain_attr; domain != nullptr) {
    good = copy_bytes(domain->auth_key, domain->auth_key_size) && good;
    good = copy_bytes(domain->name, domain->name != nullptr ? std::strlen(domain->name) + 1 : 0) && good;
  } else {
    good = false;
  }
  if (fi_fabric_attr* fabric = info->fabric_attr; fabric != nullptr) {
    good = copy_bytes(fabric->name, fabric->name != nullptr ? std::strlen(fabric->name) + 1 : 0) && good;
    // An application's info names the provider; ours does not, libfabric fills it in.
    good = copy_bytes(fabric->prov_name, fabric->prov_name != nullptr ? std::strlen(fabric->prov_name) + 1 : 0) && good;
  } else {
    good = false;
  }
  if (good) return info;
  release(info);
  return nullptr;
}

void release(fi_info* info) {
  if (info == nullptr) return;
  std::free(info->src_addr);
  std::free(info->dest_addr);
  std::free(info->tx_attr);
  std::free(info->rx_attr);
  if (info->ep_attr != nullptr) std::free(info->ep_attr->auth_key);
  std::free(info->ep_attr);
  if (info->domain_attr != nullptr) {
    std::free(info->domain_attr->auth_key);
    std::free(info->domain_attr->name);
  }
  std::free(info->domain_attr);
  if (info->fabric_attr != nullptr) {
    std::free(info->fabric_attr->name);
    std::free(info->fabric_attr->prov_name);
  }
  std::free(info->fabric_attr);
  std::free(info);
}

}  // namespace mrc::prov
