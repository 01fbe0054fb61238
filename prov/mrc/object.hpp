// SPDX-License-Identifier: BSD-2-Clause
// From libfabric's C structures to our objects and back, and the wall that keeps exceptions on our side.
#pragma once

#include <rdma/fabric.h>
#include <rdma/fi_errno.h>

#include <new>

namespace mrc::prov {

/// What the application holds a pointer to: libfabric's structure, then the object it belongs to.
template <class Fid, class Object>
struct Handle {
  Fid fid{};
  Object* self = nullptr;
};

template <class Object, class Fid>
Object& self_of(Fid* fid) {
  return *reinterpret_cast<Handle<Fid, Object>*>(fid)->self;
}

/// The same from the common part, which every structure starts with.
template <class Object, class Fid>
Object& self_of_fid(struct fid* fid) {
  return *reinterpret_cast<Handle<Fid, Object>*>(fid)->self;
}

/// Runs `body`, which may allocate; C callers get -FI_ENOMEM instead of an exception.
template <class Body>
int guarded(Body&& body) noexcept {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return -FI_ENOMEM;
  } catch (...) {
    return -FI_EOTHER;
  }
}

}  // namespace mrc::prov
