// SPDX-License-Identifier: BSD-2-Clause
// The one place where acknowledgements, marks, trims, losses and time-outs become signals: to congestion control and to
// what is known of planes.
#include "mrc/transport/state.hpp"

namespace mrc::transport {

/// `rtt` < 0: this packet gave no sample.
void Core::State::signal_ack(Connection& c, const TxRecord& /*record*/, std::uint32_t bytes, Duration rtt,
                             Tick /*now*/) {
  c.cc.on_ack(bytes, rtt, false);
}

/// The packet that a SACK names was ECN-marked.
void Core::State::signal_ecn(Connection& c, unsigned plane, Tick /*now*/) {
  ++c.tallies[plane].marked;
  c.cc.on_ecn(c.mtu);
}

void Core::State::signal_trim(Connection& c, unsigned plane, std::uint32_t bytes, bool last_hop, Tick /*now*/) {
  ++c.tallies[plane].trimmed;
  c.cc.on_nack(bytes, last_hop);
}

void Core::State::signal_loss(Connection& c, unsigned plane, std::uint32_t bytes, Tick /*now*/) {
  ++c.tallies[plane].lost;
  c.cc.on_loss(bytes);
}

void Core::State::signal_timeout(Connection& c, Tick /*now*/) {
  c.cc.on_timeout();
}

/// After each received burst.
void Core::State::signal_batch_end(Connection& c, Tick now) {
  c.cc.on_batch_end(now);
}

}  // namespace mrc::transport
