// SPDX-License-Identifier: BSD-2-Clause
// The fabric object: opens domains and event queues.
#pragma once

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>

#include "object.hpp"
#include "objects.hpp"

namespace mrc::prov {

class FabricObject final : public Holdable {
 public:
  explicit FabricObject(void* context);
  /// What the application was built for; libfabric sets it after fi_fabric. Decides the size of error entries.
  std::uint32_t api_version() const { return handle_.fid.api_version; }
  fid_fabric* fid() { return &handle_.fid; }

 private:
  Handle<fid_fabric, FabricObject> handle_;
};

int open_fabric(fi_fabric_attr* attr, fid_fabric** fabric, void* context);

}  // namespace mrc::prov
