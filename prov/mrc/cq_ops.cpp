// SPDX-License-Identifier: BSD-2-Clause
// What libfabric calls of a completion queue.
#include <rdma/fi_errno.h>

#include <algorithm>
#include <cstring>

#include "cq.hpp"
#include "domain.hpp"
#include "log.hpp"
#include "nosys.hpp"
#include "wait_set.hpp"

namespace mrc::prov {

namespace {

CqObject& object(fid_cq* cq) {
  return self_of<CqObject>(cq);
}

int close_cq(struct fid* fid) {
  CqObject& cq = self_of_fid<CqObject, fid_cq>(fid);
  if (cq.held()) {
    MRC_INFO(CQ, "fi_close of a completion queue that endpoints are still bound to");
    return -FI_EBUSY;
  }
  delete &cq;
  return 0;
}

int control_cq(struct fid* fid, int command, void* arg) {
  return self_of_fid<CqObject, fid_cq>(fid).control(command, arg);
}

ssize_t read_cq(fid_cq* cq, void* buffer, std::size_t count) {
  return object(cq).read(buffer, count, nullptr);
}

ssize_t readfrom_cq(fid_cq* cq, void* buffer, std::size_t count, fi_addr_t* sources) {
  return object(cq).read(buffer, count, sources);
}

ssize_t readerr_cq(fid_cq* cq, fi_cq_err_entry* entry, std::uint64_t) {
  return object(cq).read_error(entry);
}

ssize_t sread_cq(fid_cq* cq, void* buffer, std::size_t count, const void* condition, int timeout) {
  return object(cq).read_blocking(buffer, count, nullptr, condition, timeout);
}

ssize_t sreadfrom_cq(fid_cq* cq, void* buffer, std::size_t count, fi_addr_t* sources, const void* condition,
                     int timeout) {
  return object(cq).read_blocking(buffer, count, sources, condition, timeout);
}

int signal_cq(fid_cq* cq) {
  object(cq).signal();
  return 0;
}

const char* words(int prov_errno) {
  using transport::Status;
  if (prov_errno < kProvErrnoTransport) return fi_strerror(prov_errno < 0 ? -prov_errno : prov_errno);
  switch (static_cast<Status>(prov_errno - kProvErrnoTransport)) {
    case Status::kOk:
      return "no error";
    case Status::kAgain:
      return "a limit was reached; try again";
    case Status::kInvalid:
      return "invalid operation";
    case Status::kNoRoute:
      return "there is no way to the peer's address";
    case Status::kTimedOut:
      return "the peer did not answer within FI_MRC_CONNECT_TIMEOUT: is it running, and is the address right?";
    case Status::kPeerDead:
      return "the peer is gone: its process ended, or was silent for FI_MRC_PEER_TIMEOUT";
    case Status::kPeerRestarted:
      return "the peer was restarted; what was under way is lost, new operations reach the new process";
    case Status::kRefused:
      return "the peer refused the connection: another mrc version, or another FI_MRC_JOB_KEY";
    case Status::kAccess:
      return "the peer refused access: no such memory key, out of its bounds, or a right not granted";
    case Status::kClosed:
      return "the endpoint was closed";
    case Status::kProtocol:
      return "the peer met something that the protocol does not allow: is it another version of mrc?";
  }
  return "unknown reason";
}

const char* strerror_cq(fid_cq*, int prov_errno, const void*, char* buffer, std::size_t length) {
  const char* text = words(prov_errno);
  if (buffer == nullptr || length == 0) return text;
  const std::size_t kept = std::min(std::strlen(text), length - 1);
  std::memcpy(buffer, text, kept);
  buffer[kept] = '\0';
  return buffer;
}

}  // namespace

fi_ops cq_fid_ops = {.size = sizeof(fi_ops),
                     .close = close_cq,
                     .bind = nosys,
                     .control = control_cq,
                     .ops_open = nosys,
                     .tostr = nosys,
                     .ops_set = nosys};

fi_ops_cq cq_ops = {.size = sizeof(fi_ops_cq),
                    .read = read_cq,
                    .readfrom = readfrom_cq,
                    .readerr = readerr_cq,
                    .sread = sread_cq,
                    .sreadfrom = sreadfrom_cq,
                    .signal = signal_cq,
                    .strerror = strerror_cq};

int open_cq(fid_domain* domain, fi_cq_attr* attr, fid_cq** cq, void* context) {
  const fi_cq_attr wanted = attr != nullptr ? *attr : fi_cq_attr{};
  constexpr std::size_t kLargest = std::size_t{1} << 24;
  if (wanted.size > kLargest || wanted.format > FI_CQ_FORMAT_TAGGED) {
    MRC_INFO(CQ, "a completion queue of %zu entries in format %d: at most %zu, formats up to FI_CQ_FORMAT_TAGGED",
             wanted.size, static_cast<int>(wanted.format), kLargest);
    return -FI_EINVAL;
  }
  if (wanted.wait_cond != FI_CQ_COND_NONE && wanted.wait_cond != FI_CQ_COND_THRESHOLD) return -FI_EINVAL;
  WaitSet* set = nullptr;
  if (const int error = check_wait(wanted.wait_obj, wanted.wait_set, &set)) return error;
  return guarded([&] {
    auto object = std::make_unique<CqObject>(self_of<DomainObject>(domain), wanted, context);
    if (set != nullptr) {
      if (const int error = set->add(*object)) return error;
      object->set_wait_set(set);
    }
    *cq = object.release()->fid();
    return 0;
  });
}

Cq* cq_of(struct fid* fid) {
  if (fid == nullptr || fid->fclass != FI_CLASS_CQ) return nullptr;
  return &self_of_fid<CqObject, fid_cq>(fid);
}

}  // namespace mrc::prov
