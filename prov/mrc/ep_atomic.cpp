// SPDX-License-Identifier: BSD-2-Clause
// fi_atomic and its kin, what is valid, and fi_query_atomic.
#include <rdma/fi_atomic.h>

#include "atomic.hpp"
#include "ep_data.hpp"

namespace mrc::prov {
namespace {

using msg::AtomicClass;
using msg::AtomicType;
using msg::OpKind;

/// An array of fi_ioc in bytes; true if it fits the limit.
bool pieces_of(const fi_ioc* ioc, std::size_t count, std::size_t size, msg::Transmit&,
               std::array<engine::GatherPiece, msg::kMaxIov>& out, std::uint64_t& total) {
  total = 0;
  if (count > out.size()) return false;
  for (std::size_t i = 0; i < count; ++i) {
    if (ioc[i].count > msg::kMaxAtomic) return false;
    out[i] = {ioc[i].addr, ioc[i].count * size};
    total += out[i].length;
  }
  return true;
}

/// One call of any kind, as its *msg form says it.
struct Call {
  AtomicClass kind;
  const fi_ioc* iov = nullptr;
  std::size_t count = 0;
  const fi_ioc* compare = nullptr;
  std::size_t compare_count = 0;
  const fi_ioc* results = nullptr;
  std::size_t result_count = 0;
  const fi_rma_ioc* remote = nullptr;
  std::size_t remote_count = 0;
  fi_datatype datatype;
  fi_op op;
  fi_addr_t address = FI_ADDR_UNSPEC;
};

ssize_t atomic_call(fid_ep* fid, const Call& call, msg::Transmit& t) {
  Endpoint& ep = endpoint_of(fid);
  fi_atomic_attr attr;
  if (const int error = atomic_attributes(call.datatype, call.op, call.kind, &attr)) return error;
  t.kind = call.kind == AtomicClass::kBase ? OpKind::kAtomic : OpKind::kFetchAtomic;
  t.atomic = {static_cast<std::uint8_t>(call.datatype), static_cast<std::uint8_t>(call.op), call.kind};

  std::array<msg::Segment, msg::kMaxSegments> segments;
  if (call.remote_count == 0 || call.remote_count > segments.size()) return -FI_EINVAL;
  std::uint64_t elements = 0;
  for (std::size_t i = 0; i < call.remote_count; ++i) {
    const fi_rma_ioc& r = call.remote[i];
    if (r.count > attr.count) return -FI_EMSGSIZE;
    segments[i] = {r.key, r.addr, r.count * attr.size};
    elements += r.count;
  }
  if (elements > attr.count) return -FI_EMSGSIZE;
  if (elements == 0) return -FI_EINVAL;

  std::array<engine::GatherPiece, msg::kMaxIov> operand, compare, results;
  const std::uint64_t length = elements * attr.size;
  std::uint64_t total = 0;
  if (call.op != FI_ATOMIC_READ) {
    if (!pieces_of(call.iov, call.count, attr.size, t, operand, total) || total != length) return -FI_EINVAL;
    t.pieces = {operand.data(), call.count};
  }
  if (call.kind == AtomicClass::kCompare) {
    if (!pieces_of(call.compare, call.compare_count, attr.size, t, compare, total) || total != length)
      return -FI_EINVAL;
    t.compare = {compare.data(), call.compare_count};
  }
  if (call.kind != AtomicClass::kBase) {
    if (!pieces_of(call.results, call.result_count, attr.size, t, results, total) || total != length) return -FI_EINVAL;
    t.results = {results.data(), call.result_count};
  }
  t.segments = {segments.data(), call.remote_count};
  if (t.inject && t.pieces.size() != 0 && length > ep.inject_size()) return -FI_EMSGSIZE;
  const Endpoint::Lock lock(ep.engine());
  return ep.transmit(t, call.address);
}

/// Calls without flags: one target range, as long as the operands (the results, where there are no operands).
ssize_t plain_call(fid_ep* fid, Call call, std::uint64_t address, std::uint64_t key, void* context) {
  const bool reads = call.op == FI_ATOMIC_READ;
  const fi_ioc* measure = reads ? call.results : call.iov;
  fi_rma_ioc remote{address, 0, key};
  const std::size_t count = reads ? call.result_count : call.count;
  if (count > msg::kMaxIov) return -FI_EINVAL;
  for (std::size_t i = 0; i < count; ++i)
    if (__builtin_add_overflow(remote.count, measure[i].count, &remote.count)) return -FI_EMSGSIZE;
  call.remote = &remote;
  call.remote_count = 1;
  msg::Transmit t;
  t.context = context;
  // The endpoint's default FI_INJECT is for what fits; the rest is copied all the same.
  apply_default_flags(endpoint_of(fid), SIZE_MAX, t);
  return atomic_call(fid, call, t);
}

ssize_t msg_call(fid_ep* fid, Call call, const fi_msg_atomic* m, std::uint64_t flags) {
  if ((flags & FI_TAGGED) != 0) return -FI_EOPNOTSUPP;
  call.iov = m->msg_iov;
  call.count = m->iov_count;
  call.remote = m->rma_iov;
  call.remote_count = m->rma_iov_count;
  call.datatype = m->datatype;
  call.op = m->op;
  call.address = m->addr;
  msg::Transmit t;
  t.data = m->data;
  t.context = m->context;
  apply_flags(endpoint_of(fid), flags, t);
  return atomic_call(fid, call, t);
}

fi_ioc ioc(const void* buffer, std::size_t count) {
  return {const_cast<void*>(buffer), count};
}

ssize_t writev_op(fid_ep* ep, const fi_ioc* iov, void**, size_t count, fi_addr_t to, uint64_t addr, uint64_t key,
                  fi_datatype datatype, fi_op op, void* context) {
  Call call{.kind = AtomicClass::kBase, .iov = iov, .count = count, .datatype = datatype, .op = op, .address = to};
  return plain_call(ep, call, addr, key, context);
}

ssize_t write_op(fid_ep* ep, const void* buf, size_t count, void*, fi_addr_t to, uint64_t addr, uint64_t key,
                 fi_datatype datatype, fi_op op, void* context) {
  const fi_ioc one = ioc(buf, count);
  return writev_op(ep, &one, nullptr, 1, to, addr, key, datatype, op, context);
}

ssize_t writemsg_op(fid_ep* ep, const fi_msg_atomic* m, uint64_t flags) {
  return msg_call(ep, {.kind = AtomicClass::kBase, .datatype = m->datatype, .op = m->op}, m, flags);
}

ssize_t inject_op(fid_ep* ep, const void* buf, size_t count, fi_addr_t to, uint64_t addr, uint64_t key,
                  fi_datatype datatype, fi_op op) {
  const fi_ioc one = ioc(buf, count);
  const fi_rma_ioc remote{addr, count, key};
  msg::Transmit t;
  t.inject = true;
  t.signal = false;
  return atomic_call(ep,
                     {.kind = AtomicClass::kBase,
                      .iov = &one,
                      .count = 1,
                      .remote = &remote,
                      .remote_count = 1,
                      .datatype = datatype,
                      .op = op,
                      .address = to},
                     t);
}

ssize_t readwritev_op(fid_ep* ep, const fi_ioc* iov, void**, size_t count, fi_ioc* results, void**, size_t result_count,
                      fi_addr_t to, uint64_t addr, uint64_t key, fi_datatype datatype, fi_op op, void* context) {
  Call call{.kind = AtomicClass::kFetch,
            .iov = iov,
            .count = count,
            .results = results,
            .result_count = result_count,
            .datatype = datatype,
            .op = op,
            .address = to};
  return plain_call(ep, call, addr, key, context);
}

ssize_t readwrite_op(fid_ep* ep, const void* buf, size_t count, void*, void* result, void*, fi_addr_t to, uint64_t addr,
                     uint64_t key, fi_datatype datatype, fi_op op, void* context) {
  const fi_ioc one = ioc(buf, count);
  fi_ioc into = ioc(result, count);
  return readwritev_op(ep, &one, nullptr, 1, &into, nullptr, 1, to, addr, key, datatype, op, context);
}

ssize_t readwritemsg_op(fid_ep* ep, const fi_msg_atomic* m, fi_ioc* results, void**, size_t result_count,
                        uint64_t flags) {
  return msg_call(ep,
                  {.kind = AtomicClass::kFetch,
                   .results = results,
                   .result_count = result_count,
                   .datatype = m->datatype,
                   .op = m->op},
                  m, flags);
}

ssize_t compwritev_op(fid_ep* ep, const fi_ioc* iov, void**, size_t count, const fi_ioc* compare, void**,
                      size_t compare_count, fi_ioc* results, void**, size_t result_count, fi_addr_t to, uint64_t addr,
                      uint64_t key, fi_datatype datatype, fi_op op, void* context) {
  Call call{.kind = AtomicClass::kCompare,
            .iov = iov,
            .count = count,
            .compare = compare,
            .compare_count = compare_count,
            .results = results,
            .result_count = result_count,
            .datatype = datatype,
            .op = op,
            .address = to};
  return plain_call(ep, call, addr, key, context);
}

ssize_t compwrite_op(fid_ep* ep, const void* buf, size_t count, void*, const void* compare, void*, void* result, void*,
                     fi_addr_t to, uint64_t addr, uint64_t key, fi_datatype datatype, fi_op op, void* context) {
  const fi_ioc one = ioc(buf, count), other = ioc(compare, count);
  fi_ioc into = ioc(result, count);
  return compwritev_op(ep, &one, nullptr, 1, &other, nullptr, 1, &into, nullptr, 1, to, addr, key, datatype, op,
                       context);
}

ssize_t compwritemsg_op(fid_ep* ep, const fi_msg_atomic* m, const fi_ioc* compare, void**, size_t compare_count,
                        fi_ioc* results, void**, size_t result_count, uint64_t flags) {
  return msg_call(ep,
                  {.kind = AtomicClass::kCompare,
                   .compare = compare,
                   .compare_count = compare_count,
                   .results = results,
                   .result_count = result_count,
                   .datatype = m->datatype,
                   .op = m->op},
                  m, flags);
}

template <AtomicClass Kind>
int valid_op(fid_ep*, fi_datatype datatype, fi_op op, size_t* count) {
  fi_atomic_attr attr;
  const int error = atomic_attributes(datatype, op, Kind, &attr);
  if (error == 0 && count != nullptr) *count = attr.count;
  return error;
}

}  // namespace

fi_ops_atomic endpoint_atomic_ops = {.size = sizeof(fi_ops_atomic),
                                     .write = write_op,
                                     .writev = writev_op,
                                     .writemsg = writemsg_op,
                                     .inject = inject_op,
                                     .readwrite = readwrite_op,
                                     .readwritev = readwritev_op,
                                     .readwritemsg = readwritemsg_op,
                                     .compwrite = compwrite_op,
                                     .compwritev = compwritev_op,
                                     .compwritemsg = compwritemsg_op,
                                     .writevalid = valid_op<AtomicClass::kBase>,
                                     .readwritevalid = valid_op<AtomicClass::kFetch>,
                                     .compwritevalid = valid_op<AtomicClass::kCompare>};

}  // namespace mrc::prov
