// SPDX-License-Identifier: BSD-2-Clause
// Opening the fixture's objects.
#include "objects_fixture.hpp"

#include "fabric.hpp"
#include "info.hpp"

namespace mrc::test {

Info get_info(const fi_info* hints, int* code, const char* node, const char* service, std::uint64_t flags,
              std::uint32_t version) {
  fi_info* info = nullptr;
  const int result = prov::getinfo(version, node, service, flags, hints, &info);
  if (code != nullptr) *code = result;
  return Info(result == 0 ? info : nullptr);
}

Objects::Objects(int mr_mode, std::uint32_t addr_format) {
  Info hints(fi_allocinfo());
  hints->domain_attr->mr_mode = mr_mode;
  hints->addr_format = addr_format;
  info = get_info(hints.get());
  REQUIRE(info != nullptr);
  info->domain_attr->mr_mode = mr_mode;  // an application may tighten what it got
  fid_fabric* raw_fabric = nullptr;
  REQUIRE(prov::open_fabric(info->fabric_attr, &raw_fabric, nullptr) == 0);
  fabric.reset(raw_fabric);
  fid_domain* raw_domain = nullptr;
  REQUIRE(fi_domain(raw_fabric, info.get(), &raw_domain, nullptr) == 0);
  domain.reset(raw_domain);
}

Fid<fid_cq> Objects::open_cq(fi_cq_attr attr) {
  fid_cq* cq = nullptr;
  REQUIRE(fi_cq_open(domain.get(), &attr, &cq, nullptr) == 0);
  return Fid<fid_cq>(cq);
}

Fid<fid_eq> Objects::open_eq(fi_eq_attr attr) {
  fid_eq* eq = nullptr;
  REQUIRE(fi_eq_open(fabric.get(), &attr, &eq, nullptr) == 0);
  return Fid<fid_eq>(eq);
}

Fid<fid_av> Objects::open_av(fi_av_attr attr) {
  fid_av* av = nullptr;
  REQUIRE(fi_av_open(domain.get(), &attr, &av, nullptr) == 0);
  return Fid<fid_av>(av);
}

Fid<fid_cntr> Objects::open_cntr(fi_cntr_attr attr) {
  fid_cntr* cntr = nullptr;
  REQUIRE(fi_cntr_open(domain.get(), &attr, &cntr, nullptr) == 0);
  return Fid<fid_cntr>(cntr);
}

}  // namespace mrc::test
