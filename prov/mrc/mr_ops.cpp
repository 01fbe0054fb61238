// SPDX-License-Identifier: BSD-2-Clause
// What libfabric calls to register memory.
#include <rdma/fi_errno.h>

#include <cinttypes>
#include <memory>
#include <string>
#include <vector>

#include "cuda.hpp"
#include "domain.hpp"
#include "fabric.hpp"
#include "info.hpp"
#include "log.hpp"
#include "mr.hpp"
#include "nosys.hpp"

namespace mrc::prov {

namespace {

/// Hints about a device's memory change nothing here.
constexpr std::uint64_t kFlags = FI_RMA_EVENT | FI_HMEM_HOST_ALLOC | FI_HMEM_DEVICE_ONLY;
constexpr std::uint64_t kAccess = FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;

int close_mr(struct fid* fid) {
  MrObject& mr = self_of_fid<MrObject, fid_mr>(fid);
  {
    const std::lock_guard guard(mr.domain().engine());
    if (mr.remote()) mr.domain().regions().erase(mr.key());
    mr.forget_devices();
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
    // MPI's dynamic windows ask for the whole address space. A bad address in it must not crash the target: Linux 5.14
    // and newer can say what is memory.
    const bool everything = attr.iov_count == 1 && base == 0 && piece.iov_len == UINTPTR_MAX;
    const auto here = reinterpret_cast<std::uintptr_t>(&total);
    if ((base == 0 && piece.iov_len != 0 && !(everything && usable_memory(here, sizeof total, true))) ||
        piece.iov_len > UINTPTR_MAX - base || __builtin_add_overflow(total, piece.iov_len, &total)) {
      MRC_INFO(MR, "piece %zu of the memory region, %p + %zu, is no memory", i, piece.iov_base, piece.iov_len);
      return -FI_EINVAL;
    }
  }
  if ((attr.access & ~kAccess) != 0 || attr.offset != 0 || (flags & ~kFlags) != 0) {
    MRC_INFO(MR,
             "memory registration with access 0x%" PRIx64 ", offset %" PRIu64 ", flags 0x%" PRIx64
             ": unknown access or flags, or an offset other than 0",
             attr.access, attr.offset, flags);
    return -FI_EINVAL;
  }
  return 0;
}

/// Which memory it is. Callers of old versions have a shorter structure.
fi_hmem_iface iface_of(DomainObject& domain, const fi_mr_attr& attr) {
  const bool has_iface = FI_VERSION_GE(domain.fabric().api_version(), FI_VERSION(1, 10));
  return has_iface || domain.has_device_memory() ? attr.iface : FI_HMEM_SYSTEM;
}

const char* name_of(fi_hmem_iface iface) {
  switch (iface) {
    case FI_HMEM_ROCR:
      return "AMD's (FI_HMEM_ROCR)";
    case FI_HMEM_ZE:
      return "Intel's (FI_HMEM_ZE)";
    case FI_HMEM_NEURON:
      return "AWS Neuron's (FI_HMEM_NEURON)";
    case FI_HMEM_SYNAPSEAI:
      return "Habana's (FI_HMEM_SYNAPSEAI)";
    default:
      return "of a kind that mrc does not know";
  }
}

/// Finds the allocations behind the pieces of a region on a device. 0 or -FI_E… after a log line.
int find_devices(DomainObject& domain, const fi_mr_attr& attr, std::vector<device::Allocation>& out) {
  const fi_hmem_iface iface = iface_of(domain, attr);
  if (iface == FI_HMEM_SYSTEM) return 0;
  if (iface != FI_HMEM_CUDA) {
    MRC_INFO(MR, "the memory is %s: mrc has FI_HMEM_SYSTEM and FI_HMEM_CUDA", name_of(iface));
    return -FI_ENOSYS;
  }
  if (!domain.has_device_memory()) {
    MRC_INFO(MR, "CUDA memory needs a domain with FI_HMEM: ask fi_getinfo for it, with FI_MR_HMEM in mr_mode");
    return -FI_EOPNOTSUPP;
  }
  std::string why;
  Cuda* cuda = Cuda::instance(&why);
  if (cuda == nullptr) {
    MRC_INFO(MR, "CUDA memory cannot be used: %s", why.c_str());
    return -FI_ENODEV;
  }
  for (std::size_t i = 0; i < attr.iov_count; ++i) {
    const iovec& piece = attr.mr_iov[i];
    if (piece.iov_len == 0) continue;
    device::Allocation found;
    int error = 0;
    if (!cuda->locate(piece.iov_base, found, error)) {
      if (error == 0) continue;  // the host's, whatever the caller thinks
      MRC_INFO(MR, "CUDA does not tell where piece %zu of the memory region, %p, lies", i, piece.iov_base);
      return error;
    }
    const auto offset = reinterpret_cast<std::uintptr_t>(piece.iov_base) - found.base;
    if (piece.iov_len > found.length - offset) {
      MRC_INFO(MR, "piece %zu of the memory region, %p + %zu, reaches over its CUDA allocation", i, piece.iov_base,
               piece.iov_len);
      return -FI_EINVAL;
    }
    out.push_back(found);
  }
  return 0;
}

int reg_attr(struct fid* fid, const fi_mr_attr* attr, std::uint64_t flags, fid_mr** out) {
  if (fid == nullptr || fid->fclass != FI_CLASS_DOMAIN || attr == nullptr || out == nullptr) return -FI_EINVAL;
  if (const int error = check(*attr, flags)) return error;
  DomainObject& domain = self_of_fid<DomainObject, fid_domain>(fid);
  return guarded([&] {
    std::vector<device::Allocation> devices;
    if (const int error = find_devices(domain, *attr, devices)) return error;
    auto mr = std::make_unique<MrObject>(domain, *attr);
    const std::lock_guard guard(domain.engine());
    if (domain.provider_keys()) mr->set_key(domain.regions().new_key());
    if (mr->remote() && !domain.regions().insert(*mr)) {
      MRC_INFO(MR, "key 0x%" PRIx64 " is in use", attr->requested_key);
      return -FI_ENOKEY;
    }
    mr->add_devices(devices);
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
