// SPDX-License-Identifier: BSD-2-Clause
// The answer to hints that fit: capabilities narrowed to what was asked, models and sizes echoed.
#include <algorithm>

#include "info.hpp"
#include "msg/records.hpp"

namespace mrc::prov {

namespace {

constexpr std::uint64_t kReadAfterWrite = FI_ORDER_RAW | FI_ORDER_RMA_RAW;
constexpr std::uint64_t kWriteAfterRead = FI_ORDER_WAR | FI_ORDER_RMA_WAR;
constexpr std::uint64_t kWriteAfterWrite = FI_ORDER_WAW | FI_ORDER_RMA_WAW;

/// `have` narrowed to `ask` (0 = everything), with what comes along unasked and the directions it implies.
std::uint64_t narrow(std::uint64_t have, std::uint64_t ask) {
  if (ask == 0) return have;
  std::uint64_t caps = (ask & have) | (have & kSecondaryCaps & ~kOnRequestCaps);
  if ((caps & (FI_MSG | FI_TAGGED)) != 0 && (caps & kMessageDirections) == 0) caps |= have & kMessageDirections;
  if ((caps & (FI_RMA | FI_ATOMIC)) != 0 && (caps & kRmaDirections) == 0) caps |= have & kRmaDirections;
  return caps;
}

template <class T>
void echo(T& value, T asked) {
  if (asked != T{}) value = asked;
}

/// The orders that hold: those that cost nothing, and those that were asked for.
void apply_order(const fi_info& hints, fi_info& info) {
  info.tx_attr->msg_order &= ~kOrderOnRequest | (hints.tx_attr != nullptr ? hints.tx_attr->msg_order : 0);
  info.rx_attr->msg_order &= ~kOrderOnRequest | (hints.rx_attr != nullptr ? hints.rx_attr->msg_order : 0);
  const std::uint64_t order = info.tx_attr->msg_order | info.rx_attr->msg_order;
  const fi_ep_attr none{};
  const fi_ep_attr& ask = hints.ep_attr != nullptr ? *hints.ep_attr : none;
  fi_ep_attr& ep = *info.ep_attr;
  // Atomics are in order anyway.
  const std::size_t least = (info.caps & FI_ATOMIC) != 0 ? msg::kMaxAtomic : 0;
  if ((order & kReadAfterWrite) == 0) ep.max_order_raw_size = std::max(least, ask.max_order_raw_size);
  if ((order & kWriteAfterRead) == 0) ep.max_order_war_size = std::max(least, ask.max_order_war_size);
  if ((order & kWriteAfterWrite) == 0) ep.max_order_waw_size = std::max(least, ask.max_order_waw_size);
}

int answer_mr_mode(std::uint32_t version, int asked) {
  if (asked == abi::kMrBasic || asked == abi::kMrScalable) return asked;
  if (FI_VERSION_LT(version, FI_VERSION(1, 5))) return abi::kMrScalable;
  // Bits say what the application can do; the answer is what it must do. Echoing them would only burden it, and some
  // (fabtests' fi_multi_mr) offer all bits but count on keys of their own and on offsets.
  return 0;
}

void apply_domain(std::uint32_t version, const fi_domain_attr& ask, fi_domain_attr& attr) {
  echo(attr.threading, ask.threading);
  echo(attr.control_progress, ask.control_progress);
  echo(attr.data_progress, ask.data_progress);
  echo(attr.resource_mgmt, ask.resource_mgmt);
  echo(attr.av_type, ask.av_type);
  attr.mr_mode = answer_mr_mode(version, ask.mr_mode);
  attr.caps = narrow(attr.caps, ask.caps);
}

}  // namespace

void apply_hints(std::uint32_t version, const fi_info* hints, fi_info& info) {
  fi_tx_attr& tx = *info.tx_attr;
  fi_rx_attr& rx = *info.rx_attr;
  // In the base these are what may be asked for; as an answer they are defaults of every operation.
  tx.op_flags = 0;
  rx.op_flags = 0;
  if (hints == nullptr || hints->domain_attr == nullptr) info.domain_attr->mr_mode = answer_mr_mode(version, 0);
  // It turns messages of strangers into errors. Applications that copy all capabilities of an answer without hints into
  // their own (MPICH does) do not expect those: only who names it gets it.
  const std::uint64_t named =
      hints == nullptr ? 0 : hints->caps | (hints->rx_attr != nullptr ? hints->rx_attr->caps : 0);
  if ((named & FI_SOURCE_ERR) == 0) {
    info.caps &= ~FI_SOURCE_ERR;
    rx.caps &= ~FI_SOURCE_ERR;
  }
  if (hints == nullptr) return;

  const std::uint64_t newer = hints->caps & abi::newer_caps(version);
  info.caps = narrow(info.caps, hints->caps) | newer;
  info.handle = hints->handle;
  tx.caps &= info.caps;
  rx.caps &= info.caps;
  apply_order(*hints, info);
  const std::uint64_t device_memory = hints->caps & FI_HMEM;  // check_hints has seen that it works
  info.caps |= device_memory;
  if (hints->domain_attr != nullptr) apply_domain(version, *hints->domain_attr, *info.domain_attr);
  if (const fi_ep_attr* ask = hints->ep_attr; ask != nullptr) {
    echo(info.ep_attr->tx_ctx_cnt, ask->tx_ctx_cnt);
    echo(info.ep_attr->rx_ctx_cnt, ask->rx_ctx_cnt);
  }
  if (const fi_tx_attr* ask = hints->tx_attr; ask != nullptr) {
    tx.caps = narrow(tx.caps, ask->caps & kTxCaps);
    tx.op_flags = ask->op_flags;
    echo(tx.inject_size, ask->inject_size);
    echo(tx.size, ask->size);
    echo(tx.iov_limit, ask->iov_limit);
    echo(tx.rma_iov_limit, ask->rma_iov_limit);
  }
  if (const fi_rx_attr* ask = hints->rx_attr; ask != nullptr) {
    rx.caps = narrow(rx.caps, ask->caps & kRxCaps);
    rx.op_flags = ask->op_flags;
    echo(rx.size, ask->size);
    echo(rx.iov_limit, ask->iov_limit);
  }
  tx.caps |= device_memory;
  rx.caps |= device_memory;
  if (device_memory != 0) info.domain_attr->mr_mode |= FI_MR_HMEM;
  rx.caps |= newer;
}

}  // namespace mrc::prov
