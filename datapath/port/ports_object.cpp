// SPDX-License-Identifier: BSD-2-Clause
// The second object's one exported function. C linkage; the table behind it belongs to this version of mrc only.
#include "datapath/port/layer.hpp"

extern "C" __attribute__((visibility("default"))) mrc::port::PortLayer* mrc_port_layer_v2() {
  static auto* const layer = new mrc::port::DpdkLayer(true);
  return layer;
}
