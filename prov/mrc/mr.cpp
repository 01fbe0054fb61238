// SPDX-License-Identifier: BSD-2-Clause
// Memory regions: rights, bounds, pieces.
#include "mr.hpp"

#include <rdma/fi_errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <limits>

#include "domain.hpp"
#include "log.hpp"

namespace mrc::prov {

extern fi_ops mr_fid_ops;

namespace {

// Linux 5.14's; older headers lack them.
constexpr int kPopulateRead = 22, kPopulateWrite = 23;

}  // namespace

bool usable_memory(std::uintptr_t address, std::size_t length, bool write) {
  if (length == 0) return true;
  static const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  if (length > UINTPTR_MAX - page - address) return false;
  const std::uintptr_t first = address & ~(page - 1);
  return madvise(reinterpret_cast<void*>(first), address + length - first, write ? kPopulateWrite : kPopulateRead) == 0;
}

MrObject::MrObject(DomainObject& domain, const fi_mr_attr& attr)
    : domain_(domain), access_(attr.access), pieces_(attr.mr_iov, attr.mr_iov + attr.iov_count) {
  handle_.self = this;
  handle_.fid.fid = {FI_CLASS_MR, attr.context, &mr_fid_ops};
  handle_.fid.mem_desc = &handle_.fid;
  handle_.fid.key = attr.requested_key;
  for (const iovec& piece : pieces_) length_ += piece.iov_len;
  domain_.hold();
}

MrObject::~MrObject() {
  for (Counter* counter : {write_counter_, read_counter_})
    if (counter != nullptr) counter->drop();
  domain_.drop();
}

void MrObject::add_devices(const std::vector<device::Allocation>& allocations) {
  for (const auto& allocation : allocations) {
    devices_.push_back(allocation.base);
    device::add(allocation);
  }
}

void MrObject::forget_devices() {
  for (const auto base : devices_) device::remove(base);
  devices_.clear();
}

int MrObject::bind(struct fid* other, std::uint64_t flags) {
  if (other == nullptr) return -FI_EINVAL;
  if (other->fclass == FI_CLASS_EP) return 0;  // regions belong to the domain, every endpoint of it may use them
  Counter* counter = counter_of(other);
  const bool writes = (flags & FI_REMOTE_WRITE) != 0, reads = (flags & FI_REMOTE_READ) != 0;
  if (counter == nullptr || (flags & ~(FI_REMOTE_WRITE | FI_REMOTE_READ)) != 0 || !(writes || reads)) {
    MRC_INFO(MR, "fi_mr_bind takes a counter with FI_REMOTE_WRITE, FI_REMOTE_READ or both, or an endpoint");
    return -FI_EINVAL;
  }
  const std::lock_guard guard(domain_.engine());
  if ((writes && write_counter_ != nullptr) || (reads && read_counter_ != nullptr)) {
    MRC_INFO(MR, "the memory region has a counter for that already");
    return -FI_EINVAL;
  }
  const auto take = [counter](Counter*& slot) {
    slot = counter;
    counter->hold();
  };
  if (writes) take(write_counter_);
  if (reads) take(read_counter_);
  return 0;
}

int MrObject::resolve(bool virtual_addresses, std::uint64_t address, std::size_t length, std::uint64_t access,
                      RegionPiece* out, std::size_t* count) const {
  if ((access_ & access) != access) return -FI_EACCES;
  std::uint64_t offset = address;
  if (virtual_addresses) {
    const auto base = reinterpret_cast<std::uintptr_t>(pieces_.front().iov_base);
    if (address < base) return -FI_EINVAL;
    offset = address - base;
  }
  if (offset > length_ || length > length_ - offset) return -FI_EINVAL;

  if (everything() && !usable_memory(offset, length, (access & FI_REMOTE_WRITE) != 0)) return -FI_EINVAL;

  std::size_t used = 0;
  for (const iovec& piece : pieces_) {
    if (length == 0) break;
    if (offset >= piece.iov_len) {
      offset -= piece.iov_len;
      continue;
    }
    if (used == *count) return -FI_EINVAL;
    const std::size_t part = std::min<std::size_t>(length, piece.iov_len - offset);
    out[used++] = {static_cast<std::byte*>(piece.iov_base) + offset, part};
    length -= part;
    offset = 0;
  }
  *count = used;
  return 0;
}

void MrTable::erase(std::uint64_t key) {
  regions_.erase(key);
  ++generation_;
}

MrObject* MrTable::find(std::uint64_t key) const {
  const auto at = regions_.find(key);
  return at == regions_.end() ? nullptr : at->second;
}

}  // namespace mrc::prov
