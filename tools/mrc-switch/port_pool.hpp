// SPDX-License-Identifier: BSD-2-Clause
// Where the clients' memifs come from. One copy of DPDK has RTE_MAX_ETHPORTS ports (32 in Debian's build), one a plane
// of each process. The object with the other drivers (libmrc-ports.so) is a second copy with as many of its own: it is
// loaded when the first has none left. Single-threaded.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "mrc/port/port.hpp"

namespace mrc::soft {

/// Where libmrc-ports.so lies, as seen from a program in folder `program`: beside it, in the build tree, or installed.
/// The first folder that has it; `program` if none has.
std::string ports_folder(const std::string& program);

class PortPool {
 public:
  static constexpr std::size_t kPortsPerLayer = 32;

  /// A port's place in its layer; given back by the destructor. It must outlive the port.
  class Lease {
   public:
    Lease() = default;
    explicit Lease(std::size_t* used) : used_(used) { ++*used_; }
    Lease(Lease&& other) noexcept : used_(std::exchange(other.used_, nullptr)) {}
    Lease& operator=(Lease&& other) noexcept {
      std::swap(used_, other.used_);
      return *this;
    }
    ~Lease() {
      if (used_ != nullptr) --*used_;
    }

   private:
    std::size_t* used_ = nullptr;
  };

  /// `builtin` has been started. `folder`: of the second object; `taken`: ports that are used for something else, of
  /// either layer.
  PortPool(port::PortLayer& builtin, std::string folder, std::size_t taken, const port::EalOptions& eal);

  /// Memifs that can be open at a time.
  std::size_t size() const { return layers_ * (kPortsPerLayer - taken_); }
  Result<std::unique_ptr<port::Port>> open_memif(const port::MemifOptions& options, Lease& lease);

 private:
  Result<port::PortLayer*> layer(std::size_t index);

  port::PortLayer& builtin_;
  std::string folder_;
  std::size_t taken_;
  port::EalOptions eal_;
  std::size_t layers_ = 1;
  std::array<std::size_t, 2> used_{};
};

}  // namespace mrc::soft
