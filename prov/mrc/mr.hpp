// SPDX-License-Identifier: BSD-2-Clause
// Memory regions, and the table that finds them: (key, address) of a peer → pieces of memory, or why not.
#pragma once

#include <rdma/fi_domain.h>
#include <sys/uio.h>

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "device.hpp"
#include "object.hpp"
#include "objects.hpp"

namespace mrc::prov {

class DomainObject;

/// Whether the process may read (or write) these bytes now; asks the kernel, and brings them in.
bool usable_memory(std::uintptr_t address, std::size_t length, bool write);

class MrObject {
 public:
  MrObject(DomainObject& domain, const fi_mr_attr& attr);
  ~MrObject();

  std::uint64_t key() const { return handle_.fid.key; }
  void set_key(std::uint64_t key) { handle_.fid.key = key; }
  /// Local-only regions are in no table: peers cannot name them.
  bool remote() const { return (access_ & (FI_REMOTE_READ | FI_REMOTE_WRITE)) != 0; }
  int bind(struct fid* other, std::uint64_t flags);

  /// See Domain::resolve. `virtual_addresses`: offsets count from the first piece's address, else from 0.
  int resolve(bool virtual_addresses, std::uint64_t address, std::size_t length, std::uint64_t access, RegionPiece* out,
              std::size_t* count) const;
  Region region(std::uint64_t access) const {
    return {key(), access_, (access & FI_REMOTE_WRITE) != 0 ? write_counter_ : read_counter_};
  }
  /// The whole address space, of which most is no memory (MPI's dynamic windows). Each access is checked.
  bool everything() const { return pieces_.front().iov_base == nullptr && length_ == UINTPTR_MAX; }
  DomainObject& domain() { return domain_; }
  /// The allocations of other devices that it lies in. Engine locked.
  void add_devices(const std::vector<device::Allocation>& allocations);
  void forget_devices();
  fid_mr* fid() { return &handle_.fid; }

 private:
  Handle<fid_mr, MrObject> handle_;
  DomainObject& domain_;
  std::uint64_t access_;
  std::vector<iovec> pieces_;
  std::size_t length_ = 0;  ///< of all pieces
  Counter* write_counter_ = nullptr;
  Counter* read_counter_ = nullptr;
  std::vector<std::uintptr_t> devices_;  ///< bases of allocations, once for each piece
};

/// The regions of a domain that peers can name. Engine locked.
class MrTable {
 public:
  /// Own keys never repeat, so that a stale one finds nothing.
  std::uint64_t new_key() { return next_key_++; }
  /// False if the key is taken.
  bool insert(MrObject& mr) { return regions_.try_emplace(mr.key(), &mr).second; }
  void erase(std::uint64_t key);
  MrObject* find(std::uint64_t key) const;
  std::uint64_t generation() const { return generation_; }

 private:
  std::unordered_map<std::uint64_t, MrObject*> regions_;
  std::uint64_t next_key_ = 1;
  std::uint64_t generation_ = 1;
};

extern fi_ops_mr domain_mr_ops;

}  // namespace mrc::prov
