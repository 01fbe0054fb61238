// SPDX-License-Identifier: BSD-2-Clause
// What each counter means (counter_table.hpp).
#include "mrc/engine/counter_table.hpp"

namespace mrc::engine {
namespace {

constexpr const char* kPackets = "packets";
constexpr const char* kBytes = "bytes";
constexpr const char* kFrames = "frames";
constexpr const char* kTimes = "times";
constexpr const char* kNanoseconds = "ns";
constexpr const char* kText = "text";
constexpr const char* kNumber = "number";
constexpr const char* kYesNo = "true/false";

using transport::Counters;
constexpr Counter<Counters> kTransport[] = {
    {{"tx_data", kPackets, "data packets sent, retransmissions included"}, &Counters::tx_data},
    {{"tx_retransmit", kPackets, "of these, packets sent again"}, &Counters::tx_retransmit},
    {{"tx_sack", kPackets, "SACKs sent (which packets of the peer arrived)"}, &Counters::tx_sack},
    {{"tx_nack", kPackets, "NACKs sent (a packet of the peer came trimmed or could not be taken)"}, &Counters::tx_nack},
    {{"tx_ack", kPackets, "semantic ACKs and NAKs sent (0xD1: a message took effect or was refused)"},
     &Counters::tx_ack},
    {{"tx_probe", kPackets, "reliability probes sent (what arrived of the tail?)"}, &Counters::tx_probe},
    {{"tx_endpoint", kPackets, "endpoint requests and responses sent: set-up, close, EV and MTU probes, port status"},
     &Counters::tx_endpoint},
    {{"rx_data", kPackets, "data packets received that were new"}, &Counters::rx_data},
    {{"rx_duplicate", kPackets, "data packets received that had arrived before"}, &Counters::rx_duplicate},
    {{"rx_out_of_window", kPackets, "data packets dropped: their number is outside the receive window"},
     &Counters::rx_out_of_window},
    {{"rx_sack", kPackets, "SACKs received"}, &Counters::rx_sack},
    {{"rx_nack", kPackets, "NACKs received"}, &Counters::rx_nack},
    {{"rx_ack", kPackets, "semantic ACKs and NAKs received"}, &Counters::rx_ack},
    {{"rx_probe", kPackets, "reliability probes received"}, &Counters::rx_probe},
    {{"rx_endpoint", kPackets, "endpoint requests and responses received"}, &Counters::rx_endpoint},
    {{"rx_trimmed", kPackets, "data packets that a switch trimmed to their headers"}, &Counters::rx_trimmed},
    {{"rx_ecn", kPackets, "data packets that a switch ECN-marked"}, &Counters::rx_ecn},
    {{"rx_no_endpoint", kPackets, "packets dropped: nobody here has their inner destination"},
     &Counters::rx_no_endpoint},
    {{"rx_no_connection", kPackets, "packets dropped: QPN, source or incarnation fit no connection"},
     &Counters::rx_no_connection},
    {{"rx_refused", kPackets, "set-up requests refused: version, authenticator (job key), or no room"},
     &Counters::rx_refused},
    {{"tail_timeouts", kTimes, "the oldest packets were sent again because nothing was heard of them (before any rto)"},
     &Counters::tail_timeouts},
    {{"tail_copies", kPackets, "packets sent again for that reason (also in tx_retransmit)"}, &Counters::tail_copies},
    {{"retries_exhausted", kTimes, "a connection used up its linear and exponential time-outs"},
     &Counters::retries_exhausted},
    {{"nacks_dropped", kPackets, "NACKs not sent for want of room (the sender finds the gap itself)"},
     &Counters::nacks_dropped},
    {{"tx_nack_window", kPackets, "NACKs PSN_OOR_WINDOW sent: packets beyond our receive window"},
     &Counters::tx_nack_window},
    {{"tx_nack_resource", kPackets, "NACKs NO_RESOURCE sent: no place for a WriteImm or a NAK"},
     &Counters::tx_nack_resource},
    {{"tx_nack_fatal", kPackets, "NACKs UNEXP_EVENT sent: the peer broke the protocol"}, &Counters::tx_nack_fatal},
    {{"rx_nack_window", kPackets, "NACKs NO_BITMAP and PSN_OOR_WINDOW received"}, &Counters::rx_nack_window},
    {{"rx_nack_resource", kPackets, "NACKs NO_PKT_BUFFER and NO_RESOURCE received"}, &Counters::rx_nack_resource},
    {{"rx_nack_fatal", kPackets, "NACKs UNEXP_EVENT received: the connection failed"}, &Counters::rx_nack_fatal},
    {{"rx_below_window", kPackets, "duplicates below the receive window, acknowledged again (also in rx_duplicate)"},
     &Counters::rx_below_window},
    {{"rx_immediate", kTimes, "WriteImms of peers delivered, in order"}, &Counters::rx_immediate},
    {{"writes_refused", kTimes, "writes of peers that were NAKed (no such key, bound or right)"},
     &Counters::writes_refused},
    {{"rto", kTimes, "retransmission time-outs of connections"}, &Counters::rto},
    {{"spurious", kPackets, "packets declared lost that had arrived after all"}, &Counters::spurious},
    {{"ev_blamed", kTimes, "an EV became ASSUMED_BAD because of losses"}, &Counters::ev_blamed},
    {{"ev_restored", kTimes, "an ASSUMED_BAD EV became GOOD again (probes answered, or the blame was wrong)"},
     &Counters::ev_restored},
    {{"ev_replaced", kTimes, "a bad EV gave its seat to a backup of its plane"}, &Counters::ev_replaced},
    {{"plane_suspected", kTimes, "a connection found a plane to lose packets on all its paths, and left it"},
     &Counters::plane_suspected},
    {{"plane_degraded", kTimes, "loop-back probes found that our own NIC-T0 link of a plane loses packets"},
     &Counters::plane_degraded},
    {{"port_status_sent", kPackets, "port status sent: which of our ports are up, which lose packets"},
     &Counters::port_status_sent},
    {{"port_status_received", kPackets, "port status received from peers"}, &Counters::port_status_received},
    {{"loopback_probes", kPackets, "probes sent to ourselves by way of our T0s"}, &Counters::loopback_probes},
    {{"loopback_lost", kPackets, "of these, probes that did not come back"}, &Counters::loopback_lost},
    {{"connects", kTimes, "connections established"}, &Counters::connects},
    {{"accepts", kTimes, "of these, opened by the peer"}, &Counters::accepts},
    {{"peers_dead", kTimes, "connections that failed because the peer is gone or silent"}, &Counters::peers_dead},
    {{"tx_bytes", kBytes, "payload bytes sent for the first time"}, &Counters::tx_bytes},
    {{"rx_bytes", kBytes, "payload bytes placed"}, &Counters::rx_bytes},
};

using D = DriverCounters;
constexpr Counter<D> kDriver[] = {
    {{"rx_frames", kFrames, "frames that the ports handed over"}, &D::rx_frames},
    {{"tx_frames", kFrames, "frames that the ports took"}, &D::tx_frames},
    {{"loop_frames", kPackets, "packets between endpoints of this process, which reach no port"}, &D::loop_frames},
    {{"rx_bad_icrc", kFrames, "dropped: the iCRC does not fit, bits changed on the way"}, &D::rx_bad_icrc},
    {{"rx_not_ipv6", kFrames, "dropped: another ethertype or IP version"}, &D::rx_not_ipv6},
    {{"rx_not_ours", kFrames, "dropped: IPv6 for another node, or not UDP"}, &D::rx_not_ours},
    {{"rx_neighbour", kFrames, "neighbour solicitations and advertisements received"}, &D::rx_neighbour},
    {{"rx_too_long", kFrames, "dropped: longer than the port's MTU allows"}, &D::rx_too_long},
    {{"rx_runt", kFrames, "dropped: too short for Ethernet and IPv6"}, &D::rx_runt},
    {{"rx_cut_off", kFrames, "dropped: shorter than the IPv6 header says, and not trimmed"}, &D::rx_cut_off},
    {{"tx_no_neighbour", kPackets, "dropped: the next hop's MAC address is not known yet (sent again later)"},
     &D::tx_no_neighbour},
    {{"tx_unfit", kPackets, "dropped: longer than the port's MTU, or contradictory"}, &D::tx_unfit},
    {{"tx_no_room", kPackets, "dropped: no buffer, or the loop-back ring was full"}, &D::tx_no_room},
    {{"polls", kTimes, "passes of the poll loop"}, &D::polls},
    {{"empty_polls", kTimes, "of these, passes that found nothing to do"}, &D::empty_polls},
    {{"yields", kTimes, "the CPU was offered to others after an empty pass"}, &D::yields},
    {{"service_wakeups", kTimes, "the service thread did the application's polling"}, &D::service_wakeups},
    {{"restarts", kTimes, "attached again after mrc-switch had died"}, &D::restarts},
};

using P = port::PortCounters;
constexpr Counter<P> kPort[] = {
    {{"rx_frames", kFrames, "frames received"}, &P::rx_frames},
    {{"rx_bytes", kBytes, "bytes of these, Ethernet header included"}, &P::rx_bytes},
    {{"tx_frames", kFrames, "frames sent"}, &P::tx_frames},
    {{"tx_bytes", kBytes, "bytes of these, Ethernet header included"}, &P::tx_bytes},
    {{"tx_dropped", kFrames, "frames that the driver gave back or lost"}, &P::tx_dropped},
    {{"rx_dropped", kFrames, "frames that the driver dropped on receipt"}, &P::rx_dropped},
};

using L = transport::PoolLevels;
constexpr Counter<L, std::uint32_t> kPools[] = {
    {{"messages", kNumber, "free records of outstanding writes"}, &L::messages},
    {{"segments", kNumber, "free segments of 64 packets in flight"}, &L::segments},
    {{"suspects", kNumber, "free records of packets under suspicion"}, &L::suspects},
    {{"connections", kNumber, "free connections"}, &L::connections},
};

constexpr CounterText kProcess[] = {
    {"pid", kNumber, "process"},
    {"ipv4", kText, "the address that this process goes by"},
    {"attachment", kText, "how it reaches the fabric"},
    {"icrc", kYesNo, "whether packets carry an iCRC"},
    {"distinct_evs", "EVs", "how many entropy values packets were sent with (tx) and came with (rx); exact to 2 %"},
};

constexpr CounterText kPlane[] = {
    {"plane", kNumber, "index of the plane"},
    {"up", kYesNo, "the link is up, and mrc-switch (if any) says that its end is"},
    {"tx_packets", kPackets, "packets of any kind that the transport sent on it"},
    {"rx_packets", kPackets, "packets of any kind that came on it"},
    {"tx_bytes", kBytes, "payload bytes sent on it, retransmissions included"},
    {"rx_bytes", kBytes, "payload bytes placed from it"},
    {"port", "", "its port: name, mtu (L3 bytes), and the counters of a port"},
};

constexpr CounterText kConnection[] = {
    {"id", kNumber, "what /mrc/connection and /mrc/evs are asked with"},
    {"local", kNumber, "our endpoint's port number"},
    {"peer", kText, "IPv4 address and port of the peer's endpoint"},
    {"phase", kText, "idle, connecting, established, closing or closed"},
    {"established", kYesNo, "phase is established"},
    {"remote_t0", kNumber, "T0 switch above the peer"},
    {"remote_nic", kNumber, "the peer's NIC below that T0"},
    {"payload_mtu", kBytes, "largest payload of one packet"},
    {"una", kNumber, "oldest packet number (PSN, continued) that is not SACKed"},
    {"next", kNumber, "packet number that is sent next"},
    {"rx_next", kNumber, "lowest packet number of the peer that has not arrived"},
    {"window", kPackets, "next may be so far ahead of una: the smaller of our window and the peer's"},
    {"inflight", kPackets, "sent, neither SACKed nor declared lost"},
    {"inflight_bytes", kBytes, "payload of these"},
    {"lost_packets", kPackets, "declared lost, waiting to be sent again"},
    {"messages", kNumber, "writes accepted and not completed"},
    {"cc", kText, "congestion control in use: fixed, nscc or swift"},
    {"cwnd", kBytes, "congestion window"},
    {"cwnd_max", kBytes, "what it may grow to"},
    {"cc_base_rtt_ns", kNanoseconds, "NSCC: round trip without queues; 0, like the next three, with other controllers"},
    {"cc_target_ns", kNanoseconds, "NSCC: queueing delay that it aims at"},
    {"cc_delay_ns", kNanoseconds, "NSCC: queueing delay of the last sample"},
    {"cc_average_ns", kNanoseconds, "NSCC: average queueing delay"},
    {"penalty", "1/128", "what we, as the receiver, demand that the peer takes off its window"},
    {"srtt_ns", kNanoseconds, "smoothed round-trip time; 0 before the first sample, like the next two"},
    {"rtt_var_ns", kNanoseconds, "its variation"},
    {"rtt_min_ns", kNanoseconds, "shortest round trip seen"},
    {"rto_ns", kNanoseconds, "retransmission time-out now, back-off included"},
    {"backoff", kNumber, "time-outs in a row"},
    {"tail_probes", kNumber, "unanswered tail probes in a row"},
    {"ev_states", "", "EVs by state, all planes"},
    {"planes", "", "one entry a plane, see below"},
    {"evs", "", "FI_MRC_STATS only: every EV with value, plane and state"},
};

constexpr CounterText kConnectionPlane[] = {
    {"plane", kNumber, "index of the plane"},
    {"up", kYesNo, "our own link of the plane"},
    {"tx_packets", kPackets,
     "data packets sent on it, retransmissions included; 32 bits that wrap, like the next four"},
    {"retransmitted", kPackets, "of these, retransmissions"},
    {"lost", kPackets, "packets sent on it that were declared lost"},
    {"in_use", kYesNo, "data uses it; false: down, or its link to a NIC is suspect"},
    {"weight", "1/1000", "how much of the window it may carry, compared with the best plane (1000)"},
    {"inflight_bytes", kBytes, "payload in flight on it"},
    {"marked", kTimes, "ECN marks that the peer told of"},
    {"trimmed", kTimes, "trimmed packets that the peer told of"},
    {"reordering_ns", kNanoseconds, "how much later than its successors a packet arrives (estimate)"},
    {"ev_states", "", "EVs by state"},
};

constexpr CounterText kEvStates[] = {
    {"good", "EVs", "in use"},
    {"skip", "EVs", "passed over for about one rotation: ECN-marked or trimmed"},
    {"assumed_bad", "EVs", "not in use, probed: packets were lost"},
    {"denied", "EVs", "not in use: the operator's denylist covers them"},
};

constexpr TelemetryText kTelemetry[] = {
    {"/mrc/info", "Who this process is and how it is attached. Takes no parameters"},
    {"/mrc/counters", "Counters of transport, driver and pools. Takes no parameters"},
    {"/mrc/ports", "Counters of each port, by plane. Takes no parameters"},
    {"/mrc/planes", "Counters of each plane. Takes no parameters"},
    {"/mrc/connections", "Ids, peers and phases of up to 100 connections. Parameter: first id (default 0)"},
    {"/mrc/connection", "Everything about one connection. Parameter: its id"},
    {"/mrc/evs", "EV values of a connection by plane and state. Parameter: its id"},
};

}  // namespace

std::span<const Counter<transport::Counters>> transport_counters() {
  return kTransport;
}
std::span<const Counter<DriverCounters>> driver_counters() {
  return kDriver;
}
std::span<const Counter<port::PortCounters>> port_counters() {
  return kPort;
}
std::span<const Counter<transport::PoolLevels, std::uint32_t>> pool_levels() {
  return kPools;
}
std::span<const CounterText> process_texts() {
  return kProcess;
}
std::span<const CounterText> plane_texts() {
  return kPlane;
}
std::span<const CounterText> connection_texts() {
  return kConnection;
}
std::span<const CounterText> connection_plane_texts() {
  return kConnectionPlane;
}
std::span<const CounterText> ev_state_texts() {
  return kEvStates;
}
std::span<const TelemetryText> telemetry_texts() {
  return kTelemetry;
}

}  // namespace mrc::engine
