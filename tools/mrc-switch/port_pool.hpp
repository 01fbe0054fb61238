// SPDX-License-Identifier: BSD-2-Clause
// Where the clients' memifs come from. One copy of DPDK has RTE_MAX_ETHPORTS ports (32 in Debian's build), one a plane
// of each process. The object with the other drivers (libmrc-ports.so) is a second copy with as many of its own: it is
// loaded when the first has none left. Single-threaded.
#pragma once

#include <array>
#include <cstddef>
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

  /// Places for one client's ports, all in one layer, as they share a socket; given back by the destructor. It must
  /// outlive the ports.
  class Lease {
   public:
    Lease() = default;
    Lease(port::PortLayer* layer, std::size_t* used, std::size_t ports) : layer_(layer), used_(used), ports_(ports) {
      *used_ += ports_;
    }
    Lease(Lease&& other) noexcept
        : layer_(other.layer_), used_(std::exchange(other.used_, nullptr)), ports_(other.ports_) {}
    Lease& operator=(Lease&& other) noexcept {
      std::swap(layer_, other.layer_);
      std::swap(used_, other.used_);
      std::swap(ports_, other.ports_);
      return *this;
    }
    ~Lease() {
      if (used_ != nullptr) *used_ -= ports_;
    }
    port::PortLayer& layer() const { return *layer_; }

   private:
    port::PortLayer* layer_ = nullptr;
    std::size_t* used_ = nullptr;
    std::size_t ports_ = 0;
  };

  /// `builtin` has been started. `folder`: of the second object; `taken`: ports that are used for something else, of
  /// either layer.
  PortPool(port::PortLayer& builtin, std::string folder, std::size_t taken, const port::EalOptions& eal);

  /// Clients of so many ports each that there is room for.
  std::size_t clients(std::size_t ports) const { return layers_ * ((kPortsPerLayer - taken_) / ports); }
  Result<Lease> take(std::size_t ports);

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
