// SPDX-License-Identifier: BSD-2-Clause
// The one symbol that libfabric's loader looks for. It runs under libfabric's lock, inside the application's first
// fi_getinfo: it declares the knobs and hands over the descriptor, nothing else.
#include <rdma/fabric.h>

#include "fabric.hpp"
#include "info.hpp"
#include "log.hpp"
#include "params.hpp"

namespace mrc::prov {

namespace {
// Objects that the application left open stay: the library is never unmapped (-z nodelete), and exit frees the rest.
void cleanup() {}
}  // namespace

fi_provider provider = {kVersion, 0, {}, kName, getinfo, open_fabric, cleanup};

}  // namespace mrc::prov

extern "C" __attribute__((visibility("default"))) fi_provider* fi_prov_ini() {
  // At run time, so that one binary serves this libfabric and newer ones: libfabric skips a provider that is older
  // than what the application asks for.
  mrc::prov::provider.fi_version = fi_version();
  mrc::prov::define_params();
  return &mrc::prov::provider;
}
