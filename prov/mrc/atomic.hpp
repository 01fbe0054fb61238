// SPDX-License-Identifier: BSD-2-Clause
// Which atomic operations there are, and how many elements one call may have.
#pragma once

#include <rdma/fi_atomic.h>

#include "msg/atomic_kernels.hpp"

namespace mrc::prov {

/// 0, or -FI_EOPNOTSUPP for what the class of functions or the loaded libfabric's API does not have.
int atomic_attributes(fi_datatype datatype, fi_op op, msg::AtomicClass kind, fi_atomic_attr* attr);

/// fi_query_atomic.
int query_atomic(fid_domain* domain, fi_datatype datatype, fi_op op, fi_atomic_attr* attr, std::uint64_t flags);

}  // namespace mrc::prov
