// SPDX-License-Identifier: BSD-2-Clause
// fi_getinfo: which hints fit, and what the answer is.
#include "info.hpp"

#include <arpa/inet.h>

#include <cstring>
#include <functional>
#include <string>

#include "objects_fixture.hpp"

using namespace mrc;
using namespace mrc::prov;
using test::get_info;
using test::Info;

namespace {

Info hints_with(const std::function<void(fi_info&)>& change) {
  Info hints(fi_allocinfo());
  change(*hints);
  return hints;
}

int code_for(const std::function<void(fi_info&)>& change, std::uint32_t version = FI_VERSION(1, 17)) {
  const Info hints = hints_with(change);
  int code = 0;
  get_info(hints.get(), &code, nullptr, nullptr, 0, version);
  return code;
}

EndpointName source_of(const Info& info) {
  return *name_of(info->src_addr, info->src_addrlen);
}
EndpointName destination_of(const Info& info) {
  return *name_of(info->dest_addr, info->dest_addrlen);
}

}  // namespace

TEST_CASE("without hints: everything there is, but errors for strangers") {
  const Info info = get_info(nullptr);
  REQUIRE(info);
  CHECK(info->next == nullptr);
  CHECK(info->nic == nullptr);
  CHECK(info->caps == (kCaps & ~FI_SOURCE_ERR));
  CHECK(info->mode == 0);
  CHECK(info->addr_format == FI_SOCKADDR_IN);
  CHECK(info->src_addrlen == sizeof(sockaddr_in));
  CHECK(source_of(info).ipv4 != 0);
  CHECK(info->dest_addr == nullptr);
  CHECK(info->tx_attr->caps == kTxCaps);
  CHECK(info->rx_attr->caps == (kRxCaps & ~FI_SOURCE_ERR));
  CHECK(info->tx_attr->op_flags == 0);
  CHECK(info->tx_attr->inject_size >= 256);
  CHECK(info->ep_attr->type == FI_EP_RDM);
  CHECK(info->domain_attr->mr_mode == 0);
  CHECK(info->domain_attr->mr_key_size == 8);
  CHECK(info->domain_attr->cq_data_size == 8);
  CHECK(info->fabric_attr->prov_name == nullptr);
  CHECK(std::string(info->domain_attr->name) == "mrc");
}

TEST_CASE("what does not fit is ENODATA, never another code") {
  const std::vector<std::pair<const char*, std::function<void(fi_info&)>>> bad = {
      {"type MSG", [](fi_info& h) { h.ep_attr->type = FI_EP_MSG; }},
      {"type DGRAM", [](fi_info& h) { h.ep_attr->type = FI_EP_DGRAM; }},
      {"collectives", [](fi_info& h) { h.caps = FI_MSG | FI_COLLECTIVE; }},
      {"device memory", [](fi_info& h) { h.caps = FI_MSG | FI_HMEM; }},
      {"address format", [](fi_info& h) { h.addr_format = FI_ADDR_STR; }},
      {"domain name", [](fi_info& h) { h.domain_attr->name = strdup("invalid_domain"); }},
      {"fabric name", [](fi_info& h) { h.fabric_attr->name = strdup("10.0.0.0/8"); }},
      {"provider version", [](fi_info& h) { h.fabric_attr->prov_version = kVersion + 1; }},
      {"protocol", [](fi_info& h) { h.ep_attr->protocol = FI_PROTO_XNET; }},
      {"17 transmit contexts", [](fi_info& h) { h.ep_attr->tx_ctx_cnt = 17; }},
      {"17 receive contexts", [](fi_info& h) { h.ep_attr->rx_ctx_cnt = 17; }},
      {"message size", [](fi_info& h) { h.ep_attr->max_msg_size = SIZE_MAX; }},
      {"unknown order", [](fi_info& h) { h.tx_attr->msg_order = 1ull << 50; }},
      {"WAW size", [](fi_info& h) { h.caps = FI_RMA, h.ep_attr->max_order_waw_size = kMaxMessage + 1; }},
      {"unknown sources without sources", [](fi_info& h) { h.caps = FI_MSG | FI_SOURCE_ERR; }},
      {"completion order", [](fi_info& h) { h.rx_attr->comp_order = FI_ORDER_STRICT; }},
      {"inject size", [](fi_info& h) { h.tx_attr->inject_size = 1 << 20; }},
      {"transmit size", [](fi_info& h) { h.tx_attr->size = 1 << 20; }},
      {"receive iov", [](fi_info& h) { h.rx_attr->iov_limit = 9; }},
      {"RMA iov", [](fi_info& h) { h.tx_attr->rma_iov_limit = 9; }},
      {"CQ data", [](fi_info& h) { h.domain_attr->cq_data_size = 9; }},
      {"MR iov", [](fi_info& h) { h.domain_attr->mr_iov_limit = 9; }},
      {"MR_BASIC with bits", [](fi_info& h) { h.domain_attr->mr_mode = FI_MR_BASIC | FI_MR_LOCAL; }},
      {"op flags", [](fi_info& h) { h.tx_attr->op_flags = FI_COMMIT_COMPLETE; }},
      {"tx caps", [](fi_info& h) { h.tx_attr->caps = FI_COLLECTIVE; }},
      {"auth key", [](fi_info& h) { h.ep_attr->auth_key_size = 4; }},
      {"source of another family",
       [](fi_info& h) {
         h.src_addr = calloc(1, 32);
         h.src_addrlen = 32;
       }},
  };
  for (const auto& [what, change] : bad) {
    INFO(what);
    CHECK(code_for(change) == -FI_ENODATA);
  }
  CHECK(code_for([](fi_info& h) { h.domain_attr->mr_mode = FI_MR_LOCAL; }, FI_VERSION(1, 4)) == -FI_ENODATA);
}

TEST_CASE("contexts are echoed, shared or several") {
  Info hints(fi_allocinfo());
  auto info = get_info(hints.get());
  REQUIRE(info != nullptr);
  CHECK(info->ep_attr->tx_ctx_cnt == 1);
  CHECK(info->ep_attr->rx_ctx_cnt == 1);
  CHECK(info->domain_attr->max_ep_tx_ctx == 16);
  CHECK(info->domain_attr->max_ep_stx_ctx > 1);
  hints->ep_attr->tx_ctx_cnt = FI_SHARED_CONTEXT;
  hints->ep_attr->rx_ctx_cnt = 16;
  hints->caps = FI_MSG | FI_NAMED_RX_CTX;
  info = get_info(hints.get());
  REQUIRE(info != nullptr);
  CHECK(info->ep_attr->tx_ctx_cnt == FI_SHARED_CONTEXT);
  CHECK(info->ep_attr->rx_ctx_cnt == 16);
  CHECK((info->caps & FI_NAMED_RX_CTX) != 0);
  CHECK((info->tx_attr->caps & FI_NAMED_RX_CTX) != 0);
  hints->caps = FI_MSG;
  info = get_info(hints.get());
  REQUIRE(info != nullptr);
  CHECK((info->caps & FI_NAMED_RX_CTX) == 0);
}

TEST_CASE("strangers are errors only for those who ask for it by name") {
  const Info all = get_info(nullptr);
  REQUIRE(all != nullptr);
  CHECK(((all->caps | all->rx_attr->caps) & FI_SOURCE_ERR) == 0);
  // As MPICH does: all that the first answer offers is asked for.
  Info hints = hints_with([&](fi_info& h) { h.caps = all->caps; });
  auto info = get_info(hints.get());
  REQUIRE(info != nullptr);
  CHECK(((info->caps | info->rx_attr->caps) & FI_SOURCE_ERR) == 0);
  hints->caps = FI_MSG | FI_SOURCE | FI_SOURCE_ERR;
  info = get_info(hints.get());
  REQUIRE(info != nullptr);
  CHECK((info->caps & info->rx_attr->caps & FI_SOURCE_ERR) != 0);
}

TEST_CASE("models are echoed") {
  for (const int threading :
       {FI_THREAD_SAFE, FI_THREAD_FID, FI_THREAD_DOMAIN, FI_THREAD_COMPLETION, FI_THREAD_ENDPOINT})
    for (const int progress : {FI_PROGRESS_AUTO, FI_PROGRESS_MANUAL})
      for (const int av : {FI_AV_MAP, FI_AV_TABLE}) {
        const Info hints = hints_with([&](fi_info& h) {
          h.domain_attr->threading = static_cast<fi_threading>(threading);
          h.domain_attr->data_progress = static_cast<fi_progress>(progress);
          h.domain_attr->control_progress = static_cast<fi_progress>(progress);
          h.domain_attr->av_type = static_cast<fi_av_type>(av);
          h.domain_attr->resource_mgmt = FI_RM_DISABLED;
        });
        const Info info = get_info(hints.get());
        REQUIRE(info);
        CHECK(info->domain_attr->threading == threading);
        CHECK(info->domain_attr->data_progress == progress);
        CHECK(info->domain_attr->control_progress == progress);
        CHECK(info->domain_attr->av_type == av);
        CHECK(info->domain_attr->resource_mgmt == FI_RM_DISABLED);
      }
}

TEST_CASE("registration modes: old values are kept, of bits none is required") {
  const auto mode = [](int asked, std::uint32_t version) {
    const Info hints = hints_with([&](fi_info& h) { h.domain_attr->mr_mode = asked; });
    const Info info = get_info(hints.get(), nullptr, nullptr, nullptr, 0, version);
    REQUIRE(info);
    return info->domain_attr->mr_mode;
  };
  const std::uint32_t now = FI_VERSION(1, 17);
  CHECK(mode(0, now) == 0);
  CHECK(mode(FI_MR_BASIC, now) == FI_MR_BASIC);
  CHECK(mode(FI_MR_SCALABLE, now) == FI_MR_SCALABLE);
  CHECK(mode(FI_MR_UNSPEC, FI_VERSION(1, 0)) == FI_MR_SCALABLE);
  CHECK(mode(FI_MR_BASIC, FI_VERSION(1, 0)) == FI_MR_BASIC);
  CHECK(mode(FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY, now) == 0);
  CHECK(mode(FI_MR_LOCAL | FI_MR_MMU_NOTIFY | FI_MR_ENDPOINT, now) == 0);
}

TEST_CASE("capabilities are narrowed, with the directions they imply") {
  const auto caps = [](std::uint64_t asked) {
    const Info hints = hints_with([&](fi_info& h) { h.caps = asked; });
    return get_info(hints.get());
  };
  Info info = caps(FI_TAGGED);
  REQUIRE(info);
  CHECK((info->caps & (FI_TAGGED | FI_SEND | FI_RECV)) == (FI_TAGGED | FI_SEND | FI_RECV));
  CHECK((info->caps & (FI_MSG | FI_RMA | FI_READ | FI_REMOTE_WRITE | FI_SOURCE | FI_DIRECTED_RECV)) == 0);
  CHECK((info->tx_attr->caps & ~kTxCaps) == 0);
  CHECK((info->rx_attr->caps & FI_RECV) != 0);

  info = caps(FI_RMA | FI_WRITE);
  CHECK((info->caps & kRmaDirections) == FI_WRITE);
  CHECK((info->tx_attr->caps & (FI_WRITE | FI_READ)) == FI_WRITE);

  info = caps(FI_MSG | FI_SOURCE | FI_DIRECTED_RECV);
  CHECK((info->rx_attr->caps & (FI_SOURCE | FI_DIRECTED_RECV)) == (FI_SOURCE | FI_DIRECTED_RECV));
}

TEST_CASE("sizes and flags that fit are echoed") {
  const Info hints = hints_with([](fi_info& h) {
    h.tx_attr->size = 100;
    h.tx_attr->inject_size = 64;
    h.tx_attr->op_flags = FI_DELIVERY_COMPLETE | FI_COMPLETION;
    h.rx_attr->op_flags = FI_COMPLETION;
    h.tx_attr->msg_order = FI_ORDER_SAS | FI_ORDER_SAW;
    h.ep_attr->mem_tag_format = 0x00E000007FFFFFFF;
    h.fabric_attr->prov_name = strdup("mrc;^ofi_rxm");
    h.domain_attr->name = strdup("MRC");
  });
  const Info info = get_info(hints.get());
  REQUIRE(info);
  CHECK(info->tx_attr->size == 100);
  CHECK(info->tx_attr->inject_size == 64);
  CHECK(info->tx_attr->op_flags == (FI_DELIVERY_COMPLETE | FI_COMPLETION));
  CHECK(info->rx_attr->op_flags == FI_COMPLETION);
  CHECK((info->tx_attr->msg_order & (FI_ORDER_SAS | kOrderOnRequest)) == (FI_ORDER_SAS | FI_ORDER_SAW));
}

TEST_CASE("orders that cost something are given only to those who ask, for bytes of any size") {
  int code = 0;
  const Info all = get_info(nullptr, &code);
  REQUIRE(all);
  CHECK((all->tx_attr->msg_order & kMessageOrder) == kMessageOrder);
  CHECK((all->rx_attr->msg_order & kMessageOrder) == kMessageOrder);
  for (const std::uint64_t bit :
       {FI_ORDER_RAW, FI_ORDER_RAS, FI_ORDER_WAR, FI_ORDER_WAW, FI_ORDER_WAS, FI_ORDER_SAR, FI_ORDER_SAW, FI_ORDER_SAS,
        FI_ORDER_RAR, FI_ORDER_RMA_RAR, FI_ORDER_RMA_RAW, FI_ORDER_RMA_WAR, FI_ORDER_RMA_WAW}) {
    CAPTURE(bit);
    const Info hints = hints_with([&](fi_info& h) {
      h.caps = FI_MSG | FI_RMA;
      h.tx_attr->msg_order = h.rx_attr->msg_order = bit;
    });
    const Info info = get_info(hints.get());
    REQUIRE(info);
    CHECK((info->tx_attr->msg_order & kMessageOrder) == (kFreeOrder | bit));
    CHECK((info->rx_attr->msg_order & kMessageOrder) == (kFreeOrder | bit));
    const auto size = [&](std::uint64_t bits) { return (bit & bits) != 0 ? kMaxMessage : 0; };
    CHECK(info->ep_attr->max_order_raw_size == size(FI_ORDER_RAW | FI_ORDER_RMA_RAW));
    CHECK(info->ep_attr->max_order_war_size == size(FI_ORDER_WAR | FI_ORDER_RMA_WAR));
    CHECK(info->ep_attr->max_order_waw_size == size(FI_ORDER_WAW | FI_ORDER_RMA_WAW));
  }
}

TEST_CASE("node and service name the source or the destination") {
  int code = 0;
  Info info = get_info(nullptr, &code, "127.0.0.1", "9228", FI_SOURCE);
  REQUIRE(info);
  CHECK(source_of(info) == EndpointName{INADDR_LOOPBACK, 9228});
  CHECK(info->dest_addr == nullptr);

  info = get_info(nullptr, &code, "10.1.2.3", "7");
  REQUIRE(info);
  CHECK(destination_of(info) == EndpointName{0x0a010203, 7});
  CHECK(source_of(info).ipv4 != 0);

  info = get_info(nullptr, &code, nullptr, "9228", FI_SOURCE);
  REQUIRE(info);
  CHECK(source_of(info).port == 9228);
  CHECK(source_of(info).ipv4 != 0);

  info = get_info(nullptr, &code, "localhost", nullptr);
  REQUIRE(info);
  CHECK(destination_of(info).ipv4 == INADDR_LOOPBACK);

  CHECK_FALSE(get_info(nullptr, &code, "no-such-node.invalid", "7"));
  CHECK(code == -FI_ENODATA);
  CHECK_FALSE(get_info(nullptr, &code, "localhost", "7", FI_NUMERICHOST));
  CHECK(code == -FI_ENODATA);
  info = get_info(nullptr, &code, "no-such-node.invalid", "7", FI_PROV_ATTR_ONLY);
  REQUIRE(info);
  CHECK(info->src_addr == nullptr);
}

TEST_CASE("IPv6 names: asked for, or implied by the address") {
  Info hints = hints_with([](fi_info& h) { h.addr_format = FI_SOCKADDR_IN6; });
  Info info = get_info(hints.get(), nullptr, "10.1.2.3", "7");
  REQUIRE(info);
  CHECK(info->addr_format == FI_SOCKADDR_IN6);
  CHECK(info->dest_addrlen == sizeof(sockaddr_in6));
  CHECK(destination_of(info) == EndpointName{0x0a010203, 7});

  info = get_info(nullptr, nullptr, "fd00:1:2:3:a4d:5:0:0", "7");
  REQUIRE(info);
  CHECK(info->addr_format == FI_SOCKADDR_IN6);
  CHECK(destination_of(info) == EndpointName{0x0a4d0005, 7});

  hints = hints_with([](fi_info& h) {
    const Sockaddr raw = sockaddr_of({0x0a010203, 9}, false);
    h.dest_addr = malloc(raw.length);
    h.dest_addrlen = raw.length;
    std::memcpy(h.dest_addr, &raw.any, raw.length);
    h.addr_format = FI_SOCKADDR;
  });
  info = get_info(hints.get());
  REQUIRE(info);
  CHECK(info->addr_format == FI_SOCKADDR_IN);
  CHECK(destination_of(info) == EndpointName{0x0a010203, 9});
}
