// SPDX-License-Identifier: BSD-2-Clause
// fi_send, fi_recv and their kin.
#include "ep_data.hpp"

namespace mrc::prov {
namespace {

ssize_t recv_op(fid_ep* ep, void* buf, size_t len, void*, fi_addr_t src, void* context) {
  return receive_call(ep, false, {buf, len}, src, 0, 0, context, endpoint_of(ep).rx_flags());
}

ssize_t recvv_op(fid_ep* ep, const iovec* iov, void**, size_t count, fi_addr_t src, void* context) {
  return receive_call(ep, false, {iov, count}, src, 0, 0, context, endpoint_of(ep).rx_flags());
}

ssize_t recvmsg_op(fid_ep* ep, const fi_msg* m, uint64_t flags) {
  return receive_call(ep, false, {m->msg_iov, m->iov_count}, m->addr, 0, 0, m->context, flags);
}

ssize_t send_op(fid_ep* ep, const void* buf, size_t len, void*, fi_addr_t to, void* context) {
  return send_call(ep, false, {buf, len}, to, 0, false, 0, context);
}

ssize_t sendv_op(fid_ep* ep, const iovec* iov, void**, size_t count, fi_addr_t to, void* context) {
  return send_call(ep, false, {iov, count}, to, 0, false, 0, context);
}

ssize_t sendmsg_op(fid_ep* fid, const fi_msg* m, uint64_t flags) {
  Endpoint& ep = endpoint_of(fid);
  const Pieces pieces(m->msg_iov, m->iov_count);
  if (!pieces.fits()) return -FI_EINVAL;
  msg::Transmit t;
  t.pieces = pieces.span();
  t.data = m->data;
  t.context = m->context;
  apply_flags(ep, flags, t);
  const Endpoint::Lock lock(ep.engine());
  return ep.transmit(t, m->addr);
}

ssize_t inject_op(fid_ep* ep, const void* buf, size_t len, fi_addr_t to) {
  return inject_call(ep, false, buf, len, to, 0, false, 0);
}

ssize_t senddata_op(fid_ep* ep, const void* buf, size_t len, void*, uint64_t data, fi_addr_t to, void* context) {
  return send_call(ep, false, {buf, len}, to, 0, true, data, context);
}

ssize_t injectdata_op(fid_ep* ep, const void* buf, size_t len, uint64_t data, fi_addr_t to) {
  return inject_call(ep, false, buf, len, to, 0, true, data);
}

}  // namespace

fi_ops_msg endpoint_msg_ops = {.size = sizeof(fi_ops_msg),
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
