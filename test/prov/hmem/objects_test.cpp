// SPDX-License-Identifier: BSD-2-Clause
// FI_HMEM as applications ask for it: hints, domains, registration, with a CUDA driver library at hand.
#include <rdma/fi_domain.h>

#include "../objects_fixture.hpp"
#include "device.hpp"
#include "fabric.hpp"
#include "stub.hpp"

using namespace mrc;
using test::DeviceMemory;
using test::Fid;
using test::Info;

namespace {

Info info_with_hmem(int mr_mode = FI_MR_HMEM, int* code = nullptr) {
  const Info hints(fi_allocinfo());
  hints->caps = FI_MSG | FI_TAGGED | FI_RMA | FI_HMEM;
  hints->domain_attr->mr_mode = mr_mode;
  hints->tx_attr->caps = hints->rx_attr->caps = hints->caps;
  return test::get_info(hints.get(), code);
}

struct Domain {
  explicit Domain(Info from) : info(std::move(from)) {
    REQUIRE(info != nullptr);
    fid_fabric* f = nullptr;
    REQUIRE(prov::open_fabric(info->fabric_attr, &f, nullptr) == 0);
    fabric.reset(f);
    fid_domain* d = nullptr;
    REQUIRE(fi_domain(f, info.get(), &d, nullptr) == 0);
    domain.reset(d);
  }
  int reg(const void* at, std::size_t length, fi_hmem_iface iface, Fid<fid_mr>* out = nullptr,
          std::uint64_t access = FI_REMOTE_WRITE) {
    const iovec piece{const_cast<void*>(at), length};
    fi_mr_attr attr{};
    attr.mr_iov = &piece;
    attr.iov_count = 1;
    attr.access = access;
    attr.requested_key = ++key;
    attr.iface = iface;
    fid_mr* mr = nullptr;
    const int status = fi_mr_regattr(domain.get(), &attr, 0, &mr);
    Fid<fid_mr> owned(mr);
    if (out != nullptr) *out = std::move(owned);
    return status;
  }
  Info info;
  Fid<fid_fabric> fabric;
  Fid<fid_domain> domain;
  std::uint64_t key = 0;
};

}  // namespace

TEST_CASE("FI_HMEM is given to those who ask, and asks for registration") {
  const Info info = info_with_hmem(FI_MR_HMEM | FI_MR_LOCAL | FI_MR_VIRT_ADDR);
  REQUIRE(info != nullptr);
  CHECK((info->caps & FI_HMEM) != 0);
  CHECK((info->tx_attr->caps & FI_HMEM) != 0);
  CHECK((info->rx_attr->caps & FI_HMEM) != 0);
  CHECK(info->domain_attr->mr_mode == FI_MR_HMEM);

  int code = 0;
  CHECK(info_with_hmem(0, &code) == nullptr);
  CHECK(code == -FI_ENODATA);
  const Info plain = test::get_info(nullptr);
  CHECK((plain->caps & FI_HMEM) == 0);
  CHECK(plain->domain_attr->mr_mode == 0);
}

TEST_CASE("memory of the device and of the host is registered") {
  Domain d(info_with_hmem());
  std::vector<std::byte> host(1000);
  Fid<fid_mr> mr;
  CHECK(d.reg(host.data(), host.size(), FI_HMEM_SYSTEM, &mr) == 0);
  CHECK(fi_mr_desc(mr.get()) != nullptr);
  CHECK_FALSE(prov::device::any());
  CHECK(d.reg(host.data(), host.size(), FI_HMEM_CUDA) == 0);  // CUDA has never seen it: the host's
  CHECK_FALSE(prov::device::any());
  for (const bool pooled : {false, true}) {
    const DeviceMemory memory(8192, pooled);
    Fid<fid_mr> one, two;
    REQUIRE(d.reg(memory.device() + 100, 1000, FI_HMEM_CUDA, &one) == 0);
    CHECK(fi_mr_desc(one.get()) != nullptr);
    REQUIRE(d.reg(memory.device() + 5000, 100, FI_HMEM_CUDA, &two, FI_SEND | FI_RECV) == 0);
    CHECK(prov::device::find(memory.device() + 8191) != nullptr);
    CHECK(prov::device::find(memory.device() + 8192) == nullptr);
    CHECK(prov::device::find(host.data()) == nullptr);
    one.reset();
    CHECK(prov::device::find(memory.device()) != nullptr);
    CHECK(d.reg(memory.device() + 8000, 193, FI_HMEM_CUDA) == -FI_EINVAL);
    two.reset();
    CHECK_FALSE(prov::device::any());
  }
}

TEST_CASE("other devices, and CUDA's where nobody asked, are refused") {
  const DeviceMemory memory(4096);
  {
    Domain d(info_with_hmem());
    for (const auto iface : {FI_HMEM_ROCR, FI_HMEM_ZE, FI_HMEM_NEURON, FI_HMEM_SYNAPSEAI})
      CHECK(d.reg(memory.device(), 100, iface) == -FI_ENOSYS);
  }
  Domain d(test::get_info(nullptr));
  CHECK(d.reg(memory.device(), 100, FI_HMEM_CUDA) == -FI_EOPNOTSUPP);
  CHECK_FALSE(prov::device::any());
}
