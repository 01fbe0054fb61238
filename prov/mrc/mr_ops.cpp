// SPDX-License-Identifier: BSD-2-Clause
// What libfabric calls to register memory.
#include <rdma/fi_errno.h>

#include <cinttypes>
#include <memory>

#include "domain.hpp"
#include "info.hpp"
#include "log.hpp"
#include "mr.hpp"
#include "nosys.hpp"

namespace mrc::prov {

namespace {

constexpr std::uint64_t kAccess = FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;

int close_mr(struct fid* fid) {
  MrObject& mr = self_of_fid<MrObject, fid_mr>(fid);
  if (mr.remote()) {
    const std::lock_guard guard(mr.domain().engine());
    mr.domain().regions().erase(mr.key());
  }
  delete &mr;
  return 0;
}

int bind_mr(struct fid* fid, struct fid* other, std::uint64_t flags) {
  return self_of_fid<MrObject, fid_mr>(fid).bind(other, flags);
}

int control_mr(struct fid*, int command, void*) {
  // Regions are usable at once and nothing about their pages is cached.
  if (command == FI_ENABLE || command == FI_REFRESH) return 0;
  return -FI_ENOSYS;
}

/// 0, or why the attributes cannot be registered.
int check(const fi_mr_attr& attr, std::uint64_t flags) {
  if (attr.mr_iov == nullptr || attr.iov_count == 0 || attr.iov_count > kIovLimit) {
    MRC_INFO(MR, "a memory region has 1 to %zu pieces, not %zu", kIovLimit, attr.iov_count);
    return -FI_EINVAL;
  }
  std::size_t total = 0;
  for (std::size_t i = 0; i < attr.iov_count; ++i) {
    const iovec& piece = attr.mr_iov[i];
    const auto base = reinterpret_cast<std::uintptr_t>(piece.iov_base);
    // The whole address space from 0 could be asked for, and any bad address in it would crash the target.
    if ((base == 0 && piece.iov_len != 0) || piece.iov_len > UINTPTR_MAX - base ||
        __builtin_add_overflow(total, piece.iov_len, &total)) {
      MRC_INFO(MR, "piece %zu of the memory region, %p + %zu, is no memory", i, piece.iov_base, piece.iov_len);
      return -FI_EINVAL;
    }
  }
  if ((attr.access & ~kAccess) != 0 || attr.offset != 0 || (flags & ~FI_RMA_EVENT) != 0) {
    MRC_INFO(MR,
             "memory registration with access 0x%" PRIx64 ", offset %" PRIu64 ", flags 0x%" PRIx64
             ": unknown access or flags, or an offset other than 0",
             attr.access, attr.offset, flags);
    return -FI_EINVAL;
  }
  if (attr.iface != FI_HMEM_SYSTEM) {
    MRC_INFO(MR, "device memory (interface %d) is not supported", static_cast<int>(attr.iface));
    return -FI_ENOSYS;
  }
  return 0;
}

int reg_attr(struct fid* fid, const fi_mr_attr* attr, std::uint64_t flags, fid_mr** out) {
  if (fid == nullptr || fid->fclass != FI_CLASS_DOMAIN || attr == nullptr || out == nullptr) return -FI_EINVAL;
  if (const int error = check(*attr, flags)) return error;
  DomainObject& domain = self_of_fid<DomainObject, fid_domain>(fid);
  return guarded([&] {
    auto mr = std::make_unique<MrObject>(domain, *attr);
    const std::lock_guard guard(domain.engine());
    if (domain.provider_keys()) mr->set_key(domain.regions().new_key());
    if (mr->remote() && !domain.regions().insert(*mr)) {
      MRC_INFO(MR, "key 0x%" PRIx64 " is in use", attr->requested_key);
      return -FI_ENOKEY;
    }
    *out = mr.release()->fid();
    return 0;
  });
}

int reg_v(struct fid* fid, const iovec* pieces, std::size_t count, std::uint64_t access, std::uint64_t offset,
          std::uint64_t key, std::uint64_t flags, fid_mr** out, void* context) {
  fi_mr_attr attr{};
  attr.mr_iov = pieces;
  attr.iov_count = count;
  attr.access = access;
  attr.offset = offset;
  attr.requested_key = key;
  attr.context = context;
  return reg_attr(fid, &attr, flags, out);
}

int reg(struct fid* fid, const void* buffer, std::size_t length, std::uint64_t access, std::uint64_t offset,
        std::uint64_t key, std::uint64_t flags, fid_mr** out, void* context) {
  const iovec piece{const_cast<void*>(buffer), length};
  return reg_v(fid, &piece, 1, access, offset, key, flags, out, context);
}

}  // namespace

fi_ops mr_fid_ops = {.size = sizeof(fi_ops),
                     .close = close_mr,
                     .bind = bind_mr,
                     .control = control_mr,
                     .ops_open = nosys,
                     .tostr = nosys,
                     .ops_set = nosys};

fi_ops_mr domain_mr_ops = {.size = sizeof(fi_ops_mr), .reg = reg, .regv = reg_v, .regattr = reg_attr};

}  // namespace mrc::prov
