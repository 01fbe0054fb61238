// SPDX-License-Identifier: BSD-2-Clause
// Event queue: control events (address insertion, what the application writes). Belongs to the fabric, not to a
// domain: it has a lock of its own and needs no engine. Its descriptor is readable exactly while there are events.
#pragma once

#include <rdma/fi_eq.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <vector>

#include "objects.hpp"
#include "wait.hpp"

namespace mrc::prov {

class FabricObject;
class WaitSet;

class EqObject final : public EventQueue, public Waitable {
 public:
  EqObject(FabricObject& fabric, const fi_eq_attr& attr, void* context);
  ~EqObject() override;

  /// From our own side; never refuses. Any thread.
  void push(std::uint32_t event, const void* entry, std::size_t length);
  void push_error(const fi_eq_err_entry& entry);

  /// From the application: -FI_EAGAIN when `size` events wait.
  ssize_t write(std::uint32_t event, const void* entry, std::size_t length);
  ssize_t read(std::uint32_t* event, void* buffer, std::size_t length, std::uint64_t flags);
  ssize_t read_error(fi_eq_err_entry* entry, std::uint64_t flags);
  ssize_t read_blocking(std::uint32_t* event, void* buffer, std::size_t length, int timeout, std::uint64_t flags);
  int control(int command, void* out);

  bool ready_locked() override;
  WaitPoint& wait_point() override { return point_; }
  Domain* domain() override { return nullptr; }
  void* context() const override { return handle_.fid.fid.context; }
  Holdable& holdable() override { return *this; }

  void set_wait_set(WaitSet* set) { set_ = set; }
  fid_eq* fid() { return &handle_.fid; }
  FabricObject& fabric() { return fabric_; }

 private:
  struct Event {
    std::uint32_t event = 0;
    bool is_error = false;
    fi_eq_err_entry error{};
    std::vector<std::byte> bytes;
  };
  void append_locked(Event&& event);

  Handle<fid_eq, EqObject> handle_;
  FabricObject& fabric_;
  WaitSet* set_ = nullptr;
  std::mutex mutex_;
  std::deque<Event> events_;
  std::size_t size_;
  fi_wait_obj wait_obj_;
  bool writable_;
  WaitPoint point_;
};

int open_eq(fid_fabric* fabric, fi_eq_attr* attr, fid_eq** eq, void* context);

}  // namespace mrc::prov
