// SPDX-License-Identifier: BSD-2-Clause
// From libfabric's ordering bits (fi_endpoint(3), msg_order) to what an operation has to ask for: its place in the
// queue at home, and waiting at the target. Records of a pair are acted on in one order anyway, so most bits cost
// nothing; only bytes that travel by themselves (large RMA) can be late, and only those who ask for a bit wait for
// them.
#pragma once

#include <rdma/fabric.h>
#include <rdma/fi_endpoint.h>

#include <cstdint>

#include "messenger.hpp"

namespace mrc::prov::msg {

class Order {
 public:
  explicit Order(std::uint64_t bits = 0) {
    const auto when = [bits](std::uint64_t any, std::uint8_t flag) {
      return (bits & any) != 0 ? flag : std::uint8_t{0};
    };
    const auto both = [](std::uint8_t one, std::uint8_t other) { return static_cast<std::uint8_t>(one | other); };
    send_ = both(when(FI_ORDER_SAW, kFlagAfterWrites), when(FI_ORDER_SAR, kFlagAfterReads));
    write_ = both(when(FI_ORDER_WAW | FI_ORDER_RMA_WAW, kFlagAfterWrites),
                  when(FI_ORDER_WAR | FI_ORDER_RMA_WAR, kFlagAfterReads));
    read_ = when(FI_ORDER_RAW | FI_ORDER_RMA_RAW, kFlagAfterWrites);
    write_keeps_place_ = (bits & FI_ORDER_WAS) != 0;
    read_keeps_place_ = (bits & FI_ORDER_RAS) != 0;
  }

  void apply(Transmit& t) const {
    switch (t.kind) {
      case OpKind::kSend:
        t.after = send_;
        break;
      case OpKind::kWrite:
        t.after = write_;
        t.keep_place = write_keeps_place_;
        break;
      case OpKind::kRead:
        t.after = read_;
        t.keep_place = read_keeps_place_;
        break;
      default:  // atomics read and write
        t.after = static_cast<std::uint8_t>(read_ | write_);
        t.keep_place = write_keeps_place_ || read_keeps_place_;
        break;
    }
  }

 private:
  std::uint8_t send_ = 0, write_ = 0, read_ = 0;
  bool write_keeps_place_ = false, read_keeps_place_ = false;
};

}  // namespace mrc::prov::msg
