// SPDX-License-Identifier: BSD-2-Clause
// fi_tsend, fi_trecv and their kin.
#include "ep_data.hpp"

namespace mrc::prov {
namespace {

ssize_t recv_op(fid_ep* ep, void* buf, size_t len, void*, fi_addr_t src, uint64_t tag, uint64_t ignore, void* context) {
  return receive_call(ep, true, {buf, len}, src, tag, ignore, context, endpoint_of(ep).rx_flags() & ~FI_MULTI_RECV);
}

ssize_t recvv_op(fid_ep* ep, const iovec* iov, void**, size_t count, fi_addr_t src, uint64_t tag, uint64_t ignore,
                 void* context) {
  return receive_call(ep, true, {iov, count}, src, tag, ignore, context, endpoint_of(ep).rx_flags() & ~FI_MULTI_RECV);
}

ssize_t recvmsg_op(fid_ep* ep, const fi_msg_tagged* m, uint64_t flags) {
  return receive_call(ep, true, {m->msg_iov, m->iov_count}, m->addr, m->tag, m->ignore, m->context, flags);
}

ssize_t send_op(fid_ep* ep, const void* buf, size_t len, void*, fi_addr_t to, uint64_t tag, void* context) {
  return send_call(ep, true, {buf, len}, to, tag, false, 0, context);
}

ssize_t sendv_op(fid_ep* ep, const iovec* iov, void**, size_t count, fi_addr_t to, uint64_t tag, void* context) {
  return send_call(ep, true, {iov, count}, to, tag, false, 0, context);
}

ssize_t sendmsg_op(fid_ep* fid, const fi_msg_tagged* m, uint64_t flags) {
  Endpoint& ep = endpoint_of(fid);
  const Pieces pieces(m->msg_iov, m->iov_count);
  if (!pieces.fits()) return -FI_EINVAL;
  msg::Transmit t;
  t.tagged = true;
  t.pieces = pieces.span();
  t.tag = m->tag;
  t.data = m->data;
  t.context = m->context;
  apply_flags(ep, flags, t);
  const Endpoint::Lock lock(ep.engine());
  return ep.transmit(t, m->addr);
}

ssize_t inject_op(fid_ep* ep, const void* buf, size_t len, fi_addr_t to, uint64_t tag) {
  return inject_call(ep, true, buf, len, to, tag, false, 0);
}

ssize_t senddata_op(fid_ep* ep, const void* buf, size_t len, void*, uint64_t data, fi_addr_t to, uint64_t tag,
                    void* context) {
  return send_call(ep, true, {buf, len}, to, tag, true, data, context);
}

ssize_t injectdata_op(fid_ep* ep, const void* buf, size_t len, uint64_t data, fi_addr_t to, uint64_t tag) {
  return inject_call(ep, true, buf, len, to, tag, true, data);
}

}  // namespace

fi_ops_tagged endpoint_tagged_ops = {.size = sizeof(fi_ops_tagged),
                                     .recv = recv_op,
                                     .recvv = recvv_op,
                                     .recvmsg = recvmsg_op,
                                     .send = send_op,
                                     .sendv = sendv_op,
                                     .sendmsg = sendmsg_op,
                                     .inject = inject_op,
                                     .senddata = senddata_op,
                                     .injectdata = injectdata_op};

}  // namespace mrc::prov
