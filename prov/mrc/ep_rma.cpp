// SPDX-License-Identifier: BSD-2-Clause
// fi_write, fi_read and their kin.
#include "ep_data.hpp"

namespace mrc::prov {
namespace {

ssize_t rma_call(fid_ep* fid, msg::Transmit& t, const Pieces& pieces, std::span<const msg::Segment> segments,
                 fi_addr_t address) {
  Endpoint& ep = endpoint_of(fid);
  if (!pieces.fits() || segments.empty()) return -FI_EINVAL;
  std::uint64_t remote = 0;
  for (const auto& s : segments) remote += s.length;
  if (remote != pieces.length()) return -FI_EINVAL;
  t.pieces = pieces.span();
  t.segments = segments;
  const Endpoint::Lock lock(ep.engine());
  return ep.transmit(t, address);
}

ssize_t simple_call(fid_ep* fid, msg::OpKind kind, const Pieces& pieces, fi_addr_t address, std::uint64_t remote,
                    std::uint64_t key, bool has_data, std::uint64_t data, void* context) {
  const msg::Segment segment{key, remote, pieces.length()};
  msg::Transmit t;
  t.kind = kind;
  t.has_data = has_data;
  t.data = data;
  t.context = context;
  apply_default_flags(endpoint_of(fid), pieces.length(), t);
  if (kind == msg::OpKind::kRead) t.inject = false;
  return rma_call(fid, t, pieces, {&segment, 1}, address);
}

ssize_t msg_call(fid_ep* fid, msg::OpKind kind, const fi_msg_rma* m, std::uint64_t flags) {
  std::array<msg::Segment, msg::kMaxSegments> segments;
  if (m->rma_iov_count > segments.size()) return -FI_EINVAL;
  for (std::size_t i = 0; i < m->rma_iov_count; ++i)
    segments[i] = {m->rma_iov[i].key, m->rma_iov[i].addr, m->rma_iov[i].len};
  msg::Transmit t;
  t.kind = kind;
  t.data = m->data;
  t.context = m->context;
  apply_flags(endpoint_of(fid), flags, t);
  if (kind == msg::OpKind::kRead) t.inject = t.has_data = false;
  return rma_call(fid, t, {m->msg_iov, m->iov_count}, {segments.data(), m->rma_iov_count}, m->addr);
}

ssize_t inject_write(fid_ep* fid, const void* buf, size_t len, fi_addr_t to, uint64_t addr, uint64_t key, bool has_data,
                     uint64_t data) {
  const msg::Segment segment{key, addr, len};
  msg::Transmit t;
  t.kind = msg::OpKind::kWrite;
  t.inject = true;
  t.signal = false;
  t.has_data = has_data;
  t.data = data;
  return rma_call(fid, t, {buf, len}, {&segment, 1}, to);
}

ssize_t read_op(fid_ep* ep, void* buf, size_t len, void*, fi_addr_t src, uint64_t addr, uint64_t key, void* context) {
  return simple_call(ep, msg::OpKind::kRead, {buf, len}, src, addr, key, false, 0, context);
}

ssize_t readv_op(fid_ep* ep, const iovec* iov, void**, size_t count, fi_addr_t src, uint64_t addr, uint64_t key,
                 void* context) {
  if (count > msg::kMaxIov) return -FI_EINVAL;
  return simple_call(ep, msg::OpKind::kRead, {iov, count}, src, addr, key, false, 0, context);
}

ssize_t readmsg_op(fid_ep* ep, const fi_msg_rma* m, uint64_t flags) {
  return msg_call(ep, msg::OpKind::kRead, m, flags);
}

ssize_t write_op(fid_ep* ep, const void* buf, size_t len, void*, fi_addr_t to, uint64_t addr, uint64_t key,
                 void* context) {
  return simple_call(ep, msg::OpKind::kWrite, {buf, len}, to, addr, key, false, 0, context);
}

ssize_t writev_op(fid_ep* ep, const iovec* iov, void**, size_t count, fi_addr_t to, uint64_t addr, uint64_t key,
                  void* context) {
  if (count > msg::kMaxIov) return -FI_EINVAL;
  return simple_call(ep, msg::OpKind::kWrite, {iov, count}, to, addr, key, false, 0, context);
}

ssize_t writemsg_op(fid_ep* ep, const fi_msg_rma* m, uint64_t flags) {
  return msg_call(ep, msg::OpKind::kWrite, m, flags);
}

ssize_t inject_op(fid_ep* ep, const void* buf, size_t len, fi_addr_t to, uint64_t addr, uint64_t key) {
  return inject_write(ep, buf, len, to, addr, key, false, 0);
}

ssize_t writedata_op(fid_ep* ep, const void* buf, size_t len, void*, uint64_t data, fi_addr_t to, uint64_t addr,
                     uint64_t key, void* context) {
  return simple_call(ep, msg::OpKind::kWrite, {buf, len}, to, addr, key, true, data, context);
}

ssize_t injectdata_op(fid_ep* ep, const void* buf, size_t len, uint64_t data, fi_addr_t to, uint64_t addr,
                      uint64_t key) {
  return inject_write(ep, buf, len, to, addr, key, true, data);
}

}  // namespace

fi_ops_rma endpoint_rma_ops = {.size = sizeof(fi_ops_rma),
                               .read = read_op,
                               .readv = readv_op,
                               .readmsg = readmsg_op,
                               .write = write_op,
                               .writev = writev_op,
                               .writemsg = writemsg_op,
                               .inject = inject_op,
                               .writedata = writedata_op,
                               .injectdata = injectdata_op};

}  // namespace mrc::prov
