// SPDX-License-Identifier: BSD-2-Clause
// Do hints fit the provider? One function per attribute structure; every refusal is a line in the log at INFO.
#include <strings.h>

#include <cinttypes>
#include <string>

#include "cuda.hpp"
#include "info.hpp"
#include "log.hpp"

namespace mrc::prov {

namespace {

bool at_most(const char* what, std::uint64_t asked, std::uint64_t have) {
  if (asked <= have) return true;
  MRC_INFO(CORE, "hints ask for %s %" PRIu64 ", mrc has at most %" PRIu64, what, asked, have);
  return false;
}

bool only(const char* what, std::uint64_t asked, std::uint64_t have, fi_type type) {
  const std::uint64_t missing = asked & ~have;
  if (missing == 0) return true;
  char text[512];
  MRC_INFO(CORE, "hints ask for %s that mrc does not have: %s (0x%" PRIx64 ")", what,
           fi_tostr_r(text, sizeof text, &missing, type), missing);
  return false;
}

bool name_fits(const char* what, const char* asked) {
  if (asked == nullptr || strcasecmp(asked, kName) == 0) return true;
  MRC_INFO(CORE, "hints ask for %s \"%s\", mrc's is \"%s\"", what, asked, kName);
  return false;
}

bool format_fits(std::uint32_t format) {
  switch (format) {
    case FI_FORMAT_UNSPEC:
    case FI_SOCKADDR:
    case FI_SOCKADDR_IN:
    case FI_SOCKADDR_IN6:
    case abi::kSockaddrIp:
      return true;
    default:
      MRC_INFO(CORE, "hints ask for address format %u, mrc has FI_SOCKADDR_IN and FI_SOCKADDR_IN6", format);
      return false;
  }
}

bool mr_mode_fits(std::uint32_t version, int mode) {
  // BASIC and SCALABLE are values of their own, not bits to combine; before 1.5 there is nothing else.
  const bool old_value = mode == abi::kMrBasic || mode == abi::kMrScalable;
  if (FI_VERSION_LT(version, FI_VERSION(1, 5))) {
    if (mode == abi::kMrUnspec || old_value) return true;
  } else if ((mode & (abi::kMrBasic | abi::kMrScalable)) == 0 || old_value) {
    return true;  // a bit says what the application can do; mrc needs none of them
  }
  MRC_INFO(CORE, "hints have domain_attr->mr_mode 0x%x, which combines FI_MR_BASIC or FI_MR_SCALABLE with bits",
           static_cast<unsigned>(mode));
  return false;
}

/// Device memory is offered where it works, which only the driver knows: it is asked when somebody hints FI_HMEM.
bool device_memory_fits(const fi_info& hints) {
  if ((hints.caps & FI_HMEM) == 0) return true;
  if (hints.domain_attr == nullptr || (hints.domain_attr->mr_mode & FI_MR_HMEM) == 0) {
    MRC_INFO(CORE, "hints ask for FI_HMEM without FI_MR_HMEM in mr_mode; mrc needs device memory to be registered");
    return false;
  }
  std::string why;
  if (Cuda::instance(&why) != nullptr) return true;
  MRC_INFO(CORE, "hints ask for FI_HMEM: %s", why.c_str());
  return false;
}

bool progress_fits(const char* what, fi_progress asked, bool automatic) {
  if (asked != FI_PROGRESS_AUTO || automatic) return true;
  MRC_INFO(CORE, "hints ask for %s FI_PROGRESS_AUTO, but FI_MRC_SERVICE_THREAD=0 turned the thread off that does it",
           what);
  return false;
}

bool threading_fits(fi_threading asked) {
  if (asked >= FI_THREAD_UNSPEC && asked <= FI_THREAD_ENDPOINT) return true;
  MRC_INFO(CORE, "hints have an unknown threading model %d", static_cast<int>(asked));
  return false;
}

bool domain_fits(std::uint32_t version, const fi_domain_attr& have, const fi_domain_attr& ask, bool automatic) {
  if (!name_fits("domain_attr->name", ask.name) || !threading_fits(ask.threading) ||
      !progress_fits("domain_attr->control_progress", ask.control_progress, automatic) ||
      !progress_fits("domain_attr->data_progress", ask.data_progress, automatic) ||
      !at_most("domain_attr->cq_data_size", ask.cq_data_size, have.cq_data_size) ||
      !at_most("domain_attr->mr_key_size", ask.mr_key_size, have.mr_key_size) || !mr_mode_fits(version, ask.mr_mode))
    return false;
  if (ask.av_type != FI_AV_UNSPEC && ask.av_type != FI_AV_MAP && ask.av_type != FI_AV_TABLE) {
    MRC_INFO(CORE, "hints have an unknown domain_attr->av_type %d", static_cast<int>(ask.av_type));
    return false;
  }
  if (FI_VERSION_LT(version, FI_VERSION(1, 5))) return true;  // the fields below did not exist
  // Counters have all 64 bits, whatever max_cntr_value is asked for.
  const abi::DomainAttrTail newer = abi::tail(ask, fi_version());
  return at_most("domain_attr->max_ep_auth_key", newer.max_ep_auth_key, 0) &&
         at_most("domain_attr->max_group_id", newer.max_group_id, 0) &&
         at_most("domain_attr->cntr_cnt", ask.cntr_cnt, have.cntr_cnt) &&
         at_most("domain_attr->mr_iov_limit", ask.mr_iov_limit, have.mr_iov_limit) &&
         at_most("domain_attr->mr_cnt", ask.mr_cnt, have.mr_cnt) &&
         at_most("domain_attr->max_err_data", ask.max_err_data, have.max_err_data) &&
         only("domain_attr->caps", ask.caps, have.caps, FI_TYPE_CAPS);
}

bool contexts_fit(const char* what, std::size_t asked, std::size_t have) {
  return asked == FI_SHARED_CONTEXT || at_most(what, asked, have);
}

bool key_fits(std::size_t size) {
  if (size == 0) return true;
  MRC_INFO(CORE, "hints have an ep_attr->auth_key; mrc takes the job's key from FI_MRC_JOB_KEY");
  return false;
}

bool endpoint_fits(const fi_info& base, const fi_info& hints) {
  const fi_ep_attr& have = *base.ep_attr;
  const fi_ep_attr& ask = *hints.ep_attr;
  if (ask.protocol != FI_PROTO_UNSPEC && ask.protocol != have.protocol) {
    MRC_INFO(CORE, "hints ask for ep_attr->protocol 0x%x, mrc's is 0x%x", ask.protocol, have.protocol);
    return false;
  }
  if (!at_most("ep_attr->protocol_version", ask.protocol_version, have.protocol_version) ||
      !at_most("ep_attr->max_msg_size", ask.max_msg_size, have.max_msg_size) ||
      !contexts_fit("ep_attr->tx_ctx_cnt", ask.tx_ctx_cnt, base.domain_attr->max_ep_tx_ctx) ||
      !contexts_fit("ep_attr->rx_ctx_cnt", ask.rx_ctx_cnt, base.domain_attr->max_ep_rx_ctx) ||
      !key_fits(ask.auth_key_size))
    return false;
  if ((hints.caps & (FI_RMA | FI_ATOMIC)) == 0) return true;
  return at_most("ep_attr->max_order_raw_size", ask.max_order_raw_size, have.max_order_raw_size) &&
         at_most("ep_attr->max_order_war_size", ask.max_order_war_size, have.max_order_war_size) &&
         at_most("ep_attr->max_order_waw_size", ask.max_order_waw_size, have.max_order_waw_size);
}

// Capabilities of the other direction are ignored, as fi_getinfo(3) allows applications to set info->caps here too.
bool tx_fits(std::uint32_t version, const fi_tx_attr& have, const fi_tx_attr& ask) {
  const std::uint64_t ignored = (kRxCaps & ~kTxCaps) | kDomainCaps | FI_HMEM | abi::newer_caps(version);
  return only("tx_attr->caps", ask.caps & ~ignored, have.caps, FI_TYPE_CAPS) &&
         only("tx_attr->op_flags", ask.op_flags, have.op_flags, FI_TYPE_OP_FLAGS) &&
         only("tx_attr->msg_order", ask.msg_order, have.msg_order, FI_TYPE_MSG_ORDER) &&
         only("tx_attr->comp_order", ask.comp_order, have.comp_order, FI_TYPE_MSG_ORDER) &&
         at_most("tx_attr->inject_size", ask.inject_size, have.inject_size) &&
         at_most("tx_attr->size", ask.size, have.size) &&
         at_most("tx_attr->iov_limit", ask.iov_limit, have.iov_limit) &&
         at_most("tx_attr->rma_iov_limit", ask.rma_iov_limit, have.rma_iov_limit);
}

bool rx_fits(std::uint32_t version, const fi_rx_attr& have, const fi_rx_attr& ask) {
  const std::uint64_t ignored = (kTxCaps & ~kRxCaps) | kDomainCaps | FI_HMEM | abi::newer_caps(version);
  return only("rx_attr->caps", ask.caps & ~ignored, have.caps, FI_TYPE_CAPS) &&
         only("rx_attr->op_flags", ask.op_flags, have.op_flags, FI_TYPE_OP_FLAGS) &&
         only("rx_attr->msg_order", ask.msg_order, have.msg_order, FI_TYPE_MSG_ORDER) &&
         only("rx_attr->comp_order", ask.comp_order, have.comp_order, FI_TYPE_MSG_ORDER) &&
         at_most("rx_attr->total_buffered_recv", ask.total_buffered_recv, have.total_buffered_recv) &&
         at_most("rx_attr->size", ask.size, have.size) && at_most("rx_attr->iov_limit", ask.iov_limit, have.iov_limit);
}

bool sources_fit(std::uint64_t caps) {
  if ((caps & FI_SOURCE_ERR) == 0 || (caps & FI_SOURCE) != 0) return true;
  MRC_INFO(CORE, "hints ask for FI_SOURCE_ERR without FI_SOURCE, which it is an addition to");
  return false;
}

bool type_fits(const fi_ep_attr& ask) {
  if (ask.type == FI_EP_UNSPEC || ask.type == FI_EP_RDM) return true;
  MRC_INFO(CORE, "hints ask for ep_attr->type %d, mrc has FI_EP_RDM only", static_cast<int>(ask.type));
  return false;
}

bool fabric_fits(const fi_fabric_attr& ask) {
  // prov_name may be a list with exclusions ("mrc;^ofi_rxm"): libfabric itself filters by it.
  return name_fits("fabric_attr->name", ask.name) && at_most("fabric_attr->prov_version", ask.prov_version, kVersion);
}

}  // namespace

int check_hints(std::uint32_t version, const fi_info& base, const fi_info& hints, bool automatic_progress) {
  const bool fits = (hints.ep_attr == nullptr || type_fits(*hints.ep_attr)) &&
                    only("caps", hints.caps & ~FI_HMEM, base.caps | abi::newer_caps(version), FI_TYPE_CAPS) &&
                    sources_fit(hints.caps) && device_memory_fits(hints) && format_fits(hints.addr_format) &&
                    (hints.fabric_attr == nullptr || fabric_fits(*hints.fabric_attr)) &&
                    (hints.domain_attr == nullptr ||
                     domain_fits(version, *base.domain_attr, *hints.domain_attr, automatic_progress)) &&
                    (hints.ep_attr == nullptr || endpoint_fits(base, hints)) &&
                    (hints.tx_attr == nullptr || tx_fits(version, *base.tx_attr, *hints.tx_attr)) &&
                    (hints.rx_attr == nullptr || rx_fits(version, *base.rx_attr, *hints.rx_attr));
  return fits ? 0 : -FI_ENODATA;
}

}  // namespace mrc::prov
