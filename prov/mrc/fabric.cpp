// SPDX-License-Identifier: BSD-2-Clause
// fi_fabric and what libfabric calls of a fabric.
#include "fabric.hpp"

#include <strings.h>

#include "domain.hpp"
#include "eq.hpp"
#include "info.hpp"
#include "log.hpp"
#include "nosys.hpp"
#include "wait_set.hpp"

namespace mrc::prov {

namespace {

int close_fabric(struct fid* fid) {
  FabricObject& fabric = self_of_fid<FabricObject, fid_fabric>(fid);
  if (fabric.held()) {
    MRC_INFO(FABRIC, "fi_close of a fabric with open domains, event queues or wait sets");
    return -FI_EBUSY;
  }
  delete &fabric;
  return 0;
}

int open_domain_op(fid_fabric* fabric, fi_info* info, fid_domain** domain, void* context) {
  return open_domain(self_of<FabricObject>(fabric), info, domain, context);
}

int open_domain2_op(fid_fabric* fabric, fi_info* info, fid_domain** domain, std::uint64_t flags, void* context) {
  if (flags == 0) return open_domain_op(fabric, info, domain, context);
  MRC_INFO(FABRIC, "fi_domain2 with flags 0x%llx: mrc has none", static_cast<unsigned long long>(flags));
  return -FI_ENOSYS;
}

int trywait_op(fid_fabric*, struct fid** fids, int count) {
  return try_wait_all(fids, count);
}

fi_ops fabric_fid_ops = {.size = sizeof(fi_ops),
                         .close = close_fabric,
                         .bind = nosys,
                         .control = nosys,
                         .ops_open = nosys,
                         .tostr = nosys,
                         .ops_set = nosys};

fi_ops_fabric fabric_ops = {.size = sizeof(fi_ops_fabric),
                            .domain = open_domain_op,
                            .passive_ep = nosys,
                            .eq_open = open_eq,
                            .wait_open = open_wait_set,
                            .trywait = trywait_op,
                            .domain2 = open_domain2_op};

}  // namespace

FabricObject::FabricObject(void* context) {
  handle_.self = this;
  handle_.fid.fid = {FI_CLASS_FABRIC, context, &fabric_fid_ops};
  handle_.fid.ops = &fabric_ops;
  handle_.fid.api_version = fi_version();
}

int open_fabric(fi_fabric_attr* attr, fid_fabric** fabric, void* context) {
  if (attr != nullptr && attr->name != nullptr && strcasecmp(attr->name, kName) != 0) {
    MRC_INFO(FABRIC, "there is no fabric \"%s\", only \"%s\"", attr->name, kName);
    return -FI_ENODATA;
  }
  return guarded([&] {
    *fabric = (new FabricObject(context))->fid();
    return 0;
  });
}

}  // namespace mrc::prov
