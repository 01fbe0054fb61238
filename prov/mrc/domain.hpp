// SPDX-License-Identifier: BSD-2-Clause
// The domain object: holds the engine, knows the memory regions, opens everything else.
#pragma once

#include <rdma/fi_domain.h>

#include <memory>

#include "mr.hpp"
#include "object.hpp"
#include "objects.hpp"
#include "work.hpp"

namespace mrc::prov {

class FabricObject;

class DomainObject final : public Domain {
 public:
  DomainObject(FabricObject& fabric, std::shared_ptr<engine::Engine> engine, fi_info* info, void* context);
  ~DomainObject() override;

  engine::Engine& engine() override { return *engine_; }
  const fi_info& info() const override { return *info_; }
  int resolve(std::uint64_t key, std::uint64_t address, std::size_t length, std::uint64_t access, RegionPiece* out,
              std::size_t* out_count, Region* region) override;
  std::uint64_t mr_generation() const override { return regions_.generation(); }
  WorkQueue& work() override { return work_; }

  FabricObject& fabric() { return fabric_; }
  MrTable& regions() { return regions_; }
  bool has_device_memory() const { return (info_->caps & FI_HMEM) != 0; }
  bool provider_keys() const { return provider_keys_; }
  fid_domain* fid() { return &handle_.fid; }

 private:
  Handle<fid_domain, DomainObject> handle_;
  FabricObject& fabric_;
  std::shared_ptr<engine::Engine> engine_;
  fi_info* info_;
  MrTable regions_;
  WorkQueue work_;
  bool virtual_addresses_;
  bool provider_keys_;
};

int open_domain(FabricObject& fabric, fi_info* info, fid_domain** domain, void* context);

}  // namespace mrc::prov
