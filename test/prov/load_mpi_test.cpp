// SPDX-License-Identifier: BSD-2-Clause
// The questions that Open MPI's mtl and btl and MPICH ask, as they ask them, through the system's libfabric.
#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_errno.h>

#include <cstring>
#include <functional>
#include <memory>

#include "support/catch.hpp"

namespace {

struct InfoFree {
  void operator()(fi_info* info) const { fi_freeinfo(info); }
};
using Info = std::unique_ptr<fi_info, InfoFree>;

Info ask(std::uint32_t version, const std::function<void(fi_info&)>& set) {
  const Info hints(fi_allocinfo());
  set(*hints);
  fi_info* info = nullptr;
  const int code = fi_getinfo(version, nullptr, nullptr, 0, hints.get(), &info);
  CHECK(code == 0);
  return Info(info);
}

}  // namespace

TEST_CASE("Open MPI mtl/ofi") {
  for (const fi_threading threading : {FI_THREAD_DOMAIN, FI_THREAD_SAFE})
    for (const fi_progress progress : {FI_PROGRESS_UNSPEC, FI_PROGRESS_AUTO, FI_PROGRESS_MANUAL})
      for (const fi_av_type av : {FI_AV_MAP, FI_AV_TABLE}) {
        const Info info = ask(FI_VERSION(1, 5), [&](fi_info& h) {
          h.mode = FI_CONTEXT | FI_CONTEXT2;
          h.ep_attr->type = FI_EP_RDM;
          h.caps = FI_TAGGED | FI_LOCAL_COMM | FI_REMOTE_COMM | FI_DIRECTED_RECV;
          h.tx_attr->msg_order = FI_ORDER_SAS;
          h.rx_attr->msg_order = FI_ORDER_SAS;
          h.rx_attr->op_flags = FI_COMPLETION;
          h.tx_attr->op_flags = FI_COMPLETION;
          h.domain_attr->threading = threading;
          h.domain_attr->cq_data_size = 4;
          h.domain_attr->control_progress = progress;
          h.domain_attr->data_progress = progress;
          h.domain_attr->av_type = av;
          h.domain_attr->resource_mgmt = FI_RM_ENABLED;
        });
        REQUIRE(info);
        CHECK(info->mode == 0);
        CHECK((info->caps & (FI_TAGGED | FI_DIRECTED_RECV)) == (FI_TAGGED | FI_DIRECTED_RECV));
        CHECK(info->domain_attr->threading == threading);
        CHECK(info->domain_attr->mr_mode == 0);  // every descriptor it passes is null
        CHECK(info->domain_attr->cq_data_size >= 4);
        CHECK(info->ep_attr->mem_tag_format == 0xaaaaaaaaaaaaaaaa);
        CHECK(info->ep_attr->max_msg_size > (std::size_t{1} << 40));
        CHECK(info->src_addrlen <= 64);
      }
}

TEST_CASE("Open MPI btl/ofi without atomics") {
  const Info info = ask(FI_VERSION(1, 5), [](fi_info& h) {
    h.caps = FI_RMA | FI_MSG;
    h.mode = FI_CONTEXT | FI_CONTEXT2;
    h.domain_attr->mr_mode = FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_VIRT_ADDR;
    h.tx_attr->iov_limit = 1;
    h.rx_attr->iov_limit = 1;
    h.tx_attr->op_flags = FI_DELIVERY_COMPLETE;
    h.ep_attr->type = FI_EP_RDM;
  });
  REQUIRE(info);
  CHECK((info->domain_attr->mr_mode & ~(FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_VIRT_ADDR)) == 0);
  CHECK(info->tx_attr->op_flags == FI_DELIVERY_COMPLETE);
}

TEST_CASE("MPICH: no hints, then the answer's capabilities with its own conditions") {
  fi_info* raw = nullptr;
  REQUIRE(fi_getinfo(FI_VERSION(1, 9), nullptr, nullptr, 0, nullptr, &raw) == 0);
  const Info first(raw);
  CHECK((first->caps & (FI_MSG | FI_TAGGED | FI_RMA | FI_MULTI_RECV)) == (FI_MSG | FI_TAGGED | FI_RMA | FI_MULTI_RECV));
  CHECK(first->ep_attr->type == FI_EP_RDM);

  const Info info = ask(FI_VERSION(1, 9), [&](fi_info& h) {
    h.caps = first->caps | FI_DIRECTED_RECV;
    h.fabric_attr->prov_name = strdup("mrc");
    h.mode = FI_CONTEXT | FI_ASYNC_IOV | FI_RX_CQ_DATA | FI_CONTEXT2;
    h.domain_attr->mode = FI_RESTRICTED_COMP;
    h.domain_attr->threading = FI_THREAD_DOMAIN;
    h.domain_attr->data_progress = FI_PROGRESS_MANUAL;
    h.domain_attr->control_progress = FI_PROGRESS_MANUAL;
    h.domain_attr->resource_mgmt = FI_RM_ENABLED;
    h.domain_attr->av_type = FI_AV_TABLE;
    h.domain_attr->cq_data_size = 4;
    h.tx_attr->op_flags = FI_COMPLETION | FI_DELIVERY_COMPLETE;
    h.tx_attr->msg_order = FI_ORDER_SAS;
    h.rx_attr->op_flags = FI_COMPLETION;
    h.ep_attr->type = FI_EP_RDM;
    h.ep_attr->mem_tag_format = 0x00E000007FFFFFFF;
  });
  REQUIRE(info);
  CHECK(info->domain_attr->threading == FI_THREAD_DOMAIN);
  CHECK(info->domain_attr->av_type == FI_AV_TABLE);
  CHECK(info->domain_attr->data_progress == FI_PROGRESS_MANUAL);
  CHECK(info->domain_attr->mr_mode == 0);
  CHECK(info->ep_attr->max_msg_size >= 16384);
  CHECK(info->nic == nullptr);
}
