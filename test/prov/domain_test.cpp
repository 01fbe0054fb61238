// SPDX-License-Identifier: BSD-2-Clause
// Fabrics and domains: how they open, fail, and refuse to close while in use; no ops pointer is NULL.
#include "domain.hpp"

#include <cstring>

#include "fabric.hpp"
#include "objects_fixture.hpp"

using namespace mrc;
using test::FakeEngine;
using test::Objects;

namespace {

/// Hooks call every pointer of a table without looking.
template <class Ops>
void check_full(const char* what, const Ops* ops) {
  INFO(what);
  REQUIRE(ops != nullptr);
  CHECK(ops->size == sizeof(Ops));
  for (std::size_t at = sizeof(std::size_t); at < sizeof(Ops); at += sizeof(void*)) {
    const void* pointer = nullptr;
    std::memcpy(&pointer, reinterpret_cast<const std::byte*>(ops) + at, sizeof pointer);
    INFO("offset " << at);
    CHECK(pointer != nullptr);
  }
}

}  // namespace

TEST_CASE("every table of operations is full") {
  Objects o;
  check_full("fabric fid", o.fabric->fid.ops);
  check_full("fabric", o.fabric->ops);
  check_full("domain fid", o.domain->fid.ops);
  check_full("domain", o.domain->ops);
  check_full("mr", o.domain->mr);
  const auto cq = o.open_cq({});
  check_full("cq fid", cq->fid.ops);
  check_full("cq", cq->ops);
  const auto eq = o.open_eq({});
  check_full("eq fid", eq->fid.ops);
  check_full("eq", eq->ops);
  const auto av = o.open_av({});
  check_full("av fid", av->fid.ops);
  check_full("av", av->ops);
  const auto cntr = o.open_cntr();
  check_full("cntr fid", cntr->fid.ops);
  check_full("cntr", cntr->ops);
}

TEST_CASE("what is not there says so") {
  Objects o;
  fid_ep* ep = nullptr;
  fid_stx* stx = nullptr;
  fid_pep* pep = nullptr;
  CHECK(fi_scalable_ep(o.domain.get(), o.info.get(), &ep, nullptr) == -FI_ENOSYS);
  CHECK(o.domain->ops->stx_ctx(o.domain.get(), nullptr, &stx, nullptr) == -FI_ENOSYS);
  CHECK(o.domain->ops->srx_ctx(o.domain.get(), nullptr, &ep, nullptr) == -FI_ENOSYS);
  CHECK(fi_passive_ep(o.fabric.get(), o.info.get(), &pep, nullptr) == -FI_ENOSYS);
  o.info->ep_attr->type = FI_EP_MSG;
  CHECK(fi_endpoint(o.domain.get(), o.info.get(), &ep, nullptr) == -FI_EINVAL);
}

TEST_CASE("several domains share the engine") {
  Objects a;
  fid_domain* raw = nullptr;
  REQUIRE(fi_domain(a.fabric.get(), a.info.get(), &raw, &a) == 0);
  test::Fid<fid_domain> second(raw);
  CHECK(raw->fid.context == &a);
  CHECK(&prov::self_of<prov::DomainObject>(raw).engine() == a.engine.get());
  CHECK(prov::self_of<prov::DomainObject>(raw).info().tx_attr->size == a.info->tx_attr->size);
  CHECK(fi_close(&a.fabric->fid) == -FI_EBUSY);
  CHECK(fi_domain2(a.fabric.get(), a.info.get(), &raw, FI_PEER, nullptr) == -FI_ENOSYS);
}

TEST_CASE("an engine that does not start fails fi_domain") {
  Objects o;
  FakeEngine::failure() = "no hugepages, no switch, no luck";
  fid_domain* raw = nullptr;
  CHECK(fi_domain(o.fabric.get(), o.info.get(), &raw, nullptr) == -ENODEV);
  FakeEngine::failure().clear();
  CHECK(raw == nullptr);
}

TEST_CASE("names that do not exist") {
  fi_fabric_attr attr{};
  char other[] = "other";
  attr.name = other;
  fid_fabric* fabric = nullptr;
  CHECK(prov::open_fabric(&attr, &fabric, nullptr) == -FI_ENODATA);
  Objects o;
  fid_domain* domain = nullptr;
  char* name = std::exchange(o.info->domain_attr->name, other);
  CHECK(fi_domain(o.fabric.get(), o.info.get(), &domain, nullptr) == -FI_EINVAL);
  o.info->domain_attr->name = name;
  CHECK(fi_domain(o.fabric.get(), nullptr, &domain, nullptr) == -FI_EINVAL);
}
