// SPDX-License-Identifier: BSD-2-Clause
// What libfabric calls of an endpoint to control it, and the families of calls that mrc does not have.
#include <cstring>

#include "endpoint.hpp"
#include "nosys.hpp"

namespace mrc::prov {

namespace {

Endpoint& object(struct fid* fid) {
  return self_of_fid<Endpoint, fid_ep>(fid);
}

int close_op(struct fid* fid) {
  return object(fid).close();
}

int bind_op(struct fid* fid, struct fid* other, std::uint64_t flags) {
  return guarded([&] { return object(fid).bind(other, flags); });
}

int control_op(struct fid* fid, int command, void* arg) {
  switch (command) {
    case FI_ENABLE:
      return guarded([&] { return object(fid).enable(); });
    case FI_GETOPSFLAG:
    case FI_SETOPSFLAG:
      if (arg == nullptr) return -FI_EINVAL;
      return object(fid).op_flags(command == FI_SETOPSFLAG, static_cast<std::uint64_t*>(arg));
    case FI_ALIAS:
      if (arg == nullptr) return -FI_EINVAL;
      return guarded([&] { return object(fid).alias(static_cast<struct fi_alias*>(arg)); });
    default:
      return -FI_ENOSYS;
  }
}

ssize_t cancel_op(fid_t fid, void* context) {
  Endpoint& ep = object(fid);
  const Endpoint::Lock lock(ep.engine());
  const int found = ep.can_receive() ? ep.table().cancel(context) : ep.cannot_receive();
  return found != 0 && ep.cancel_deferred(context) ? 0 : found;
}

int getopt_op(fid_t fid, int level, int name, void* value, size_t* length) {
  if (level != FI_OPT_ENDPOINT || value == nullptr || length == nullptr) return -FI_ENOPROTOOPT;
  Endpoint& ep = object(fid);
  std::size_t answer = 0;
  switch (name) {
    case FI_OPT_MIN_MULTI_RECV:
      answer = ep.min_multi_recv();
      break;
    case FI_OPT_CM_DATA_SIZE:
      break;
    case FI_OPT_TX_SIZE:
      answer = ep.tx_size();
      break;
    case FI_OPT_RX_SIZE:
      answer = ep.rx_size();
      break;
    default:
      return -FI_ENOPROTOOPT;
  }
  if (*length < sizeof answer) return -FI_ETOOSMALL;
  std::memcpy(value, &answer, sizeof answer);
  *length = sizeof answer;
  return 0;
}

int setopt_op(fid_t fid, int level, int name, const void* value, size_t length) {
  if (level != FI_OPT_ENDPOINT || name != FI_OPT_MIN_MULTI_RECV) return -FI_ENOPROTOOPT;
  if (value == nullptr || length != sizeof(std::size_t)) return -FI_EINVAL;
  std::size_t bytes = 0;
  std::memcpy(&bytes, value, sizeof bytes);
  return object(fid).set_min_multi_recv(bytes);
}

ssize_t rx_size_left_op(fid_ep* fid) {
  Endpoint& ep = self_of<Endpoint>(fid);
  const Endpoint::Lock lock(ep.engine());
  return ep.can_receive() ? static_cast<ssize_t>(ep.table().left()) : ep.cannot_receive();
}

ssize_t tx_size_left_op(fid_ep* fid) {
  Endpoint& ep = self_of<Endpoint>(fid);
  const Endpoint::Lock lock(ep.engine());
  return ep.can_send() ? static_cast<ssize_t>(ep.tx_left()) : -FI_EOPBADSTATE;
}

int setname_op(fid_t fid, void* address, size_t length) {
  return guarded([&] { return object(fid).set_name(address, length); });
}

int getname_op(fid_t fid, void* address, size_t* length) {
  return length == nullptr ? -FI_EINVAL : object(fid).get_name(address, length);
}

int tx_ctx_op(fid_ep* sep, int index, fi_tx_attr* attr, fid_ep** ep, void* context) {
  return guarded([&] { return self_of<Endpoint>(sep).open_tx_context(index, attr, ep, context); });
}

int rx_ctx_op(fid_ep* sep, int index, fi_rx_attr* attr, fid_ep** ep, void* context) {
  return guarded([&] { return self_of<Endpoint>(sep).open_rx_context(index, attr, ep, context); });
}

// Connectionless endpoints have no one peer to name or to part from.
int getpeer_op(fid_ep*, void*, size_t* length) {
  return length == nullptr ? -FI_EINVAL : -FI_ENOTCONN;
}

int shutdown_op(fid_ep*, uint64_t flags) {
  return flags != 0 ? -FI_EBADFLAGS : -FI_ENOTCONN;
}

}  // namespace

fi_ops endpoint_fid_ops = {.size = sizeof(fi_ops),
                           .close = close_op,
                           .bind = bind_op,
                           .control = control_op,
                           .ops_open = nosys,
                           .tostr = nosys,
                           .ops_set = nosys};

fi_ops_ep endpoint_ep_ops = {.size = sizeof(fi_ops_ep),
                             .cancel = cancel_op,
                             .getopt = getopt_op,
                             .setopt = setopt_op,
                             .tx_ctx = tx_ctx_op,
                             .rx_ctx = rx_ctx_op,
                             .rx_size_left = rx_size_left_op,
                             .tx_size_left = tx_size_left_op};

fi_ops_cm endpoint_cm_ops = {.size = sizeof(fi_ops_cm),
                             .setname = setname_op,
                             .getname = getname_op,
                             .getpeer = getpeer_op,
                             .connect = nosys,
                             .listen = nosys,
                             .accept = nosys,
                             .reject = nosys,
                             .shutdown = shutdown_op,
                             .join = nosys};

fi_ops_collective endpoint_collective_ops = {.size = sizeof(fi_ops_collective),
                                             .barrier = nosys,
                                             .broadcast = nosys,
                                             .alltoall = nosys,
                                             .allreduce = nosys,
                                             .allgather = nosys,
                                             .reduce_scatter = nosys,
                                             .reduce = nosys,
                                             .scatter = nosys,
                                             .gather = nosys,
                                             .msg = nosys,
                                             .barrier2 = nosys};

}  // namespace mrc::prov
