// SPDX-License-Identifier: BSD-2-Clause
// The part of a named address vector that several processes of one user share: a table in POSIX shared memory. Whoever
// inserts writes there; the others take over what is new when they look (AvObject). It exists while anybody has it
// open: each holds a shared lock on the memory's file, and who finds that nobody else does, removes it; so the leavings
// of killed processes are not taken for a vector.
#pragma once

#include <rdma/fi_domain.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "address.hpp"

namespace mrc::prov {

class SharedAv {
 public:
  /// One index. Written under guard().
  struct Entry {
    Sockaddr raw;
    std::uint32_t uses;  ///< 0: removed
  };

  /// Opens it; without `read_only` also makes it, if there is none, for at least `count` addresses. 0, or -FI_ENOENT
  /// (none to be read), -FI_EINVAL (no such name possible, or the vector that exists is of another kind), -FI_E….
  static int open(const char* name, bool read_only, bool ipv6, std::size_t count, std::unique_ptr<SharedAv>& out);
  ~SharedAv();
  SharedAv(const SharedAv&) = delete;
  SharedAv& operator=(const SharedAv&) = delete;

  bool read_only() const { return read_only_; }
  /// fi_addr_t by index, for fi_av_attr.map_addr.
  fi_addr_t* map() const;
  /// Moves with every change.
  std::uint64_t generation() const;
  std::size_t size() const;
  std::size_t capacity() const;
  const Entry& entry(std::size_t index) const;
  /// Below, and while several entries have to fit together.
  class Guard {
   public:
    explicit Guard(SharedAv& av);
    ~Guard();
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;

   private:
    SharedAv& av_;
  };
  void set(std::size_t index, const Sockaddr& raw, std::uint32_t uses);

 private:
  struct Header;
  SharedAv() = default;
  Entry* entries() const;

  std::string path_;
  int fd_ = -1;
  bool read_only_ = false;
  Header* header_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace mrc::prov
