// SPDX-License-Identifier: BSD-2-Clause
// Attributes of atomics, for endpoints and domains alike.
#include "atomic.hpp"

#include <rdma/fi_errno.h>

#include "log.hpp"
#include "msg/records.hpp"

namespace mrc::prov {

int atomic_attributes(fi_datatype datatype, fi_op op, msg::AtomicClass kind, fi_atomic_attr* attr) {
  const auto type = static_cast<unsigned>(datatype), operation = static_cast<unsigned>(op);
  // Before 2.0 FI_DIFF's number was the end of the list.
  static const bool has_diff = FI_VERSION_GE(fi_version(), FI_VERSION(2, 0));
  if (msg::atomic_kernel(type, operation, kind) == nullptr || (operation == msg::kDiff && !has_diff))
    return -FI_EOPNOTSUPP;
  attr->size = msg::atomic_size(type);
  attr->count = msg::kMaxAtomic / attr->size / (kind == msg::AtomicClass::kCompare ? 2 : 1);
  return 0;
}

int query_atomic(fid_domain*, fi_datatype datatype, fi_op op, fi_atomic_attr* attr, std::uint64_t flags) {
  if (attr == nullptr) return -FI_EINVAL;
  constexpr std::uint64_t kClasses = FI_FETCH_ATOMIC | FI_COMPARE_ATOMIC;
  if ((flags & ~(kClasses | FI_TAGGED)) != 0 || (flags & kClasses) == kClasses) {
    MRC_INFO(DOMAIN, "fi_query_atomic takes FI_FETCH_ATOMIC or FI_COMPARE_ATOMIC, and FI_TAGGED, not 0x%llx",
             static_cast<unsigned long long>(flags));
    return -FI_EBADFLAGS;
  }
  if ((flags & FI_TAGGED) != 0) return -FI_EOPNOTSUPP;  // nor to tagged receive buffers
  const auto kind = (flags & FI_FETCH_ATOMIC) != 0     ? msg::AtomicClass::kFetch
                    : (flags & FI_COMPARE_ATOMIC) != 0 ? msg::AtomicClass::kCompare
                                                       : msg::AtomicClass::kBase;
  return atomic_attributes(datatype, op, kind, attr);
}

}  // namespace mrc::prov
