// SPDX-License-Identifier: BSD-2-Clause
// Domains: the first one of a process starts the engine.
#include "domain.hpp"

#include <strings.h>

#include <mutex>

#include "fabric.hpp"
#include "info.hpp"
#include "log.hpp"
#include "params.hpp"

namespace mrc::prov {

extern fi_ops domain_fid_ops;
extern fi_ops_domain domain_ops;

DomainObject::DomainObject(FabricObject& fabric, std::shared_ptr<engine::Engine> engine, fi_info* info, void* context)
    : fabric_(fabric), engine_(std::move(engine)), info_(info) {
  const int mode = info->domain_attr->mr_mode;
  virtual_addresses_ = mode == abi::kMrBasic || (mode & FI_MR_VIRT_ADDR) != 0;
  provider_keys_ = mode == abi::kMrBasic || (mode & FI_MR_PROV_KEY) != 0;
  handle_.self = this;
  handle_.fid.fid = {FI_CLASS_DOMAIN, context, &domain_fid_ops};
  handle_.fid.ops = &domain_ops;
  handle_.fid.mr = &domain_mr_ops;
  fabric_.hold();
}

DomainObject::~DomainObject() {
  release(info_);
  fabric_.drop();
}

int DomainObject::resolve(std::uint64_t key, std::uint64_t address, std::size_t length, std::uint64_t access,
                          RegionPiece* out, std::size_t* out_count, Region* region) {
  const MrObject* mr = regions_.find(key);
  if (mr == nullptr) return -FI_EKEYREJECTED;
  if (const int error = mr->resolve(virtual_addresses_, address, length, access, out, out_count)) return error;
  if (region != nullptr) *region = mr->region(access);
  return 0;
}

bool progress(Domain& domain) {
  const std::lock_guard guard(domain.engine());
  return domain.engine().progress_locked();
}

namespace {

/// libfabric's codes for what the engine says; anything else passes as it is (they share errno's numbers).
int code_of(const Error& error) {
  return error.code > 0 ? -error.code : -FI_EOTHER;
}

}  // namespace

int open_domain(FabricObject& fabric, fi_info* info, fid_domain** domain, void* context) {
  if (info == nullptr || info->domain_attr == nullptr || info->tx_attr == nullptr || info->rx_attr == nullptr ||
      info->ep_attr == nullptr || info->fabric_attr == nullptr) {
    MRC_INFO(DOMAIN, "fi_domain needs a whole fi_info, as fi_getinfo returns it");
    return -FI_EINVAL;
  }
  if (info->domain_attr->name != nullptr && strcasecmp(info->domain_attr->name, kName) != 0) {
    MRC_INFO(DOMAIN, "there is no domain \"%s\", only \"%s\"", info->domain_attr->name, kName);
    return -FI_EINVAL;
  }
  const Params* p = params();
  if (p == nullptr) return -FI_EINVAL;
  return guarded([&]() -> int {
    auto engine = engine::Engine::acquire(engine_config(*p));
    if (!engine) {
      MRC_WARN(DOMAIN, "%s", engine.error().text.c_str());
      return code_of(engine.error());
    }
    MRC_INFO(DOMAIN, "domain opened on %s", (*engine)->describe().c_str());
    fi_info* copy = duplicate(*info);
    if (copy == nullptr) return -FI_ENOMEM;
    *domain = (new DomainObject(fabric, std::move(*engine), copy, context))->fid();
    return 0;
  });
}

}  // namespace mrc::prov
