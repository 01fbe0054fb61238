// SPDX-License-Identifier: BSD-2-Clause
// mrc-switch's command line.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mrc/fabric/link.hpp"
#include "mrc/path/route.hpp"
#include "mrc/result.hpp"
#include "mrc/time.hpp"

namespace mrc::soft {

/// "10.77.0.0/24=1/0": these addresses sit behind T0 1, NIC 0.
struct RemoteRoute {
  std::uint32_t network = 0, mask = 0;  ///< host order
  path::Location location{};
};

struct Options {
  std::string socket;  ///< empty: the runtime folder's
  unsigned planes = 4;
  unsigned t1s = 4;  ///< per plane
  unsigned t0s = 2;
  fabric::Impairment impairment{.reorder_delay = microseconds(300)};  ///< of the whole fabric
  bool may_corrupt = false;                                           ///< clients must keep their iCRC on
  std::uint64_t seed = 1;
  std::uint64_t rate = 0;                  ///< of every link, bits per second; 0: as fast as it goes
  std::uint64_t t1_rate = 0;               ///< of the T0-T1 links, if it is another one
  Duration link_delay{};                   ///< of every link
  Duration base_rtt = milliseconds(1);     ///< what the queues' thresholds are made for, where there are rates
  Duration nic_queue = microseconds(500);  ///< what a NIC takes ahead of the wire, where its link has a rate
  std::vector<std::string> commands;       ///< of the fabric's language, at start
  std::string timeline;                    ///< file; starts with the first client
  std::uint32_t mtu = 9000;
  std::uint32_t ring_log2 = 9;
  std::uint32_t queue = 1024;        ///< frames that wait for one port's ring, before drops
  std::uint32_t max_clients = 0;     ///< 0: as many as DPDK's port limit allows
  std::vector<std::string> uplinks;  ///< plane 0, 1, …: this machine is a node of a real fabric
  std::vector<RemoteRoute> routes;
  path::Location location{};  ///< ours in the real fabric
  bool uplink_srv6 = false;
  wire::Ipv6Address gateway{};  ///< next hop of all uplinks; zero: destinations are on link
  bool stay = false;
  bool autostarted = false;
  Duration leave_after = seconds(5);
  Duration first_client_within = seconds(30);
  Duration sleep_after = microseconds(500);  ///< of idleness
  std::string log;                           ///< empty: stderr
  std::vector<std::string> ctl;              ///< words after `ctl`; not empty: be a control tool
};

/// Fills `out` from the command line. Returns false when the process should end with `exit_code` (help was printed, or
/// an error).
bool parse_options(int argc, char** argv, Options& out, int& exit_code);

Result<RemoteRoute> parse_route(const std::string& text);
Result<path::Location> parse_location(const std::string& text);
Result<std::uint32_t> parse_ipv4(const std::string& text);
Result<wire::Ipv6Address> parse_ipv6(const std::string& text);
/// "50us", "2ms", "1s", "300ns"; a bare number is microseconds; at most 10 s.
Result<Duration> parse_duration(const std::string& text);

}  // namespace mrc::soft
