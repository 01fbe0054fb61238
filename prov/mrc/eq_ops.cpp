// SPDX-License-Identifier: BSD-2-Clause
// What libfabric calls of an event queue.
#include <rdma/fi_errno.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "eq.hpp"
#include "fabric.hpp"
#include "log.hpp"
#include "nosys.hpp"
#include "wait_set.hpp"

namespace mrc::prov {

namespace {

EqObject& object(fid_eq* eq) {
  return self_of<EqObject>(eq);
}

int close_eq(struct fid* fid) {
  EqObject& eq = self_of_fid<EqObject, fid_eq>(fid);
  if (eq.held()) {
    MRC_INFO(EQ, "fi_close of an event queue that something is still bound to");
    return -FI_EBUSY;
  }
  delete &eq;
  return 0;
}

int control_eq(struct fid* fid, int command, void* arg) {
  return self_of_fid<EqObject, fid_eq>(fid).control(command, arg);
}

ssize_t read_eq(fid_eq* eq, std::uint32_t* event, void* buffer, std::size_t length, std::uint64_t flags) {
  return object(eq).read(event, buffer, length, flags);
}

ssize_t readerr_eq(fid_eq* eq, fi_eq_err_entry* entry, std::uint64_t flags) {
  return object(eq).read_error(entry, flags);
}

ssize_t write_eq(fid_eq* eq, std::uint32_t event, const void* entry, std::size_t length, std::uint64_t) {
  ssize_t written = 0;
  const int error = guarded([&] {
    written = object(eq).write(event, entry, length);
    return 0;
  });
  return error != 0 ? error : written;
}

ssize_t sread_eq(fid_eq* eq, std::uint32_t* event, void* buffer, std::size_t length, int timeout, std::uint64_t flags) {
  return object(eq).read_blocking(event, buffer, length, timeout, flags);
}

const char* strerror_eq(fid_eq*, int prov_errno, const void*, char* buffer, std::size_t length) {
  const char* text = fi_strerror(prov_errno < 0 ? -prov_errno : prov_errno);
  if (buffer == nullptr || length == 0) return text;
  const std::size_t kept = std::min(std::strlen(text), length - 1);
  std::memcpy(buffer, text, kept);
  buffer[kept] = '\0';
  return buffer;
}

}  // namespace

fi_ops eq_fid_ops = {.size = sizeof(fi_ops),
                     .close = close_eq,
                     .bind = nosys,
                     .control = control_eq,
                     .ops_open = nosys,
                     .tostr = nosys,
                     .ops_set = nosys};

fi_ops_eq eq_ops = {.size = sizeof(fi_ops_eq),
                    .read = read_eq,
                    .readerr = readerr_eq,
                    .write = write_eq,
                    .sread = sread_eq,
                    .strerror = strerror_eq};

int open_eq(fid_fabric* fabric, fi_eq_attr* attr, fid_eq** eq, void* context) {
  fi_eq_attr wanted = attr != nullptr ? *attr : fi_eq_attr{};
  WaitSet* set = nullptr;
  if (const int error = check_wait(wanted.wait_obj, wanted.wait_set, &set)) return error;
  return guarded([&] {
    auto object = std::make_unique<EqObject>(self_of<FabricObject>(fabric), wanted, context);
    if (set != nullptr) {
      if (const int error = set->add(*object)) return error;
      object->set_wait_set(set);
    }
    *eq = object.release()->fid();
    return 0;
  });
}

EventQueue* eq_of(struct fid* fid) {
  if (fid == nullptr || fid->fclass != FI_CLASS_EQ) return nullptr;
  return &self_of_fid<EqObject, fid_eq>(fid);
}

}  // namespace mrc::prov
