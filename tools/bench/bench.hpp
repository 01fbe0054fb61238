// SPDX-License-Identifier: BSD-2-Clause
// One end of a measurement over libfabric, and the two kinds of measurement.
#pragma once

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_tagged.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace mrc::bench {

struct Options {
  bool pair = false, unexpected = false;
  std::vector<std::size_t> sizes;
  std::string rung;
  double seconds = 0.3;
  unsigned depth = 64;
};

/// An endpoint with its domain's objects; several share one domain. Errors are exceptions with the call's name.
class End {
 public:
  End();                          ///< fabric and domain of its own
  explicit End(const End* same);  ///< another endpoint of that domain
  ~End();
  End(const End&) = delete;
  End& operator=(const End&) = delete;

  std::vector<std::byte> name() const;
  fi_addr_t insert(const std::vector<std::byte>& name);
  /// False: -FI_EAGAIN.
  bool send(const void* data, std::size_t size, fi_addr_t to, bool inject);
  bool receive(void* data, std::size_t size);
  /// Completions since the last call, transmit and receive.
  struct Polled {
    unsigned sent = 0, received = 0;
  };
  Polled poll();
  std::size_t inject_size() const { return info_->tx_attr->inject_size; }

 private:
  void open();
  fi_info* info_ = nullptr;
  fid_fabric* fabric_ = nullptr;
  fid_domain* domain_ = nullptr;
  fid_av* av_ = nullptr;
  fid_cq* cq_ = nullptr;
  fid_ep* ep_ = nullptr;
  bool owner_ = true;
};

int run_alone(const Options&);  ///< alone.cpp
int run_pair(const Options&);   ///< pair.cpp

}  // namespace mrc::bench
