// SPDX-License-Identifier: BSD-2-Clause
// The provider as the system's libfabric loads it (FI_PROVIDER_PATH, set by meson): fi_getinfo's answers as fabtests'
// fi_getinfo_test checks them, knobs from a real environment, errors without a crash.
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_errno.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>

#include "support/catch.hpp"

namespace {

struct InfoFree {
  void operator()(fi_info* info) const { fi_freeinfo(info); }
};
using Info = std::unique_ptr<fi_info, InfoFree>;

constexpr std::uint32_t kVersion = FI_VERSION(1, 9);  // what fabtests asks for

Info get(const fi_info* hints, int* code = nullptr, std::uint32_t version = kVersion) {
  fi_info* info = nullptr;
  const int result = fi_getinfo(version, nullptr, nullptr, 0, hints, &info);
  if (code != nullptr) *code = result;
  return Info(info);
}

Info hints() {
  Info h(fi_allocinfo());
  h->fabric_attr->prov_name = strdup("mrc");
  h->mode = ~0ULL;
  return h;
}

/// Calls `check(hints with the bits, bits, code, info)` for every combination of `bits`.
template <class Init, class Check>
void combinations(std::uint64_t bits, const Init& init, const Check& check) {
  std::uint64_t combo = 0;
  do {
    const Info h = hints();
    init(*h, combo);
    int code = 0;
    const Info info = get(h.get(), &code);
    if (code != 0)
      REQUIRE(code == -FI_ENODATA);
    else
      REQUIRE(check(*info, combo));
    combo = (combo - bits) & bits;
  } while (combo != 0);
}

/// What a child with these variables prints (see the hidden test below).
std::string probe(const std::string& variables) {
  std::array<char, 4096> self{};
  REQUIRE(readlink("/proc/self/exe", self.data(), self.size() - 1) > 0);
  const std::string line = "FI_LOG_LEVEL=warn FI_LOG_PROV=mrc " + variables + " '" + self.data() + "' '[probe]' 2>&1";
  std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(line.c_str(), "r"), pclose);
  REQUIRE(pipe);
  std::string text;
  std::array<char, 512> part;
  while (fgets(part.data(), part.size(), pipe.get()) != nullptr) text += part.data();
  return text;
}

}  // namespace

TEST_CASE("a child that looks for the provider and tells", "[.][probe]") {
  int code = 0;
  const Info h = hints();
  h->domain_attr->data_progress = getenv("PROBE_AUTO") != nullptr ? FI_PROGRESS_AUTO : FI_PROGRESS_UNSPEC;
  const Info info = get(h.get(), &code);
  std::printf("\nprobe: %d tx=%zu\n", code, info ? info->tx_attr->size : std::size_t{0});
}

TEST_CASE("libfabric finds the provider, once") {
  const Info info = get(nullptr, nullptr, FI_VERSION(1, 17));
  REQUIRE(info);
  CHECK(std::string(info->fabric_attr->prov_name) == "mrc");
  CHECK(info->fabric_attr->api_version == FI_VERSION(1, 17));
  CHECK(info->ep_attr->type == FI_EP_RDM);
  CHECK(info->next == nullptr);  // nothing layered above, no second address format to choose from
  CHECK(info->nic == nullptr);   // MPICH would stripe over network cards
  const Info copy(fi_dupinfo(info.get()));
  REQUIRE(copy);
  CHECK(copy->src_addrlen == info->src_addrlen);
}

TEST_CASE("the API version is echoed") {
  for (const std::uint32_t version : {FI_VERSION(1, 0), FI_VERSION(1, 5), FI_VERSION(1, 9), FI_VERSION(1, 17)}) {
    const Info info = get(hints().get(), nullptr, version);
    REQUIRE(info);
    CHECK(info->fabric_attr->api_version == version);
  }
}

TEST_CASE("message orders: returned ones include the asked ones") {
  const std::uint64_t orders = FI_ORDER_STRICT | FI_ORDER_DATA;
  unsigned good = 0;
  combinations(
      orders, [](fi_info& h, std::uint64_t bits) { h.tx_attr->msg_order = bits; },
      [&](const fi_info& info, std::uint64_t bits) {
        ++good;
        return (info.tx_attr->msg_order & bits) == bits;
      });
  CHECK(good == 512);  // all
  combinations(
      orders, [](fi_info& h, std::uint64_t bits) { h.rx_attr->msg_order = bits; },
      [](const fi_info& info, std::uint64_t bits) { return (info.rx_attr->msg_order & bits) == bits; });
}

TEST_CASE("capabilities: none missing, none in the wrong direction") {
  const std::uint64_t tx_primary =
      FI_MSG | FI_RMA | FI_TAGGED | FI_ATOMIC | FI_MULTICAST | FI_NAMED_RX_CTX | FI_HMEM | FI_COLLECTIVE;
  const std::uint64_t rx_primary = FI_MSG | FI_RMA | FI_TAGGED | FI_ATOMIC | FI_DIRECTED_RECV | FI_HMEM | FI_COLLECTIVE;
  const std::uint64_t tx_all = tx_primary | FI_SEND | FI_READ | FI_WRITE | FI_TRIGGER | FI_FENCE | FI_RMA_PMEM;
  const std::uint64_t rx_all = rx_primary | FI_RECV | FI_REMOTE_READ | FI_REMOTE_WRITE | FI_RMA_PMEM | FI_SOURCE |
                               FI_SOURCE_ERR | FI_RMA_EVENT | FI_MULTI_RECV | FI_TRIGGER;
  combinations(
      tx_primary | rx_primary, [](fi_info& h, std::uint64_t bits) { h.caps = bits; },
      [&](const fi_info& info, std::uint64_t bits) {
        return (info.caps & bits) == bits && (info.tx_attr->caps & ~tx_all) == 0 &&
               (info.rx_attr->caps & ~rx_all) == 0 && (info.tx_attr->caps & ~info.caps) == 0 &&
               (info.rx_attr->caps & ~info.caps) == 0 &&
               (info.tx_attr->caps & bits & tx_primary) == (bits & tx_primary) &&
               (info.rx_attr->caps & bits & rx_primary) == (bits & rx_primary);
      });
  combinations(
      FI_LOCAL_COMM | FI_REMOTE_COMM | FI_SHARED_AV, [](fi_info& h, std::uint64_t bits) { h.domain_attr->caps = bits; },
      [](const fi_info& info, std::uint64_t bits) { return (info.domain_attr->caps & bits) == bits; });
}

TEST_CASE("registration modes: never one that was not offered") {
  unsigned good = 0;
  combinations(
      FI_MR_LOCAL | FI_MR_RAW | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_MMU_NOTIFY |
          FI_MR_RMA_EVENT | FI_MR_ENDPOINT,
      [](fi_info& h, std::uint64_t bits) { h.domain_attr->mr_mode = static_cast<int>(bits); },
      [&](const fi_info& info, std::uint64_t bits) {
        ++good;
        return (static_cast<std::uint64_t>(info.domain_attr->mr_mode) & ~bits) == 0;
      });
  CHECK(good == 256);
}

TEST_CASE("capabilities of a first answer are accepted in a second question") {
  const Info first = get(nullptr);
  REQUIRE(first);
  const Info h = hints();
  h->caps = first->caps;
  h->mode = FI_CONTEXT;
  h->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
  CHECK(get(h.get()));
}

TEST_CASE("a domain opens, refuses to close while in use, and closes") {
  const Info info = get(hints().get());
  REQUIRE(info);
  fid_fabric* fabric = nullptr;
  REQUIRE(fi_fabric(info->fabric_attr, &fabric, nullptr) == 0);
  fid_domain* domain = nullptr;
  REQUIRE(fi_domain(fabric, info.get(), &domain, nullptr) == 0);
  fid_cq* cq = nullptr;
  fi_cq_attr attr{};
  attr.format = FI_CQ_FORMAT_TAGGED;
  REQUIRE(fi_cq_open(domain, &attr, &cq, nullptr) == 0);
  CHECK(fi_close(&domain->fid) == -FI_EBUSY);
  CHECK(fi_close(&fabric->fid) == -FI_EBUSY);
  CHECK(fi_close(&cq->fid) == 0);
  CHECK(fi_close(&domain->fid) == 0);
  CHECK(fi_close(&fabric->fid) == 0);
}

TEST_CASE("the knobs are visible") {
  fi_param* list = nullptr;
  int count = 0;
  REQUIRE(get(hints().get()));
  REQUIRE(fi_getparams(&list, &count) == 0);
  unsigned ours = 0;
  for (int i = 0; i < count; ++i) {
    if (std::strncmp(list[i].name, "FI_MRC_", 7) != 0) continue;
    ++ours;
    INFO(list[i].name);
    CHECK(std::string(list[i].help_string).find("(default: ") != std::string::npos);
  }
  CHECK(ours >= 20);
  fi_freeparams(list);
}

TEST_CASE("a wrong knob makes the provider step aside, in words") {
  std::string text = probe("FI_MRC_WINDOW=77");
  CHECK(text.find("probe: -61") != std::string::npos);
  CHECK(text.find("FI_MRC_WINDOW=\"77\" is not valid: it must be 128, 256") != std::string::npos);
  text = probe("FI_MRC_JOB_KEY=0123456789012345678901234567890123456789");
  CHECK(text.find("FI_MRC_JOB_KEY") != std::string::npos);
  CHECK(text.find("3456") == std::string::npos);  // a secret
  text = probe("FI_MRC_TX_SIZE=77");
  CHECK(text.find("probe: 0 tx=77") != std::string::npos);
  text = probe("FI_MRC_PORTZ=lo");
  CHECK(text.find("probe: 0") != std::string::npos);
  CHECK(text.find("FI_MRC_PORTZ, which mrc does not know; did you mean FI_MRC_PORTS?") != std::string::npos);
}

TEST_CASE("automatic progress needs the service thread") {
  CHECK(probe("PROBE_AUTO=1").find("probe: 0") != std::string::npos);
  CHECK(probe("PROBE_AUTO=1 FI_MRC_SERVICE_THREAD=0").find("probe: -61") != std::string::npos);
}

TEST_CASE("every refusal is a line in the log") {
  // INFO lines of our own process would need a capture; a child shows them.
  std::string text = probe("FI_LOG_LEVEL=info PROBE_AUTO=1 FI_MRC_SERVICE_THREAD=no");
  CHECK(text.find("FI_PROGRESS_AUTO, but FI_MRC_SERVICE_THREAD=0") != std::string::npos);
}
