// SPDX-License-Identifier: BSD-2-Clause
// Two copies of DPDK as one pool of ports.
#include "port_pool.hpp"

#include <errno.h>
#include <fmt/format.h>
#include <unistd.h>

#include "log.hpp"

namespace mrc::soft {
namespace {

constexpr const char* kObject = "/libmrc-ports.so";

}  // namespace

std::string ports_folder(const std::string& program) {
  for (const std::string& folder : {program, program + "/../../prov/mrc", std::string(MRC_PORTS_FOLDER)}) {
    if (::access((folder + kObject).c_str(), R_OK) == 0) return folder;
  }
  return program;
}

PortPool::PortPool(port::PortLayer& builtin, std::string folder, std::size_t taken, const port::EalOptions& eal)
    : builtin_(builtin), folder_(std::move(folder)), taken_(taken), eal_(eal) {
  if (::access((folder_ + kObject).c_str(), R_OK) == 0) layers_ = 2;
}

Result<port::PortLayer*> PortPool::layer(std::size_t index) {
  if (index == 0) return &builtin_;
  auto second = port::layer_for(port::PortKind::kAfXdp, folder_);
  if (!second) return second;
  if (auto started = (*second)->start(eal_); !started) return tl::make_unexpected(started.error());
  return second;
}

Result<PortPool::Lease> PortPool::take(std::size_t ports) {
  for (std::size_t i = 0; i < layers_; ++i) {
    if (used_[i] + ports > kPortsPerLayer - taken_) continue;
    auto from = layer(i);
    if (from) return Lease(*from, &used_[i], ports);
    layers_ = i;  // nothing will come of it later either
    log("room for {} clients only: {}", clients(ports), from.error().text);
  }
  return fail(ENOSPC,
              "all ports of this mrc-switch are in use, one a plane of each process; use fewer planes "
              "(FI_MRC_SWITCH_ARGS=\"--planes 1\") or fewer processes");
}

}  // namespace mrc::soft
